//! Finding layouts, and refusing what does not fit.

use super::interpreter::{
    CODE_TYPE, CODES, FRAMES, GETTER, INTERPRETER, Interpreter, LOCK, RUNTIME, STATE, THREAD, VERSION,
};
use crate::runtimes::python::code::PythonCode;
use crate::runtimes::python::frames::frames;
use crate::runtimes::python::layout::{PythonGil, PythonLocator};

/// Text of the problem that is found, and whether it is temporary.
fn problem(interpreter: &Interpreter) -> (String, bool) {
    let problem = interpreter.find().unwrap_err();
    (problem.to_string(), problem.is_temporary())
}

#[test]
fn every_version_is_found_and_read() {
    for minor in 8..=14 {
        let mut interpreter = Interpreter::new(minor);
        interpreter.put_frames(3);
        let layout = interpreter.find().unwrap();
        assert_eq!(layout.version.minor, minor);
        assert_eq!(layout.locator, PythonLocator::Key { key: 3, slot: 0x310 + 56 });
        let stack = frames(&interpreter.arena, &layout, THREAD).unwrap();
        assert!(stack.is_complete && !stack.begins_with_shim, "3.{minor}");
        assert_eq!(stack.frames.len(), 3, "3.{minor}");
        let entries: Vec<_> = stack.frames.iter().map(|frame| frame.is_entry).collect();
        assert_eq!(entries, [minor < 11, minor < 11, true]);
        let code = PythonCode::read(&interpreter.arena, &layout, stack.frames[0].code).unwrap();
        assert_eq!(code.function, if minor < 11 { "f" } else { "C.f" });
        assert_eq!(code.file, "dir/file.py");
        let position = code.position(stack.frames[0].position).unwrap();
        assert_eq!(position, if minor == 10 { 8 } else { 4 }, "3.{minor}");
    }
}

#[test]
fn free_threaded_builds_run_copies_of_byte_code() {
    for minor in [13, 14] {
        let mut interpreter = Interpreter::of_build(minor, true);
        interpreter.put_frames(2);
        if let Some(offset) = interpreter.offsets.code.thread_instructions {
            let (array, copy) = (CODES + 0x800, CODES + 0x900);
            interpreter.arena.put_u64(CODES + u64::from(offset), array);
            interpreter.arena.put_u64(array, 3);
            interpreter.arena.put_u64(array + 24, copy);
            interpreter.arena.put_u64(FRAMES + u64::from(interpreter.offsets.frame.position), copy + 2);
        }
        let layout = interpreter.find().unwrap();
        assert!(layout.version.is_free_threaded);
        assert_eq!(layout.gil, PythonGil::Absent);
        let stack = frames(&interpreter.arena, &layout, THREAD).unwrap();
        assert!(stack.is_complete);
        let code = PythonCode::read(&interpreter.arena, &layout, stack.frames[0].code).unwrap();
        assert_eq!(code.function, "C.f");
        let expected = if minor == 14 { 2 } else { 4 };
        assert_eq!(code.position(stack.frames[0].position), Some(expected), "3.{minor}t");
    }
}

#[test]
fn holder_of_the_lock_is_read() {
    let mut interpreter = Interpreter::new(12);
    interpreter.put_frames(1);
    let layout = interpreter.find().unwrap();
    assert_eq!(layout.gil, PythonGil::Lock { holder: LOCK + 8, locked: LOCK + 16 });
    assert_eq!(layout.gil.holder(&interpreter.arena), Some(STATE));
    interpreter.arena.put_u32(LOCK + 16, 0);
    assert_eq!(layout.gil.holder(&interpreter.arena), None);
    let mut interpreter = Interpreter::new(9);
    interpreter.put_frames(1);
    let layout = interpreter.find().unwrap();
    assert_eq!(layout.gil, PythonGil::Current { state: RUNTIME + 568 });
    assert_eq!(layout.gil.holder(&interpreter.arena), None);
}

