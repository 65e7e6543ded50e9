//! Strings of PHP.

use super::layout::{PhpOffsets, field};
use crate::runtimes::memory::TargetMemory;

/// Most bytes of a string that are read; a longer one has no text here.
const MOST_TEXT_BYTES: usize = 4096;

/// Bytes of the string at `address`; `None` if it is too long or cannot be read.
pub(crate) fn read_bytes(memory: &impl TargetMemory, offsets: &PhpOffsets, address: u64) -> Option<Vec<u8>> {
    let length = memory.u64(field(address, offsets.text_length)?)?;
    memory.range(field(address, offsets.text_length)?.checked_add(8)?, length, MOST_TEXT_BYTES)
}

/// The string at `address` as text.
pub(crate) fn read_text(memory: &impl TargetMemory, offsets: &PhpOffsets, address: u64) -> Option<String> {
    Some(String::from_utf8_lossy(&read_bytes(memory, offsets, address)?).into_owned())
}

/// Name of a function or class. What is called after a class without a name has its file, line and number in it, behind a
/// byte of zero: these are left out.
pub(crate) fn read_name(memory: &impl TargetMemory, offsets: &PhpOffsets, address: u64) -> Option<String> {
    let bytes = read_bytes(memory, offsets, address)?;
    let text = String::from_utf8_lossy(&bytes);
    let name = match text.split_once('\0') {
        // A function made of a string, up to PHP 7.
        Some(("", rest)) => rest.replace('\0', ""),
        Some((start, rest)) => {
            let end = rest.rsplit_once('$').map_or("", |(_, end)| end);
            format!(
                "{start}{}",
                end.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()).replace('\0', "")
            )
        }
        None => text.into_owned(),
    };
    (!name.is_empty()).then_some(name)
}
