//! What the values of a comparison are divided by.

/// What the values are divided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Per {
    /// Nothing: each run did the same work.
    Run,
    /// The seconds that a run lasted.
    Second,
    /// The sum of all samples of a run.
    Share,
    /// The work that each run of the base and of the new side did, in whatever the user counts.
    Work([f64; 2]),
}
