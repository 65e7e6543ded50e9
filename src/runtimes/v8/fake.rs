//! Synthetic heap for tests, laid out as in V8 12 to 14, with one function on its stack.

#![cfg_attr(not(test), allow(dead_code, clippy::unwrap_used, reason = "fuzz targets use a part of it"))]

use std::collections::BTreeMap;

use super::constants::V8Symbol;
use super::layout::V8Layout;
use crate::runtimes::TargetMemory;

/// Constants of the synthetic V8.
const CONSTANTS: &str = "TaggedSize 8;SmiShiftSize 31;SystemPointerSize 8;FirstNonstringType 128;\
StringEncodingMask 8;OneByteStringTag 8;StringRepresentationMask 7;SeqStringTag 0;ConsStringTag 1;\
ExternalStringTag 2;SlicedStringTag 3;ThinStringTag 5;scopeinfo_idx_first_vars 5;off_fp_context_or_frame_type -8;\
off_fp_function -16;off_fp_bytecode_offset -40;CodeKindFieldMask 15;CodeKindBaseline 10;\
DeoptimizationDataInlinedFunctionCountIndex 1;DeoptimizationDataLiteralArrayIndex 3;\
DeoptimizationDataInliningPositionsIndex 8;DeoptimizationDataWrappedSharedFunctionInfoIndex 7;\
type_SharedFunctionInfoWrapper__X 195;type_Oddball__X 131;class_HeapObject__map__Map 0;class_Map__instance_type__uint16_t 12;\
class_FixedArrayBase__length__SMI 8;class_FixedArray__data__uintptr_t 16;class_JSFunction__shared__X 32;\
class_SharedFunctionInfo__name_or_scope_info__X 24;class_SharedFunctionInfo__script__X 40;\
class_SharedFunctionInfo__flags__int 56;class_Script__name__X 16;class_Script__source__X 8;\
class_Script__line_ends__X 56;class_UncompiledData__inferred_name__X 8;class_UncompiledData__start_position__X 16;\
class_BytecodeArray__data__X 64;class_BytecodeArray__wrapper__X 16;class_String__length__X 12;\
class_SeqOneByteString__chars__X 16;class_SeqTwoByteString__chars__X 16;class_ConsString__first__X 16;\
class_ConsString__second__X 24;class_SlicedString__parent__X 16;class_SlicedString__offset__X 24;\
class_ThinString__actual__X 16;class_ExternalString__resource__X 16;\
class_InstructionStream__instruction_start__X 32;class_Code__wrapper__X 24;class_Code__instruction_start__X 40;\
class_Code__flags__X 52;class_Code__instruction_size__X 56;type_Map__X 264;type_JSFunction__X 2066;\
type_SharedFunctionInfo__X 274;type_Script__X 167;type_ScopeInfo__X 272;type_FixedArray__X 174;\
type_TrustedByteArray__X 212;type_BytecodeArray__X 205;type_Code__X 206;type_InstructionStream__X 210;\
type_UncompiledDataA__X 200;type_UncompiledDataB__X 203;type_InterpreterData__X 207";

/// Address of the first byte of the memory.
const FIRST: u64 = 0x10_0000;

/// Synthetic memory of a process: words by address, and what tests refer to.
pub(crate) struct FakeHeap {
    bytes: BTreeMap<u64, u8>,
    next: u64,
    symbols: Vec<(String, u64)>,
    maps: BTreeMap<u16, u64>,
    pub(crate) fp: u64,
    pub(crate) shared: u64,
    pub(crate) script: u64,
    pub(crate) scope_info: u64,
    pub(crate) bytecode_offset: u32,
}

impl TargetMemory for FakeHeap {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let mut at = address;
        for byte in bytes {
            if !(FIRST..self.next).contains(&at) {
                return false;
            }
            *byte = self.bytes.get(&at).copied().unwrap_or(0);
            at = at.wrapping_add(1);
        }
        true
    }
}

impl FakeHeap {
    pub(crate) fn new() -> Self {
        let (bytes, symbols, maps) = Default::default();
        let (fp, shared, script, scope_info, bytecode_offset) = Default::default();
        Self { bytes, next: FIRST, symbols, maps, fp, shared, script, scope_info, bytecode_offset }
    }

    /// Heap with the function `work` of `/srv/work.js`, whose second line has it and whose third it is at.
    pub(crate) fn with_function() -> Self {
        let mut heap = Self::new();
        for constant in CONSTANTS.split(';') {
            let (name, value) = constant.split_once(' ').expect("a name and a value");
            let symbol = heap.constant(name, value.parse().expect("a number"));
            heap.symbols.push(symbol);
        }
        for (name, value) in [("major", 13), ("minor", 6)] {
            let address = heap.block(&[value]);
            heap.symbols.push((format!("_ZN2v88internal7Version6{name}_E"), address - 1));
        }
        let source = heap.one_byte("first\nwork()\n{ code of work; }");
        let name = heap.one_byte("/srv/work.js");
        heap.script = heap.object(167, &[source, name, 0, 0, 0, 0, 0]);
        let work = heap.one_byte("work");
        // Flags: function variable on the stack, scope of a function.
        heap.scope_info = heap.object(272, &[0x1000 | 4, 0, 0, smi(6), smi(20), work, 0]);
        // Function entry at 6, then offset 2 at 15: distances and positions doubled for zigzag, positions again for
        // the bit of external ones and one more.
        let positions = heap.byte_array(&[0x00, 28, 0x06, 36]);
        let bytecodes = heap.object(205, &[smi(9), 0, positions, 0, 0, 0, 0, 0, 0]);
        let numbers = 5 | (1000 << 32);
        heap.shared = heap.object(274, &[bytecodes, 0, heap.scope_info, 0, heap.script, 0, 1, 0]);
        heap.put(heap.shared - 1 + 60, numbers);
        let function = heap.object(2066, &[0, 0, 0, heap.shared]);
        let stack = heap.block(&[smi(67), 0, 0, function, function, 0, 0]) - 1;
        heap.fp = stack + 40;
        heap.bytecode_offset = 67;
        heap
    }

