//! Compressed numbers (UNSIGNED5) of line tables and scopes.

use super::tables::JavaTables;
use crate::runtimes::memory::TargetMemory;

/// First byte value that says another byte follows.
const HIGH: u32 = 192;
/// Bytes of a number at most.
const LONGEST: usize = 5;
/// First JDK whose numbers have no zero bytes.
const WITHOUT_ZERO: u32 = 20;

/// Whether bytes of a number may be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JavaNumberCoding {
    /// JDK 8 to 19: a byte has its own value.
    WithZero,
    /// From JDK 20 on a byte counts one less than its value.
    WithoutZero,
}

impl JavaNumberCoding {
    /// Coding of the JVM whose tables these are.
    pub(crate) fn of(memory: &impl TargetMemory, tables: &JavaTables) -> Self {
        let version = tables.address("Abstract_VM_Version", "_vm_major_version");
        let version = version.and_then(|address| memory.u32(address));
        // HotSpot of JDK 8 counts its own version, 25; only it has a single code heap under this name.
        let is_old = tables.address("CodeCache", "_heap").is_some();
        if is_old || version.is_some_and(|version| version < WITHOUT_ZERO) {
            Self::WithZero
        } else {
            Self::WithoutZero
        }
    }
}

/// Numbers one after the other in bytes.
pub(crate) struct JavaNumbers<'a> {
    bytes: &'a [u8],
    coding: JavaNumberCoding,
}

impl<'a> JavaNumbers<'a> {
    pub(crate) fn new(bytes: &'a [u8], coding: JavaNumberCoding) -> Self {
        Self { bytes, coding }
    }

    /// Next byte as it is.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    /// Next number; `None` at the end and for a byte that this coding does not use.
    pub(crate) fn unsigned(&mut self) -> Option<u32> {
        let bias = u32::from(self.coding == JavaNumberCoding::WithoutZero);
        let mut number = 0_u32;
        for index in 0..LONGEST {
            let byte = u32::from(self.byte()?);
            number = number.wrapping_add(byte.checked_sub(bias)?.wrapping_shl(6 * index as u32));
            if byte < HIGH {
                break;
            }
        }
        Some(number)
    }

    /// Next number with a sign, which is its lowest bit.
    pub(crate) fn signed(&mut self) -> Option<i32> {
        let number = self.unsigned()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_codings() {
        let mut old = JavaNumbers::new(&[191, 192, 1, 255, 255, 255, 255, 3], JavaNumberCoding::WithZero);
        assert_eq!(old.unsigned(), Some(191));
        assert_eq!(old.unsigned(), Some(192 + 64));
        assert!(old.unsigned().is_some());
        assert_eq!(old.unsigned(), None);
        let mut new = JavaNumbers::new(&[1, 192, 2, 0], JavaNumberCoding::WithoutZero);
        assert_eq!(new.unsigned(), Some(0));
        assert_eq!(new.unsigned(), Some(191 + 64));
        assert_eq!(new.unsigned(), None, "a zero byte is no number");
    }

    #[test]
    fn signs_are_the_lowest_bit() {
        let mut numbers = JavaNumbers::new(&[0, 1, 2, 3], JavaNumberCoding::WithZero);
        let all: Vec<_> = std::iter::from_fn(|| numbers.signed()).collect();
        assert_eq!(all, [0, -1, 1, -2]);
    }
}
