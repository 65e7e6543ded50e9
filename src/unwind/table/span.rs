//! A range of code with one rule, and why there may be none at all.

use crate::base::memory_budget::Refused;
use crate::elf::ElfError;
use crate::unwind::rule::Rule;

/// Gaps between functions up to this many bytes are alignment, never executed; they keep the rule of the
/// function before them, which halves the number of rows.
pub(crate) const MAX_PADDING: u64 = 15;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file could not be used.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// The file has no executable segment.
    #[error("the file has no code")]
    NoCode,
    /// There is no memory to compile it in.
    #[error(transparent)]
    NoMemory(#[from] Refused),
    /// The file asks for more than the limits allow.
    #[error("refused: {what} ({size}) are above the limit of {limit}")]
    TooLarge {
        /// Name of what is too large.
        what: &'static str,
        /// Number or size that the file has or claims, at least.
        size: u64,
        /// Number or size that is allowed.
        limit: u64,
    },
}

/// A range of addresses with one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) rule: Rule,
}
