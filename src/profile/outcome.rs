//! How the walk of one user stack ended.

/// Outcome of the walk of a sample's user stack: proof that the root was reached, or the reason why not.
///
/// The numbers are stored in files: append only, never renumber. 0 is kept for "unset".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Outcome {
    /// No walk was recorded.
    #[default]
    Unset,
    /// The thread's root was reached, on proof (undefined return address, zero, known entry code).
    Complete,
    /// No user stack exists: a kernel thread, or a task past its exit.
    NoUserStack,
    /// Frame pointers through code generated at run time ended; what lies above is not known.
    JitEnd,
    /// The outermost frame's module has no unwind information for that address.
    NoUnwindInfo,
    /// The unwind table was not loaded yet and no copy of the stack was available.
    TableNotLoaded,
    /// The rule at that address cannot be expressed, and no copy of the stack was available.
    UnsupportedRule,
    /// The address lies in no known mapping.
    UnknownMapping,
    /// The stack could not be read (page not present or not mapped).
    StackUnreadable,
    /// The unwind information led to an address that cannot be a caller (not executable, or not growing).
    BadUnwindInfo,
    /// The root was not reached within the limit of steps; the leaf end was kept.
    TooDeep,
    /// A rescue copy was too short to reach the root.
    CopyTooShort,
    /// A 32-bit program: not supported.
    Compat32,
    /// The file of the outermost frame's code could not be opened.
    FileUnreadable,
    /// The thread's root was reached on proof, but the stack has more frames than are kept: those of its middle
    /// are missing, and a frame in their place says how many.
    MiddleLeftOut,
    /// The stack was imported: whether it reaches the thread's root is not known.
    NotKnown,
    /// A reason that this version does not know.
    Unknown(u8),
}

impl Outcome {
    /// All outcomes this version writes.
    pub(crate) const ALL: [Outcome; 16] = [
        Outcome::Unset,
        Outcome::Complete,
        Outcome::NoUserStack,
        Outcome::JitEnd,
        Outcome::NoUnwindInfo,
        Outcome::TableNotLoaded,
        Outcome::UnsupportedRule,
        Outcome::UnknownMapping,
        Outcome::StackUnreadable,
        Outcome::BadUnwindInfo,
        Outcome::TooDeep,
        Outcome::CopyTooShort,
        Outcome::Compat32,
        Outcome::FileUnreadable,
        Outcome::MiddleLeftOut,
        Outcome::NotKnown,
    ];

    /// The stored number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Outcome::Unset => 0,
            Outcome::Complete => 1,
            Outcome::NoUserStack => 2,
            Outcome::JitEnd => 3,
            Outcome::NoUnwindInfo => 4,
            Outcome::TableNotLoaded => 5,
            Outcome::UnsupportedRule => 6,
            Outcome::UnknownMapping => 7,
            Outcome::StackUnreadable => 8,
            Outcome::BadUnwindInfo => 9,
            Outcome::TooDeep => 10,
            Outcome::CopyTooShort => 11,
            Outcome::Compat32 => 12,
            Outcome::FileUnreadable => 13,
            Outcome::MiddleLeftOut => 14,
            Outcome::NotKnown => 15,
            Outcome::Unknown(code) => code,
        }
    }

    /// The outcome of a stored number.
    pub(crate) fn from_code(code: u8) -> Self {
        Self::ALL.into_iter().find(|outcome| outcome.code() == code).unwrap_or(Outcome::Unknown(code))
    }

    /// Whether everything that exists of the stack is there.
    ///
    /// A kernel thread has no user stack, and a stack that ends in run-time generated code is as
    /// long as its frame pointers allow; the latter is *not* counted as complete.
    pub(crate) fn is_complete(self) -> bool {
        matches!(self, Outcome::Complete | Outcome::NoUserStack)
    }

    /// Whether the outermost frame is the thread's root, on proof.
    pub(crate) fn has_root(self) -> bool {
        matches!(self, Outcome::Complete | Outcome::MiddleLeftOut)
    }

    /// Whether the stack is to be shown as cut before its root.
    pub(crate) fn is_cut(self) -> bool {
        !self.is_complete() && !self.has_root() && self != Outcome::NotKnown
    }

    /// A stable word for machine-readable output, e.g. `no_unwind_info`.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Outcome::Unset => "unset",
            Outcome::Complete => "complete",
            Outcome::NoUserStack => "no_user_stack",
            Outcome::JitEnd => "jit_end",
            Outcome::NoUnwindInfo => "no_unwind_info",
            Outcome::TableNotLoaded => "table_not_loaded",
            Outcome::UnsupportedRule => "unsupported_rule",
            Outcome::UnknownMapping => "unknown_mapping",
            Outcome::StackUnreadable => "stack_unreadable",
            Outcome::BadUnwindInfo => "bad_unwind_info",
            Outcome::TooDeep => "too_deep",
            Outcome::CopyTooShort => "copy_too_short",
            Outcome::Compat32 => "compat_32",
            Outcome::FileUnreadable => "file_unreadable",
            Outcome::MiddleLeftOut => "middle_left_out",
            Outcome::NotKnown => "not_known",
            Outcome::Unknown(_) => "unknown",
        }
    }

    /// A few words for people, e.g. `no unwind info`.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Outcome::Unset => "not walked",
            Outcome::Complete => "complete",
            Outcome::NoUserStack => "no user stack",
            Outcome::JitEnd => "end of frame pointers in generated code",
            Outcome::NoUnwindInfo => "no unwind info",
            Outcome::TableNotLoaded => "unwind table not loaded yet",
            Outcome::UnsupportedRule => "unsupported unwind rule",
            Outcome::UnknownMapping => "unknown mapping",
            Outcome::StackUnreadable => "stack not readable",
            Outcome::BadUnwindInfo => "bad unwind info",
            Outcome::TooDeep => "too deep",
            Outcome::CopyTooShort => "stack copy too short",
            Outcome::Compat32 => "32-bit program",
            Outcome::FileUnreadable => "file could not be opened",
            Outcome::MiddleLeftOut => "deeper than the frames kept",
            Outcome::NotKnown => "not known",
            Outcome::Unknown(_) => "unknown reason",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_are_distinct() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::from_code(outcome.code()), outcome);
        }
        assert_eq!(Outcome::from_code(200), Outcome::Unknown(200));
    }
}
