//! Threads that live while a recording is watched.

use crate::bpf::{Account, Doing};
use crate::profile::ThreadTime;

/// The account of a thread that lives.
#[derive(Debug, Clone)]
pub(crate) struct Living {
    /// Its time so far.
    pub(crate) time: ThreadTime,
    /// What it does at the end of that.
    pub(crate) doing: Doing,
    /// What it waits for, if that began so recently that it has no row yet.
    pub(crate) new_wait: Option<NewWait>,
}

/// A wait that has no row before it is longer, or over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewWait {
    /// When it began, since the recorder's start, ns.
    pub(crate) start_ns: u64,
    /// When its blocked part ended; `None` while that goes on.
    pub(crate) wake_ns: Option<u64>,
}

/// What is known of a thread since the end of a wait, which is known before the wait has its row: for that it may lack its stack
/// or its waker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitEnd {
    /// When it came on a CPU, since the recorder's start, ns.
    pub(crate) end_ns: u64,
    /// Its account at that time.
    pub(crate) account: Account,
}
