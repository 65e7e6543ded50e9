//! Functions that the optimising compilers have inlined, at a return address in their code.
//! Compilers note positions of calls only, so nothing is said of other instructions.

use rustc_hash::FxHashSet;

use super::bytecode::{MOST_TABLE, bytecode_array, linked_bytecodes, source_offset};
use super::code::{V8Code, V8CodeKind};
use super::layout::{V8CodeOffsets, V8Layout};
use super::object::{
    address, array_length, byte_array, count, element, field, instance_type, is_object, of_type,
};
use super::positions::{V8Position, V8PositionPacking, has_own_positions, position_at};
use crate::runtimes::TargetMemory;

/// Distance from where a call's position is noted to its return address, at most, in bytes.
const MOST_CALL: u32 = 64;
/// Depth of inlining, at most.
const MOST_DEPTH: usize = 64;
/// Size of one inlining position: the position of the call, the number of the function and padding.
const INLINING_SIZE: u32 = 16;
/// Words between the index of the inlining positions and the first entry of deoptimisation, and of one entry:
/// bytecode, translation, return address as offset from the start of the code.
const FIRST_ENTRY: u32 = 4;
const ENTRY_WORDS: u32 = 3;
/// Entries of deoptimisation, at most.
const MOST_ENTRIES: u32 = 40_000;

/// Function at a return address in optimised code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct V8Inlined {
    /// SharedFunctionInfo of the function; `None` for the one whose code it is.
    pub(crate) shared: Option<u64>,
    /// Offset in its source of the call; absent if V8 has omitted positions of it.
    pub(crate) source_offset: Option<u32>,
}

/// Parts of the deoptimisation data of one code object.
struct V8Deoptimization {
    data: u64,
    literals: u64,
    inlined: u32,
    inlinings: u64,
}

impl V8Inlined {
    /// Functions at `pc` in optimised code, innermost first; the last is the function whose code it is. `None` if that
    /// cannot be told for certain, which it can at any instruction of code without inlined functions, and at return
    /// addresses of code whose compiler noted positions: Maglev does not.
    pub(crate) fn at(
        memory: &impl TargetMemory,
        layout: &V8Layout,
        code: &V8Code,
        pc: u64,
    ) -> Option<Vec<Self>> {
        if !matches!(code.kind, V8CodeKind::Maglev | V8CodeKind::Turbofan) {
            return None;
        }
        let offsets = layout.code.as_ref()?;
        let data = deoptimization(memory, layout, offsets, code)?;
        if data.inlined > 0 {
            return Self::at_call(memory, layout, offsets, &data, code, pc);
        }
        let offset = u32::try_from(pc.checked_sub(code.start)?).ok()?;
        let call = data.call(memory, layout, offsets, offset, offset);
        let place = |(bytecode, _)| source_offset(memory, layout, code.owner(memory, layout)?, bytecode);
        Some(vec![Self { shared: None, source_offset: call.and_then(place) }])
    }

    /// Functions at the return address `pc`, from the position of its call.
    fn at_call(
        memory: &impl TargetMemory,
        layout: &V8Layout,
        offsets: &V8CodeOffsets,
        data: &V8Deoptimization,
        code: &V8Code,
        pc: u64,
    ) -> Option<Vec<Self>> {
        let offset = u32::try_from(pc.checked_sub(code.start)?).ok()?;
        let table = byte_array(memory, layout, field(memory, code.object, offsets.positions)?, MOST_TABLE)?;
        let packing = V8PositionPacking::of_version(layout.version?)?;
        let (noted, position) = position_at(&table, packing, offset.checked_sub(1)?)?;
        let (bytecode, between) = data.call(memory, layout, offsets, noted, offset)?;
        // Calls of the function itself are not noted if it had no positions when it was compiled: then the call must
        // be the very next after its note.
        if !has_own_positions(&table, packing) && (between > 0 || offset - noted > MOST_CALL) {
            return None;
        }
        let found = data.chain(memory, layout, position)?;
        // The bytecode to go on with after the call must come from the place noted.
        let innermost = found.first()?.shared.or_else(|| code.owner(memory, layout))?;
        let agrees =
            source_offset(memory, layout, innermost, bytecode).is_some_and(|at| Some(at) == position.offset);
        agrees.then_some(found)
    }
}

impl V8Code {
    /// Whether this is code of the function at `shared`; `None` if that cannot be told, as with the interpreter's. At
    /// the first instructions of a function the frame pointer is still that of its caller: then it is not.
    pub(crate) fn is_of(&self, memory: &impl TargetMemory, layout: &V8Layout, shared: u64) -> Option<bool> {
        match self.kind {
            V8CodeKind::Interpreted => None,
            V8CodeKind::Baseline => {
                let own = linked_bytecodes(memory, layout, self.object)?;
                Some(own == bytecode_array(memory, layout, shared)?)
            }
            V8CodeKind::Maglev | V8CodeKind::Turbofan => Some(self.owner(memory, layout)? == shared),
        }
    }

