//! Layouts that are found, and those that are not.

use super::*;
use crate::runtimes::ruby::layout::{RubyLayout, RubyPlace};

fn find(ruby: &SyntheticRuby) -> Result<RubyLayout, crate::runtimes::RuntimeProblem> {
    RubyLayout::find(ruby, &|name| ruby.symbol(name), "/usr/lib/libruby.so")
}

#[test]
fn the_layout_of_every_known_version_is_found_and_confirmed() {
    for version in VERSIONS {
        let ruby = SyntheticRuby::with_program(version);
        let layout = find(&ruby).unwrap_or_else(|problem| panic!("{version:?}: {problem}"));
        assert_eq!(layout.version.runtime(), format!("ruby {}.{}", version.0, version.1));
        assert_eq!(layout.instruction, HANDLER);
        assert_eq!(layout.names, Some(NAMES));
        assert!(layout.source.contains("confirmed by 4 frames"), "{}", layout.source);
        let is_key = matches!(layout.locator.place, RubyPlace::Fixed { offset: 0x348 });
        assert_eq!(is_key, version == (2, 7), "{:?}", layout.locator);
        assert_eq!(layout.locator.context(&ruby, HANDLE), Some(CONTEXT));
    }
}

#[test]
fn a_version_that_is_not_known_is_named() {
    let ruby = SyntheticRuby::with_program((3, 4));
    ruby.put_bytes(VERSION, b"4.2.0\0");
    let problem = find(&ruby).expect_err("no table");
    assert!(problem.to_string().starts_with("ruby 4.2.0: unknown layout"), "{problem}");
    assert!(!problem.is_temporary());
    ruby.put_bytes(VERSION, b"four\0");
    assert!(find(&ruby).expect_err("no version").to_string().contains("not found"));
}

#[test]
fn an_interpreter_that_starts_is_looked_for_again() {
    let ruby = SyntheticRuby::new((3, 1));
    let problem = find(&ruby).expect_err("nothing runs");
    assert!(problem.is_temporary() && problem.to_string().contains("no Ruby code runs yet"), "{problem}");
    ruby.put(STATES, &[0]);
    let problem = find(&ruby).expect_err("no thread");
    assert!(problem.is_temporary() && problem.to_string().contains("main thread"), "{problem}");
}

#[test]
fn what_does_not_fit_is_no_layout() {
    // The frames of one version are those of another one.
    let ruby = SyntheticRuby::with_program((3, 1));
    ruby.put_bytes(VERSION, b"3.3.0\0");
    assert!(find(&ruby).is_err());
    // Nothing leads from threads to their stacks.
    let ruby = SyntheticRuby::with_program((3, 1));
    ruby.put(LOCAL, &[2, 0x18]);
    assert!(find(&ruby).expect_err("no place").to_string().contains("the place of its threads' states"));
    // Names are somewhere else: methods in C are left out.
    let ruby = SyntheticRuby::with_program((3, 1));
    ruby.put(NAMES, &[THREAD]);
    assert_eq!(find(&ruby).expect("the rest is well").names, None);
}
