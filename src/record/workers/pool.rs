//! Who has which worker: jobs wait for one, and workers that take too long are ended.

use super::connection::WorkerProcess;
use super::message::WorkerJob;
use super::origin::WorkerOrigin;
use super::process::{Jobs, WorkerSockets, WorkerUsage};
use crate::base::deadline::Deadline;
use crate::base::memory_budget::{MOST_PROCESSES, MemoryBudget};
use crate::base::{failure, units};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Most workers of a lane.
const MOST_WORKERS: usize = 8;
/// Workers that are made before there is a job.
const READY_WORKERS: usize = 4;
/// Most workers for files that may never be read.
const MOST_SLOW_WORKERS: usize = 2;
/// Workers that take this long may never be back: others do the jobs that wait, up to so many more of them.
const LONG_WORK: Duration = Duration::from_secs(1);
const MOST_MORE: usize = 8;
/// Time between two looks at a deadline.
const STEP: Duration = Duration::from_millis(20);
/// Time for an answer that has begun to go on.
const STALLED: Duration = Duration::from_secs(2);
/// The same for a question, too, where a process is stopped until there is an answer.
const STALLED_APART: Duration = Duration::from_millis(500);

/// The workers of this process; a process has one such pool, as it has one origin.
static POOL: OnceLock<Pool> = OnceLock::new();

/// Jobs that wait for each other, and for no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerLane {
    /// Jobs on local files.
    Local,
    /// Jobs on files that may never be read: on a server, or made by a program.
    Slow,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkerEnd {
    /// It took too long, or was no longer wanted.
    TooLong,
    /// The worker has ended; how, in words.
    Died(String),
    /// None could be made; why.
    NotMade(String),
    /// The worker that had kept something has ended.
    Forgotten,
}

impl std::fmt::Display for WorkerEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WorkerEnd::TooLong => f.write_str("it took too long to read"),
            WorkerEnd::Died(how) => write!(f, "the process that read it {how}"),
            WorkerEnd::NotMade(why) => write!(f, "no process could be started to read it: {why}"),
            WorkerEnd::Forgotten => f.write_str("the process that had read it has ended"),
        }
    }
}

/// CPU time and peak memory of all workers, as far as they have said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PoolUsage {
    pub(crate) cpu_ns: u64,
    /// Sum of what each live worker had at its peak, at the most.
    pub(crate) memory_bytes: u64,
    /// Workers that have died of a job.
    pub(crate) died: u64,
}

#[derive(Debug)]
struct Pool {
    origin: Mutex<WorkerOrigin>,
    local: LaneOfWorkers,
    slow: LaneOfWorkers,
    used: Mutex<UsageBooks>,
    /// Numbers by which workers share the memory budget.
    shares: Mutex<BTreeSet<usize>>,
}

/// Sums of usage.
#[derive(Debug, Default)]
struct UsageBooks {
    usage: PoolUsage,
    /// Memory of the workers that live, bytes.
    now_bytes: u64,
}

