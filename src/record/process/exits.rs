//! Which processes have ended, by the ends of their threads.
//!
//! The first thread of a process may end before the others, and a thread that has just reported its end is still
//! shown as running for a moment. So a process is looked at after each end of a thread of it, and for a while again.

use rustc_hash::FxHashMap;

/// Time for which a thread may still look as if it ran after its exit was reported, ns; a few microseconds on an idle machine.
const SETTLING_NS: u64 = 200_000_000;

/// The first looks at a process are so far apart, ns; each later one comes after twice the time.
const FIRST_REST_NS: u64 = 100_000;

/// Processes of which a thread has ended lately.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    /// Last exits of threads, by process id.
    lately: FxHashMap<u32, ThreadEnd>,
}

/// The last end of a thread of a process; CLOCK_MONOTONIC, ns.
#[derive(Debug, Clone, Copy)]
struct ThreadEnd {
    /// Time of the end, ns.
    time_ns: u64,
    /// Time at which the process is looked at next, ns.
    next_look_ns: u64,
}

impl ThreadEnd {
    fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_look_ns
    }

    /// After a look at `now_ns`, at which the process still ran.
    fn looked(&mut self, now_ns: u64) {
        self.next_look_ns = now_ns + now_ns.saturating_sub(self.time_ns).max(FIRST_REST_NS);
    }
}

impl Exits {
    /// Notes that a thread of process `pid` ended at `time_ns`.
    pub(crate) fn note(&mut self, pid: u32, time_ns: u64) {
        self.lately.insert(pid, ThreadEnd { time_ns, next_look_ns: 0 });
    }

    /// The processes among those noted that have ended, in ascending order, each returned once. `live_thread` gives a
    /// thread of a process that has not ended.
    pub(crate) fn take_ended(&mut self, now_ns: u64, live_thread: impl Fn(u32) -> Option<u32>) -> Vec<u32> {
        let due = self.lately.iter().filter(|(_, end)| end.is_due(now_ns)).map(|(&pid, _)| pid);
        let mut ended: Vec<u32> = due.filter(|&pid| live_thread(pid).is_none()).collect();
        ended.sort_unstable();
        self.lately.retain(|pid, end| {
            if !end.is_due(now_ns) {
                return true;
            }
            end.looked(now_ns);
            ended.binary_search(pid).is_err() && now_ns.saturating_sub(end.time_ns) < SETTLING_NS
        });
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_ends_with_its_last_thread_and_not_with_its_first() {
        let mut exits = Exits::default();
        exits.note(7, 1000);
        assert!(exits.take_ended(2000, |_| Some(8)).is_empty(), "another thread runs on");
        let later = 2000 + SETTLING_NS;
        assert!(exits.take_ended(later, |_| Some(8)).is_empty());
        // The end of thread 8 of process 7.
        exits.note(7, later);
        assert_eq!(exits.take_ended(later, |_| None), [7]);
        assert!(exits.take_ended(later, |_| None).is_empty(), "reported twice");
    }

    #[test]
    fn a_thread_that_still_looks_alive_for_a_moment_is_looked_at_again() {
        let mut exits = Exits::default();
        exits.note(7, 1000);
        exits.note(5, 1000);
        assert!(exits.take_ended(1001, Some).is_empty());
        assert_eq!(exits.take_ended(1001 + FIRST_REST_NS, |_| None), [5, 7]);
        exits.note(9, 1000);
        assert!(exits.take_ended(1000 + SETTLING_NS, Some).is_empty());
        assert!(exits.take_ended(1001 + SETTLING_NS, |_| None).is_empty(), "looked at for ever");
    }

    #[test]
    fn a_process_that_runs_on_is_looked_at_ever_more_rarely() {
        let mut exits = Exits::default();
        exits.note(7, 1000);
        let looks = std::cell::Cell::new(0);
        for now_ns in (1000..1000 + 2 * SETTLING_NS).step_by(50_000) {
            let look = |pid| {
                looks.set(looks.get() + 1);
                Some(pid)
            };
            assert!(exits.take_ended(now_ns, look).is_empty());
        }
        assert!((10..=14).contains(&looks.get()), "{} looks", looks.get());
    }
}
