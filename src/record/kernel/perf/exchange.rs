//! The exchange of rings that wake someone when they fill up for rings of which each sample wakes the reader of its functions. A
//! command has the first kind until a process of it runs an interpreter: samples of other programs wake no one.
//!
//! A task's events are sent from one ring to the other by the kernel, with those that were inherited from them. Both rings are
//! emptied meanwhile, and the old one once more after that: nothing is lost.

use super::open::map_ring;
use super::ring::{PerfRing, ReadRing};
use crate::record::kernel::perf_event::{self, CpuEvent};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time for a record that is being written when its event is sent elsewhere.
const WRITE_PATIENCE: Duration = Duration::from_millis(1);
/// Time until an old ring is given back, at most so often: the memory for the next one may be its.
const BACK_PATIENCE: Duration = Duration::from_millis(5);
const MOST_WAITS: usize = 200;

/// Rings that are emptied.
#[derive(Debug, Default)]
pub(super) struct RingSet {
    pub(super) rings: Vec<PerfRing>,
    /// No event writes to these any more: they are given back once they were emptied again.
    retired: Vec<PerfRing>,
}

impl RingSet {
    /// Empties all rings by `empty`.
    pub(super) fn empty(&mut self, empty: impl FnMut(&mut PerfRing)) {
        self.rings.iter_mut().chain(&mut self.retired).for_each(empty);
        self.retired.clear();
    }
}

/// Rings, as the thread that empties them and the one that exchanges them hold them.
#[derive(Debug, Clone)]
pub(super) struct SharedRings {
    set: Arc<Mutex<RingSet>>,
    /// Each sample wakes a reader, or will soon.
    is_read: Arc<AtomicBool>,
    /// Readable when the rings are to be emptied.
    bell: Arc<OwnedFd>,
}

impl SharedRings {
    /// Rings of which each sample wakes a reader, or not yet.
    ///
    /// # Errors
    ///
    /// When no descriptor is to be had.
    pub(super) fn new(rings: Vec<PerfRing>, is_read: bool) -> io::Result<Self> {
        Ok(SharedRings {
            set: Arc::new(Mutex::new(RingSet { rings, retired: Vec::new() })),
            is_read: Arc::new(AtomicBool::new(is_read)),
            bell: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RingSet> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether samples wake readers of functions, and not who empties the rings.
    pub(super) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::SeqCst)
    }

    /// Becomes readable when the rings are to be emptied.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// They are being emptied.
    pub(super) fn silence(&self) {
        // Nothing to read: it was not rung.
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
    }

    fn ring(&self) {
        // Its counter is never full: 2^64 - 2.
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
    }
}

/// An exchange that may come.
#[derive(Debug)]
pub(super) struct RingExchange {
    rings: SharedRings,
    /// The CPUs of the rings, in their order, with how large the copies of samples there are.
    cpus: Vec<(u32, u32)>,
    /// The first ring of the new kind.
    spare: Option<PerfRing>,
    /// What writes to the rings.
    events: Vec<CpuEvent>,
}

impl RingExchange {
    /// The exchange of these rings, of which `cpus` says the CPUs, and the sizes of copies. `spare` is for the first of them.
    pub(super) fn new(rings: SharedRings, cpus: Vec<(u32, u32)>, spare: PerfRing) -> Self {
        RingExchange { rings, cpus, spare: Some(spare), events: Vec::new() }
    }

    /// Adds an event that writes to the ring of its CPU.
    ///
    /// # Errors
    ///
    /// When no descriptor is to be had.
    pub(super) fn add(&mut self, event: &CpuEvent) -> io::Result<()> {
        self.events.push(event.try_clone()?);
        Ok(())
    }

    /// Exchanges the rings, and gives each new one to `read` before anything writes to it. Where there is no room for a new ring,
    /// the old one stays, of which no samples are read.
    ///
    /// # Errors
    ///
    /// When an event or its ring refuses.
    pub(super) fn run(
        mut self,
        is_over: &AtomicBool,
        mut read: impl FnMut(ReadRing) -> io::Result<()>,
    ) -> io::Result<()> {
        self.rings.is_read.store(true, Ordering::SeqCst);
        self.rings.ring();
        for (index, (cpu, copy_bytes)) in std::mem::take(&mut self.cpus).into_iter().enumerate() {
            let Some(new) = self.new_ring(index, (cpu, copy_bytes), is_over) else { continue };
            let (event, again) = (new.as_fd().try_clone_to_owned()?, new.as_fd().try_clone_to_owned()?);
            read(ReadRing { cpu, event, view: new.view() })?;
            self.rings.lock().rings.push(new);
            for event in self.events.iter().filter(|event| event.cpu == cpu) {
                perf_event::write_to(&event.event, again.as_fd())?;
            }
            std::thread::sleep(WRITE_PATIENCE);
            let mut set = self.rings.lock();
            // The new one takes its place.
            let old = set.rings.swap_remove(index);
            set.retired.push(old);
        }
        Ok(())
    }

