//! Stacks.

use super::synthetic::SyntheticPhp;
use crate::runtimes::php::PhpCode;
use crate::runtimes::php::frames::{PhpStack, stack};
use crate::runtimes::php::layout::{CALL_CODE, CALL_TOP, IS_INCLUDED, MOST_FRAMES};

fn stack_of(php: &SyntheticPhp) -> PhpStack {
    let layout = php.find().expect("it fits");
    stack(php.memory(), layout.globals, &layout.offsets)
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
fn a_list_without_an_end_ends() {
    let mut php = SyntheticPhp::new();
    let main = php.put_code(0, 2, "", "", "/srv/app.php", 1);
    let frame = php.call(main, CALL_TOP | CALL_CODE, 5);
    let layout = php.find().expect("it fits");
    php.memory_mut().put_u64(frame + 48, frame);
    let cyclic = stack(php.memory(), layout.globals, &layout.offsets);
    assert_eq!((cyclic.frames.len(), cyclic.is_complete), (MOST_FRAMES, false));
    php.memory_mut().put_u64(frame + 48, 0xdead_0000);
    let wild = stack(php.memory(), layout.globals, &layout.offsets);
    assert_eq!((wild.frames.len(), wild.is_complete), (1, false));
    php.memory_mut().put_u64(frame + 24, u64::MAX - 3);
    assert!(stack(php.memory(), layout.globals, &layout.offsets).frames.is_empty());
}
