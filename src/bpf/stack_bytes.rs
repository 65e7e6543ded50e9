//! Copies of stacks, in memory that is used again.
//!
//! Without BPF programs every sample has such a copy. Allocators give back memory of that size at once, so that each copy would
//! cost a mapping and a page fault for every 4,096 bytes of it: as much as the walk.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Smaller copies are left to the allocator, which keeps memory of that size itself.
const SMALLEST_KEPT: usize = 4 << 10;
/// Larger ones are rare, and a small copy in their memory would hold all of it.
const LARGEST_KEPT: usize = 128 << 10;
/// Most bytes of memory that wait for the next copy: those of a second's burst.
const MOST_KEPT: usize = 4 << 20;

static UNUSED: Mutex<Unused> = Mutex::new(Unused { buffers: Vec::new(), bytes: 0 });

/// Memory of copies that are gone.
#[derive(Debug)]
struct Unused {
    buffers: Vec<Vec<u8>>,
    /// Their room together.
    bytes: usize,
}

impl Unused {
    fn lock() -> MutexGuard<'static, Self> {
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    fn keep(&mut self, buffer: Vec<u8>) {
        if self.bytes + buffer.capacity() <= MOST_KEPT {
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
}

/// Bytes of a stack.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StackBytes(Vec<u8>);

impl StackBytes {
    /// A copy of `bytes`.
    pub(crate) fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = match bytes.len() {
            SMALLEST_KEPT..=LARGEST_KEPT => Unused::lock().take(),
            _ => Vec::new(),
        };
        buffer.clear();
        buffer.extend_from_slice(bytes);
        StackBytes(buffer)
    }
}

impl Clone for StackBytes {
    fn clone(&self) -> Self {
        StackBytes::copy_of(self)
    }
}

impl From<Vec<u8>> for StackBytes {
    fn from(bytes: Vec<u8>) -> Self {
        StackBytes(bytes)
    }
}

impl Deref for StackBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for StackBytes {
    fn drop(&mut self) {
        if (SMALLEST_KEPT..=LARGEST_KEPT).contains(&self.0.capacity()) {
            Unused::lock().keep(std::mem::take(&mut self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_bytes_and_nothing_of_those_before_it() {
        for length in [0, 1, SMALLEST_KEPT, 60_000, SMALLEST_KEPT + 1, LARGEST_KEPT + 1, SMALLEST_KEPT] {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
            let copy = StackBytes::copy_of(&bytes);
            assert_eq!(*copy, bytes[..]);
            assert_eq!(copy.clone(), copy);
            let most = LARGEST_KEPT.max(length);
            assert!(copy.0.capacity() <= most, "{} bytes for {length}", copy.0.capacity());
        }
    }

    #[test]
    fn memory_that_is_kept_is_bounded_and_counted() {
        let mut unused = Unused { buffers: Vec::new(), bytes: 0 };
        for _ in 0..1000 {
            unused.keep(Vec::with_capacity(64 << 10));
        }
        assert_eq!(unused.buffers.len(), MOST_KEPT / (64 << 10));
        let of_buffers = |unused: &Unused| unused.buffers.iter().map(Vec::capacity).sum::<usize>();
        assert_eq!(unused.bytes, of_buffers(&unused));
        while !unused.buffers.is_empty() {
            assert_eq!(unused.take().capacity(), 64 << 10);
        }
        assert_eq!((unused.bytes, unused.take().capacity()), (0, 0), "none is left");
    }
}
