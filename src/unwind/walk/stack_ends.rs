//! A stack of bounded length: whole, or its two ends.

use std::collections::VecDeque;

/// Collects a stack from the leaf on. Up to the maximum it keeps all of it; of a deeper stack half the maximum
/// from each end, as both say most: where the thread was, and what it was started for.
#[derive(Debug, Clone)]
pub(crate) struct StackEnds<T> {
    half: usize,
    /// At most `half` elements, the leaf first.
    leaf: Vec<T>,
    /// At most `half` elements, the root last; empty until the other half is full.
    root: VecDeque<T>,
    left_out: usize,
}

/// Elements of most stacks, at most.
const USUAL: usize = 256;

impl<T> StackEnds<T> {
    /// Takes `max` elements, an even number.
    pub(crate) fn new(max: usize) -> Self {
        let half = max / 2;
        StackEnds { half, leaf: Vec::with_capacity(half.min(USUAL)), root: VecDeque::new(), left_out: 0 }
    }

    /// Adds the next element towards the root.
    pub(crate) fn push(&mut self, element: T) {
        if self.leaf.len() < self.half {
            self.leaf.push(element);
            return;
        }
        if self.root.len() == self.half {
            self.root.pop_front();
            self.left_out += 1;
        }
        if self.half > 0 {
            self.root.push_back(element);
        }
    }

    /// The next `count` elements are not known: no end reaches across them.
    pub(crate) fn skip(&mut self, count: usize) {
        if count > 0 {
            self.left_out += count + self.root.len();
            self.root.clear();
        }
    }

    /// The elements, leaf first, and how many are left out after the first half of the maximum.
    pub(crate) fn into_parts(self) -> (Vec<T>, usize) {
        let mut elements = self.leaf;
        elements.extend(self.root);
        (elements, self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(count: usize, max: usize) -> (Vec<usize>, usize) {
        let mut ends = StackEnds::new(max);
        (0..count).for_each(|element| ends.push(element));
        ends.into_parts()
    }

    #[test]
    fn a_stack_that_fits_is_whole() {
        assert_eq!(ends(0, 4), (vec![], 0));
        assert_eq!(ends(4, 4), (vec![0, 1, 2, 3], 0));
    }

    #[test]
    fn both_ends_of_a_deeper_stack_are_kept() {
        assert_eq!(ends(5, 4), (vec![0, 1, 3, 4], 1));
        assert_eq!(ends(100, 4), (vec![0, 1, 98, 99], 96));
        assert_eq!(ends(3, 0), (vec![], 3));
    }

    #[test]
    fn a_gap_forgets_what_would_seem_to_be_next_to_it() {
        let mut ends = StackEnds::new(4);
        (0..3).for_each(|element| ends.push(element));
        ends.skip(10);
        (13..14).for_each(|element| ends.push(element));
        assert_eq!(ends.into_parts(), (vec![0, 1, 13], 11));
    }
}
