//! Events of tasks: which there are, what they ask for, and the rings that they write to.

use super::record::SAMPLE_TYPE;
use super::ring::PerfRing;
use crate::elf::Architecture;
use crate::record::counter::PerfCounter;
use crate::record::kernel::perf_event::{self, CpuEvent, EVERY_TASK};
use crate::unwind::arch::perf_registers::PerfRegister;
use perf_event_open_sys::bindings::{self, perf_event_attr};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

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
/// Pages of a ring that has room for the largest copies.
const ENOUGH_PAGES: usize = 256;

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

/// Whether functions of interpreters are read while their threads are interrupted: each sample wakes their reader then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FunctionReading {
    /// There are none.
    No,
    /// They are, from the start on.
    FromStart,
    /// They are once a process runs an interpreter.
    OnceThere,
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
    pub(crate) reading: FunctionReading,
    /// CPUs that are online, and those that are there and off: events of tasks wait for these to come.
    pub(crate) cpus: EventCpus,
}

/// The CPUs of events.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventCpus {
    pub(crate) online: Vec<u32>,
    pub(crate) off: Vec<u32>,
}

/// One of the events that a task has on each CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum EventPart {
    /// That which reports what processes do, and samples the clock.
    Carrier,
    /// That of a counter, by its number from 1.
    Counter(u8),
    /// That of switches.
    Switches,
}

/// When the events of a task begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    /// At once: what the task maps from now on is known, and samples count from the start of the recording.
    Now,
    /// When the task calls exec.
    AtExec,
}

/// The events of one task, or of all on each CPU.
#[derive(Debug, Default)]
pub(super) struct TaskEvents {
    /// Events that report what processes do and sample the clock.
    pub(super) carriers: Vec<CpuEvent>,
    /// Events of counters, with which counter it is, from 1, and those of switches, as [`SWITCHES`].
    pub(super) counters: Vec<(u8, CpuEvent)>,
}

/// Where the events of a CPU write, and how large the copies are that there is room for.
#[derive(Debug)]
pub(super) struct RingPlace {
    pub(super) cpu: u32,
    /// That of the ring; `None` once that was exchanged.
    event: Option<OwnedFd>,
    pub(super) copy_bytes: u32,
    /// So many of them fit into the ring.
    copies: usize,
}

/// Rings, where they are, and one more for the first CPU that each sample wakes a reader of, if there is room.
#[derive(Debug)]
pub(super) struct MappedRings {
    pub(super) rings: Vec<PerfRing>,
    pub(super) places: Vec<RingPlace>,
    pub(super) spare: Option<PerfRing>,
}

/// Maps rings as large as this user may have, one for each CPU that is online; then those of the others, as far as there is room.
/// A spare one is not worth smaller copies of stacks.
///
/// # Errors
///
/// When not even the smallest may be mapped.
pub(super) fn map_rings(cpus: &EventCpus, wants_spare: bool) -> io::Result<MappedRings> {
    if wants_spare {
        let mapped = RING_PAGES.into_iter().filter(|pages| *pages >= ENOUGH_PAGES).find_map(|pages| {
            let rings = cpus.online.iter().map(|cpu| map_ring(*cpu, pages, fill_mark(pages)));
            let rings = rings.collect::<io::Result<Vec<_>>>().ok()?;
            let spare = map_ring(*cpus.online.first()?, pages, COPY_BYTES[0]).ok()?;
            Some((pages, rings, spare))
        });
        if let Some((pages, rings, spare)) = mapped {
            return Ok(MappedRings { spare: Some(spare), ..place_rings(cpus, Some((pages, rings)))? });
        }
    }
    place_rings(cpus, None)
}

