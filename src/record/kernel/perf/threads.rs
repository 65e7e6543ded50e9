//! What the threads of a target do, by their switches: where their time goes, and their waits.
//!
//! The kernel says when a thread leaves a CPU, whether it would have gone on, and when it is back. A thread that was not to go
//! on waits for something until it is back: how long of that it only lacked a CPU is not known.

use super::record::CopiedSample;
use super::thinning::Thinning;
use crate::bpf::{
    Account, Doing, OpenWait, REASONS, ThreadTimeEvent, WaitEvent, WaitKind, WatchedThreadEvent,
};
use crate::profile::{Reason, WakerKind};
use rustc_hash::FxHashMap;

/// A sample of a switch is taken so long before the switch is reported, at most, ns.
const SWITCH_NS: u64 = 1_000_000;

/// Waits that are not over are rows of a watched recording from this length on; `PROF_OPEN_LEAST_NS` of prof.h is the same.
const OPEN_LEAST_NS: u64 = 100_000_000;

/// What a thread does since a time, CLOCK_MONOTONIC, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whereabouts {
    /// Nothing was heard of it yet.
    Unknown {
        since_ns: u64,
    },
    Runs {
        since_ns: u64,
    },
    /// It waits, or lacks a CPU.
    Away {
        since_ns: u64,
        is_preempted: bool,
    },
}

/// One thread.
#[derive(Debug)]
struct KnownThread {
    tgid: u32,
    comm: Vec<u8>,
    from_ns: u64,
    activity: Whereabouts,
    account: Account,
    switches: u64,
    short_waits: [(u64, u64); REASONS],
    /// Sample of the switch that is about to be reported, and when it was taken.
    leaving: Option<(u64, Box<CopiedSample>)>,
    /// Stack with which the thread has left its CPU.
    away: Option<Box<CopiedSample>>,
}

/// A wait that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EndedWait {
    pub(super) tgid: u32,
    pub(super) comm: Vec<u8>,
    pub(super) wait: WaitEvent,
    /// Stack with which it began, if that was sampled.
    pub(super) stack: Option<Box<CopiedSample>>,
}

/// What was counted of threads, under the names of the BPF programs' counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ThreadCounts {
    pub(super) accounts: u64,
    pub(super) accounts_sent: u64,
    pub(super) switches: u64,
    /// Switches that the kernel did not report: the thread came without having left, or left without having come.
    pub(super) switches_missed: u64,
    pub(super) waits_sent: u64,
    pub(super) waits_thinned: u64,
    /// Time on CPUs of all threads whose times were sent, ns.
    pub(super) on_cpu_ns: u64,
}

/// The threads of a target.
#[derive(Debug, Default)]
pub(super) struct KnownThreads {
    by_tid: FxHashMap<u32, KnownThread>,
    /// Times count from now on, CLOCK_MONOTONIC, ns; `None`: not yet.
    start_ns: Option<u64>,
    /// Waits are recorded, from this length on, ns.
    min_block_ns: Option<u64>,
    thinning: Thinning,
    pub(super) counts: ThreadCounts,
}

impl KnownThreads {
    /// No threads yet. Waits of `min_block_ns` and more are to be told, if any.
    pub(super) fn new(min_block_ns: Option<u64>) -> Self {
        KnownThreads { min_block_ns, ..KnownThreads::default() }
    }

    /// Times count from `start_ns` on.
    pub(super) fn start(&mut self, start_ns: u64) {
        self.start_ns = Some(start_ns);
        for thread in self.by_tid.values_mut() {
            thread.from_ns = start_ns;
            thread.account = Account::default();
            thread.switches = 0;
            thread.short_waits = Default::default();
            thread.activity = match thread.activity {
                Whereabouts::Unknown { .. } => Whereabouts::Unknown { since_ns: start_ns },
                Whereabouts::Runs { .. } => Whereabouts::Runs { since_ns: start_ns },
                Whereabouts::Away { is_preempted, .. } => {
                    Whereabouts::Away { since_ns: start_ns, is_preempted }
                }
            };
        }
        self.counts.accounts = self.by_tid.len() as u64;
    }

    /// A thread is there, from before the recording.
    pub(super) fn add(&mut self, tgid: u32, tid: u32, comm: &[u8], now_ns: u64) {
        self.insert(tgid, tid, comm.to_vec(), now_ns, Whereabouts::Unknown { since_ns: now_ns });
    }

