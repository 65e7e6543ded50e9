//! Kernels that cannot record waits: this one, with other type information put in place of its own for the recorder.

use crate::harness::lacking::{can_mount, prof_with, types_without};
use crate::harness::machine::turn;
use crate::harness::profiler::{binary, messages};
use crate::harness::running::{Running, UNTIL_ENDED};
use prof::internals::profile::{EventKind, read_path};
use std::process::Command;

/// One that has no such event, and one that does not take the programs.
const LACKS: [(&str, &str); 2] = [
    (
        "btf_trace_sched_switch",
        "off-CPU time is not recorded: it needs Linux 5.18 or later (btf_trace_sched_switch is missing here)",
    ),
    ("in_iowait", "off-CPU time is not recorded: cannot load the samplers"),
];

#[test]
fn running_time_is_recorded_where_waits_cannot_be_and_the_reason_is_said() {
    let Some(_turn) = turn() else { return };
    if !can_mount() {
        return;
    }
    let Some(program) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let pid = program.pid().to_string();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (lack, why) in LACKS {
        let types = types_without(lack, folder.path());
        let file = folder.path().join(format!("{lack}.data"));
        let path = file.to_str().expect("a temporary path is text");
        let output = prof_with(&types, &["record", "-p", &pid, "-d", "1s", "-o", path]);
        let said = messages(&output);
        assert_eq!(output.status.code(), Some(0), "{lack}: {said}");
        assert!(said.contains(&format!("note: {why}")), "{lack}: {said}");
        let (profile, _) = read_path(&file).expect("prof wrote a file that can be read");
        assert!(profile.event_of(&EventKind::OFF_CPU).is_none(), "{lack}: there is a table of waits");
        let samples =
            profile.event_of(&EventKind::ON_CPU).expect("running time is recorded").samples().count();
        assert!(samples > 20, "{lack}: {samples} samples");

        let report = Command::new(binary()).args(["report", path, "--off-cpu"]).output();
        let report = report.expect("prof can be run");
        assert_eq!(report.status.code(), Some(3), "{lack}: {}", messages(&report));
        assert!(messages(&report).contains("the recording has no waits"), "{lack}: {}", messages(&report));
    }
}

#[test]
fn where_waits_alone_are_asked_for_perf_events_tell_them() {
    let Some(_turn) = turn() else { return };
    if !can_mount() {
        return;
    }
    let Some(program) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let pid = program.pid().to_string();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (lack, _) in LACKS {
        let types = types_without(lack, folder.path());
        let file = folder.path().join("prof.data");
        let path = file.to_str().expect("a temporary path is text");
        let output = prof_with(&types, &["record", "-e", "off", "-p", &pid, "-d", "1s", "-o", path]);
        let said = messages(&output);
        assert_eq!(output.status.code(), Some(0), "{lack}: {said}");
        assert!(said.contains("sampling by perf events"), "{lack}: {said}");
        assert!(!said.contains("sched_switch is missing") || lack.contains("sched_switch"), "{said}");
        let (profile, _) = read_path(&file).expect("prof wrote a file that can be read");
        assert!(profile.event_of(&EventKind::OFF_CPU).is_some(), "{lack}: there is no table of waits");
        let [time] = &profile.thread_times[..] else { panic!("{lack}: {:?}", profile.thread_times) };
        assert!(time.on_cpu_ns > 0, "{lack}: {time:?}");
        std::fs::remove_file(&file).expect("own file");
    }
}

#[test]
fn the_doctor_tells_that_waits_cannot_be_recorded() {
    let Some(_turn) = turn() else { return };
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (lack, _) in LACKS {
        let output = prof_with(&types_without(lack, folder.path()), &["doctor"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{lack}: {said}{}", messages(&output));
        let waits = said.lines().find(|line| line.contains("  waits  ")).unwrap_or_else(|| panic!("{said}"));
        assert!(waits.starts_with("warn"), "{lack}: {waits}");
    }
}
