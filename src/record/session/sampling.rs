//! The kernel side of a session, whatever does its work: what the session asks of it, and nothing of how that is done.

use super::state::Refusals;
use crate::bpf::{WatchedThreadEvent, prof_file, prof_file_key};
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::kernel::attach::{CounterValues, KernelSide};
use crate::record::kernel::stopper::Stopper;
use crate::record::kernel::unwind_tables::KernelTables;
use crate::record::modules::ModuleFiles;
use crate::record::process::mappings::Process;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// What samples the target.
#[derive(Debug)]
pub(super) enum Sampling<'obj> {
    /// BPF programs, which walk stacks where they are.
    Bpf(BpfSampling<'obj>),
}

/// BPF programs, and the events that run them.
#[derive(Debug)]
pub(super) struct BpfSampling<'obj> {
    pub(super) kernel: KernelSide<'obj>,
    /// One event per CPU, until sampling begins.
    pub(super) samplers: Vec<OwnedFd>,
    /// The same of each counter.
    pub(super) counters: Vec<Vec<OwnedFd>>,
}

impl Sampling<'_> {
    /// The unwind tables that the kernel side walks by.
    pub(super) fn tables(&mut self) -> &mut KernelTables {
        let Sampling::Bpf(bpf) = self;
        &mut bpf.kernel.tables
    }

    /// Who ends sampling.
    pub(super) fn stopper(&self) -> &Arc<Stopper> {
        let Sampling::Bpf(bpf) = self;
        &bpf.kernel.stopper
    }

    /// Times count from now on, and waits, if they are recorded. Returns the time, CLOCK_MONOTONIC, ns.
    pub(super) fn start_clock(&mut self, has_waits: bool) -> anyhow::Result<u64> {
        let Sampling::Bpf(bpf) = self;
        if has_waits { bpf.kernel.start_waits() } else { Ok(monotonic_ns()) }
    }

    /// Begins to take samples.
    pub(super) fn start_samplers(&mut self) -> anyhow::Result<()> {
        let Sampling::Bpf(bpf) = self;
        bpf.kernel.attach_samplers(std::mem::take(&mut bpf.samplers))?;
        for (number, events) in (1..).zip(std::mem::take(&mut bpf.counters)) {
            bpf.kernel.attach_counter(number, events)?;
        }
        Ok(())
    }

    /// Values of the kernel side's counters so far.
    pub(super) fn counters(&self) -> anyhow::Result<CounterValues> {
        let Sampling::Bpf(bpf) = self;
        bpf.kernel.counters()
    }

    /// Looks for threads that have turned up unnoticed.
    pub(super) fn look_for_missed(&mut self) -> anyhow::Result<()> {
        let Sampling::Bpf(bpf) = self;
        bpf.kernel.look_for_missed()
    }

    /// All threads that live: their times, and their waits that are not over.
    pub(super) fn watched_threads(&mut self) -> anyhow::Result<Vec<WatchedThreadEvent>> {
        let Sampling::Bpf(bpf) = self;
        bpf.kernel.watched_threads()
    }

    /// Closes the waits that were not over when sampling was stopped, and the times of all threads. `take` is to make room for
    /// what is sent of them.
    pub(super) fn close_waits(&mut self, take: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let Sampling::Bpf(bpf) = self;
        bpf.kernel.close_waits(take)
    }

    /// Stops everything. What is in the rings can still be received.
    pub(super) fn stop(&mut self) {
        let Sampling::Bpf(bpf) = self;
        bpf.kernel.stop();
    }

    /// Time that loading the programs took, verification included.
    pub(super) fn load_time(&self) -> Duration {
        let Sampling::Bpf(bpf) = self;
        bpf.kernel.load_time
    }

    /// Number of exec calls of a process that the kernel side has seen; `None` for a process that it does not know.
    pub(super) fn exec_seq(&self, pid: u32) -> anyhow::Result<Option<u32>> {
        let Sampling::Bpf(bpf) = self;
        bpf.kernel.exec_seq(pid)
    }

    /// Tells the kernel side about a file.
    pub(super) fn set_file(&self, key: &prof_file_key, file: &prof_file) -> anyhow::Result<()> {
        let Sampling::Bpf(bpf) = self;
        bpf.kernel.set_file(key, file)
    }

    /// Forgets a file that is about to be closed.
    pub(super) fn forget_file(&self, key: &prof_file_key) {
        let Sampling::Bpf(bpf) = self;
        bpf.kernel.forget_file(key);
    }

    /// Gives the kernel side the entry of a process.
    pub(super) fn set_process(
        &self,
        pid: u32,
        process: &mut Process,
        stamp: u64,
        files: &ModuleFiles,
        refusals: &mut Refusals,
    ) -> anyhow::Result<()> {
        let Sampling::Bpf(bpf) = self;
        let (entry, cut) = process.kernel_entry(stamp, files);
        bpf.kernel.set_process(pid, &entry)?;
        refusals.cut(process, cut as u64);
        process.published(monotonic_ns());
        Ok(())
    }

    /// Forgets a process that has ended.
    pub(super) fn forget_process(&self, pid: u32) {
        let Sampling::Bpf(bpf) = self;
        bpf.kernel.forget_process(pid);
    }
}
