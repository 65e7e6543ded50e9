//! Threads that were to be recorded and of whose time the kernel side has said nothing. They are rows without any time in
//! them, so that no sum looks as if they had not been there.

use super::proc_fs;
use super::session::Session;
use crate::profile::{Profile, Task, ThreadTime, counter};
use rustc_hash::FxHashSet;
use std::time::Duration;

/// Younger threads may have come after the last look.
const LEAST_AGE: Duration = Duration::from_millis(200);

impl Session<'_> {
    /// Adds a row for each living thread of the target that has none, to the profile of a recording of waits that has ended.
    pub(super) fn add_unaccounted(&mut self) {
        let (Some(end), Some(_)) = (&self.collector.profile.end, self.collector.profile.event_named("off-cpu"))
        else {
            return;
        };
        let duration_ns = end.duration_ns;
        let pids: Vec<u32> = self.collector.processes.living_targets().collect();
        let known = accounted(&self.collector.profile);
        let mut missing = 0;
        for pid in pids.into_iter().filter(|pid| !proc_fs::is_of_kernel(*pid)) {
            for tid in proc_fs::threads(pid).unwrap_or_default() {
                if known.contains(&(pid, tid)) || !self.is_wanted(tid) || !proc_fs::is_alive(tid) {
                    continue;
                }
                let Some(age) = proc_fs::age(pid, tid).filter(|age| *age >= LEAST_AGE) else { continue };
                let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
                add_row(&mut self.collector.profile, pid, tid, duration_ns.saturating_sub(age_ns), duration_ns);
                missing += 1;
            }
        }
        let profile = &mut self.collector.profile;
        // Some may be counted already, as begun and never sent.
        profile.count(
            counter::LOST_THREAD_TIMES,
            u64::saturating_sub(missing, profile.counter(counter::LOST_THREAD_TIMES)),
        );
    }
}

/// Process and thread ids of the threads that have a row.
fn accounted(profile: &Profile) -> FxHashSet<(u32, u32)> {
    let tasks = profile.thread_times.iter().map(|time| profile.tables.task(time.task));
    tasks.map(|task| (task.pid, task.tid)).collect()
}

fn add_row(profile: &mut Profile, pid: u32, tid: u32, from_ns: u64, to_ns: u64) {
    let [comm, process] = [tid, pid].map(|id| {
        let name = proc_fs::comm(id).unwrap_or_default();
        profile.tables.intern_string(&name)
    });
    let known = (profile.tables.tasks().iter()).rev().find(|task| (task.pid, task.tid) == (pid, tid)).copied();
    let task = known.unwrap_or(Task { pid, tid, generation: 0, comm, process });
    let task = profile.tables.intern_task(task);
    profile.thread_times.push(ThreadTime { task, from_ns, to_ns, ..ThreadTime::default() });
}
