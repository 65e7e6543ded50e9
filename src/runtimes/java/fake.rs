//! Synthetic JVM for tests: tables, a code heap, methods and a stack in segments of bytes.
//! Its offsets are no JVM's, so that a test passes only if they are taken from the tables.

#![cfg_attr(not(test), allow(dead_code, clippy::unwrap_used, reason = "fuzz targets use a part of it"))]

use crate::runtimes::memory::TargetMemory;
use rustc_hash::FxHashMap;

pub(crate) const TABLES: u64 = 0x10_0000;
const TEXT: u64 = 0x20_0000;
pub(crate) const VARIABLES: u64 = 0x30_0000;
pub(crate) const HEAP: u64 = 0x40_0000;
pub(crate) const MAP: u64 = 0x50_0000;
pub(crate) const META: u64 = 0x60_0000;
pub(crate) const STACK: u64 = 0x70_0000;
const SIZE: usize = 0x1_0000;
/// Code of the interpreter, whose first piece is a method entry.
pub(crate) const INTERPRETER: u64 = HEAP + 0x100;
pub(crate) const CALL_STUB_RETURN: u64 = HEAP + 0x20a0;
/// Address outside all code heaps, in what stands for native code.
pub(crate) const NATIVE: u64 = 0x90_0000;
const HEADER: u64 = 0x10;

/// Fields of the fake: type, name, C++ type, offset.
const FIELDS: [(&str, &str, &str, u64); 57] = [
    ("GrowableArrayBase", "_len", "int", 4),
    ("GrowableArray<int>", "_data", "int*", 16),
    ("CodeHeap", "_memory", "VirtualSpace", 16),
    ("CodeHeap", "_segmap", "VirtualSpace", 80),
    ("CodeHeap", "_log2_segment_size", "int", 144),
    ("VirtualSpace", "_low_boundary", "char*", 8),
    ("VirtualSpace", "_high_boundary", "char*", 16),
    ("VirtualSpace", "_low", "char*", 24),
    ("HeapBlock::Header", "_used", "bool", 8),
    ("CodeBlob", "_name", "const char*", 8),
    ("CodeBlob", "_size", "int", 16),
    ("CodeBlob", "_frame_size", "int", 20),
    ("CodeBlob", "_frame_complete_offset", "int16_t", 24),
    ("CodeBlob", "_code_offset", "int", 28),
    ("CodeBlob", "_data_offset", "int", 32),
    ("nmethod", "_compile_id", "int", 40),
    ("nmethod", "_comp_level", "CompLevel", 44),
    ("nmethod", "_method", "Method*", 48),
    ("nmethod", "_verified_entry_offset", "u2", 56),
    ("nmethod", "_osr_entry_point", "address", 64),
    ("nmethod", "_deopt_handler_offset", "int", 72),
    ("nmethod", "_orig_pc_offset", "int", 76),
    ("nmethod", "_scopes_pcs_offset", "int", 80),
    ("nmethod", "_scopes_data_offset", "int", 84),
    ("nmethod", "_dependencies_offset", "int", 88),
    ("nmethod", "_metadata_offset", "int", 92),
    ("PcDesc", "_pc_offset", "int", 0),
    ("PcDesc", "_scope_decode_offset", "int", 4),
    ("StubQueue", "_stub_buffer", "address", 8),
    ("StubQueue", "_queue_end", "int", 16),
    ("InterpreterCodelet", "_size", "int", 0),
    ("InterpreterCodelet", "_description", "const char*", 8),
    ("Method", "_constMethod", "ConstMethod*", 16),
    ("ConstMethod", "_constants", "ConstantPool*", 8),
    ("ConstMethod", "_flags", "u2", 16),
    ("ConstMethod", "_code_size", "u2", 18),
    ("ConstMethod", "_name_index", "u2", 20),
    ("ConstMethod", "_signature_index", "u2", 22),
    ("ConstantPool", "_tags", "Array<u1>*", 8),
    ("ConstantPool", "_pool_holder", "InstanceKlass*", 16),
    ("ConstantPool", "_length", "int", 24),
    ("ConstantPool", "_source_file_name_index", "u2", 28),
    ("Array<u1>", "_data", "", 4),
    ("InstanceKlass", "_constants", "ConstantPool*", 32),
    ("Klass", "_name", "Symbol*", 24),
    ("Symbol", "_length", "u2", 4),
    ("Symbol", "_body[0]", "u1", 6),
    ("HeapBlock", "_header", "HeapBlock::Header", 0),
    ("Klass", "_super", "Klass*", 40),
    ("CodeBlob", "_oop_maps", "ImmutableOopMapSet*", 0),
    ("Method", "_code", "nmethod*", 24),
    ("Method", "_i2i_entry", "address", 32),
    ("PcDesc", "_flags", "int", 12),
    ("ConstMethod", "_max_locals", "u2", 26),
    ("ConstMethod", "_max_stack", "u2", 24),
    ("nmethod", "_entry_bci", "int", 96),
    ("nmethod", "_state", "volatile signed char", 45),
];

