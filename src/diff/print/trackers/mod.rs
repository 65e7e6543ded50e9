//! Documents for benchmark trackers: benchstat, Bencher, readers of Criterion's estimates. Values come from the comparison.

pub(super) mod bmf;
pub(super) mod criterion;
pub(super) mod gobench;
