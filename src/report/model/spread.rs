//! Weights spread over buckets of equal length.

/// Weights spread over the buckets that an interval overlaps, in proportion. The cost does not depend on how many
/// buckets that is.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    bucket_ns: u64,
    /// Start of the first bucket, ns.
    origin_ns: u64,
    /// Time before which everything is left out, ns.
    from_ns: u64,
    /// Weights of the first and the last bucket of intervals.
    parts: Vec<u64>,
    /// Change of the weight of every bucket from here on, relative to the one before: the inner buckets of intervals.
    changes: Vec<i128>,
}

impl Spread {
    pub(crate) fn new(buckets: usize, bucket_ns: u64) -> Self {
        let bucket_ns = bucket_ns.max(1);
        let (parts, changes) = (vec![0; buckets], vec![0; buckets + 1]);
        Spread { bucket_ns, origin_ns: 0, from_ns: 0, parts, changes }
    }

    /// The same, where the first bucket begins at `origin_ns`, and what is before `from_ns` is left out.
    pub(crate) fn since(self, origin_ns: u64, from_ns: u64) -> Self {
        Spread { origin_ns, from_ns: from_ns.max(origin_ns), ..self }
    }

    /// Adds `weight` to the interval of `length_ns` that begins at `start_ns`. What is after the last bucket is left out.
    pub(crate) fn add(&mut self, start_ns: u64, length_ns: u64, weight: u64) {
        let before_ns = self.from_ns.saturating_sub(start_ns);
        if before_ns > 0 && before_ns >= length_ns {
            return;
        }
        let part = u128::from(weight) * u128::from(length_ns - before_ns.min(length_ns));
        let weight = if before_ns > 0 { (part / u128::from(length_ns)) as u64 } else { weight };
        self.add_whole(start_ns + before_ns - self.origin_ns, length_ns - before_ns, weight);
    }

    /// The same for an interval that begins in or after the first bucket, counted from there.
    fn add_whole(&mut self, start_ns: u64, length_ns: u64, weight: u64) {
        let first = start_ns / self.bucket_ns;
        // The last moment that belongs to it: one that ends at a border has nothing in the next bucket.
        let last = start_ns.saturating_add(length_ns.saturating_sub(1)) / self.bucket_ns;
        if first == last {
            self.add_part(first, weight);
            return;
        }
        let share = |part_ns: u64| {
            let part_ns = part_ns.min(length_ns);
            (u128::from(weight) * u128::from(part_ns) / u128::from(length_ns.max(1))) as u64
        };
        let border_ns = |bucket: u64| bucket.saturating_mul(self.bucket_ns);
        let end_ns = start_ns.saturating_add(length_ns);
        let (head, tail) = (share(border_ns(first + 1) - start_ns), share(end_ns - border_ns(last)));
        self.add_part(first, head);
        self.add_part(last, tail);
        let inner = first as usize + 1..(last as usize).min(self.parts.len());
        if inner.start < inner.end {
            let each = i128::from(share(self.bucket_ns));
            self.changes[inner.start] += each;
            self.changes[inner.end] -= each;
        }
    }

    fn add_part(&mut self, bucket: u64, weight: u64) {
        if let Some(part) = usize::try_from(bucket).ok().and_then(|bucket| self.parts.get_mut(bucket)) {
            *part = part.saturating_add(weight);
        }
    }

    /// Length of a bucket, ns.
    pub(crate) fn bucket_ns(&self) -> u64 {
        self.bucket_ns
    }

    /// Adds the weights of another one, of the same buckets.
    pub(crate) fn merge(&mut self, other: &Spread) {
        self.parts.iter_mut().zip(&other.parts).for_each(|(part, other)| *part = part.saturating_add(*other));
        self.changes.iter_mut().zip(&other.changes).for_each(|(change, other)| *change += other);
    }

    /// The weight of each bucket.
    pub(crate) fn finish(self) -> Vec<u64> {
        let mut all = 0i128;
        (self.parts.into_iter().zip(self.changes))
            .map(|(part, change)| {
                all += change;
                part.saturating_add(u64::try_from(all).unwrap_or(u64::MAX))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_interval_is_in_every_bucket_that_it_touches() {
        let mut spread = Spread::new(5, 10);
        spread.add(5, 30, 60);
        spread.add(20, 10, 7);
        spread.add(45, 100, 100);
        assert_eq!(spread.finish(), [10, 20, 27, 10, 5]);
    }

    #[test]
    fn two_halves_make_a_whole() {
        let intervals = [(5, 30, 60), (20, 10, 7), (45, 100, 100), (0, 50, 50)];
        let spread = |intervals: &[(u64, u64, u64)]| {
            let mut spread = Spread::new(5, 10);
            intervals
                .iter()
                .for_each(|(start_ns, length_ns, weight)| spread.add(*start_ns, *length_ns, *weight));
            spread
        };
        let mut halves = spread(&intervals[..2]);
        halves.merge(&spread(&intervals[2..]));
        assert_eq!(halves.finish(), spread(&intervals).finish());
    }

    #[test]
    fn what_is_before_the_first_bucket_is_left_out() {
        let mut spread = Spread::new(3, 10).since(100, 105);
        spread.add(90, 20, 40);
        spread.add(104, 0, 7);
        spread.add(105, 0, 3);
        spread.add(0, 50, 50);
        spread.add(115, 10, 10);
        assert_eq!(spread.finish(), [13, 5, 5]);
    }

    #[test]
    fn no_numbers_overflow() {
        let mut spread = Spread::new(3, 1);
        for (start_ns, length_ns) in
            [(0, u64::MAX), (1, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX - 1, 1), (2, 0)]
        {
            spread.add(start_ns, length_ns, u64::MAX);
        }
        assert_eq!(spread.finish().len(), 3);
    }

    proptest! {
        #[test]
        fn an_interval_keeps_its_weight(start in 0u64..500, length in 0u64..500, weight in 0u64..1_000_000, bucket in 1u64..50) {
            let mut spread = Spread::new(1_001, bucket);
            spread.add(start, length, weight);
            let buckets = spread.finish();
            let sum: u64 = buckets.iter().sum();
            let touched = buckets.iter().filter(|weight| **weight > 0).count() as u64;
            // Each part is rounded down.
            prop_assert!(sum <= weight && sum + length / bucket + 3 > weight, "{sum} of {weight}");
            prop_assert!(touched <= length / bucket + 2);
        }
    }
}
