//! Sorting that can be stopped: a file of sixteen million symbols takes seconds.

/// Elements sorted or merged between two calls of `may_go_on`.
const STEP: usize = 1 << 16;

/// Sorts by `key`. Returns `None`, with the elements in any order, as soon as `may_go_on` returns false. More than
/// [`STEP`] elements are copied once.
pub(super) fn sort_by_key<T: Copy, K: Ord>(
    list: &mut Vec<T>,
    key: impl Fn(&T) -> K,
    may_go_on: impl Fn() -> bool,
) -> Option<()> {
    for part in list.chunks_mut(STEP) {
        may_go_on().then_some(())?;
        part.sort_by_key(&key);
    }
    let mut sorted = STEP;
    let mut merged: Vec<T> = Vec::new();
    while sorted < list.len() {
        merged.clear();
        merged.reserve_exact(list.len());
        for pair in list.chunks(sorted.saturating_mul(2)) {
            let (mut left, mut right) = pair.split_at(sorted.min(pair.len()));
            while let (Some(first), Some(second)) = (left.first(), right.first()) {
                if merged.len().is_multiple_of(STEP) {
                    may_go_on().then_some(())?;
                }
                let from = if key(second) < key(first) { &mut right } else { &mut left };
                merged.extend_from_slice(&from[..1]);
                *from = &from[1..];
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(list, &mut merged);
        sorted = sorted.saturating_mul(2);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn many_are_sorted_stably_and_a_stop_ends_it() {
        let mut seed = 7_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 12
        };
        for len in [0, 1, STEP, STEP + 1, 3 * STEP + 5, 4 * STEP, 5 * STEP - 1] {
            let list: Vec<(u32, usize)> = (0..len).map(|at| (next(), at)).collect();
            let mut ours = list.clone();
            sort_by_key(&mut ours, |(key, _)| *key, || true).unwrap();
            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| *key);
            assert!(ours == expected, "{len}");

            let questions = Cell::new(0);
            let mut stopped = list;
            let may_go_on = || {
                questions.set(questions.get() + 1);
                questions.get() <= 2
            };
            let result = sort_by_key(&mut stopped, |(key, _)| *key, may_go_on);
            assert_eq!(result.is_none(), len > STEP, "{len}");
            assert!(questions.get() <= 3);
        }
    }
}
