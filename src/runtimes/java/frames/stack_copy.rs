//! Memory of a thread as it was at a sample: a copy of its stack over the memory of the process as it is now.

use crate::runtimes::memory::TargetMemory;

/// Bytes above a copy in which the rest of the stack may lie.
const STACK_REACH: u64 = 8 << 20;

/// Stack bytes copied at a sample, and the memory of the process for all other addresses.
pub(crate) struct JavaStackCopy<'a, M, S> {
    /// Address of the first byte of `bytes`.
    pub(crate) start: u64,
    pub(crate) bytes: &'a [u8],
    /// Whether some bytes of the copy, from an address on, could not be read.
    pub(crate) lacks: &'a dyn Fn(u64, usize) -> bool,
    /// Whether an address above the copy is still of the thread's stack: reads of it fail, for the thread has run on.
    pub(crate) is_stack: S,
    pub(crate) memory: &'a M,
}

impl<M: TargetMemory, S: Fn(u64) -> bool> TargetMemory for JavaStackCopy<'_, M, S> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let Some(end) = address.checked_add(bytes.len() as u64) else { return false };
        let copied = address.checked_sub(self.start).and_then(|start| {
            let start = usize::try_from(start).ok()?;
            self.bytes.get(start..start.checked_add(bytes.len())?)
        });
        if let Some(copied) = copied {
            bytes.copy_from_slice(copied);
            return !(self.lacks)(address, bytes.len());
        }
        let copy_end = self.start.saturating_add(self.bytes.len() as u64);
        let meets_copy = address < copy_end && self.start < end;
        let is_near = address < copy_end.saturating_add(STACK_REACH) && address >= copy_end;
        !(meets_copy || is_near && (self.is_stack)(address)) && self.memory.read(address, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::java::fake::{FakeJvm, META, STACK};

    #[test]
    fn the_stack_is_read_from_the_copy_alone() {
        let mut now = FakeJvm::new();
        now.word(STACK + 0x100, 99);
        now.word(META, 7);
        let bytes = 5_u64.to_le_bytes();
        let copy = JavaStackCopy {
            start: STACK + 0x100,
            bytes: &bytes,
            lacks: &|_, _| false,
            is_stack: |address| (STACK..STACK + 0x1_0000).contains(&address),
            memory: &now,
        };
        assert_eq!(copy.u64(STACK + 0x100), Some(5), "as it was");
        assert_eq!(copy.u64(STACK + 0x104), None, "half of it not copied");
        assert_eq!(copy.u64(STACK + 0x200), None, "has changed since");
        assert_eq!(copy.u64(META), Some(7));
        assert_eq!(copy.u64(u64::MAX - 3), None);
    }
}