    pub(crate) fn layout(&self) -> V8Layout {
        V8Layout::find(self, self.symbols.iter().map(Self::symbol)).expect("all symbols are there")
    }

    pub(crate) fn symbols(&self) -> Vec<(String, u64)> {
        self.symbols.clone()
    }

    pub(crate) fn symbol((name, address): &(String, u64)) -> V8Symbol<'_> {
        V8Symbol { name, address: *address, size: 0 }
    }

    /// Symbol of a constant with a value.
    pub(crate) fn constant(&mut self, name: &str, value: i32) -> (String, u64) {
        let address = self.block(&[u64::from(value.cast_unsigned())]) - 1;
        (format!("v8dbg_{name}"), address)
    }

    pub(crate) fn put(&mut self, address: u64, word: u64) {
        self.bytes.extend((address..).zip(word.to_ne_bytes()));
    }

    pub(crate) fn put_u32(&mut self, address: u64, word: u32) {
        self.bytes.extend((address..).zip(word.to_ne_bytes()));
    }

    /// Tagged pointer to new words.
    fn block(&mut self, words: &[u64]) -> u64 {
        let start = self.next;
        for (address, &word) in (start..).step_by(8).zip(words) {
            self.put(address, word);
        }
        self.next = start + 8 * words.len() as u64 + 64;
        start + 1
    }

    fn map(&mut self, kind: u16) -> u64 {
        if let Some(&map) = self.maps.get(&kind) {
            return map;
        }
        let map = self.block(&[0, u64::from(kind) << 32]);
        self.maps.insert(kind, map);
        let meta = if kind == 264 { map } else { self.map(264) };
        self.put(map - 1, meta);
        map
    }

    pub(crate) fn object(&mut self, kind: u16, words: &[u64]) -> u64 {
        let map = self.map(kind);
        self.block(&[&[map], words].concat())
    }

    fn string(&mut self, kind: u16, length: usize, rest: &[u8]) -> u64 {
        let string = self.object(kind, &[(length as u64) << 32]);
        self.bytes.extend((string - 1 + 16..).zip(rest.iter().copied()));
        self.next += rest.len() as u64 / 8 * 8 + 8;
        string
    }

    pub(crate) fn one_byte(&mut self, text: &str) -> u64 {
        let bytes: Vec<u8> =
            text.chars().map(|c| u8::try_from(c).expect("a character of one byte")).collect();
        self.string(8, bytes.len(), &bytes)
    }

    pub(crate) fn two_byte(&mut self, text: &str) -> u64 {
        let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_ne_bytes).collect();
        self.string(0, bytes.len() / 2, &bytes)
    }

    pub(crate) fn cons(&mut self, first: u64, second: u64, length: u64) -> u64 {
        self.object(33, &[length << 32, first, second])
    }

    pub(crate) fn sliced(&mut self, parent: u64, offset: i32, length: u64) -> u64 {
        self.object(35, &[length << 32, parent, smi(offset)])
    }

    pub(crate) fn thin(&mut self, actual: u64, length: u64) -> u64 {
        self.object(37, &[length << 32, actual])
    }

    pub(crate) fn external(&mut self, text: &str) -> u64 {
        let data = self.one_byte(text) - 1 + 16;
        self.object(42, &[(text.len() as u64) << 32, 0, data])
    }

    pub(crate) fn fixed_array(&mut self, words: &[u64]) -> u64 {
        self.object(174, &[&[smi(words.len() as i32)], words].concat())
    }

    pub(crate) fn byte_array(&mut self, bytes: &[u8]) -> u64 {
        let array = self.object(212, &[smi(bytes.len() as i32), 0, 0, 0, 0, 0, 0, 0, 0]);
        self.bytes.extend((array - 1 + 16..).zip(bytes.iter().copied()));
        array
    }

    /// Address of the first of `size` bytes of instructions of a code object with these flags.
    pub(crate) fn code(&mut self, flags: u32, size: u32) -> u64 {
        self.code_with(flags, size, 0, 0)
    }

    /// The same with deoptimisation data and source positions.
    pub(crate) fn code_with(&mut self, flags: u32, size: u32, data: u64, positions: u64) -> u64 {
        self.next = (self.next + 0x3fff) & !0x3fff;
        let code = self.object(206, &[data, positions, 0, 0, 0, u64::from(flags) << 32, size.into()]);
        self.map(210);
        self.next = (self.next + 63) & !63;
        let mut words = vec![0; 4 + size as usize / 8 + 4];
        words[0] = code;
        let stream = self.object(210, &words);
        let start = stream - 1 + 32;
        self.put(code - 1 + 40, start);
        start
    }

    /// Makes the function one that has not been compiled yet.
    pub(crate) fn uncompile(&mut self, name: &str) {
        let inferred = self.one_byte(name);
        let data = self.object(201, &[inferred, 6 | (20 << 32)]);
        self.put(self.shared - 1 + 8, data);
        self.put(self.shared - 1 + 24, 0);
    }
}

/// Word of a small integer.
pub(crate) fn smi(value: i32) -> u64 {
    u64::from(value.cast_unsigned()) << 32
}
