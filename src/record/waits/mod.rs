//! Turns waits from the kernel into rows of the profile: why a thread waited, who ended it, and what is known of a wait
//! before it is over. Stacks are resolved by `collect`; which waits are idle is decided by `report`.

pub(crate) mod cut;
pub(crate) mod kernel_facts;
pub(crate) mod living;
mod locks;
pub(crate) mod ongoing;
mod open;
pub(crate) mod reason;
pub(crate) mod rows;
pub(crate) mod state;
pub(crate) mod unmatched;
