//! Whom to record: threads, names, the whole machine, other users, containers; and for how long.

use crate::harness::fixture;
use crate::harness::machine::{account, copy_for_everyone, skip, turn};
use crate::harness::profiler::{Recording, prof};
use crate::harness::running::{Running, UNTIL_ENDED, wait_for, wait_for_samples};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

#[test]
fn one_thread_can_be_recorded_alone() {
    let Some(_turn) = turn() else { return };
    let Some(threads) = Running::fixture("threads", &[UNTIL_ENDED]) else { return };
    let tid = wait_for("the thread early-work", || {
        let tasks = fs::read_dir(format!("/proc/{}/task", threads.pid())).ok()?;
        let mut early = tasks.flatten().filter(|task| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim_end() == "early-work")
        });
        early.next()?.file_name().into_string().ok()
    });
    let recording = Recording::while_running(&[threads.pid()], "2s", &["-t", &tid]);
    recording.report().assert_whole(300);
    let stacks = recording.stacks();
    stacks.assert_has(&["early_thread", "early_work"]);
    assert!(!stacks.any_has(&["late_work"]), "another thread was recorded");
}

#[test]
fn several_processes_are_recorded_into_one_file() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let Some(syscalls) = Running::fixture("syscalls", &[UNTIL_ENDED]) else { return };
    let recording = Recording::with(["-p", &format!("{},{}", shares.pid(), syscalls.pid()), "-d", "2s"]);
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "share_fifty"]);
    stacks.assert_has(&["main", "read_zeroes"]);
    let only = recording.report_with(&["--pid", &shares.pid().to_string()]);
    assert!(only.total_percent("share_fifty") > 20.0, "top: {}", only.top());
    assert!(only.total_percent("read_zeroes") == 0.0, "--pid lets another process through");
}

#[test]
fn a_name_finds_its_processes() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("shares") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let named = folder.path().join("prof-name-test");
    fs::copy(program, &named).expect("a program can be copied");
    let one = Running::start_ready(Command::new(&named).arg(UNTIL_ENDED));
    let recording = Recording::while_running(&[one.pid()], "2s", &["--name", "^prof-name-te"]);
    recording.report().assert_whole(300);
    recording.stacks().assert_has(&["main", "share_fifty"]);
}

#[test]
fn the_whole_machine_is_recorded() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let Some(_syscalls) = Running::fixture("syscalls", &[UNTIL_ENDED]) else { return };
    let recording = Recording::with(["-a", "-d", "3s"]);
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "share_fifty"]);
    stacks.assert_has(&["main", "read_zeroes"]);
    let only = recording.report_with(&["--pid", &shares.pid().to_string()]);
    only.assert_whole(15);
}

#[test]
fn another_users_process_is_recorded_by_root() {
    let Some(_turn) = turn() else { return };
    let Some((uid, gid)) = account("nobody") else {
        skip::<()>("there is no account `nobody`");
        return;
    };
    let Some(program) = fixture::build("shares") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = copy_for_everyone(&program, folder.path());
    let shares = Running::start_ready(Command::new(program).arg(UNTIL_ENDED).uid(uid).gid(gid));
    let recording = Recording::of_pid(shares.pid(), "2s");
    recording.report().assert_whole(300);
    recording.stacks().assert_has(&["main", "one_round", "share_fifty"]);
}

#[test]
fn a_process_in_namespaces_of_its_own_is_read_through_its_own_root() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("shares") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let runner = fixture::sources().join("container.sh");
    let command = &mut Command::new(runner);
    // The first process of a PID namespace heeds no other signal.
    let container =
        Running::start_ready(command.arg(folder.path()).arg(program).arg(UNTIL_ENDED)).ended_by(Signal::KILL);
    let pid = container.descendant("shares");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let inside = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    assert_eq!(inside.split_whitespace().count(), 2, "not in a PID namespace of its own: {inside}");
    assert!(!folder.path().join("app").exists(), "the container's files can be seen from outside");
    let recording = Recording::of_pid(pid, "2s");
    let report = recording.report();
    report.assert_whole(300);
    assert!(report.total_percent("share_fifty") > 20.0, "top: {}", report.top());
    recording.stacks().assert_has(&["main", "one_round", "share_thirty"]);
}

#[test]
fn the_targets_end_ends_the_recording() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("prof.data");
    let mut recorder = prof()
        .args(["record", "-p", &shares.pid().to_string(), "-d", "900s", "-o"])
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .expect("`timeout` can be run");
    wait_for_samples(&file);
    drop(shares);
    assert_eq!(recorder.wait().expect("it is our child").code(), Some(0));
    let read = |verb: &str| prof().args([verb, "--json"]).arg(&file).output().expect("`timeout` can be run");
    let info: serde_json::Value = serde_json::from_slice(&read("info").stdout).expect("JSON");
    assert_eq!(info["end_reason"], "target ended");
    let report = read("report");
    assert!(report.status.success(), "{}", crate::harness::profiler::messages(&report));
    assert!(
        crate::harness::profiler::text(&report).contains("share_fifty"),
        "the file does not hold the recording"
    );
}

#[test]
fn a_command_beside_a_target_is_only_the_timer() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let recording = Recording::with(["-p", &shares.pid().to_string(), "--", "sleep", "1"]);
    assert!(shares.is_alive(), "the target was ended");
    let report = recording.report();
    assert!(report.duration_seconds() < 10.0, "went on for {} s", report.duration_seconds());
    recording.stacks().assert_has(&["main", "share_fifty"]);
    assert!(!recording.stacks().0.iter().any(|stack| stack.comm() == "sleep"), "the timer was recorded");
}

#[test]
fn an_interrupt_ends_the_recording_and_keeps_it() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("prof.data");
    // Not under `timeout`: the signal is for prof alone.
    let mut recorder = Command::new(crate::harness::profiler::binary())
        .args(["record", "-p", &shares.pid().to_string(), "-d", "30s", "-o"])
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .expect("prof can be run");
    wait_for_samples(&file);
    kill_process(Pid::from_child(&recorder), Signal::INT).expect("prof still records");
    let status = recorder.wait().expect("prof is our child");
    assert_eq!(status.code(), Some(0), "stopping by Ctrl-C is no failure");
    assert!(shares.is_alive(), "the target was ended");
    let report = prof().args(["report", "--json"]).arg(&file).output().expect("`timeout` can be run");
    assert!(report.status.success(), "{}", crate::harness::profiler::messages(&report));
    assert!(
        crate::harness::profiler::text(&report).contains("share_fifty"),
        "the file does not hold the recording"
    );
}

#[test]
fn a_process_whose_first_thread_has_ended_is_recorded() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("leader_exit", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    let report = recording.report();
    assert!(report.duration_seconds() > 1.5, "the recording ended with the first thread");
    report.assert_whole(300);
    recording.stacks().assert_has(&["surviving_work"]);
}

/// Nobody may look into it but root, and it makes no system call any more.
#[test]
fn a_process_that_is_shut_against_others_is_recorded_and_goes_on() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("shut", &[]) else { return };
    let recording = Recording::of_pid(program.pid(), "1s");
    let report = recording.report();
    report.assert_whole(300);
    assert!(report.total_percent("burn_shut") > 95.0, "{}", recording.messages);
    assert!(program.is_alive());
}
