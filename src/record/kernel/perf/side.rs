//! A kernel side of events of tasks, as a session has it. Dropping it ends sampling.

use super::exchange::{RingExchange, SharedRings};
use super::functions::FunctionReader;
use super::open::{
    Begins, EventPart, EventPlan, FunctionReading, MappedRings, RingPlace, TaskEvents, map_rings,
};
use super::reader::FunctionReaders;
use super::record::RecordOf;
use super::refusal::EventRefusal;
use super::ring::{PerfRing, ReadRing};
use super::source::{EventRings, LOOK_PATIENCE, RecordState, SharedRecordState};
use super::threads::KnownThreads;
use super::witness::ReadsOfSamples;
use crate::bpf::{Counter, WatchedThreadEvent};
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::kernel::attach::CounterValues;
use crate::record::kernel::drain::RingSource;
use crate::record::kernel::perf_event::{self, CpuEvent};
use crate::record::kernel::stopper::Stopper;
use crate::record::kernel::unwind_tables::KernelTables;
use rustc_hash::FxHashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// Threads are looked for so often at the start, at most: some may be born meanwhile.
const MOST_LOOKS: usize = 8;

/// Number by which a thread opens events of itself.
const THIS_THREAD: u32 = 0;

/// A thread that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadThere {
    pub(crate) tgid: u32,
    pub(crate) tid: u32,
    pub(crate) comm: String,
}

/// Whose events are opened.
pub(crate) enum EventTargets<'a> {
    /// All tasks of the machine; the threads that are there are for their names.
    System(Vec<ThreadThere>),
    /// The threads that this finds.
    Threads(&'a dyn Fn() -> Vec<ThreadThere>),
    /// A command that is started later.
    Later,
}

/// Parameters besides the plan.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventOptions {
    /// Waits of this length and more are recorded, ns, if any.
    pub(crate) min_block_ns: Option<u64>,
    /// A copy of every stack is wanted.
    pub(crate) copies_stacks: bool,
    /// Samples of other processes are left out.
    pub(crate) only: Option<FxHashSet<u32>>,
}

/// Events of the tasks of a target, with their rings.
#[derive(Debug)]
pub(crate) struct EventSide {
    plan: EventPlan,
    has_waits: bool,
    state: SharedRecordState,
    places: Vec<RingPlace>,
    /// Events with when they begin, until sampling does.
    events: Vec<(Begins, TaskEvents)>,
    /// Events are of all tasks of a CPU.
    is_system_wide: bool,
    /// Those of them that tell whether the CPU has been there all the time.
    of_cpus: Vec<CpuEvent>,
    pub(crate) stopper: Arc<Stopper>,
    /// Who reads the functions of interpreters, where that is done.
    readers: Option<FunctionReaders>,
    /// What has samples wake these readers, until it is done.
    exchange: Option<RingExchange>,
    /// None: what walks the stacks has the tables at hand.
    pub(crate) tables: KernelTables,
}

impl EventSide {
    /// Opens the rings, and the events of all tasks that are there: what they map from now on is known.
    ///
    /// # Errors
    ///
    /// The first refusal.
    pub(crate) fn open(
        mut plan: EventPlan,
        options: EventOptions,
        targets: EventTargets<'_>,
    ) -> Result<(Self, Box<dyn RingSource>), EventRefusal> {
        let EventOptions { min_block_ns, copies_stacks, only } = options;
        let opened = OpenedRings::open(&mut plan).map_err(EventRefusal::Ring)?;
        let OpenedRings { rings, places, readers, exchange } = opened;
        let threads = KnownThreads::new(min_block_ns);
        let state = SharedRecordState::new(RecordState::new(
            threads,
            plan.inherits,
            perf_event::period_ns(plan.hz),
            (min_block_ns.is_some(), only),
        ));
        let mut rings = EventRings {
            rings,
            state: state.clone(),
            has_chains: plan.with_kernel,
            copies_stacks,
            held: Vec::new(),
            reads_of_samples: ReadsOfSamples::default(),
            reads: readers.as_ref().map(FunctionReaders::reads),
            emptied_every: plan.emptied_every(&places),
            looked_for_until: exchange.as_ref().map(|_| Instant::now() + LOOK_PATIENCE),
        };
        let mut side = EventSide {
            plan,
            has_waits: min_block_ns.is_some(),
            state,
            places,
            events: Vec::new(),
            is_system_wide: matches!(targets, EventTargets::System(_)),
            of_cpus: Vec::new(),
            stopper: Arc::new(Stopper::new(None)),
            readers,
            exchange,
            tables: KernelTables::none(),
        };
        match targets {
            EventTargets::System(threads) => {
                threads.iter().for_each(|thread| side.know(thread));
                side.open_task(None, None, Begins::Now)?;
            }
            EventTargets::Threads(find) => side.open_threads(&mut rings, find)?,
            // Whether they are allowed shows with this thread, too.
            EventTargets::Later => {
                side.open_task(None, Some(THIS_THREAD), Begins::AtExec)?;
                side.events.clear();
            }
        }
        Ok((side, Box::new(rings)))
    }

