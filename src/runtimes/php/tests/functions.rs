//! Names of functions, and what tells them apart.

use super::synthetic::{GLOBALS, SyntheticPhp};
use crate::runtimes::php::layout::IS_INCLUDED;
use crate::runtimes::php::{PhpCode, check};

fn name(class: &str, name: &str) -> Option<String> {
    let mut php = SyntheticPhp::new();
    let code = php.put_code(0, 2, class, name, "/srv/app.php", 3);
    let layout = php.find().expect("it fits");
    PhpCode::read(php.memory(), &layout, code).map(|code| code.function)
}

#[test]
fn functions_have_their_class_before_them() {
    assert_eq!(name("", "work").as_deref(), Some("work"));
    assert_eq!(name("App\\Job", "run").as_deref(), Some("App\\Job::run"));
    assert_eq!(name("App\\Job", "{closure}").as_deref(), Some("App\\Job::{closure}"));
}

#[test]
fn what_stands_for_a_missing_name_is_left_out() {
    assert_eq!(name("class@anonymous\0/srv/app.php:7$2f", "m").as_deref(), Some("class@anonymous::m"));
    let closure = "{closure:class@anonymous\0/srv/$x/app.php:7$0::m():9}";
    assert_eq!(name("", closure).as_deref(), Some("{closure:class@anonymous::m():9}"));
    assert_eq!(name("", "\0lambda_1").as_deref(), Some("lambda_1"));
}

#[test]
fn code_outside_functions_is_called_after_how_it_came_to_run() {
    let mut php = SyntheticPhp::new();
    let layout = php.find().expect("it fits");
    let file = php.put_code(0, 2, "", "", "/srv/lib/part.php", 1);
    let made = php.put_code(1, 4, "", "", "/srv/app.php(7) : eval()'d code", 1);
    let read = |code| PhpCode::read(php.memory(), &layout, code).expect("it is a function");
    assert_eq!(read(file).function, "<main>");
    assert_eq!(read(file | IS_INCLUDED).function, "include part.php");
    assert_eq!(read(made | IS_INCLUDED).function, "eval");
    assert_eq!((read(file).file.as_str(), read(file).first_line), ("/srv/lib/part.php", 1));
    assert_eq!((read(file).line(77), read(file).line(0), read(file).line(u32::MAX)), (Some(77), None, None));
}

#[test]
fn functions_of_php_itself_have_neither_file_nor_line() {
    let mut php = SyntheticPhp::new();
    let layout = php.find().expect("it fits");
    let query = php.put_code(0, 1, "PDO", "query", "", 0);
    let fiber = php.put_code(1, 1, "", "", "", 0);
    let read = |code| PhpCode::read(php.memory(), &layout, code).expect("it is a function");
    assert_eq!((read(query).function.as_str(), read(query).file.as_str()), ("PDO::query", ""));
    assert_eq!((read(query).line(5), read(fiber).function.as_str()), (None, "{fiber}"));
}

#[test]
fn hostile_memory_has_no_names() {
    let mut php = SyntheticPhp::new();
    let layout = php.find().expect("it fits");
    let code = php.put_code(0, 2, "Job", "run", "/srv/app.php", 3);
    let wrong = |php: &SyntheticPhp| PhpCode::read(php.memory(), &layout, code).is_none();
    assert!(!wrong(&php));
    let mut giant = php.clone();
    let text = giant.text(b"x");
    giant.memory_mut().put_u64(text + 16, 1 << 40);
    giant.memory_mut().put_u64(code + 8, text);
    assert!(wrong(&giant), "a string that is too long");
    for (offset, word) in [(8, u64::MAX - 7), (16, 0xdead_0000), (0x98, u64::MAX), (0x98, 0)] {
        let mut wild = php.clone();
        wild.memory_mut().put_u64(code + offset, word);
        assert!(wrong(&wild), "{word:#x} at {offset:#x}");
        // It has a check all the same, and is not read.
        let _ = check(wild.memory(), &layout, code);
    }
    let mut other = php.clone();
    other.memory_mut().put(code, &[9]);
    assert!(wrong(&other) && check(other.memory(), &layout, code).is_none(), "no kind of function");
    assert!(PhpCode::read(php.memory(), &layout, u64::MAX).is_none());
    assert!(check(php.memory(), &layout, u64::MAX).is_none());
}

/// Memory of a request is used again for the next one.
#[test]
fn another_function_at_an_address_has_another_check() {
    let mut php = SyntheticPhp::new();
    let layout = php.find().expect("it fits");
    let long = format!("/srv/{}/a.php", "x".repeat(80));
    let code = php.put_code(0, 2, "Job", "run", &long, 3);
    let known = check(php.memory(), &layout, code);
    assert!(known.is_some());
    assert_eq!(check(php.memory(), &layout, code | IS_INCLUDED | 0x55 << 48), known, "marks do not count");
    let word = |offset| {
        let mut bytes = [0; 8];
        assert!(crate::runtimes::memory::TargetMemory::read(php.memory(), code + offset, &mut bytes));
        u64::from_ne_bytes(bytes)
    };
    let changes: [(u64, &[u8]); 6] = [
        (word(8) + 24, b"rum"),
        (word(0x98) + 24, b"/usr"),
        (word(0x98) + 24 + long.len() as u64 - 5, b"b"),
        (code + 0x98 + 8, &[4]),
        (code, &[4]),
        (word(8) + 16, &[2]),
    ];
    for (address, bytes) in changes {
        let mut changed = php.clone();
        changed.memory_mut().put(address, bytes);
        assert_ne!(check(changed.memory(), &layout, code), known, "{bytes:?} at {address:#x}");
    }
    // What follows a name is not a part of it.
    let mut same = php.clone();
    same.memory_mut().put(word(8) + 24 + 3, b"junk");
    assert_eq!(check(same.memory(), &layout, code), known);
}

#[test]
fn the_function_that_stands_for_missing_methods_is_none() {
    let php = SyntheticPhp::new();
    let layout = php.find().expect("it fits");
    assert_eq!(check(php.memory(), &layout, GLOBALS + 0x400), None);
}