    /// SharedFunctionInfo of the function that this optimised code was made for.
    pub(crate) fn owner(&self, memory: &impl TargetMemory, layout: &V8Layout) -> Option<u64> {
        if !matches!(self.kind, V8CodeKind::Maglev | V8CodeKind::Turbofan) {
            return None;
        }
        let offsets = layout.code.as_ref()?;
        let data = deoptimization(memory, layout, offsets, self)?.data;
        let word = element(memory, layout, data, offsets.owner)?;
        let kind = instance_type(memory, layout, word)?;
        let shared = if Some(kind) == layout.types.shared_wrapper { field(memory, word, 8)? } else { word };
        of_type(memory, layout, shared, layout.types.shared)
    }
}

impl V8Deoptimization {
    /// Functions from the innermost at `position` to the one whose code it is.
    fn chain(
        &self,
        memory: &impl TargetMemory,
        layout: &V8Layout,
        mut position: V8Position,
    ) -> Option<Vec<V8Inlined>> {
        let mut found = Vec::new();
        for _ in 0..MOST_DEPTH {
            let Some(inlining) = position.inlining else {
                found.push(V8Inlined { shared: None, source_offset: position.offset });
                return Some(found);
            };
            let length = array_length(memory, layout, self.inlinings)?;
            let at = inlining.checked_mul(INLINING_SIZE)?;
            if at.checked_add(INLINING_SIZE)? > length {
                return None;
            }
            let start = address(self.inlinings, layout.array_data)?.checked_add(at.into())?;
            let function = memory.u32(start + 8)?.cast_signed();
            let shared = self.function(memory, layout, u32::try_from(function).ok()?)?;
            found.push(V8Inlined { shared: Some(shared), source_offset: position.offset });
            position = V8Position::unpack(memory.u64(start)?)?;
        }
        None
    }

    /// SharedFunctionInfo of the inlined function of this number.
    fn function(&self, memory: &impl TargetMemory, layout: &V8Layout, number: u32) -> Option<u64> {
        if number >= self.inlined {
            return None;
        }
        // Literals are held weakly: the second bit of the tag.
        let word = element(memory, layout, self.literals, number)? & !2;
        of_type(memory, layout, word, layout.types.shared)
    }

    /// Call that returns to `to`: its bytecode in the innermost function, and how many other calls return to after
    /// `from` and before it. `None` if no call returns to `to`.
    fn call(
        &self,
        memory: &impl TargetMemory,
        layout: &V8Layout,
        offsets: &V8CodeOffsets,
        from: u32,
        to: u32,
    ) -> Option<(u32, usize)> {
        let length = array_length(memory, layout, self.data)?;
        let first = offsets.inlining_positions + FIRST_ENTRY;
        let entries = length.checked_sub(first)? / ENTRY_WORDS;
        let size = u64::from(entries.min(MOST_ENTRIES)) * u64::from(ENTRY_WORDS) * 8;
        let start = address(self.data, layout.array_data)?.checked_add(8 * u64::from(first))?;
        let bytes = memory.range(start, size, MOST_TABLE)?;
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_ne_bytes(word)).collect();
        let calls = words.as_chunks::<3>().0.iter();
        let calls: Vec<_> = calls.filter_map(|&[bytecode, _, pc]| Some((count(pc)?, bytecode))).collect();
        let &(_, bytecode) = calls.iter().find(|&&(pc, _)| pc == to)?;
        let between: FxHashSet<u32> =
            calls.iter().map(|&(pc, _)| pc).filter(|&pc| from < pc && pc < to).collect();
        Some((count(bytecode)?, between.len()))
    }
}

