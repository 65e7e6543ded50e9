//! How many bytes there are between sampled ones, in the mean: as few as the budget allows.

/// Where it begins, bytes: at 1 GB/s that are some 2,000 samples a second.
pub(super) const FIRST: u64 = 512 << 10;
/// Its limits, bytes.
const LEAST: u64 = 64 << 10;
const MOST: u64 = 1 << 30;
/// What a sampled block costs its program, from its allocation to its end, ns (docs/performance.md).
const SAMPLE_NS: u64 = 3_000;
/// Time between two looks, ns.
const LOOK_INTERVAL_NS: u64 = 1_000_000_000;
/// The sampler follows some 200,000 blocks of a process. With more live ones than this no more are asked for.
const MANY_LIVE: usize = 50_000;

/// The mean of all programs of a recording, which begins at [`FIRST`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SamplingMean {
    pub(super) bytes: u64,
    /// Samples per second that may be.
    allowed: u64,
    looked_ns: u64,
    samples: u64,
}

impl SamplingMean {
    /// Samples may take this share of a CPU, ppm; 0: all of one.
    pub(super) fn new(overhead_ppm: u32) -> Self {
        let share_ns = if overhead_ppm == 0 { 1_000_000_000 } else { u64::from(overhead_ppm) * 1_000 };
        let allowed = (share_ns / SAMPLE_NS).max(1);
        SamplingMean { bytes: FIRST, allowed, looked_ns: 0, samples: 0 }
    }

    /// Looks at how many samples there were so far, and blocks that are live, `elapsed_ns` after the start. Returns the mean from now
    /// on if it is another one. Between a few samples and as many as there may be it stays.
    pub(super) fn look(&mut self, elapsed_ns: u64, samples: u64, live: usize) -> Option<u64> {
        let passed_ns = elapsed_ns.saturating_sub(self.looked_ns);
        if passed_ns < LOOK_INTERVAL_NS {
            return None;
        }
        let new = samples.saturating_sub(self.samples);
        let rate = u128::from(new) * 1_000_000_000 / u128::from(passed_ns);
        (self.looked_ns, self.samples) = (elapsed_ns, samples);
        let allowed = u128::from(self.allowed);
        let is_low = rate < allowed / 8 && live < MANY_LIVE;
        if rate <= allowed && !is_low {
            return None;
        }
        // Half of what may be: the next second has more or less.
        let wanted = rate * u128::from(self.bytes) / (allowed / 2).max(1);
        let wanted = u64::try_from(wanted).unwrap_or(MOST).min(MOST).next_power_of_two().max(LEAST);
        (wanted != self.bytes).then(|| {
            self.bytes = wanted;
            wanted
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_program_that_allocates_much_is_sampled_less_and_one_that_allocates_little_more() {
        // 2 %: 6,666 a second.
        let mut mean = SamplingMean::new(20_000);
        assert_eq!(mean.look(SECOND / 2, 1_000_000, 0), None, "it is too early");
        assert_eq!(mean.look(SECOND, 5_000, 0), None, "it is within the budget");
        assert_eq!(mean.look(2 * SECOND, 25_000, 0), Some(4 << 20), "20,000 a second");
        assert_eq!(mean.look(3 * SECOND, 27_500, 0), None, "as many as expected");
        assert_eq!(mean.look(4 * SECOND, 27_500, 0), Some(LEAST), "nothing is allocated any more");
        assert_eq!(mean.look(5 * SECOND, 27_500, 0), None, "it cannot be less");
        let mut mean = SamplingMean::new(20_000);
        assert_eq!(mean.look(SECOND, 100, MANY_LIVE), None, "there would be no room for more");
        assert_eq!(mean.look(2 * SECOND, 200, 0), Some(LEAST));
        let mut mean = SamplingMean::new(0);
        assert_eq!(mean.look(SECOND, 300_000, 0), None, "without a limit");
        assert_eq!(SamplingMean::new(1).look(SECOND, u64::MAX, 0), Some(MOST));
    }
}
