//! What a thread does at a moment.

use crate::profile::Reason;

/// State of a thread at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TimelineState {
    /// The thread is on a CPU.
    Running,
    /// The thread is ready to run, without a CPU.
    NoCpu,
    /// The thread waits for this.
    Blocked(Reason),
    /// The thread waits for work.
    Idle,
    /// Not known: the samples are of an event that measures no time, such as page faults.
    Sampled,
}
