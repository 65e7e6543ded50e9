//! Waits: what a thread did not run for, why, and who ended it; and where the whole time of a thread went.

use super::rows::{StackId, TaskId};

/// Reason why a thread did not run: what it waited for. Numbers are stored: append only, never renumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Reason {
    /// Blocked, for none of the reasons below.
    #[default]
    Other,
    /// A lock: of the program, of a file or inside the kernel. In a file also whatever else is made of a futex, which
    /// the names of functions tell apart.
    Lock,
    /// A disk: reading, writing, or data to be safe there.
    Disk,
    /// The other end of a network connection.
    Network,
    /// Another process: pipe, local socket, message queue, semaphore, terminal.
    Pipe,
    /// One of several files to become ready: poll, select, epoll.
    Poll,
    /// Time to pass.
    Sleep,
    /// Memory: a page that had to be read or made.
    Fault,
    /// The end of a child.
    Child,
    /// Not blocked: it could have run, and no CPU was free for it.
    NoCpu,
    /// Stopped by a signal or a debugger, or frozen.
    Stopped,
    /// A condition variable, or a monitor's: another thread to say that something has come about.
    Condvar,
    /// Another thread, by a futex that is no lock's and no condition variable's, as far as is known: a semaphore, the
    /// end of a thread.
    Futex,
    /// The lock of a language's runtime, of which one thread at a time may run functions of the language.
    Gil,
    /// A reason that this version does not know.
    Unknown(u8),
}

impl Reason {
    /// All reasons that this version knows.
    pub const ALL: [Reason; 14] = [
        Reason::Other,
        Reason::Lock,
        Reason::Disk,
        Reason::Network,
        Reason::Pipe,
        Reason::Poll,
        Reason::Sleep,
        Reason::Fault,
        Reason::Child,
        Reason::NoCpu,
        Reason::Stopped,
        Reason::Condvar,
        Reason::Futex,
        Reason::Gil,
    ];

    /// The stored number; up to that of [`Reason::Stopped`] `enum prof_reason` in `src/bpf/c/prof.h`.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Reason::Other => 0,
            Reason::Lock => 1,
            Reason::Disk => 2,
            Reason::Network => 3,
            Reason::Pipe => 4,
            Reason::Poll => 5,
            Reason::Sleep => 6,
            Reason::Fault => 7,
            Reason::Child => 8,
            Reason::NoCpu => 9,
            Reason::Stopped => 10,
            Reason::Condvar => 11,
            Reason::Futex => 12,
            Reason::Gil => 13,
            Reason::Unknown(code) => code,
        }
    }

    /// Whether it is for data: of a disk, the network, another process, or memory that has to be read.
    pub(crate) fn is_io(self) -> bool {
        matches!(self, Reason::Disk | Reason::Network | Reason::Pipe | Reason::Fault)
    }

    /// The reason of a stored number.
    pub(crate) fn from_code(code: u8) -> Self {
        Self::ALL.into_iter().find(|reason| reason.code() == code).unwrap_or(Reason::Unknown(code))
    }

    /// A stable word for machine-readable output and for people, e.g. `lock`, `no CPU`.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Reason::Other => "other",
            Reason::Lock => "lock",
            Reason::Disk => "disk",
            Reason::Network => "net",
            Reason::Pipe => "pipe",
            Reason::Poll => "poll",
            Reason::Sleep => "sleep",
            Reason::Fault => "fault",
            Reason::Child => "child",
            Reason::NoCpu => "no CPU",
            Reason::Stopped => "stopped",
            Reason::Condvar => "condvar",
            Reason::Futex => "futex",
            Reason::Gil => "GIL",
            Reason::Unknown(_) => "unknown",
        }
    }
}

/// Beginnings of the names of kernel functions that wait for a lock: the kernel's own, a file's, or a futex with an owner.
const KERNEL_LOCKS: [&str; 9] = [
    "__mutex_lock",
    "rwsem_down_",
    "__rt_mutex_",
    "rt_mutex_",
    "flock_lock",
    "locks_lock_inode",
    "do_lock_file",
    "fcntl_setlk",
    "futex_lock_pi",
];

