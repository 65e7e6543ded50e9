//! Stacks.

use super::synthetic::SyntheticPhp;
use crate::runtimes::php::PhpCode;
use crate::runtimes::php::frames::{PhpLoopPlace, PhpStack, stack};
use crate::runtimes::php::layout::{CALL_CODE, CALL_TOP, IS_INCLUDED, MOST_FRAMES, PhpKept, PhpLayout};

fn stack_of(php: &SyntheticPhp) -> PhpStack {
    let layout = php.find().expect("it fits");
    stack(php.memory(), &layout, None)
}

#[test]
fn frames_have_functions_lines_and_marks() {
    let mut php = SyntheticPhp::new();
    let main = php.put_code(0, 2, "", "", "/srv/app.php", 1);
    let part = php.put_code(1, 2, "", "", "/srv/part.php", 1);
    let usort = php.put_code(2, 1, "", "usort", "", 0);
    let compare = php.put_code(3, 2, "", "{closure}", "/srv/part.php", 9);
    php.call(main, CALL_TOP | CALL_CODE, 5);
    php.call(part, CALL_CODE, 7);
    php.call(usort, 0, 0);
    // A frame that only joins two others.
    php.call(0, 0, 0);
    php.call(compare, CALL_TOP, 11);
    let layout = php.find().expect("it fits");
    let stack = stack_of(&php);
    let shown: Vec<(String, u32, bool)> = (stack.frames.iter())
        .map(|frame| {
            let code = PhpCode::read(php.memory(), &layout, frame.code).expect("it is a function");
            (code.function, frame.position, frame.is_entry)
        })
        .collect();
    let expected =
        [("{closure}", 11, true), ("usort", 0, false), ("include part.php", 7, false), ("<main>", 5, true)];
    assert_eq!(shown, expected.map(|(name, line, is_entry)| (name.to_owned(), line, is_entry)));
    assert_eq!(stack.frames[2].code, part | IS_INCLUDED);
    assert!(stack.is_complete);
}

#[test]
fn a_function_that_deals_with_an_exception_is_where_it_was_thrown() {
    let mut php = SyntheticPhp::new();
    let main = php.put_code(0, 2, "", "", "/srv/app.php", 1);
    php.call(main, CALL_TOP | CALL_CODE, 0);
    php.throw_at(17);
    assert_eq!(stack_of(&php).frames[0].position, 17);
}

#[test]
fn the_loop_has_the_line_of_its_frame_in_registers() {
    let mut php = SyntheticPhp::new();
    let main = php.put_code(0, 2, "", "", "/srv/app.php", 1);
    let frame = php.call(main, CALL_TOP | CALL_CODE, 5);
    let layout = php.find().expect("it fits");
    let first = 0x7777_0000;
    let field = |offset: u32| main + u64::from(offset);
    php.memory_mut().put_u64(field(layout.offsets.function.instructions.expect("it is known")), first);
    php.memory_mut().put_u32(field(layout.offsets.function.file) + 12, 20);
    for (number, line) in [(2, 9), (3, 21)] {
        php.memory_mut().put_u32(first + 32 * number + u64::from(layout.offsets.line), line);
    }
    let line = |frame, instruction| {
        let registers = PhpLoopPlace { frame, instruction };
        stack(php.memory(), &layout, Some(registers)).frames[0].position
    };
    assert_eq!(line(frame, first + 64), 9);
    assert_eq!(line(frame, first + 72), 5, "it is no instruction");
    assert_eq!(line(frame, first + 96), 5, "it is no line of the function");
    assert_eq!(line(frame + 8, first + 64), 5, "they are of something else");
}

#[test]
fn functions_that_a_request_frees_are_brief_and_another_at_their_place_has_another_tag() {
    let mut php = SyntheticPhp::new();
    let named = php.put_code(0, 2, "", "work", "/srv/app.php", 1);
    let unnamed = php.put_code(1, 2, "", "", "/srv/app.php", 1);
    let usort = php.put_code(2, 1, "", "usort", "", 0);
    for function in [usort, unnamed, named] {
        php.call(function, CALL_TOP, 5);
    }
    let mut layout = php.find().expect("it fits");
    let brief = |php: &SyntheticPhp, layout: &PhpLayout| {
        let frames = stack(php.memory(), layout, None).frames;
        [0, 1, 2].map(|index: usize| frames[index].is_brief)
    };
    for (kept, expected) in [
        (PhpKept::None, [true, true, false]),
        (PhpKept::Immutable, [true, true, false]),
        (PhpKept::All, [false, true, false]),
    ] {
        layout.kept = kept;
        assert_eq!(brief(&php, &layout), expected, "{kept:?}");
    }
    php.memory_mut().put_u32(unnamed + 4, 1 << 7);
    layout.kept = PhpKept::Immutable;
    assert_eq!(brief(&php, &layout), [true, false, false]);
    let tag = |php: &SyntheticPhp| stack(php.memory(), &layout, None).frames[0].tag;
    let before = tag(&php);
    let other = (0..8).map(|step| {
        php.memory_mut().put_u64(named + 8, 0x6600_0000 + 64 * step);
        tag(&php)
    });
    assert!(other.collect::<Vec<_>>().into_iter().any(|tag| tag != before));
}

#[test]
fn a_list_without_an_end_ends() {
    let mut php = SyntheticPhp::new();
    let main = php.put_code(0, 2, "", "", "/srv/app.php", 1);
    let frame = php.call(main, CALL_TOP | CALL_CODE, 5);
    let layout = php.find().expect("it fits");
    php.memory_mut().put_u64(frame + 48, frame);
    let cyclic = stack(php.memory(), &layout, None);
    assert_eq!((cyclic.frames.len(), cyclic.is_complete), (MOST_FRAMES, false));
    php.memory_mut().put_u64(frame + 48, 0xdead_0000);
    let wild = stack(php.memory(), &layout, None);
    assert_eq!((wild.frames.len(), wild.is_complete), (1, false));
    php.memory_mut().put_u64(frame + 24, u64::MAX - 3);
    assert!(stack(php.memory(), &layout, None).frames.is_empty());
}
