//! Which processes have ended, told from the ends of their threads.
//!
//! The first thread of a process may end before the others, and a thread that has just reported its end is still
//! shown as running for a moment. So a process is looked at after each end of a thread of it, and for a while again.

use rustc_hash::FxHashMap;

/// How long after its report a thread may still look as if it ran, ns; a few microseconds on an idle machine.
const SETTLING_NS: u64 = 200_000_000;

/// Processes of which a thread has ended lately.
#[derive(Debug, Default)]
pub(super) struct Endings {
    /// The time of the last end of a thread, by process id; CLOCK_MONOTONIC, ns.
    lately: FxHashMap<u32, u64>,
}

impl Endings {
    /// Notes that a thread of process `pid` ended at `time_ns`.
    pub(super) fn note(&mut self, pid: u32, time_ns: u64) {
        self.lately.insert(pid, time_ns);
    }

    /// The processes among those noted that have ended, in ascending order, each told once. `live_thread` gives a
    /// thread of a process that has not ended.
    pub(super) fn take_ended(&mut self, now_ns: u64, live_thread: impl Fn(u32) -> Option<u32>) -> Vec<u32> {
        let mut ended: Vec<u32> =
            self.lately.keys().copied().filter(|&pid| live_thread(pid).is_none()).collect();
        ended.sort_unstable();
        self.lately.retain(|pid, time_ns| {
            ended.binary_search(pid).is_err() && now_ns.saturating_sub(*time_ns) < SETTLING_NS
        });
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_ends_with_its_last_thread_and_not_with_its_first() {
        let mut endings = Endings::default();
        endings.note(7, 1000);
        assert!(endings.take_ended(2000, |_| Some(8)).is_empty(), "another thread runs on");
        let later = 2000 + SETTLING_NS;
        assert!(endings.take_ended(later, |_| Some(8)).is_empty());
        // The end of thread 8 of process 7.
        endings.note(7, later);
        assert_eq!(endings.take_ended(later, |_| None), [7]);
        assert!(endings.take_ended(later, |_| None).is_empty(), "told twice");
    }

    #[test]
    fn a_thread_that_still_looks_alive_for_a_moment_is_looked_at_again() {
        let mut endings = Endings::default();
        endings.note(7, 1000);
        endings.note(5, 1000);
        assert!(endings.take_ended(1001, Some).is_empty());
        assert_eq!(endings.take_ended(1002, |_| None), [5, 7]);
        endings.note(9, 1000);
        assert!(endings.take_ended(1000 + SETTLING_NS, Some).is_empty());
        assert!(endings.take_ended(1001 + SETTLING_NS, |_| None).is_empty(), "looked at for ever");
    }
}
