//! CPU time that a target used by the kernel's own books: a recording of it that holds nothing has failed, however that
//! came about, and must not pass for one of a target that only waited.

use crate::base::failure::{Failure, status};
use crate::base::units;
use crate::profile::counter;
use crate::record::process::proc_fs;
use crate::record::process::proc_fs::CpuTime;
use rustc_hash::FxHashMap;

/// A target that ran for this many sampling periods has a sample.
const LEAST_PERIODS: u64 = 10;
/// Shortest time over which the kernel's accounting is precise enough, ns.
const LEAST_NS: u64 = 30_000_000;

/// Whose CPU time is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Whose {
    /// CPU time of all threads of a process.
    Process(u32),
    /// CPU time of a thread.
    Thread(u32),
}

/// CPU times before the recording.
#[derive(Debug, Default)]
pub(crate) struct CpuUse {
    before: FxHashMap<Whose, CpuTime>,
}

impl CpuUse {
    /// From now on.
    pub(crate) fn begin(targets: impl Iterator<Item = Whose>) -> Self {
        CpuUse { before: targets.filter_map(|whose| Some((whose, read(whose)?))).collect() }
    }

    /// CPU time that the targets have used since, as far as they are still there. `ended` is what the books had of a
    /// process at its end.
    pub(crate) fn since(&self, ended: Option<(u32, CpuTime)>) -> CpuTime {
        let now = |whose: Whose| match ended {
            Some((pid, time)) if whose == Whose::Process(pid) => Some(time),
            _ => read(whose),
        };
        let used = self.before.iter().filter_map(|(whose, before)| Some(now(*whose)?.since(before)));
        used.fold(CpuTime::default(), |sum, used| sum.plus(&used))
    }
}

fn read(whose: Whose) -> Option<CpuTime> {
    match whose {
        Whose::Process(pid) => proc_fs::cpu_time(pid),
        Whose::Thread(tid) => proc_fs::cpu_time_of_thread(tid),
    }
}

/// Facts on what was sampled, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampled {
    /// Samples that were taken and those that were lost.
    pub(crate) samples: u64,
    /// The weight of one, ns.
    pub(crate) period_ns: u64,
    /// Children of the target are sampled, too.
    pub(crate) has_children: bool,
    /// Only while it is not in the kernel.
    pub(crate) user_only: bool,
}

/// The CPU time that the target used and of which there is no sample, ns, where that cannot be chance.
pub(crate) fn unrecorded_ns(used: &CpuTime, sampled: Sampled) -> Option<u64> {
    let used_ns = used.sampled_ns(sampled.has_children, sampled.user_only);
    let least_ns = sampled.period_ns.saturating_mul(LEAST_PERIODS).max(LEAST_NS);
    (sampled.samples == 0 && used_ns >= least_ns).then_some(used_ns)
}

/// Says so. `counters` are those of the profile; `lost` is why the kernel has ended the sampling of a program.
pub(crate) fn failure(
    (target, used_ns): (&str, u64),
    lost: Option<&String>,
    counter_of: impl Fn(&str) -> u64,
) -> Failure {
    let words = |why: &str| {
        format!(
            "nothing was recorded of {target}, which used {} of CPU time: {why}",
            units::duration(used_ns)
        )
    };
    if let Some(why) = lost {
        return Failure::new(status::NO_MATCH, words(why)).hint("run prof as root to have it");
    }
    let (hits, idle) = (counter_of("kernel_hits"), counter_of("kernel_idle"));
    let lost = [counter::LOST_RING_FULL, counter::LOST_COUNTS, counter::LOST_BAD_RECORD].map(&counter_of);
    let lost = lost.into_iter().fold(0, u64::saturating_add);
    let why = match hits.saturating_sub(idle) {
        _ if lost > 0 => format!("{} were lost", units::counted(lost, "sample")),
        0 => "no sampling interrupt came while a CPU was busy".to_owned(),
        busy => format!(
            "{} came while CPUs were busy, none of them in the target",
            units::counted(busy, "sampling interrupt")
        ),
    };
    Failure::new(status::NO_MATCH, words(&why)).hint("see whether sampling works here:  prof doctor")
}

