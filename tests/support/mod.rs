//! What several test programs need.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

/// Says that a test, or a part of it, does not run and why: on the terminal past the test harness, which would
/// keep the output of a test that passes to itself, and in the file that `scripts/test.sh` sums up.
pub(crate) fn skip<T>(reason: &str) -> Option<T> {
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let line = format!("skipped: {name}: {reason}\n");
    // Nothing depends on these lines arriving.
    let _ = write!(std::io::stderr(), "\n{line}");
    if let Some(path) = std::env::var_os("PROF_TEST_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
    None
}

/// Runs a tool; `None`, after saying so, if it is not installed.
pub(crate) fn run(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => skip(&format!("{}: {error}", Path::new(command.get_program()).display())),
    }
}

/// As [`run`], for a tool that has to succeed: an installed compiler that fails is no reason to skip.
pub(crate) fn run_well(command: &mut Command) -> Option<Output> {
    let output = run(command)?;
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output)
}
