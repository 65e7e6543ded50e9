//! How many rows of a table the file has, and the ids that rows of the profile have in it.

use super::bounds::{MAX_ID, MAX_ROWS};
use super::error::WriteError;
use crate::profile::event::Sample;
use crate::profile::rows::{StackId, TaskId};
use crate::profile::wait::{Wait, Waker};

/// A table of the file. The profile may have begun again with its rows: those of before are in the file only.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WrittenRows {
    /// Rows of before.
    pub(super) before: usize,
    /// Rows of the profile as it is that are in the file.
    pub(super) written: usize,
}

impl WrittenRows {
    /// The id in the file of the next row.
    pub(super) fn next_id(self) -> usize {
        self.before + self.written
    }

    /// The id in the file of a row of the profile.
    pub(super) fn id(self, row: u32) -> u32 {
        row.saturating_add(u32::try_from(self.before).unwrap_or(u32::MAX))
    }

    /// All rows are of before now, of which the profile keeps the first `kept`.
    pub(super) fn reset(&mut self, kept: usize) {
        *self = WrittenRows { before: self.next_id() - kept, written: kept };
    }
}

/// A sample with the ids of the file.
pub(super) fn with_ids(sample: Sample, tasks: WrittenRows, stacks: WrittenRows) -> Sample {
    let stack = |id: StackId| StackId(stacks.id(id.0));
    let task = |id: TaskId| TaskId(tasks.id(id.0));
    let wait = sample.wait.map(|wait| {
        let waker =
            Waker { task: wait.waker.task.map(task), stack: wait.waker.stack.map(stack), ..wait.waker };
        Wait { waker, ..wait }
    });
    Sample { task: task(sample.task), stack: sample.stack.map(stack), wait, ..sample }
}

/// The rows of the next chunk of a table of which `written` are in the file.
pub(super) fn next_rows<T>(rows: &[T], written: usize) -> Option<&[T]> {
    let new = rows.get(written..)?;
    (!new.is_empty()).then(|| &new[..new.len().min(MAX_ROWS)])
}

/// An error when a table has more rows than ids can name.
pub(super) fn check_id(what: &'static str, rows: usize) -> Result<(), WriteError> {
    let limit = u64::from(MAX_ID);
    let found = rows as u64;
    if found > limit { Err(WriteError::Limit { what, found, limit }) } else { Ok(()) }
}