#[derive(Debug)]
struct LaneOfWorkers {
    most: usize,
    state: Mutex<LaneState>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct LaneState {
    idle: Vec<WorkerProcess>,
    /// All that live, by number, and since when they have been at work.
    alive: BTreeMap<u64, Option<Instant>>,
    next: u64,
    /// Parts that are no longer wanted of workers that were at work: worker and part.
    unwanted: Vec<(u64, u64)>,
}

/// Whether jobs are done by workers; where none were wanted, they are done by this process.
pub(crate) fn is_running() -> bool {
    POOL.get().is_some()
}

/// Whether no more workers can be made, since the process that makes them has ended before this one.
pub(crate) fn has_ended() -> bool {
    // One that is being asked answers.
    POOL.get().and_then(|pool| pool.origin.try_lock().ok()).is_some_and(|origin| origin.has_ended())
}

/// Gets ready to make workers that do the jobs of what `jobs` returns. Nothing foreign was read so far, and no other thread has
/// begun.
///
/// # Errors
///
/// When no process can be made.
pub(crate) fn start(jobs: fn() -> Box<dyn Jobs>) -> std::io::Result<()> {
    #[cfg(feature = "testing")]
    if std::env::var("PROF_TEST_WORKER").is_ok_and(|wanted| wanted == "none") {
        return Ok(());
    }
    if is_running() {
        return Ok(());
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let lane = |most| LaneOfWorkers { most, state: Mutex::default(), freed: Condvar::new() };
    // Copies of this process share it if it is there.
    MemoryBudget::shared();
    let pool = Pool {
        origin: Mutex::new(WorkerOrigin::start(jobs)?),
        local: lane(cpus.clamp(2, MOST_WORKERS)),
        slow: lane(MOST_SLOW_WORKERS),
        used: Mutex::default(),
        // That of this process is 0.
        shares: Mutex::new((1..MOST_PROCESSES).collect()),
    };
    // The first are ready when the programs are loaded: samples that come before the tables have to be rescued.
    let ready = (0..pool.local.most.min(READY_WORKERS) as u64).map_while(|number| pool.make(number).ok());
    let ready: Vec<WorkerProcess> = ready.collect();
    let mut state = lock(&pool.local.state);
    state.next = ready.len() as u64;
    state.alive.extend(ready.iter().map(|worker| (worker.number, None)));
    state.idle = ready;
    drop(state);
    let _ = POOL.set(pool);
    Ok(())
}

/// Makes a worker that is in no lane, and gets no files; `None` where this process has none.
pub(super) fn make_apart() -> Option<std::io::Result<WorkerProcess>> {
    let made = pool()?.make(u64::MAX).and_then(|worker| {
        for way in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&worker.jobs, way, Some(STALLED_APART))?;
        }
        Ok(WorkerProcess { files: None, ..worker })
    });
    Some(made)
}

/// Ends all workers, for the end of the program: where no one waits for the children of a process that has ended, they would be left.
pub(crate) fn end() {
    if let Some(pool) = pool() {
        lock(&pool.origin).close();
    }
}

/// What all workers have used.
pub(crate) fn usage() -> PoolUsage {
    POOL.get().map_or_else(PoolUsage::default, |pool| lock(&pool.used).usage)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // No lock is held while anything is half-done.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that a worker keeps for a later job. Dropping it has the worker forget it.
#[derive(Debug)]
pub(crate) struct KeptPart {
    lane: WorkerLane,
    worker: u64,
    part: u64,
}

impl KeptPart {
    /// The worker that keeps it.
    ///
    /// # Errors
    ///
    /// [`WorkerEnd::Forgotten`] where it has ended, [`WorkerEnd::TooLong`] where it is at work until the deadline.
    pub(crate) fn take(&self, deadline: &Deadline) -> Result<HeldWorker, WorkerEnd> {
        let lane = pool().ok_or(WorkerEnd::Forgotten)?.lane(self.lane);
        let mut state = lock(&lane.state);
        loop {
            if let Some(at) = state.idle.iter().position(|worker| worker.number == self.worker) {
                return Ok(state.hold(self.lane, at));
            }
            if !state.alive.contains_key(&self.worker) {
                return Err(WorkerEnd::Forgotten);
            }
            if deadline.has_passed() {
                return Err(WorkerEnd::TooLong);
            }
            state = lane.wait(state);
        }
    }
}

impl Drop for KeptPart {
    fn drop(&mut self) {
        let Some(pool) = pool() else { return };
        let mut state = lock(&pool.lane(self.lane).state);
        if let Some(worker) = state.idle.iter_mut().find(|worker| worker.number == self.worker) {
            worker.forget(self.part);
        } else if state.alive.contains_key(&self.worker) {
            state.unwanted.push((self.worker, self.part));
        }
    }
}

fn pool() -> Option<&'static Pool> {
    POOL.get()
}

