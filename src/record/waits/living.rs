//! Threads that live while a recording is watched.

use crate::bpf::Doing;
use crate::profile::ThreadTime;

/// The account of a thread that lives.
#[derive(Debug, Clone)]
pub(crate) struct Living {
    /// Its time so far.
    pub(crate) time: ThreadTime,
    /// What it does at the end of that.
    pub(crate) doing: Doing,
}