/// Says that none of a target's `threads` was seen to run or to wait.
pub(crate) fn silence(target: &str, threads: u64) -> Failure {
    let message = format!(
        "nothing was recorded of {target}: the kernel reported {} neither running nor waiting",
        units::counted(threads, "thread")
    );
    Failure::new(status::NO_MATCH, message).hint("see whether recording works here:  prof doctor")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: Sampled =
        Sampled { samples: 0, period_ns: 1_000_000, has_children: true, user_only: false };

    fn used(user_ms: u64, system_ms: u64, children_ms: u64) -> CpuTime {
        let [user_ns, system_ns, children_ns] = [user_ms, system_ms, children_ms].map(|ms| ms * 1_000_000);
        CpuTime { user_ns, system_ns, children_user_ns: children_ns, children_system_ns: 0 }
    }

    #[test]
    fn a_target_that_ran_long_and_has_no_sample_was_not_recorded() {
        assert_eq!(unrecorded_ns(&used(300, 0, 0), SAMPLED), Some(300_000_000));
        assert_eq!(unrecorded_ns(&used(300, 0, 0), Sampled { samples: 1, ..SAMPLED }), None);
        assert_eq!(unrecorded_ns(&used(20, 0, 0), SAMPLED), None, "the books are not that exact");
        let slow = Sampled { period_ns: 1_000_000_000, ..SAMPLED };
        assert_eq!(unrecorded_ns(&used(3000, 0, 0), slow), None, "at one sample a second that may be chance");
        assert_eq!(unrecorded_ns(&used(12_000, 0, 0), slow), Some(12_000_000_000));
    }

    #[test]
    fn only_what_was_to_be_sampled_counts() {
        let user_only = Sampled { user_only: true, ..SAMPLED };
        assert_eq!(unrecorded_ns(&used(0, 300, 0), user_only), None);
        assert_eq!(unrecorded_ns(&used(40, 300, 0), user_only), Some(40_000_000));
        let no_children = Sampled { has_children: false, ..SAMPLED };
        assert_eq!(unrecorded_ns(&used(0, 0, 300), no_children), None);
        assert_eq!(unrecorded_ns(&used(0, 0, 300), SAMPLED), Some(300_000_000));
    }

    #[test]
    fn the_books_count_from_the_beginning() {
        let own = std::process::id();
        let mut cpu_use = CpuUse::begin([Whose::Process(own), Whose::Process(u32::MAX)].into_iter());
        let before = cpu_use.before[&Whose::Process(own)];
        assert!(!cpu_use.before.contains_key(&Whose::Process(u32::MAX)), "it does not exist");
        let at_end = before.plus(&used(50, 20, 5));
        assert_eq!(cpu_use.since(Some((own, at_end))), used(50, 20, 5));
        cpu_use.before.insert(Whose::Process(u32::MAX), CpuTime::default());
        assert_eq!(cpu_use.since(Some((own, at_end))), used(50, 20, 5), "nothing is known of who is gone");
        assert!(read(Whose::Thread(own)).is_some_and(|time| time.children_user_ns == 0));
    }

    #[test]
    fn the_reason_is_in_the_kernels_counters() {
        let with = |hits: u64, idle: u64, lost: u64| {
            let failure = failure(("busy", 301_000_000), None, |name| match name {
                "kernel_hits" => hits,
                "kernel_idle" => idle,
                counter::LOST_RING_FULL => lost,
                _ => 0,
            });
            assert_eq!((failure.status, failure.hints.len()), (status::NO_MATCH, 1));
            failure.message
        };
        assert_eq!(
            with(100, 40, 0),
            "nothing was recorded of busy, which used 301 ms of CPU time: 60 sampling interrupts came while CPUs were \
             busy, none of them in the target"
        );
        assert!(with(40, 40, 0).ends_with("no sampling interrupt came while a CPU was busy"));
        assert!(with(100, 40, 7).ends_with("7 samples were lost"));
        let why = "`busy` may be executed, but not read: the kernel has ended its sampling".to_owned();
        let failure = failure(("busy", 301_000_000), Some(&why), |_| 0);
        assert!(failure.message.ends_with(&why) && failure.hints[0].contains("root"), "{failure:?}");
    }
}