    /// A thread was born at `time_ns`, with its maker's name. It lacks a CPU first.
    pub(super) fn born(&mut self, (tgid, tid): (u32, u32), parent_tid: u32, time_ns: u64) {
        let comm = self.by_tid.get(&parent_tid).map(|parent| parent.comm.clone()).unwrap_or_default();
        let activity = Whereabouts::Away { since_ns: time_ns, is_preempted: true };
        self.insert(tgid, tid, comm, time_ns, activity);
    }

    fn insert(&mut self, tgid: u32, tid: u32, comm: Vec<u8>, from_ns: u64, activity: Whereabouts) {
        let thread = KnownThread {
            tgid,
            comm,
            from_ns,
            activity,
            account: Account::default(),
            switches: 0,
            short_waits: Default::default(),
            leaving: None,
            away: None,
        };
        let is_new = self.by_tid.insert(tid, thread).is_none();
        self.counts.accounts += u64::from(is_new && self.start_ns.is_some());
    }

    /// A thread has another name, as a command has that has just called exec.
    pub(super) fn named(&mut self, (tgid, tid): (u32, u32), comm: &str, time_ns: u64) {
        self.know((tgid, tid), time_ns);
        if let Some(thread) = self.by_tid.get_mut(&tid) {
            thread.comm = comm.as_bytes().to_vec();
        }
    }

    /// Name of a thread.
    pub(super) fn comm(&self, tid: u32) -> Vec<u8> {
        self.by_tid.get(&tid).map(|thread| thread.comm.clone()).unwrap_or_default()
    }

    /// A sample of a thread was taken while it ran.
    pub(super) fn ran(&mut self, tid: u32, time_ns: u64) {
        if let Some(thread) = self.by_tid.get_mut(&tid)
            && let Whereabouts::Unknown { since_ns } = thread.activity
            && since_ns <= time_ns
        {
            thread.activity = Whereabouts::Runs { since_ns };
        }
    }

    /// A thread is about to leave its CPU, with this stack.
    pub(super) fn leaves(&mut self, tid: u32, time_ns: u64, sample: CopiedSample) {
        if let Some(thread) = self.by_tid.get_mut(&tid) {
            thread.leaving = Some((time_ns, Box::new(sample)));
        }
    }

    /// A thread has left its CPU.
    pub(super) fn left(&mut self, (tgid, tid): (u32, u32), time_ns: u64, is_preempted: bool) {
        let time_ns = time_ns.max(self.start_ns.unwrap_or(0));
        self.know((tgid, tid), time_ns);
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        self.counts.switches += 1;
        thread.switches += 1;
        match thread.activity {
            Whereabouts::Runs { since_ns } | Whereabouts::Unknown { since_ns } => {
                thread.account.on_cpu_ns += time_ns.saturating_sub(since_ns);
            }
            // It had come meanwhile, and no one knows when.
            Whereabouts::Away { since_ns, .. } => {
                self.counts.switches_missed += 1;
                thread.account.on_cpu_ns += time_ns.saturating_sub(since_ns);
            }
        }
        let is_of_now = |sampled_ns: u64| time_ns.saturating_sub(sampled_ns) < SWITCH_NS;
        let leaving = thread.leaving.take().filter(|(sampled_ns, _)| is_of_now(*sampled_ns));
        thread.away = leaving.map(|(_, sample)| sample);
        thread.activity = Whereabouts::Away { since_ns: time_ns, is_preempted };
    }

