//! An interpreter in memory: stacks of blocks, subs with symbols and packages, statements, and functions that say where all
//! of these are.

use super::super::layout::{PerlLayout, PerlLocator, PerlVersion};
use super::super::shapes;
use crate::runtimes::TargetMemory;
use std::collections::BTreeMap;

/// Bytes by address.
#[derive(Debug, Default, Clone)]
pub(super) struct SyntheticMemory(BTreeMap<u64, u8>);

impl TargetMemory for SyntheticMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        (address..).zip(bytes).all(|(at, to)| self.0.get(&at).map(|&byte| *to = byte).is_some())
    }
}

impl SyntheticMemory {
    pub(super) fn put(&mut self, address: u64, bytes: &[u8]) {
        self.0.extend((address..).zip(bytes.iter().copied()));
    }

    pub(super) fn put_word(&mut self, address: u64, word: u64) {
        self.put(address, &word.to_ne_bytes());
    }
}

/// A block of a stack: type and flags, the statement that it was entered from, the op to go on with, sub, required file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SyntheticBlock {
    pub(super) kind: u8,
    pub(super) old_statement: u64,
    pub(super) return_op: u64,
    pub(super) sub: u64,
    pub(super) required: u64,
}

pub(super) struct SyntheticPerl {
    pub(super) memory: SyntheticMemory,
    pub(super) layout: PerlLayout,
    next: u64,
}

/// Functions, by address.
pub(super) const NEXT_STATEMENT: u64 = 0x40_1000;
pub(super) const DEBUG_STATEMENT: u64 = 0x40_2000;
pub(super) const CALLER: u64 = 0x40_3000;
pub(super) const CONSTRUCT: u64 = 0x40_4000;
/// The interpreter.
pub(super) const INTERPRETER: u64 = 0x5000_0000;

impl SyntheticPerl {
    /// Version 5.`minor` of a build with threads.
    pub(super) fn new(minor: u8) -> Self {
        let layout = PerlLayout {
            version: PerlVersion { minor, micro: 0 },
            source: String::new(),
            locator: PerlLocator::Key { slot: 0x318 },
            stack: 0xe0,
            statement: 0xd0,
            shape: shapes::shape(minor).expect("the version is known"),
            statement_functions: [NEXT_STATEMENT, DEBUG_STATEMENT],
            is_file_glob: false,
        };
        SyntheticPerl { memory: SyntheticMemory::default(), layout, next: 0x6000_0000 }
    }

    /// Zeros in a place of their own, after which there is nothing.
    pub(super) fn place(&mut self, size: usize) -> u64 {
        let address = self.next;
        self.next += (size as u64).next_multiple_of(64) + 64;
        self.memory.put(address, &vec![0; size]);
        address
    }

    pub(super) fn text(&mut self, text: &str) -> u64 {
        let address = self.place((text.len() + 1).next_multiple_of(64));
        self.memory.put(address, text.as_bytes());
        address
    }

    /// A shared key; characters are bytes, unless it is UTF-8.
    pub(super) fn key(&mut self, text: &[u8], is_utf8: bool) -> u64 {
        let address = self.place(text.len() + 10);
        self.memory.put(address, &0x1234_5678_u32.to_ne_bytes());
        self.memory.put(address + 4, &(text.len() as u32).to_ne_bytes());
        self.memory.put(address + 8, text);
        self.memory.put(address + 9 + text.len() as u64, &[u8::from(is_utf8)]);
        address
    }

    /// A value: its head, with a body of `size` bytes.
    pub(super) fn value(&mut self, flags: u32, size: usize) -> (u64, u64) {
        let (head, body) = (self.place(24), self.place(size));
        self.memory.put_word(head, body);
        self.memory.put(head + 12, &flags.to_ne_bytes());
        (head, body)
    }

    pub(super) fn package(&mut self, name: &str) -> u64 {
        let name = self.key(name.as_bytes(), false);
        let (head, body) = self.value(12 | 1 << 25, 80);
        let more = if self.layout.shape.is_stash_wide {
            body + 32
        } else {
            let array = self.place(2 * 8 + 40);
            self.memory.put_word(head + 16, array);
            self.memory.put_word(body + 24, 1);
            array + 16
        };
        self.memory.put_word(more, name);
        head
    }

    /// The symbol `name` of a package.
    pub(super) fn symbol(&mut self, package: u64, name: u64) -> u64 {
        let (head, body) = self.value(9, 64);
        self.memory.put_word(body + 32, name);
        self.memory.put_word(body + 40, package);
        head
    }

    /// A sub of this symbol, the first statement of which is at `start`.
    pub(super) fn sub_of(&mut self, symbol: u64, file: &str, start: u64) -> u64 {
        let file = self.text(file);
        let (head, body) = self.value(13, 104);
        self.memory.put_word(body + 40, start);
        self.memory.put_word(body + 56, symbol);
        self.memory.put_word(body + 64, file);
        head
    }

    pub(super) fn sub(&mut self, package: &str, name: &str, file: &str, first_line: u32) -> u64 {
        let (package, name) = (self.package(package), self.key(name.as_bytes(), false));
        let symbol = self.symbol(package, name);
        let start = self.statement(file, first_line);
        self.sub_of(symbol, file, start)
    }

    pub(super) fn statement(&mut self, file: &str, line: u32) -> u64 {
        let file = self.text(file);
        let address = self.place(88);
        self.memory.put_word(address + 16, NEXT_STATEMENT);
        self.memory.put(address + 36, &line.to_ne_bytes());
        self.memory.put_word(address + 48, file);
        address
    }

    /// A stack of these blocks, the outermost first, within another one.
    pub(super) fn stack(&mut self, outer: u64, blocks: &[SyntheticBlock]) -> u64 {
        let shape = self.layout.shape;
        let array = self.place(blocks.len() * usize::from(shape.block_bytes) + 8);
        for (block, at) in blocks.iter().zip((array..).step_by(shape.block_bytes.into())) {
            self.memory.put(at, &[block.kind]);
            let words = [
                (shape.old_statement, block.old_statement),
                (shape.return_op, block.return_op),
                (shape.sub, block.sub),
                (shape.required, block.required),
            ];
            for (offset, word) in words {
                self.memory.put_word(at + u64::from(offset), word);
            }
        }
        let stack = self.place(64);
        self.memory.put_word(stack + 8, array);
        self.memory.put_word(stack + 16, outer);
        self.memory.put(stack + 32, &(blocks.len() as i32 - 1).to_ne_bytes());
        stack
    }

    /// The interpreter is on this stack, and at this statement.
    pub(super) fn set(&mut self, stack: u64, statement: u64) {
        self.memory.put_word(INTERPRETER + u64::from(self.layout.stack), stack);
        self.memory.put_word(INTERPRETER + u64::from(self.layout.statement), statement);
    }
}
