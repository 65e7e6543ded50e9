//! A worker: does one job after the other until it is no longer wanted, or dies of one.

use super::message::{JobKind, JobUrgency, WorkerJob, WorkerMessage, receive, send_job};
use crate::base::opener::{self, sandbox};
use crate::base::pace;
use crate::record::environment::allocator;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// CPU time of a worker in its whole life, s. One that comes near is replaced between two jobs.
pub(super) const MOST_CPU_SECONDS: u64 = 600;
/// A job that has taken so much CPU time, us, has made and freed much.
const MUCH_WORK_US: u64 = 30_000;
/// Nice value of background jobs.
const BACKGROUND_PRIORITY: i32 = 19;

/// The ends of a worker: jobs, files that it asks for, and what is closed to have it stop.
#[derive(Debug)]
pub(super) struct WorkerSockets {
    pub(super) jobs: OwnedFd,
    pub(super) files: OwnedFd,
    pub(super) stop: OwnedFd,
}

/// A job as a room sees it.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) kind: JobKind,
    /// What was kept by an earlier job; 0: nothing.
    pub(crate) part: u64,
    pub(crate) body: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Set when the answer is no longer waited for.
    pub(crate) stop: Arc<AtomicBool>,
}

/// What a worker does: the rooms with jobs, and what they keep from one to the next.
pub(crate) trait Jobs: Send {
    /// Does a job, and returns its answer.
    fn work(&mut self, job: Ask) -> Vec<u8>;
}

/// What a worker has used so far; comes with each answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct WorkerUsage {
    pub(super) cpu_us: u64,
    /// Peak resident memory beyond what a worker has at its start, bytes.
    pub(super) memory_bytes: u64,
}

/// Does jobs until the sockets are closed.
pub(super) fn run(sockets: WorkerSockets, jobs: fn() -> Box<dyn Jobs>, parent: u32) {
    // SAFETY: the call takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if rustix::process::getppid().is_none_or(|now| now.as_raw_pid() as u32 != parent) {
        return;
    }
    // SAFETY: the name ends in NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"prof-worker".as_ptr()) };
    sandbox::keep_computing();
    let WorkerSockets { jobs: socket, files, stop } = sockets;
    opener::ask_on(files);
    let is_stopped = Arc::<AtomicBool>::default();
    let stopping = Arc::clone(&is_stopped);
    let watch = std::thread::Builder::new().name("prof-stop".to_owned()).spawn(move || {
        // Nothing is ever written: it returns when the other end is closed.
        let _ = rustix::io::read(&stop, &mut [0; 1]);
        stopping.store(true, Ordering::Relaxed);
    });
    if watch.is_err() {
        return;
    }
    let begin = used(0);
    let mut last_us = begin.cpu_us;
    let mut jobs = jobs();
    while let Ok(Some(job)) = receive(socket.as_fd()) {
        #[cfg(feature = "testing")]
        misbehave(&job);
        let WorkerMessage { kind, urgency, part, body, descriptors } = job;
        let ask = Ask { kind, part, body, descriptors, stop: Arc::clone(&is_stopped) };
        let answer = match urgency {
            // This thread has the priority for it.
            JobUrgency::First => jobs.work(ask),
            JobUrgency::Ordinary => on_thread(jobs.as_mut(), ask, pace::be_ordinary),
            JobUrgency::Background => on_thread(jobs.as_mut(), ask, || {
                let _ = rustix::process::setpriority_process(None, BACKGROUND_PRIORITY);
            }),
        };
        if kind == JobKind::Forget {
            allocator::give_back();
            continue;
        }
        let used = used(begin.memory_bytes);
        let mut body = Vec::with_capacity(16 + answer.len());
        body.extend(used.cpu_us.to_le_bytes());
        body.extend(used.memory_bytes.to_le_bytes());
        body.extend(answer);
        let answer = WorkerJob { kind, urgency, part, body: &body, descriptors: &[] };
        if send_job(socket.as_fd(), &answer).is_err() {
            return;
        }
        if used.cpu_us - last_us > MUCH_WORK_US {
            allocator::give_back();
        }
        last_us = used.cpu_us;
    }
}

/// Does a job on a thread of a lower priority: one could not raise its own again.
fn on_thread(jobs: &mut dyn Jobs, ask: Ask, lower: impl FnOnce() + Send) -> Vec<u8> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            lower();
            jobs.work(ask)
        });
        match thread.join() {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

impl WorkerUsage {
    /// Takes it off the front of an answer.
    pub(super) fn split(answer: &[u8]) -> Option<(Self, &[u8])> {
        let (cpu, rest) = answer.split_first_chunk()?;
        let (memory, rest) = rest.split_first_chunk()?;
        Some((
            WorkerUsage { cpu_us: u64::from_le_bytes(*cpu), memory_bytes: u64::from_le_bytes(*memory) },
            rest,
        ))
    }

    /// Whether the worker is to be replaced between two jobs, before its limit of CPU time ends it in one.
    pub(super) fn is_near_its_end(&self) -> bool {
        self.cpu_us > MOST_CPU_SECONDS * 1_000_000 / 4
    }

    /// Whether the worker has grown, and is to be replaced when it keeps nothing: an allocator does not give everything back.
    pub(super) fn has_grown(&self) -> bool {
        const MOST_BYTES: u64 = 128 << 20;
        self.memory_bytes > MOST_BYTES
    }
}

fn used(begin_bytes: u64) -> WorkerUsage {
    // SAFETY: an all-zero rusage is a valid value, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    WorkerUsage {
        cpu_us: us(usage.ru_utime) + us(usage.ru_stime),
        memory_bytes: (usage.ru_maxrss as u64 * 1024).saturating_sub(begin_bytes),
    }
}

/// Does what the environment says with jobs of a file, or of a kind: `dies:NAME`, `swells:NAME`, `hangs:NAME`.
#[cfg(feature = "testing")]
fn misbehave(job: &WorkerMessage) {
    let Ok(wanted) = std::env::var("PROF_TEST_WORKER") else { return };
    let Some((how, name)) = wanted.split_once(':') else { return };
    if format!("{:?}", job.kind) != name && memchr::memmem::find(&job.body, name.as_bytes()).is_none() {
        return;
    }
    match how {
        "dies" => std::process::abort(),
        "swells" => {
            let mut kept = Vec::new();
            loop {
                // Address space counts, used or not.
                kept.push(vec![0u8; 16 << 20]);
            }
        }
        "hangs" => std::thread::sleep(std::time::Duration::from_secs(3600)),
        _ => {}
    }
}
