//! Objects of the interpreter: their kinds, strings, and elements of arrays.

use super::layout::{RubyOffsets, words_of};
use crate::runtimes::memory::TargetMemory;

/// Most bytes of a string that are read; a longer one has no text here.
const MOST_TEXT_BYTES: usize = 4096;
/// Bits of an object's flags that say what kind of object it is.
const KIND: u64 = 0x1f;
const STRING: u64 = 0x05;
const ARRAY: u64 = 0x07;
/// Kinds of objects that programs do not see have four more bits.
const INTERNAL_KIND: u64 = 0xf01f;
const CALLBACK: u64 = 0x401a;
const METHOD: u64 = 0x601a;
const SEQUENCE: u64 = 0x701a;
/// A string whose bytes, and an array whose elements, are not its own, or are: one bit says so of both, the other way round.
const SPECIAL: u64 = 1 << 13;

/// What an object is, as far as frames point to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RubyKind {
    /// Instructions of a method, block or file.
    Sequence,
    /// Entry of a method.
    Method,
    /// Function in C that stands for a block.
    Callback,
    Other,
}

impl RubyKind {
    pub(crate) fn of_flags(flags: u64) -> Self {
        match flags & INTERNAL_KIND {
            SEQUENCE => Self::Sequence,
            METHOD => Self::Method,
            CALLBACK => Self::Callback,
            _ => Self::Other,
        }
    }

    /// What the object at `address` is; `None` if it cannot be read.
    pub(crate) fn of(memory: &impl TargetMemory, address: u64) -> Option<Self> {
        memory.u64(address).map(Self::of_flags)
    }
}

/// Length and place of the bytes of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RubyBytes {
    pub(crate) address: u64,
    pub(crate) length: u64,
}

impl RubyBytes {
    /// The bytes of the string at `address`; `None` if it is none.
    pub(crate) fn of(memory: &impl TargetMemory, offsets: &RubyOffsets, address: u64) -> Option<Self> {
        let [flags, _, third, fourth] = words_of(&memory.bytes::<32>(address)?);
        if flags & KIND != STRING {
            return None;
        }
        let (place, length) = match (flags & SPECIAL != 0, offsets.has_length_word) {
            (true, _) => (fourth, third),
            (false, true) => (address.checked_add(24)?, third),
            (false, false) => (address.checked_add(16)?, flags >> 14 & 0x1f),
        };
        Some(Self { address: place, length })
    }
}

/// Text of the string at `address`; `None` if it is none, is too long, or holds a zero.
pub(crate) fn read_text(memory: &impl TargetMemory, offsets: &RubyOffsets, address: u64) -> Option<String> {
    let bytes = RubyBytes::of(memory, offsets, address)?;
    let bytes = memory.range(bytes.address, bytes.length, MOST_TEXT_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    (!text.contains('\0')).then(|| text.into_owned())
}

/// Length and place of the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RubyElements {
    address: u64,
    pub(crate) length: u64,
}

impl RubyElements {
    /// Elements of the array at `address`; `None` if it is none.
    pub(crate) fn of(memory: &impl TargetMemory, address: u64) -> Option<Self> {
        let flags = memory.u64(address).filter(|flags| flags & KIND == ARRAY)?;
        if flags & SPECIAL != 0 {
            return Some(Self { address: address.checked_add(16)?, length: flags >> 15 & 0x7f });
        }
        let [length, _, place] = words_of(&memory.bytes::<24>(address.checked_add(16)?)?);
        Some(Self { address: place, length })
    }

    /// Element number `index`; `None` if there is none.
    pub(crate) fn get(self, memory: &impl TargetMemory, index: u64) -> Option<u64> {
        (index < self.length).then_some(())?;
        memory.u64(self.address.checked_add(index.checked_mul(8)?)?)
    }
}