/// Whether a function of the kernel waits for a lock.
pub(crate) fn is_kernel_lock(function: &str) -> bool {
    KERNEL_LOCKS.iter().any(|start| function.starts_with(start))
}

/// Who ended a wait. Numbers are stored: append only, never renumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WakerKind {
    /// Not known: the wait was not over, or no one had to end it.
    #[default]
    None,
    /// A thread.
    Thread,
    /// An interrupt's second half (softirq), the network's for instance.
    SoftInterrupt,
    /// An interrupt: a timer's, or a device's.
    Interrupt,
    /// A kind that this version does not know.
    Unknown(u8),
}

impl WakerKind {
    /// The stored number; `enum prof_waker` in `src/bpf/c/prof.h`.
    pub(crate) const fn code(self) -> u8 {
        match self {
            WakerKind::None => 0,
            WakerKind::Thread => 1,
            WakerKind::SoftInterrupt => 2,
            WakerKind::Interrupt => 3,
            WakerKind::Unknown(code) => code,
        }
    }

    /// The kind of a stored number.
    pub(crate) fn from_code(code: u8) -> Self {
        [WakerKind::None, WakerKind::Thread, WakerKind::SoftInterrupt, WakerKind::Interrupt]
            .into_iter()
            .find(|kind| kind.code() == code)
            .unwrap_or(WakerKind::Unknown(code))
    }
}

/// Who ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Waker {
    /// Kind of waker.
    pub kind: WakerKind,
    /// The thread, or the one that was interrupted.
    pub task: Option<TaskId>,
    /// Stack of the thread when it ended the wait. Only some wakers' stacks are taken.
    pub stack: Option<StackId>,
}

/// Known facts of one wait besides its stack and its weight.
///
/// The weight of a wait's sample is its length, or more when only some waits of that length
/// were kept. A wait of `duration_ns` d and weight w was kept with the probability d / w, independently of all others,
/// so that sums of weights are right on average, and the variance of such a sum is near the sum of w (w - d).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Wait {
    /// Length of the wait, ns.
    pub duration_ns: u64,
    /// Why the thread waited.
    pub reason: Reason,
    /// Who ended the wait.
    pub waker: Waker,
}

/// Waits that were too short to be kept one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ShortWaits {
    /// Why the thread waited.
    pub reason: Reason,
    /// Number of waits.
    pub count: u64,
    /// Their time, ns.
    pub time_ns: u64,
}

/// Whole time of one thread by state, from the scheduler's account and without sampling:
/// `on_cpu_ns + no_cpu_ns + blocked_ns` is `to_ns - from_ns`, but for what was lost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadTime {
    /// The thread, under its last name.
    pub task: TaskId,
    /// Time at which the thread was first there: its start, or the recording's, ns since the latter.
    pub from_ns: u64,
    /// Time at which the thread was last there: its end, or the recording's, ns since the recording's start.
    pub to_ns: u64,
    /// Time on a CPU, ns.
    pub on_cpu_ns: u64,
    /// Time that it could have run, without a CPU, ns.
    pub no_cpu_ns: u64,
    /// Time blocked, ns.
    pub blocked_ns: u64,
    /// Number of times that the thread left a CPU.
    pub switches: u64,
    /// Whether the thread ended before the recording did.
    pub has_ended: bool,
    /// Waits of the thread that are no samples, one entry for each reason.
    pub short_waits: Vec<ShortWaits>,
}

impl ThreadTime {
    /// Whether it was there and nothing is known of its time.
    pub(crate) fn is_unknown(&self) -> bool {
        self.to_ns > self.from_ns && self.on_cpu_ns == 0 && self.no_cpu_ns == 0 && self.blocked_ns == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_are_distinct() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), reason);
        }
        assert_eq!(Reason::from_code(200), Reason::Unknown(200));
        for code in 0..=255 {
            assert_eq!(WakerKind::from_code(code).code(), code);
        }
    }
}
