//! Strings of a Go program: a pointer to the bytes and their number, no end mark.

use crate::runtimes::TargetMemory;

/// Longest string that is read, bytes.
const MAX_STRING_BYTES: usize = 4096;

/// The string whose pointer and length are at `address`; `None` if it cannot be read, is longer than 4 KiB or is not
/// UTF-8.
pub(crate) fn string_at<M: TargetMemory>(memory: &M, address: u64) -> Option<String> {
    let header = memory.bytes::<16>(address)?;
    let (pointer, length) = (word(&header, 0)?, word(&header, 8)?);
    string(memory, pointer, length)
}

/// The string of `length` bytes at `pointer`; `None` as for `string_at`.
pub(crate) fn string<M: TargetMemory>(memory: &M, pointer: u64, length: u64) -> Option<String> {
    if length == 0 {
        return Some(String::new());
    }
    String::from_utf8(memory.range(pointer, length, MAX_STRING_BYTES)?).ok()
}

/// The word of 8 bytes at an offset of `bytes`.
pub(crate) fn word(bytes: &[u8], offset: usize) -> Option<u64> {
    let end = offset.checked_add(8)?;
    Some(u64::from_ne_bytes(bytes.get(offset..end)?.try_into().ok()?))
}

/// The half word of 4 bytes at an offset of `bytes`.
pub(crate) fn half(bytes: &[u8], offset: usize) -> Option<u32> {
    let end = offset.checked_add(4)?;
    Some(u32::from_ne_bytes(bytes.get(offset..end)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::go::tests::synthetic::SyntheticMemory;

    #[test]
    fn strings_are_checked_before_they_are_used() {
        let mut memory = SyntheticMemory::default();
        memory.add(0x1000, b"chan receive\xff".to_vec());
        memory.add_words(0x2000, &[0x1000, 12, 0x1000, 13, 0x1000, 1 << 30, 0x9000, 4, 0, 0]);
        assert_eq!(string_at(&memory, 0x2000).as_deref(), Some("chan receive"));
        assert_eq!(string_at(&memory, 0x2010), None, "not UTF-8");
        assert_eq!(string_at(&memory, 0x2020), None, "1 GB long");
        assert_eq!(string_at(&memory, 0x2030), None, "wild pointer");
        assert_eq!(string_at(&memory, 0x2040).as_deref(), Some(""));
        assert_eq!(string_at(&memory, 0x2048), None, "cut off");
    }
}
