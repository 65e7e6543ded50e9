//! Stacks and names of the interpreter that is made of bytes.

use super::super::code::{PerlCode, check};
use super::super::frames::{PerlFrame, frames};
use super::super::layout::PerlKind;
use super::synthetic::{INTERPRETER, SyntheticBlock, SyntheticPerl};
use crate::runtimes::TargetMemory;

/// Name, line and file of each frame, and a `|` after those that were entered from C; the leaf first.
fn lines(perl: &SyntheticPerl) -> Vec<String> {
    let stack = frames(&perl.memory, &perl.layout, INTERPRETER);
    assert!(stack.is_complete);
    let line = |frame: &PerlFrame| {
        let code = PerlCode::read(&perl.memory, &perl.layout, frame.code).expect("it has a name");
        let mark = if frame.is_entry { "|" } else { "" };
        format!("{} {}:{}{mark}", code.name, code.file, frame.line)
    };
    stack.frames.iter().map(line).collect()
}

const BLOCK: u8 = 2;
const SUB: u8 = 9;
const EVAL: u8 = 11;
const RETURNS: u64 = 0x7000;

fn called(kind: u8, old_statement: u64, sub: u64) -> SyntheticBlock {
    SyntheticBlock { kind, old_statement, return_op: RETURNS, sub, required: 0 }
}

#[test]
fn frames_are_at_the_statements_that_the_next_ones_were_entered_from() {
    for minor in [28, 34, 36, 40] {
        let mut perl = SyntheticPerl::new(minor);
        let (outer, inner) =
            (perl.sub("Shop::Cart", "total", "Cart.pm", 3), perl.sub("main", "__ANON__", "run.pl", 9));
        let at =
            [11, 5, 7, 8].map(|line| perl.statement(if line == 11 { "run.pl" } else { "Cart.pm" }, line));
        let leaf = perl.statement("run.pl", 21);
        let blocks = [
            SyntheticBlock { kind: BLOCK, ..SyntheticBlock::default() },
            called(SUB, at[0], outer),
            called(4, at[1], 0),
            called(EVAL | 0x40, at[2], 0),
            SyntheticBlock { required: 0x9000, ..called(EVAL, at[3], 0) },
            called(SUB, at[3], inner),
        ];
        let stack = perl.stack(0, &blocks);
        perl.set(stack, leaf);
        let expected = [
            "main::__ANON__ run.pl:21",
            "(require) Cart.pm:8",
            "(eval) Cart.pm:8",
            "Shop::Cart::total Cart.pm:7",
            "(main) run.pl:11|",
        ];
        assert_eq!(lines(&perl), expected, "5.{minor}");
    }
}

#[test]
fn calls_from_c_code_are_entries_and_the_last_call_of_a_sort_block_is_none() {
    let mut perl = SyntheticPerl::new(36);
    let (compare, destroy) =
        (perl.sub("main", "compare", "a.pl", 1), perl.sub("Thing", "DESTROY", "a.pl", 2));
    let at = [10, 20, 30, 40].map(|line| perl.statement("a.pl", line));
    let main = perl.stack(0, &[SyntheticBlock { kind: BLOCK, ..SyntheticBlock::default() }]);
    // A sort whose block ends with a call of a sub; it returns nowhere, like one that C code has called.
    let block = SyntheticBlock { old_statement: at[0], ..SyntheticBlock::default() };
    let sort = perl.stack(main, &[block, SyntheticBlock { return_op: 0, ..called(SUB, at[1], compare) }]);
    perl.memory.put(sort + u64::from(perl.layout.shape.stack_type), &3_u32.to_ne_bytes());
    let destructor = perl.stack(sort, &[SyntheticBlock { return_op: 0, ..called(SUB, at[2], destroy) }]);
    perl.set(destructor, at[3]);
    let expected =
        ["Thing::DESTROY a.pl:40|", "main::compare a.pl:30", "(sort block) a.pl:20|", "(main) a.pl:10|"];
    assert_eq!(lines(&perl), expected);
}

#[test]
fn a_sub_that_has_just_been_entered_is_at_no_line_of_its_caller() {
    let mut perl = SyntheticPerl::new(36);
    let (outer, inner) = (perl.sub("main", "outer", "a.pl", 1), perl.sub("main", "inner", "b.pl", 5));
    let at = [10, 20].map(|line| perl.statement("a.pl", line));
    let main = SyntheticBlock { kind: BLOCK, ..SyntheticBlock::default() };
    let entered = perl.stack(0, &[main, called(SUB, at[0], outer), called(SUB, at[1], inner)]);
    perl.set(entered, at[1]);
    assert_eq!(lines(&perl), ["main::inner b.pl:0", "main::outer a.pl:20", "(main) a.pl:10|"]);
    // One that calls itself is at the same statement again.
    let again = perl.stack(0, &[main, called(SUB, at[0], outer), called(SUB, at[1], outer)]);
    perl.set(again, at[1]);
    assert_eq!(lines(&perl), ["main::outer a.pl:20", "main::outer a.pl:20", "(main) a.pl:10|"]);
}

