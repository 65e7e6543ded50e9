//! A synthetic interpreter, of every version that is known, and tests on it.

mod code_objects;
mod interpreter_loops;
mod layouts;
mod stacks;

use super::layout::{RubyOffsets, RubyVersion};
use super::tables;
use crate::runtimes::memory::TargetMemory;
use std::cell::RefCell;

const BASE: u64 = 0x10_0000;
const SIZE: usize = 0x2_0000;
const TEXT: u64 = BASE;
const VERSION: u64 = BASE + 0x800;
const LOCAL: u64 = BASE + 0x900;
const STATES: u64 = BASE + 0x1000;
const THREAD: u64 = BASE + 0x2000;
const CONTEXT: u64 = BASE + 0x2800;
/// Thread pointer of the main thread.
const HANDLE: u64 = BASE + 0x3000;
const STACK: u64 = BASE + 0x4000;
const STACK_WORDS: u64 = 0x200;
const ENVIRONMENTS: u64 = BASE + 0x6000;
const NAMES: u64 = BASE + 0x7000;
const OBJECTS: u64 = BASE + 0x1_0000;
/// Where an instruction is that the synthetic code has.
const HANDLER: u64 = TEXT + 0x700;

const IN_METHOD: u64 = 0x1111_0001;
const IN_BLOCK: u64 = 0x2222_0001;
const IN_C: u64 = 0x5555_0001;
const IN_CALLBACK: u64 = 0x6666_0001;
const DUMMY: u64 = 0x7999_0001;
const ENTERED: u64 = 0x20;

/// All versions that are known.
const VERSIONS: [(u8, u8); 7] = [(2, 7), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (4, 0)];

/// A process with an interpreter whose main thread has the frames that were put there.
struct SyntheticRuby {
    bytes: RefCell<Vec<u8>>,
    version: RubyVersion,
    offsets: RubyOffsets,
    /// Address of the next object.
    next: u64,
    frames: u64,
}

impl TargetMemory for SyntheticRuby {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let found = address.checked_sub(BASE).and_then(|offset| {
            let offset = usize::try_from(offset).ok()?;
            let memory = self.bytes.borrow();
            bytes.copy_from_slice(memory.get(offset..offset.checked_add(bytes.len())?)?);
            Some(())
        });
        found.is_some()
    }
}

impl SyntheticRuby {
    /// An interpreter with an empty stack.
    fn new((major, minor): (u8, u8)) -> Self {
        let version = RubyVersion { major, minor, teeny: 5 };
        let offsets = tables::offsets(version).expect("a known version");
        let ruby = Self { bytes: RefCell::new(vec![0; SIZE]), version, offsets, next: OBJECTS, frames: 0 };
        ruby.put_bytes(VERSION, format!("{version}\0").as_bytes());
        ruby.put_functions();
        // Thread-local storage: module 2, 16 bytes in; and key number 3.
        ruby.put(LOCAL, &[2, 0x10]);
        ruby.put(LOCAL + 0x20, &[3]);
        ruby.put(HANDLE, &[HANDLE, HANDLE + 0x400, HANDLE]);
        ruby.put(HANDLE + 0x400 + 32, &[HANDLE + 0x500]);
        if minor == 7 {
            ruby.put(HANDLE + 0x310 + 16 * 3 + 8, &[THREAD]);
        } else {
            ruby.put(HANDLE + 0x510, &[CONTEXT]);
        }
        ruby.put(STATES, &[STATES + 0x100]);
        ruby.put(STATES + 0x100 + 0x188, &[THREAD]);
        ruby.put(THREAD + u64::from(offsets.thread_context), &[CONTEXT]);
        ruby.put(THREAD + 0x80, &[HANDLE]);
        ruby.put(CONTEXT, &[STACK, STACK_WORDS, STACK + 8 * STACK_WORDS]);
        ruby.put(CONTEXT + u64::from(offsets.context_thread), &[THREAD]);
        ruby
    }

