//! Events of a CPU that has come online while a recording goes on. Opening them takes the rights that the recorder has given up.

use crate::base::opener::{self, Service};
use crate::base::privilege;
use crate::record::counter::PerfCounter;
use crate::record::environment::machine::MAX_CPU_CLOCK_HZ;
use crate::record::kernel::perf::open::{Begins, EventCpus, EventPart, EventPlan, FunctionReading, Inherits};
use crate::record::kernel::perf_event;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;

/// Most bytes of stack that a sample may have.
const MOST_COPY_BYTES: u32 = u16::MAX as u32;

/// One event of a CPU.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum CpuEventOf {
    /// The sampler of running threads: it has no data but what BPF programs make of it.
    Clock { hz: u32, user_only: bool },
    /// That of a counter, by its number from 0.
    Counter { number: usize, hz: u32, user_only: bool },
    /// The side-band.
    Sideband,
    /// One of those that sample all tasks without BPF programs.
    AllTasks(AllTasksEvent),
}

/// What an event asks for that samples all tasks of a CPU without BPF programs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AllTasksEvent {
    part: EventPart,
    copy_bytes: u32,
    hz: u32,
    on_cpu: bool,
    waits: bool,
    with_kernel: bool,
    reading: FunctionReading,
}

impl AllTasksEvent {
    /// A part of a plan.
    pub(crate) fn of_plan(plan: &EventPlan, part: EventPart, copy_bytes: u32) -> Self {
        let EventPlan { hz, on_cpu, waits, with_kernel, reading, .. } = *plan;
        AllTasksEvent { part, copy_bytes, hz, on_cpu, waits, with_kernel, reading }
    }

    fn open_here(self, cpu: u32, counters: &[PerfCounter]) -> io::Result<OwnedFd> {
        let AllTasksEvent { part, copy_bytes, hz, on_cpu, waits, with_kernel, reading } = self;
        let plan = EventPlan {
            hz: hz.min(MAX_CPU_CLOCK_HZ),
            on_cpu,
            waits,
            counters: counters.to_vec(),
            wants_kernel: with_kernel,
            with_kernel,
            inherits: Inherits::Nothing,
            is_delayed: false,
            reading,
            cpus: EventCpus::default(),
        };
        plan.open_part(part, None, Begins::Now, cpu, copy_bytes.min(MOST_COPY_BYTES))
    }
}

impl CpuEventOf {
    /// Opens it for a CPU, with the opener's rights if there is one. `counters` are those of the recording.
    ///
    /// # Errors
    ///
    /// As of perf_event_open(2), and when the opener is gone.
    pub(crate) fn open(self, cpu: u32, counters: &[PerfCounter]) -> io::Result<OwnedFd> {
        if !opener::is_running() {
            return self.open_here(cpu, counters);
        }
        let body = serde_json::to_vec(&(cpu, self))?;
        let (_, event) = opener::ask_service(Service::CpuEvent, body, None)?;
        event.ok_or_else(|| io::ErrorKind::Other.into())
    }

    fn open_here(self, cpu: u32, counters: &[PerfCounter]) -> io::Result<OwnedFd> {
        match self {
            CpuEventOf::Clock { hz, user_only } => {
                perf_event::open_sampler(cpu, hz.min(MAX_CPU_CLOCK_HZ), user_only)
            }
            CpuEventOf::Counter { number, hz, user_only } => {
                let counter = counters.get(number).ok_or(io::ErrorKind::InvalidInput)?;
                perf_event::open_counter(cpu, counter, hz.min(MAX_CPU_CLOCK_HZ), user_only)
            }
            CpuEventOf::Sideband => perf_event::open_sideband(cpu),
            CpuEventOf::AllTasks(event) => event.open_here(cpu, counters),
        }
    }
}

/// The opener's side. It knows which counters the user asked for, and opens no others.
#[derive(Debug)]
pub(crate) struct CpuEventService {
    pub(crate) counters: Vec<PerfCounter>,
}

impl CpuEventService {
    /// Opens what a request asks for.
    ///
    /// # Errors
    ///
    /// For what is no request, and as of perf_event_open(2).
    pub(crate) fn serve(&self, body: &[u8]) -> io::Result<OwnedFd> {
        let (cpu, event): (u32, CpuEventOf) = serde_json::from_slice(body)?;
        privilege::open_event(|| event.open_here(cpu, &self.counters))
    }
}