    /// Whether waits have stacks.
    pub(crate) fn has_wait_stacks(&self) -> bool {
        self.plan.samples_switches()
    }

    /// Whether samples in the kernel are taken, with its frames.
    pub(crate) fn has_kernel(&self) -> bool {
        self.plan.with_kernel
    }

    /// Opens the events of the threads that `find` finds, until it finds no others than those that have some.
    fn open_threads(
        &mut self,
        rings: &mut EventRings,
        find: &dyn Fn() -> Vec<ThreadThere>,
    ) -> Result<(), EventRefusal> {
        let mut known = FxHashSet::default();
        for _ in 0..MOST_LOOKS {
            let found: Vec<ThreadThere> =
                find().into_iter().filter(|thread| known.insert(thread.tid)).collect();
            if found.is_empty() {
                break;
            }
            let born = born_with_events(rings);
            for thread in &found {
                self.know(thread);
                // Its maker had them already: so has it.
                if !born.contains(&thread.tid) {
                    self.open_task(Some(thread.tgid), Some(thread.tid), Begins::Now)?;
                }
            }
        }
        if self.events.is_empty() { Err(EventRefusal::NoTask) } else { Ok(()) }
    }

    fn know(&self, thread: &ThreadThere) {
        let ThreadThere { tgid, tid, comm } = thread;
        self.state.lock().threads.add(*tgid, *tid, comm.as_bytes(), monotonic_ns());
    }

    /// Opens the events of one task; one that is gone has none.
    fn open_task(&mut self, tgid: Option<u32>, tid: Option<u32>, begins: Begins) -> Result<(), EventRefusal> {
        match self.plan.open(tid, begins, &self.places) {
            Ok(events) => {
                for (number, event) in &events.counters {
                    let id =
                        perf_event::id(&event.event).map_err(|error| EventRefusal::Events { tgid, error })?;
                    self.state.lock().counters.insert(id, *number);
                }
                self.events.push((begins, events));
                Ok(())
            }
            Err((_, error)) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            Err((Some(counter), error)) => Err(EventRefusal::Counter { counter, error }),
            Err((None, error)) => Err(EventRefusal::Events { tgid, error }),
        }
    }

    /// Opens the events of a process that is about to call exec: a launched command.
    ///
    /// # Errors
    ///
    /// The first refusal.
    pub(crate) fn add_launched(&mut self, pid: u32) -> Result<(), EventRefusal> {
        if let Some(only) = &mut self.state.lock().only {
            only.insert(pid);
        }
        self.open_task(Some(pid), Some(pid), Begins::AtExec)?;
        let Some(exchange) = &mut self.exchange else { return Ok(()) };
        let opened = self.events.iter().flat_map(|(_, events)| {
            events.carriers.iter().chain(events.counters.iter().map(|(_, event)| event))
        });
        opened.into_iter().try_for_each(|event| exchange.add(event)).map_err(EventRefusal::Ring)
    }

