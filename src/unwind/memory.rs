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
pub struct StackCopy<'a> {
    /// The process address of the first byte.
    pub start: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl Memory for StackCopy<'_> {
    fn read(&self, address: u64) -> Result<u64, MemoryError> {
        address
            .checked_sub(self.start)
            .and_then(|distance| self.bytes.get(usize::try_from(distance).ok()?..))
            .and_then(|rest| rest.first_chunk())
            .map(|bytes| u64::from_le_bytes(*bytes))
            .ok_or(MemoryError::OutsideCopy)
    }
}
