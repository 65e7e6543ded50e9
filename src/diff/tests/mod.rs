//! Tests of whole comparisons.

pub(crate) mod fixture;
mod formats;
mod gate;
mod heap;
mod odd;
mod paths;
pub(super) mod random;
mod simulation;
mod waits;
