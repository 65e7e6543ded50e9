//! A weight, the samples it comes from, and how far chance could have moved it.

use crate::base::units::{percent, share_error_points};
use crate::profile::{Merged, Sample};

/// The 97.5 % point of the normal distribution: an interval of this many standard deviations on both sides holds 95 %.
const DEVIATIONS: f64 = 1.96;

/// Thousandths in a whole.
const THOUSAND: u64 = 1000;

/// A weight and the samples it comes from. Sums stop at the largest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Amount {
    /// In the event's unit.
    pub(crate) weight: u64,
    /// Number of samples that are in the recording.
    pub(crate) samples: u64,
    /// Thousandths of the number of samples or waits that these are weighted as: a wait that was kept with a chance of one in
    /// three is weighted as three.
    pub(crate) count_thousandths: u64,
    /// Variance of the weight by the rule that chose the samples, in square microseconds.
    pub(crate) variance_us2: u64,
}

impl Amount {
    /// One sample that was not chosen by its length.
    pub(crate) fn sample(weight: u64) -> Self {
        Self::of_merged(weight, Merged::of_one(weight, None))
    }

    fn of_merged(weight: u64, merged: Merged) -> Self {
        let Merged { samples, count_thousandths, variance_us2, .. } = merged;
        Amount { weight, samples, count_thousandths, variance_us2 }
    }

    /// One wait of `duration_ns` that is weighted as `weight`, of which the part `overlap_ns` is of interest.
    pub(crate) fn wait(weight: u64, duration_ns: u64, overlap_ns: u64) -> Self {
        if weight <= duration_ns && overlap_ns == duration_ns {
            return Amount { weight, samples: 1, count_thousandths: THOUSAND, variance_us2: 0 };
        }
        let stands_for = |part: u64| {
            let scaled = u128::from(weight) * u128::from(part) / u128::from(duration_ns.max(1));
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        let part = if duration_ns == 0 { weight } else { stands_for(overlap_ns) };
        let thinned_us = part.saturating_sub(overlap_ns) / THOUSAND;
        Amount {
            weight: part,
            samples: 1,
            count_thousandths: stands_for(THOUSAND).max(THOUSAND),
            variance_us2: (part / THOUSAND).saturating_mul(thinned_us),
        }
    }

    /// A sample, whole: one observation or several.
    pub(crate) fn of_sample(sample: &Sample) -> Self {
        Self::of_merged(sample.weight, sample.statistics())
    }

    /// The part of it that lies in `overlap_ns` of the `span_ns` in which all of it lies, spread evenly.
    pub(crate) fn part(self, overlap_ns: u64, span_ns: u64) -> Self {
        if overlap_ns >= span_ns {
            return self;
        }
        let part = |all: u64| {
            // At most `all`: the overlap is a part of the span.
            (u128::from(all) * u128::from(overlap_ns)).div_ceil(u128::from(span_ns)) as u64
        };
        Amount {
            weight: part(self.weight),
            samples: part(self.samples),
            count_thousandths: part(self.count_thousandths),
            variance_us2: part(self.variance_us2),
        }
    }

    /// Waits that were only counted and added up.
    pub(crate) fn counted(weight: u64, count: u64) -> Self {
        Amount { weight, samples: 0, count_thousandths: count.saturating_mul(THOUSAND), variance_us2: 0 }
    }

    /// Returns the number of samples or waits that it is weighted as.
    pub(crate) fn count(&self) -> u64 {
        self.count_thousandths / THOUSAND + u64::from(self.count_thousandths % THOUSAND >= THOUSAND / 2)
    }

    /// Whether nothing was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.count_thousandths == 0
    }

    /// Half the width of the 95 % interval around the weight, ns.
    pub(crate) fn error_ns(&self) -> u64 {
        (DEVIATIONS * (self.variance_us2 as f64).sqrt() * THOUSAND as f64) as u64
    }

