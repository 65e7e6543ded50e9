//! Memory of a process that notes what is read of it: so a code object can be read again when it is gone.

use crate::runtimes::TargetMemory;
use std::cell::RefCell;

/// Most bytes that are noted: what needs more is read later.
const MOST_BYTES: usize = 1 << 16;

/// Memory that notes what is read of it.
pub(super) struct SeenMemory<'m, M> {
    memory: &'m M,
    /// Process addresses and bytes.
    parts: RefCell<Vec<(u64, Vec<u8>)>>,
}

impl<'m, M: TargetMemory> SeenMemory<'m, M> {
    pub(super) fn new(memory: &'m M) -> Self {
        SeenMemory { memory, parts: RefCell::default() }
    }

    /// What was read, in this order; `None` where that is too much.
    pub(super) fn into_parts(self) -> Option<Vec<(u64, Vec<u8>)>> {
        let parts = self.parts.into_inner();
        let bytes: usize = parts.iter().map(|(_, part)| part.len()).sum();
        (bytes <= MOST_BYTES).then_some(parts)
    }
}

impl<M: TargetMemory> TargetMemory for SeenMemory<'_, M> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let is_read = self.memory.read(address, bytes);
        if is_read {
            self.parts.borrow_mut().push((address, bytes.to_vec()));
        }
        is_read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory below 4,096 whose bytes are the low ones of their addresses.
    struct Low;

    impl TargetMemory for Low {
        fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
            bytes.iter_mut().zip(address..).for_each(|(byte, address)| *byte = address as u8);
            address < 4096
        }
    }

    #[test]
    fn what_was_read_is_noted_and_too_much_is_not_kept() {
        let seen = SeenMemory::new(&Low);
        assert_eq!((seen.bytes::<2>(7), seen.u8(5000)), (Some([7, 8]), None));
        assert_eq!(seen.into_parts(), Some(vec![(7, vec![7, 8])]));
        let seen = SeenMemory::new(&Low);
        assert!(seen.range(0, MOST_BYTES as u64, MOST_BYTES).is_some() && seen.u8(1).is_some());
        assert_eq!(seen.into_parts(), None);
    }
}
