//! How often work is done that no one has asked for: a picture of a recording that has grown, a look at its threads. And how
//! much a thread matters compared with others, and the threads on which work is done side by side.

use super::failure::{Failure, io_words, status};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// The longest rest, whatever the work has cost.
const LONGEST_REST: Duration = Duration::from_secs(3);

/// Rests between pieces of work, which limit the share of a CPU that the work takes.
#[derive(Debug)]
pub(crate) struct Pace {
    /// After a piece of work there is a rest of this many times its CPU time.
    rest: u32,
    rests_until: Option<Instant>,
}

impl Pace {
    /// Work that takes one part in `rest` of a CPU, unless that would keep it from being done for longer than three seconds.
    pub(crate) fn new(rest: u32) -> Self {
        Pace { rest, rests_until: None }
    }

    /// A piece of work was done at `ended`, which took so much CPU time: on a busy machine it takes longer, and costs no more.
    pub(crate) fn worked(&mut self, cpu_time: Duration, ended: Instant) {
        self.rests_until = ended.checked_add(cpu_time.saturating_mul(self.rest).min(LONGEST_REST));
    }

    /// Returns the remaining time of the rest.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.rests_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

/// CPU time of this process: for work that several threads do, while not much else goes on.
pub(crate) fn process_cpu_time() -> Duration {
    cpu_time(ClockId::ProcessCPUTime)
}

/// CPU time of this thread.
pub(crate) fn thread_cpu_time() -> Duration {
    cpu_time(ClockId::ThreadCPUTime)
}

fn cpu_time(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Nice value of the thread that comes first.
const FIRST: i32 = -10;

/// Nice value that this process was started with.
static ORDINARY: AtomicI32 = AtomicI32::new(i32::MAX);

/// Lets this thread run before others: on a crowded machine unwind tables would come late. It works little, and without the
/// right to do so everything still works.
pub(crate) fn come_first() {
    if let Ok(before) = rustix::process::getpriority_process(None) {
        let _ = ORDINARY.compare_exchange(i32::MAX, before, Ordering::Relaxed, Ordering::Relaxed);
        let _ = rustix::process::setpriority_process(None, FIRST);
    }
}

/// Gives a new thread, which has the priority of the one that started it, that of this process.
pub(crate) fn be_ordinary() {
    let ordinary = ORDINARY.load(Ordering::Relaxed);
    if ordinary != i32::MAX {
        // Lowering one's own priority is always allowed.
        let _ = rustix::process::setpriority_process(None, ordinary);
    }
}

/// Length of the turns of a thread that has to run soon after it is woken, ns.
const SHORT_TURN_NS: u64 = 100_000;

/// `struct sched_attr` of include/uapi/linux/sched/types.h, as long as it was at first.
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Has this thread ask for short turns on its CPU: when it is woken, it then comes before who runs there (from Linux 6.12 on).
/// Where that is not known, everything still works.
pub(crate) fn take_short_turns() {
    let nice = rustix::process::getpriority_process(None).unwrap_or(0);
    let size = size_of::<SchedulingAttributes>() as u32;
    let wanted = SchedulingAttributes { size, nice, runtime_ns: SHORT_TURN_NS, ..Default::default() };
    const THIS_THREAD: libc::pid_t = 0;
    const NO_FLAGS: libc::c_uint = 0;
    // SAFETY: the kernel reads `size` bytes of `wanted`, which lives until the call returns, and writes nothing.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, THIS_THREAD, &raw const wanted, NO_FLAGS) };
}

/// Starts the threads on which this process does work side by side; each does `begin` first. Where there can be none, that is an
/// error, and no panic in the middle of the work.
///
/// # Errors
///
/// When the system gives none: it is out of memory, or the user has too many processes.
pub(crate) fn start_threads(begin: fn()) -> Result<(), Failure> {
    let pool = rayon::ThreadPoolBuilder::new().start_handler(move |_| begin());
    let Err(error) = pool.build_global() else { return Ok(()) };
    // Else there are some already.
    let Some(cause) = error.source() else { return Ok(()) };
    let cause = cause.downcast_ref::<io::Error>().map_or_else(|| cause.to_string(), io_words);
    Err(Failure::new(status::FAILED, format!("cannot start threads: {cause}"))
        .hint("see how many processes and how much memory this user may have:  ulimit -u; ulimit -v"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_a_small_part_of_the_time() {
        let mut pace = Pace::new(30);
        let start = Instant::now();
        assert_eq!(pace.left(start), Duration::ZERO, "nothing has been done yet");
        let ended = start + Duration::from_millis(40);
        pace.worked(Duration::from_millis(40), ended);
        assert_eq!(pace.left(ended), Duration::from_millis(1200));
        assert_eq!(pace.left(ended + Duration::from_millis(1100)), Duration::from_millis(100));
        assert_eq!(pace.left(ended + Duration::from_secs(2)), Duration::ZERO);
        pace.worked(Duration::from_secs(10), ended);
        assert_eq!(pace.left(ended), LONGEST_REST, "a picture comes in the end");
    }

    #[test]
    fn looks_are_a_small_part_of_the_time_and_come_all_the_same() {
        let (mut pace, now) = (Pace::new(250), Instant::now());
        pace.worked(Duration::from_millis(2), now);
        assert_eq!(pace.left(now), Duration::from_millis(500));
        pace.worked(Duration::from_secs(1), now);
        assert_eq!(pace.left(now), LONGEST_REST);
        assert!(thread_cpu_time() > Duration::ZERO && process_cpu_time() >= thread_cpu_time());
    }
}
