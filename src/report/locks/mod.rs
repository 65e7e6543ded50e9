//! Waits for locks: which lock, who waited, and who let go of it. The waits are those of waiting time with a futex; which of
//! them are idle is decided in `waits`. Nothing is printed here.

pub(crate) mod kind;
pub(crate) mod lock_sheet;
pub(crate) mod lock_waits;
pub(crate) mod place;
pub(crate) mod releaser;
pub(crate) mod table;

use crate::report::grouping::Grouping;

/// Side of a wait to which its delay is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChargedTo {
    /// The one that waited.
    Waiter,
    /// The one that released the lock.
    Holder,
    /// The one that waited, but for goroutines, of which both sides are counted apart: there the one that released the lock. Tables by
    /// holder are made of these.
    EitherSide,
}

impl ChargedTo {
    /// The side by which waits are found whose table has such rows: both sides are in it, as far as they are known.
    pub(crate) fn of_table(by: Grouping) -> Self {
        if by == Grouping::Holder { ChargedTo::EitherSide } else { ChargedTo::Waiter }
    }
}
