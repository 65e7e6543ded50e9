//! Strings and byte strings of an interpreter, in every form it stores them.

use super::layout::PythonObjectLayout;
use crate::runtimes::memory::TargetMemory;

/// Most bytes of a string that are read; a longer one has no text here.
const MOST_TEXT_BYTES: u64 = 4096;
/// Most bytes of a byte string that are read.
const MOST_BYTES: usize = 1 << 20;
/// Size of the header of an ASCII string with the fields of versions before 3.12.
const OLD_ASCII_SIZE: u32 = 48;

/// State bits of a string.
struct PythonTextState {
    /// Bytes a character: 1, 2 or 4; 0 for a string of wide characters that was never made ready (up to 3.11).
    width: u32,
    /// The characters follow the header.
    is_compact: bool,
    is_ascii: bool,
}

impl PythonTextState {
    fn of(word: u32, object: &PythonObjectLayout) -> Self {
        let bits = word.checked_shr(object.text_state_shift).unwrap_or(0);
        Self { width: bits & 7, is_compact: bits & 8 != 0, is_ascii: bits & 16 != 0 }
    }
}

/// Text of the string object at `address`; `None` if it is none, is too long, or holds what is no character.
pub(crate) fn read_text(
    memory: &impl TargetMemory,
    object: &PythonObjectLayout,
    address: u64,
) -> Option<String> {
    if memory.u64(field(address, object.type_offset())?)? != object.text_type {
        return None;
    }
    let state = PythonTextState::of(memory.u32(field(address, object.text_state)?)?, object);
    let length = memory.u64(field(address, object.length_offset())?)?;
    let (place, length, width) = characters(memory, object, address, &state, length)?;
    let bytes = length.checked_mul(width).filter(|&bytes| bytes <= MOST_TEXT_BYTES)?;
    decode(&memory.range(place, bytes, 4096)?, width, state.is_ascii)
}

/// Address, number and width of the characters of a string.
fn characters(
    memory: &impl TargetMemory,
    object: &PythonObjectLayout,
    address: u64,
    state: &PythonTextState,
    length: u64,
) -> Option<(u64, u64, u64)> {
    let is_old = object.ascii_size == OLD_ASCII_SIZE;
    // After the ASCII header: length and pointer of the UTF-8 form, and up to 3.11 the length of the wide form.
    let compact_size = object.ascii_size.checked_add(if is_old { 24 } else { 16 })?;
    match (state.is_compact, state.width) {
        (true, 1) if state.is_ascii => Some((field(address, object.ascii_size)?, length, 1)),
        (true, width @ (1 | 2 | 4)) if !state.is_ascii => {
            Some((field(address, compact_size)?, length, u64::from(width)))
        }
        (false, width @ (1 | 2 | 4)) => {
            Some((memory.u64(field(address, compact_size)?)?, length, u64::from(width)))
        }
        (false, 0) if is_old => {
            let wide = memory.u64(field(address, object.ascii_size - 8)?)?;
            Some((wide, memory.u64(field(address, compact_size - 8)?)?, 4))
        }
        _ => None,
    }
}

fn decode(bytes: &[u8], width: u64, is_ascii: bool) -> Option<String> {
    match width {
        1 if is_ascii && !bytes.is_ascii() => None,
        1 => Some(bytes.iter().map(|&byte| char::from(byte)).collect()),
        2 => {
            let units = bytes.as_chunks::<2>().0.iter().map(|unit| u32::from(u16::from_le_bytes(*unit)));
            units.map(|unit| Some(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))).collect()
        }
        4 => bytes.as_chunks::<4>().0.iter().map(|unit| wide_character(u32::from_le_bytes(*unit))).collect(),
        _ => None,
    }
}

/// Character of a code point; names of files that are not UTF-8 hold surrogates, which are shown as replaced.
fn wide_character(point: u32) -> Option<char> {
    match point {
        0xd800..=0xdfff => Some(char::REPLACEMENT_CHARACTER),
        _ => char::from_u32(point),
    }
}

/// Content of the byte string object at `address`; `None` if it is none or is too long.
pub(crate) fn read_bytes(
    memory: &impl TargetMemory,
    object: &PythonObjectLayout,
    address: u64,
) -> Option<Vec<u8>> {
    if memory.u64(field(address, object.type_offset())?)? != object.bytes_type {
        return None;
    }
    let size = memory.u64(field(address, object.length_offset())?)?;
    // Length and cached hash lie before the content.
    memory.range(field(address, object.header.checked_add(16)?)?, size, MOST_BYTES)
}

/// Address of a field; `None` past the end of the address space.
pub(crate) fn field(address: u64, offset: u32) -> Option<u64> {
    address.checked_add(u64::from(offset))
}
