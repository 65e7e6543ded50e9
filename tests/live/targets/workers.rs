//! The processes that read foreign files: one that dies of a file costs what that file would have given, and nothing else.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::{Recording, messages, prof, text};
use crate::harness::running::{Running, UNTIL_ENDED};

/// A recording of `shares`, in which the reader of every file that a text is named in does as `how` says.
fn with_readers_that(how: &str, file: &str) -> Option<Recording> {
    let program = fixture::build("shares")?;
    Some(Recording::made_by(0, |out| {
        let mut command = prof();
        command.args(["record", "-v", "-o"]).arg(out).arg("--").arg(program).arg("1");
        command.env("PROF_TEST_WORKER", format!("{how}:{file}")).env("PROF_NO_CACHE", "1");
        command
    }))
}

#[test]
fn a_file_that_ends_its_reader_is_skipped_with_a_line_and_all_others_are_read() {
    let Some(_turn) = turn() else { return };
    for how in ["dies", "swells"] {
        let Some(recording) = with_readers_that(how, "libc.so.6") else { return };
        let said = &recording.messages;
        let lines = |begin: &str| {
            said.lines().filter(|line| line.starts_with(begin) && line.contains("libc.so.6")).count()
        };
        assert_eq!((lines("no unwind table for "), lines("names of ")), (1, 1), "{how}: {said}");
        assert!(said.contains("the process that read it was aborted"), "{how}: {said}");
        assert!(said.contains("died of files that were read in them"), "{how}: {said}");
        let report = recording.report();
        report.assert_enough(300);
        // Its own code has tables and names; its callers are in the library.
        assert!(report.total_percent("share_fifty") > 40.0, "{how}: {said}");
        let modules = prof().args(["info", "--modules"]).arg(recording.file()).output();
        let modules = text(&modules.expect("`timeout` can be run"));
        assert!(modules.contains("the process that read it was aborted"), "{how}: {modules}");
        // Debug symbols would not help.
        let notes = report.0["notes"].to_string();
        assert!(
            notes.contains("in libc.so.6, which was not read: ") && !notes.contains("install"),
            "{how}: {notes}"
        );
    }
}

#[test]
fn a_file_whose_reader_hangs_is_not_waited_for() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = with_readers_that("hangs", "libc.so.6") else { return };
    let report = recording.report();
    report.assert_enough(300);
    assert!(report.total_percent("share_fifty") > 40.0, "{}", recording.messages);
}

#[test]
fn a_dump_of_generated_code_that_ends_its_reader_costs_its_names_alone() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("jit_dump") else { return };
    for how in ["dies", "swells", "hangs"] {
        let recording = Recording::made_by(0, |out| {
            let mut command = prof();
            command.args(["record", "-v", "-o"]).arg(out).arg("--").arg(&program).arg("2");
            command.env("PROF_TEST_WORKER", format!("{how}:/jit-")).env("PROF_NO_CACHE", "1");
            command
        });
        let said = &recording.messages;
        let line = said.lines().find(|line| line.contains("no more names from ") && line.contains("/jit-"));
        let line = line.unwrap_or_else(|| panic!("{how}: {said}"));
        assert!(line.contains("the process that read it was aborted") || how == "hangs", "{how}: {line}");
        let report = recording.report();
        report.assert_enough(300);
        assert!(report.total_percent("in_odd") > 20.0, "{how}: {said}");
        assert!(report.total_percent("odd_code") < 0.1, "{how}: {said}");
        let info = prof().arg("info").arg(recording.file()).output().expect("`timeout` can be run");
        assert!(text(&info).contains("no more names from "), "{how}: {}", text(&info));
    }
}

/// What is patched is examined by a worker: without its answer nothing is.
#[test]
fn a_program_whose_code_ends_its_reader_is_left_as_it_is() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let pid = shares.pid().to_string();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (how, why) in [("dies", "the process that read it has ended"), ("hangs", "it took too long to read")]
    {
        let mut command = prof();
        command.args(["record", "-e", "cpu,heap", "-d", "1s", "-p", &pid, "-o"]).arg(folder.path().join(how));
        command.env("PROF_TEST_WORKER", format!("{how}:Examination"));
        let output = command.output().expect("`timeout` can be run");
        let said = messages(&output);
        assert!(said.contains(&format!("its code could not be examined: {why}")), "{how}: {said}");
        assert!(!output.status.success(), "{how}: {said}");
        Recording::with(["-e", "cpu", "-d", "1s", "-p", &pid]).report().assert_enough(300);
    }
}

/// What a recording says of the same program with and without workers is the same.
#[test]
fn workers_give_the_tables_and_names_that_the_recorder_itself_does() {
    let Some(_turn) = turn() else { return };
    let Some(with) = with_readers_that("", "") else { return };
    let Some(program) = fixture::build("shares") else { return };
    let without = Recording::made_by(0, |out| {
        let mut command = prof();
        command.args(["record", "-v", "-o"]).arg(out).arg("--").arg(&program).arg("1");
        command.env("PROF_TEST_WORKER", "none").env("PROF_NO_CACHE", "1");
        command
    });
    for recording in [&with, &without] {
        let report = recording.report();
        assert!(report.complete_percent() > 99.0, "{}", report.causes());
        for (name, least) in [("share_fifty", 45.0), ("share_thirty", 25.0), ("share_twenty", 15.0)] {
            assert!(report.total_percent(name) > least, "{name}: {}", recording.messages);
        }
    }
    let functions = |recording: &Recording| {
        let text = recording.report_text(&["--tree", "-n", "0"]);
        let named =
            text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with("share_")));
        named.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(functions(&with), functions(&without));
    assert!(!functions(&with).is_empty());
}