/// As the first function of a thread, or a handler of a signal.
#[test]
fn a_sub_that_c_code_calls_in_an_eval_is_one_group_with_it() {
    let mut perl = SyntheticPerl::new(36);
    let sub = perl.sub("main", "work", "a.pl", 1);
    let (at, leaf) = (perl.statement("a.pl", 10), perl.statement("a.pl", 20));
    let eval = SyntheticBlock { kind: EVAL | 0x40, old_statement: at, ..SyntheticBlock::default() };
    let stack = perl.stack(0, &[eval, SyntheticBlock { return_op: 0, ..called(SUB, at, sub) }]);
    perl.set(stack, leaf);
    assert_eq!(lines(&perl), ["main::work a.pl:20", "(eval) a.pl:10|"]);
}

#[test]
fn a_stack_without_a_program_has_no_main_frame() {
    let mut perl = SyntheticPerl::new(36);
    let sub = perl.sub("Hook", "handler", "Hook.pm", 4);
    let at = perl.statement("Hook.pm", 6);
    let stack = perl.stack(0, &[SyntheticBlock { return_op: 0, ..called(SUB, at, sub) }]);
    let empty = perl.stack(stack, &[]);
    perl.set(empty, at);
    assert_eq!(lines(&perl), ["Hook::handler Hook.pm:6|"]);
}

#[test]
fn names_are_bytes_or_utf_8_and_lexical_subs_have_no_package() {
    let mut perl = SyntheticPerl::new(36);
    let start = perl.statement("é.pl", 5);
    let read =
        |perl: &SyntheticPerl, sub| PerlCode::read(&perl.memory, &perl.layout, PerlKind::Sub.code(sub));
    let package = perl.package("main");
    for (bytes, is_utf8, name) in
        [(&b"caf\xe9"[..], false, "main::café"), ("café".as_bytes(), true, "main::café")]
    {
        let key = perl.key(bytes, is_utf8);
        let symbol = perl.symbol(package, key);
        let sub = perl.sub_of(symbol, "é.pl", start);
        let code = read(&perl, sub).expect("it is a sub");
        assert_eq!((code.name.as_str(), code.file.as_str(), code.first_line), (name, "é.pl", 5));
    }
    let key = perl.key(b"hidden", false);
    let lexical = perl.sub_of(key, "a.pl", start);
    let body = perl.memory.u64(lexical).expect("it is there");
    perl.memory.put(body + 92, &0x1_8000_u32.to_ne_bytes());
    assert_eq!(read(&perl, lexical).map(|code| code.name).as_deref(), Some("hidden"));
}

#[test]
fn texts_of_eval_share_a_frame_and_subs_in_them_keep_their_number() {
    let mut perl = SyntheticPerl::new(36);
    let text = perl.text("(eval 17)");
    let eval = PerlCode::read(&perl.memory, &perl.layout, PerlKind::Eval.code(text)).expect("it has a name");
    assert_eq!((eval.name.as_str(), eval.file.as_str()), ("(eval)", "(eval)"));
    let sub = perl.sub("main", "made", "(eval 17)", 1);
    let sub = PerlCode::read(&perl.memory, &perl.layout, PerlKind::Sub.code(sub)).expect("it has a name");
    assert_eq!(sub.file, "(eval 17)");
}

#[test]
fn a_check_tells_another_sub_at_the_same_address() {
    let mut perl = SyntheticPerl::new(36);
    let sub = PerlKind::Sub.code(perl.sub("main", "first", "a.pl", 1));
    let before = check(&perl.memory, &perl.layout, sub).expect("it is a sub");
    assert_eq!(check(&perl.memory, &perl.layout, sub), Some(before));
    // The same pointers, another name: its hash differs.
    let word = |address| perl.memory.u64(address).expect("it is there");
    let body = word(sub);
    let (name, file) = (word(word(word(body + 56)) + 32), word(body + 64));
    let mut other = perl.memory.clone();
    other.put(name, &7_u32.to_ne_bytes());
    assert_ne!(check(&other, &perl.layout, sub), Some(before));
    // The file's name, in place.
    perl.memory.put(file, b"b");
    assert_ne!(check(&perl.memory, &perl.layout, sub), Some(before));
}
