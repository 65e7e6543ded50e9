//! Where the time of threads went that still live. The kernel side says so when they end; until then /proc does.

use crate::profile::{Profile, StringId, Task, TaskId, ThreadTime};
use crate::record::proc_fs::{self, SchedulerTimes};
use crate::record::title;
use rustc_hash::{FxHashMap, FxHashSet};
use std::time::{Duration, Instant};

/// Reading the times of all threads again is not worth more of a CPU than one part of so many.
const PATIENCE: u32 = 250;
/// The longest time between two readings, whatever they cost.
const LONGEST_REST: Duration = Duration::from_secs(3);

/// A thread that lives, or did when it was last looked at.
#[derive(Debug, Clone, Copy)]
struct Thread {
    /// Its times when it was first there.
    before: SchedulerTimes,
    now: SchedulerTimes,
    from_ns: u64,
    to_ns: u64,
}

/// All threads of the target that live.
#[derive(Debug, Default)]
pub(super) struct Alive {
    /// By process and thread id.
    threads: FxHashMap<(u32, u32), Thread>,
    /// Until when it is known what a thread did, ns: the end of its last sample or wait.
    known_until_ns: FxHashMap<(u32, u32), u64>,
    /// Only these threads are of interest, unless there are none.
    only: Vec<u32>,
    last_scan_ns: Option<u64>,
    next_scan: Option<Instant>,
}

impl Alive {
    /// Of the processes of the target all threads, or `only` some.
    pub(super) fn new(only: Vec<u32>) -> Self {
        Alive { only, ..Alive::default() }
    }

    /// A sample or wait of a thread that ended at `until_ns`.
    pub(super) fn note(&mut self, pid: u32, tid: u32, until_ns: u64) {
        let known = self.known_until_ns.entry((pid, tid)).or_default();
        *known = until_ns.max(*known);
    }

    /// Time begins anew.
    pub(super) fn clear(&mut self) {
        let only = std::mem::take(&mut self.only);
        *self = Alive::new(only);
    }

    /// Looks at all threads of `pids`, and of the processes that samples came from, at `now_ns` since the start; unless
    /// that was done too lately for what it costs.
    pub(super) fn scan(&mut self, pids: &[u32], now_ns: u64) {
        if self.next_scan.is_some_and(|next| Instant::now() < next) {
            return;
        }
        let begun = cpu_time();
        let since_ns = self.last_scan_ns;
        let mut threads = FxHashMap::default();
        let seen = self.known_until_ns.keys().map(|(pid, _)| *pid);
        let pids: FxHashSet<u32> = pids.iter().copied().chain(seen).collect();
        for pid in pids {
            for tid in proc_fs::threads(pid).unwrap_or_default() {
                if !self.only.is_empty() && !self.only.contains(&tid) {
                    continue;
                }
                let Ok(now) = proc_fs::scheduler_times(pid, tid) else { continue };
                let thread = match self.threads.get(&(pid, tid)) {
                    Some(known) => Thread { now, to_ns: now_ns, ..*known },
                    // It was there before the recording.
                    None if since_ns.is_none() => Thread { before: now, now, from_ns: 0, to_ns: now_ns },
                    None => Thread {
                        before: SchedulerTimes::default(),
                        now,
                        from_ns: born_ns(pid, tid, now_ns).clamp(since_ns.unwrap_or(0), now_ns),
                        to_ns: now_ns,
                    },
                };
                threads.insert((pid, tid), thread);
            }
        }
        self.threads = threads;
        self.known_until_ns.retain(|thread, _| self.threads.contains_key(thread));
        self.last_scan_ns = Some(now_ns);
        self.next_scan = Some(Instant::now() + rest_after(cpu_time().saturating_sub(begun)));
    }

    /// Adds the times of all threads to `profile`, but for those whose end it knows.
    pub(super) fn add_to(&self, profile: &mut Profile) {
        let mut tasks: FxHashMap<(u32, u32), TaskId> = FxHashMap::default();
        for (id, task) in (0..).map(TaskId).zip(profile.tables.tasks()) {
            // The last one has its last name.
            tasks.insert((task.pid, task.tid), id);
        }
        let ended: FxHashSet<(u32, u32)> = (profile.thread_times.iter())
            .map(|time| {
                let task = profile.tables.task(time.task);
                (task.tid, task.generation)
            })
            .collect();
        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_unstable_by_key(|(ids, _)| **ids);
        for (&(pid, tid), thread) in threads {
            let task = *tasks.entry((pid, tid)).or_insert_with(|| new_task(profile, pid, tid));
            if ended.contains(&(tid, profile.tables.task(task).generation)) {
                continue;
            }
            let known_until_ns = self.known_until_ns.get(&(pid, tid)).copied().unwrap_or(0);
            profile.thread_times.push(thread.time(task, known_until_ns));
        }
    }
}

