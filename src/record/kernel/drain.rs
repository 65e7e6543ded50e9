//! The thread that empties the rings.
//!
//! It opens no file, reads nothing of a target and waits for no one, so that nothing can hold it: what it finds goes to the
//! recording thread, which may lag. If that lags far, the rings are left to fill up, and the kernel side counts
//! what is lost. It also ends sampling when the time is over.

use super::perf_event::SidebandRing;
use super::sideband::Sideband;
use super::stopper::Stopper;
use crate::bpf::{DecodeError, NewCodeEvent, RescueEvent, SampleEvent, StackCopyEvent, ThreadTimeEvent};
use crate::record::environment::namespaces::monotonic_ns;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The rings are emptied this often.
const INTERVAL: Duration = Duration::from_millis(250);
/// The same in the first seconds, in which tables are missing and copies of stacks wait for them.
const FIRST_INTERVAL: Duration = Duration::from_millis(100);
const FIRST_SECONDS: Duration = Duration::from_secs(3);
/// The same while a ring fills up fast.
const LEAST_INTERVAL: Duration = Duration::from_millis(4);
/// The side-band is not looked at more often than this, however much comes.
const SIDEBAND_INTERVAL: Duration = Duration::from_millis(1);
/// Limit of what may be on its way to the recording thread, bytes as they lay in the rings.
const MOST_BYTES: usize = 48 << 20;
/// Bytes that a side-band record takes.
const SIDEBAND_BYTES: usize = 160;
/// So many side-band records are held at the most.
const MOST_HELD: usize = 1 << 12;
/// Nice value of the thread: on a crowded machine the rings would overflow.
const PRIORITY: i32 = -10;

/// Rings of one kind of kernel side, which the thread empties.
pub(crate) trait RingSource: Send {
    /// Gives `add` each descriptor that wakes the thread, and for what.
    fn watch(&self, add: &mut dyn FnMut(BorrowedFd<'_>, Wakes) -> io::Result<()>) -> io::Result<()>;

    /// How often the rings have to be emptied at the least; `None`: they wake the thread in time.
    fn longest_interval(&self) -> Option<Duration> {
        None
    }

    /// Takes what has happened to processes, as far as it is in rings of its own.
    fn take_sideband(&mut self, batch: &mut Batch);

    /// Gives up the side-band ring of a CPU, once what is in it is in `batch`, for a new one if there is one.
    fn exchange(&mut self, cpu: u32, new: Option<SidebandRing>, batch: &mut Batch);

    /// Empties all other rings. Returns how full the fullest was, 0 to 1.
    ///
    /// # Errors
    ///
    /// When a ring cannot be read.
    fn take_all(&mut self, batch: &mut Batch) -> io::Result<f64>;
}

/// What a descriptor that is ready tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wakes {
    /// A ring of BPF is filling up: it is always readable while data is in it, and tells of a mark once.
    PastMark,
    /// A ring of perf events is filling up: it is readable once it is past a mark.
    Filling,
    /// Something has happened to a process.
    Sideband,
}

/// Records that were in the rings.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The side-band, by time.
    pub(crate) sideband: Vec<(u64, Sideband)>,
    /// All rings were emptied: the side-band is known up to this time, CLOCK_MONOTONIC, ns. `None`: the side-band only.
    pub(crate) known_until_ns: Option<u64>,
    /// Samples and waits, in the order of their rings.
    pub(crate) samples: Vec<SampleEvent>,
    /// Times of threads.
    pub(crate) thread_times: Vec<ThreadTimeEvent>,
    /// Code objects of interpreters that samples have for the first time.
    pub(crate) new_codes: Vec<NewCodeEvent>,
    /// Stack copies.
    pub(crate) rescues: Vec<RescueEvent>,
    /// Copies of every stack, when asked for.
    pub(crate) copies: Vec<StackCopyEvent>,
    /// Records that were none.
    pub(crate) bad_records: u64,
    /// Size of the records, about, bytes.
    pub(super) bytes: usize,
}

impl Batch {
    pub(super) fn take<T>(
        &mut self,
        bytes: usize,
        decoded: Result<T, DecodeError>,
        list: impl Fn(&mut Batch) -> &mut Vec<T>,
    ) {
        self.bytes += bytes;
        match decoded {
            Ok(event) => list(self).push(event),
            Err(_) => self.bad_records += 1,
        }
    }
}

