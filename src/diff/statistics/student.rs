//! Student's t distribution.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Largest number of degrees of freedom; more make no visible difference.
pub(crate) const MOST_FREEDOM: f64 = 1e6;

/// Confidence level of intervals.
const CONFIDENCE: f64 = 0.95;

/// Probability of a value greater than `t`.
pub(crate) fn tail(t: f64, freedom: f64) -> f64 {
    distribution(freedom).map_or(1.0, |student| student.sf(t))
}

/// The value that is exceeded with probability `1 - probability`.
pub(crate) fn quantile(probability: f64, freedom: f64) -> f64 {
    distribution(freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(probability))
}

/// Half the width of a 95 % confidence interval, in standard errors.
pub(crate) fn half_width(freedom: f64) -> f64 {
    quantile((1.0 + CONFIDENCE) / 2.0, freedom)
}

/// The 95 % confidence interval of a mean with this standard error over this many runs; just the value for one run.
pub(crate) fn mean_interval(value: f64, error: f64, runs: usize) -> [f64; 2] {
    let half = if runs > 1 && error > 0.0 { error * half_width(runs as f64 - 1.0) } else { 0.0 };
    [value - half, value + half]
}

fn distribution(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom.clamp(1.0, MOST_FREEDOM)).ok()
}
