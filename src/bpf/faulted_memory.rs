//! The memory that a page fault was in.

use super::layout::number;

/// Kind of memory, as `/proc/PID/maps` tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum FaultedMemory {
    /// It is no page fault, or the memory could not be looked at.
    #[default]
    Unknown,
    /// What brk(2) has given: most of what a C library's allocator hands out.
    Heap,
    /// The stack of a thread.
    Stack,
    /// Of a file, or shared with other processes.
    File,
    /// Any other: of mmap(2), by allocators and runtimes.
    Anonymous,
}

impl FaultedMemory {
    /// By `enum prof_memory`.
    pub(super) fn of(code: u8) -> Self {
        match u64::from(code) {
            number::PROF_MEMORY_HEAP => FaultedMemory::Heap,
            number::PROF_MEMORY_STACK => FaultedMemory::Stack,
            number::PROF_MEMORY_FILE => FaultedMemory::File,
            number::PROF_MEMORY_ANONYMOUS => FaultedMemory::Anonymous,
            _ => FaultedMemory::Unknown,
        }
    }

    /// The value of the label `memory`, if there is one.
    pub(crate) fn label(self) -> Option<&'static str> {
        match self {
            FaultedMemory::Unknown => None,
            FaultedMemory::Heap => Some("heap"),
            FaultedMemory::Stack => Some("stack"),
            FaultedMemory::File => Some("file"),
            FaultedMemory::Anonymous => Some("anonymous"),
        }
    }
}