/// State that both threads see.
#[derive(Debug)]
struct Shared {
    /// To end, after a last look into the rings.
    is_over: AtomicBool,
    /// A look into all rings is wanted now.
    is_wanted: AtomicBool,
    /// End of sampling, CLOCK_MONOTONIC, ns; 0: not by time.
    deadline_ns: AtomicU64,
    /// Bytes on their way.
    in_flight: AtomicUsize,
    /// CPUs whose side-band rings are to be given up, with the new ones.
    exchanges: Mutex<Vec<(u32, Option<SidebandRing>)>>,
    /// Readable to wake the thread.
    bell: OwnedFd,
    /// Readable when a batch is on its way.
    wakeup: OwnedFd,
}

impl Shared {
    fn exchanges(&self) -> MutexGuard<'_, Vec<(u32, Option<SidebandRing>)>> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes an eventfd readable.
fn ring(bell: &OwnedFd) {
    // Its counter is never full: 2^64 - 2.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// Makes an eventfd no longer readable.
fn silence(bell: &OwnedFd) {
    // Nothing to read: it was not rung.
    let _ = rustix::io::read(bell, &mut [0; 8]);
}

/// The thread, as the recording thread sees it.
#[derive(Debug)]
pub(crate) struct Drain {
    shared: Arc<Shared>,
    batches: Receiver<io::Result<Batch>>,
    thread: Option<JoinHandle<()>>,
}

impl Drain {
    /// Starts to empty `rings`. What happens to a process waits for what else happens in the time of `settling`: a program that
    /// starts maps ten libraries in a millisecond.
    ///
    /// # Errors
    ///
    /// When no thread or descriptor is to be had.
    pub(crate) fn start(
        rings: Box<dyn RingSource>,
        stopper: Arc<Stopper>,
        settling: Duration,
    ) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            is_wanted: AtomicBool::new(false),
            deadline_ns: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            exchanges: Mutex::default(),
            bell: eventfd(0, flags)?,
            wakeup: eventfd(0, flags)?,
        });
        let (sender, batches) = channel();
        let poll = Poll::new(&*rings, &shared)?;
        let worker = DrainWorker {
            rings,
            stopper,
            poll,
            shared: Arc::clone(&shared),
            sender,
            settling,
            held: Vec::new(),
            last_sideband: None,
            interval: FIRST_INTERVAL,
            fullness: 0.0,
        };
        let thread = std::thread::Builder::new().name("prof-drain".to_owned()).spawn(move || worker.run())?;
        Ok(Drain { shared, batches, thread: Some(thread) })
    }

    /// Has sampling end at this time, CLOCK_MONOTONIC, ns.
    pub(crate) fn set_deadline(&self, deadline_ns: u64) {
        self.shared.deadline_ns.store(deadline_ns, Ordering::SeqCst);
        ring(&self.shared.bell);
    }

    /// Has the side-band ring of a CPU given up for a new one, if there is one.
    pub(crate) fn exchange(&self, cpu: u32, new: Option<SidebandRing>) {
        self.shared.exchanges().push((cpu, new));
        ring(&self.shared.bell);
    }

    /// Becomes readable when there is a batch.
    pub(crate) fn wakeup(&self) -> BorrowedFd<'_> {
        self.shared.wakeup.as_fd()
    }

    /// The batches that are there.
    ///
    /// # Errors
    ///
    /// When the rings cannot be read.
    pub(crate) fn received(&self) -> anyhow::Result<Vec<Batch>> {
        silence(&self.shared.wakeup);
        let mut batches = Vec::new();
        loop {
            match self.batches.try_recv() {
                Ok(batch) => {
                    let batch =
                        batch.map_err(|error| anyhow::anyhow!("cannot read the ring buffers: {error}"))?;
                    self.shared.in_flight.fetch_sub(batch.bytes, Ordering::SeqCst);
                    batches.push(batch);
                }
                Err(TryRecvError::Empty) => return Ok(batches),
                Err(TryRecvError::Disconnected) => {
                    anyhow::bail!("the thread that reads the ring buffers has ended")
                }
            }
        }
    }

    /// Everything that is in the rings now, with what was on its way.
    ///
    /// # Errors
    ///
    /// As [`Drain::received`].
    pub(crate) fn receive_all(&self) -> anyhow::Result<Vec<Batch>> {
        let now_ns = monotonic_ns();
        self.shared.is_wanted.store(true, Ordering::SeqCst);
        ring(&self.shared.bell);
        let is_last =
            |batch: &Batch| batch.known_until_ns.is_some_and(|known_until_ns| known_until_ns >= now_ns);
        let mut batches = Vec::new();
        loop {
            batches.extend(self.received()?);
            if batches.iter().any(is_last) {
                return Ok(batches);
            }
            wait_for(&mut [PollFd::from_borrowed_fd(self.wakeup(), PollFlags::IN)], Duration::from_secs(1))?;
        }
    }
}

