//! What the samples of a run are added to.

use crate::diff::statistics::wait_lengths::WaitLengths;
use crate::report::{Group, Step};

/// Row of samples that are in no row.
pub(super) const NO_ROW: u32 = u32::MAX;

/// Rows of a run, which know in which of them samples are.
pub(super) trait Rows {
    /// Begins a path: the groups that are added until the next one have it.
    fn begin_path(&mut self);

    /// Adds a group with this path to its rows.
    fn add(&mut self, path: &[Step], group: &Group, lengths: Option<&WaitLengths>);

    /// The rows of the group that was added last, each once, and the row that it ends in or [`NO_ROW`].
    fn rows_of_last(&self) -> (&[u32], u32);
}
