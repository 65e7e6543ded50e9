//! Events of tasks: which there are, what they ask for, and the rings that they write to.

use super::record::SAMPLE_TYPE;
use super::ring::PerfRing;
use crate::elf::Architecture;
use crate::record::counter::PerfCounter;
use crate::record::kernel::perf_event::{self, EVERY_TASK};
use crate::unwind::arch::perf_registers::PerfRegister;
use perf_event_open_sys::bindings::{self, perf_event_attr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Pages of a ring, from the most on: a power of two each. A user without privileges may lock kernel.perf_event_mlock_kb for each
/// CPU, and RLIMIT_MEMLOCK in all beyond that.
const RING_PAGES: [usize; 8] = [2048, 1024, 512, 256, 128, 64, 32, 16];
/// Copies that fit into a ring at the least.
const COPIES_IN_RING: usize = 16;
/// Sizes of stack copies, from the most on, bytes. A record may have 65,535, its other fields included.
const COPY_BYTES: [u32; 4] = [64_512, 32_768, 16_384, 8_192];
/// Bytes of stack in a sample of a switch: there may be many of them.
const SWITCH_COPY_BYTES: u32 = 16_384;
/// Number of the event of switches among the counters of a recording, which has fewer.
pub(super) const SWITCHES: u8 = u8::MAX;
/// A reader is woken when this part of a ring is full.
const WAKE_PART: usize = 4;

/// Which tasks are born with the events of their makers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Inherits {
    /// None.
    #[default]
    Nothing,
    /// The threads of a process.
    Threads,
    /// Threads and child processes.
    All,
}

/// What is sampled, and how.
#[derive(Debug, Clone)]
pub(crate) struct EventPlan {
    /// Sampling rate, Hz.
    pub(crate) hz: u32,
    /// Running threads are sampled.
    pub(crate) on_cpu: bool,
    /// Switches are reported.
    pub(crate) waits: bool,
    /// Counters that are sampled.
    pub(crate) counters: Vec<PerfCounter>,
    /// Samples in the kernel are wanted.
    pub(crate) wants_kernel: bool,
    /// They are taken, with the kernel's frames.
    pub(crate) with_kernel: bool,
    pub(crate) inherits: Inherits,
    /// Sampling begins later than a command that is started for it.
    pub(crate) is_delayed: bool,
    /// CPUs that are online.
    pub(crate) cpus: Vec<u32>,
}

/// When the events of a task begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    /// At once: what the task maps from now on is known, and samples count from the start of the recording.
    Now,
    /// When the task calls exec.
    AtExec,
}

/// The events of one task, or of all on each CPU.
#[derive(Debug, Default)]
pub(super) struct TaskEvents {
    /// Events that report what processes do and sample the clock.
    pub(super) carriers: Vec<OwnedFd>,
    /// Events of counters, with which counter it is, from 1, and those of switches, as [`SWITCHES`].
    pub(super) counters: Vec<(u8, OwnedFd)>,
}

/// Where events write, CPU by CPU, and how large the copies are that there is room for.
#[derive(Debug)]
pub(super) struct RingPlaces {
    events: Vec<OwnedFd>,
    pub(super) copy_bytes: u32,
}

