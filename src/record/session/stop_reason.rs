//! Why a recording ends.

use crate::base::units;
use crate::profile::End;
use std::borrow::Cow;

/// Why a recording ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The launched command has ended, or the one that times the recording.
    CommandEnded,
    /// All that was to be recorded has ended.
    TargetEnded,
    /// The target had ended before the first sample could be taken.
    TargetGone,
    /// The duration that was asked for has passed.
    DurationReached,
    /// SIGINT, as from Ctrl-C.
    Interrupted,
    /// Another signal, which ends this process.
    Signal(i32),
    /// The user of a live view stopped it.
    Stopped,
    /// The opener has ended, without which a recording in windows cannot go on.
    OpenerEnded,
    /// The process that makes workers has ended, without which nothing new has names or unwind tables.
    WorkersEnded,
}

impl StopReason {
    /// Returns the text for the end record, and for people.
    pub(crate) fn text(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            StopReason::CommandEnded => End::COMMAND_ENDED,
            StopReason::TargetEnded => End::TARGET_ENDED,
            StopReason::TargetGone => End::TARGET_GONE,
            StopReason::DurationReached => End::DURATION_REACHED,
            StopReason::Interrupted => End::INTERRUPTED,
            StopReason::Signal(signal) => {
                return Cow::Owned(format!("prof was ended by {}", units::signal(signal)));
            }
            StopReason::Stopped => End::STOPPED,
            StopReason::OpenerEnded => "the process that opens files for prof ended",
            StopReason::WorkersEnded => "the process whose copies read files for prof ended",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_their_names() {
        assert_eq!(StopReason::Signal(libc::SIGTERM).text(), "prof was ended by SIGTERM");
        assert_eq!(StopReason::Signal(63).text(), "prof was ended by signal 63");
    }
}
