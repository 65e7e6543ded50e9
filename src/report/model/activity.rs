//! What a thread did when a sample of it was taken.

use crate::profile::Reason;

/// Activity of a thread when a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Activity {
    /// The thread ran (or did whatever else the event is about).
    Running,
    /// The thread waited.
    Waiting(Reason),
    /// The thread waited, each time too shortly for a sample of its own.
    WaitingShortly(Reason),
}

impl Activity {
    /// Why it waited.
    pub(crate) fn reason(self) -> Option<Reason> {
        match self {
            Activity::Running => None,
            Activity::Waiting(reason) | Activity::WaitingShortly(reason) => Some(reason),
        }
    }
}