#[test]
fn other_offsets_in_code_objects_are_refused() {
    let mut interpreter = Interpreter::new(12);
    interpreter.put_frames(1);
    interpreter.put_members(CODE_TYPE, &[("co_filename", 104), ("co_name", 120)]);
    let (text, is_temporary) = problem(&interpreter);
    assert!(text.contains("code objects have other offsets") && !is_temporary, "{text}");
    let mut interpreter = Interpreter::new(12);
    interpreter.put_frames(1);
    interpreter.arena.put_u64(CODE_TYPE + 240, 0);
    assert!(problem(&interpreter).0.contains("does not list the members"));
}

#[test]
fn other_keys_are_refused() {
    let mut interpreter = Interpreter::new(11);
    interpreter.put_frames(1);
    interpreter.arena.put_u64(GETTER + 2, RUNTIME + 600);
    assert!(problem(&interpreter).0.contains("key of thread states is at another offset"));
}

#[test]
fn frames_of_other_objects_are_refused() {
    let mut interpreter = Interpreter::new(12);
    interpreter.put_frames(2);
    interpreter.arena.put_u64(CODES + 8, CODE_TYPE + 8);
    assert!(problem(&interpreter).0.contains("no stack could be read to its root"));
}

#[test]
fn threads_without_a_way_to_their_state_are_refused() {
    let mut interpreter = Interpreter::new(12);
    interpreter.put_frames(2);
    interpreter.arena.put_u64(THREAD + 0x310 + 56, STATE + 8);
    assert!(problem(&interpreter).0.contains("place of thread states was not found"));
}

#[test]
fn interpreters_that_start_are_a_temporary_problem() {
    let mut interpreter = Interpreter::new(12);
    assert!(problem(&interpreter).0.contains("no thread runs Python code") && problem(&interpreter).1);
    interpreter.arena.put_u64(RUNTIME + 40, 0);
    assert!(problem(&interpreter).0.contains("no threads yet") && problem(&interpreter).1);
}

#[test]
fn unknown_versions_are_refused() {
    for minor in [7, 15, 200] {
        let mut interpreter = Interpreter::new(12);
        interpreter.put_frames(1);
        interpreter.arena.put_u32(VERSION, 0x0300_00f0 | minor << 16);
        let (text, is_temporary) = problem(&interpreter);
        assert!(text.contains("not known here") && !is_temporary, "{text}");
    }
}

#[test]
fn published_offsets_in_another_order_are_refused() {
    for minor in [13, 14] {
        let mut interpreter = Interpreter::new(minor);
        interpreter.put_frames(1);
        // As if the process were of the other version.
        interpreter.arena.put_u64(RUNTIME + 8, 0x0300_03f0 | u64::from(27 - minor) << 16);
        assert!(problem(&interpreter).0.contains("not in the known order"));
        interpreter.arena.put_u64(RUNTIME + 8, 0x0300_03f0 | u64::from(minor) << 16);
        assert!(interpreter.find().is_ok());
        // An offset beyond the size of a code object.
        let word = if minor == 13 { 35 } else { 40 };
        interpreter.arena.put_u64(RUNTIME + 8 * word, 0x101);
        assert!(problem(&interpreter).0.contains("not in the known order"));
    }
}

#[test]
fn cycles_and_wild_pointers_end() {
    for wild in [STATE, u64::MAX, u64::MAX - 7, 1, 0xdead_beef_0000] {
        let mut interpreter = Interpreter::new(12);
        interpreter.put_frames(1);
        interpreter.arena.put_u64(STATE + 8, wild);
        interpreter.arena.put_u64(INTERPRETER, INTERPRETER);
        assert!(interpreter.find().is_ok(), "the first thread is enough");
        interpreter.arena.put_u64(STATE + 56, wild);
        assert!(interpreter.find().is_err());
        interpreter.arena.put_u64(RUNTIME + 40, wild);
        assert!(interpreter.find().is_err());
    }
}
