//! Texts and symbols of an interpreter: C strings, shared keys of hashes, symbols (globs) and packages.

use super::layout::PerlShape;
use crate::runtimes::TargetMemory;

/// Most bytes of a text that are read; a longer one is no text here.
const MOST_TEXT_BYTES: usize = 4096;
/// So much of a C string is read at once.
const PIECE: u64 = 64;

/// Types of values, in the low byte of their flags.
pub(super) const IS_GLOB: u32 = 9;
pub(super) const IS_HASH: u32 = 12;
pub(super) const IS_SUB: u32 = 13;
pub(super) const IS_FORMAT: u32 = 14;
/// Flag of a hash that has a name.
const HAS_NAME: u32 = 1 << 25;
/// In the bodies of values: after what all have.
pub(super) const BODY: u64 = 32;
/// In the body of a hash: its greatest index.
const GREATEST_INDEX: u64 = 24;
/// In what a hash with a name has more: how many names there are, a number of 32 bits.
const NAME_COUNT: u64 = 28;
/// Flag after a key's text: it is UTF-8, not Latin-1.
const IS_UTF8: u8 = 1;

/// The head of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerlHead {
    pub(super) body: u64,
    pub(super) flags: u32,
    /// Of a hash: its array.
    pub(super) array: u64,
}

impl PerlHead {
    /// Reads the head of the value at `address`.
    pub(super) fn read(memory: &impl TargetMemory, address: u64) -> Option<Self> {
        let [body, flags, array] = words(memory, address)?;
        Some(PerlHead { body, flags: (flags >> 32) as u32, array })
    }

    /// The type of the value.
    pub(super) fn kind(self) -> u32 {
        self.flags & 0xff
    }
}

/// The `N` words at `address`.
pub(super) fn words<const N: usize>(memory: &impl TargetMemory, address: u64) -> Option<[u64; N]> {
    let mut bytes = [[0; 8]; N];
    memory.read(address, bytes.as_flattened_mut()).then(|| bytes.map(u64::from_ne_bytes))
}

/// The keys by which a symbol and its package are called: `(name, package)`.
pub(super) fn glob_names(memory: &impl TargetMemory, glob: u64) -> Option<(u64, u64)> {
    let head = PerlHead::read(memory, glob).filter(|head| head.kind() == IS_GLOB)?;
    let [name, stash] = words(memory, head.body.checked_add(BODY)?)?;
    Some((name, stash))
}

/// The key by which a package is called.
pub(super) fn stash_name(memory: &impl TargetMemory, shape: &PerlShape, stash: u64) -> Option<u64> {
    let head = PerlHead::read(memory, stash)?;
    if head.kind() != IS_HASH || head.flags & HAS_NAME == 0 {
        return None;
    }
    let more = if shape.is_stash_wide {
        head.body.checked_add(BODY)?
    } else {
        let greatest = memory.u64(head.body.checked_add(GREATEST_INDEX)?)?;
        head.array.checked_add(greatest.checked_add(1)?.checked_mul(8)?)?
    };
    let name = memory.u64(more)?;
    // More than one name: it is a list of them.
    let name = if memory.u32(more.checked_add(NAME_COUNT)?)? == 0 { name } else { memory.u64(name)? };
    Some(name).filter(|&name| name != 0)
}

/// Text of a shared key: a hash, a length, the text, a zero and flags.
pub(super) fn key_text(memory: &impl TargetMemory, key: u64) -> Option<String> {
    let length = u64::from(memory.u32(key.checked_add(4)?)?);
    if length == 0 {
        return None;
    }
    let text = memory.range(key.checked_add(8)?, length.checked_add(2)?, MOST_TEXT_BYTES)?;
    let (text, &[end, flags]) = text.split_last_chunk()?;
    // Zeros stand for what could not be read.
    if end != 0 || text.contains(&0) {
        return None;
    }
    if flags & IS_UTF8 != 0 {
        return String::from_utf8(text.to_vec()).ok();
    }
    Some(text.iter().map(|&byte| char::from(byte)).collect())
}

/// The C string at `address`, with replaced bytes where it is not UTF-8; `None` if it is empty or too long.
pub(super) fn c_text(memory: &impl TargetMemory, address: u64) -> Option<String> {
    let mut text = Vec::new();
    while text.len() < MOST_TEXT_BYTES {
        let at = address.checked_add(text.len() as u64)?;
        // No more than is on a page: the next one may not be there.
        let size = PIECE - at % PIECE;
        let piece = memory.range(at, size, PIECE as usize)?;
        match piece.iter().position(|&byte| byte == 0) {
            Some(end) => {
                text.extend_from_slice(piece.get(..end)?);
                return (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned());
            }
            None => text.extend_from_slice(&piece),
        }
    }
    None
}
