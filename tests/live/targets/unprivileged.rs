//! Recordings without BPF programs: by a user without privileges, and by root where the kernel's types are hidden.

use crate::harness::fixture;
use crate::harness::machine::{account, copy_for_everyone, skip, tool_or_skip, turn};
use crate::harness::pane::Terminal;
use crate::harness::profiler::{Recording, Stack, binary, messages, prof_at, with_own_mounts};
use crate::harness::running::{Running, UNTIL_ENDED};
use crate::targets::refusals::{assert_folder_is_empty, assert_refused};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A user without privileges, with a `prof` of its own.
pub(crate) struct Ordinary {
    uid: u32,
    gid: u32,
    tools: TempDir,
    prof: PathBuf,
}

impl Ordinary {
    /// `None`, after saying why, where no such user can sample its own processes.
    pub(crate) fn user() -> Option<Ordinary> {
        let Some((uid, gid)) = account("nobody") else { return skip("there is no account `nobody`") };
        let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
        if paranoid.trim().parse::<i32>().is_ok_and(|value| value > 2) {
            return skip("kernel.perf_event_paranoid is above 2: users may sample nothing");
        }
        let tools = tempfile::tempdir().expect("a temporary folder can be made");
        let prof = copy_for_everyone(binary(), tools.path());
        Some(Ordinary { uid, gid, tools, prof })
    }

    /// A fixture where the user can run it.
    pub(crate) fn fixture(&self, name: &str) -> Option<PathBuf> {
        Some(copy_for_everyone(&fixture::build(name)?, self.tools.path()))
    }

    /// `prof` as the user.
    fn prof(&self) -> Command {
        let mut command = prof_at(&self.prof);
        command.uid(self.uid).gid(self.gid);
        command
    }

    /// A program of the user that has said that it is ready.
    pub(crate) fn start(&self, program: &Path, arguments: &[&str]) -> Running {
        Running::start_ready(Command::new(program).args(arguments).uid(self.uid).gid(self.gid))
    }

    /// A recording by the user.
    pub(crate) fn record(&self, arguments: &[&str]) -> Recording {
        Recording::made_by(0, |file| {
            let folder = file.parent().expect("a file is in a folder");
            chown(folder, Some(self.uid), Some(self.gid)).expect("root can give files away");
            let mut command = self.prof();
            command.args(["record", "-o"]).arg(file).args(arguments);
            command
        })
    }
}

