//! Waits: how long, why, where, and who ended them.

mod chains;
mod held_up;
mod in_rust;
mod locks;
mod places;
mod reasons;
pub(crate) mod recorded;
mod refused;
mod targets;
mod under_load;
