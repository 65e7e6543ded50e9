//! What values are per: a run, a second, all of a run, or the work that it did.

use super::per::Per;
use super::run::{RunEvent, RunSums};

/// Recordings whose lengths differ by less than this part of the longest are of equal length.
const EQUAL_LENGTH: f64 = 0.02;

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measure {
    /// What values are per.
    pub(crate) per: Per,
    /// What the weights are.
    pub(crate) event: RunEvent,
}

impl Measure {
    /// What the values of `run`, of the base (0) or the new side (1), are divided by.
    pub(crate) fn divisor(&self, side: usize, run: &RunSums) -> f64 {
        match self.per {
            Per::Run => 1.0,
            Per::Second => (run.facts.duration_ns as f64 / 1e9).max(1e-9),
            Per::Share => run.whole.max(1.0),
            Per::Work(counts) => counts[side],
        }
    }
}

/// What values are per where nothing else is asked for: a run, if all are of commands that ended by themselves, or of equal
/// length; else a second.
pub(crate) fn default_per(sides: &[Vec<RunSums>; 2]) -> Per {
    let runs = || sides.iter().flatten();
    let is_whole = runs().all(|run| run.facts.is_whole_command);
    let lengths = || runs().map(|run| run.facts.duration_ns as f64);
    let [least, most] = [lengths().fold(f64::INFINITY, f64::min), lengths().fold(0.0, f64::max)];
    if is_whole || most - least <= EQUAL_LENGTH * most { Per::Run } else { Per::Second }
}