    /// A thread has come on a CPU. Returns its wait, if that is to be told.
    pub(super) fn came(&mut self, (tgid, tid): (u32, u32), time_ns: u64) -> Option<EndedWait> {
        let time_ns = time_ns.max(self.start_ns.unwrap_or(0));
        self.know((tgid, tid), time_ns);
        let thread = self.by_tid.get_mut(&tid)?;
        let (since_ns, is_preempted) = match thread.activity {
            // It was there before the recording, and not on a CPU.
            Whereabouts::Unknown { since_ns } => (since_ns, false),
            Whereabouts::Away { since_ns, is_preempted } => (since_ns, is_preempted),
            Whereabouts::Runs { .. } => {
                self.counts.switches_missed += 1;
                return None;
            }
        };
        thread.activity = Whereabouts::Runs { since_ns: time_ns };
        let stack = thread.away.take();
        let length_ns = thread.pass(since_ns, time_ns, is_preempted);
        let min_block_ns = self.min_block_ns.filter(|_| length_ns > 0 && self.start_ns.is_some())?;
        if length_ns < min_block_ns {
            thread.add_short(length_ns, is_preempted);
            return None;
        }
        let weight = self.thinning.weight(length_ns, time_ns);
        if weight == 0 {
            self.counts.waits_thinned += 1;
            return None;
        }
        self.counts.waits_sent += 1;
        Some(EndedWait { stack, ..thread.wait(WaitKind::Ended, (since_ns, time_ns), is_preempted, weight) })
    }

    /// A thread has ended. Returns its times.
    pub(super) fn ended(&mut self, tid: u32, time_ns: u64) -> Option<ThreadTimeEvent> {
        let mut thread = self.by_tid.remove(&tid)?;
        self.start_ns?;
        thread.settle(time_ns);
        self.counts.accounts_sent += 1;
        self.counts.on_cpu_ns += thread.account.on_cpu_ns;
        Some(thread.time(tid, time_ns, true))
    }

    /// The recording ends: the times of all threads, and the waits that are not over.
    pub(super) fn close(&mut self, stop_ns: u64) -> Vec<(u32, ThreadTimeEvent, Option<EndedWait>)> {
        let mut threads: Vec<(u32, KnownThread)> = self.by_tid.drain().collect();
        threads.sort_unstable_by_key(|(tid, _)| *tid);
        self.counts.accounts_sent += threads.len() as u64;
        let min_block_ns = self.min_block_ns;
        let close = |(tid, mut thread): (u32, KnownThread)| {
            let away = thread.settle(stop_ns);
            let open = away.filter(|(since_ns, _)| {
                min_block_ns.is_some_and(|least_ns| stop_ns.saturating_sub(*since_ns) >= least_ns.max(1))
            });
            let wait = open.map(|(since_ns, is_preempted)| {
                let stack = thread.away.take();
                let length_ns = stop_ns.saturating_sub(since_ns);
                let wait = thread.wait(WaitKind::Open, (since_ns, stop_ns), is_preempted, length_ns);
                EndedWait { stack, ..wait }
            });
            (tid, thread.time(tid, stop_ns, false), wait)
        };
        let closed: Vec<_> = threads.into_iter().map(close).collect();
        self.counts.waits_sent += closed.iter().filter(|(.., wait)| wait.is_some()).count() as u64;
        self.counts.on_cpu_ns += closed.iter().map(|(_, time, _)| time.on_cpu_ns).sum::<u64>();
        closed
    }

    /// All threads as they are now.
    pub(super) fn watched(&self, now_ns: u64) -> Vec<WatchedThreadEvent> {
        let look = |(&tid, thread): (&u32, &KnownThread)| thread.watched(tid, now_ns, self.min_block_ns);
        let mut threads: Vec<_> = self.by_tid.iter().map(look).collect();
        threads.sort_unstable_by_key(|thread| thread.time.tid);
        threads
    }

    /// Knows a thread of which there was no word.
    fn know(&mut self, (tgid, tid): (u32, u32), time_ns: u64) {
        if !self.by_tid.contains_key(&tid) {
            self.insert(tgid, tid, Vec::new(), time_ns, Whereabouts::Unknown { since_ns: time_ns });
        }
    }
}

impl KnownThread {
    /// Adds time off the CPU to the account. Returns how long that was.
    fn pass(&mut self, since_ns: u64, time_ns: u64, is_preempted: bool) -> u64 {
        let length_ns = time_ns.saturating_sub(since_ns);
        match is_preempted {
            true => self.account.no_cpu_ns += length_ns,
            false => self.account.blocked_ns += length_ns,
        }
        length_ns
    }

    /// Has the account be that of `time_ns`. Returns since when the thread has been off the CPU, and whether it lacks one.
    fn settle(&mut self, time_ns: u64) -> Option<(u64, bool)> {
        match self.activity {
            Whereabouts::Runs { since_ns } => {
                self.account.on_cpu_ns += time_ns.saturating_sub(since_ns);
                None
            }
            Whereabouts::Away { since_ns, is_preempted } => {
                self.pass(since_ns, time_ns, is_preempted);
                Some((since_ns, is_preempted))
            }
            // It never ran: all that is known is that it was there.
            Whereabouts::Unknown { since_ns } => {
                self.pass(since_ns, time_ns, false);
                Some((since_ns, false))
            }
        }
    }

