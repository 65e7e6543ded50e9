//! A recording that can be looked at while it runs: the recorder sends updates (deltas) to the keeper, which has frames named
//! on a thread pool and puts the newest snapshot into a mailbox for what shows it. No thread waits for the next one, and a
//! snapshot that was not taken is replaced. Memory stays bounded: the past is merged, and rows without references are dropped.
//! How samples are taken and what a screen shows stay outside.

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
