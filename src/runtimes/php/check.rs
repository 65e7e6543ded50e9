//! What tells a function from another one that lies at its address later: memory of a request is used again for the next.
//! The kernel side computes the same.

use super::layout::{
    CODE_ADDRESS, EVALUATED_CODE, GLOBALS_SIZE, INTERNAL_FUNCTION, PhpLayout, USER_FUNCTION, field,
};
use crate::runtimes::memory::TargetMemory;

/// Factor of the mix.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Words of a text that count, from its first character on, and those at its end if it is longer.
const TEXT_WORDS: usize = 7;
/// Bytes of a string that are read: its length and those words.
const HEAD_BYTES: usize = 8 * (TEXT_WORDS + 1);
const TAIL_BYTES: usize = 8 * TEXT_WORDS;
const PAGE: u64 = 4096;

/// The check of the function of a code word: 32 bits of its kind, the addresses of its name, class and file, its lines, and
/// what the texts say. `None` if it is no function.
pub(crate) fn check(memory: &impl TargetMemory, layout: &PhpLayout, code: u64) -> Option<u32> {
    let (address, offsets) = (code & CODE_ADDRESS, &layout.offsets);
    // It stands for another method a moment later.
    if address.wrapping_sub(layout.globals) < GLOBALS_SIZE {
        return None;
    }
    let word = |offset| memory.u64(field(address, offset)?);
    let kind = memory.u8(address)?;
    let (name, class) = (word(offsets.function.name)?, word(offsets.function.class)?);
    let mut mixed = mix(mix(mix(0, kind.into()), name), class);
    match kind {
        USER_FUNCTION | EVALUATED_CODE => {
            let (file, lines) = (word(offsets.function.file)?, word(offsets.function.file.checked_add(8)?)?);
            mixed = mix(mix(mixed, file), lines);
            mixed = mix_text(memory, file.wrapping_add(offsets.text_length.into()), mixed);
        }
        INTERNAL_FUNCTION => {}
        _ => return None,
    }
    if name != 0 {
        mixed = mix_text(memory, name.wrapping_add(offsets.text_length.into()), mixed);
    }
    if class != 0 {
        let name = memory.u64(class.wrapping_add(offsets.class_name.into())).unwrap_or(0);
        mixed = mix_text(memory, name.wrapping_add(offsets.text_length.into()), mix(mixed, name));
    }
    let folded = (mixed ^ mixed >> 32) as u32;
    Some(folded.max(1))
}

/// Adds a word to a check.
pub(super) fn mix(mixed: u64, word: u64) -> u64 {
    let mixed = (mixed ^ word).wrapping_mul(FACTOR);
    mixed ^ mixed >> 29
}

/// Mixes a text, whose length is at `address`: its length, its first words and its last ones. Zeros count in the place of
/// what is on another page than its beginning, or cannot be read.
fn mix_text(memory: &impl TargetMemory, address: u64, mut mixed: u64) -> u64 {
    let head: [u64; TEXT_WORDS + 1] = words(memory, address, HEAD_BYTES);
    let length = head[0];
    mixed = mix(mixed, length);
    for (index, &word) in (0u64..).zip(&head[1..]) {
        if length <= 8 * index {
            break;
        }
        let kept = if length < 8 * index + 8 { (1 << (8 * (length & 7))) - 1 } else { u64::MAX };
        mixed = mix(mixed, word & kept);
    }
    if length > TAIL_BYTES as u64 {
        let start = address.wrapping_add(8).wrapping_add(length).wrapping_sub(TAIL_BYTES as u64);
        let tail: [u64; TEXT_WORDS] = words(memory, start, TAIL_BYTES);
        mixed = tail.into_iter().fold(mixed, mix);
    }
    mixed
}

/// Words from `address` on: zeros for those of another page, and for all if they cannot be read.
fn words<const N: usize>(memory: &impl TargetMemory, address: u64, size: usize) -> [u64; N] {
    let mut bytes = [0; HEAD_BYTES];
    let readable = size.min((PAGE - address % PAGE) as usize).min(HEAD_BYTES);
    if !bytes.get_mut(..readable).is_some_and(|bytes| memory.read(address, bytes)) {
        bytes.fill(0);
    }
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}