    /// Exported functions, as far as their instructions are looked at.
    fn put_functions(&self) {
        let to =
            |from: u64, size: u64, target: u64| ((target.wrapping_sub(from + size)) as u32).to_le_bytes();
        // lea rdi, [LOCAL]; call; mov rax, [rax]; ret
        let current =
            [&[0x48, 0x8d, 0x3d][..], &to(TEXT, 7, LOCAL), &[0xe8, 0, 0, 0, 0, 0x48, 0x8b, 0, 0xc3]];
        if self.version.minor != 7 {
            self.put_bytes(TEXT, &current.concat());
        }
        // mov rax, [STATES]; mov rax, [rax + 0x188]; ret
        let main =
            [&[0x48, 0x8b, 0x05][..], &to(TEXT + 64, 7, STATES), &[0x48, 0x8b, 0x80, 0x88, 1, 0, 0, 0xc3]];
        self.put_bytes(TEXT + 64, &main.concat());
        // mov edi, [LOCAL + 0x20]; call; ret
        let native = [&[0x8b, 0x3d][..], &to(TEXT + 128, 6, LOCAL + 0x20), &[0xe8, 0, 0, 0, 0, 0xc3]];
        self.put_bytes(TEXT + 128, &native.concat());
        // jmp to: mov rdi, [NAMES]; ret
        self.put_bytes(TEXT + 192, &[0xe9, 59, 0, 0, 0]);
        let name = [&[0x48, 0x8b, 0x3d][..], &to(TEXT + 256, 7, NAMES), &[0xc3]];
        self.put_bytes(TEXT + 256, &name.concat());
    }

    fn symbol(&self, name: &str) -> Option<u64> {
        Some(match name {
            "ruby_version" => VERSION,
            "rb_thread_current" => TEXT,
            "rb_thread_main" => TEXT + 64,
            "ruby_native_thread_p" => TEXT + 128,
            "rb_id2str" => TEXT + 192,
            _ => return None,
        })
    }