    /// Half the width of the 95 % interval around the share that it has of `whole`, in percentage points. Samples
    /// and waits are chosen by different rules.
    pub(crate) fn share_error_points(&self, whole: Amount, has_waits: bool) -> f64 {
        let share = percent(self.weight, whole.weight);
        if has_waits {
            percent(self.error_ns(), whole.weight)
        } else {
            share_error_points(share, whole.samples)
        }
    }

    /// Returns the amount of `count` times as much.
    pub(crate) fn times(self, count: u32) -> Self {
        let times = |all: u64| all.saturating_mul(u64::from(count));
        Amount {
            weight: times(self.weight),
            samples: times(self.samples),
            count_thousandths: times(self.count_thousandths),
            variance_us2: times(self.variance_us2),
        }
    }

    /// Adds another amount.
    pub(crate) fn add(&mut self, other: Amount) {
        self.weight = self.weight.saturating_add(other.weight);
        self.samples = self.samples.saturating_add(other.samples);
        self.count_thousandths = self.count_thousandths.saturating_add(other.count_thousandths);
        self.variance_us2 = self.variance_us2.saturating_add(other.variance_us2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Wait;

    #[test]
    fn a_thinned_wait_stands_for_several() {
        let wait = Amount::wait(3_000_000, 1_000_000, 1_000_000);
        assert_eq!((wait.weight, wait.samples, wait.count()), (3_000_000, 1, 3));
        // w (w - d) = 3 ms * 2 ms
        assert_eq!(wait.variance_us2, 3_000 * 2_000);
        let kept = Amount::wait(1_000_000, 1_000_000, 1_000_000);
        assert_eq!((kept.count(), kept.error_ns()), (1, 0));
    }

    #[test]
    fn a_part_of_a_wait_counts_as_a_wait() {
        let part = Amount::wait(4_000_000, 2_000_000, 500_000);
        assert_eq!((part.weight, part.count()), (1_000_000, 2));
        assert_eq!(Amount::wait(0, 0, 0).count(), 1);
        assert_eq!(Amount::wait(7, 0, 0).weight, 7);
    }

    #[test]
    fn what_one_sample_comes_to_is_what_folding_adds_up() {
        let weights = [0, 1, 999, 1_000, 1_001_001, 3_000_000_000, u64::MAX];
        for weight in weights {
            let sample = Sample { weight, ..Sample::default() };
            assert_eq!(Amount::of_sample(&sample), Amount::sample(weight));
            for duration_ns in weights {
                let wait = Some(Wait { duration_ns, ..Wait::default() });
                let sample = Sample { weight, wait, ..Sample::default() };
                let whole = Amount::wait(weight, duration_ns, duration_ns);
                assert_eq!(Amount::of_sample(&sample), whole, "{weight} of {duration_ns}");
            }
        }
    }

    #[test]
    fn parts_of_a_span_add_up_to_the_whole() {
        let whole = Amount { weight: 10_000, samples: 10, count_thousandths: 10_000, variance_us2: 500 };
        let half = whole.part(500, 1_000);
        assert_eq!((half.weight, half.samples, half.count()), (5_000, 5, 5));
        assert_eq!(whole.part(1_000, 1_000), whole);
        assert_eq!(whole.part(0, 0), whole);
    }

    #[test]
    fn times_is_what_adding_as_often_comes_to() {
        for weight in [0, 1_001_001, u64::MAX / 2] {
            let one = Amount::sample(weight);
            let mut sum = Amount::default();
            (0..3).for_each(|_| sum.add(one));
            assert_eq!(one.times(3), sum);
        }
    }

    #[test]
    fn sums_stop_at_the_largest_number() {
        let mut sum = Amount::wait(u64::MAX, 1, 1);
        sum.add(Amount::wait(u64::MAX, 1, 1));
        sum.add(Amount::sample(u64::MAX));
        assert_eq!(sum.weight, u64::MAX);
        assert!(sum.error_ns() > 0 && sum.count() > 0);
    }
}
