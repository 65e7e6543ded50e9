//! Student's t distribution.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// More degrees of freedom make no difference that could be printed.
pub(crate) const MOST_FREEDOM: f64 = 1e6;

/// How sure intervals are.
const CONFIDENCE: f64 = 0.95;

/// The probability of more than `t`.
pub(crate) fn tail(t: f64, freedom: f64) -> f64 {
    distribution(freedom).map_or(1.0, |student| student.sf(t))
}

/// What is exceeded with a probability of `1 - probability`.
pub(crate) fn quantile(probability: f64, freedom: f64) -> f64 {
    distribution(freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(probability))
}

/// Half the width of a 95 % interval, in standard errors.
pub(crate) fn half_width(freedom: f64) -> f64 {
    quantile((1.0 + CONFIDENCE) / 2.0, freedom)
}

/// The 95 % interval around a value with this standard error from so many runs; the value itself where there is one.
pub(crate) fn mean_interval(value: f64, error: f64, runs: usize) -> [f64; 2] {
    let half = if runs > 1 && error > 0.0 { error * half_width(runs as f64 - 1.0) } else { 0.0 };
    [value - half, value + half]
}

fn distribution(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom.clamp(1.0, MOST_FREEDOM)).ok()
}