fn deoptimization(
    memory: &impl TargetMemory,
    layout: &V8Layout,
    offsets: &V8CodeOffsets,
    code: &V8Code,
) -> Option<V8Deoptimization> {
    let array = |word: u64| {
        let kind = instance_type(memory, layout, word).filter(|_| is_object(word))?;
        layout.types.fixed_arrays.contains(&kind).then_some(word)
    };
    let data = array(field(memory, code.object, offsets.deoptimization)?)?;
    let literals = array(element(memory, layout, data, offsets.literals)?)?;
    let inlined = count(element(memory, layout, data, offsets.inlined_count)?)?;
    let inlinings = element(memory, layout, data, offsets.inlining_positions)?;
    let kind = instance_type(memory, layout, inlinings)?;
    layout.types.byte_arrays.contains(&kind).then_some(V8Deoptimization {
        data,
        literals,
        inlined,
        inlinings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::v8::code::V8Codes;
    use crate::runtimes::v8::fake::{FakeHeap, smi};

    /// Heap with code whose call that returns to 30 was inlined from `work`, called at offset 9 of the source.
    fn inlined(own_positions: bool, number: u64) -> (FakeHeap, u64) {
        let mut heap = FakeHeap::with_function();
        // At 2 the function itself if it has positions, at 20 inlining 0 at offset 15.
        let raw = (16_i64 << 1) | (1 << 31);
        let mut table = if own_positions { vec![0x06, 8, 0x24] } else { vec![0x2a] };
        let mut delta = 2 * (raw - if own_positions { 4 } else { 0 });
        while delta > 0x7f {
            table.push(0x80 | u8::try_from(delta & 0x7f).unwrap());
            delta >>= 7;
        }
        table.push(u8::try_from(delta).unwrap());
        let table = heap.byte_array(&table);
        let inlining = heap.byte_array(&[0; 16]);
        heap.put(inlining - 1 + 16, 10 << 1);
        heap.put(inlining - 1 + 24, number);
        let literals = heap.fixed_array(&[heap.shared | 2]);
        let entries = [smi(2), 0, smi(30), smi(2), 0, smi(40), smi(9), 0, smi(50)];
        let owner = heap.object(195, &[heap.shared]);
        let head = [0, smi(1), 0, literals, 0, 0, 0, owner, inlining, 0, 0, 0];
        let data = heap.fixed_array(&[&head[..], &entries[..]].concat());
        let start = heap.code_with(12, 0x100, data, table);
        (heap, start)
    }

    fn at(heap: &FakeHeap, pc: u64) -> Option<Vec<V8Inlined>> {
        let layout = heap.layout();
        let code = V8Codes::default().at(heap, &layout, pc)?;
        V8Inlined::at(heap, &layout, &code, pc)
    }

    #[test]
    fn call_has_the_functions_it_was_inlined_from() {
        for own_positions in [true, false] {
            let (heap, start) = inlined(own_positions, 0);
            let inner = V8Inlined { shared: Some(heap.shared), source_offset: Some(15) };
            let outer = V8Inlined { shared: None, source_offset: Some(9) };
            assert_eq!(at(&heap, start + 30), Some(vec![inner, outer]));
            // No call returns there.
            assert_eq!(at(&heap, start + 31), None);
        }
    }

    #[test]
    fn later_call_is_told_only_if_every_call_was_noted() {
        let (heap, start) = inlined(true, 0);
        assert!(at(&heap, start + 40).is_some());
        // The bytecode of this one comes from elsewhere.
        assert_eq!(at(&heap, start + 50), None);
        let (heap, start) = inlined(false, 0);
        assert_eq!(at(&heap, start + 40), None);
    }

    #[test]
    fn code_without_inlined_functions_needs_no_positions() {
        let mut heap = FakeHeap::with_function();
        let owner = heap.object(195, &[heap.shared]);
        let (literals, none) = (heap.fixed_array(&[]), heap.byte_array(&[]));
        let data = heap.fixed_array(&[0, 0, 0, literals, 0, 0, 0, owner, none, 0, 0, 0, smi(2), 0, smi(30)]);
        let start = heap.code_with(11, 0x100, data, none);
        let itself = |source_offset| Some(vec![V8Inlined { shared: None, source_offset }]);
        assert_eq!(at(&heap, start + 30), itself(Some(15)));
        assert_eq!(at(&heap, start + 9), itself(None));
    }

    #[test]
    fn code_knows_its_function() {
        let (mut heap, start) = inlined(true, 0);
        let layout = heap.layout();
        let code = V8Codes::default().at(&heap, &layout, start).unwrap();
        assert_eq!(code.owner(&heap, &layout), Some(heap.shared));
        assert_eq!(code.is_of(&heap, &layout, heap.shared), Some(true));
        assert_eq!(code.is_of(&heap, &layout, heap.script), Some(false));
        let bytecodes = heap.u64(heap.shared - 1 + 8).unwrap();
        let start = heap.code_with(10, 0x40, bytecodes, 0);
        let baseline = V8Codes::default().at(&heap, &layout, start).unwrap();
        assert_eq!(baseline.is_of(&heap, &layout, heap.shared), Some(true));
        assert_eq!(baseline.is_of(&heap, &layout, heap.script), None);
    }

    #[test]
    fn wild_numbers_give_nothing() {
        for number in [1, 0xffff_ffff, 70_000] {
            let (heap, start) = inlined(true, number);
            assert_eq!(at(&heap, start + 30), None);
        }
    }
}