/// CPU time of this thread: on a busy machine a reading takes longer, and costs no more.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// How long nothing is read after a reading that took so much CPU time.
fn rest_after(took: Duration) -> Duration {
    took.saturating_mul(PATIENCE).min(LONGEST_REST)
}

impl Thread {
    /// What is neither on a CPU nor ready was blocked, as far as it is known: a wait that is not over is left out.
    fn time(&self, task: TaskId, known_until_ns: u64) -> ThreadTime {
        let life_ns = self.to_ns - self.from_ns;
        let on_cpu_ns = self.now.on_cpu_ns.saturating_sub(self.before.on_cpu_ns).min(life_ns);
        let no_cpu_ns = self.now.no_cpu_ns.saturating_sub(self.before.no_cpu_ns).min(life_ns - on_cpu_ns);
        let open_ns = self.to_ns.saturating_sub(known_until_ns.max(self.from_ns));
        ThreadTime {
            task,
            from_ns: self.from_ns,
            to_ns: self.to_ns,
            on_cpu_ns,
            no_cpu_ns,
            blocked_ns: (life_ns - on_cpu_ns - no_cpu_ns).saturating_sub(open_ns),
            switches: self.now.runs.saturating_sub(self.before.runs),
            has_ended: false,
            short_waits: Vec::new(),
        }
    }
}

/// A row for a thread that nothing was seen of yet.
fn new_task(profile: &mut Profile, pid: u32, tid: u32) -> TaskId {
    let mut name = |id: u32| -> StringId {
        let comm = proc_fs::comm(id).unwrap_or_default();
        profile.tables.intern_string(&comm)
    };
    let (comm, mut process) = (name(tid), name(pid));
    if let Some(title) = title::of(pid, profile.tables.string(process)) {
        process = profile.tables.intern_string(&title);
    }
    profile.tables.intern_task(Task { pid, tid, generation: 0, comm, process })
}

/// When a thread began, ns since the start of the recording, where `now_ns` is now.
fn born_ns(pid: u32, tid: u32, now_ns: u64) -> u64 {
    let age = proc_fs::age(pid, tid).unwrap_or(Duration::ZERO);
    now_ns.saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Meta;

    #[test]
    fn a_wait_that_is_not_over_is_not_accounted_for() {
        let times = |on_cpu_ns, no_cpu_ns| SchedulerTimes { on_cpu_ns, no_cpu_ns, runs: 7 };
        let thread = Thread { before: times(100, 50), now: times(300, 60), from_ns: 0, to_ns: 1_000 };
        let time = thread.time(TaskId(0), 700);
        assert_eq!((time.on_cpu_ns, time.no_cpu_ns, time.blocked_ns), (200, 10, 490));
        let time = thread.time(TaskId(0), 1_000);
        assert_eq!(time.on_cpu_ns + time.no_cpu_ns + time.blocked_ns, 1_000);
        let nothing_seen = thread.time(TaskId(0), 0);
        assert_eq!((nothing_seen.on_cpu_ns, nothing_seen.blocked_ns), (200, 0));
        // A clock that goes ahead of the other.
        let all = Thread { now: times(5_000, 5_000), ..thread }.time(TaskId(0), 1_000);
        assert_eq!((all.on_cpu_ns, all.no_cpu_ns, all.blocked_ns), (1_000, 0, 0));
    }

    #[test]
    fn own_threads_live_until_the_profile_knows_their_end() {
        let pid = std::process::id();
        let mut alive = Alive::new(Vec::new());
        alive.scan(&[pid], 0);
        alive.next_scan = None;
        alive.scan(&[pid], 1_000_000);
        let mut profile = Profile::new(Meta::default());
        alive.add_to(&mut profile);
        let rows = profile.thread_times.len();
        assert!(rows >= 1);
        let first = &profile.thread_times[0];
        assert_eq!((profile.tables.task(first.task).pid, first.has_ended), (pid, false));
        alive.add_to(&mut profile);
        assert_eq!(profile.thread_times.len(), rows, "nobody is there twice");
        alive.clear();
        alive.add_to(&mut profile);
        assert_eq!(profile.thread_times.len(), rows);
    }
}