    /// Times count from now on. Returns the time, CLOCK_MONOTONIC, ns.
    pub(crate) fn start_clock(&mut self) -> u64 {
        let start_ns = monotonic_ns();
        let mut state = self.state.lock();
        state.threads.start(start_ns);
        state.start_ns = Some(start_ns);
        start_ns
    }

    /// Has the events of counters take samples. Those of the clock do already, and count from [`EventSide::start_clock`] on.
    ///
    /// # Errors
    ///
    /// When an event refuses.
    pub(crate) fn start_samplers(&mut self) -> io::Result<()> {
        for (begins, events) in std::mem::take(&mut self.events) {
            for (_, counter) in &events.counters {
                if begins == Begins::Now || self.plan.is_delayed {
                    perf_event::enable(&counter.event)?;
                }
            }
            self.add_samplers(events)?;
        }
        Ok(())
    }

    fn add_samplers(&mut self, events: TaskEvents) -> io::Result<()> {
        if self.is_system_wide {
            let carriers = events.carriers.iter().map(CpuEvent::try_clone);
            self.of_cpus.extend(carriers.collect::<io::Result<Vec<_>>>()?);
        }
        self.stopper.add_samplers(events.carriers);
        self.stopper.add_samplers(events.counters.into_iter().map(|(_, event)| event));
        Ok(())
    }

    /// Time for which the events of a CPU have been enabled, ns; `None` for a CPU that has none of its own.
    pub(crate) fn enabled_ns(&self, cpu: u32) -> Option<u64> {
        self.of_cpus.iter().find(|event| event.cpu == cpu)?.enabled_ns().ok()
    }

    /// Forgets the events of a CPU that is gone, or was. Those of tasks come back with it.
    pub(crate) fn forget_cpu(&mut self, cpu: u32) {
        if self.is_system_wide {
            self.of_cpus.retain(|event| event.cpu != cpu);
            self.stopper.forget_cpu(cpu);
        }
    }

    /// Samples a CPU that has come online, by events that `open` opens as this process may not: it gets a part of the plan, and
    /// the size of copies.
    ///
    /// # Errors
    ///
    /// When an event cannot be opened, or there was no room for its ring.
    pub(crate) fn add_cpu(
        &mut self,
        cpu: u32,
        mut open: impl FnMut(&EventPlan, EventPart, u32) -> io::Result<OwnedFd>,
    ) -> io::Result<()> {
        let place = self.places.iter().find(|place| place.cpu == cpu);
        let place = place.ok_or_else(|| io::Error::other("there is no ring for what happens on it"))?;
        if !self.is_system_wide {
            return Ok(());
        }
        let mut events = TaskEvents::default();
        let open_part = |part, copy_bytes| open(&self.plan, part, copy_bytes);
        self.plan.add_events(place, &mut events, open_part).map_err(|(_, error)| error)?;
        for (number, event) in &events.counters {
            self.state.lock().counters.insert(perf_event::id(&event.event)?, *number);
            perf_event::enable(&event.event)?;
        }
        self.add_samplers(events)
    }

    /// Has the functions of a process read, or no more.
    ///
    /// # Errors
    ///
    /// When no thread is to be had that reads them.
    pub(crate) fn set_reader(
        &mut self,
        pid: u32,
        reader: impl FnOnce() -> Option<Arc<dyn FunctionReader>>,
    ) -> io::Result<()> {
        let Some(readers) = &mut self.readers else { return Ok(()) };
        let reader = reader();
        if reader.is_some()
            && let Some(exchange) = self.exchange.take()
        {
            self.places.iter_mut().for_each(RingPlace::give_up);
            readers.exchange(exchange)?;
        }
        readers.set(pid, reader)
    }

