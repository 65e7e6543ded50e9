//! Compares two estimates: Welch's t-test on logarithms, the confidence interval of the ratio, and the smallest
//! detectable change.

use super::estimate::Estimate;
use super::student::{MOST_FREEDOM, half_width, quantile, tail};

/// Probability with which the smallest detectable change is detected.
pub(crate) const POWER: f64 = 0.95;

/// Smaller logarithms may be rounding errors of sums.
const ROUNDING: f64 = 1e-9;

/// Logarithm of the ratio of the new side to the base, with its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Contrast {
    log_ratio: f64,
    /// Standard error of `log_ratio`.
    error: f64,
    /// Degrees of freedom (Welch and Satterthwaite).
    freedom: f64,
}

impl Contrast {
    /// The contrast of `new` to `base`.
    pub(crate) fn of(base: &Estimate, new: &Estimate) -> Self {
        let variance = base.variance + new.variance;
        let spread = |side: &Estimate| {
            if side.freedom > 0.0 { side.variance.powi(2) / side.freedom } else { f64::INFINITY }
        };
        let freedom = if variance > 0.0 {
            variance.powi(2) / (spread(base) + spread(new))
        } else {
            base.freedom + new.freedom
        };
        Contrast {
            log_ratio: new.log - base.log,
            error: variance.sqrt(),
            freedom: if freedom.is_finite() { freedom.clamp(1.0, MOST_FREEDOM) } else { MOST_FREEDOM },
        }
    }

    /// The ratio of the new side to the base.
    pub(crate) fn ratio(&self) -> f64 {
        self.log_ratio.exp()
    }

    /// Standard error of the logarithm of the ratio.
    pub(crate) fn error(&self) -> f64 {
        self.error
    }

    /// The 95 % confidence interval of the ratio.
    pub(crate) fn interval(&self) -> [f64; 2] {
        let half = half_width(self.freedom) * self.error;
        [(self.log_ratio - half).exp(), (self.log_ratio + half).exp()]
    }

    /// Probability of a difference of this size in either direction without a change.
    pub(crate) fn p(&self) -> f64 {
        (2.0 * self.tail(self.log_ratio.abs())).min(1.0)
    }

    /// Probability of an increase of this size without a change.
    pub(crate) fn p_of_increase(&self) -> f64 {
        self.tail(self.log_ratio)
    }

    /// The smallest ratio above 1 that a test for an increase at significance `alpha` detects with probability
    /// [`POWER`].
    pub(crate) fn least_found(&self, alpha: f64) -> f64 {
        (self.error * (quantile(1.0 - alpha, self.freedom) + quantile(POWER, self.freedom))).exp()
    }

    /// Probability of more than `log_ratio` without a change.
    fn tail(&self, log_ratio: f64) -> f64 {
        if self.error < ROUNDING {
            return if log_ratio > ROUNDING { 0.0 } else { 1.0 };
        }
        tail(log_ratio / self.error, self.freedom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, wanted: f64, tolerance: f64) {
        assert!((value - wanted).abs() <= tolerance * wanted.abs(), "{value} is not {wanted}");
    }

    fn contrast(log_ratio: f64, error: f64, freedom: f64) -> Contrast {
        Contrast { log_ratio, error, freedom }
    }

    /// Compares with the table of Student's distribution in textbooks: one-sided probabilities.
    #[test]
    fn quantiles_are_those_of_the_published_table() {
        for (freedom, probability, wanted) in [
            (1.0, 0.975, 12.706),
            (2.0, 0.95, 2.920),
            (5.0, 0.975, 2.571),
            (10.0, 0.995, 3.169),
            (18.0, 0.975, 2.101),
            (30.0, 0.9995, 3.646),
            (120.0, 0.975, 1.980),
            (1e6, 0.975, 1.960),
        ] {
            close(quantile(probability, freedom), wanted, 3e-4);
            close(contrast(wanted, 1.0, freedom).p_of_increase(), 1.0 - probability, 3e-3);
        }
    }

    /// Closed forms: for 2 degrees of freedom `p = 1/2 - t / (2 sqrt(2 + t²))`, and another one for 4.
    #[test]
    fn far_tails_are_those_of_the_formulas() {
        for t in [0.1_f64, 1.0, 3.0, 10.0, 1e3] {
            // Rearranged to avoid cancellation: 1/2 (1 - a) with a = t / sqrt(2 + t²), 1 - a = (1 - a²) / (1 + a).
            let a = t / (2.0 + t * t).sqrt();
            let wanted = 0.5 * (2.0 / (2.0 + t * t)) / (1.0 + a);
            close(contrast(t, 1.0, 2.0).p_of_increase(), wanted, 1e-9);
        }
        for t in [0.5_f64, 2.0, 8.0] {
            let s = t / (4.0 + t * t).sqrt();
            let wanted = 0.5 - 0.75 * (s - s.powi(3) / 3.0);
            close(contrast(t, 1.0, 4.0).p_of_increase(), wanted, 1e-8);
        }
        assert!(contrast(60.0, 1.0, 100.0).p() > 0.0);
    }

    /// A published example: samples A1 and B1 in Wikipedia's article on Welch's t-test give t = -2.46, 25.0 degrees of
    /// freedom and P = 0.021.
    #[test]
    fn welch_is_that_of_the_published_example() {
        let a = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4];
        let b = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4];
        // The values are the exponentials of these numbers.
        let side = |values: &[f64]| {
            let values: Vec<f64> = values.iter().map(|value: &f64| value.exp()).collect();
            Estimate::of_runs(&values, 0.0).unwrap()
        };
        let contrast = Contrast::of(&side(&a), &side(&b));
        close(contrast.log_ratio / contrast.error, 2.46, 2e-3);
        close(contrast.freedom, 25.0, 2e-3);
        close(contrast.p(), 0.021, 2e-2);
        close(contrast.p_of_increase(), contrast.p() / 2.0, 1e-12);
    }

    #[test]
    fn the_interval_holds_what_the_test_does_not_refuse() {
        let at_limit = contrast(2.101 * 0.03, 0.03, 18.0);
        close(at_limit.p(), 0.05, 2e-3);
        close(at_limit.interval()[0], 1.0, 1e-4);
        // 2.552 is the 99 % quantile and 1.734 the 95 % quantile for 18 degrees of freedom.
        close(contrast(0.0, 0.03, 18.0).least_found(0.01), (0.03_f64 * (2.552 + 1.734)).exp(), 1e-4);
    }

    #[test]
    fn without_any_spread_every_difference_is_real() {
        let sure = contrast(0.1, 0.0, 4.0);
        assert_eq!((sure.p(), sure.p_of_increase()), (0.0, 0.0));
        assert_eq!(sure.interval(), [0.1_f64.exp(); 2]);
        assert_eq!(contrast(0.0, 0.0, 4.0).p(), 1.0);
        assert_eq!(contrast(-0.1, 0.0, 4.0).p_of_increase(), 1.0);
    }
}
