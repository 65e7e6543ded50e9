//! Threads, one on each CPU, that read what an interpreter runs while the sampled thread cannot go on.
//!
//! A sample wakes the reader of its own CPU. That one has slept, so that the scheduler mostly lets it run at once: the sampled
//! thread is interrupted still, and its memory is that of the sample until the reader sleeps again. Whether that was so, the
//! kernel's records of switches tell afterwards (`witness`).

use super::exchange::RingExchange;
use super::functions::{FunctionRead, FunctionReader, SampledThread};
use super::record;
use super::ring::ReadRing;
use crate::base::pace;
use crate::record::environment::namespaces::monotonic_ns;
use perf_event_open_sys::bindings;
use rustc_hash::FxHashMap;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of a sample that are looked at: its fields, and what of the stack is next to the leaf.
const HEAD_BYTES: usize = 4096;
/// Rest where a ring has nothing more to tell: its CPU is gone.
const REST: Duration = Duration::from_millis(100);

/// What was read, as its readers and the thread that empties the rings see it.
#[derive(Debug, Clone, Default)]
pub(super) struct FunctionReads(Arc<Mutex<Vec<FunctionRead>>>);

impl FunctionReads {
    /// Takes out all of it.
    pub(super) fn take(&self) -> Vec<FunctionRead> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<FunctionRead>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State that all readers see.
#[derive(Debug)]
struct SharedReaders {
    processes: RwLock<FxHashMap<u32, Arc<dyn FunctionReader>>>,
    reads: FunctionReads,
    has_chains: bool,
    is_over: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Readable once it is over.
    bell: OwnedFd,
}

/// The readers of all CPUs. They end when this is dropped.
#[derive(Debug)]
pub(super) struct FunctionReaders {
    shared: Arc<SharedReaders>,
    /// Rings whose readers have not begun.
    idle: Vec<ReadRing>,
    /// Who exchanges rings, if that was wanted.
    exchange: Option<JoinHandle<()>>,
}

impl FunctionReaders {
    /// Readers that begin once there is a process for them; samples have kernel addresses or not.
    ///
    /// # Errors
    ///
    /// When no descriptor is to be had.
    pub(super) fn new(rings: Vec<ReadRing>, has_chains: bool) -> io::Result<Self> {
        let shared = SharedReaders {
            processes: RwLock::default(),
            reads: FunctionReads::default(),
            has_chains,
            is_over: AtomicBool::new(false),
            threads: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        };
        Ok(FunctionReaders { shared: Arc::new(shared), idle: rings, exchange: None })
    }

    /// What they have read.
    pub(super) fn reads(&self) -> FunctionReads {
        self.shared.reads.clone()
    }

    /// Has the functions of a process read, or no more.
    ///
    /// # Errors
    ///
    /// When no thread is to be had.
    pub(super) fn set(&mut self, pid: u32, reader: Option<Arc<dyn FunctionReader>>) -> io::Result<()> {
        let mut processes = self.shared.processes.write().unwrap_or_else(PoisonError::into_inner);
        let Some(reader) = reader else {
            processes.remove(&pid);
            return Ok(());
        };
        processes.insert(pid, reader);
        drop(processes);
        std::mem::take(&mut self.idle).into_iter().try_for_each(|ring| self.shared.start(ring))
    }

    /// Has rings exchanged for such that each sample wakes a reader of.
    ///
    /// # Errors
    ///
    /// When no thread is to be had.
    pub(super) fn exchange(&mut self, exchange: RingExchange) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("prof-exchange".to_owned());
        self.exchange = Some(thread.spawn(move || {
            crate::base::privilege::keep_watching_or_end();
            // What fails leaves samples as they are: with functions that were not read, which is said.
            let _ = exchange.run(&shared.is_over, |ring| shared.start(ring));
            // The new rings are those of events of this thread.
            shared.wait_for_end();
        })?);
        Ok(())
    }
}

impl Drop for FunctionReaders {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Its counter is never full: 2^64 - 2.
        let _ = rustix::io::write(&self.shared.bell, &1u64.to_ne_bytes());
        let exchange = self.exchange.take().map(JoinHandle::join);
        // A panic was reported when it happened.
        drop(exchange);
        let threads = std::mem::take(&mut *self.shared.threads());
        for thread in threads {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl SharedReaders {
    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once it is over.
    fn wait_for_end(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            // What interrupts it, or makes it fail, is looked at again.
            let _ = poll(&mut [PollFd::new(&self.bell, PollFlags::IN)], None);
        }
    }

    /// Starts the reader of one CPU.
    fn start(self: &Arc<Self>, ring: ReadRing) -> io::Result<()> {
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("prof-functions".to_owned());
        self.threads().push(thread.spawn(move || shared.run(ring))?);
        Ok(())
    }

    /// The reader of one CPU.
    fn run(&self, mut ring: ReadRing) {
        crate::base::privilege::keep_watching_or_end();
        let mut cpus = CpuSet::new();
        let cpu = ring.cpu as usize;
        if cpu >= CpuSet::MAX_CPU {
            return;
        }
        cpus.set(cpu);
        // On another CPU, the sampled thread would run on.
        if sched_setaffinity(None, &cpus).is_err() {
            return;
        }
        pace::take_short_turns();
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        while !self.is_over.load(Ordering::SeqCst) {
            let mut fds = [
                PollFd::new(&ring.event, PollFlags::IN),
                PollFd::from_borrowed_fd(std::os::fd::AsFd::as_fd(&self.bell), PollFlags::IN),
            ];
            let polled = poll(&mut fds, None);
            let has_sample = fds[0].revents() == PollFlags::IN;
            let is_gone = fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
            if polled.is_ok()
                && has_sample
                && ring.view.newest(bindings::PERF_RECORD_SAMPLE, HEAD_BYTES, &mut bytes)
            {
                self.read(&bytes);
            } else if polled.is_ok() && is_gone {
                std::thread::sleep(REST);
            }
        }
    }

    /// Reads what belongs to a sample that has just been taken.
    fn read(&self, bytes: &[u8]) {
        let begin_ns = monotonic_ns();
        let Some(head) = record::head(bytes, self.has_chains) else { return };
        let processes = self.processes.read().unwrap_or_else(PoisonError::into_inner);
        let Some(reader) = processes.get(&head.tgid).map(Arc::clone) else { return };
        drop(processes);
        let record::SampleHead { tid, time_ns, registers, stack, copy_bytes, .. } = head;
        let thread = SampledThread { tid, time_ns, registers: &registers, stack, copy_bytes };
        if let Some(functions) = reader.read(&thread) {
            let end_ns = monotonic_ns();
            self.reads.lock().push(FunctionRead { tid, time_ns, begin_ns, end_ns, functions });
        }
    }
}
