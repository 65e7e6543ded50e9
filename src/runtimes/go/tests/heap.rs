//! A list of places as a Go program has it, and damaged ones.

use super::synthetic::SyntheticMemory;
use crate::runtimes::go::{GoHeapLayout, GoHeapPlace, GoTableLack, real_calls};
use std::ops::Range;

const CODE: u64 = 0x40_0000;
const VARIABLES: u64 = 0x50_0000;
const FIRST: u64 = 0x7000_0000;
const SECOND: u64 = 0x7000_1000;

/// `mov rax, [variable]` or `lea rax, [variable]` at the start of a function.
pub(super) fn uses(at: u64, opcode: u8, variable: u64) -> Vec<u8> {
    let distance = (variable - (at + 7)) as u32;
    let [a, b, c, d] = distance.to_le_bytes();
    let mut code = vec![0x48, opcode, 0x05, a, b, c, d, 0xc3];
    code.resize(16, 0xcc);
    code
}

/// A place: its words up to the stack, the stack, and four cycles with blocks allocated and freed, and their bytes.
fn place(next: u64, kind: u64, size: u64, stack: &[u64], cycles: [(u64, u64); 4]) -> Vec<u64> {
    let mut words = vec![0, next, kind, 0x1234, size, stack.len() as u64];
    words.extend(stack);
    words.extend(
        cycles.iter().flat_map(|(allocated, freed)| [*allocated, *freed, allocated * size, freed * size]),
    );
    words
}

/// A program whose list begins with `first`.
fn program(first: &[u64]) -> SyntheticMemory {
    let mut memory = SyntheticMemory::default();
    memory.add(CODE, uses(CODE, 0x8b, VARIABLES));
    memory.add(CODE + 16, uses(CODE + 16, 0x8d, VARIABLES + 8));
    memory.add_words(VARIABLES, &[524_288, FIRST]);
    memory.add_words(FIRST, first);
    let second = place(0, 1, 64, &[0x1, 0x2], [(0, 0), (7, 2), (0, 0), (1, 1)]);
    memory.add_words(SECOND, &second);
    memory
}

fn functions(name: &str) -> Option<Range<u64>> {
    match name {
        "runtime.profilealloc" => Some(CODE..CODE + 16),
        "runtime.stkbucket" => Some(CODE + 16..CODE + 32),
        _ => None,
    }
}

fn read(first: &[u64]) -> Option<Vec<GoHeapPlace>> {
    let memory = program(first);
    GoHeapLayout::find(&memory, &functions)?.read(&memory, 100).ok()
}

#[test]
fn places_have_what_the_last_collection_has_published() {
    let first = place(SECOND, 1, 4096, &[0x11, 0x22, 0x33], [(10, 4), (100, 0), (100, 0), (100, 0)]);
    let memory = program(&first);
    let layout = GoHeapLayout::find(&memory, &functions).expect("it is there");
    assert_eq!(layout.rate(&memory), Some(524_288));
    let places = layout.read(&memory, 2).expect("it can be read");
    let [first, second] = &places[..] else { panic!("{places:?}") };
    assert_eq!((first.address, first.size, first.allocated, first.freed), (FIRST, 4096, 10, 4));
    assert_eq!(first.stack, [0x11, 0x22, 0x33]);
    assert_eq!((second.address, second.allocated, second.freed), (SECOND, 0, 0), "not published");
    assert_eq!(layout.read(&memory, 1), Err(GoTableLack::TooMany), "more than is read");
}

#[test]
fn before_the_first_collection_all_that_was_allocated_counts() {
    let places =
        read(&place(SECOND, 1, 4096, &[0x11], [(0, 0), (3, 0), (2, 1), (0, 0)])).expect("it can be read");
    let counts: Vec<_> = places.iter().map(|place| (place.allocated, place.freed)).collect();
    assert_eq!(counts, [(5, 1), (8, 3)]);
}

#[test]
fn what_is_no_list_of_places_is_refused() {
    let cycles = [(1, 0), (0, 0), (0, 0), (0, 0)];
    assert_eq!(read(&place(0, 2, 64, &[0x11], cycles)), None, "places that wait");
    assert_eq!(read(&place(FIRST, 1, 64, &[0x11], cycles)), None, "it leads to itself");
    assert_eq!(read(&place(0x666, 1, 64, &[0x11], cycles)), None, "it leads nowhere");
    let mut long = place(0, 1, 64, &[0x11], cycles);
    long[5] = u64::MAX / 8;
    assert_eq!(read(&long), None, "a stack without end");
    // Two that lead to each other.
    let mut memory = program(&place(SECOND, 1, 64, &[0x11], cycles));
    memory.set_word(SECOND + 8, FIRST);
    let layout = GoHeapLayout::find(&memory, &functions).expect("it begins well");
    assert_eq!(layout.read(&memory, 1000), Err(GoTableLack::TooMany));
    memory.set_word(SECOND + 16, 2);
    assert_eq!(layout.read(&memory, 1000), Err(GoTableLack::Unreadable), "a place that waits");
}

#[test]
fn calls_that_were_put_into_their_callers_are_left_out() {
    let mut memory = SyntheticMemory::default();
    let mut code = vec![0x90; 64];
    // call rel32, which ends at 0x1015 and at 0x1025.
    (code[0x10], code[0x20]) = (0xe8, 0xe8);
    // mov al,0xff; nop, of which the last two bytes look like a call to where a register says.
    (code[0x30], code[0x31]) = (0xb0, 0xff);
    memory.add(0x1000, code);
    memory.add(0x2000, vec![0x90; 64]);
    let around = |address: u64| Some(address & !0xfff..(address & !0xfff) + 0x40);
    // The second is a mark in the function of the first; the third is a call of that function by itself.
    let stack = [0x1015, 0x1031, 0x1033, 0x1025, 0x2008];
    assert_eq!(real_calls(&stack, &memory, around), [0x1015, 0x1025, 0x2008]);
}
