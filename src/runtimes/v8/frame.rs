//! Words of a JavaScript frame that a walker of stacks takes along, and where it finds them.

use super::layout::V8FrameOffsets;
use super::object::{field, is_object, smi};
use crate::runtimes::TargetMemory;

/// Words of one JavaScript frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct V8FrameWords {
    /// Tagged pointer to the JSFunction; it moves with the next collection of young objects.
    pub(crate) function: u64,
    /// Tagged pointer to the SharedFunctionInfo, which moves only when the old space is compacted.
    pub(crate) shared: u64,
    /// Which function that was when the frame was seen: another value later means another function at that address,
    /// or that its script has moved.
    pub(crate) identity: u64,
    /// Word of the bytecode offset; it has a meaning only in interpreted frames.
    pub(crate) bytecode_offset: u64,
}

impl V8FrameOffsets {
    /// Reads the words of the frame at frame pointer `fp`; `None` unless it is a JavaScript frame.
    pub(crate) fn frame_words(&self, memory: &impl TargetMemory, fp: u64) -> Option<V8FrameWords> {
        let slot = |offset: i16| memory.u64(fp.wrapping_add_signed(offset.into()));
        if !is_object(slot(self.context)?) {
            return None;
        }
        let function = slot(self.function)?;
        let shared = field(memory, function, self.shared)?;
        let identity = self.identity(memory, shared)?;
        Some(V8FrameWords { function, shared, identity, bytecode_offset: slot(self.bytecode_offset)? })
    }

    /// Which function the SharedFunctionInfo at `shared` is.
    pub(crate) fn identity(&self, memory: &impl TargetMemory, shared: u64) -> Option<u64> {
        let script = field(memory, shared, self.script)?;
        let number = field(memory, shared, self.number)?;
        Some(script.rotate_left(24) ^ (number & self.number_mask))
    }
}

impl V8FrameWords {
    /// Bytecode offset of an interpreted frame, as the kernel side notes it.
    pub(crate) fn position(&self) -> Option<u32> {
        smi(self.bytecode_offset).map(i32::cast_unsigned)
    }

    /// Bytecode offset of an interpreted frame, from the start of the object of its bytecodes less its tag.
    pub(super) fn raw_bytecode_offset(&self) -> Option<u32> {
        u32::try_from(smi(self.bytecode_offset)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use crate::runtimes::v8::fake::FakeHeap;

    #[test]
    fn javascript_frame_gives_its_function() {
        let heap = FakeHeap::with_function();
        let words = heap.layout().frame.frame_words(&heap, heap.fp).unwrap();
        assert_eq!(words.shared, heap.shared);
        assert_eq!(words.raw_bytecode_offset(), Some(heap.bytecode_offset));
        assert_eq!(heap.layout().frame.identity(&heap, heap.shared), Some(words.identity));
    }

    #[test]
    fn other_frames_and_wild_pointers_give_nothing() {
        let mut heap = FakeHeap::with_function();
        let layout = heap.layout();
        assert_eq!(layout.frame.frame_words(&heap, 0), None);
        assert_eq!(layout.frame.frame_words(&heap, u64::MAX - 7), None);
        heap.put(heap.fp - 16, 0xdead_beef_0001);
        assert_eq!(layout.frame.frame_words(&heap, heap.fp), None);
        heap.put(heap.fp - 8, 13 << 1);
        assert_eq!(layout.frame.frame_words(&heap, heap.fp), None);
    }
}
