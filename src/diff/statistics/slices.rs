//! The spread inside of one recording: it is cut into slices, and neighbouring slices are joined until they are independent.

use super::estimate::mean_and_variance;

/// Slices that a recording is cut into.
pub(crate) const SLICES: usize = 512;

/// Fewer blocks than this say little about a spread.
const LEAST_BLOCKS: usize = 16;

/// Growth of the variance, when blocks become longer, that is not worth longer ones.
const GROWTH: f64 = 0.05;

/// Blocks of slices that are long enough to be independent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Blocks {
    /// Slices of one block.
    pub(crate) slices: usize,
    /// Number of blocks.
    pub(crate) count: usize,
    /// How many times larger the variance of sums is than that of independent samples: the mean over all quantities.
    pub(crate) design: f64,
    /// What the variance still lacks: bursts that reach over the ends of blocks are cut in two, which the growth from these
    /// blocks to those of twice the length shows.
    correction: f64,
}

impl Blocks {
    /// Chooses the length of blocks for `quantities`: each one's deviations from what is expected of a slice, with the variance
    /// of their sum if samples were independent. Blocks are doubled until longer ones have no larger variance: chance makes
    /// that of a few blocks look larger, which is allowed for. `None` when there are too few slices or nothing to look at.
    pub(crate) fn choose(quantities: &[(Vec<f64>, f64)]) -> Option<Self> {
        let length = quantities.first().map_or(0, |(deviations, _)| deviations.len());
        let lengths: Vec<usize> = (0..)
            .map(|doubled| 1usize << doubled)
            .take_while(|slices| length / slices >= LEAST_BLOCKS)
            .collect();
        let of_length = |slices: usize| {
            let known = quantities.iter().filter(|(_, chance)| *chance > 0.0);
            let designs: Vec<f64> =
                known.map(|(deviations, chance)| variance_of_sum(deviations, slices) / chance).collect();
            Blocks { slices, count: length / slices, design: mean_and_variance(&designs).0, correction: 1.0 }
        };
        let ladder: Vec<Blocks> = lengths.into_iter().map(of_length).collect();
        // Quantities of one program are not independent of each other: half of them count.
        let independent = (quantities.len() as f64 / 2.0).max(1.0);
        let is_no_larger = |longer: &Blocks, blocks: &Blocks| {
            let chance = (2.0 / (longer.count as f64 - 1.0) / independent).sqrt();
            longer.design <= blocks.design * (1.0 + GROWTH + chance)
        };
        let at =
            (0..ladder.len()).find(|&at| ladder[at + 1..].iter().all(|l| is_no_larger(l, &ladder[at])))?;
        let mut blocks = ladder[at];
        if let Some(longer) = ladder.get(at + 1).filter(|_| blocks.design > 0.0) {
            // What is cut is as much for each end, and there are half as many ends in blocks of twice the length.
            blocks.correction = (2.0 * longer.design / blocks.design - 1.0).max(1.0);
            blocks.design *= blocks.correction;
        }
        Some(blocks)
    }

    /// The variance of the sum of these slices.
    pub(crate) fn variance_of_sum(&self, deviations: &[f64]) -> f64 {
        variance_of_sum(deviations, self.slices) * self.correction
    }

    /// Degrees of freedom of such a variance.
    pub(crate) fn freedom(&self) -> f64 {
        self.count as f64 - 1.0
    }
}

/// The variance of the sum of `deviations`, from that of blocks of so many slices. Slices at the end that make no block count
/// as much as the others.
fn variance_of_sum(deviations: &[f64], slices: usize) -> f64 {
    let sums: Vec<f64> = deviations.chunks_exact(slices).map(|block| block.iter().sum()).collect();
    let covered = sums.len() * slices;
    if covered == 0 {
        return 0.0;
    }
    mean_and_variance(&sums).1 * sums.len() as f64 * deviations.len() as f64 / covered as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::tests::random::Random;

    #[test]
    fn the_variance_of_a_sum_is_that_of_its_blocks() {
        // Blocks of two: 3, -3, 3, -3; their variance is 12, of four such blocks 48.
        let deviations = [1.0, 2.0, -1.0, -2.0, 2.0, 1.0, -2.0, -1.0];
        assert!((variance_of_sum(&deviations, 2) - 48.0).abs() < 1e-12);
        // Two blocks of four are 0 and 0.
        assert_eq!(variance_of_sum(&deviations, 4), 0.0);
        assert_eq!(variance_of_sum(&[], 1), 0.0);
    }

    fn bursts(random: &mut Random, length: usize) -> Vec<(Vec<f64>, f64)> {
        let quantity = |random: &mut Random| {
            let mut burst = 0.0;
            let slices = (0..SLICES).map(|slice| {
                if slice % length == 0 {
                    burst = random.below(2_000) as f64 / 1_000.0 - 1.0;
                }
                burst
            });
            // The variance of a number between -1 and 1 is a third.
            (slices.collect::<Vec<f64>>(), SLICES as f64 / 3.0)
        };
        (0..10).map(|_| quantity(random)).collect()
    }

    #[test]
    fn blocks_are_as_long_as_bursts() {
        let mut random = Random::new(3);
        for (length, designs) in [(1, 0.9..1.1), (8, 6.0..10.0)] {
            let blocks = Blocks::choose(&bursts(&mut random, length)).unwrap();
            assert!(blocks.slices >= length && blocks.slices <= 2 * length, "{length}: {blocks:?}");
            assert!(designs.contains(&blocks.design), "{length}: {blocks:?}");
            assert_eq!(blocks.count, SLICES / blocks.slices);
        }
    }

    #[test]
    fn a_few_slices_say_nothing() {
        assert_eq!(Blocks::choose(&[(vec![1.0; LEAST_BLOCKS - 1], 1.0)]), None);
        assert_eq!(Blocks::choose(&[]), None);
    }
}
