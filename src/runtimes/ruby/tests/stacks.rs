//! Stacks of control frames, also such as no interpreter has.

use super::*;
use crate::runtimes::ruby::code::RubyCode;
use crate::runtimes::ruby::frames::{RubyStack, stack, stack_of};
use crate::runtimes::ruby::layout::RubyLayout;

fn layout(ruby: &SyntheticRuby) -> RubyLayout {
    RubyLayout::find(ruby, &|name| ruby.symbol(name), "libruby.so").expect("it fits")
}

fn read(ruby: &SyntheticRuby) -> RubyStack {
    stack(ruby, &ruby.offsets, CONTEXT)
}

#[test]
fn a_stack_has_its_functions_and_lines_from_the_leaf_to_the_root() {
    for version in VERSIONS {
        let ruby = SyntheticRuby::with_program(version);
        let layout = layout(&ruby);
        let stack = stack_of(&ruby, &layout, HANDLE).expect("the thread runs Ruby");
        assert!(stack.is_complete);
        let frames: Vec<(String, Option<u32>, bool)> = (stack.frames.iter())
            .map(|frame| {
                let code = RubyCode::read(&ruby, &layout, frame.code).expect("it is code");
                let line = code.line(frame.code, frame.position);
                (code.function, line, frame.is_entry)
            })
            .collect();
        let expected = [
            ("run", Some(13), false),
            ("block in <main>", Some(5), true),
            ("each", None, false),
            ("<main>", Some(4), true),
        ];
        assert_eq!(frames, expected.map(|(name, line, is_entry)| (name.to_owned(), line, is_entry)));
    }
}

#[test]
fn blocks_that_are_functions_in_c_are_left_out() {
    let mut ruby = SyntheticRuby::with_program((3, 3));
    let callback = ruby.make(40);
    ruby.put(callback, &[0x401a, 0, 0]);
    ruby.push(IN_CALLBACK, callback, 0, 0);
    let stack = read(&ruby);
    assert!(stack.is_complete);
    assert_eq!(stack.frames.len(), 4);
}

#[test]
fn what_is_no_frame_ends_the_stack() {
    let whole = SyntheticRuby::with_program((3, 1));
    assert!(read(&whole).is_complete);
    let frame = whole.u64(CONTEXT + 16).expect("it is there");
    let damage: [(&str, u64, u64); 6] = [
        ("a wild code object", frame + 16, 0x7fff_ffff_ffff_fff8),
        ("a code object that is none", frame + 16, THREAD),
        ("a wild environment", frame + 32, u64::MAX - 3),
        ("an environment at zero", frame + 32, 0),
        ("a kind that is none", ENVIRONMENTS + 64 * 5, 0x1234_0001),
        ("a method that is none", ENVIRONMENTS + 64 * 3 - 16, CONTEXT),
    ];
    for (what, address, word) in damage {
        let ruby = SyntheticRuby::with_program((3, 1));
        ruby.put(address, &[word]);
        assert!(!read(&ruby).is_complete, "{what}");
    }
}

#[test]
fn a_context_whose_stack_is_impossible_has_no_frames() {
    let contexts: [[u64; 3]; 6] = [
        [STACK, u64::MAX, STACK],
        [STACK, 1 << 61, STACK],
        [STACK, STACK_WORDS, STACK - 64],
        [STACK, STACK_WORDS, STACK + 8 * STACK_WORDS + 64],
        [STACK, STACK_WORDS, STACK + 8 * STACK_WORDS - 60],
        [8, 1 << 40, 8],
    ];
    for words in contexts {
        let ruby = SyntheticRuby::with_program((3, 1));
        ruby.put(CONTEXT, &words);
        assert_eq!(read(&ruby), RubyStack::default(), "{words:x?}");
    }
}