    fn add_short(&mut self, length_ns: u64, is_preempted: bool) {
        let reason = if is_preempted { Reason::NoCpu } else { Reason::Other };
        if let Some((count, time_ns)) = self.short_waits.get_mut(usize::from(reason.code())) {
            *count += 1;
            *time_ns += length_ns;
        }
    }

    fn wait(
        &self,
        kind: WaitKind,
        (start_ns, end_ns): (u64, u64),
        is_preempted: bool,
        weight: u64,
    ) -> EndedWait {
        let (blocked_weight, no_cpu_weight) = if is_preempted { (0, weight) } else { (weight, 0) };
        let wait = WaitEvent {
            kind,
            other_tid: 0,
            other_tgid: 0,
            other_comm: Vec::new(),
            waker: WakerKind::None.code(),
            reason: Reason::Other.code(),
            futex: None,
            start_ns,
            wake_ns: if is_preempted { start_ns } else { end_ns },
            end_ns,
            blocked_weight,
            no_cpu_weight,
            account: self.account,
        };
        EndedWait { tgid: self.tgid, comm: self.comm.clone(), wait, stack: None }
    }

    fn time(&self, tid: u32, to_ns: u64, has_ended: bool) -> ThreadTimeEvent {
        ThreadTimeEvent {
            tgid: self.tgid,
            tid,
            has_ended,
            from_ns: self.from_ns,
            to_ns,
            on_cpu_ns: self.account.on_cpu_ns,
            no_cpu_ns: self.account.no_cpu_ns,
            blocked_ns: self.account.blocked_ns,
            switches: self.switches,
            comm: self.comm.clone(),
            short_waits: self.short_waits,
        }
    }

