//! Ranges of the interpreter loop in synthetic code, and what short functions read.

use std::ops::Range;

use super::{Arena, START};
use crate::runtimes::python::attach::disassembly::accesses;
use crate::runtimes::python::interpreter_loop::eval_ranges;

const LOOP: u64 = START + 0x1000;

/// `jmp` of five bytes.
fn jump(from: u64, to: u64) -> Vec<u8> {
    let distance = i32::try_from(to.wrapping_sub(from + 5).cast_signed()).unwrap();
    [&[0xe9][..], &distance.to_le_bytes()].concat()
}

/// Ranges found in code whose functions are these, the loop the first.
fn ranges(arena: &Arena, functions: &[Range<u64>]) -> Vec<Range<u64>> {
    let read =
        |address: u64, size: u64| crate::runtimes::memory::TargetMemory::range(arena, address, size, 1 << 20);
    let function_at = |address: u64| functions.iter().find(|range| range.contains(&address)).cloned();
    eval_ranges(functions[0].clone(), &read, &function_at)
}

#[test]
fn split_parts_jump_back_and_other_functions_do_not() {
    let mut arena = Arena::new();
    let (body, cold, other, inner) =
        (LOOP..LOOP + 64, START..START + 32, LOOP + 0x100..LOOP + 0x120, LOOP + 0x200..LOOP + 0x240);
    arena.put(LOOP, &jump(LOOP, cold.start));
    arena.put(LOOP + 5, &jump(LOOP + 5, other.start));
    arena.put(LOOP + 10, &jump(LOOP + 10, inner.start + 8));
    arena.put(cold.start, &jump(cold.start, LOOP + 10));
    // A function that calls the loop again, at its start, is another function.
    arena.put(other.start, &jump(other.start, LOOP));
    let functions = [body.clone(), cold.clone(), other, inner.clone()];
    assert_eq!(ranges(&arena, &functions), [cold, body, inner]);
}

#[test]
fn parts_found_later_admit_earlier_candidates() {
    let mut arena = Arena::new();
    let (body, first, second) = (LOOP..LOOP + 64, START..START + 32, START + 64..START + 128);
    arena.put(LOOP, &jump(LOOP, first.start));
    arena.put(LOOP + 5, &jump(LOOP + 5, second.start + 16));
    arena.put(first.start, &jump(first.start, second.start + 20));
    assert_eq!(ranges(&arena, &[body.clone(), first.clone(), second.clone()]), [first, second, body]);
}

#[test]
fn functions_of_single_instructions_are_parts() {
    let mut arena = Arena::new();
    let (body, handlers, label) = (LOOP..LOOP + 64, START..START + 32, START + 64..START + 96);
    let table = LOOP + 0x1000;
    for index in 0..256 {
        arena.put_u64(table + 8 * index, handlers.start);
    }
    // lea rcx, the table; jmp [rcx + rax * 8]
    let dispatch = |at: u64| {
        let distance = i32::try_from((table - (at + 7)).cast_signed()).unwrap();
        [&[0x48, 0x8d, 0x0d][..], &distance.to_le_bytes(), &[0xff, 0x24, 0xc1]].concat()
    };
    arena.put(LOOP, &dispatch(LOOP));
    arena.put(handlers.start, &jump(handlers.start, label.start));
    arena.put(label.start, &dispatch(label.start));
    let functions = [body.clone(), handlers.clone(), label.clone()];
    assert_eq!(ranges(&arena, &functions), [handlers.clone(), label, body.clone()]);
    // A table of places inside the loop is an ordinary switch.
    for index in 0..256 {
        arena.put_u64(table + 8 * index, LOOP + 16);
    }
    assert_eq!(ranges(&arena, &functions), [body]);
}

#[test]
fn unreadable_code_is_the_loop_alone() {
    let arena = Arena::new();
    let wild = u64::MAX - 100..u64::MAX;
    assert_eq!(ranges(&arena, std::slice::from_ref(&wild)), [wild]);
    let reversed = Range { start: LOOP, end: START };
    assert_eq!(ranges(&arena, std::slice::from_ref(&reversed)), [reversed]);
}

#[test]
fn fields_are_followed_from_the_argument() {
    let mut arena = Arena::new();
    let code = [
        0x48, 0x8b, 0x47, 0x38, // mov rax, [rdi + 0x38]
        0x48, 0x8b, 0x78, 0x08, // mov rdi, [rax + 8]
        0x48, 0x8b, 0x47, 0x20, // mov rax, [rdi + 0x20]
        0x74, 0x05, // je to the last but one
        0x48, 0x83, 0xe0, 0xfe, // and rax, -2
        0xc3, // ret
        0x48, 0x8d, 0x50, 0x70, // lea rdx, [rax + 0x70]
        0xc3, // ret
        0x48, 0x8b, 0x47, 0x50, // mov rax, [rdi + 0x50], never reached
    ];
    arena.put(LOOP, &code);
    let found = accesses(&arena, LOOP);
    assert_eq!(found.fields, [vec![0x38], vec![0x38, 8], vec![0x38, 8, 0x20]]);
    assert_eq!(found.sums, [[0x38, 8, 0x20, 0x70]]);
}

#[test]
fn thread_local_words_and_constants_are_found() {
    let mut arena = Arena::new();
    let code = [
        0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff, // mov rax, fs:[-8]
        0x8b, 0x3d, 0x10, 0, 0, 0, // mov edi, [rip + 0x10]
        0xe9, 0, 0, 1, 0, // jmp elsewhere
    ];
    arena.put(LOOP, &code);
    arena.put_u32(LOOP + 15 + 0x10, 7);
    let found = accesses(&arena, LOOP);
    assert_eq!(found.thread_local, [-8]);
    assert_eq!(found.constants, [LOOP + 15 + 0x10]);
    let arguments: Vec<_> = found.arguments.iter().map(|argument| (argument.value, argument.from)).collect();
    assert_eq!(arguments, [(7, Some(LOOP + 15 + 0x10))]);
    assert!(accesses(&arena, u64::MAX - 3).fields.is_empty());
}