    /// A ring of the new kind, as large as the one that it replaces; `None` where there is no room for it.
    fn new_ring(
        &mut self,
        index: usize,
        (cpu, copy_bytes): (u32, u32),
        is_over: &AtomicBool,
    ) -> Option<PerfRing> {
        if let Some(spare) = self.spare.take() {
            return Some(spare);
        }
        let pages = self.rings.lock().rings.get(index)?.data_bytes() / rustix::param::page_size();
        for _ in 0..MOST_WAITS {
            match map_ring(cpu, pages, copy_bytes) {
                Ok(ring) => return Some(ring),
                Err(_) if is_over.load(Ordering::SeqCst) => return None,
                Err(_) => {
                    self.rings.ring();
                    std::thread::sleep(BACK_PATIENCE);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::environment::machine::online_cpus;
    use crate::record::kernel::perf::open::{
        Begins, EventCpus, EventPart, EventPlan, FunctionReading, Inherits,
    };
    use crate::record::kernel::perf::record::{self, RecordOf};

    const PAGES: usize = 8;
    const THIS_THREAD: u32 = 0;

    /// Rings of all CPUs, events that tell the names of this thread, and an exchange of the rings that may come.
    fn rings(cpus: &[u32]) -> io::Result<(SharedRings, Vec<CpuEvent>, RingExchange)> {
        let plan = EventPlan {
            hz: 1,
            on_cpu: false,
            waits: false,
            counters: Vec::new(),
            wants_kernel: false,
            with_kernel: false,
            inherits: Inherits::Nothing,
            is_delayed: false,
            reading: FunctionReading::OnceThere,
            cpus: EventCpus::default(),
        };
        let mapped: Vec<PerfRing> =
            cpus.iter().map(|cpu| map_ring(*cpu, PAGES, 4096)).collect::<io::Result<_>>()?;
        let open = |(cpu, ring): (&u32, &PerfRing)| {
            let event = plan.open_part(EventPart::Carrier, Some(THIS_THREAD), Begins::Now, *cpu, 8192)?;
            perf_event::write_to(&event, ring.as_fd())?;
            Ok(CpuEvent { cpu: *cpu, event })
        };
        let events: Vec<CpuEvent> = cpus.iter().zip(&mapped).map(open).collect::<io::Result<_>>()?;
        let rings = SharedRings::new(mapped, false)?;
        let places = cpus.iter().map(|cpu| (*cpu, 1)).collect();
        let spare = map_ring(*cpus.first().ok_or(io::ErrorKind::NotFound)?, PAGES, 1)?;
        let mut exchange = RingExchange::new(rings.clone(), places, spare);
        events.iter().try_for_each(|event| exchange.add(event))?;
        Ok((rings, events, exchange))
    }

    #[test]
    fn what_comes_before_an_exchange_and_after_it_is_there() {
        let cpus = online_cpus().expect("there are some");
        // Where no one may open events there is nothing to try.
        let Ok((rings, _events, exchange)) = rings(&cpus) else { return };
        let name = |name| rustix::thread::set_name(name).expect("it is short");
        name(c"before");
        let mut read = Vec::new();
        let start = |ring: ReadRing| {
            read.push(ring.cpu);
            Ok(())
        };
        assert!(!rings.is_read());
        exchange.run(&AtomicBool::new(false), start).expect("events can be sent elsewhere");
        name(c"after");
        let mut names = Vec::new();
        rings.lock().empty(|ring| {
            ring.drain(|kind, misc, bytes| match record::decode(kind, misc, bytes, false) {
                Some(record) => names.extend(match record.what {
                    RecordOf::Named { comm, .. } => Some((record.time_ns, comm)),
                    _ => None,
                }),
                None => panic!("a record of kind {kind} is damaged"),
            });
        });
        names.sort_unstable();
        let names: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["before", "after"]);
        assert!(rings.is_read());
        assert_eq!(read, cpus);
    }
}
