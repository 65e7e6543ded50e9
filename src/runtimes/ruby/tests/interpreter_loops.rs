//! The interpreter's loop in modules of known instructions.

use crate::runtimes::ruby::interpreter_loop::{RubyLoop, loop_ranges};

const RUN: u64 = 0x1000;
const RUN_END: u64 = 0x3000;
const COLD: u64 = 0x3000;
const ENTER: u64 = 0x4000;
const HANDLE: u64 = 0x4100;
const OTHER: u64 = 0x4200;

/// A module of functions.
struct Module {
    bytes: Vec<u8>,
    functions: Vec<(u64, u64)>,
}

impl Module {
    fn new() -> Self {
        let functions = vec![
            (0x800, 0x1000),
            (RUN, RUN_END),
            (COLD, COLD + 0x40),
            (ENTER, HANDLE),
            (HANDLE, OTHER),
            (OTHER, OTHER + 0x100),
        ];
        let mut module = Self { bytes: vec![0x90; 0x5000], functions };
        // jmp [rax], with what comes before it: one for each instruction.
        for index in 0..120 {
            module.put(RUN + 0x20 + 16 * index, &[0xff, 0x20]);
        }
        module.jump(RUN + 0x10, COLD);
        module.jump(COLD + 0x10, RUN + 0x30);
        module.call(ENTER + 0x20, RUN);
        module
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        self.bytes[address as usize..address as usize + bytes.len()].copy_from_slice(bytes);
    }

    fn relative(&mut self, opcode: u8, from: u64, to: u64) {
        let distance = (to.wrapping_sub(from + 5) as u32).to_le_bytes();
        self.put(from, &[opcode]);
        self.put(from + 1, &distance);
    }

    fn call(&mut self, from: u64, to: u64) {
        self.relative(0xe8, from, to);
    }

    fn jump(&mut self, from: u64, to: u64) {
        self.relative(0xe9, from, to);
    }

    fn ranges(&self) -> RubyLoop {
        let read = |address: u64, size: u64| {
            let (start, end) = (address as usize, (address + size) as usize);
            self.bytes.get(start..end).map(<[u8]>::to_vec)
        };
        loop_ranges(&self.functions, &read)
    }
}

#[test]
fn the_function_that_calls_the_one_with_most_jumps_is_the_entry() {
    let expected = RubyLoop {
        entries: std::iter::once(ENTER..HANDLE).collect::<Vec<_>>(),
        inner: vec![RUN..RUN_END, COLD..COLD + 0x40],
    };
    assert_eq!(Module::new().ranges(), expected);
}

#[test]
fn a_function_between_the_entry_and_the_loop_is_inner() {
    let mut module = Module::new();
    module.call(ENTER + 0x40, HANDLE);
    module.call(HANDLE + 0x20, RUN);
    let ranges = module.ranges();
    assert_eq!(ranges.entries, std::iter::once(ENTER..HANDLE).collect::<Vec<_>>());
    assert!(ranges.inner.contains(&(HANDLE..OTHER)), "{ranges:x?}");
}

#[test]
fn a_loop_that_is_called_from_everywhere_is_its_own_entry() {
    let mut module = Module::new();
    for index in 0..4 {
        let start = 0x4400 + 0x40 * index;
        module.functions.push((start, start + 0x40));
        module.call(start + 8, RUN);
    }
    let expected = RubyLoop { entries: vec![RUN..RUN_END, COLD..COLD + 0x40], inner: Vec::new() };
    assert_eq!(module.ranges(), expected);
}

#[test]
fn jumps_through_tables_are_those_of_no_interpreter() {
    let mut module = Module::new();
    for index in 0..120 {
        // jmp [rip], as of imported functions
        module.put(RUN + 0x20 + 16 * index, &[0xff, 0x25, 0, 0, 0, 0]);
    }
    assert_eq!(module.ranges(), RubyLoop::default());
    assert_eq!(loop_ranges(&[], &|_, _| None), RubyLoop::default());
    assert_eq!(loop_ranges(&[(0, u64::MAX), (9, 2)], &|_, _| None), RubyLoop::default());
}
