//! What the kernel side says of frames of managed code: which function of a runtime a native frame is.

use super::layout::{FRAME_MANAGED, LEAF_FRAMES, MAX_USER_FRAMES, number, prof_managed_frame};

/// What the runtime knows of one native frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ManagedFrame {
    /// Which of the user frames of the sample it is.
    pub(crate) frame: usize,
    /// Process address of the runtime's description of the function.
    pub(crate) code: u64,
    /// Place in the function: what it counts, the runtime decides; `None` where there is none.
    pub(crate) position: Option<u32>,
    /// What tells the function from others that may be described at that address.
    pub(crate) check: u32,
    /// Small number whose meaning the runtime decides.
    pub(crate) mark: u8,
}

impl ManagedFrame {
    /// Decodes the notes of a sample, whose user frames are `user` as they were sent; leaf first, one for each frame that
    /// is marked to have one. `left_out` and `notes_left_out` say how many frames and notes the rings had no room for.
    pub(super) fn decode_all(
        bytes: &[u8],
        user: &[u64],
        left_out: usize,
        notes_left_out: usize,
    ) -> Vec<Self> {
        if bytes.is_empty() {
            return Vec::new();
        }
        let mut notes: Vec<(usize, ManagedFrame)> =
            bytes.chunks_exact(size_of::<prof_managed_frame>()).map(Self::decode).collect();
        if notes_left_out > 0 && notes.len() == MAX_USER_FRAMES {
            notes[LEAF_FRAMES..].rotate_left(notes_left_out % LEAF_FRAMES);
        }
        let mut newest: Vec<Option<ManagedFrame>> = vec![None; user.len()];
        for (slot, note) in notes {
            if user.get(slot).is_some_and(|raw| raw & FRAME_MANAGED != 0) {
                newest[slot] = Some(note);
            }
        }
        if left_out > 0 && newest.len() == MAX_USER_FRAMES {
            newest[LEAF_FRAMES..].rotate_left(left_out % LEAF_FRAMES);
        }
        let at_its_frame =
            |(frame, note): (usize, Option<ManagedFrame>)| Some(ManagedFrame { frame, ..note? });
        newest.into_iter().enumerate().filter_map(at_its_frame).collect()
    }

    /// One note, and where its frame was stored.
    fn decode(bytes: &[u8]) -> (usize, Self) {
        let word = |from: usize| {
            let word = bytes.get(from..from + 8).and_then(|bytes| bytes.try_into().ok());
            word.map_or(0, u64::from_ne_bytes)
        };
        let (code, place) = (word(0), word(8));
        let slot = code >> number::PROF_MANAGED_FRAME_SHIFT & ((1 << number::PROF_MANAGED_FRAME_BITS) - 1);
        let position = place as u32;
        let note = ManagedFrame {
            frame: 0,
            code: code & number::PROF_MANAGED_ADDRESS,
            position: Some(position).filter(|&at| u64::from(at) != number::PROF_MANAGED_NO_POSITION),
            check: (place >> 32) as u32,
            mark: (code >> number::PROF_MANAGED_MARK_SHIFT) as u8,
        };
        (slot as usize, note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A note as it is sent.
    fn note(slot: u64, code: u64, position: u32) -> Vec<u8> {
        let first = code | slot << number::PROF_MANAGED_FRAME_SHIFT | 3 << number::PROF_MANAGED_MARK_SHIFT;
        let second = u64::from(position) | 9 << 32;
        [first.to_ne_bytes(), second.to_ne_bytes()].concat()
    }

    #[test]
    fn a_note_belongs_to_a_frame_that_is_marked() {
        let user = [0x10, 0x20 | FRAME_MANAGED, 0x30 | FRAME_MANAGED, 0x40];
        let bytes = [
            note(0, 0x7000, 1),
            note(1, 0x7010, 2),
            note(1, 0x7020, 3),
            note(2, 0x7030, u32::MAX),
            note(9, 0, 0),
        ];
        let notes = ManagedFrame::decode_all(&bytes.concat(), &user, 0, 0);
        let expected = |frame, code, position| ManagedFrame { frame, code, position, check: 9, mark: 3 };
        assert_eq!(notes, [expected(1, 0x7020, Some(3)), expected(2, 0x7030, None)]);
        assert_eq!(ManagedFrame::decode_all(&[1; 40], &user, 0, 0), []);
    }

    #[test]
    fn notes_of_a_deep_stack_follow_its_frames() {
        // 1,324 frames, all with a note of their number: the second half of both holds 812..1324, round and round.
        let mut user = vec![FRAME_MANAGED; MAX_USER_FRAMES];
        let mut notes = vec![Vec::new(); MAX_USER_FRAMES];
        for frame in 0..1324 {
            let slot = if frame < LEAF_FRAMES { frame } else { LEAF_FRAMES + frame % LEAF_FRAMES };
            user[slot] = frame as u64 | FRAME_MANAGED;
            notes[slot] = note(slot as u64, frame as u64, 0);
        }
        let notes = ManagedFrame::decode_all(&notes.concat(), &user, 300, 300);
        assert!(notes.iter().map(|note| note.code).eq((0..512).chain(812..1324)));
        assert!(notes.iter().map(|note| note.frame).eq(0..1024));
    }
}