    fn watched(&self, tid: u32, now_ns: u64, min_block_ns: Option<u64>) -> WatchedThreadEvent {
        let mut now = KnownThread { comm: self.comm.clone(), leaving: None, away: None, ..*self };
        let away = now.settle(now_ns);
        let doing = match away {
            None => Doing::Running,
            Some((_, true)) => Doing::WantsCpu,
            Some((_, false)) => Doing::Blocked,
        };
        let open = away.filter(|_| min_block_ns.is_some()).map(|(start_ns, is_preempted)| OpenWait {
            start_ns,
            wake_ns: is_preempted.then_some(start_ns),
            factor: 1,
            reason: Reason::Other.code(),
            is_new: now_ns.saturating_sub(start_ns) < OPEN_LEAST_NS,
        });
        WatchedThreadEvent { time: now.time(tid, now_ns, false), open, doing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kernel::perf::record::CopiedUser;

    const ONE: (u32, u32) = (7, 8);

    /// One thread that is known since 1,000 ns.
    fn started() -> KnownThreads {
        let mut threads = KnownThreads::new(Some(10));
        threads.add(7, 8, b"worker", 0);
        threads.start(1_000);
        threads
    }

    #[test]
    fn all_time_of_a_thread_is_in_its_account_once() {
        let mut threads = started();
        assert!(threads.came(ONE, 1_500).is_some(), "it was away at the start");
        threads.left(ONE, 2_500, true);
        let wait = threads.came(ONE, 2_900).expect("longer than the least");
        assert_eq!((wait.wait.no_cpu_weight, wait.wait.blocked_weight), (400, 0), "it was preempted");
        threads.left(ONE, 3_000, false);
        let wait = threads.came(ONE, 5_000).expect("longer than the least");
        assert_eq!((wait.wait.start_ns, wait.wait.wake_ns, wait.wait.end_ns), (3_000, 5_000, 5_000));
        assert_eq!((wait.wait.no_cpu_weight, wait.wait.blocked_weight), (0, 2_000));
        threads.left(ONE, 5_100, false);
        assert_eq!(threads.came(ONE, 5_105), None, "short");
        let time = threads.ended(8, 6_000).expect("it is known");
        assert_eq!((time.from_ns, time.to_ns, time.switches), (1_000, 6_000, 3));
        assert_eq!((time.on_cpu_ns, time.no_cpu_ns, time.blocked_ns), (1_000 + 100 + 100 + 895, 400, 2_505));
        assert_eq!(time.short_waits[usize::from(Reason::Other.code())], (1, 5));
        let counts = threads.counts;
        assert_eq!((counts.accounts, counts.accounts_sent, counts.switches_missed), (1, 1, 0));
        assert_eq!(counts.on_cpu_ns, time.on_cpu_ns);
    }

    #[test]
    fn who_is_sampled_first_has_run_since_the_start() {
        let mut threads = started();
        threads.ran(8, 1_200);
        threads.left(ONE, 2_000, false);
        let closed = threads.close(4_000);
        let (_, time, wait) = &closed[0];
        assert_eq!((time.on_cpu_ns, time.blocked_ns), (1_000, 2_000));
        let wait = &wait.as_ref().expect("it goes on").wait;
        assert_eq!((wait.kind, wait.start_ns, wait.blocked_weight), (WaitKind::Open, 2_000, 2_000));
    }

    #[test]
    fn a_command_has_the_name_that_exec_gives_it() {
        let mut threads = KnownThreads::new(Some(10));
        threads.start(1_000);
        threads.named((7, 7), "command", 1_100);
        threads.ran(7, 1_200);
        let time = threads.ended(7, 2_100).expect("it is known");
        assert_eq!((&time.comm[..], time.from_ns, time.on_cpu_ns), (&b"command"[..], 1_100, 1_000));
    }

    #[test]
    fn switches_that_are_missing_are_counted_and_no_time_is_lost() {
        let mut threads = started();
        threads.came(ONE, 1_000);
        assert_eq!(threads.came(ONE, 2_000), None);
        threads.left(ONE, 3_000, false);
        threads.left(ONE, 4_000, false);
        assert_eq!(threads.counts.switches_missed, 2);
        let time = threads.ended(8, 5_000).expect("it is known");
        assert_eq!(time.on_cpu_ns + time.no_cpu_ns + time.blocked_ns, 4_000);
    }

    #[test]
    fn a_wait_has_the_stack_with_which_its_thread_has_left_and_no_other() {
        let sampled =
            |id| CopiedSample { id, period: 1, kernel: Vec::new(), user: CopiedUser::None, functions: None };
        let mut threads = started();
        threads.came(ONE, 1_500);
        threads.leaves(8, 2_000, sampled(1));
        threads.left(ONE, 2_010, false);
        let stack = threads.came(ONE, 3_000).expect("longer than the least").stack;
        assert_eq!(stack.map(|sample| sample.id), Some(1));
        threads.left(ONE, 4_000, false);
        assert_eq!(threads.came(ONE, 5_000).map(|wait| wait.stack), Some(None), "it was not sampled");
        threads.leaves(8, 6_000, sampled(2));
        threads.left(ONE, 6_000 + SWITCH_NS, false);
        assert_eq!(
            threads.came(ONE, 7_000 + SWITCH_NS).map(|wait| wait.stack),
            Some(None),
            "of another switch"
        );
        threads.leaves(8, 8_000_000, sampled(3));
        threads.left(ONE, 8_000_100, false);
        let closed = threads.close(9_000_000);
        let stack = closed[0].2.as_ref().and_then(|wait| wait.stack.as_ref());
        assert_eq!(stack.map(|sample| sample.id), Some(3), "it goes on");
    }

    #[test]
    fn a_new_thread_lacks_a_cpu_first_and_has_its_makers_name() {
        let mut threads = started();
        threads.born((7, 9), 8, 2_000);
        assert_eq!(threads.comm(9), b"worker");
        let wait = threads.came((7, 9), 2_100).expect("longer than the least");
        assert_eq!((wait.wait.no_cpu_weight, wait.wait.wake_ns), (100, 2_000));
        let looked = threads.watched(3_000);
        let doing: Vec<Doing> = looked.iter().map(|thread| thread.doing).collect();
        assert_eq!(doing, [Doing::Blocked, Doing::Running]);
        assert_eq!((looked[1].time.on_cpu_ns, looked[1].time.no_cpu_ns), (900, 100));
        assert!(looked[0].open.is_some_and(|wait| wait.is_new && wait.start_ns == 1_000));
    }
}
