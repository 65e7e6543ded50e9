//! Choice of goroutines when there are more than may be read.

/// Chooses `chosen` of `all` numbers one by one, each set of that many with equal probability.
///
/// Goroutines are listed by age and are often created in a pattern (a reader, a writer, a reader, …), so every n-th one
/// would not represent the others.
#[derive(Debug)]
pub(crate) struct GoSampling {
    left: u64,
    wanted: u64,
    state: u64,
}

impl GoSampling {
    /// A choice of `chosen` of `all`, another one for each `seed`.
    pub(crate) fn new(all: usize, chosen: usize, seed: u64) -> Self {
        GoSampling { left: all as u64, wanted: chosen.min(all) as u64, state: seed }
    }

    /// Tells whether the next number is chosen; to be asked once for each of `all`.
    pub(crate) fn takes_next(&mut self) -> bool {
        if self.wanted == 0 || self.left == 0 {
            return false;
        }
        let takes = self.wanted == self.left || self.below(self.left) < self.wanted;
        self.left -= 1;
        self.wanted -= u64::from(takes);
        takes
    }

    /// A random number below `limit` (splitmix64, the high half of a product).
    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        ((u128::from(bits) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_wanted_number_is_chosen_and_each_equally_often() {
        let mut counts = [0u32; 10];
        for seed in 0..10_000 {
            let mut sampling = GoSampling::new(10, 3, seed);
            let chosen: Vec<usize> = (0..10).filter(|_| sampling.takes_next()).collect();
            assert_eq!(chosen.len(), 3);
            chosen.iter().for_each(|&number| counts[number] += 1);
        }
        assert!(counts.iter().all(|count| (2800..3200).contains(count)), "{counts:?}");
    }

    #[test]
    fn all_are_chosen_where_they_fit() {
        let mut sampling = GoSampling::new(4, 9, 1);
        assert_eq!((0..6).filter(|_| sampling.takes_next()).count(), 4);
    }
}
