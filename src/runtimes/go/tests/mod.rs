//! Tests on synthetic memory: a small Go program built of the same offsets that the code reads, and damaged ones.

mod contention;
mod heap;
mod snapshots;
pub(super) mod synthetic;
pub(super) mod synthetic_program;
