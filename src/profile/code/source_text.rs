//! Lines of a source file that are kept in the recording.

use crate::profile::rows::StringId;

/// Consecutive lines of a source file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SourceText {
    /// Path as the compiler recorded it.
    pub(crate) file: StringId,
    /// Number of the first line, from 1.
    pub(crate) first_line: u32,
    /// The lines, with a newline between them. Foreign text.
    pub(crate) text: String,
}
