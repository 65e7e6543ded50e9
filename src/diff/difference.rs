//! A value on both sides: the difference, its significance, and its outcome.

use super::statistics::contrast::Contrast;
use super::statistics::estimate::Estimate;
use super::statistics::holm::holm;

/// Accepted probability of a false alarm, for all tests of a family together.
pub(crate) const ALPHA: f64 = 0.05;

/// Values with at least this share of either side are tested.
pub(crate) const TESTED_SHARE: f64 = 0.01;

/// Outcome of a comparison of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum DiffOutcome {
    /// The value grew or shrank, and not by chance.
    Changed,
    /// The value was absent in the base.
    New,
    /// The value is absent in the new side.
    Gone,
    /// Chance explains the difference.
    Noise,
    /// The value was too small to be tested, or its spread is unknown.
    Untested,
}

impl DiffOutcome {
    /// Whether the difference is more than chance.
    pub(crate) fn is_real(self) -> bool {
        matches!(self, DiffOutcome::Changed | DiffOutcome::New | DiffOutcome::Gone)
    }

    /// Name of the outcome in documents.
    pub(crate) fn key(self) -> &'static str {
        match self {
            DiffOutcome::Changed => "changed",
            DiffOutcome::New => "new",
            DiffOutcome::Gone => "gone",
            DiffOutcome::Noise => "noise",
            DiffOutcome::Untested => "untested",
        }
    }
}

/// A value on one side.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Observed {
    /// Mean over the runs, in the unit that the comparison divides by.
    pub(crate) mean: f64,
    /// Estimate with its variance; `None` if the spread is unknown.
    pub(crate) estimate: Option<Estimate>,
}

/// A value on both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Difference {
    /// Mean of the base.
    pub(crate) base: f64,
    /// Mean of the new side.
    pub(crate) new: f64,
    /// Ratio of both values with its error, if their spread is known.
    pub(crate) contrast: Option<Contrast>,
    /// Probability of such a difference by chance, adjusted for all tests of the family.
    pub(crate) p_adjusted: Option<f64>,
    /// Probability of such an increase by chance, adjusted likewise.
    pub(crate) p_of_increase: Option<f64>,
    /// The smallest ratio above 1 that would have been detected.
    pub(crate) least_found: Option<f64>,
    /// Design effect of both sides: variance relative to that of independent samples.
    pub(crate) design: [Option<f64>; 2],
    /// Outcome of the test.
    pub(crate) outcome: DiffOutcome,
}

impl Difference {
    /// A difference that has not been tested yet.
    pub(crate) fn new([base, new]: [Observed; 2]) -> Self {
        let estimates = base.estimate.as_ref().zip(new.estimate.as_ref());
        Difference {
            base: base.mean,
            new: new.mean,
            contrast: estimates.map(|(base, new)| Contrast::of(base, new)),
            p_adjusted: None,
            p_of_increase: None,
            least_found: None,
            design: [base, new].map(|side| side.estimate.and_then(|estimate| estimate.design)),
            outcome: DiffOutcome::Untested,
        }
    }

    /// The new value minus the base.
    pub(crate) fn delta(&self) -> f64 {
        self.new - self.base
    }

    /// The new value divided by the base; `None` where one of them is 0.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let has_both = self.base > 0.0 && self.new > 0.0;
        has_both.then(|| self.contrast.map_or(self.new / self.base, |contrast| contrast.ratio()))
    }

    /// Whether it was large enough to be tested, and its spread is known.
    pub(crate) fn is_tested(&self) -> bool {
        self.outcome != DiffOutcome::Untested
    }

    /// Place in a list, the largest first: whether the difference is more than chance, and its size.
    pub(crate) fn rank(&self) -> (bool, f64) {
        (self.outcome.is_real(), self.delta().abs())
    }

    /// Whether the value grew by at least `least`, a part of the base, and not by chance.
    pub(crate) fn has_grown(&self, least: f64) -> bool {
        let ratio = self.contrast.map_or(1.0, |contrast| contrast.ratio());
        self.p_of_increase.is_some_and(|p| p < ALPHA) && ratio >= 1.0 + least
    }

    fn settle(&mut self, p_adjusted: f64, p_of_increase: f64, tests: usize) {
        let Some(contrast) = self.contrast else { return };
        self.p_adjusted = Some(p_adjusted);
        self.p_of_increase = Some(p_of_increase);
        self.least_found = Some(contrast.least_found(ALPHA / tests.max(1) as f64));
        self.outcome = match (p_adjusted < ALPHA, self.base > 0.0, self.new > 0.0) {
            (false, ..) => DiffOutcome::Noise,
            (_, false, _) => DiffOutcome::New,
            (_, _, false) => DiffOutcome::Gone,
            _ => DiffOutcome::Changed,
        };
    }
}

/// The costs by which a change of `costs`, in the base and on the new side, is named and coloured. In those of waits that were
/// tested the longest are cut: one of ten seconds among thousands of a millisecond would be all of the change.
pub(crate) fn costs_to_name([base, new]: [f64; 2], tested: Option<&Difference>) -> [f64; 2] {
    let ratio = tested.filter(|tested| tested.is_tested()).and_then(Difference::ratio);
    [base, ratio.map_or(new, |ratio| base * ratio)]
}

/// Tests `family` together; members without a known spread are left untested. Returns the number of tests.
pub(crate) fn test_together(family: &mut [&mut Difference]) -> usize {
    let mut tested: Vec<(&mut Difference, Contrast)> =
        family.iter_mut().filter_map(|one| one.contrast.map(|contrast| (&mut **one, contrast))).collect();
    let p: Vec<f64> = tested.iter().map(|(_, contrast)| contrast.p()).collect();
    let increases: Vec<f64> = tested.iter().map(|(_, contrast)| contrast.p_of_increase()).collect();
    let tests = tested.len();
    for (((one, _), p), increase) in tested.iter_mut().zip(holm(&p)).zip(holm(&increases)) {
        one.settle(p, increase, tests);
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(mean: f64, variance: f64) -> Observed {
        let log = mean.max(1e-3).ln();
        Observed { mean, estimate: Some(Estimate { log, variance, freedom: 9.0, design: None }) }
    }

    #[test]
    fn what_is_more_than_chance_is_named() {
        let mut differences = [(1.0, 1.2), (1.0, 1.001), (0.0, 1.0), (1.0, 0.0), (1.0, 0.8)]
            .map(|(base, new)| Difference::new([observed(base, 1e-4), observed(new, 1e-4)]));
        let mut family: Vec<&mut Difference> = differences.iter_mut().collect();
        assert_eq!(test_together(&mut family), 5);
        let outcomes = differences.map(|one| one.outcome);
        assert_eq!(
            outcomes,
            [
                DiffOutcome::Changed,
                DiffOutcome::Noise,
                DiffOutcome::New,
                DiffOutcome::Gone,
                DiffOutcome::Changed
            ]
        );
        assert_eq!(differences.map(|one| one.has_grown(0.05)), [true, false, true, false, false]);
        assert!(!differences[0].has_grown(0.25), "it grew by a fifth");
        assert_eq!(differences[2].ratio(), None);
    }

    #[test]
    fn without_a_spread_nothing_is_tested() {
        let mut difference = Difference::new([Observed { mean: 1.0, estimate: None }, observed(2.0, 0.1)]);
        assert_eq!(test_together(&mut [&mut difference]), 0);
        assert_eq!((difference.outcome, difference.ratio()), (DiffOutcome::Untested, Some(2.0)));
        assert!(!difference.has_grown(0.0));
    }
}
