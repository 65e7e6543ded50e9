//! The frames of an interpreter as the kernel side sends them with a sample, and the code objects that they are of.

use super::fields::{DecodeError, RecordFields};
use super::layout::{number, prof_new_code};
use std::mem::offset_of;

/// Frames that an interpreter keeps for one thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InterpreterFrames {
    /// `enum prof_runtime_flags`.
    pub(super) flags: u8,
    /// Leaf first.
    pub(crate) frames: Vec<InterpreterFrame>,
}

impl InterpreterFrames {
    fn has(&self, flag: u64) -> bool {
        u64::from(self.flags) & flag != 0
    }

    /// Frames that user space has read, the leaf first; those next to the root are missing if they were cut. `holds_lock` is
    /// `None` where that is not known.
    pub(crate) fn of(frames: Vec<InterpreterFrame>, is_cut: bool, holds_lock: Option<bool>) -> Self {
        let lock = match holds_lock {
            None => 0,
            Some(false) => number::PROF_RUNTIME_KNOWS_LOCK,
            Some(true) => number::PROF_RUNTIME_KNOWS_LOCK | number::PROF_RUNTIME_HAS_LOCK,
        };
        let cut = if is_cut { number::PROF_RUNTIME_CUT } else { 0 };
        InterpreterFrames { flags: (number::PROF_RUNTIME_HAS_STATE | cut | lock) as u8, frames }
    }

    /// No frames, and whether the lock was held; `None` where that is not known.
    #[cfg(test)]
    pub(crate) fn of_lock(holds: Option<bool>) -> Self {
        let flags = match holds {
            None => 0,
            Some(false) => number::PROF_RUNTIME_KNOWS_LOCK,
            Some(true) => number::PROF_RUNTIME_KNOWS_LOCK | number::PROF_RUNTIME_HAS_LOCK,
        };
        InterpreterFrames { flags: flags as u8, ..InterpreterFrames::default() }
    }

    /// Whether the runtime knows the thread.
    pub(crate) fn has_state(&self) -> bool {
        self.has(number::PROF_RUNTIME_HAS_STATE)
    }

    /// Whether frames next to the root are missing.
    pub(crate) fn is_cut(&self) -> bool {
        self.has(number::PROF_RUNTIME_CUT)
    }

    /// Whether the thread held the runtime's lock; `None` where that is not known.
    pub(crate) fn holds_lock(&self) -> Option<bool> {
        self.has(number::PROF_RUNTIME_KNOWS_LOCK).then(|| self.has(number::PROF_RUNTIME_HAS_LOCK))
    }
}

/// One frame of an interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterpreterFrame {
    /// Process address of the code object.
    pub(crate) code: u64,
    /// Place in the code: bytes from the code object on, or the number in the frame.
    pub(crate) position: u32,
    /// What tells the code object from others at its address; 0 if it was no code object.
    pub(crate) check: u32,
    /// Whether `check` was read with this sample, not before it.
    pub(crate) is_checked: bool,
    /// Whether C code entered the frame: it has an interpreter loop of its own.
    pub(crate) is_entry: bool,
}

impl InterpreterFrame {
    /// Decodes the two words of a frame; what is missing is 0.
    pub(super) fn decode(bytes: &[u8]) -> Self {
        let word = |from: usize| {
            let word = bytes.get(from..from + 8).and_then(|bytes| bytes.try_into().ok());
            word.map_or(0, u64::from_ne_bytes)
        };
        let (code, place) = (word(0), word(8));
        InterpreterFrame {
            code: code & number::PROF_RUNTIME_ADDRESS,
            position: place as u32,
            check: (place >> 32) as u32,
            is_checked: code & number::PROF_RUNTIME_CHECKED != 0,
            is_entry: code & number::PROF_RUNTIME_ENTRY != 0,
        }
    }
}