/// Maps rings as large as this user may have, one for each CPU.
///
/// # Errors
///
/// When not even the smallest may be mapped.
pub(super) fn map_rings(cpus: &[u32]) -> io::Result<(Vec<PerfRing>, RingPlaces)> {
    let mut last = io::Error::from(io::ErrorKind::OutOfMemory);
    for pages in RING_PAGES {
        let rings = cpus.iter().map(|cpu| map_ring(*cpu, pages)).collect::<io::Result<Vec<_>>>();
        match rings {
            Ok(rings) => {
                let ring_bytes = pages * rustix::param::page_size();
                let fits = |bytes: &&u32| **bytes as usize * COPIES_IN_RING <= ring_bytes;
                let copy_bytes = COPY_BYTES.iter().find(fits).or(COPY_BYTES.last()).copied().unwrap_or(0);
                let events = rings.iter().map(|ring| ring.as_fd().try_clone_to_owned());
                let events = events.collect::<io::Result<_>>()?;
                return Ok((rings, RingPlaces { events, copy_bytes }));
            }
            // Of other failures there are as many for a smaller one.
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) => {
                return Err(error);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Maps a ring of an event of this thread, which counts nothing: it is there as long as this thread is.
fn map_ring(cpu: u32, pages: usize) -> io::Result<PerfRing> {
    let mut attr = perf_event::new_attr();
    attr.type_ = bindings::PERF_TYPE_SOFTWARE;
    attr.config = bindings::PERF_COUNT_SW_DUMMY.into();
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_watermark(1);
    let bytes = pages * rustix::param::page_size();
    attr.__bindgen_anon_2.wakeup_watermark = (bytes / WAKE_PART) as u32;
    let this_thread = 0;
    let event = perf_event::open_for(&mut attr, this_thread, cpu)?;
    PerfRing::map(event, pages).map_err(|(_, error)| error)
}

impl EventPlan {
    /// Opens the events of a task on each CPU, or of all tasks.
    ///
    /// # Errors
    ///
    /// The first refusal, of a counter or of the other events: `ESRCH` for a task that is gone, `EACCES` and `EPERM` for one
    /// that may not be looked at.
    pub(super) fn open(
        &self,
        task: Option<u32>,
        begins: Begins,
        RingPlaces { events: rings, copy_bytes }: &RingPlaces,
    ) -> Result<TaskEvents, (Option<PerfCounter>, io::Error)> {
        let task = task.map_or(EVERY_TASK, |tid| tid as libc::pid_t);
        let mut events = TaskEvents::default();
        for (cpu, ring) in self.cpus.iter().zip(rings) {
            let mut attr = self.carrier(*copy_bytes);
            match begins {
                Begins::Now => attr.set_disabled(0),
                Begins::AtExec => attr.set_enable_on_exec(1),
            }
            let carrier = self.open_one(&mut attr, task, *cpu, ring).map_err(|error| (None, error))?;
            events.carriers.push(carrier);
            for (number, counter) in (1..).zip(&self.counters) {
                if counter.is_of_kernel() && !self.with_kernel {
                    // The kernel would open it, and it would never count.
                    let denied = io::Error::from_raw_os_error(libc::EACCES);
                    return Err((Some(counter.clone()), denied));
                }
                let mut attr = self.counter(counter, *copy_bytes);
                attr.set_enable_on_exec((begins == Begins::AtExec && !self.is_delayed).into());
                let event = self.open_one(&mut attr, task, *cpu, ring);
                let event = event.map_err(|error| (Some(counter.clone()), error))?;
                events.counters.push((number, event));
            }
            if self.samples_switches() {
                let mut attr = self.switches(*copy_bytes);
                attr.set_enable_on_exec((begins == Begins::AtExec && !self.is_delayed).into());
                let event = self.open_one(&mut attr, task, *cpu, ring).map_err(|error| (None, error))?;
                events.counters.push((SWITCHES, event));
            }
        }
        Ok(events)
    }

    fn open_one(
        &self,
        attr: &mut perf_event_attr,
        task: libc::pid_t,
        cpu: u32,
        ring: &OwnedFd,
    ) -> io::Result<OwnedFd> {
        if task == EVERY_TASK {
            attr.set_inherit(0);
            attr.set_inherit_thread(0);
        }
        let event = match perf_event::open_for(attr, task, cpu) {
            // Before Linux 5.13 children of every kind have it, and the reader leaves processes out.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && attr.inherit_thread() == 1 => {
                attr.set_inherit_thread(0);
                perf_event::open_for(attr, task, cpu)
            }
            other => other,
        }?;
        perf_event::write_to(&event, ring.as_fd())?;
        Ok(event)
    }

    /// What the event asks for that samples the clock and reports what processes and threads do.
    fn carrier(&self, copy_bytes: u32) -> perf_event_attr {
        let mut attr = self.sampling(copy_bytes);
        attr.type_ = bindings::PERF_TYPE_SOFTWARE;
        attr.config = match self.on_cpu {
            true => bindings::PERF_COUNT_SW_CPU_CLOCK.into(),
            false => bindings::PERF_COUNT_SW_DUMMY.into(),
        };
        attr.__bindgen_anon_1.sample_period = perf_event::period_ns(self.hz);
        attr.set_exclude_idle(1);
        attr.set_exclude_guest(1);
        attr.set_exclude_kernel((!self.with_kernel).into());
        attr.set_exclude_hv((!self.with_kernel).into());
        attr.set_mmap(1);
        attr.set_mmap2(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
        attr.set_context_switch(self.waits.into());
        attr
    }

    /// Whether there are stacks of waits: they are taken in the kernel, where a thread leaves its CPU.
    pub(crate) fn samples_switches(&self) -> bool {
        self.waits && self.with_kernel
    }

    /// What the event asks for that samples switches: all of a thread that has no more than there are samples in a second.
    fn switches(&self, copy_bytes: u32) -> perf_event_attr {
        let mut attr = self.sampling(copy_bytes.min(SWITCH_COPY_BYTES));
        attr.type_ = bindings::PERF_TYPE_SOFTWARE;
        attr.config = bindings::PERF_COUNT_SW_CONTEXT_SWITCHES.into();
        attr.set_freq(1);
        attr.__bindgen_anon_1.sample_freq = self.hz.into();
        attr
    }

    fn counter(&self, counter: &PerfCounter, copy_bytes: u32) -> perf_event_attr {
        let mut attr = self.sampling(copy_bytes);
        perf_event::count(&mut attr, counter, self.hz, !self.with_kernel);
        attr
    }

    /// What all events ask for that take samples.
    fn sampling(&self, copy_bytes: u32) -> perf_event_attr {
        let mut attr = perf_event::new_attr();
        attr.sample_type = SAMPLE_TYPE;
        if self.with_kernel {
            attr.sample_type |= u64::from(bindings::PERF_SAMPLE_CALLCHAIN);
            attr.set_exclude_callchain_user(1);
        }
        attr.sample_regs_user = PerfRegister::walk_mask(Architecture::HOST);
        attr.sample_stack_user = copy_bytes;
        attr.set_sample_id_all(1);
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_MONOTONIC;
        attr.set_watermark(1);
        attr.set_disabled(1);
        attr.set_inherit((self.inherits != Inherits::Nothing).into());
        attr.set_inherit_thread((self.inherits == Inherits::Threads).into());
        attr
    }
}
