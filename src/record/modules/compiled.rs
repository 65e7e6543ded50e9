//! A table that was compiled on another thread, and which is wanted.

use crate::record::modules::file::FileId;
use crate::unwind::{FirstTable, TableError};
use serde::{Deserialize, Serialize};

/// Extent of the tables that are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wanted {
    /// The part that there is soon; code without entries may be left to user space.
    First,
    /// The whole table.
    Whole,
}

/// Outcome of compiling the table of a file.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) id: FileId,
    pub(crate) lane: Lane,
    /// `None` if the file has hardly any entries of its own and its separate debug file may have them.
    pub(crate) table: Option<Result<FirstTable, NoTable>>,
}

/// Why a file has no table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NoTable {
    /// Words that follow the path of the file.
    pub(crate) why: String,
    /// Whether it may have entries that are not known: to follow frame pointers would skip callers.
    pub(crate) may_have_entries: bool,
}

impl NoTable {
    /// A file that was not read to its end.
    pub(crate) fn unread(why: impl Into<String>) -> Self {
        NoTable { why: why.into(), may_have_entries: true }
    }
}

impl From<TableError> for NoTable {
    fn from(error: TableError) -> Self {
        let may_have_entries = matches!(error, TableError::TooLarge { .. } | TableError::NoMemory(_));
        NoTable { why: error.to_string(), may_have_entries }
    }
}

/// Who compiles a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Small files, which must not wait for large ones: all the samples of a brief program would.
    Small,
    /// Large files, one at a time, since one keeps all cores busy.
    Large,
    /// Files with much code without entries, whose instructions are followed once all others have their tables.
    Following,
    /// Files that may take for ever to read.
    Slow,
    /// Tables made from known patterns of generated code.
    Known,
}
