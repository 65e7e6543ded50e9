//! Statistics of a comparison: pure functions of numbers, independent of profiles.
//!
//! The unit of observation is the run. Two sides are compared by Welch's t-test on logarithms, and many rows with
//! Holm's correction; if a side has one recording, its spread is estimated from slices of it. docs/ci.md explains this
//! in plain words.

pub(crate) mod contrast;
pub(crate) mod estimate;
pub(crate) mod holm;
pub(crate) mod slices;
pub(crate) mod student;
pub(crate) mod wait_lengths;
