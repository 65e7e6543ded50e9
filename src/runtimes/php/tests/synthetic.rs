//! The synthetic process: memory in pieces, a small assembler, functions, frames and strings.

use crate::runtimes::memory::TargetMemory;
use crate::runtimes::php::layout::PhpLayout;
use crate::runtimes::problem::RuntimeProblem;
use std::collections::BTreeMap;

pub(crate) const GLOBALS: u64 = 0x10_0000;
pub(super) const FRAMES: u64 = 0x20_0000;
pub(crate) const FUNCTIONS: u64 = 0x30_0000;
const CODE: u64 = 0x40_0000;
const TEXTS: u64 = 0x50_0000;
const CLASSES: u64 = 0x60_0000;
const INSTRUCTIONS: u64 = 0x70_0000;
/// Distance of frames, functions, strings, classes and instructions.
const STEP: u64 = 0x1000;

/// Offsets as in PHP 8.2.
pub(super) const CURRENT: u32 = 0x1e8;
/// The word that a library finds its globals by.
const TABLE: u64 = GLOBALS + 0x5000;
const THROWN: u32 = 0x360;
const THROWN_AT: u32 = 0x370;
pub(super) const FILE: u32 = 0x98;
const FIRST: u32 = 0x58;

const RAX: u8 = 0;
const RCX: u8 = 1;
const RDX: u8 = 2;

/// Memory in pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pieces(BTreeMap<u64, Vec<u8>>);

impl Pieces {
    pub(super) fn put(&mut self, address: u64, bytes: &[u8]) {
        let start = address & !(STEP - 1);
        let piece = self.0.entry(start).or_insert_with(|| vec![0; STEP as usize]);
        let offset = (address - start) as usize;
        piece[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn put_u64(&mut self, address: u64, word: u64) {
        self.put(address, &word.to_ne_bytes());
    }

    pub(super) fn put_u32(&mut self, address: u64, word: u32) {
        self.put(address, &word.to_ne_bytes());
    }
}

impl TargetMemory for Pieces {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        bytes.iter_mut().zip(address..).all(|(byte, address)| {
            let piece = self.0.get(&(address & !(STEP - 1)));
            let found = piece.and_then(|piece| piece.get((address & (STEP - 1)) as usize));
            found.map(|found| *byte = *found).is_some()
        })
    }
}

/// Instructions of x86-64, one after the other.
#[derive(Debug, Default)]
struct Assembler {
    address: u64,
    /// The globals are found by a word in memory.
    has_table: bool,
    bytes: Vec<u8>,
}

impl Assembler {
    fn at(address: u64, has_table: bool) -> Self {
        Assembler { address, has_table, bytes: Vec::new() }
    }

    fn op(mut self, opcode: &[u8], register: u8, base: u8, offset: u32) -> Self {
        self.bytes.extend_from_slice(opcode);
        self.bytes.push(0x80 | register << 3 | base);
        self.bytes.extend_from_slice(&offset.to_le_bytes());
        self
    }

    /// `mov register, [base + offset]`.
    fn load(self, register: u8, base: u8, offset: u32) -> Self {
        self.op(&[0x48, 0x8b], register, base, offset)
    }

    /// The same of 32 bits.
    fn load_half(self, register: u8, base: u8, offset: u32) -> Self {
        self.op(&[0x8b], register, base, offset)
    }

    /// `lea register, [rip + …]`.
    fn address_of(mut self, register: u8, target: u64) -> Self {
        let next = self.address + self.bytes.len() as u64 + 7;
        self.bytes.extend_from_slice(&[0x48, 0x8d, register << 3 | 5]);
        self.bytes.extend_from_slice(&(target.wrapping_sub(next) as u32).to_le_bytes());
        self
    }

    /// `mov register, [rip + …]`.
    fn load_word(self, register: u8, target: u64) -> Self {
        let mut new = self.address_of(register, target);
        let at = new.bytes.len() - 6;
        new.bytes[at] = 0x8b;
        new
    }

    /// `cmp byte [base], 1`.
    fn compare_kind(mut self, base: u8) -> Self {
        self.bytes.extend_from_slice(&[0x80, 0x38 | base, 1]);
        self
    }

    /// `cmp qword [base + offset], 0`.
    fn compare_word(self, base: u8, offset: u32) -> Self {
        let mut new = self.op(&[0x48, 0x83], 7, base, offset);
        new.bytes.push(0);
        new
    }

    /// `jne` over so many bytes.
    fn jump(mut self, over: u8) -> Self {
        self.bytes.extend_from_slice(&[0x75, over]);
        self
    }

    /// `add register, 24`.
    fn add_text(mut self, register: u8) -> Self {
        self.bytes.extend_from_slice(&[0x48, 0x83, 0xc0 | register, 24]);
        self
    }

    fn returns(mut self) -> Self {
        self.bytes.push(0xc3);
        self
    }

    /// From the globals to the function of the frame that runs.
    fn function(self) -> Self {
        let globals = if self.has_table { self.load_word(RCX, TABLE) } else { self.address_of(RCX, GLOBALS) };
        globals.load(RAX, RCX, CURRENT).load(RDX, RAX, 24).compare_kind(RDX)
    }
}

/// The process.
#[derive(Debug, Clone)]
pub(crate) struct SyntheticPhp {
    memory: Pieces,
    pub(super) symbols: BTreeMap<&'static str, u64>,
    texts: u64,
    frames: u64,
    functions: u64,
    has_table: bool,
}

impl SyntheticPhp {
    /// One in which nothing runs.
    pub(crate) fn new() -> Self {
        let mut new = SyntheticPhp {
            memory: Pieces::default(),
            symbols: BTreeMap::from([("executor_globals", GLOBALS)]),
            texts: 0,
            frames: 0,
            functions: 0,
            has_table: false,
        };
        new.memory.put_u64(GLOBALS, 0);
        new.put_functions();
        new.put_version("Zend Engine v4.2.36, Copyright");
        new
    }

