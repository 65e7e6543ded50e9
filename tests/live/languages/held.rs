//! Who holds the locks of languages whose threads wait in a function of their runtime: the program's functions, not the runtime's.

use crate::harness::fixture;
use crate::harness::machine::{tool_or_skip, turn};
use crate::harness::profiler::Recording;
use crate::harness::running::Running;
use serde_json::Value;
use std::process::Command;

/// Those who wait in the second function of a pair wait for one that is in the first.
fn check(running: &Running, pairs: [(&str, &str); 2]) {
    let pid = running.pid();
    // Tables of a large library are made once, and take a while.
    drop(Recording::of_pid_with(pid, "1s", &[]));
    let recording = Recording::of_pid_with(pid, "4s", &["-e", "cpu,off"]);
    let report = recording.report_with(&["--locks", "--by", "holder"]).0;
    let rows = report["rows"].as_array().expect("a table");
    let time = |row: &Value| row["wait_ns"].as_f64().expect("a number");
    let has_waiter = |row: &Value, waiter: &str| {
        let waiters = row["waiters"].as_array().expect("a list");
        waiters.iter().any(|one| one["function"].as_str().is_some_and(|name| name.contains(waiter)))
    };
    let mut named = 0.0;
    let mut all = 0.0;
    for (holder, waiter) in pairs {
        let of_waiter = rows.iter().filter(|row| has_waiter(row, waiter));
        let waited: f64 = of_waiter.clone().map(time).sum();
        let is_held = |row: &&Value| row["function"].as_str().is_some_and(|name| name.contains(holder));
        let held: f64 = of_waiter.filter(is_held).map(time).sum();
        assert!(waited > 0.0, "{waiter} waits: {report:#}");
        (named, all) = (named + held, all + waited);
    }
    assert!(named > 0.9 * all, "{named} ns of {all} have a holder of the program: {report:#}");
}

#[test]
fn java_methods_hold_monitors_and_locks() {
    let Some(_turn) = turn() else { return };
    let (Some(java), Some(javac)) = (tool_or_skip("java"), tool_or_skip("javac")) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let source = fixture::sources().join("java/Monitors.java");
    let compiled = Command::new(javac).arg("-g").arg("-d").arg(folder.path()).arg(source).status();
    assert!(compiled.expect("javac can be run").success(), "Monitors.java is not compiled");
    let mut command = Command::new(java);
    command.arg("-Xmx256m").arg("-cp").arg(folder.path()).arg("Monitors");
    let running = Running::start_ready(&mut command);
    check(
        &running,
        [("Monitors.holdMonitor", "Monitors.wantMonitor"), ("Monitors.holdLock", "Monitors.wantLock")],
    );
}

#[test]
fn python_functions_hold_locks() {
    let Some(_turn) = turn() else { return };
    let Some(python) = tool_or_skip("python3") else { return };
    let source = fixture::sources().join("python/held.py");
    let running = Running::start_ready(Command::new(python).arg(source));
    check(&running, [("hold_lock", "want_lock"), ("hold_owned", "want_owned")]);
}