/// A code object that the kernel side had not seen before, and what it points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewCodeEvent {
    /// CLOCK_MONOTONIC, ns: that of the sample that has it.
    pub(crate) time_ns: u64,
    /// Process id in the PID namespace of this process.
    pub(crate) tgid: u32,
    /// Process address of the code object.
    pub(crate) code: u64,
    /// Its check.
    pub(crate) check: u32,
    /// The memory that its name takes: process addresses and bytes, in the order of `prof_new_code`, without those that are
    /// unused. Zeros where memory was not readable.
    pub(crate) parts: Vec<(u64, Vec<u8>)>,
}

impl NewCodeEvent {
    /// Decodes one record of the ring of new code objects.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut at = RecordFields::of(bytes, size_of::<prof_new_code>())?;
        let sizes = [
            vec![number::PROF_RUNTIME_CODE_BYTES; number::PROF_CODE_OBJECTS as usize],
            vec![number::PROF_CODE_LINK_BYTES; number::PROF_CODE_LINKS as usize],
            vec![number::PROF_CODE_TEXT_BYTES; number::PROF_CODE_TEXTS as usize],
            vec![number::PROF_CODE_LINES_BYTES],
        ];
        let mut parts = Vec::new();
        let mut offset = offset_of!(prof_new_code, object);
        for (index, size) in sizes.iter().flatten().enumerate() {
            let size = *size as usize;
            let address = at.u64(offset_of!(prof_new_code, part) + 8 * index);
            if address != 0 {
                parts.push((address, bytes[offset..offset + size].to_vec()));
            }
            offset += size;
        }
        Ok(NewCodeEvent {
            time_ns: at.u64(offset_of!(prof_new_code, time_ns)),
            tgid: at.u32(offset_of!(prof_new_code, tgid)),
            code: at.u64(offset_of!(prof_new_code, code)),
            check: at.u32(offset_of!(prof_new_code, check)),
            parts,
        })
    }
}

/// Words of an object that a code object points to, from its length on.
pub(crate) type CodeContent = [u64; number::PROF_CHECK_BYTES as usize / 8];

/// How much of the content at `address` counts: what is on one page, bytes.
pub(crate) fn content_bytes(address: u64) -> usize {
    let page = number::PROF_CHECK_PAGE_BYTES;
    (page - address % page).min(number::PROF_CHECK_BYTES) as usize
}

/// The check of a code object that these words tell from others. As the kernel side computes it.
pub(crate) fn mixed_check(words: impl Iterator<Item = u64>) -> u32 {
    end_check(words.fold(0, mix_word))
}

/// Adds a word to a check.
fn mix_word(mixed: u64, word: u64) -> u64 {
    let mixed = (mixed ^ word).wrapping_mul(number::PROF_CHECK_FIRST);
    mixed ^ mixed >> 29
}

/// A check as it is sent: never 0.
fn end_check(mixed: u64) -> u32 {
    match (mixed ^ mixed >> 32) as u32 {
        0 => 1,
        check => check,
    }
}

