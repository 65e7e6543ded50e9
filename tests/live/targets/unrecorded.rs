//! Targets that run and of which the kernel side shows nothing: that is said, and no success.

use crate::harness::counter;
use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::{Recording, messages, prof, text};
use crate::harness::running::{Running, UNTIL_ENDED};
use prof::internals::profile::read_path;
use std::path::Path;
use std::process::Command;

/// `prof record` under a kernel that is blind to one thing (the fixture `blind`).
fn blind_to(what: &str, status: i32, arguments: &[&str]) -> Option<Recording> {
    let shim = fixture::build("blind")?;
    Some(Recording::made_by(status, |file| {
        let mut command = prof();
        command.arg("record").arg("-o").arg(file).args(arguments);
        command.env("LD_PRELOAD", shim).env("BLIND", what);
        command
    }))
}

/// What `prof COMMAND FILE` says where it has nothing to show.
fn refusal(command: &[&str], file: &Path) -> String {
    let output = prof().args(command).arg(file).output().expect("`timeout` can be run");
    assert_eq!(output.status.code(), Some(3), "{}{}", text(&output), messages(&output));
    messages(&output)
}

#[test]
fn a_target_that_ran_and_has_no_sample_is_named_and_is_no_success() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("shares") else { return };
    let program = program.to_str().expect("the target folder's path is text");
    let Some(running) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let pid = running.pid().to_string();
    for target in
        [&["--", program, "1"][..], &["-q", "-p", &pid, "-d", "2s"], &["-e", "cpu", "-t", &pid, "-d", "2s"]]
    {
        let Some(recording) = blind_to("samples", 3, target) else { return };
        let said = &recording.messages;
        assert!(said.contains("nothing was recorded of") && said.contains("of CPU time"), "{said}");
        assert!(!said.contains("a higher -F sees more"), "{said}");
        let said = refusal(&["report", "--on-cpu"], &recording.file());
        assert!(said.contains("the target used") && !said.contains("did not run"), "{said}");
    }
}

#[test]
fn the_status_of_a_command_that_failed_stays_its_own() {
    let Some(_turn) = turn() else { return };
    let script = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; exit 7";
    let Some(recording) = blind_to("samples", 7, &["--", "sh", "-c", script]) else { return };
    assert!(recording.messages.contains("nothing was recorded of"), "{}", recording.messages);
}

/// Children are recorded with a command, unless that was not asked for.
#[test]
fn what_children_used_is_missed_only_where_they_are_recorded() {
    let Some(_turn) = turn() else { return };
    let script = "sh -c 'i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done'; true";
    let Some(recording) = blind_to("samples", 3, &["--", "sh", "-c", script]) else { return };
    assert!(recording.messages.contains("nothing was recorded of"), "{}", recording.messages);
    let Some(recording) = blind_to("samples", 0, &["--no-children", "--", "sh", "-c", script]) else {
        return;
    };
    assert!(!recording.messages.contains("nothing was recorded of"), "{}", recording.messages);
}

#[test]
fn threads_that_give_no_account_are_not_accounted() {
    let Some(_turn) = turn() else { return };
    let asleep = Running::start(Command::new("sleep").arg(UNTIL_ENDED));
    let pid = asleep.pid().to_string();
    let Some(recording) = blind_to("accounts", 3, &["-e", "off", "-p", &pid, "-d", "1s"]) else { return };
    let profile = read_path(&recording.file()).expect("own recording can be read").0;
    assert_eq!(profile.counter(counter::THREADS_UNACCOUNTED), 1, "{:?}", profile.counters);
    assert!(recording.messages.contains(" of 1 thread not accounted"), "{}", recording.messages);
    let said = "the kernel reported 1 thread neither running nor waiting";
    assert!(recording.messages.contains(said), "{}", recording.messages);
    let info = recording.info_text();
    assert!(info.contains("no account of 1 thread"), "{info}");
    assert!(info.contains("stacks    none") && !info.contains("100.0% complete"), "{info}");
    let said = refusal(&["report", "--off-cpu"], &recording.file());
    assert!(said.contains("no account of the time of 1 thread"), "{said}");
}
