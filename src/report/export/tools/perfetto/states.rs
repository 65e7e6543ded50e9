//! States of each thread over time: running, runnable, waiting.

use crate::profile::{Reason, TaskId};
use crate::report::export::tools::in_time::TimedSample;
use crate::report::options::TimeRange;
use crate::report::query::selection::Selection;
use std::collections::BTreeMap;

/// State of a thread in a period of time.
#[derive(Debug, Clone, Copy)]
pub(super) enum ThreadState {
    /// Running, as far as is known: the thread existed and did not wait.
    Running,
    /// Waiting, with the reason and the index of the wait in the moments.
    Waiting(Reason, usize),
}

/// A period of time in one state.
#[derive(Debug, Clone, Copy)]
pub(super) struct StateSlice {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) state: ThreadState,
}

/// Identity of a thread: pid, tid, and generation of the tid.
pub(super) type ThreadId = (u32, u32, u32);

/// A thread and its slices, in the order of time and without overlap.
#[derive(Debug)]
pub(super) struct ThreadSlices {
    pub(super) task: TaskId,
    pub(super) slices: Vec<StateSlice>,
}

/// A wait of a thread: its start, its length, and its reason and index in the moments if it is shown.
type WaitSpan = (u64, u64, Option<(Reason, usize)>);

pub(super) fn thread_id(selection: &Selection<'_>, task: TaskId) -> ThreadId {
    let task = selection.profile.tables.task(task);
    (task.pid, task.tid, task.generation)
}

/// The slices of all threads that exist in `time`. Running time is included if `has_running`.
pub(super) fn slices(
    selection: &Selection<'_>,
    moments: &[TimedSample],
    time: TimeRange,
    has_running: bool,
) -> BTreeMap<ThreadId, ThreadSlices> {
    let mut waits: BTreeMap<ThreadId, (TaskId, Vec<WaitSpan>)> = BTreeMap::new();
    for (at, moment) in moments.iter().enumerate() {
        let task = moment.task(selection);
        let spans = &mut waits.entry(thread_id(selection, task)).or_insert_with(|| (task, Vec::new())).1;
        if let Some(reason) = moment.activity(selection).reason() {
            spans.push((moment.time_ns, moment.length_ns, Some((reason, at))));
        }
    }
    if has_running {
        add_hidden(selection, time, &mut waits);
    }
    let lives = lives(selection, time);
    let mut threads = BTreeMap::new();
    for (id, (task, mut spans)) in waits {
        spans.sort_by_key(|(from_ns, length_ns, shown)| (*from_ns, *length_ns, shown.map(|(_, at)| at)));
        let life = lives.get(&id).copied().filter(|_| has_running);
        threads.insert(id, ThreadSlices { task, slices: of_thread(&spans, life) });
    }
    threads
}

/// Adds the waits that are not shown, since the thread did not run during them. Waits that are shown are in `waits`
/// already.
fn add_hidden(
    selection: &Selection<'_>,
    time: TimeRange,
    waits: &mut BTreeMap<ThreadId, (TaskId, Vec<WaitSpan>)>,
) {
    let mut all: BTreeMap<ThreadId, Vec<WaitSpan>> = BTreeMap::new();
    selection.for_each_wait(|sample, wait, _| {
        let id = thread_id(selection, sample.task);
        let from_ns = time.from_ns.map_or(sample.time_ns, |from| from.max(sample.time_ns));
        let end_ns = sample.time_ns.saturating_add(wait.duration_ns);
        let to_ns = time.to_ns.map_or(end_ns, |to| to.min(end_ns));
        all.entry(id).or_default().push((from_ns, to_ns.saturating_sub(from_ns), None));
    });
    for (id, mut spans) in all {
        let Some((_, shown)) = waits.get_mut(&id) else { continue };
        let mut known: Vec<(u64, u64)> = shown.iter().map(|(from, length, _)| (*from, *length)).collect();
        known.sort_unstable();
        spans.sort_unstable_by_key(|(from, length, _)| (*from, *length));
        // Both lists are sorted; each wait that is in both is dropped once.
        let mut known = known.into_iter().peekable();
        spans.retain(|(from, length, _)| {
            while known.next_if(|next| *next < (*from, *length)).is_some() {}
            known.next_if_eq(&(*from, *length)).is_none()
        });
        shown.append(&mut spans);
    }
}

/// Lifetime of each thread within `time`.
fn lives(selection: &Selection<'_>, time: TimeRange) -> BTreeMap<ThreadId, (u64, u64)> {
    let mut lives: BTreeMap<ThreadId, (u64, u64)> = BTreeMap::new();
    for row in selection.profile.thread_times.iter().filter(|row| !row.is_unknown()) {
        let from_ns = time.from_ns.map_or(row.from_ns, |from| from.max(row.from_ns));
        let to_ns = time.to_ns.map_or(row.to_ns, |to| to.min(row.to_ns));
        if from_ns < to_ns {
            let life = lives.entry(thread_id(selection, row.task)).or_insert((from_ns, to_ns));
            *life = (life.0.min(from_ns), life.1.max(to_ns));
        }
    }
    lives
}

/// Waits one after the other, with running time in between. Times are stored in whole microseconds but lengths are
/// exact, so a wait could begin before the one before it has ended: it is moved to that end and keeps its length.
fn of_thread(waits: &[WaitSpan], life: Option<(u64, u64)>) -> Vec<StateSlice> {
    let mut slices = Vec::with_capacity(waits.len());
    let mut at_ns = life.map_or(0, |(from_ns, _)| from_ns);
    for &(from_ns, length_ns, shown) in waits {
        if life.is_some() && from_ns > at_ns {
            slices.push(StateSlice { from_ns: at_ns, to_ns: from_ns, state: ThreadState::Running });
        }
        let from_ns = from_ns.max(at_ns);
        let to_ns = from_ns.saturating_add(length_ns);
        if let Some((reason, at)) = shown {
            slices.push(StateSlice { from_ns, to_ns, state: ThreadState::Waiting(reason, at) });
        }
        at_ns = to_ns;
    }
    if let Some((_, end_ns)) = life.filter(|(_, end_ns)| *end_ns > at_ns) {
        slices.push(StateSlice { from_ns: at_ns, to_ns: end_ns, state: ThreadState::Running });
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(slices: &[StateSlice]) -> Vec<String> {
        let state = |slice: &StateSlice| match slice.state {
            ThreadState::Running => "running".to_owned(),
            ThreadState::Waiting(reason, _) => reason.label().to_owned(),
        };
        slices.iter().map(|slice| format!("{}..{} {}", slice.from_ns, slice.to_ns, state(slice))).collect()
    }

    #[test]
    fn a_thread_runs_when_it_is_there_and_does_not_wait() {
        let waits = [(10, 5, Some((Reason::Lock, 0))), (30, 10, None), (40, 5, Some((Reason::NoCpu, 1)))];
        let found = text(&of_thread(&waits, Some((2, 60))));
        assert_eq!(
            found,
            ["2..10 running", "10..15 lock", "15..30 running", "40..45 no CPU", "45..60 running"]
        );
        assert_eq!(text(&of_thread(&waits, None)), ["10..15 lock", "40..45 no CPU"]);
    }

    #[test]
    fn waits_keep_their_lengths_and_do_not_overlap() {
        let waits = [(10, 6, Some((Reason::Lock, 0))), (15, 4, Some((Reason::Disk, 1)))];
        assert_eq!(text(&of_thread(&waits, Some((10, 20)))), ["10..16 lock", "16..20 disk"]);
    }
}