    /// What was counted, under the names of the BPF programs' counters.
    pub(crate) fn counters(&self) -> CounterValues {
        let state = self.state.lock();
        let (records, threads) = (state.counts, state.threads.counts);
        let lost = records.lost + records.throttled;
        let of_records = [
            (Counter::Hit, records.taken + lost),
            (Counter::Filtered, records.filtered),
            (Counter::Sent, records.taken - records.filtered),
            (Counter::RingFull, lost),
        ];
        let of_threads = [
            (Counter::Account, threads.accounts),
            (Counter::AccountSent, threads.accounts_sent),
            (Counter::Switch, threads.switches),
            (Counter::SwitchMissed, threads.switches_missed),
            (Counter::WaitSent, threads.waits_sent),
            (Counter::WaitThinned, threads.waits_thinned),
        ];
        let of_threads = of_threads.into_iter().filter(|_| self.has_waits);
        CounterValues::of(of_records.into_iter().chain(of_threads))
    }

    /// Time on CPUs that is in the times of threads and in no sample, ns: the kernel's, where that is wanted and may not be
    /// sampled.
    pub(crate) fn unsampled_ns(&self) -> Option<u64> {
        let is_due = self.has_waits && self.plan.on_cpu && self.plan.wants_kernel && !self.plan.with_kernel;
        let state = self.state.lock();
        let counts = state.counts;
        let sampled_ns = (counts.clock + counts.lost + counts.throttled).saturating_mul(state.period_ns);
        is_due.then(|| state.threads.counts.on_cpu_ns.saturating_sub(sampled_ns))
    }

    /// All threads as they are now.
    pub(crate) fn watched_threads(&self) -> Vec<WatchedThreadEvent> {
        self.state.lock().threads.watched(monotonic_ns())
    }

    /// Has what is known of the threads that are still there told with what `take` takes out of the rings.
    ///
    /// # Errors
    ///
    /// As `take`.
    pub(crate) fn close_waits(&self, take: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let stop_ns = self.stopper.stop();
        self.state.lock().stop_ns = Some(stop_ns);
        take()
    }

    /// Ends sampling. What is in the rings can still be received.
    pub(crate) fn stop(&mut self) {
        self.stopper.stop();
        self.events.clear();
    }
}

/// Rings, and who reads functions for the samples in them.
struct OpenedRings {
    rings: SharedRings,
    places: Vec<RingPlace>,
    readers: Option<FunctionReaders>,
    exchange: Option<RingExchange>,
}

impl OpenedRings {
    /// Maps the rings of a plan. Where there is no room for an exchange, functions are read from the start on.
    fn open(plan: &mut EventPlan) -> io::Result<Self> {
        let is_awaited = plan.reading == FunctionReading::OnceThere;
        let MappedRings { rings, places, spare } = map_rings(&plan.cpus, is_awaited)?;
        if is_awaited && spare.is_none() {
            plan.reading = FunctionReading::FromStart;
        }
        let readers = readers(plan, &places, &rings)?;
        let rings = SharedRings::new(rings, plan.reading == FunctionReading::FromStart)?;
        let cpus = places.iter().map(|place| (place.cpu, place.copy_bytes)).collect();
        let exchange = spare.map(|spare| RingExchange::new(rings.clone(), cpus, spare));
        Ok(OpenedRings { rings, places, readers, exchange })
    }
}

/// Readers of functions, which look into these rings, or into others that take their place.
fn readers(
    plan: &EventPlan,
    places: &[RingPlace],
    rings: &[PerfRing],
) -> io::Result<Option<FunctionReaders>> {
    let read_ring = |(place, ring): (&RingPlace, &PerfRing)| {
        Ok(ReadRing { cpu: place.cpu, event: ring.as_fd().try_clone_to_owned()?, view: ring.view() })
    };
    let read = match plan.reading {
        FunctionReading::No => return Ok(None),
        FunctionReading::FromStart => rings,
        FunctionReading::OnceThere => &[],
    };
    let read = places.iter().zip(read).map(read_ring).collect::<io::Result<Vec<_>>>()?;
    FunctionReaders::new(read, plan.with_kernel).map(Some)
}

/// Threads that were born of those that have events, as far as the rings say.
fn born_with_events(rings: &mut EventRings) -> FxHashSet<u32> {
    rings.read();
    let born = rings.held.iter().filter_map(|record| match record.what {
        RecordOf::Born { child: (_, tid), .. } => Some(tid),
        _ => None,
    });
    born.collect()
}