/// Rings of all CPUs and their places; `mapped` are those of CPUs that are online, if they were mapped already, and their pages.
fn place_rings(cpus: &EventCpus, mapped: Option<(usize, Vec<PerfRing>)>) -> io::Result<MappedRings> {
    let (mut rings, mut places) = (Vec::new(), Vec::new());
    let mut add = |cpus: &[u32], mapped: Option<(usize, Vec<PerfRing>)>| {
        let (pages, mapped) = mapped.map_or_else(|| map_largest(cpus), Ok)?;
        let ring_bytes = pages * rustix::param::page_size();
        let fits = |bytes: &&u32| **bytes as usize * COPIES_IN_RING <= ring_bytes;
        let copy_bytes = COPY_BYTES.iter().find(fits).or(COPY_BYTES.last()).copied().unwrap_or(0);
        for (ring, cpu) in mapped.into_iter().zip(cpus) {
            let event = Some(ring.as_fd().try_clone_to_owned()?);
            let copies = ring_bytes / copy_bytes.max(1) as usize;
            places.push(RingPlace { cpu: *cpu, event, copy_bytes, copies });
            rings.push(ring);
        }
        Ok::<(), io::Error>(())
    };
    add(&cpus.online, mapped)?;
    // Without one, its CPU is not recorded when it comes.
    let _ = cpus.off.iter().try_for_each(|cpu| add(&[*cpu], None));
    Ok(MappedRings { rings, places, spare: None })
}

/// Bytes of a ring that wake who empties it.
fn fill_mark(pages: usize) -> u32 {
    (pages * rustix::param::page_size() / WAKE_PART) as u32
}