/// A worker for some jobs in a row; waits for one until the deadline.
///
/// # Errors
///
/// When none is free in time, or can be made.
pub(crate) fn take(lane: WorkerLane, deadline: &Deadline) -> Result<HeldWorker, WorkerEnd> {
    let pool = pool().ok_or_else(|| WorkerEnd::NotMade("none are wanted".to_owned()))?;
    let of_lane = pool.lane(lane);
    let mut state = lock(&of_lane.state);
    loop {
        // One that keeps something is waited for by who has that.
        let freest = (0..state.idle.len()).min_by_key(|&at| state.idle[at].kept.len());
        let may_make = of_lane.has_room(&state);
        if let Some(at) = freest.filter(|&at| state.idle[at].kept.is_empty() || !may_make) {
            return Ok(state.hold(lane, at));
        }
        if may_make {
            let number = state.next;
            state.next += 1;
            state.alive.insert(number, Some(Instant::now()));
            drop(state);
            return match pool.make(number) {
                Ok(worker) => Ok(HeldWorker { lane, worker: Some(worker) }),
                Err(error) => {
                    lock(&of_lane.state).alive.remove(&number);
                    of_lane.freed.notify_all();
                    Err(WorkerEnd::NotMade(failure::io_words(&error)))
                }
            };
        }
        if deadline.has_passed() {
            return Err(WorkerEnd::TooLong);
        }
        state = of_lane.wait(state);
    }
}

impl Pool {
    fn lane(&self, lane: WorkerLane) -> &LaneOfWorkers {
        match lane {
            WorkerLane::Local => &self.local,
            WorkerLane::Slow => &self.slow,
        }
    }

    fn make(&self, number: u64) -> std::io::Result<WorkerProcess> {
        let pair = |kind| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        let (jobs, their_jobs) = pair(SocketType::STREAM)?;
        set_socket_timeout(&jobs, Timeout::Recv, Some(STALLED))?;
        let (files, their_files) = pair(SocketType::SEQPACKET)?;
        let (their_stop, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let theirs = WorkerSockets { jobs: their_jobs, files: their_files, stop: their_stop };
        let share = self.free_share()?;
        let pid = lock(&self.origin).make(&theirs, share as u32).inspect_err(|_| self.give_back(share))?;
        Ok(WorkerProcess {
            number,
            pid,
            share,
            jobs,
            files: Some(files),
            stop: Some(stop),
            used: WorkerUsage::default(),
            kept: BTreeSet::new(),
            next_part: 1,
        })
    }

    fn free_share(&self) -> std::io::Result<usize> {
        lock(&self.shares).pop_first().ok_or_else(|| std::io::Error::other("there are too many of them"))
    }

    /// Frees what an ended worker held.
    fn give_back(&self, share: usize) {
        MemoryBudget::free_process(share);
        lock(&self.shares).insert(share);
    }

    fn note(&self, before: WorkerUsage, now: WorkerUsage) {
        let mut books = lock(&self.used);
        books.usage.cpu_ns += now.cpu_us.saturating_sub(before.cpu_us) * 1000;
        books.now_bytes = (books.now_bytes + now.memory_bytes).saturating_sub(before.memory_bytes);
        books.usage.memory_bytes = books.usage.memory_bytes.max(books.now_bytes);
    }

    /// Ends a worker for good; returns how it ended.
    fn end(&self, lane: WorkerLane, worker: WorkerProcess, is_death: bool) -> String {
        let status = lock(&self.origin).end(worker.pid, is_death);
        let mut books = lock(&self.used);
        books.now_bytes = books.now_bytes.saturating_sub(worker.used.memory_bytes);
        books.usage.died += u64::from(is_death);
        drop(books);
        self.give_back(worker.share);
        let of_lane = self.lane(lane);
        let mut state = lock(&of_lane.state);
        state.alive.remove(&worker.number);
        state.unwanted.retain(|(number, _)| *number != worker.number);
        drop(state);
        of_lane.freed.notify_all();
        described(status)
    }
}

/// How a process ended, by its wait status.
fn described(status: Option<i32>) -> String {
    match status {
        Some(status) if libc::WIFSIGNALED(status) => {
            let signal = libc::WTERMSIG(status);
            match signal {
                libc::SIGXCPU => "had used too much CPU time".to_owned(),
                libc::SIGKILL => "was killed: memory may be short".to_owned(),
                // What Rust's allocation ends with, too.
                libc::SIGABRT => "was aborted: it may have asked for too much memory".to_owned(),
                _ => format!("died of {}", units::signal(signal)),
            }
        }
        _ => "has ended".to_owned(),
    }
}

impl LaneState {
    /// Takes an idle worker.
    fn hold(&mut self, lane: WorkerLane, at: usize) -> HeldWorker {
        let worker = self.idle.swap_remove(at);
        self.alive.insert(worker.number, Some(Instant::now()));
        HeldWorker { lane, worker: Some(worker) }
    }
}

impl LaneOfWorkers {
    /// Whether there may be another worker.
    fn has_room(&self, state: &LaneState) -> bool {
        let takes_long = |since: &&Option<Instant>| since.is_some_and(|since| since.elapsed() > LONG_WORK);
        let long = state.alive.values().filter(takes_long).count().min(MOST_MORE);
        state.alive.len() < self.most + long
    }

