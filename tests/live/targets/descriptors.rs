//! Limits on open files: what does not fit is said, and commands keep the limit that they would have had.

use crate::harness::machine::turn;
use crate::harness::profiler::{messages, prof};
use crate::targets::refusals::{assert_folder_is_empty, assert_refused};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Output;

/// A recording of everything with room for `files` open files, soft and hard, and what it said.
fn recorded_with_descriptors(files: u64, folder: &Path) -> Output {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let mut command = prof();
    command.args(["record", "-a", "-v", "-d", "300ms", "-o", "x.data"]).current_dir(folder);
    let limit = Rlimit { current: Some(files), maximum: Some(files) };
    // SAFETY: between fork and exec there is nothing but a system call.
    unsafe { command.pre_exec(move || Ok(setrlimit(Resource::Nofile, limit)?)) };
    command.output().expect("`timeout` can be run")
}

#[test]
fn few_open_files_are_said_and_no_reason_to_fail() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    // Enough for all but files of code: three of each CPU, and what is spare.
    // SAFETY: it only asks.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as u64;
    let output = recorded_with_descriptors(132 + 3 * cpus, folder.path());
    let said = messages(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("note: too many open files"), "{said}");
    assert!(said.contains("files_unopened "), "{said}");

    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let output = recorded_with_descriptors(32, folder.path());
    assert_refused(&output, 1, "too many open files");
    assert!(messages(&output).contains("ulimit -n"), "{}", messages(&output));
    assert_folder_is_empty(folder.path());
}

/// Programs that close all descriptors up to the limit, or have a place for each, suffer from a large one.
#[test]
fn a_command_has_the_limit_on_open_files_that_prof_was_given() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let limit = Rlimit { current: Some(512), ..getrlimit(Resource::Nofile) };
    let mut command = prof();
    command.args(["record", "--", "sh", "-c", "exit $(($(ulimit -n) / 8))"]).current_dir(folder.path());
    // SAFETY: between fork and exec there is nothing but a system call.
    unsafe { command.pre_exec(move || Ok(setrlimit(Resource::Nofile, limit)?)) };
    let output = command.output().expect("`timeout` can be run");
    assert_eq!(output.status.code(), Some(64), "{}", messages(&output));
}
