//! The stack memory that a walk reads.

/// Why eight bytes could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryError {
    /// Nothing is mapped there, or it cannot be read.
    Unreadable,
    /// The copy does not reach that far.
    OutsideCopy,
}

/// Memory of the thread whose stack is walked.
pub trait Memory {
    /// Eight bytes, little-endian, at a process address.
    ///
    /// # Errors
    ///
    /// The address is not mapped, or not in the copy.
    fn read(&self, address: u64) -> Result<u64, MemoryError>;
}

/// A copy of one range of a stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackCopy<'a> {
    /// The process address of the first byte.
    pub start: u64,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Bit n of all: the copy lacks its nth block, counted from the one that `start` lies in. A page that its thread has not
    /// touched yet, as in the middle of a large frame, cannot be copied.
    pub missing_blocks: [u64; 4],
}

/// Size that a bit of [`StackCopy::missing_blocks`] covers, bytes.
const BLOCK_BYTES: u64 = 4096;

impl StackCopy<'_> {
    /// Whether the byte at an address could not be copied.
    pub(crate) fn lacks(&self, address: u64) -> bool {
        let block = (address / BLOCK_BYTES).wrapping_sub(self.start / BLOCK_BYTES);
        let word = usize::try_from(block / 64).ok().and_then(|index| self.missing_blocks.get(index));
        word.is_some_and(|word| word >> (block % 64) & 1 != 0)
    }
}

impl Memory for StackCopy<'_> {
    fn read(&self, address: u64) -> Result<u64, MemoryError> {
        if self.lacks(address) || self.lacks(address.wrapping_add(7)) {
            return Err(MemoryError::Unreadable);
        }
        address
            .checked_sub(self.start)
            .and_then(|distance| self.bytes.get(usize::try_from(distance).ok()?..))
            .and_then(|rest| rest.first_chunk())
            .map(|bytes| u64::from_le_bytes(*bytes))
            .ok_or(MemoryError::OutsideCopy)
    }
}