/// Maps a ring for each of these CPUs, all of the same size. Returns their pages.
fn map_largest(cpus: &[u32]) -> io::Result<(usize, Vec<PerfRing>)> {
    let mut last = io::Error::from(io::ErrorKind::OutOfMemory);
    for pages in RING_PAGES {
        match cpus.iter().map(|cpu| map_ring(*cpu, pages, fill_mark(pages))).collect::<io::Result<Vec<_>>>() {
            Ok(rings) => return Ok((pages, rings)),
            // Of other failures there are as many for a smaller one.
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) => {
                return Err(error);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Maps a ring of an event of this thread, which counts nothing: it is there as long as this thread is. It wakes whenever more
/// than `mark` bytes have come. A sample has all bytes of its copy, whether there was so much to copy or not: a mark of so many
/// wakes with each, and hardly with other records.
///
/// # Errors
///
/// `EPERM` where the memory that this user may lock is used up.
pub(super) fn map_ring(cpu: u32, pages: usize, mark: u32) -> io::Result<PerfRing> {
    let mut attr = perf_event::new_attr();
    attr.type_ = bindings::PERF_TYPE_SOFTWARE;
    attr.config = bindings::PERF_COUNT_SW_DUMMY.into();
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = mark;
    let this_thread = 0;
    let event = perf_event::open_for(&mut attr, this_thread, cpu)?;
    PerfRing::map(event, pages).map_err(|(_, error)| error)
}

impl RingPlace {
    /// Gives up the event of a ring that is exchanged: one without a ring would wake for ever.
    pub(super) fn give_up(&mut self) {
        self.event = None;
    }
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
        places: &[RingPlace],
    ) -> Result<TaskEvents, (Option<PerfCounter>, io::Error)> {
        let mut events = TaskEvents::default();
        // Where all tasks have the same one, it is of the CPU, which has to be there.
        for place in places.iter().filter(|place| task.is_some() || self.cpus.online.contains(&place.cpu)) {
            let add = |part, copy_bytes| self.open_part(part, task, begins, place.cpu, copy_bytes);
            self.add_events(place, &mut events, add)?;
        }
        Ok(events)
    }

    /// Adds the events of one CPU, which `open` opens.
    pub(super) fn add_events(
        &self,
        place: &RingPlace,
        events: &mut TaskEvents,
        mut open: impl FnMut(EventPart, u32) -> io::Result<OwnedFd>,
    ) -> Result<(), (Option<PerfCounter>, io::Error)> {
        for part in self.parts() {
            let counter = self.counter_of(part);
            if counter.is_some_and(|counter| counter.is_of_kernel() && !self.with_kernel) {
                // The kernel would open it, and it would never count.
                return Err((counter.cloned(), io::Error::from_raw_os_error(libc::EACCES)));
            }
            let opened = open(part, place.copy_bytes).and_then(|event| {
                let ring = place.event.as_ref().ok_or(io::ErrorKind::NotFound)?;
                perf_event::write_to(&event, ring.as_fd())?;
                Ok(CpuEvent { cpu: place.cpu, event })
            });
            let event = opened.map_err(|error| (counter.cloned(), error))?;
            match part {
                EventPart::Carrier => events.carriers.push(event),
                EventPart::Counter(number) => events.counters.push((number, event)),
                EventPart::Switches => events.counters.push((SWITCHES, event)),
            }
        }
        Ok(())
    }

    fn parts(&self) -> impl Iterator<Item = EventPart> + use<> {
        let counters = (1..).take(self.counters.len()).map(EventPart::Counter);
        let switches = self.samples_switches().then_some(EventPart::Switches);
        [EventPart::Carrier].into_iter().chain(counters).chain(switches)
    }

    fn counter_of(&self, part: EventPart) -> Option<&PerfCounter> {
        match part {
            EventPart::Counter(number) => self.counters.get(usize::from(number).checked_sub(1)?),
            EventPart::Carrier | EventPart::Switches => None,
        }
    }

    /// Opens one event of a task, or of all tasks, on a CPU.
    pub(crate) fn open_part(
        &self,
        part: EventPart,
        task: Option<u32>,
        begins: Begins,
        cpu: u32,
        copy_bytes: u32,
    ) -> io::Result<OwnedFd> {
        let mut attr = match part {
            EventPart::Carrier => self.carrier(copy_bytes),
            EventPart::Counter(_) => {
                self.counter(self.counter_of(part).ok_or(io::ErrorKind::InvalidInput)?, copy_bytes)
            }
            EventPart::Switches => self.switches(copy_bytes),
        };
        match (part, begins) {
            (EventPart::Carrier, Begins::Now) => attr.set_disabled(0),
            (EventPart::Carrier, Begins::AtExec) => attr.set_enable_on_exec(1),
            (_, begins) => attr.set_enable_on_exec((begins == Begins::AtExec && !self.is_delayed).into()),
        }
        let Some(tid) = task else {
            attr.set_inherit(0);
            attr.set_inherit_thread(0);
            perf_event::tell_time(&mut attr);
            return perf_event::open_for(&mut attr, EVERY_TASK, cpu);
        };
        match perf_event::open_for(&mut attr, tid as libc::pid_t, cpu) {
            // Before Linux 5.13 children of every kind have it, and the reader leaves processes out.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && attr.inherit_thread() == 1 => {
                attr.set_inherit_thread(0);
                perf_event::open_for(&mut attr, tid as libc::pid_t, cpu)
            }
            other => other,
        }
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
        self.wake_reader(&mut attr);
        attr.set_exclude_idle(1);
        attr.set_exclude_guest(1);
        attr.set_exclude_kernel((!self.with_kernel).into());
        attr.set_exclude_hv((!self.with_kernel).into());
        attr.set_mmap(1);
        attr.set_mmap2(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
        attr.set_context_switch((self.waits || self.reading != FunctionReading::No).into());
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
        self.wake_reader(&mut attr);
        attr
    }

    /// Has each sample wake who reads functions, if that is done from the start on.
    fn wake_reader(&self, attr: &mut perf_event_attr) {
        if self.reading == FunctionReading::FromStart {
            attr.set_watermark(0);
            attr.__bindgen_anon_2.wakeup_events = 1;
        }
    }

    /// How often the rings have to be emptied where they wake no one who does, at their size.
    pub(super) fn emptied_every(&self, places: &[RingPlace]) -> Duration {
        let copies = places.iter().map(|place| place.copies).min().unwrap_or(COPIES_IN_RING);
        let period = Duration::from_secs(1) / self.hz.max(1);
        let most = u32::try_from(copies / WAKE_PART).unwrap_or(1).max(1);
        period.saturating_mul(most)
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
