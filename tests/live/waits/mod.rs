//! Waits: how long, why, where, and who ended them.

mod held_up;
mod in_rust;
mod places;
mod reasons;
pub(crate) mod recorded;
mod refused;
mod targets;
mod under_load;
