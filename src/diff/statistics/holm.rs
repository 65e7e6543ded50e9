//! Holm's correction for multiple tests: bounds the probability that any of them is a false alarm.

/// Adjusts the probabilities `p`, in the same order. The probability of any false alarm among those below alpha is at
/// most alpha.
pub(crate) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max((p[index] * (p.len() - rank) as f64).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of R's `p.adjust` in many tutorials: 0.01, 0.02, 0.03, 0.04, 0.05 become 0.05, 0.08, 0.09, 0.09,
    /// 0.09.
    #[test]
    fn adjusted_probabilities_are_those_of_r() {
        let adjusted = holm(&[0.03, 0.01, 0.05, 0.02, 0.04]);
        let wanted = [0.09, 0.05, 0.09, 0.08, 0.09];
        for (value, wanted) in adjusted.iter().zip(wanted) {
            assert!((value - wanted).abs() < 1e-12, "{adjusted:?}");
        }
    }

    #[test]
    fn one_test_needs_no_correction_and_none_is_above_one() {
        assert_eq!(holm(&[0.04]), [0.04]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }
}
