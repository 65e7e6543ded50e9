//! Equal samples, counted together.
//!
//! A million samples usually hold some ten thousand distinct (thread, stack, outcome, activity). They are
//! counted first; names, trees and tables only ever see the distinct ones.

use super::amount::Amount;
use super::label::Step;
use super::metric::Shown;
use crate::profile::{Event, Outcome, Profile, Sample, StackId, StringId, TaskId};
use crate::report::model::activity::Activity;
use crate::report::options::FilterOptions;
use crate::report::query::filter::SampleFilter;
use crate::report::waits::reasons;
use crate::report::waits::reasons::Reasons;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Equal samples, counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    /// The thread.
    pub(crate) task: TaskId,
    /// The stack; `None` when nothing is known of it.
    pub(crate) stack: Option<StackId>,
    /// How the walk of the user stack ended.
    pub(crate) outcome: Outcome,
    /// Activity of the thread.
    pub(crate) activity: Activity,
    /// Value of the label that rows are grouped by, if they are by one and the samples have it.
    pub(crate) value: Option<StringId>,
    /// The sum of the samples.
    pub(crate) amount: Amount,
}

impl Group {
    /// What its steps follow from, unless they are of its thread.
    pub(crate) fn path_key(&self) -> (Option<StackId>, Outcome, Activity, Option<StringId>) {
        (self.stack, self.outcome, self.activity, self.value)
    }

    /// What its samples have in common.
    pub(crate) fn key(&self) -> GroupKey {
        (self.task, self.stack, self.outcome, self.activity, self.value)
    }
}

/// Neighbours in the list of groups that have the same steps: one for each thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SamePath {
    /// Their place in the list.
    pub(crate) range: Range<usize>,
    /// The sum of them all.
    pub(crate) amount: Amount,
    /// Stands before the outermost frame, or for the whole stack.
    pub(crate) root: Option<Step>,
    /// Stands after the innermost frame: why the threads waited.
    pub(crate) tail: Option<Step>,
}

impl Amount {
    /// The sum over `groups`.
    pub(crate) fn of(groups: &[Group]) -> Self {
        let mut sum = Amount::default();
        for group in groups {
            sum.add(group.amount);
        }
        sum
    }
}

/// Key that equal samples share.
pub(crate) type GroupKey = (TaskId, Option<StackId>, Outcome, Activity, Option<StringId>);

/// The key of a sample whose label, if samples are grouped by one, is what `filter` says.
pub(crate) fn key_of(sample: &Sample, reasons: &Reasons, filter: &SampleFilter) -> GroupKey {
    (sample.task, sample.stack, sample.outcome, reasons.activity(sample), filter.value(sample.labels))
}

/// All running and waiting time of `profile`, whose waits have these reasons.
pub(crate) fn all_groups(profile: &Profile, reasons: &Reasons) -> Vec<Group> {
    // Without patterns there is nothing that could be wrong with the options.
    let filter = SampleFilter::new(&FilterOptions::default(), &profile.tables);
    filter.map_or(Vec::new(), |filter| count_equal(profile, reasons, &Shown::time_of(profile), &filter))
}

/// Fewer samples than this are not worth a thread.
const LEAST_PART: usize = 100_000;

/// The rows of `event` in parts that are worth a thread each.
pub(crate) fn parts_of(event: &Event) -> Vec<Range<usize>> {
    let parts = (event.len() / LEAST_PART).clamp(1, rayon::current_num_threads());
    let length = event.len().div_ceil(parts).max(1);
    (0..event.len()).step_by(length).map(|from| from..event.len().min(from + length)).collect()
}

/// Everything in `event`.
pub(crate) fn amount_of(event: &Event) -> Amount {
    let sum = |rows: Range<usize>| {
        let mut sum = Amount::default();
        rows.for_each(|row| sum.add(Amount::of_sample(&event.sample(row))));
        sum
    };
    let add = |mut sum: Amount, other: Amount| {
        sum.add(other);
        sum
    };
    parts_of(event).into_par_iter().map(sum).reduce(Amount::default, add)
}

/// A [`GroupKey`] of samples that ran, without room between its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PackedKey {
    /// Task, and stack plus 1 or 0 for none.
    task_and_stack: [u32; 2],
    outcome: Outcome,
}

impl PackedKey {
    fn of(sample: &Sample) -> Self {
        let stack = sample.stack.map_or(0, |stack| stack.0.saturating_add(1));
        PackedKey { task_and_stack: [sample.task.0, stack], outcome: sample.outcome }
    }

    fn key(self) -> GroupKey {
        let [task, stack] = self.task_and_stack;
        (TaskId(task), stack.checked_sub(1).map(StackId), self.outcome, Activity::Running, None)
    }
}

/// Counts equal samples of a part of `event`.
///
/// Most samples of running time have the weight of the sampling period. Of those only the number is kept, in a table of its
/// own: that is a fraction of the memory, and the time goes into waiting for memory.
fn count_part(
    event: &Event,
    rows: Range<usize>,
    reasons: &Reasons,
    filter: &SampleFilter,
) -> FxHashMap<GroupKey, Amount> {
    let mut counts: FxHashMap<GroupKey, Amount> = FxHashMap::default();
    let mut usual: FxHashMap<PackedKey, u32> = FxHashMap::default();
    let usual_amount = Amount::sample(event.info().period);
    for sample in rows.map(|row| event.sample(row)) {
        let Some(amount) = filter.amount(&sample) else { continue };
        if amount == usual_amount && sample.wait.is_none() && filter.value(sample.labels).is_none() {
            *usual.entry(PackedKey::of(&sample)).or_default() += 1;
        } else {
            counts.entry(key_of(&sample, reasons, filter)).or_default().add(amount);
        }
    }
    counts.reserve(usual.len());
    for (packed, samples) in usual {
        counts.entry(packed.key()).or_default().add(usual_amount.times(samples));
    }
    counts
}

/// Counts equal samples of `shown` that pass `filter`, in the order of (stack, outcome, activity, task).
pub(crate) fn count_equal(
    profile: &Profile,
    reasons: &Reasons,
    shown: &Shown<'_>,
    filter: &SampleFilter,
) -> Vec<Group> {
    let mut counts: FxHashMap<GroupKey, Amount> = FxHashMap::default();
    for event in shown.events() {
        let parts: Vec<FxHashMap<GroupKey, Amount>> =
            parts_of(event).into_par_iter().map(|part| count_part(event, part, reasons, filter)).collect();
        for part in parts {
            if counts.is_empty() {
                counts = part;
                continue;
            }
            for (key, amount) in part {
                counts.entry(key).or_default().add(amount);
            }
        }
    }
    if shown.waits.is_some() {
        for time in &profile.thread_times {
            for short in &time.short_waits {
                if let Some(amount) = filter.short_waits(time, short) {
                    let activity = Activity::WaitingShortly(reasons::of_short(short.reason));
                    let key = (time.task, None, Outcome::NoUserStack, activity, None);
                    counts.entry(key).or_default().add(amount);
                }
            }
        }
    }
    let mut groups: Vec<Group> = (counts.into_iter())
        .map(|((task, stack, outcome, activity, value), amount)| Group {
            task,
            stack,
            outcome,
            activity,
            value,
            amount,
        })
        .collect();
    groups.sort_unstable_by_key(|group| (group.path_key(), group.task));
    groups
}
