//! Samples and waits of a selection, one by one in the order of time.

use crate::base::units::counted;
use crate::profile::{Sample, TaskId};
use crate::report::model::activity::Activity;
use crate::report::model::group::{GroupKey, key_of};
use crate::report::options::TimeRange;
use crate::report::query::filter::SampleFilter;
use crate::report::query::selection::Selection;
use crate::report::waits::reasons::Reasons;
use rustc_hash::FxHashMap;

/// The groups of a selection by what their samples have in common.
pub(super) struct GroupIndex<'s> {
    groups: FxHashMap<GroupKey, u32>,
    reasons: &'s Reasons,
    filter: &'s SampleFilter,
}

impl<'s> GroupIndex<'s> {
    pub(super) fn of(selection: &'s Selection<'_>) -> Self {
        let groups = (0..).zip(selection.groups()).map(|(index, group)| (group.key(), index)).collect();
        GroupIndex { groups, reasons: selection.reasons, filter: selection.sample_filter() }
    }

    /// Index of the group of a sample; `None` if filters on functions drop it.
    pub(super) fn group_of(&self, sample: &Sample) -> Option<u32> {
        self.groups.get(&key_of(sample, self.reasons, self.filter)).copied()
    }
}

/// A sample, or a wait placed at its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimedSample {
    /// Time since the start of the recording, ns.
    pub(super) time_ns: u64,
    /// Length of a wait within the selected time range, ns; 0 for samples.
    pub(super) length_ns: u64,
    /// Weight, in the event's unit.
    pub(super) weight: u64,
    /// Number of samples or waits it is weighted as.
    pub(super) count: u64,
    /// Index of the sample in its event.
    row: usize,
    /// Index of its group in the selection.
    pub(super) group: u32,
    /// CPU it was taken on.
    pub(super) cpu: u16,
    pub(super) is_wait: bool,
}

/// Samples and waits of a selection.
#[derive(Debug, Default)]
pub(super) struct InTime {
    /// In the order of time.
    pub(super) moments: Vec<TimedSample>,
    /// Number of waits that are weighted as more than themselves because others were dropped by sampling.
    pub(super) thinned: u64,
    /// Number of samples that are sums of several, of which only the bucket of time is known.
    pub(super) merged: u64,
}

impl InTime {
    /// The samples and waits of `selection` that pass all filters.
    pub(super) fn new(selection: &Selection<'_>, time: TimeRange) -> Self {
        let groups = GroupIndex::of(selection);
        let mut in_time = InTime::default();
        in_time.moments.reserve(usize::try_from(selection.total.samples).unwrap_or(0).min(MOST_RESERVED));
        selection.for_each_sample(|row, sample, amount| {
            let Some(group) = groups.group_of(sample) else { return };
            let (mut time_ns, mut length_ns) = (sample.time_ns, 0);
            if let Some(wait) = &sample.wait {
                let end_ns = sample.time_ns.saturating_add(wait.duration_ns);
                time_ns = time.from_ns.map_or(time_ns, |from| time_ns.max(from));
                length_ns = time.to_ns.map_or(end_ns, |to| end_ns.min(to)).saturating_sub(time_ns);
                in_time.thinned += u64::from(amount.weight > length_ns);
            }
            in_time.merged += u64::from(sample.merged.is_some());
            let (is_wait, cpu) = (sample.wait.is_some(), sample.cpu);
            let (weight, count) = (amount.weight, amount.count());
            in_time.moments.push(TimedSample { time_ns, length_ns, weight, count, row, group, cpu, is_wait });
        });
        in_time.moments.sort_by_key(|moment| (moment.time_ns, moment.is_wait, moment.row));
        in_time
    }

    /// Returns the differences to reports where lengths must be real times, for people.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> + use<> {
        let thinned = (self.thinned > 0).then(|| {
            let waits = counted(self.thinned, "wait");
            format!("{waits} kept for several each: the lengths add up to less than the report's total")
        });
        thinned.into_iter().chain(self.merged_note())
    }

    /// Note that some samples are not at their own times.
    pub(super) fn merged_note(&self) -> Option<String> {
        let rows = (self.merged > 0).then(|| counted(self.merged, "sample"))?;
        Some(format!("{rows} are several in one, placed at the start of their time bucket"))
    }
}

/// Limit on the entries to reserve memory for at once.
const MOST_RESERVED: usize = 1 << 22;

impl TimedSample {
    /// The sample of this entry.
    pub(super) fn sample(&self, selection: &Selection<'_>) -> Option<Sample> {
        let event = if self.is_wait { selection.shown.waits } else { selection.shown.sampled }?;
        Some(event.sample(self.row))
    }

    /// The thread of this entry.
    pub(super) fn task(&self, selection: &Selection<'_>) -> TaskId {
        selection.groups()[self.group as usize].task
    }

    /// Activity of the thread.
    pub(super) fn activity(&self, selection: &Selection<'_>) -> Activity {
        selection.groups()[self.group as usize].activity
    }
}
