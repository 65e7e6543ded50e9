//! The goroutine of a sample as the kernel side sends it, and the check of its labels, as both sides compute it.

use super::layout::{number, prof_goroutine, prof_goroutine_place};
use std::mem::offset_of;

/// Bytes of a goroutine at the end of a sample.
pub(super) const GOROUTINE_BYTES: usize = size_of::<prof_goroutine>();

/// Labels of a goroutine that are looked at.
pub(crate) const MOST_LABELS: usize = number::PROF_GO_LABELS as usize;

/// Goroutine that the thread of a sample worked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct GoroutineEvent {
    /// Number of the goroutine.
    pub(crate) id: u64,
    /// Process address of its labels; 0 if it has none.
    pub(crate) labels: u64,
    /// What tells the labels from others at their address; 0 if they could not be read.
    pub(crate) check: u64,
}

/// What is known of the goroutine of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SampleGoroutine {
    /// The thread works for none, or is of no Go program.
    #[default]
    None,
    /// There may be one: it could not be read.
    Unread,
    /// The thread works for it.
    Known(GoroutineEvent),
}

impl SampleGoroutine {
    /// Takes it off the end of `rest`, the frames of a sample with these flags.
    pub(super) fn take(flags: u8, rest: &mut &[u8]) -> Self {
        let has = |flag: u64| u64::from(flags) & flag != 0;
        if !has(number::PROF_RUNTIME_HAS_GOROUTINE) {
            let is_unread = has(number::PROF_RUNTIME_GOROUTINE_UNREAD);
            return if is_unread { SampleGoroutine::Unread } else { SampleGoroutine::None };
        }
        let Some(start) = rest.len().checked_sub(GOROUTINE_BYTES) else { return SampleGoroutine::Unread };
        let (before, goroutine) = rest.split_at(start);
        *rest = before;
        SampleGoroutine::Known(GoroutineEvent {
            id: word(goroutine, offset_of!(prof_goroutine, id)),
            labels: word(goroutine, offset_of!(prof_goroutine, labels)),
            check: word(goroutine, offset_of!(prof_goroutine, check)),
        })
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
}

/// Reading of a process's memory: fills the bytes with what is at an address, or returns false.
pub(crate) type ReadMemory<'a> = &'a dyn Fn(u64, &mut [u8]) -> bool;

/// The check of the labels at `pointer`; `None` if they cannot be read, or have a form of which the check says too little.
pub(crate) fn goroutine_check(
    place: &prof_goroutine_place,
    read: ReadMemory<'_>,
    pointer: u64,
) -> Option<u64> {
    let words = |address: u64| {
        let mut bytes = [0; 24];
        read(address, &mut bytes).then(|| [word(&bytes, 0), word(&bytes, 8), word(&bytes, 16)])
    };
    let mut list = [0; number::PROF_GO_BUCKET_BYTES as usize];
    let is_map = u64::from(place.label_form) == number::PROF_LABELS_MAP;
    let (mut mixed, at, bytes, strings) = if is_map {
        let [count, flags, buckets] = words(words(pointer)?[0])?;
        // The second byte is the logarithm of the number of buckets.
        if flags & 0xff00 != 0 {
            return None;
        }
        (mix(first(count), flags & 0xffff), buckets, list.len(), 2 * MOST_LABELS)
    } else {
        let [list, count, _] = words(pointer)?;
        let strings = 2 * count.min(MOST_LABELS as u64) as usize;
        (mix(first(list), count), list, 16 * strings, strings)
    };
    let list = &mut list[..bytes];
    if bytes > 0 && !read(at, list) {
        return None;
    }
    mixed = list.chunks_exact(8).fold(mixed, |mixed, bytes| mix(mixed, word(bytes, 0)));
    let from = if is_map { 8 } else { 0 };
    for index in 0..strings {
        if is_map && u64::from(list[index % MOST_LABELS]) < number::PROF_GO_ENTRY_USED {
            continue;
        }
        let (address, length) = (word(list, from + 16 * index), word(list, from + 16 * index + 8));
        if length == 0 || address.wrapping_sub(place.constants) < place.constant_bytes {
            continue;
        }
        let mut content = [0; 8 * number::PROF_GO_STRING_WORDS as usize];
        let known = length.min(content.len() as u64) as usize;
        if !read(address, &mut content[..known]) {
            content.fill(0);
        }
        mixed = content.chunks_exact(8).fold(mixed, |mixed, bytes| mix(mixed, word(bytes, 0)));
    }
    Some(mixed.max(1))
}

fn first(word: u64) -> u64 {
    word.wrapping_mul(number::PROF_CHECK_SECOND)
}

fn mix(mixed: u64, word: u64) -> u64 {
    let mixed = (mixed ^ word).wrapping_mul(number::PROF_CHECK_FIRST);
    mixed ^ mixed >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goroutine_is_the_last_part_of_a_sample() {
        let bytes: Vec<u8> = [1u64, 17, 0xc000, 77].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut rest = bytes.as_slice();
        let flags = number::PROF_RUNTIME_HAS_GOROUTINE as u8;
        let goroutine = GoroutineEvent { id: 17, labels: 0xc000, check: 77 };
        assert_eq!(SampleGoroutine::take(flags, &mut rest), SampleGoroutine::Known(goroutine));
        assert_eq!(rest, 1u64.to_ne_bytes());
        assert_eq!(SampleGoroutine::take(flags, &mut rest), SampleGoroutine::Unread, "cut off");
        assert_eq!(SampleGoroutine::take(0, &mut rest), SampleGoroutine::None);
        let unread = number::PROF_RUNTIME_GOROUTINE_UNREAD as u8;
        assert_eq!(SampleGoroutine::take(unread, &mut rest), SampleGoroutine::Unread);
    }

    /// A slice of one pair at 0x1000, whose list is at 0x2000, the key at 0x3000 and the value at 0x4000.
    fn check_of(value: &str, constants: u64) -> Option<u64> {
        let put = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let parts = [
            (0x1000, put(&[0x2000, 1, 1])),
            (0x2000, put(&[0x3000, 6, 0x4000, value.len() as u64])),
            (0x3000, b"tenant".to_vec()),
            (0x4000, value.as_bytes().to_vec()),
        ];
        let read = |address: u64, bytes: &mut [u8]| {
            let part = parts.iter().find(|(start, _)| *start == address);
            let found = part.and_then(|(_, part)| part.get(..bytes.len()));
            found.map(|found| bytes.copy_from_slice(found)).is_some()
        };
        let place = prof_goroutine_place {
            label_form: number::PROF_LABELS_PAIRS as u8,
            constants,
            constant_bytes: if constants > 0 { 0x100 } else { 0 },
            ..Default::default()
        };
        goroutine_check(&place, &read, 0x1000)
    }

    #[test]
    fn what_may_change_counts_and_constants_do_not() {
        assert!(check_of("alpha", 0).is_some_and(|check| check != 0));
        assert_ne!(check_of("alpha", 0), check_of("delta", 0));
        assert_eq!(check_of("alpha", 0x4000), check_of("delta", 0x4000), "a constant is its address");
        assert_ne!(check_of("alpha", 0x4000), check_of("deltas", 0x4000));
    }
}