/// A path as an argument.
fn word(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

/// What an ordinary user cannot do is refused without a trace, and the doctor says so before.
#[test]
fn an_ordinary_user_is_told_that_the_whole_system_is_not_theirs() {
    let Some(_turn) = turn() else { return };
    let Some(user) = Ordinary::user() else { return };
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse::<i32>().is_ok_and(|value| value < 1) {
        skip::<()>("kernel.perf_event_paranoid lets users sample all");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    chown(folder.path(), Some(user.uid), Some(user.gid)).expect("root can give files away");
    let refused =
        user.prof().current_dir(folder.path()).args(["record", "-a", "--rotate", "5s", "-o", "w/"]).output();
    let refused = refused.expect("prof runs");
    assert_eq!(refused.status.code(), Some(5), "{}", messages(&refused));
    assert_folder_is_empty(folder.path());
    let doctor = user.prof().arg("doctor").output().expect("prof runs");
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let last = said.trim_end().lines().next_back().unwrap_or_default();
    let has = |start: &str| said.lines().any(|line| line.starts_with(start));
    assert!(has("ok    own processes    yes") && has("warn  whole system     no"), "{said}");
    assert!(said.contains("prof works here for your own processes only"), "{last}");
}

/// Detail 7 of the promises: what root would add is said in one line.
#[test]
fn an_ordinary_user_records_a_command() {
    let Some(_turn) = turn() else { return };
    let Some(user) = Ordinary::user() else { return };
    let Some(shares) = user.fixture("shares") else { return };
    let recording = user.record(&["--", word(&shares), "3"]);
    let report = recording.report();
    report.assert_enough(1_000);
    assert!(report.complete_percent() >= 99.0, "{}", report.causes());
    for (function, share) in [("share_fifty", 50.0), ("share_thirty", 30.0), ("share_twenty", 20.0)] {
        let found = report.total_percent(function);
        assert!((found - share).abs() < 6.0, "{function} has {found:.1} %, not {share} %");
    }
    recording.stacks().assert_has(&["main", "one_round", "share_fifty"]);
    let said: Vec<&str> = recording
        .messages
        .lines()
        .filter(|line| line.contains("sampling own processes by perf events"))
        .collect();
    assert!(said.len() == 1 && said[0].contains("root adds"), "{}", recording.messages);
    assert!(recording.info_text().contains("by perf events"), "the file does not say it");
}

#[test]
fn an_ordinary_user_records_the_threads_and_waits_of_a_running_process() {
    let Some(_turn) = turn() else { return };
    let Some(user) = Ordinary::user() else { return };
    let Some(threads) = user.fixture("threads") else { return };
    let running = user.start(&threads, &[UNTIL_ENDED]);
    let recording = user.record(&["-p", &running.pid().to_string(), "-d", "3s"]);
    let stacks = recording.stacks();
    stacks.assert_has(&["early_thread", "early_work"]);
    stacks.assert_has(&["late_thread", "late_work"]);
    assert!(stacks.0.iter().any(|stack| stack.comm().starts_with("late-")), "threads have their own names");
    let report = recording.report();
    assert!(report.complete_percent() >= 99.0, "{}", report.causes());
    let known_ns: f64 = ["on_cpu_ns", "no_cpu_ns", "blocked_ns"]
        .iter()
        .map(|name| report.number(&format!("/totals/{name}")))
        .sum();
    // Three threads are there all the time, and a fourth now and then.
    assert!(known_ns > 2.8 * report.number("/duration_ns"), "{}", report.0["totals"]);
    let waits = recording.report_with(&["--off-cpu"]);
    assert!(waits.number("/total") > 1.5 * report.number("/duration_ns"), "two threads mostly sleep");
}

#[test]
fn an_ordinary_user_records_children_and_what_they_execute() {
    let Some(_turn) = turn() else { return };
    let Some(user) = Ordinary::user() else { return };
    let Some(forks) = user.fixture("forks") else { return };
    let recording = user.record(&["--", word(&forks), "2"]);
    let stacks = recording.stacks();
    for function in ["parent_work", "forked_child_work", "executed_child_work"] {
        stacks.assert_has(&["main", function]);
    }
    let alone = user.record(&["--no-children", "--", word(&forks), "2"]).stacks();
    alone.assert_has(&["main", "parent_work"]);
    assert!(!alone.any_has(&["forked_child_work"]) && !alone.any_has(&["executed_child_work"]));
}

#[test]
fn a_stack_of_more_than_32_kib_is_complete() {
    let Some(_turn) = turn() else { return };
    let Some(user) = Ordinary::user() else { return };
    let Some(depth) = user.fixture("depth") else { return };
    let recording = user.record(&["--", word(&depth), "2", "200", "160"]);
    let report = recording.report();
    assert!(report.complete_percent() >= 99.0, "{}", report.causes());
}

#[test]
fn time_in_the_kernel_that_may_not_be_sampled_is_said() {
    let Some(_turn) = turn() else { return };
    let Some(user) = Ordinary::user() else { return };
    let Some(syscalls) = user.fixture("syscalls") else { return };
    if fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").is_ok_and(|value| value.trim() != "2") {
        skip::<()>("users may sample the kernel here");
        return;
    }
    let recording = user.record(&["--", word(&syscalls), "2"]);
    let report = recording.report_text(&[]);
    assert!(report.contains("of CPU time were spent in the kernel"), "{report}");
    let own = user.record(&["--user-only", "--", word(&syscalls), "1"]).report_text(&[]);
    assert!(!own.contains("were spent in the kernel"), "it was not asked for: {own}");
}

#[test]
fn an_ordinary_user_watches_an_own_process() {
    let Some(_turn) = turn() else { return };
    let Some(user) = Ordinary::user() else { return };
    let Some(shares) = user.fixture("shares") else { return };
    let (Some(terminal), Some(_)) = (Terminal::open(120, 30), tool_or_skip("setpriv")) else { return };
    let running = user.start(&shares, &[UNTIL_ENDED]);
    let as_user = format!("setpriv --reuid={} --regid={} --clear-groups", user.uid, user.gid);
    terminal.type_text(&format!("{as_user} {} live -p {}", user.prof.display(), running.pid()));
    terminal.press(&["Enter"]);
    terminal.wait_for("share_fifty");
}

/// The kernel samples no process whose program its user may only execute.
#[test]
fn a_program_that_may_not_be_read_is_said_to_be_missing() {
    let Some(_turn) = turn() else { return };
    let Some(user) = Ordinary::user() else { return };
    let Some(shares) = user.fixture("shares") else { return };
    chown(&shares, Some(0), Some(0)).expect("it is a copy");
    fs::set_permissions(&shares, fs::Permissions::from_mode(0o711)).expect("it is a copy");
    let why = "`shares` may be executed, but not read: the kernel has ended its sampling";
    let script = format!("{} 1; i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done", shares.display());
    let recording = user.record(&["--", "sh", "-c", &script]);
    let report = recording.report_text(&[]);
    assert!(report.contains(why), "{report}");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    chown(folder.path(), Some(user.uid), Some(user.gid)).expect("root can give files away");
    let mut command = user.prof();
    command.args(["record", "--", word(&shares), "1"]).current_dir(folder.path());
    let output = command.output().expect("`timeout` can be run");
    assert!(!output.status.success() && messages(&output).contains(why), "{}", messages(&output));
}

#[test]
fn what_an_ordinary_user_may_not_sample_is_refused_with_the_reason() {
    let Some(_turn) = turn() else { return };
    let Some(user) = Ordinary::user() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    chown(folder.path(), Some(user.uid), Some(user.gid)).expect("root can give files away");
    let pid = shares.pid().to_string();
    for (arguments, why) in
        [(&["-p", &pid][..], "belongs to another user"), (&["-a"], "CAP_BPF and CAP_PERFMON missing")]
    {
        let mut command = user.prof();
        command.arg("record").args(arguments).args(["-d", "1s"]).current_dir(folder.path());
        let output = command.output().expect("`timeout` can be run");
        assert_refused(&output, 5, why);
        assert!(messages(&output).contains("sudo"), "{}", messages(&output));
        assert_folder_is_empty(folder.path());
    }
}

/// A recording by root where the kernel's types are hidden, with these arguments; `None`, after saying why, where they cannot
/// be.
pub(crate) fn without_types(arguments: &[&str]) -> Option<Recording> {
    let script = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" record \"$@\"";
    let probe =
        with_own_mounts("mount -t tmpfs none /sys/kernel/btf").output().expect("`timeout` can be run");
    if !probe.status.success() {
        return skip("the kernel's BTF cannot be hidden here");
    }
    Some(Recording::made_by(0, |file| {
        let mut command = with_own_mounts(script);
        command.arg("-o").arg(file).args(arguments);
        command
    }))
}

#[test]
fn a_kernel_without_type_information_is_sampled_by_perf_events() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("syscalls") else { return };
    let Some(recording) = without_types(&["--", word(&program), "2"]) else { return };
    let note: Vec<&str> =
        recording.messages.lines().filter(|line| line.contains("sampling by perf events")).collect();
    assert!(note.len() == 1 && note[0].contains("BTF"), "{}", recording.messages);
    let report = recording.report();
    report.assert_enough(500);
    assert!(report.complete_percent() >= 99.0, "{}", report.causes());
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "read_zeroes"]);
    let is_in_kernel = |stack: &Stack| stack.has(&["main", "read_zeroes"]) && stack.any_contains("vfs_read");
    assert!(stacks.percent(is_in_kernel) > 10.0, "no kernel frames");
}

#[test]
fn without_type_information_waits_have_stacks_and_reasons_by_perf_events() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("threads") else { return };
    let Some(recording) = without_types(&["--", word(&program), "2"]) else { return };
    recording.stacks_with(&["--off-cpu", "--idle"]).assert_has(&["asleep_thread"]);
    let text = recording.report_text(&["--off-cpu", "--idle"]);
    assert!(text.lines().any(|line| line.contains("sleep") && line.contains("asleep_thread")), "{text}");
}
