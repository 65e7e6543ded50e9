//! What values are divided by: nothing (per run), the seconds, the sum of all samples, or the work of a run.

use super::per::Per;
use super::sums::run::{RunEvent, RunSums};

/// Recordings whose lengths differ by less than this part of the longest count as equally long.
const EQUAL_LENGTH: f64 = 0.02;

/// Quantity that is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measure {
    /// Divisor of the weights.
    pub(crate) per: Per,
    /// Event of the weights.
    pub(crate) event: RunEvent,
}

impl Measure {
    /// The divisor of the values of `run`, on the base (0) or the new side (1).
    pub(crate) fn divisor(&self, side: usize, run: &RunSums) -> f64 {
        match self.per {
            Per::Run => 1.0,
            Per::Second => (run.facts.duration_ns as f64 / 1e9).max(1e-9),
            Per::Share => run.whole.max(1.0),
            Per::Work(counts) => counts[side],
        }
    }
}

/// The default: per run if all recordings are of commands that ended by themselves, or are equally long, or if it is memory,
/// which does not grow with their length; else per second.
pub(crate) fn default_per(sides: &[Vec<RunSums>; 2]) -> Per {
    let runs = || sides.iter().flatten();
    if runs().any(|run| run.event.is_memory()) {
        return Per::Run;
    }
    let is_whole = runs().all(|run| run.facts.is_whole_command);
    let lengths = || runs().map(|run| run.facts.duration_ns as f64);
    let [least, most] = [lengths().fold(f64::INFINITY, f64::min), lengths().fold(0.0, f64::max)];
    if is_whole || most - least <= EQUAL_LENGTH * most { Per::Run } else { Per::Second }
}
