//! The jitdump that a process writes.

use crate::record::modules::FileId;

/// The dump that names a process's generated code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DumpOf {
    pub(crate) file: FileId,
    /// Time of the fork of a forked child, ns, because it has its parent's code as of then; `u64::MAX` for the
    /// writer itself.
    pub(crate) until_ns: u64,
}
