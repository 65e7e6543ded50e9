//! The kernel side of a session, whatever does its work: what the session asks of it, and nothing of how that is done.

use super::state::Refusals;
use crate::base::opener;
use crate::bpf::{WatchedThreadEvent, prof_file, prof_file_key};
use crate::record::counter::PerfCounter;
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::kernel::attach::{CounterValues, KernelSide};
use crate::record::kernel::cpus::{AllTasksEvent, CpuEventOf};
use crate::record::kernel::load::verifier::{Verified, most_verified};
use crate::record::kernel::perf::open::EventPlan;
use crate::record::kernel::perf::side::EventSide;
use crate::record::kernel::perf_event::{CpuEvent, SidebandRing};
use crate::record::kernel::stopper::Stopper;
use crate::record::kernel::unwind_tables::KernelTables;
use crate::record::modules::ModuleFiles;
use crate::record::probes::attached::AttachedProbes;
use crate::record::process::mappings::Process;
use anyhow::Context;
use libbpf_rs::skel::Skel;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

/// What samples the target.
#[derive(Debug)]
pub(super) enum Sampling<'obj> {
    /// BPF programs, which walk stacks where they are.
    Bpf(Box<BpfSampling<'obj>>),
    /// Perf events of tasks, which copy stacks.
    Events(Box<EventSide>),
}

/// BPF programs, and the events that run them.
#[derive(Debug)]
pub(super) struct BpfSampling<'obj> {
    pub(super) kernel: KernelSide<'obj>,
    /// One event per CPU, until sampling begins.
    pub(super) samplers: Vec<CpuEvent>,
    /// The same of each counter.
    pub(super) counters: Vec<Vec<CpuEvent>>,
    /// The side-band's events: they are there whatever is recorded, and tell whether their CPUs have been.
    pub(super) of_cpus: Vec<CpuEvent>,
    pub(super) plan: CpuEventPlan,
    /// Probes, if there are some.
    pub(super) probes: Option<AttachedProbes>,
}

/// What is opened for a CPU that comes online.
#[derive(Debug)]
pub(super) struct CpuEventPlan {
    pub(super) on_cpu: bool,
    pub(super) counters: Vec<PerfCounter>,
    pub(super) hz: u32,
    pub(super) user_only: bool,
}

impl BpfSampling<'_> {
    /// Attaches the programs to their events.
    fn start(&mut self) -> anyhow::Result<()> {
        self.kernel.attach_samplers(std::mem::take(&mut self.samplers))?;
        for (number, events) in (1..).zip(std::mem::take(&mut self.counters)) {
            self.kernel.attach_counter(number, events)?;
        }
        Ok(())
    }

    /// Samples a CPU that has come online. Returns its side-band.
    fn add_cpu(&mut self, cpu: u32) -> anyhow::Result<SidebandRing> {
        let CpuEventPlan { on_cpu, ref counters, hz, user_only } = self.plan;
        let open = |what: CpuEventOf| Ok::<_, io::Error>(CpuEvent { cpu, event: what.open(cpu, counters)? });
        let ring = SidebandRing::map(open(CpuEventOf::Sideband)?)?;
        let sampler = on_cpu.then(|| open(CpuEventOf::Clock { hz, user_only })).transpose()?;
        let number = |number| open(CpuEventOf::Counter { number, hz, user_only });
        let events = (0..counters.len()).map(number).collect::<Result<Vec<_>, _>>()?;
        self.kernel.add_cpu(sampler, (1..).zip(events).collect())?;
        self.of_cpus.push(ring.event()?);
        Ok(ring)
    }
}

