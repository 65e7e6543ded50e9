//! The spread within one recording: it is divided into slices, and adjacent slices are joined into blocks until these
//! are independent.

use super::estimate::mean_and_variance;

/// Number of slices of a recording.
pub(crate) const SLICES: usize = 512;

/// Least number of blocks that allows an estimate of the spread.
const LEAST_BLOCKS: usize = 16;

/// Relative growth of the variance with longer blocks that is tolerated.
const GROWTH: f64 = 0.05;

/// Blocks of slices that are long enough to be independent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Blocks {
    /// Number of slices per block.
    pub(crate) slices: usize,
    /// Number of blocks.
    pub(crate) count: usize,
    /// Design effect: variance of sums relative to that of independent samples, averaged over all quantities.
    pub(crate) design: f64,
    /// Factor for the variance that is missing because bursts are cut at the ends of blocks. It is extrapolated from
    /// the growth between these blocks and those of twice the length.
    correction: f64,
}

impl Blocks {
    /// Chooses the length of blocks for `quantities`, each of which has deviations from the expectation per slice, and
    /// the variance of their sum if samples were independent. The length is doubled until longer blocks have no larger
    /// variance; the tolerance allows for the error of the variance of few blocks. `None` when there are too few slices
    /// or no quantities.
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
        // Quantities of one program are not independent of each other, so only half of them count.
        let independent = (quantities.len() as f64 / 2.0).max(1.0);
        let is_no_larger = |longer: &Blocks, blocks: &Blocks| {
            let chance = (2.0 / (longer.count as f64 - 1.0) / independent).sqrt();
            longer.design <= blocks.design * (1.0 + GROWTH + chance)
        };
        let at =
            (0..ladder.len()).find(|&at| ladder[at + 1..].iter().all(|l| is_no_larger(l, &ladder[at])))?;
        let mut blocks = ladder[at];
        if let Some(longer) = ladder.get(at + 1).filter(|_| blocks.design > 0.0) {
            // Each end of a block loses the same amount, and blocks of twice the length have half as many ends.
            blocks.correction = (2.0 * longer.design / blocks.design - 1.0).max(1.0);
            blocks.design *= blocks.correction;
        }
        Some(blocks)
    }

    /// Variance of the sum of these slices.
    pub(crate) fn variance_of_sum(&self, deviations: &[f64]) -> f64 {
        variance_of_sum(deviations, self.slices) * self.correction
    }

    /// Degrees of freedom of that variance.
    pub(crate) fn freedom(&self) -> f64 {
        self.count as f64 - 1.0
    }
}

/// Variance of the sum of `deviations`, estimated from blocks of this many slices. Slices at the end that do not fill a
/// block are extrapolated.
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
        // Blocks of two: 3, -3, 3, -3. Their variance is 12, and that of the sum of four such blocks is 48.
        let deviations = [1.0, 2.0, -1.0, -2.0, 2.0, 1.0, -2.0, -1.0];
        assert!((variance_of_sum(&deviations, 2) - 48.0).abs() < 1e-12);
        // The sums of two blocks of four are 0 and 0.
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
            // The variance of a uniform number between -1 and 1 is 1/3.
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
