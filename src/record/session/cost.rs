//! What `prof` itself uses.

use crate::base::opener;
use crate::record::workers;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Window over which the cost of an ongoing recording is measured, ns.
const WINDOW_NS: u64 = 10_000_000_000;
/// Looks at it are this far apart at least, ns.
const STEP_NS: u64 = 500_000_000;

/// CPU time of children that have ended, ns.
static ENDED_NS: AtomicU64 = AtomicU64::new(0);

/// Adds what a child of `prof` has used that has ended.
pub(super) fn add_ended(usage: &libc::rusage) {
    ENDED_NS.fetch_add(cpu_ns(usage), Ordering::Relaxed);
}

fn cpu_ns(usage: &libc::rusage) -> u64 {
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// CPU time of this process and of those that work for it, user and system, in ns, and the peak resident memory of it and its
/// workers in bytes.
pub(crate) fn own() -> (u64, u64) {
    let workers = workers::usage();
    // SAFETY: an all-zero rusage is a valid value, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let others_ns = opener::opener_cpu_ns() + ENDED_NS.load(Ordering::Relaxed) + workers.cpu_ns;
    (cpu_ns(&usage) + others_ns, usage.ru_maxrss as u64 * 1024 + workers.memory_bytes)
}

/// CPU time and run time of the BPF programs up to a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Used {
    time_ns: u64,
    cpu_ns: u64,
    bpf_ns: u64,
}

/// CPU time and run time of the BPF programs in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CostOf {
    /// Length of the interval, ns.
    pub(crate) length_ns: u64,
    /// CPU time of `prof` in it, ns.
    pub(crate) cpu_ns: u64,
    /// Run time of the BPF programs in it, ns.
    pub(crate) bpf_ns: u64,
}

/// The cost of a recording that goes on, of late.
#[derive(Debug, Default)]
pub(crate) struct LateCost {
    /// Oldest first; the first is the last one that is older than the window, if there is such.
    looks: VecDeque<Used>,
}

impl LateCost {
    /// Notes what was used up to `time_ns` since the start, all in all.
    pub(crate) fn note(&mut self, time_ns: u64, cpu_ns: u64, bpf_ns: u64) {
        let is_due = self.looks.len() < 2
            || self.looks.get(self.looks.len() - 2).is_none_or(|look| time_ns >= look.time_ns + STEP_NS);
        if !is_due {
            // The newest one is always that of now.
            self.looks.pop_back();
        }
        self.looks.push_back(Used { time_ns, cpu_ns, bpf_ns });
        while self.looks.get(1).is_some_and(|look| look.time_ns + WINDOW_NS <= time_ns) {
            self.looks.pop_front();
        }
    }

    /// Cost in the last ten seconds, or since the start.
    pub(crate) fn of_late(&self) -> CostOf {
        let (Some(first), Some(last)) = (self.looks.front(), self.looks.back()) else {
            return CostOf::default();
        };
        CostOf {
            length_ns: last.time_ns.saturating_sub(first.time_ns),
            cpu_ns: last.cpu_ns.saturating_sub(first.cpu_ns),
            bpf_ns: last.bpf_ns.saturating_sub(first.bpf_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn the_cost_of_late_is_that_of_ten_seconds() {
        let mut late = LateCost::default();
        assert_eq!(late.of_late(), CostOf::default());
        // A costly start, then a hundredth of a CPU.
        for tenth in 0..600u64 {
            late.note(tenth * SECOND_NS / 10, 5 * SECOND_NS + tenth * SECOND_NS / 1000, tenth);
        }
        let cost = late.of_late();
        assert!((10 * SECOND_NS..11 * SECOND_NS).contains(&cost.length_ns), "{cost:?}");
        let percent = cost.cpu_ns as f64 * 100.0 / cost.length_ns as f64;
        assert!((percent - 1.0).abs() < 0.01, "{percent}");
        assert!(late.looks.len() < 30, "{} looks are kept", late.looks.len());
    }

    #[test]
    fn a_short_time_is_looked_at_from_its_start() {
        let mut late = LateCost::default();
        late.note(0, 70, 0);
        late.note(SECOND_NS, 90, 5);
        assert_eq!(late.of_late(), CostOf { length_ns: SECOND_NS, cpu_ns: 20, bpf_ns: 5 });
        late.note(SECOND_NS + 1, 91, 5);
        assert_eq!(late.of_late(), CostOf { length_ns: SECOND_NS + 1, cpu_ns: 21, bpf_ns: 5 });
    }
}
