//! A native frame that is asked for its functions, and the kind of the answer.

/// A native frame that may be a function of managed code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NativePlace {
    /// Process address of the next instruction, or of the instruction that was interrupted.
    pub(super) address: u64,
    /// The same by the addresses of the runtime's file; `None` in generated code.
    pub(super) in_file: Option<u64>,
    pub(super) is_leaf: bool,
    /// Time of the sample, ns.
    pub(super) time_ns: u64,
}

/// What a native frame turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManagedName {
    /// No function of the runtime: it is shown as what it is.
    Native,
    /// The functions that were asked for, innermost first: those of the frame, and those inlined into it.
    Functions,
    /// A function that cannot be told.
    Unread,
}
