//! Layouts that are found, and those that are not.

use super::synthetic::{CURRENT, FILE, SyntheticPhp};
use crate::runtimes::php::layout::{CALL_CODE, CALL_TOP, PhpKept};

#[test]
fn offsets_are_read_in_the_functions_of_the_interpreter() {
    let php = SyntheticPhp::new();
    let layout = php.find().expect("it fits");
    let offsets = layout.offsets;
    assert_eq!((offsets.current_frame, offsets.function.file), (CURRENT, FILE));
    let frame = offsets.frame;
    assert_eq!((frame.instruction, frame.function, frame.previous, frame.size()), (0, 24, 48, 56));
    let function = offsets.function;
    assert_eq!((function.name, function.class, function.instructions), (8, 16, Some(0x58)));
    assert_eq!((offsets.class_name, offsets.line, offsets.thrown_at), (8, 24, 0x370));
    assert_eq!(
        (layout.version.to_string().as_str(), layout.version.runtime().as_str()),
        ("8.2.36", "php 8.2")
    );
    assert_eq!(layout.source, "the instructions of its functions");
}

#[test]
fn a_stack_confirms_the_layout_or_refutes_it_for_the_moment() {
    let mut php = SyntheticPhp::new();
    let main = php.put_code(0, 2, "", "", "/srv/app.php", 1);
    let frame = php.call(main, CALL_TOP | CALL_CODE, 5);
    assert_eq!(
        php.find().expect("it fits").source,
        "the instructions of its functions, confirmed by its stack"
    );
    php.memory_mut().put_u64(frame + 24, 0x7777_0000);
    let problem = php.find().expect_err("no function is there");
    assert!(
        problem.is_temporary() && problem.to_string().contains("could not be read to the root"),
        "{problem}"
    );
}

#[test]
fn a_library_finds_its_globals_by_a_table() {
    let mut php = SyntheticPhp::new();
    let direct = php.find().expect("it fits").offsets;
    php.find_globals_by_table();
    assert_eq!(php.find().expect("it fits").offsets, direct);
}

#[test]
fn what_does_not_fit_is_said() {
    let mut php = SyntheticPhp::new();
    php.damage_class_name();
    let problem = php.find().expect_err("no name is read");
    let text = problem.to_string();
    assert!(
        !problem.is_temporary() && text.contains("php 8.2.36: unknown layout: `get_active_class_name`"),
        "{text}"
    );
    for missing in ["zend_get_executed_lineno", "zend_execute", "get_active_function_name"] {
        let mut php = SyntheticPhp::new();
        php.symbols.remove(missing);
        let text = php.find().expect_err("it is missing").to_string();
        assert!(text.contains(&format!("does not export `{missing}`")), "{text}");
    }
}

#[test]
fn builds_that_are_not_served_are_named() {
    let mut php = SyntheticPhp::new();
    php.put_version("Zend Engine v3.2.0, Copyright");
    let text = php.find().expect_err("too old").to_string();
    assert!(text.starts_with("php 7.2: this version's layout is not known"), "{text}");
    php.put_version("Something else");
    assert!(php.find().expect_err("no version").to_string().contains("version of `/usr/bin/php` not found"));
    let globals = php.symbols.remove("executor_globals").expect("it was there");
    assert!(php.find().expect_err("stripped").to_string().contains("no symbol `executor_globals`"));
    php.symbols.insert("executor_globals_offset", globals);
    assert!(php.find().expect_err("thread-safe").to_string().contains("thread-safe build (ZTS)"));
}

#[test]
fn functions_stay_where_no_requests_are_served() {
    let mut php = SyntheticPhp::new();
    assert_eq!(php.find().expect("it fits").kept, PhpKept::Immutable);
    let module = super::synthetic::GLOBALS + 0x4000;
    php.symbols.insert("sapi_module", module);
    php.memory_mut().put_u64(module, module + 0x100);
    for (name, kept) in
        [("cli\0", PhpKept::All), ("cli-server\0", PhpKept::Immutable), ("fpm-fcgi\0", PhpKept::Immutable)]
    {
        php.memory_mut().put(module + 0x100, name.as_bytes());
        assert_eq!(php.find().expect("it fits").kept, kept, "{name}");
    }
    php.put_version("Zend Engine v3.3.1, Copyright");
    assert_eq!(php.find().expect("it fits").kept, PhpKept::None);
}

#[test]
fn an_interpreter_that_is_starting_is_waited_for() {
    let mut php = SyntheticPhp::new();
    php.memory_mut().put_u64(super::synthetic::GLOBALS + 0x2000, 0);
    assert!(php.find().expect_err("it has no version yet").is_temporary());
}
