//! A Go program that does not exist, for tests: its functions, descriptions of types and goroutines.

use super::synthetic::{SyntheticMemory, TypeWriter};
use std::collections::HashMap;
use std::ops::Range;

const TEXT: u64 = 0x40_0000;
const FUNCTION_BYTES: u64 = 0x100;
const NAMES: [&str; 8] = [
    "runtime.newobject",
    "runtime.malg",
    "runtime.allocm",
    "runtime.allgadd",
    "runtime.morestack",
    "runtime.goexit",
    "runtime.waitReason.String",
    "runtime/pprof.Do",
];
const TYPES: u64 = 0x50_0000;
/// List of goroutines: the variable, the entries.
pub(crate) const ALL: u64 = 0x60_0000;
const ENTRIES: u64 = 0x61_0000;
const REASONS: u64 = 0x62_0000;
const REASON_TEXT: u64 = 0x63_0000;
const GOROUTINES: u64 = 0xc0_0000;
const STACKS: u64 = 0xd0_0000;
const MACHINE: u64 = 0xe0_0000;
/// Bytes of a goroutine's description and of its stack.
pub(crate) const GOROUTINE_BYTES: u64 = 256;
pub(crate) const STACK_BYTES: u64 = 0x1000;
/// Return address in the outermost frame.
pub(crate) const GOEXIT: u64 = TEXT + 5 * FUNCTION_BYTES + 1;

/// Fields of a goroutine's description.
pub(crate) mod field {
    pub(crate) const STATUS: u64 = 144;
    pub(crate) const STOPS: u64 = 148;
    pub(crate) const ID: u64 = 152;
    pub(crate) const LABELS: u64 = 216;
}

pub(crate) struct SyntheticProgram {
    pub(crate) memory: SyntheticMemory,
    functions: HashMap<&'static str, Range<u64>>,
}

impl SyntheticProgram {
    /// A program with `count` goroutines that wait for a channel, in two frames each.
    pub(crate) fn new(count: u64) -> Self {
        let mut memory = SyntheticMemory::default();
        let [goroutine, machine, labels] = types(&mut memory);
        let start = |number: usize| TEXT + FUNCTION_BYTES * number as u64;
        let allocates = |number, of_type| {
            [load(0x48_8d_05, start(number), of_type), call(start(number) + 7, start(0))].concat()
        };
        let codes = [
            vec![0xc3],
            allocates(1, goroutine),
            allocates(2, machine),
            // The words of the slice: length, pointer, capacity.
            [
                load(0x48_8b_35, start(3), ALL + 8),
                load(0x48_8b_1d, start(3) + 7, ALL),
                load(0x48_8b_3d, start(3) + 14, ALL + 16),
            ]
            .concat(),
            // mov rbx, fs:[-8]
            vec![0x64, 0x48, 0x8b, 0x1c, 0x25, 0xf8, 0xff, 0xff, 0xff],
            vec![0x90, 0xe8],
            // cmp al, 2; lea rdx, [reasons]; mov rax, [rdx + rcx]
            [vec![0x3c, 2], load(0x48_8d_15, start(6) + 2, REASONS), vec![0x48, 0x8b, 0x04, 0x0a]].concat(),
            load(0x48_8d_15, start(7), labels),
        ];
        let mut functions = HashMap::new();
        for (number, mut code) in codes.into_iter().enumerate() {
            code.resize(FUNCTION_BYTES as usize, 0xcc);
            memory.add(start(number), code);
            functions.insert(NAMES[number], start(number)..start(number) + FUNCTION_BYTES);
        }
        memory.add(REASON_TEXT, b"chan receive".to_vec());
        memory.add_words(REASONS, &[0, 0, REASON_TEXT, 12]);
        memory.add_words(ALL, &[ENTRIES, count, count]);
        memory.add_words(ENTRIES, &(0..count).map(Self::goroutine).collect::<Vec<_>>());
        let mut program = SyntheticProgram { memory, functions };
        program.add_goroutines(count);
        program
    }