/// Waits until one of `fds` is ready, a signal comes, or for `patience`.
///
/// # Errors
///
/// When the system refuses to wait.
pub(crate) fn wait_for(fds: &mut [PollFd<'_>], patience: Duration) -> io::Result<()> {
    match poll(fds, Some(&timespec(patience))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        ring(&self.shared.bell);
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Poll on everything that wakes the thread.
#[derive(Debug)]
struct Poll {
    epoll: OwnedFd,
}

/// Why the thread was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Woken {
    /// A ring is filling up.
    by_ring: bool,
    /// Something has happened to a process.
    by_sideband: bool,
}

const BELL: u64 = 0;
const RING: u64 = 1;
const SIDEBAND: u64 = 2;

impl Poll {
    fn new(rings: &dyn RingSource, shared: &Shared) -> io::Result<Self> {
        use epoll::{CreateFlags, EventData, EventFlags};
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, shared.bell.as_fd(), EventData::new_u64(BELL), EventFlags::IN)?;
        let poll = Poll { epoll };
        rings.watch(&mut |fd, wakes| poll.add(fd, wakes))?;
        Ok(poll)
    }

    fn add(&self, fd: BorrowedFd<'_>, wakes: Wakes) -> io::Result<()> {
        use epoll::{EventData, EventFlags};
        let (what, flags) = match wakes {
            // By the edge: else it would wake the thread as long as there is data in it.
            Wakes::PastMark => (RING, EventFlags::IN | EventFlags::ET),
            Wakes::Filling => (RING, EventFlags::IN),
            // The same: that of a CPU which has gone offline is hung up, which would wake the thread without end.
            Wakes::Sideband => (SIDEBAND, EventFlags::IN | EventFlags::ET),
        };
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(what), flags)?)
    }

    fn wait(&self, patience: Duration, bell: &OwnedFd) -> io::Result<Woken> {
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 16];
        let count = match epoll::wait(&self.epoll, &mut events[..], Some(&timespec(patience))) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let mut woken = Woken::default();
        for event in &events[..count] {
            match event.data.u64() {
                RING => woken.by_ring = true,
                SIDEBAND => woken.by_sideband = true,
                _ => silence(bell),
            }
        }
        Ok(woken)
    }
}

/// The thread itself.
struct DrainWorker {
    rings: Box<dyn RingSource>,
    stopper: Arc<Stopper>,
    poll: Poll,
    shared: Arc<Shared>,
    sender: Sender<io::Result<Batch>>,
    settling: Duration,
    /// What has happened to processes and waits for the rest.
    held: Vec<(u64, Sideband)>,
    last_sideband: Option<Instant>,
    /// Time until the rings are emptied again.
    interval: Duration,
    /// Fill of the fullest ring when it was emptied last, 0 to 1.
    fullness: f64,
}

/// Returns the time until the rings are emptied again, after an `interval` in which the fullest of them has become so full. On
/// average a ring should not become fuller than a quarter: no one wakes this thread in time on a crowded machine.
fn next_interval(interval: Duration, fullness: f64) -> Duration {
    let factor = (0.25 / fullness.max(1e-3)).clamp(0.1, 2.0);
    interval.mul_f64(factor).clamp(LEAST_INTERVAL, INTERVAL)
}

impl DrainWorker {
    fn run(mut self) {
        // Without the right to it everything still works.
        let _ = rustix::process::setpriority_process(None, PRIORITY);
        crate::base::privilege::keep_watching_or_end();
        let result = self.until_the_end();
        if let Err(error) = result {
            // No one may be there any more.
            let _ = self.sender.send(Err(error));
        }
    }