impl Sampling<'_> {
    /// Time for which the events of a CPU have been enabled, ns; `None` where it has none of its own.
    pub(super) fn enabled_ns(&self, cpu: u32) -> Option<u64> {
        match self {
            Sampling::Bpf(bpf) => bpf.of_cpus.iter().find(|event| event.cpu == cpu)?.enabled_ns().ok(),
            Sampling::Events(events) => events.enabled_ns(cpu),
        }
    }

    /// Samples a CPU that has come online. Returns its side-band, if that has a ring of its own.
    pub(super) fn add_cpu(&mut self, cpu: u32) -> anyhow::Result<Option<SidebandRing>> {
        match self {
            Sampling::Bpf(bpf) => bpf.add_cpu(cpu).map(Some),
            Sampling::Events(events) => {
                let open = |plan: &EventPlan, part, copy_bytes| {
                    let event = AllTasksEvent::of_plan(plan, part, copy_bytes);
                    CpuEventOf::AllTasks(event).open(cpu, &plan.counters)
                };
                events.add_cpu(cpu, open)?;
                Ok(None)
            }
        }
    }

    /// Forgets the events of a CPU that is gone, or was.
    pub(super) fn forget_cpu(&mut self, cpu: u32) {
        match self {
            Sampling::Bpf(bpf) => {
                bpf.of_cpus.retain(|event| event.cpu != cpu);
                bpf.kernel.forget_cpu(cpu);
            }
            Sampling::Events(events) => events.forget_cpu(cpu),
        }
    }

    /// The unwind tables that the kernel side walks by.
    pub(super) fn tables(&mut self) -> &mut KernelTables {
        match self {
            Sampling::Bpf(bpf) => &mut bpf.kernel.tables,
            Sampling::Events(events) => &mut events.tables,
        }
    }

    /// Who ends sampling.
    pub(super) fn stopper(&self) -> &Arc<Stopper> {
        match self {
            Sampling::Bpf(bpf) => &bpf.kernel.stopper,
            Sampling::Events(events) => &events.stopper,
        }
    }

    /// Times count from now on, and waits, if they are recorded. Returns the time, CLOCK_MONOTONIC, ns.
    pub(super) fn start_clock(&mut self, has_waits: bool) -> anyhow::Result<u64> {
        match self {
            Sampling::Bpf(bpf) => {
                if has_waits {
                    bpf.kernel.start_waits()
                } else if bpf.probes.is_some() {
                    Ok(bpf.kernel.start_hits())
                } else {
                    Ok(monotonic_ns())
                }
            }
            Sampling::Events(events) => Ok(events.start_clock()),
        }
    }

    /// Begins to take samples.
    pub(super) fn start_samplers(&mut self) -> anyhow::Result<()> {
        match self {
            Sampling::Bpf(bpf) => bpf.start(),
            Sampling::Events(events) => {
                events.start_samplers().context("cannot start the events of counters")
            }
        }
    }

    /// Time that threads ran in the kernel, ns, where nothing may be sampled there; known at the end.
    pub(super) fn unsampled_ns(&self) -> Option<u64> {
        match self {
            Sampling::Bpf(_) => None,
            Sampling::Events(events) => events.unsampled_ns(),
        }
    }

    /// Values of the kernel side's counters so far.
    pub(super) fn counters(&self) -> anyhow::Result<CounterValues> {
        match self {
            Sampling::Bpf(bpf) => bpf.kernel.counters(),
            Sampling::Events(events) => Ok(events.counters()),
        }
    }

    /// Looks for threads that have turned up unnoticed.
    pub(super) fn look_for_missed(&mut self) -> anyhow::Result<()> {
        match self {
            Sampling::Bpf(bpf) => bpf.kernel.look_for_missed(),
            Sampling::Events(_) => Ok(()),
        }
    }

    /// All threads that live: their times, and their waits that are not over.
    pub(super) fn watched_threads(&mut self) -> anyhow::Result<Vec<WatchedThreadEvent>> {
        match self {
            Sampling::Bpf(bpf) => bpf.kernel.watched_threads(),
            Sampling::Events(events) => Ok(events.watched_threads()),
        }
    }

    /// Closes the waits that were not over when sampling was stopped, and the times of all threads. `take` is to make room for
    /// what is sent of them.
    pub(super) fn close_waits(&mut self, take: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        match self {
            Sampling::Bpf(bpf) => bpf.kernel.close_waits(take),
            Sampling::Events(events) => events.close_waits(take),
        }
    }

    /// Stops everything. What is in the rings can still be received.
    pub(super) fn stop(&mut self) {
        match self {
            Sampling::Bpf(bpf) => {
                bpf.probes.iter_mut().for_each(AttachedProbes::stop);
                bpf.kernel.stop();
            }
            Sampling::Events(events) => events.stop(),
        }
    }

    /// Takes probes off that cost too much, `elapsed_ns` after the start on so many CPUs.
    pub(super) fn watch_probes(&mut self, elapsed_ns: u64, cpus: u32) {
        if let Sampling::Bpf(bpf) = self
            && let Some(probes) = &mut bpf.probes
        {
            probes.watch(&bpf.kernel.skeleton, elapsed_ns, cpus);
        }
    }

    /// What came of each probe, for people.
    pub(super) fn said_of_probes(&self) -> Vec<String> {
        match self {
            Sampling::Bpf(bpf) => {
                bpf.probes.iter().flat_map(|probes| probes.summary(&bpf.kernel.skeleton)).collect()
            }
            Sampling::Events(_) => Vec::new(),
        }
    }

    /// Hits of probes that were lost so far.
    pub(super) fn lost_hits(&self) -> u64 {
        match self {
            Sampling::Bpf(bpf) => bpf.probes.as_ref().map_or(0, |probes| probes.lost(&bpf.kernel.skeleton)),
            Sampling::Events(_) => 0,
        }
    }

    /// Time that loading the programs took, verification included.
    pub(super) fn load_time(&self) -> Duration {
        match self {
            Sampling::Bpf(bpf) => bpf.kernel.load_time,
            Sampling::Events(_) => Duration::ZERO,
        }
    }

    pub(super) fn most_verified(&self) -> Option<Verified> {
        match self {
            Sampling::Bpf(bpf) => most_verified(bpf.kernel.skeleton.object()),
            Sampling::Events(_) => None,
        }
    }

    /// Number of exec calls of a process that the kernel side has seen; `None` for a process that it does not know.
    pub(super) fn exec_seq(&self, pid: u32) -> anyhow::Result<Option<u32>> {
        match self {
            Sampling::Bpf(bpf) => bpf.kernel.exec_seq(pid),
            Sampling::Events(_) => Ok(None),
        }
    }

    /// Tells the kernel side about a file.
    pub(super) fn set_file(&self, key: &prof_file_key, file: &prof_file) -> anyhow::Result<()> {
        match self {
            Sampling::Bpf(bpf) => bpf.kernel.set_file(key, file),
            Sampling::Events(_) => Ok(()),
        }
    }

    /// Forgets a file that is about to be closed.
    pub(super) fn forget_file(&self, key: &prof_file_key) {
        match self {
            Sampling::Bpf(bpf) => bpf.kernel.forget_file(key),
            Sampling::Events(_) => {}
        }
    }

    /// Gives the kernel side the entry of a process.
    pub(super) fn set_process(
        &mut self,
        pid: u32,
        process: &mut Process,
        stamp: u64,
        files: &ModuleFiles,
        refusals: &mut Refusals,
    ) -> anyhow::Result<()> {
        match self {
            Sampling::Bpf(bpf) => {
                let (entry, cut) = process.kernel_entry(stamp, files);
                bpf.kernel.set_process(pid, &entry)?;
                refusals.cut(process, cut as u64);
            }
            Sampling::Events(events) => {
                events.set_reader(pid, || process.interpreter_mut().reader(pid))?;
            }
        }
        process.published(monotonic_ns());
        Ok(())
    }

    /// Why a process that has called exec is sampled no more; `None` if it is.
    pub(super) fn end_at_exec(&self, pid: u32) -> Option<&'static str> {
        let is_own = |owner: u32| owner == rustix::process::geteuid().as_raw();
        // Where they are root's, or were, the kernel's check is passed.
        if !matches!(self, Sampling::Events(_)) || is_own(0) || opener::makes_files() {
            return None;
        }
        let is_of_others = |path: String| std::fs::metadata(path).is_ok_and(|about| !is_own(about.uid()));
        if is_of_others(format!("/proc/{pid}")) {
            return Some("runs as another user");
        }
        // What the kernel shows of a process that may not be looked into is root's.
        is_of_others(format!("/proc/{pid}/maps")).then_some("may be executed, but not read")
    }

    /// Forgets a process that has ended.
    pub(super) fn forget_process(&mut self, pid: u32) {
        match self {
            Sampling::Bpf(bpf) => bpf.kernel.forget_process(pid),
            // To end a reader never fails.
            Sampling::Events(events) => drop(events.set_reader(pid, || None)),
        }
    }
}
