//! Threads that live while a recording is watched.

use crate::bpf::{Account, Doing};
use crate::profile::ThreadTime;

/// The account of a thread that lives.
#[derive(Debug, Clone)]
pub(crate) struct Living {
    /// Time of the thread so far.
    pub(crate) time: ThreadTime,
    /// Activity of the thread at the end of that time.
    pub(crate) doing: Doing,
    /// Wait of the thread that began so recently that it has no row yet.
    pub(crate) new_wait: Option<NewWait>,
}

/// A wait that has no row before it is longer, or over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewWait {
    /// Start of the wait, since the recorder's start, ns.
    pub(crate) start_ns: u64,
    /// End of its blocked part, since the recorder's start, ns; `None` while that goes on.
    pub(crate) wake_ns: Option<u64>,
}

/// State of a thread at the end of a wait, which is known before the wait has its row: for that it may lack its stack or
/// its waker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitEnd {
    /// Time at which the thread came on a CPU, since the recorder's start, ns.
    pub(crate) end_ns: u64,
    /// Account of the thread at that time.
    pub(crate) account: Account,
}
