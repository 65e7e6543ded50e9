//! Waits for locks: which lock, who waited, and who let go of it. The waits are those of waiting time with a futex; which of
//! them are idle is decided in `waits`. Nothing is printed here.

pub(crate) mod kind;
pub(crate) mod lock_sheet;
pub(crate) mod lock_waits;
pub(crate) mod place;
pub(crate) mod releaser;
pub(crate) mod table;

/// Side of a wait to which its delay is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChargedTo {
    /// The one that waited.
    Waiter,
    /// The one that released the lock.
    Holder,
}
