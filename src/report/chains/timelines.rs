//! What each thread did when: its waits and its samples in the order of time.

use crate::profile::{Profile, Sample, StackId, TaskId, Wait};
use crate::report::model::metric::{running_of, waits_of};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A thread, whatever its names were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ThreadIdentity {
    pid: u32,
    tid: u32,
    generation: u32,
}

impl ThreadIdentity {
    /// The thread of a task; `None` for one of which no number is known.
    pub(super) fn of(profile: &Profile, task: TaskId) -> Option<Self> {
        let task = profile.tables.task(task);
        (task.tid != 0).then_some(ThreadIdentity {
            pid: task.pid,
            tid: task.tid,
            generation: task.generation,
        })
    }
}

/// A wait, from its start to its end, ns since the start of the recording.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimedWait {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) stack: Option<StackId>,
    pub(super) wait: Wait,
}

/// What one thread did.
#[derive(Debug, Default)]
struct Track {
    waits: Vec<TimedWait>,
    /// Moments at which it ran, ns, and its stacks.
    samples: Vec<(u64, Option<StackId>)>,
}

/// What all threads did.
#[derive(Debug, Default)]
pub(super) struct Timelines {
    threads: FxHashMap<ThreadIdentity, Track>,
}

impl Timelines {
    /// Those of the waits and samples of which the time is known: not of such that were merged.
    pub(super) fn of(profile: &Profile) -> Self {
        let mut timelines = Timelines::default();
        let events = [waits_of(profile), running_of(profile)].into_iter().flatten();
        for sample in events.flat_map(|event| event.samples()).filter(|sample| sample.merged.is_none()) {
            let Some(thread) = ThreadIdentity::of(profile, sample.task) else { continue };
            let track = timelines.threads.entry(thread).or_default();
            match timed(&sample) {
                Some(wait) => track.waits.push(wait),
                None => track.samples.push((sample.time_ns, sample.stack)),
            }
        }
        for track in timelines.threads.values_mut() {
            track.waits.sort_by_key(|wait| (wait.from_ns, wait.to_ns));
            // A thread has one wait at a time. Were it otherwise in a file, time would count twice.
            let mut end_ns = 0;
            track.waits.retain(|wait| {
                let is_after = wait.from_ns >= end_ns;
                end_ns = if is_after { wait.to_ns } else { end_ns };
                is_after
            });
            track.samples.sort_by_key(|(time_ns, _)| *time_ns);
        }
        timelines
    }

    /// The waits of a thread that overlap a range of time, in its order.
    pub(super) fn waits(&self, thread: ThreadIdentity, time: &Range<u64>) -> &[TimedWait] {
        let Some(track) = self.threads.get(&thread) else { return &[] };
        let from = track.waits.partition_point(|wait| wait.to_ns <= time.start);
        let to = track.waits.partition_point(|wait| wait.from_ns < time.end);
        track.waits.get(from..to).unwrap_or_default()
    }

    /// The stacks of the samples of a thread in a range of time.
    pub(super) fn samples(&self, thread: ThreadIdentity, time: &Range<u64>) -> &[(u64, Option<StackId>)] {
        let Some(track) = self.threads.get(&thread) else { return &[] };
        let before = |ns: u64| track.samples.partition_point(|(time_ns, _)| *time_ns < ns);
        track.samples.get(before(time.start)..before(time.end)).unwrap_or_default()
    }
}

/// A sample as a wait with an end, if it is one.
pub(super) fn timed(sample: &Sample) -> Option<TimedWait> {
    let wait = sample.wait?;
    Some(TimedWait {
        from_ns: sample.time_ns,
        to_ns: sample.time_ns.saturating_add(wait.duration_ns),

        stack: sample.stack,
        wait,
    })
}
