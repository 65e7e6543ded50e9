//! A row of call frame information as it was evaluated.

use gimli::{Register, RegisterRule, UnwindContextStorage, UnwindTableRow};

/// A row under evaluation.
pub(crate) type CfiRow = UnwindTableRow<usize, SmallRows>;

/// Storage of one row under evaluation. gimli's own has room for 192 registers, and is copied for every
/// FDE; x86-64's entries name 17 at most. An entry that needs more is an error of that entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SmallRows;

impl UnwindContextStorage<usize> for SmallRows {
    type Rules = [(Register, RegisterRule<usize>); 32];
    type Stack = [UnwindTableRow<usize, Self>; 6];
}
