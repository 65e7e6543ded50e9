//! What a thread does at a moment.

use crate::profile::Reason;

/// What a thread does at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TimelineState {
    /// It is on a CPU.
    Running,
    /// It is ready to run, without a CPU.
    NoCpu,
    /// It waits for this.
    Blocked(Reason),
    /// It waits for work.
    Idle,
}
