//! One value on both sides: the difference, how sure it is, and what is to be said of it.

use super::statistics::contrast::Contrast;
use super::statistics::estimate::Estimate;
use super::statistics::holm::holm;

/// Chance of a false alarm that is accepted, for all tests of a family together.
pub(crate) const ALPHA: f64 = 0.05;

/// What a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum DiffOutcome {
    /// More or less than before, and not by chance.
    Changed,
    /// It was not there before.
    New,
    /// It is not there any more.
    Gone,
    /// Chance explains it.
    Noise,
    /// Too small to be tested, or nothing is known of its spread.
    Untested,
}

impl DiffOutcome {
    /// Whether it is more than chance.
    pub(crate) fn is_real(self) -> bool {
        matches!(self, DiffOutcome::Changed | DiffOutcome::New | DiffOutcome::Gone)
    }

    /// The word for it in documents.
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

/// A value of one side.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Observed {
    /// Mean over the runs, per what the comparison is per.
    pub(crate) mean: f64,
    /// How well it is known.
    pub(crate) estimate: Option<Estimate>,
}

/// A value on both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Difference {
    /// Mean of the base.
    pub(crate) base: f64,
    /// Mean of the new side.
    pub(crate) new: f64,
    /// The ratio of both, where their spread is known.
    pub(crate) contrast: Option<Contrast>,
    /// Probability that chance makes such a difference, among all tests of its family.
    pub(crate) p_adjusted: Option<f64>,
    /// The same of an increase.
    pub(crate) p_of_increase: Option<f64>,
    /// The smallest ratio above 1 that would have been found.
    pub(crate) least_found: Option<f64>,
    /// How much larger the variance is than that of independent samples, of both sides.
    pub(crate) design: [Option<f64>; 2],
    /// What it is.
    pub(crate) outcome: DiffOutcome,
}

impl Difference {
    /// A difference that belongs to no family of tests yet.
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

    /// The new value over the base; `None` where one of them is nothing.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let has_both = self.base > 0.0 && self.new > 0.0;
        has_both.then(|| self.contrast.map_or(self.new / self.base, |contrast| contrast.ratio()))
    }

    /// Whether it grew by `least`, a part of the base, or more, and not by chance.
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

/// Tests `family` together; those of which nothing is known but their values stay as they are. Returns how many were tested.
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