    pub(crate) fn without(mut self, function: &str) -> Self {
        self.functions.remove(function);
        self
    }

    pub(crate) fn function(&self, name: &str) -> Option<Range<u64>> {
        self.functions.get(name).cloned()
    }

    /// Address of a goroutine's description.
    pub(crate) fn goroutine(number: u64) -> u64 {
        GOROUTINES + GOROUTINE_BYTES * number
    }

    pub(crate) fn entry(number: u64) -> u64 {
        ENTRIES + 8 * number
    }

    pub(crate) fn set(&mut self, number: u64, field: u64, word: u64) {
        self.memory.set_word(Self::goroutine(number) + field, word);
    }

    fn add_goroutines(&mut self, count: u64) {
        self.memory.add(GOROUTINES, vec![0; (GOROUTINE_BYTES * count) as usize]);
        self.memory.add(STACKS, vec![0; (STACK_BYTES * count) as usize]);
        for number in 0..count {
            let low = STACKS + STACK_BYTES * number;
            let words = [
                (0, low),
                (8, low + STACK_BYTES),
                (48, MACHINE),
                (56, low + 0xf00),
                (64, 0x46_1000),
                (96, low + 0xf80),
                (field::STATUS, 4),
                (field::ID, number + 1),
                (160, 77),
                (168, 1),
                (176, 1),
                (200, 0x46_2000),
                (208, 0x46_3000),
            ];
            words.iter().for_each(|&(at, word)| self.set(number, at, word));
            let frames = [(0xf80, low + 0xfc0), (0xf88, 0x46_1100), (0xfc0, 0), (0xfc8, GOEXIT)];
            frames.iter().for_each(|&(at, word)| self.memory.set_word(low + at, word));
        }
        self.memory.add_words(MACHINE, &[4711, Self::goroutine(0)]);
    }
}

/// Types of goroutines, of threads and of a pointer to labels.
fn types(memory: &mut SyntheticMemory) -> [u64; 3] {
    let mut types = TypeWriter::new(TYPES);
    let [word, half, byte] = [8, 4, 1].map(|size| types.plain(size));
    let stack = types.structure(16, &[("lo", 0, word), ("hi", 8, word)]);
    let sched = types.structure(56, &[("sp", 0, word), ("pc", 8, word), ("bp", 40, word)]);
    let goroutine = types.structure(
        GOROUTINE_BYTES,
        &[
            ("stack", 0, stack),
            ("m", 48, word),
            ("sched", 56, sched),
            ("syscallsp", 112, word),
            ("syscallpc", 120, word),
            ("syscallbp", 128, word),
            ("atomicstatus", field::STATUS, half),
            ("trackingSeq", field::STOPS, byte),
            ("goid", field::ID, word),
            ("waitsince", 160, word),
            ("waitreason", 168, byte),
            ("parentGoid", 176, word),
            ("gopc", 200, word),
            ("startpc", 208, word),
            ("labels", field::LABELS, word),
        ],
    );
    let inner = types.structure(16, &[("procid", 0, word), ("curg", 8, word)]);
    let machine = types.structure(64, &[("m", 0, inner)]);
    let string = types.string();
    let pair = types.structure(32, &[("Key", 0, string), ("Value", 16, string)]);
    let list = types.slice(pair);
    let set = types.structure(24, &[("List", 0, list)]);
    let labels = types.pointer(set);
    types.write(memory);
    [goroutine, machine, labels]
}

/// An instruction of three bytes and the distance to `target`, at `address`.
fn load(code: u32, address: u64, target: u64) -> Vec<u8> {
    let distance = (target.wrapping_sub(address + 7) as u32).to_le_bytes();
    [&code.to_be_bytes()[1..], &distance].concat()
}

fn call(address: u64, target: u64) -> Vec<u8> {
    let distance = (target.wrapping_sub(address + 5) as u32).to_le_bytes();
    [&[0xe8], &distance[..]].concat()
}
