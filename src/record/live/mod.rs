//! A recording that can be looked at while it runs.
//!
//! ```text
//! rings ─► recorder ─ delta ─► keeper ─ newest snapshot ─► mailbox ─► what shows it
//!                               │ ▲
//!                         frames│ │names
//!                               ▼ │
//!                            thread pool
//! ```
//!
//! No thread waits for the next one: the recorder only hands over what is new, names are looked up on other threads, and a
//! snapshot that was not taken is replaced by the next one. Memory stays bounded: the past is merged, rows that nothing
//! refers to any more are dropped.

mod archive;
pub(crate) mod control;
mod delta;
pub(crate) mod events;
pub(crate) mod handle;
mod keeper;
pub(crate) mod message;
pub(crate) mod names_for;
mod recorder;
mod save;
pub(crate) mod simulation;

#[cfg(test)]
mod tests;

pub(crate) use events::Saved;
pub use events::{Ended, LiveEvent, Snapshot};
pub use handle::Live;
pub use simulation::{Simulation, own_memory_kb};
