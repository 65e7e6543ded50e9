//! What rows of the profile are written with.

use super::kernel_frames::KernelFrames;
use super::tasks::KnownTasks;
use super::totals::CollectedTotals;
use crate::bpf::ThreadTimeEvent;
use crate::profile::{Profile, Reason, ShortWaits, TaskId, ThreadTime};
use crate::record::process::table::Processes;

/// The parts of a collector that rows need, borrowed together.
pub(crate) struct RowWriter<'c> {
    /// Profile that is being filled.
    pub(crate) profile: &'c mut Profile,
    /// Sums so far.
    pub(crate) totals: &'c mut CollectedTotals,
    /// The kernel's frames, and its symbols.
    pub(crate) kernel: &'c mut KernelFrames,
    pub(super) tasks: &'c mut KnownTasks,
    pub(super) processes: &'c Processes,
    /// The time from which samples count, CLOCK_MONOTONIC, ns.
    pub(crate) start_ns: u64,
}

impl RowWriter<'_> {
    /// The thread that had the numbers `(tgid, tid)` and this name at `time_ns`.
    pub(crate) fn task(&mut self, time_ns: u64, numbers: (u32, u32), comm: &[u8]) -> TaskId {
        self.tasks.at(&mut self.profile.tables, self.processes, time_ns, numbers, comm)
    }

    /// A thread called `comm` that the PID namespace of this process does not have.
    pub(crate) fn task_outside(&mut self, comm: &[u8]) -> TaskId {
        self.tasks.outside(&mut self.profile.tables, comm)
    }

    /// The time of a thread with the numbers of the profile.
    pub(crate) fn thread_time(&mut self, time: &ThreadTimeEvent) -> ThreadTime {
        let short_waits = (time.short_waits.iter().enumerate())
            .filter(|(_, (count, _))| *count > 0)
            .map(|(code, &(count, time_ns))| ShortWaits {
                reason: Reason::from_code(code as u8),
                count,
                time_ns,
            })
            .collect();
        ThreadTime {
            task: self.task(time.to_ns, (time.tgid, time.tid), &time.comm),
            from_ns: time.from_ns.saturating_sub(self.start_ns),
            to_ns: time.to_ns.saturating_sub(self.start_ns),
            on_cpu_ns: time.on_cpu_ns,
            no_cpu_ns: time.no_cpu_ns,
            blocked_ns: time.blocked_ns,
            switches: time.switches,
            has_ended: time.has_ended,
            short_waits,
        }
    }
}