const SIZES: [(&str, u64); 7] = [
    ("HeapBlock", HEADER),
    ("CodeBlob", 40),
    ("nmethod", 104),
    ("PcDesc", 16),
    ("InterpreterCodelet", 16),
    ("ConstMethod", 32),
    ("ConstantPool", 40),
];

/// Bytes at addresses, each segment readable only as far as it goes.
#[derive(Clone, Default)]
pub(crate) struct FakeJvm {
    segments: Vec<(u64, Vec<u8>)>,
    symbols: FxHashMap<String, u64>,
    text: u64,
    meta: u64,
    is_before_9: bool,
}

impl TargetMemory for FakeJvm {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.segments.iter().any(|(start, segment)| {
            let Some(offset) = address.checked_sub(*start).and_then(|offset| usize::try_from(offset).ok())
            else {
                return false;
            };
            let part = offset.checked_add(bytes.len()).and_then(|end| segment.get(offset..end));
            part.is_some_and(|part| {
                bytes.copy_from_slice(part);
                true
            })
        })
    }
}

impl FakeJvm {
    /// JVM with an interpreter and a call stub, and nothing compiled.
    pub(crate) fn new() -> Self {
        Self::of(false)
    }

    /// JVM as before JDK 9: one code heap, and a version number that says 25.
    pub(crate) fn before_9() -> Self {
        Self::of(true)
    }

    fn of(is_before_9: bool) -> Self {
        let starts = [TABLES, TEXT, VARIABLES, HEAP, MAP, META, STACK];
        let segments = starts.map(|start| (start, vec![0; SIZE])).to_vec();
        let mut jvm = Self { segments, text: TEXT, meta: META, is_before_9, ..Self::default() };
        jvm.fill(MAP, &[0xff; SIZE / 16]);
        jvm.tables();
        jvm.heap();
        jvm.interpreter();
        jvm.blob(0x2000, "StubRoutines (1)", 0x400, &[0x90; 0x100], 0);
        jvm
    }

    /// Address of an exported symbol.
    pub(crate) fn symbol_address(&self, name: &str) -> Option<u64> {
        self.symbols.get(name).copied()
    }

    pub(crate) fn forget(&mut self, symbol: &str) {
        self.symbols.remove(symbol);
    }

