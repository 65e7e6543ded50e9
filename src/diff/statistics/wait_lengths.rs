//! Histogram of the lengths of a row's waits, used to cut very long waits that would dominate the sum.

use std::collections::BTreeMap;

/// Buckets per factor of two in length; a bucket is 4.4 % wide.
const PER_OCTAVE: f64 = 16.0;

/// Part of a row's waits that are kept as they are: the longest one in a thousand are cut to the length of the longest
/// of the others.
const KEPT: f64 = 0.999;

/// Histogram of waits by length.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct WaitLengths {
    /// Number and total time of the waits, by bucket.
    buckets: BTreeMap<u16, [f64; 2]>,
}

/// Longest length that is not cut, as a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LengthCap(u16);

impl WaitLengths {
    /// Adds waits with this length, ns: their number and their total time, both possibly weighted.
    pub(crate) fn add(&mut self, length_ns: u64, count: f64, time: f64) {
        let bucket = if length_ns == 0 { 0.0 } else { (length_ns as f64).log2() * PER_OCTAVE };
        self.add_to(bucket as u16, [count, time]);
    }

    /// Adds the waits of `other`.
    pub(crate) fn merge(&mut self, other: &WaitLengths) {
        for (bucket, amounts) in &other.buckets {
            self.add_to(*bucket, *amounts);
        }
    }

    fn add_to(&mut self, bucket: u16, [count, time]: [f64; 2]) {
        let sums = self.buckets.entry(bucket).or_default();
        sums[0] += count;
        sums[1] += time;
    }

    /// The length that 999 of 1,000 waits do not exceed; `None` if that is the longest length.
    pub(crate) fn cap(&self) -> Option<LengthCap> {
        let all: f64 = self.buckets.values().map(|[count, _]| count).sum();
        let mut seen = 0.0;
        let mut buckets = self.buckets.iter();
        let at = buckets.find(|(_, [count, _])| {
            seen += count;
            seen >= all * KEPT
        })?;
        buckets.next().map(|_| LengthCap(*at.0))
    }

    /// The time that is removed when waits are cut to `cap`.
    pub(crate) fn excess(&self, cap: LengthCap) -> f64 {
        let longer = self.buckets.range(cap.0.saturating_add(1)..);
        let part = |bucket: u16| 1.0 - ((f64::from(cap.0) - f64::from(bucket)) / PER_OCTAVE).exp2();
        longer.map(|(bucket, [_, time])| time * part(*bucket)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_thousand_counts_as_the_longest_of_the_others() {
        let mut lengths = WaitLengths::default();
        (0..1_999).for_each(|_| lengths.add(1 << 20, 1.0, f64::from(1 << 20)));
        lengths.add(1 << 30, 1.0, f64::from(1 << 30));
        let cap = lengths.cap().unwrap();
        let wanted = f64::from((1 << 30) - (1 << 20));
        assert!((lengths.excess(cap) - wanted).abs() < 1e-6 * wanted, "{}", lengths.excess(cap));
    }

    #[test]
    fn few_waits_stay_as_they_are() {
        let mut lengths = WaitLengths::default();
        assert_eq!(lengths.cap(), None);
        (0..900).for_each(|_| lengths.add(1_000, 1.0, 1_000.0));
        lengths.add(u64::MAX, 1.0, u64::MAX as f64);
        assert_eq!(lengths.cap(), None);
        lengths.add(0, 1.0, 0.0);
        let mut twice = lengths.clone();
        twice.merge(&lengths);
        assert_eq!(twice.cap(), None);
    }
}
