//! Strings, code objects and line tables, good and damaged.

use super::interpreter::{CODE_TYPE, CODES, Interpreter, TEXT_TYPE};
use crate::runtimes::python::code::PythonCode;
use crate::runtimes::python::layout::{PythonLayout, PythonLineTable};
use crate::runtimes::python::lines::line;
use crate::runtimes::python::text::{read_bytes, read_text};

const TEXT: u64 = 0x30_0000;
const CHARACTERS: u64 = 0x30_2000;

/// Text of a string with these characters after a header of `header` bytes.
fn text(minor: u8, width: u32, is_ascii: bool, header: u64, characters: &[u8]) -> Option<String> {
    let mut interpreter = Interpreter::new(minor);
    interpreter.arena.put_u64(TEXT + 8, TEXT_TYPE);
    interpreter.arena.put_u64(TEXT + 16, characters.len() as u64 / u64::from(width));
    interpreter.put_text_state(TEXT, width, true, is_ascii);
    interpreter.arena.put(TEXT + header, characters);
    read_text(&interpreter.arena, &interpreter.object(), TEXT)
}

#[test]
fn compact_strings_of_every_width() {
    for (minor, ascii, other) in [(8, 48, 72), (11, 48, 72), (12, 40, 56), (14, 40, 56)] {
        assert_eq!(text(minor, 1, true, ascii, b"plain").as_deref(), Some("plain"));
        assert_eq!(text(minor, 1, false, other, b"gr\xfc\xdfe").as_deref(), Some("grüße"));
        assert_eq!(text(minor, 2, false, other, &[0x0d, 0x54, 0x4d, 0x52]).as_deref(), Some("名前"));
        assert_eq!(text(minor, 4, false, other, &[0x40, 0xf6, 1, 0]).as_deref(), Some("🙀"));
        // Half a pair, as in names that are not UTF-8.
        assert_eq!(text(minor, 2, false, other, &[0x80, 0xdc, 0x61, 0]).as_deref(), Some("\u{fffd}a"));
        assert_eq!(text(minor, 4, false, other, &[0x80, 0xdc, 0, 0]).as_deref(), Some("\u{fffd}"));
        assert_eq!(text(minor, 4, false, other, &[0, 0, 0x11, 0]), None, "no code point");
        assert_eq!(text(minor, 1, true, ascii, b"gr\xfc"), None, "not ASCII");
        assert_eq!(text(minor, 3, false, other, b"abc"), None, "no such width");
    }
}

#[test]
fn strings_with_separate_characters() {
    for (minor, pointer) in [(8, 72), (12, 56)] {
        let mut interpreter = Interpreter::new(minor);
        interpreter.arena.put_u64(TEXT + 8, TEXT_TYPE);
        interpreter.arena.put_u64(TEXT + 16, 2);
        interpreter.put_text_state(TEXT, 2, false, false);
        interpreter.arena.put_u64(TEXT + pointer, CHARACTERS);
        interpreter.arena.put(CHARACTERS, &[0x0d, 0x54, 0x4d, 0x52]);
        assert_eq!(read_text(&interpreter.arena, &interpreter.object(), TEXT).as_deref(), Some("名前"));
    }
}

#[test]
fn strings_never_made_ready() {
    let mut interpreter = Interpreter::new(9);
    interpreter.arena.put_u64(TEXT + 8, TEXT_TYPE);
    interpreter.put_text_state(TEXT, 0, false, false);
    interpreter.arena.put_u64(TEXT + 40, CHARACTERS);
    interpreter.arena.put_u64(TEXT + 64, 2);
    interpreter.arena.put(CHARACTERS, &[0x61, 0, 0, 0, 0x40, 0xf6, 1, 0]);
    assert_eq!(read_text(&interpreter.arena, &interpreter.object(), TEXT).as_deref(), Some("a🙀"));
}

#[test]
fn strings_that_are_none_or_too_long() {
    let mut interpreter = Interpreter::new(12);
    interpreter.put_ascii(TEXT, "name");
    let object = interpreter.object();
    assert!(read_text(&interpreter.arena, &object, TEXT).is_some());
    for length in [1 << 30, 4097, u64::MAX, 1 << 62] {
        interpreter.arena.put_u64(TEXT + 16, length);
        assert_eq!(read_text(&interpreter.arena, &object, TEXT), None);
        assert_eq!(read_bytes(&interpreter.arena, &object, TEXT), None);
    }
    interpreter.arena.put_u64(TEXT + 16, 4);
    interpreter.arena.put_u64(TEXT + 8, CODE_TYPE);
    assert_eq!(read_text(&interpreter.arena, &object, TEXT), None);
    for wild in [0, 8, u64::MAX - 8, u64::MAX - 3] {
        assert_eq!(read_text(&interpreter.arena, &object, wild), None);
        assert_eq!(read_bytes(&interpreter.arena, &object, wild), None);
    }
}

