//! Recorders that are killed, or held by what they read: what was recorded is in the file, with names.

use crate::harness::fixture;
use crate::harness::machine::{skip, turn};
use crate::harness::profiler::{binary, messages, prof, text};
use crate::harness::running::{Running, UNTIL_ENDED, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Command, Stdio};

/// What `prof report` says of a file, as far as it can be read.
fn report_of(file: &Path) -> String {
    let output = prof().arg("report").arg(file).output().expect("`timeout` can be run");
    text(&output)
}

/// Detail 8 of the promises: nothing runs that cannot be recorded, and nothing recorded is lost.
#[test]
fn a_recorder_that_is_killed_leaves_a_file_with_names() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("prof.data");
    let mut recorder = Command::new(binary())
        .args(["record", "-p", &program.pid().to_string(), "-d", "60s", "-o"])
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .expect("prof can be run");
    wait_for("names in the file", || report_of(&file).contains("share_fifty").then_some(()));
    let output = prof().arg("symbolize").arg(&file).output().expect("`timeout` can be run");
    assert!(messages(&output).contains("is still recording it"), "{}", messages(&output));
    kill_process(Pid::from_child(&recorder), Signal::KILL).expect("prof still records");
    recorder.wait().expect("prof is our child");
    let report = report_of(&file);
    assert!(report.contains("share_fifty"), "{report}");
    let output = prof().args(["report"]).arg(&file).output().expect("`timeout` can be run");
    let said = messages(&output) + &text(&output);
    assert!(said.contains("killed"), "nothing says how it ended: {said}");
    let output = prof().arg("symbolize").arg(&file).output().expect("`timeout` can be run");
    assert!(output.status.success(), "{}", messages(&output));
    assert!(report_of(&file).contains("share_fifty"));
    let again = prof().arg("symbolize").arg(&file).output().expect("`timeout` can be run");
    assert!(!text(&again).starts_with("named"), "there was something left to name: {}", text(&again));
}

#[test]
fn a_file_system_that_does_not_answer_holds_no_recording() {
    let Some(_turn) = turn() else { return };
    if !Path::new("/dev/fuse").exists() {
        skip::<()>("there is no /dev/fuse");
        return;
    }
    let Some(program) = fixture::build("held") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mount = folder.path().join("mount");
    std::fs::create_dir(&mount).expect("a folder can be made");
    let target = Running::start_ready(Command::new(program).arg(&mount).arg(UNTIL_ENDED));
    let file = folder.path().join("prof.data");
    let mut recorder = Command::new(binary())
        .args(["record", "-e", "cpu", "-p", &target.pid().to_string(), "-d", "2s", "-o"])
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .expect("prof can be run");
    // The recording is whole while the file system is still held.
    let info = wait_for("a whole recording", || {
        let output = prof().args(["info", "--json"]).arg(&file).output().expect("`timeout` can be run");
        let info: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        (info["end_reason"] == "duration reached").then_some(info)
    });
    let seconds = info["duration_ns"].as_f64().expect("it has a length") / 1e9;
    assert!((2.0..3.0).contains(&seconds), "{seconds} s instead of 2");
    // What can be read has names.
    let report = wait_for("names in the file", || {
        let output = prof().args(["report", "--json", "-n", "0"]).arg(&file).output().expect("it can be run");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        report["rows"].to_string().contains("host_callback").then_some(report)
    });
    assert!(Path::new(&format!("/proc/{}", target.pid())).exists(), "the target has ended");
    assert_eq!(report["quality"]["lost"].as_u64(), Some(0), "{}", report["quality"]);
    assert!(report["samples"].as_u64() > Some(20), "{}", report["samples"]);
    // Whoever waits for the file system goes when it does.
    drop(target);
    wait_for("the recorder's end", || recorder.try_wait().expect("own child"));
}