/// The check of a code object: of three pointers and a number that tell it from others, and of the texts that the pointers
/// lead to, each of which begins at a word of its content. As the kernel side computes it.
pub(crate) fn code_check(words: [u64; 3], number: u32, contents: &[(CodeContent, usize); 3]) -> u32 {
    let factors = [number::PROF_CHECK_FIRST, number::PROF_CHECK_SECOND, number::PROF_CHECK_THIRD];
    let words = words.into_iter().zip(factors).map(|(word, factor)| word.wrapping_mul(factor));
    let number = u64::from(number).wrapping_mul(number::PROF_CHECK_NUMBER);
    let mut mixed = words.fold(number, |mixed, word| mixed ^ word);
    let mut mix = |word: u64| mixed = mix_word(mixed, word);
    for (content, text) in contents {
        let length = content[0];
        mix(length);
        let text = content
            .get(*text..)
            .unwrap_or_default()
            .iter()
            .chain(&[0; number::PROF_CHECK_TEXT_WORDS as usize]);
        for (word, before) in text.take(number::PROF_CHECK_TEXT_WORDS as usize).zip((0..).step_by(8)) {
            match length.saturating_sub(before) {
                0 => break,
                left @ 1..8 => mix(word & ((1 << (8 * left)) - 1)),
                _ => mix(*word),
            }
        }
    }
    end_check(mixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_no_part_of_the_address() {
        let code = number::PROF_RUNTIME_ENTRY | 0x7fff_1234_5670;
        let mut bytes = code.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&(77u64 << 32 | 18).to_ne_bytes());
        let frame = InterpreterFrame::decode(&bytes);
        assert_eq!((frame.code, frame.position, frame.check), (0x7fff_1234_5670, 18, 77));
        assert_eq!((frame.is_entry, frame.is_checked), (true, false));
    }

    #[test]
    fn a_new_code_object_comes_with_its_parts_at_their_addresses() {
        let mut bytes = vec![0; size_of::<prof_new_code>()];
        let mut put =
            |offset: usize, value: u64| bytes[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
        put(offset_of!(prof_new_code, code), 0x7f00_0000);
        put(offset_of!(prof_new_code, part), 0x7f00_0000);
        let file = (number::PROF_CODE_OBJECTS + number::PROF_CODE_LINKS + 1) as usize;
        put(offset_of!(prof_new_code, part) + 8 * file, 0x7f00_2000);
        put(offset_of!(prof_new_code, text) + number::PROF_CODE_TEXT_BYTES as usize, 77);
        let event = NewCodeEvent::decode(&bytes).expect("whole");
        let addresses: Vec<u64> = event.parts.iter().map(|part| part.0).collect();
        assert_eq!(addresses, [0x7f00_0000, 0x7f00_2000]);
        assert_eq!(event.parts[1].1[..8], 77u64.to_ne_bytes());
        assert!(NewCodeEvent::decode(&bytes[1..]).is_err());
    }

    /// Three texts, with what lies between their lengths and them.
    fn contents(texts: [&str; 3], between: u64) -> [(CodeContent, usize); 3] {
        texts.map(|text| {
            let mut content = [between; size_of::<CodeContent>() / 8];
            content[0] = text.len() as u64;
            for (word, letters) in content[3..].iter_mut().zip(text.as_bytes().chunks(8)) {
                // What follows a text is another object's.
                let mut bytes = between.to_ne_bytes();
                bytes[..letters.len()].copy_from_slice(letters);
                *word = u64::from_ne_bytes(bytes);
            }
            (content, 3)
        })
    }

    #[test]
    fn no_check_is_zero_and_each_part_counts() {
        let empty = contents([""; 3], 0);
        let words = [0x7f00_0010, 0x7f00_0020, 0x7f00_0030];
        let check = code_check(words, 30, &empty);
        assert_ne!(check, 0);
        for index in 0..3 {
            let mut other = words;
            other[index] += 1;
            assert_ne!(check, code_check(other, 30, &empty));
        }
        assert_ne!(check, code_check(words, 31, &empty));
    }

    /// Names that are made one after the other differ in a letter, and lie at one place.
    #[test]
    fn texts_count_and_what_is_around_them_does_not() {
        let words = [0x7f00_0010, 0x7f00_0020, 0x7f00_0030];
        let check = |name: &str, between| code_check(words, 1, &contents([name, "/srv/app.py", ""], between));
        let mut checks: Vec<u32> = (0..1000).map(|number| check(&format!("made{number:03}"), 0)).collect();
        assert_eq!(checks[7], check("made007", 0x5555_5555_5555_5555), "a hash was kept meanwhile");
        checks.sort_unstable();
        checks.dedup();
        assert_eq!(checks.len(), 1000);
        let long = "x".repeat(200);
        assert_eq!(check(&long, 0), check(&format!("{}y", &long[1..]), 0), "only the beginning counts");
        assert_eq!([0, 4000, 4001, 4095].map(content_bytes), [96, 96, 95, 1]);
    }
}