    pub(crate) fn fill(&mut self, address: u64, bytes: &[u8]) {
        let place = self.segments.iter_mut().find(|(start, segment)| {
            address >= *start && address + bytes.len() as u64 <= start + segment.len() as u64
        });
        let (start, segment) = place.expect("a segment of the fake");
        let offset = (address - *start) as usize;
        segment[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn word(&mut self, address: u64, word: u64) {
        self.fill(address, &word.to_le_bytes());
    }

    pub(crate) fn half(&mut self, address: u64, half: u16) {
        self.fill(address, &half.to_le_bytes());
    }

    pub(crate) fn int(&mut self, address: u64, int: i32) {
        self.fill(address, &int.to_le_bytes());
    }

    /// Removes the memory from `start` on that belongs to one segment.
    pub(crate) fn unmap(&mut self, start: u64) {
        self.segments.retain(|(segment, _)| *segment != start);
    }

    fn string(&mut self, text: &str) -> u64 {
        let address = self.text;
        self.fill(address, text.as_bytes());
        self.text += text.len() as u64 + 1;
        address
    }

    fn variable(&mut self, name: &str, value: u64) {
        let address = VARIABLES + 8 * self.symbols.len() as u64;
        self.word(address, value);
        self.symbols.insert(name.to_string(), address);
    }

    fn tables(&mut self) {
        self.variable("gHotSpotVMStructs", TABLES);
        for (name, value) in [
            ("ArrayStride", 48),
            ("TypeNameOffset", 0),
            ("FieldNameOffset", 8),
            ("TypeStringOffset", 16),
            ("IsStaticOffset", 24),
            ("OffsetOffset", 32),
            ("AddressOffset", 40),
        ] {
            self.variable(&format!("gHotSpotVMStructEntry{name}"), value);
        }
        let mut at = TABLES;
        for (object, field, kind, offset) in FIELDS {
            self.entry(at, object, field, kind);
            self.word(at + 32, offset);
            at += 48;
        }
        for (index, (object, field)) in [
            ("CodeCache", if self.is_before_9 { "_heap" } else { "_heaps" }),
            ("AbstractInterpreter", "_code"),
            ("StubRoutines", "_call_stub_return_address"),
            ("Abstract_VM_Version", "_vm_major_version"),
        ]
        .into_iter()
        .enumerate()
        {
            let is_heap = self.is_before_9 && field == "_heaps";
            self.entry(at, object, if is_heap { "_heap" } else { field }, "int");
            self.word(at + 24, 1);
            self.word(at + 40, VARIABLES + 0x1000 + 8 * index as u64);
            at += 48;
        }
        let types = TABLES + 0x8000;
        self.variable("gHotSpotVMTypes", types);
        for (name, value) in [("ArrayStride", 16), ("TypeNameOffset", 0), ("SizeOffset", 8)] {
            self.variable(&format!("gHotSpotVMTypeEntry{name}"), value);
        }
        for (index, (name, size)) in SIZES.into_iter().enumerate() {
            let name = self.string(name);
            self.word(types + 16 * index as u64, name);
            self.word(types + 16 * index as u64 + 8, size);
        }
        for (index, kind) in ["Int", "Long"].into_iter().enumerate() {
            let constants = TABLES + 0xa000 + 0x1000 * index as u64;
            self.variable(&format!("gHotSpotVM{kind}Constants"), constants);
            for (name, value) in [("ArrayStride", 16), ("NameOffset", 0), ("ValueOffset", 8)] {
                self.variable(&format!("gHotSpotVM{kind}ConstantEntry{name}"), value);
            }
        }
        let name = self.string("ConstMethod::_has_linenumber_table");
        self.word(TABLES + 0xa000, name);
        self.word(TABLES + 0xa008, 4);
    }

    fn entry(&mut self, at: u64, object: &str, field: &str, kind: &str) {
        for (index, text) in [object, field, kind].into_iter().enumerate() {
            let text = if text.is_empty() { 0 } else { self.string(text) };
            self.word(at + 8 * index as u64, text);
        }
    }

    fn heap(&mut self) {
        let (list, data, heap) = (VARIABLES + 0x2000, VARIABLES + 0x2100, VARIABLES + 0x2200);
        self.word(VARIABLES + 0x1000, if self.is_before_9 { heap } else { list });
        self.int(list + 4, 1);
        self.word(list + 16, data);
        self.word(data, heap);
        self.word(heap + 16 + 8, HEAP);
        self.word(heap + 16 + 16, HEAP + SIZE as u64);
        self.word(heap + 80 + 24, MAP);
        self.int(heap + 144, 6);
        self.word(VARIABLES + 0x1010, CALL_STUB_RETURN);
        self.int(VARIABLES + 0x1018, if self.is_before_9 { 25 } else { 17 });
    }

    /// Interpreter of one method entry, whose frame is built after six bytes, and other code.
    fn interpreter(&mut self) {
        let queue = VARIABLES + 0x2300;
        self.word(VARIABLES + 0x1008, queue);
        self.word(queue + 8, INTERPRETER);
        self.int(queue + 16, 0x200);
        self.blob(0, "Interpreter", 0x400, &[0x90; 0x300], 0);
        let names = ["method entry point (kind = zerolocals)", "return entry points"];
        for (index, name) in names.into_iter().enumerate() {
            let at = INTERPRETER + 0x100 * index as u64;
            let name = self.string(name);
            self.int(at, 0x100);
            self.word(at + 8, name);
        }
        self.fill(INTERPRETER + 16, &[0x58, 0x50, 0x55, 0x48, 0x8b, 0xec]);
    }

    /// Blob of `size` bytes at `offset` in the heap, its instructions 0x80 bytes after its start; returns their address.
    pub(crate) fn blob(&mut self, offset: u64, name: &str, size: u64, code: &[u8], frame_words: i32) -> u64 {
        let first = offset >> 6;
        for segment in 0..size >> 6 {
            self.fill(MAP + first + segment, &[segment.min(0xfe) as u8]);
        }
        let block = HEAP + offset;
        self.fill(block + 8, &[1]);
        let blob = block + HEADER;
        let name = self.string(name);
        self.word(blob + 8, name);
        self.int(blob + 16, (size - HEADER) as i32);
        self.int(blob + 20, frame_words);
        self.int(blob + 28, 0x80);
        self.int(blob + 32, 0x80 + code.len() as i32);
        self.fill(blob + 0x80, code);
        blob + 0x80
    }

    /// Compiled method at `offset` in the heap, entered at the start of `code`; returns the address of its code.
    pub(crate) fn nmethod(
        &mut self,
        offset: u64,
        code: &[u8],
        frame_words: i32,
        method: u64,
        id: i32,
    ) -> u64 {
        let start = self.blob(offset, "nmethod", 0x400, code, frame_words);
        let blob = start - 0x80;
        self.half(blob + 24, 5);
        self.int(blob + 40, id);
        self.fill(blob + 44, &[4]);
        self.word(blob + 48, method);
        self.int(blob + 72, -1);
        start
    }

    /// Scopes of the nmethod whose code is at `code`: descriptors (offset of the code, place in `data`), data, methods.
    pub(crate) fn scopes(&mut self, code: u64, descs: &[(i32, i32)], data: &[u8], methods: &[u64]) {
        let blob = code - 0x80;
        let (data_at, pcs_at, metadata_at) = (0x200, 0x280, 0x300);
        self.fill(blob + data_at, data);
        for (index, (pc, scope)) in descs.iter().enumerate() {
            self.int(blob + pcs_at + 16 * index as u64, *pc);
            self.int(blob + pcs_at + 16 * index as u64 + 4, *scope);
        }
        for (index, method) in methods.iter().enumerate() {
            self.word(blob + metadata_at + 8 * index as u64, *method);
        }
        let end = pcs_at as i32 + 16 * descs.len() as i32;
        for (field, value) in [(80, pcs_at as i32), (84, data_at as i32), (88, end), (92, metadata_at as i32)]
        {
            self.int(blob + field, value);
        }
    }

    /// Address of a symbol with the text `text`.
    fn symbol(&mut self, text: &str) -> u64 {
        let address = self.room(6 + text.len() as u64);
        self.half(address + 4, text.len() as u16);
        self.fill(address + 6, text.as_bytes());
        address
    }

    fn room(&mut self, size: u64) -> u64 {
        let address = self.meta;
        self.meta += (size + 15) & !7;
        address
    }

    /// Method `class`.`name` with these bytecodes and this line table; returns its address.
    pub(crate) fn method(&mut self, class: &str, name: &str, code: &[u8], lines: &[u8]) -> u64 {
        let [method, klass, pool, tags] = [64, 64, 40 + 8 * 4, 16].map(|size| self.room(size));
        let const_method = self.room(32 + (code.len() + lines.len()) as u64);
        self.word(method + 16, const_method);
        self.word(const_method + 8, pool);
        self.half(const_method + 16, if lines.is_empty() { 0 } else { 4 });
        self.half(const_method + 18, code.len() as u16);
        self.half(const_method + 20, 1);
        self.half(const_method + 22, 2);
        self.fill(const_method + 32, code);
        self.fill(const_method + 32 + code.len() as u64, lines);
        self.word(pool + 8, tags);
        self.word(pool + 16, klass);
        self.int(pool + 24, 4);
        self.half(pool + 28, 3);
        self.fill(tags + 4, &[0, 1, 1, 1]);
        for (index, text) in [name, "(I)V", "Source.java"].into_iter().enumerate() {
            let symbol = self.symbol(text);
            self.word(pool + 40 + 8 * (index as u64 + 1), symbol);
        }
        let class = self.symbol(class);
        self.word(klass + 24, class);
        self.word(klass + 32, pool);
        method
    }

    /// Address of the first bytecode of `method`.
    pub(crate) fn bytecodes(&self, method: u64) -> u64 {
        self.u64(method + 16).expect("a method of the fake") + 32
    }
}
