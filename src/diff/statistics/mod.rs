//! The statistics of a comparison: pure functions of numbers, which know nothing of profiles.
//!
//! The unit is the run. Two sides are compared by Welch's t-test on logarithms, many rows by Holm's correction; where a side
//! has one recording, its spread comes from slices of it. docs/ci.md explains it in plain words.

pub(crate) mod contrast;
pub(crate) mod estimate;
pub(crate) mod holm;
pub(crate) mod slices;
pub(crate) mod student;
pub(crate) mod wait_lengths;
