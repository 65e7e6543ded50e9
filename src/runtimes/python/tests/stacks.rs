//! Stacks of damaged lists, shims and threads without states.

use super::interpreter::{C_FRAME, CODES, FRAMES, Interpreter, STATE, STEP, THREAD};
use crate::runtimes::python::frames::{frames, threads};
use crate::runtimes::python::layout::{MOST_STEPS, PythonLayout, PythonLocator};

fn interpreter_and_layout(minor: u8, count: u64) -> (Interpreter, PythonLayout) {
    let mut interpreter = Interpreter::new(minor);
    interpreter.put_frames(count);
    let layout = interpreter.find().unwrap();
    (interpreter, layout)
}

#[test]
fn cycle_of_frames_is_cut_by_count() {
    let (mut interpreter, layout) = interpreter_and_layout(12, 2);
    interpreter.put_frame(FRAMES + STEP, CODES, FRAMES);
    let stack = frames(&interpreter.arena, &layout, THREAD).unwrap();
    assert!(!stack.is_complete);
    assert_eq!(stack.frames.len(), MOST_STEPS);
}

#[test]
fn call_that_has_only_begun_is_left_out() {
    for (minor, current, previous) in [(11, 8, 16), (12, 0, 8)] {
        let (mut interpreter, layout) = interpreter_and_layout(minor, 2);
        let newest = C_FRAME + 0x100;
        interpreter.arena.put_u64(STATE + 56, newest);
        interpreter.arena.put_u64(newest + current, 0xdead_beef);
        interpreter.arena.put_u64(newest + previous, C_FRAME);
        let stack = frames(&interpreter.arena, &layout, THREAD).unwrap();
        assert!(stack.is_complete && stack.begins_with_shim);
        assert_eq!(stack.frames.len(), 2);
        interpreter.arena.put_u64(newest + previous, newest);
        assert_eq!(frames(&interpreter.arena, &layout, THREAD).unwrap().frames.len(), 0);
    }
}

#[test]
fn cycle_of_shims_is_cut_by_count() {
    let (mut interpreter, layout) = interpreter_and_layout(12, 1);
    interpreter.arena.put(FRAMES + 70, &[3]);
    interpreter.arena.put_u64(FRAMES + 8, FRAMES);
    let stack = frames(&interpreter.arena, &layout, THREAD).unwrap();
    assert!(!stack.is_complete && stack.begins_with_shim);
    assert_eq!(stack.frames.len(), 0);
}

#[test]
fn wild_frames_end_a_stack() {
    for wild in [1, 0x7000_0000_0000, u64::MAX, u64::MAX - 60] {
        let (mut interpreter, layout) = interpreter_and_layout(11, 3);
        interpreter.arena.put_u64(FRAMES + STEP + 48, wild);
        let stack = frames(&interpreter.arena, &layout, THREAD).unwrap();
        assert!(!stack.is_complete);
        assert_eq!(stack.frames.len(), 2);
    }
}

#[test]
fn shim_marks_the_frame_before_it() {
    let (mut interpreter, layout) = interpreter_and_layout(14, 4);
    let owner = interpreter.offsets.frame;
    let crate::runtimes::python::layout::PythonEntry::Shim { offset, .. } = owner.entry else {
        panic!("a shim")
    };
    for (index, value) in [(0, 3), (2, 4)] {
        interpreter.arena.put(FRAMES + index * STEP + u64::from(offset), &[value]);
    }
    let stack = frames(&interpreter.arena, &layout, THREAD).unwrap();
    assert!(stack.is_complete && stack.begins_with_shim);
    let found: Vec<_> = stack.frames.iter().map(|frame| (frame.code, frame.is_entry)).collect();
    assert_eq!(found, [(CODES + STEP, true), (CODES + 3 * STEP, true)]);
}

#[test]
fn thread_without_state_has_no_stack() {
    let (interpreter, layout) = interpreter_and_layout(12, 1);
    for thread in [THREAD + 0x1000, 0, u64::MAX, 0x7fff_0000_0000] {
        assert_eq!(frames(&interpreter.arena, &layout, thread), None);
    }
}

#[test]
fn locators_lead_to_states() {
    let (mut interpreter, _) = interpreter_and_layout(12, 1);
    let fixed = PythonLocator::Fixed { offset: -0x20 };
    interpreter.arena.put_u64(THREAD - 0x20, STATE);
    assert_eq!(fixed.thread_state(&interpreter.arena, THREAD), Some(STATE));
    assert_eq!(fixed.thread_state(&interpreter.arena, 4), None);
    let dynamic = PythonLocator::Dynamic { module: 2, offset: 24 };
    interpreter.arena.put_u64(THREAD + 8, THREAD + 0x600);
    interpreter.arena.put_u64(THREAD + 0x620, THREAD + 0x700);
    interpreter.arena.put_u64(THREAD + 0x718, STATE);
    assert_eq!(dynamic.thread_state(&interpreter.arena, THREAD), Some(STATE));
    let wild = PythonLocator::Dynamic { module: u64::MAX, offset: u64::MAX };
    assert_eq!(wild.thread_state(&interpreter.arena, THREAD), None);
}

#[test]
fn cycle_of_threads_is_cut_by_count() {
    let (mut interpreter, layout) = interpreter_and_layout(12, 1);
    interpreter.arena.put_u64(STATE + 8, STATE);
    assert_eq!(threads(&interpreter.arena, &layout.lists).len(), MOST_STEPS);
}
