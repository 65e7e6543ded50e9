//! Equal samples as one: what a recording that is watched for days keeps of its past.

use super::wait::Wait;

/// Thousandths in a whole.
const THOUSAND: u64 = 1000;

/// Statistics of observations merged into one sample, besides their weight.
///
/// Sums over any set of samples are the same before and after: the number of samples, their weight, and the
/// variance of their weight. Of waits `Wait::duration_ns` is the mean length then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Merged {
    /// Number of observations: one at least.
    pub samples: u64,
    /// Thousandths of the number of observations that they are weighted as: a wait that was kept with a chance of one in
    /// three is weighted as three.
    pub count_thousandths: u64,
    /// Variance of the weight by the rule that chose them, in square microseconds.
    pub variance_us2: u64,
    /// Length of the bucket of time, from `Sample::time_ns` on, in which the observations lie, ns. Where in it is not known.
    pub span_ns: u64,
}

impl Merged {
    /// Statistics of one observation of `weight`. One that is no wait was not chosen by its length.
    pub(crate) fn of_one(weight: u64, wait: Option<&Wait>) -> Self {
        let weight_us = weight / THOUSAND;
        let one = Merged { samples: 1, count_thousandths: THOUSAND, ..Merged::default() };
        let Some(wait) = wait else {
            return Merged { variance_us2: weight_us.saturating_mul(weight_us), ..one };
        };
        let left_out_us = weight.saturating_sub(wait.duration_ns) / THOUSAND;
        let stands_for = u128::from(weight) * u128::from(THOUSAND) / u128::from(wait.duration_ns.max(1));
        Merged {
            count_thousandths: u64::try_from(stands_for).unwrap_or(u64::MAX).max(THOUSAND),
            variance_us2: weight_us.saturating_mul(left_out_us),
            ..one
        }
    }
}
