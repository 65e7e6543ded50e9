//! Which waits are kept where there are more than can be told.
//!
//! A wait of length d is kept with the probability d / P, and is weighted as P if that is more than d: sums are right on
//! average, whatever P is, as those of the BPF programs (budget.bpf.h). P grows while more waits are kept than there is room for.

/// P is looked at again this often, ns.
const STEP_NS: u64 = 50_000_000;
/// Waits that may be kept in that time: 20,000 in a second.
const MOST: u64 = 1_000;
/// The shortest P, and the longest, ns.
const LEAST_P_NS: u64 = 2_000;
const MOST_P_NS: u64 = 65_536_000;

/// State of the choice.
#[derive(Debug)]
pub(super) struct Thinning {
    /// P, ns; 0: every wait is kept.
    kept_ns: u64,
    step_began_ns: u64,
    kept: u64,
    random: u64,
}

impl Default for Thinning {
    fn default() -> Self {
        Thinning { kept_ns: 0, step_began_ns: 0, kept: 0, random: 0x9e37_79b9_7f4a_7c15 }
    }
}

impl Thinning {
    /// The weight of a wait of this length that ends at `now_ns`; 0 if it is left out.
    pub(super) fn weight(&mut self, length_ns: u64, now_ns: u64) -> u64 {
        self.adapt(now_ns);
        if length_ns < self.kept_ns && self.below(self.kept_ns) >= length_ns {
            return 0;
        }
        self.kept += 1;
        length_ns.max(self.kept_ns)
    }

    /// Has P fit what was kept of late.
    fn adapt(&mut self, now_ns: u64) {
        if self.kept >= MOST {
            self.kept_ns = (self.kept_ns * 2).clamp(LEAST_P_NS, MOST_P_NS);
        } else if now_ns.saturating_sub(self.step_began_ns) < STEP_NS {
            return;
        } else if self.kept < MOST / 4 {
            let half = self.kept_ns / 2;
            self.kept_ns = if half < LEAST_P_NS { 0 } else { half };
        }
        (self.step_began_ns, self.kept) = (now_ns, 0);
    }

    /// A random number below `bound`: Marsaglia's xorshift64, multiplied.
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let random = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(random) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_waits_are_all_kept_as_they_are() {
        let mut thinning = Thinning::default();
        assert!((1..10_000u64).all(|wait| thinning.weight(wait, wait * 100_000) == wait));
    }

    #[test]
    fn sums_of_many_short_waits_are_right_while_few_of_them_are_kept() {
        let mut thinning = Thinning::default();
        let lengths = |wait: u64| 1_000 + wait % 7 * 500;
        let (mut whole, mut kept, mut sum) = (0, 0u64, 0);
        for wait in 0..2_000_000u64 {
            // A wait each 2 µs: 500,000 in a second.
            let weight = thinning.weight(lengths(wait), wait * 2_000);
            (whole, sum) = (whole + lengths(wait), sum + weight);
            kept += u64::from(weight > 0);
        }
        assert!((20_000..200_000).contains(&kept), "{kept} in four seconds");
        let share = sum as f64 / whole as f64;
        assert!((share - 1.0).abs() < 0.05, "{share}");
    }
}