fn interpreter_and_layout() -> (Interpreter, PythonLayout) {
    let mut interpreter = Interpreter::new(12);
    interpreter.put_frames(1);
    let layout = interpreter.find().unwrap();
    (interpreter, layout)
}

#[test]
fn objects_that_are_no_code_have_no_names() {
    let (mut interpreter, layout) = interpreter_and_layout();
    let read = |interpreter: &Interpreter, address| PythonCode::read(&interpreter.arena, &layout, address);
    assert!(read(&interpreter, CODES).is_some());
    assert!(read(&interpreter, CODES + 8).is_none());
    assert!(read(&interpreter, u64::MAX - 4).is_none());
    interpreter.arena.put_u64(CODES + 8, TEXT_TYPE);
    assert!(read(&interpreter, CODES).is_none());
}

#[test]
fn code_with_damaged_parts_has_no_names() {
    // Name, file and line table, each pointing to something else; a byte code of impossible size.
    for (offset, value) in [(128, CODES), (112, u64::MAX), (136, CODES + 0x300), (16, 1 << 40), (16, 0)] {
        let (mut interpreter, layout) = interpreter_and_layout();
        interpreter.arena.put_u64(CODES + offset, value);
        assert_eq!(PythonCode::read(&interpreter.arena, &layout, CODES), None, "offset {offset}");
    }
}

#[test]
fn positions_outside_the_code_are_refused() {
    let (interpreter, layout) = interpreter_and_layout();
    let code = PythonCode::read(&interpreter.arena, &layout, CODES).unwrap();
    let start = CODES + 192;
    assert_eq!(code.position(start), Some(0));
    assert_eq!(code.position(start + 6), Some(6));
    assert_eq!(code.position(start + 8), None);
    assert_eq!(code.position(start - 4), None);
    assert_eq!(code.position(0), None);
    let before = code.position(start - 2).unwrap();
    assert_eq!(code.line(before), Some(10), "the first line before the first instruction");
}

#[test]
fn check_tells_code_objects_apart() {
    let (mut interpreter, layout) = interpreter_and_layout();
    let before = PythonCode::identity(&interpreter.arena, &layout, CODES);
    assert!(before.is_some());
    interpreter.arena.put_u32(CODES + 68, 11);
    assert_ne!(PythonCode::identity(&interpreter.arena, &layout, CODES), before);
    assert_eq!(PythonCode::identity(&interpreter.arena, &layout, CODES + 16), None);
}

#[test]
fn increments_of_lines() {
    // Bytes 0 and 1: line 10; 2 to 5: line 11; from 6 on: line 9.
    let table = [2, 1, 4, 0xfe];
    let at = |position| line(PythonLineTable::Increments, &table, 10, position);
    assert_eq!([at(0), at(1), at(2), at(5), at(6), at(5000)], [10, 10, 11, 11, 9, 9].map(Some));
    assert_eq!(line(PythonLineTable::Increments, &[], 7, 100), Some(7));
    assert_eq!(line(PythonLineTable::Increments, &[0, 0x80], 7, 0), None, "a line below 0");
}

#[test]
fn ranges_of_lines() {
    // Bytes 0 to 3: line 10; 4 to 5: none; 6 to 9: line 12; nothing after.
    let table = [4, 0, 2, 0x80, 4, 2, 9];
    let at = |position| line(PythonLineTable::Ranges, &table, 10, position);
    assert_eq!(
        [at(0), at(3), at(4), at(6), at(9), at(10)],
        [Some(10), Some(10), None, Some(12), Some(12), None]
    );
}

#[test]
fn locations_of_every_form() {
    // Short form, one line further, no columns (+20), long form (-3), none; one instruction each.
    let table = [
        0x80 | 3 << 3,
        0x11, // columns only
        0x80 | 11 << 3,
        4,
        9, // line + 1
        0x80 | 13 << 3,
        40, // line + 20
        0x80 | 14 << 3,
        7,
        0x41,
        1,
        2,
        3,                  // line - 3, three more numbers, the first of two bytes
        0x80 | 15 << 3 | 1, // none, two instructions
    ];
    let at = |position| line(PythonLineTable::Locations, &table, 10, position);
    assert_eq!([at(0), at(1), at(2), at(4), at(6)], [10, 10, 11, 31, 28].map(Some));
    assert_eq!([at(8), at(10), at(12)], [None; 3]);
}

#[test]
fn truncated_tables_end() {
    let table = [0x80 | 14 << 3 | 7, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f];
    for end in 0..=table.len() {
        assert_eq!(line(PythonLineTable::Locations, &table[..end], 1, 4), None);
        assert_eq!(line(PythonLineTable::Locations, &table[end..], 1, u32::MAX), None);
    }
    assert_eq!(
        line(PythonLineTable::Locations, &[0x80 | 13 << 3, 0xc0 | 63, 63], 1, 0),
        None,
        "a line below 0"
    );
}
