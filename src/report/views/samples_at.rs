//! The samples that make up a number: their thread, time, length and stack.

use crate::base::failure::Failure;
use crate::report::analysis::Analysis;
use crate::report::model::activity::Activity;
use crate::report::model::amount::Amount;
use crate::report::model::group::GroupKey;
use crate::report::model::label::Label;
use crate::report::model::label_key::SourceLine;
use crate::report::options::CommonOptions;
use crate::report::query::selection::Selection;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A step of the stack of a sample, with everything known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StackStep {
    /// Name and kind of the function.
    pub(crate) label: Label,
    /// Whether it is inlined into the step before.
    pub(crate) is_inlined: bool,
    /// Whether it is kernel code.
    pub(crate) is_kernel: bool,
    /// Source line.
    pub(crate) source: Option<SourceLine>,
}

/// One sample or wait, or several with the same stack of which only the sum is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SampleAt {
    /// Start of the sample or wait, ns since the start of the recording; for several, the start of their bucket.
    pub(crate) time_ns: u64,
    /// Length of the bucket, ns; 0 for a single sample.
    pub(crate) bucket_ns: u64,
    /// Number of samples.
    pub(crate) samples: u64,
    /// Name of the thread. Foreign text.
    pub(crate) thread: String,
    /// Thread id.
    pub(crate) tid: u32,
    /// On-CPU, or the reason of the wait.
    pub(crate) activity: Activity,
    /// Weight, in the event's unit; for a wait, of the part in the time range.
    pub(crate) weight: u64,
    /// Full length of a wait, ns; the mean if there are several.
    pub(crate) duration_ns: Option<u64>,
    /// Index into [`SamplesAt::stacks`].
    pub(crate) stack: usize,
}

/// Samples that pass the filters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SamplesAt {
    /// Amount of all of them.
    pub(crate) total: Amount,
    /// The samples with the largest weights; the newest among equal weights.
    pub(crate) samples: Vec<SampleAt>,
    /// Number of further samples that are not listed.
    pub(crate) left_out: u64,
    /// Stacks of the samples, root first.
    pub(crate) stacks: Vec<Vec<StackStep>>,
}

/// Sort key of samples: largest first, then newest, then in the order of the recording.
type SampleOrder = (u64, u64, Reverse<(bool, usize)>);

impl SamplesAt {
    /// At most `most` samples of `recording` that pass the filters of `options`, including the time range.
    ///
    /// # Errors
    ///
    /// Returns a usage error for a bad pattern; status 3 when the recording lacks the metric's data.
    pub fn new(recording: &Analysis, options: &CommonOptions, most: usize) -> Result<Self, Failure> {
        let selection = Selection::new(recording, recording.shown(options.metric)?, options)?;
        let groups: FxHashMap<GroupKey, usize> =
            (selection.groups().iter().enumerate()).map(|(index, group)| (group.key(), index)).collect();
        let mut count = 0u64;
        let mut largest: BinaryHeap<Reverse<(SampleOrder, usize)>> = BinaryHeap::new();
        selection.for_each_sample(|index, sample, amount| {
            let Some(group) = groups.get(&selection.key_of(sample)) else { return };
            count += 1;
            let order = (amount.weight, sample.time_ns, Reverse((sample.wait.is_some(), index)));
            // Most samples have less weight than all of those kept so far.
            if largest.len() >= most && largest.peek().is_none_or(|Reverse((least, _))| order < *least) {
                return;
            }
            largest.push(Reverse((order, *group)));
            if largest.len() > most {
                largest.pop();
            }
        });
        let mut stacks = Vec::new();
        let mut stack_of_group: FxHashMap<usize, usize> = FxHashMap::default();
        let samples: Vec<SampleAt> = (largest.into_sorted_vec().into_iter())
            .filter_map(|Reverse(((weight, time_ns, Reverse((is_wait, index))), group))| {
                let event = if is_wait { selection.shown.waits } else { selection.shown.sampled }?;
                let sample = event.sample(index);
                let stack = *stack_of_group.entry(group).or_insert_with(|| {
                    stacks.push(steps(&selection, group));
                    stacks.len() - 1
                });
                let task = recording.profile.tables.task(sample.task);
                Some(SampleAt {
                    time_ns,
                    bucket_ns: sample.merged.map_or(0, |merged| merged.span_ns),
                    samples: sample.merged.map_or(1, |merged| merged.samples),
                    thread: recording.profile.tables.string(task.comm).to_owned(),
                    tid: task.tid,
                    activity: selection.reasons.activity(&sample),
                    weight,
                    duration_ns: sample.wait.map(|wait| wait.duration_ns),
                    stack,
                })
            })
            .collect();
        let left_out = count - samples.len() as u64;
        Ok(SamplesAt { total: selection.total, samples, left_out, stacks })
    }
}

