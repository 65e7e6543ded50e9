//! What the values of a comparison are divided by.

/// Divisor of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Per {
    /// Per run, undivided: each run did the same work.
    Run,
    /// Per second of a run's length.
    Second,
    /// Share of all samples of a run.
    Share,
    /// Per unit of work: the work of each run of the base and of the new side, in a unit of the user's choice.
    Work([f64; 2]),
}
