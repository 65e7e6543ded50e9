//! Where the functions of managed code come in a stack. Pure functions.

use crate::bpf::{LEAF_FRAMES, ManagedFrame};

/// Which of a sample's addresses the frame at `index` of its resolved path is of; `None` for the frame in place of those
/// that were left out.
pub(super) fn address_of(index: usize, left_out: u32) -> Option<usize> {
    match (left_out, index) {
        (0, index) => Some(index),
        (_, LEAF_FRAMES) => None,
        (_, index) => Some(if index < LEAF_FRAMES { index } else { index - 1 }),
    }
}

/// The notes of a sample, leaf first, asked for in the order of its addresses.
pub(super) struct ManagedNotes<'n>(&'n [ManagedFrame]);

impl<'n> ManagedNotes<'n> {
    pub(super) fn new(notes: &'n [ManagedFrame]) -> Self {
        ManagedNotes(notes)
    }

    /// The note of the address at `index`; later calls ask for later ones.
    pub(super) fn of(&mut self, index: usize) -> Option<&'n ManagedFrame> {
        while let Some((first, rest)) = self.0.split_first() {
            if first.frame >= index {
                return Some(first).filter(|note| note.frame == index);
            }
            self.0 = rest;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_of_a_gap_has_no_address() {
        assert_eq!([0, 511, 512, 513].map(|index| address_of(index, 0)), [0, 511, 512, 513].map(Some));
        let deep = [0, 511, 512, 513, 1024].map(|index| address_of(index, 7));
        assert_eq!(deep, [Some(0), Some(511), None, Some(512), Some(1023)]);
    }

    #[test]
    fn a_note_is_found_at_its_address_alone() {
        let note = |frame| ManagedFrame { frame, code: 1, position: None, check: 1, mark: 0 };
        let notes = [note(1), note(4)];
        let mut notes = ManagedNotes::new(&notes);
        let found: Vec<bool> = (0..6).map(|index| notes.of(index).is_some()).collect();
        assert_eq!(found, [false, true, false, false, true, false]);
    }
}