    fn put_bytes(&self, address: u64, bytes: &[u8]) {
        let offset = (address - BASE) as usize;
        self.bytes.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn put(&self, address: u64, words: &[u64]) {
        for (index, word) in (0..).zip(words) {
            self.put_bytes(address + 8 * index, &word.to_le_bytes());
        }
    }

    fn make(&mut self, bytes: u64) -> u64 {
        let address = self.next;
        self.next += bytes.next_multiple_of(64);
        address
    }

    /// Makes a string; a long one has its bytes elsewhere.
    fn string(&mut self, text: &str) -> u64 {
        let length = text.len() as u64;
        let address = self.make(40);
        if length >= 16 {
            let elsewhere = self.make(length);
            self.put_bytes(elsewhere, text.as_bytes());
            self.put(address, &[0x2005, 0, length, elsewhere]);
        } else if self.offsets.has_length_word {
            self.put(address, &[0x0005, 0, length]);
            self.put_bytes(address + 24, text.as_bytes());
        } else {
            self.put(address, &[0x0005 | length << 14, 0]);
            self.put_bytes(address + 16, text.as_bytes());
        }
        address
    }

    /// Makes a sequence of instructions of `size` words; `lines` are its lines with the positions at which they begin.
    fn sequence(&mut self, label: &str, first_line: u32, size: u32, lines: &[(u32, u32)]) -> u64 {
        let (label, path, real) =
            (self.string(label), self.string("app.rb"), self.string("/srv/example/app.rb"));
        let paths = self.make(40);
        self.put(paths, &[0x2007 | 2 << 15, 0, path, real]);
        let (address, body) = (self.make(40), self.make(256));
        self.put(address, &[0x701a, 0, body]);
        let instructions = self.make(8 * u64::from(size));
        self.put(instructions, &[HANDLER]);
        let first =
            u64::from(if self.offsets.is_first_line_tagged { 2 * first_line + 1 } else { first_line });
        self.put(body, &[1 | u64::from(size) << 32, instructions]);
        self.put(body + 64, &[paths, label, label, first]);
        let entry = u64::from(self.offsets.line_entry);
        let table = self.make(entry * lines.len() as u64);
        for (index, (_, line)) in (0..).zip(lines) {
            self.put_bytes(table + index * entry, &line.to_le_bytes());
        }
        let index = self.index(size, lines);
        let place = body + u64::from(self.offsets.line_table);
        self.put(place, &[table, 0, lines.len() as u64, index]);
        address
    }

    /// Packs the positions at which lines begin.
    fn index(&mut self, size: u32, lines: &[(u32, u32)]) -> u64 {
        let rank = |position: u32| lines.iter().filter(|(at, _)| *at <= position).count() as u64;
        let mut words = [0u64; 6].to_vec();
        for position in 0..54 {
            words[position as usize / 9] |= rank(position) << (7 * (position % 9));
        }
        for block in 0..size.saturating_sub(54).div_ceil(512) {
            let start = 54 + 512 * block;
            let before = rank(start - 1);
            let mut ranks = 0;
            let mut bits = [0u64; 8];
            for word in 0..8 {
                let at = start + 64 * word;
                if word > 0 {
                    ranks |= (rank(at - 1) - before) << (9 * (word - 1));
                }
                for bit in 0..64 {
                    bits[word as usize] |= u64::from(lines.iter().any(|(from, _)| *from == at + bit)) << bit;
                }
            }
            words.push(before);
            words.push(ranks);
            words.extend(bits);
        }
        let address = self.make(8 * words.len() as u64);
        self.put(address, &words);
        address
    }

    /// Makes the entry of a method in C, whose name has this number.
    fn method(&mut self, number: u64) -> u64 {
        let (address, definition) = (self.make(40), self.make(64));
        self.put(address, &[0x601a, 1, definition, number, 2]);
        self.put(definition + 32, &[number]);
        address
    }

    /// Has names for the operator `+` and for the number `0x1005 << 4`.
    fn put_names(&mut self, name: &str) -> u64 {
        let (plus, name) = (self.string("+"), self.string(name));
        let arrays = self.make(40);
        let (outer, inner) = (self.make(0x100), self.make(0x2000));
        self.put(arrays, &[0x0007, 0, 9, 0, outer]);
        for (index, array) in [(0, inner), (8, inner + 0x80)] {
            let object = self.make(40);
            self.put(outer + 8 * index, &[object]);
            self.put(object, &[0x0007, 0, 1024, 0, array]);
        }
        self.put(inner + 16 * u64::from(b'+'), &[plus]);
        self.put(inner + 0x80 + 16 * 5, &[name]);
        self.put(NAMES, &[arrays]);
        0x1005 << 4
    }

    /// Pushes a frame: what it is, its code object, the method of a frame in C, and how many words it has run.
    fn push(&mut self, kind: u64, code: u64, method: u64, words: u64) {
        self.frames += 1;
        let size = u64::from(self.offsets.frame_size);
        let frame = STACK + 8 * STACK_WORDS - self.frames * size;
        let environment = ENVIRONMENTS + 64 * self.frames;
        let body = self.u64(code.wrapping_add(16)).unwrap_or(0);
        let next = self.u64(body + 8).map_or(0, |first| first + 8 * words);
        self.put(frame, &[if code == 0 { 0 } else { next }, 0, code, 0, environment]);
        self.put(environment - 16, &[method, 0, kind]);
        self.put(CONTEXT + 16, &[frame]);
    }

    /// The frames of a program: at the root `<main>`, which has called `each`, whose block has called `run`.
    fn with_program(version: (u8, u8)) -> Self {
        let mut ruby = Self::new(version);
        let number = ruby.put_names("each");
        let main = ruby.sequence("<main>", 1, 30, &[(0, 1), (9, 4), (20, 6)]);
        let block = ruby.sequence("block in <main>", 4, 8, &[(0, 5)]);
        let run = ruby.sequence("run", 10, 700, &[(0, 11), (60, 12), (130, 13), (600, 14)]);
        let each = ruby.method(number);
        ruby.push(DUMMY | ENTERED, 0, 0, 0);
        ruby.push(IN_METHOD | ENTERED, main, 0, 10);
        ruby.push(IN_C, 0, each, 0);
        ruby.push(IN_BLOCK | ENTERED, block, 0, 3);
        ruby.push(IN_METHOD, run, 0, 131);
        ruby
    }
}
