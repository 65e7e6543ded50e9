//! Which jitdump a process writes.

use crate::record::modules::FileId;

/// The dump that names a process's generated code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DumpOf {
    pub(crate) file: FileId,
    /// A child that was forked has its parent's code as it was then, ns; `u64::MAX` for the writer itself.
    pub(crate) until_ns: u64,
}