    fn until_the_end(&mut self) -> io::Result<()> {
        let started = Instant::now();
        let mut last_take = started;
        loop {
            let usual = if started.elapsed() < FIRST_SECONDS { FIRST_INTERVAL } else { INTERVAL };
            let usual = self.rings.longest_interval().map_or(usual, |longest| longest.min(usual));
            let interval = self.interval.min(usual.max(LEAST_INTERVAL));
            let patience = interval.saturating_sub(last_take.elapsed()).min(self.until_deadline());
            let woken = self.poll.wait(patience, &self.shared.bell)?;
            let is_over = self.shared.is_over.load(Ordering::SeqCst);
            self.keep_deadline();
            let is_wanted = self.shared.is_wanted.swap(false, Ordering::SeqCst) || is_over;
            let is_far_behind = self.shared.in_flight.load(Ordering::SeqCst) > MOST_BYTES;
            let is_due = woken.by_ring || last_take.elapsed() >= interval;
            let has_exchanges = !self.shared.exchanges().is_empty();
            let batch = if is_wanted || (is_due && !is_far_behind) {
                last_take = Instant::now();
                let batch = self.take_all()?;
                self.interval = next_interval(interval, self.fullness).min(usual);
                batch
            } else if has_exchanges || (woken.by_sideband && !is_far_behind) {
                std::thread::sleep(self.settling.min(self.until_deadline()));
                self.keep_deadline();
                let batch = self.take_sideband();
                if self.may_wait(&batch) {
                    self.held = batch.sideband;
                    continue;
                }
                batch
            } else {
                if is_far_behind {
                    // Rings that stay full would wake this thread for ever.
                    std::thread::sleep(FIRST_INTERVAL / 10);
                }
                continue;
            };
            self.shared.in_flight.fetch_add(batch.bytes, Ordering::SeqCst);
            let is_received = self.sender.send(Ok(batch)).is_ok();
            ring(&self.shared.wakeup);
            if !is_received || is_over {
                return Ok(());
            }
        }
    }

    fn until_deadline(&self) -> Duration {
        match self.shared.deadline_ns.load(Ordering::SeqCst) {
            0 => Duration::MAX,
            deadline_ns => Duration::from_nanos(deadline_ns.saturating_sub(monotonic_ns())),
        }
    }

    fn keep_deadline(&self) {
        let deadline_ns = self.shared.deadline_ns.load(Ordering::SeqCst);
        if deadline_ns > 0 && monotonic_ns() >= deadline_ns {
            self.shared.deadline_ns.store(0, Ordering::SeqCst);
            self.stopper.stop();
        }
    }

    /// The side-band only: soon enough for the tables of new libraries.
    fn take_sideband(&mut self) -> Batch {
        if let Some(last) = self.last_sideband {
            std::thread::sleep(SIDEBAND_INTERVAL.saturating_sub(last.elapsed()));
        }
        let mut batch = Batch { sideband: std::mem::take(&mut self.held), ..Batch::default() };
        self.rings.take_sideband(&mut batch);
        let exchanges = std::mem::take(&mut *self.shared.exchanges());
        for (cpu, new) in exchanges {
            if let Some(ring) = &new {
                // A ring that wakes no one is emptied all the same.
                let _ = self.poll.add(ring.as_fd(), Wakes::Sideband);
            }
            self.rings.exchange(cpu, new, &mut batch);
        }
        batch.sideband.sort_by_key(|(time_ns, _)| *time_ns);
        batch.bytes = batch.sideband.len() * SIDEBAND_BYTES;
        self.last_sideband = Some(Instant::now());
        batch
    }

    /// Whether what has happened can wait for the samples: nothing was mapped whose tables are to be made.
    fn may_wait(&self, batch: &Batch) -> bool {
        let is_urgent =
            |(_, record): &(u64, Sideband)| matches!(record, Sideband::Mapped { .. } | Sideband::Lost(_));
        !self.settling.is_zero() && batch.sideband.len() < MOST_HELD && !batch.sideband.iter().any(is_urgent)
    }

    fn take_all(&mut self) -> io::Result<Batch> {
        // Samples of later times may need side-band records that are not read now.
        let known_until_ns = monotonic_ns();
        let mut batch = Batch { known_until_ns: Some(known_until_ns), ..self.take_sideband() };
        self.fullness = self.rings.take_all(&mut batch)?;
        Ok(batch)
    }
}

#[cfg(test)]
mod tests;