fn steps(selection: &Selection<'_>, group: usize) -> Vec<StackStep> {
    let labels = &selection.labels;
    let path = selection.path_of(group);
    (path.into_iter())
        .map(|step| {
            let place = labels.places()[step.place.index()];
            let file = selection.profile.tables.string(place.file);
            let source = (!file.is_empty()).then(|| SourceLine { file: file.to_owned(), line: place.line });
            StackStep {
                label: labels.get(step.label).clone(),
                is_inlined: step.is_inlined,
                is_kernel: step.is_kernel,
                source,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Reason;
    use crate::report::tests::fixture_waits::{MS, waiting};
    use crate::report::{FilterOptions, Metric, NameStyle, TimeRange};

    fn options(metric: Metric, from_ms: u64, to_ms: u64) -> CommonOptions {
        let time = TimeRange { from_ns: Some(from_ms * MS), to_ns: Some(to_ms * MS) };
        let filter = FilterOptions { time, ..FilterOptions::default() };
        CommonOptions { metric: Some(metric), filter, ..CommonOptions::default() }
    }

    fn names(samples_at: &SamplesAt, sample: usize) -> Vec<String> {
        let steps = &samples_at.stacks[samples_at.samples[sample].stack];
        steps.iter().map(|step| step.label.text(NameStyle::Short)).collect()
    }

    #[test]
    fn the_longest_waits_of_a_range_come_first() {
        let recording = waiting();
        let options = options(Metric::OFF_CPU, 9_000, 9_020);
        let samples_at = SamplesAt::new(&recording, &options, 3).unwrap();
        // Only the part in the range counts, not the whole wait.
        let found: Vec<_> = (samples_at.samples.iter())
            .map(|sample| (&*sample.thread, sample.activity.reason(), sample.weight / MS, sample.duration_ns))
            .collect();
        // Among equal parts, the wait that began last.
        let disk = ("writer", Some(Reason::Disk), 20, Some(25 * MS));
        let net = ("writer", Some(Reason::Network), 20, Some(50 * MS));
        assert!(found.contains(&disk) && found.contains(&net), "{found:?}");
        assert!(found.iter().all(|found| found.2 == 20), "{found:?}");
        let at = found.iter().position(|found| *found == disk).unwrap();
        assert_eq!(names(&samples_at, at)[1..4], ["writer_main", "write_all", "fsync"].map(String::from));
        assert_eq!(samples_at.total, recording.select(&options).unwrap().total);
    }

    #[test]
    fn of_equal_samples_the_newest_come_first() {
        let recording = waiting();
        let samples_at = SamplesAt::new(&recording, &options(Metric::ON_CPU, 100, 200), 10).unwrap();
        assert_eq!(samples_at.samples.len(), 10);
        assert_eq!((samples_at.total.samples, samples_at.left_out), (100, 90));
        let times: Vec<u64> = samples_at.samples.iter().map(|sample| sample.time_ns / MS).collect();
        assert_eq!(times, (190..200).rev().collect::<Vec<_>>());
        assert_eq!(samples_at.stacks.len(), 1);
        assert_eq!(names(&samples_at, 0).last().unwrap(), "compress");
        let source = samples_at.stacks[0].last().unwrap().source.as_ref().unwrap();
        assert_eq!(source.text(NameStyle::Short), "ingest.c:18");
    }

    #[test]
    fn samples_that_a_filter_drops_are_not_behind_anything() {
        let recording = waiting();
        let mut options = options(Metric::WALL, 0, 10_000);
        options.filter.focus = Some("pool_get".into());
        let samples_at = SamplesAt::new(&recording, &options, usize::MAX).unwrap();
        assert_eq!(samples_at.samples.len(), 360);
        assert!(samples_at.samples.iter().all(|sample| sample.activity.reason() == Some(Reason::Lock)));
        assert!(SamplesAt::new(&recording, &options, 0).unwrap().samples.is_empty());
    }
}