    fn wait<'a>(&self, state: MutexGuard<'a, LaneState>) -> MutexGuard<'a, LaneState> {
        self.freed.wait_timeout(state, STEP).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A worker that does no one else's jobs meanwhile.
#[derive(Debug)]
pub(crate) struct HeldWorker {
    lane: WorkerLane,
    /// `None` once it has ended.
    worker: Option<WorkerProcess>,
}

impl HeldWorker {
    /// Has it do a job.
    ///
    /// # Errors
    ///
    /// When there is no answer until the deadline, or ever: then the worker is gone.
    pub(crate) fn work(&mut self, job: &WorkerJob<'_>, deadline: &Deadline) -> Result<Vec<u8>, WorkerEnd> {
        let (Some(pool), Some(worker)) = (pool(), self.worker.as_mut()) else {
            return Err(WorkerEnd::Forgotten);
        };
        let answered = worker.work(job, deadline);
        let answer = answered.and_then(|mut answer| {
            let (used, body) = WorkerUsage::split(&answer).ok_or(true)?;
            let length = body.len();
            pool.note(worker.used, used);
            worker.used = used;
            answer.drain(..answer.len() - length);
            Ok(answer)
        });
        answer.map_err(|is_death| {
            let how = self.worker.take().map(|worker| pool.end(self.lane, worker, is_death));
            if is_death { WorkerEnd::Died(how.unwrap_or_default()) } else { WorkerEnd::TooLong }
        })
    }

    /// Takes over what this worker keeps, for a job that uses it up unless it is kept again. Returns its number.
    pub(crate) fn take_over(&mut self, part: KeptPart) -> u64 {
        let number = part.part;
        // The job has it now: there is nothing to have forgotten.
        std::mem::forget(part);
        if let Some(worker) = &mut self.worker {
            worker.kept.remove(&number);
        }
        number
    }

    /// A number under which a job may have something kept.
    pub(crate) fn new_part(&mut self) -> u64 {
        let Some(worker) = &mut self.worker else { return 0 };
        worker.next_part += 1;
        worker.next_part - 1
    }

    /// What the worker has kept under a number; `None` where it will not live on.
    pub(crate) fn keep(&mut self, part: u64) -> Option<KeptPart> {
        let worker = self.worker.as_mut().filter(|worker| worker.stop.is_some())?;
        worker.kept.insert(part);
        Some(KeptPart { lane: self.lane, worker: worker.number, part })
    }
}

impl Drop for HeldWorker {
    fn drop(&mut self) {
        let (Some(mut worker), Some(pool)) = (self.worker.take(), pool()) else { return };
        let of_lane = pool.lane(self.lane);
        let mut state = lock(&of_lane.state);
        let number = worker.number;
        let unwanted = std::mem::take(&mut state.unwanted);
        let (own, others) = unwanted.into_iter().partition(|(of, _)| *of == number);
        state.unwanted = others;
        let own: Vec<(u64, u64)> = own;
        own.into_iter().for_each(|(_, part)| worker.forget(part));
        // One that was told to stop does no more jobs.
        let is_worn = worker.used.is_near_its_end() || (worker.used.has_grown() && worker.kept.is_empty());
        if worker.stop.is_none() || is_worn {
            drop(state);
            pool.end(self.lane, worker, false);
            return;
        }
        state.alive.insert(number, None);
        state.idle.push(worker);
        drop(state);
        of_lane.freed.notify_all();
    }
}