    /// Has the functions find the globals as those of a library do.
    pub(super) fn find_globals_by_table(&mut self) {
        self.has_table = true;
        self.memory.put_u64(TABLE, GLOBALS);
        self.put_functions();
    }

    fn put_functions(&mut self) {
        let new = self;
        new.put_function("zend_get_executed_lineno", |code| {
            let code = code.function().jump(8).load(RAX, RAX, 48).returns().load(RAX, RAX, 0);
            let code = code.compare_word(RCX, THROWN).jump(14);
            let code = code.load(RDX, RCX, THROWN_AT).load_half(RAX, RDX, 24).returns();
            let code = code.load_half(RAX, RAX, 24);
            code.load(RAX, RCX, CURRENT).load(RDX, RAX, 24).load(RAX, RDX, FIRST).load_half(RAX, RAX, 24)
        });
        new.put_function("zend_get_executed_filename_ex", |code| code.function().load(RAX, RDX, FILE));
        new.put_function("zend_get_executed_scope", |code| code.function().load(RAX, RDX, 16));
        new.put_function("get_active_function_name", |code| code.function().load(RAX, RDX, 8).add_text(RAX));
        new.put_function("get_active_class_name", |code| {
            code.function().load(RAX, RDX, 16).load(RAX, RAX, 8).add_text(RAX)
        });
        new.put_function("zend_execute", |mut code| {
            code.bytes.extend_from_slice(&[0xb9, 0, 0, 0x13, 0]);
            code.op(&[0x89], RCX, RAX, 40)
        });
        new.put_function("get_zend_version", |code| code.load_word(RAX, GLOBALS + 0x2000));
    }

    pub(super) fn put_version(&mut self, text: &str) {
        let address = GLOBALS + 0x3000;
        self.memory.put_u64(GLOBALS + 0x2000, address);
        self.memory.put(address, text.as_bytes());
    }

    /// A function of the interpreter.
    fn put_function(&mut self, name: &'static str, make: impl Fn(Assembler) -> Assembler) {
        let address = CODE + STEP * self.functions;
        self.functions += 1;
        // Nothing else follows.
        self.memory.put(address, &[0xcc; STEP as usize]);
        self.memory.put(address, &make(Assembler::at(address, self.has_table)).returns().bytes);
        self.symbols.insert(name, address);
    }

    /// Has the function that reads names of classes read something else.
    pub(super) fn damage_class_name(&mut self) {
        self.put_function("get_active_class_name", |code| code.function().load(RAX, RDX, 16));
    }

    pub(crate) fn memory(&self) -> &Pieces {
        &self.memory
    }

    pub(super) fn memory_mut(&mut self) -> &mut Pieces {
        &mut self.memory
    }

    pub(crate) fn find(&self) -> Result<PhpLayout, RuntimeProblem> {
        PhpLayout::find(&self.memory, &|name| self.symbols.get(name).copied(), "/usr/bin/php")
    }

    /// A new string.
    pub(super) fn text(&mut self, text: &[u8]) -> u64 {
        let address = TEXTS + STEP * self.texts;
        self.texts += 1;
        self.memory.put_u64(address + 16, text.len() as u64);
        self.memory.put(address + 24, text);
        address
    }

    /// The function number `index`: its kind, its class and name, each of which may be missing; its file and first line.
    pub(crate) fn put_code(
        &mut self,
        index: u64,
        kind: u8,
        class: &str,
        name: &str,
        file: &str,
        line: u32,
    ) -> u64 {
        let address = FUNCTIONS + STEP * index;
        self.memory.put(address, &[kind]);
        let name = if name.is_empty() { 0 } else { self.text(name.as_bytes()) };
        self.memory.put_u64(address + 8, name);
        let place = CLASSES + STEP * index;
        let text = self.text(class.as_bytes());
        self.memory.put_u64(place + 8, text);
        self.memory.put_u64(address + 16, if class.is_empty() { 0 } else { place });
        if kind != 1 {
            let file = self.text(file.as_bytes());
            self.memory.put_u64(address + u64::from(FILE), file);
            self.memory.put_u32(address + u64::from(FILE) + 8, line);
        }
        address
    }

    /// A frame that is called by the one that ran last: its function, its marks and its line.
    pub(super) fn call(&mut self, function: u64, marks: u32, line: u32) -> u64 {
        let caller = if self.frames == 0 { 0 } else { FRAMES + STEP * (self.frames - 1) };
        let (frame, instruction) = (FRAMES + STEP * self.frames, INSTRUCTIONS + STEP * self.frames);
        self.frames += 1;
        self.memory.put_u64(frame, instruction);
        self.memory.put_u64(frame + 24, function);
        self.memory.put_u32(frame + 40, marks);
        self.memory.put_u64(frame + 48, caller);
        self.memory.put_u32(instruction + 24, line);
        self.memory.put_u64(GLOBALS + u64::from(CURRENT), frame);
        frame
    }

    /// The place where an exception is thrown.
    pub(super) fn throw_at(&mut self, line: u32) {
        let instruction = INSTRUCTIONS + 0xff_0000;
        self.memory.put_u32(instruction + 24, line);
        self.memory.put_u64(GLOBALS + u64::from(THROWN_AT), instruction);
    }
}
