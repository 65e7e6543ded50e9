//! `prof record CMD`: the command's arguments, streams, signals and exit status stay its own.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::{HANGS_AFTER, Recording, binary, messages, prof, text};
use crate::harness::running::{Running, UNTIL_ENDED};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

/// Detail 9 of the promises: the exit status is that of the recorded command.
#[test]
fn the_commands_exit_status_is_handed_through() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("sleepexit") else { return };
    let program = program.to_str().expect("the target folder's path is text");
    for (told, status) in [("0", 0), ("7", 7), ("-15", 143), ("-6", 134)] {
        let recording = Recording::ending_with(status, ["--", program, "0.05", told]);
        assert!(recording.file().exists(), "nothing was saved:\n{}", recording.messages);
    }
}

#[test]
fn arguments_reach_the_command_as_they_are() {
    let Some(_turn) = turn() else { return };
    let arguments = ["a b", "", "--flag", "-p", "$HOME", "*", "\u{fc}\n", "--"];
    let recording = Recording::with([&["--", "/usr/bin/printf", "[%s]"], &arguments[..]].concat());
    let expected: String = arguments.iter().map(|argument| format!("[{argument}]")).collect();
    assert_eq!(String::from_utf8_lossy(&recording.output), expected, "{}", recording.messages);
}

#[test]
fn options_of_the_command_are_not_taken_without_the_dashes() {
    let Some(_turn) = turn() else { return };
    let recording = Recording::with(["/usr/bin/printf", "%s-%s", "-d", "5s"]);
    assert_eq!(recording.output, b"-d-5s");
}

#[test]
fn the_command_reads_standard_input() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut child = prof()
        .args(["record", "-o"])
        .arg(folder.path().join("prof.data"))
        .args(["--", "/usr/bin/wc", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("`timeout` can be run");
    let mut input = child.stdin.take().expect("the input was asked to be a pipe");
    input.write_all(&[b'x'; 100_000]).expect("the command reads all of its input");
    drop(input);
    let output = child.wait_with_output().expect("prof is our child");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "100000", "{}", messages(&output));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_command_is_recorded_from_its_first_instruction() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("shares") else { return };
    let program = program.to_str().expect("the target folder's path is text");
    let recording = Recording::with(["--", program, "2"]);
    let report = recording.report();
    report.assert_whole(200);
    assert!(report.total_percent("share_fifty") > 30.0, "top: {}", report.top());
    // The dynamic loader's own work comes before `main`; no profiler that attaches late can see it.
    recording.stacks().assert_has(&["main", "one_round", "share_fifty"]);
    assert!(
        recording.stacks().0.iter().all(|stack| stack.comm() == "shares"),
        "something else than the command was recorded"
    );
}

#[test]
fn the_delay_leaves_the_beginning_out() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("dlopen") else { return };
    let program = program.to_str().expect("the target folder's path is text");
    let recording = Recording::with(["-D", "2s", "--", program, "0.5", "3"]);
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "plugin_work", "plugin_inner"]);
    assert!(!stacks.any_has(&["before_plugin"]), "the first second was recorded");
}

/// It was said that the target had used CPU time of which nothing was recorded, and that it had run for less than a period.
#[test]
fn a_recording_that_ends_during_the_delay_says_so() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("dlopen") else { return };
    let program = program.to_str().expect("the target folder's path is text");
    let assert_said = |recording: &Recording| {
        let said = &recording.messages;
        assert!(said.contains("ended during the delay, before sampling began"), "{said}");
        assert!(said.contains("no sample: sampling had not begun") && !said.contains("CPU time"), "{said}");
        let report = prof().arg("report").arg(recording.file()).output().expect("`timeout` can be run");
        assert_eq!(report.status.code(), Some(3), "{}", messages(&report));
        assert!(messages(&report).contains("it ended during the delay"), "{}", messages(&report));
    };
    assert_said(&Recording::with(["-D", "100s", "--", program, "0.3", "0.1"]));
    let script = format!("trap '' INT; sleep 1; kill -INT $PPID; exec {program} 0.3 0.1");
    assert_said(&Recording::with(["-D", "100s", "--", "sh", "-c", &script]));
}

/// A first Ctrl-C that the command survives seemed to do nothing.
#[test]
fn a_command_that_goes_on_after_ctrl_c_is_told_of_once() {
    let Some(_turn) = turn() else { return };
    let script = "trap '' INT; sleep 0.5; kill -INT $PPID; sleep 3; kill -INT $PPID; sleep 0.5";
    let recording = Recording::with(["--", "sh", "-c", script]);
    let said = recording.messages.matches("Ctrl-C again ends it").count();
    assert_eq!(said, 1, "{}", recording.messages);
}

#[test]
fn the_duration_leaves_the_rest_out_and_the_command_goes_on() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("dlopen") else { return };
    let program = program.to_str().expect("the target folder's path is text");
    let recording = Recording::with(["-d", "500ms", "--", program, "2.5", "0.5"]);
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "before_plugin"]);
    assert!(!stacks.any_has(&["plugin_work"]), "it was recorded to the end");
}

#[test]
fn a_command_that_does_not_exist_is_127_and_leaves_nothing() {
    let Some(_turn) = turn() else { return };
    for command in ["no-such-command-anywhere", "/no/such/command"] {
        let recording = Recording::ending_with(127, ["--", command]);
        assert!(recording.messages.contains(command), "{}", recording.messages);
        assert!(!recording.file().exists(), "a file was left");
    }
}

#[test]
fn a_command_that_cannot_be_executed_is_126_and_leaves_nothing() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let plain = folder.path().join("plain-file");
    fs::write(&plain, "not a program\n").expect("a temporary file can be written");
    for path in [plain.as_path(), folder.path()] {
        let path = path.to_str().expect("a temporary path is text");
        let recording = Recording::ending_with(126, ["--", path]);
        assert!(recording.messages.contains(path), "{}", recording.messages);
        assert!(!recording.file().exists(), "a file was left");
    }
}

#[test]
fn a_recording_without_samples_is_valid_and_reported_as_such() {
    let Some(_turn) = turn() else { return };
    let recording = Recording::with(["-F", "1", "--", "/bin/true"]);
    let report = prof().arg("report").arg(recording.file()).output().expect("`timeout` can be run");
    // One sample a second of a command of a few milliseconds: most likely none, and never a failure.
    assert!(matches!(report.status.code(), Some(0 | 3)), "{}", messages(&report));
}

#[test]
fn a_signal_reaches_the_command_once() {
    let Some(_turn) = turn() else { return };
    // Also one that comes before sampling begins.
    for options in [&[][..], &["-D", "1"]] {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let said = folder.path().join("said");
        // The shell counts what it is sent, and ends by itself.
        let script = format!(
            "trap 'echo term >> {0}' TERM; echo up >> {0}; i=0; while [ $i -lt 20 ]; do sleep 0.1; i=$((i+1)); done; exit 3",
            said.display()
        );
        let mut command = Command::new(binary());
        command.args(["record", "-q", "-o"]).arg(folder.path().join("x")).args(options);
        let mut recorder = command.args(["--", "sh", "-c", &script]).spawn().expect("prof can be run");
        let read = || std::fs::read_to_string(&said).unwrap_or_default();
        crate::harness::running::wait_for("the command", || read().contains("up").then_some(()));
        let pid = rustix::process::Pid::from_child(&recorder);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("our own child");
        let status = recorder.wait().expect("our own child");
        assert_eq!(status.code(), Some(3), "the status is the command's");
        assert_eq!(read().matches("term").count(), 1, "{options:?}");
    }
}

/// Shells have what a script starts with `&` ignore SIGINT, which would leave no way to end a recording.
#[test]
fn a_recording_in_the_background_of_a_script_ends_by_an_interrupt() {
    let Some(_turn) = turn() else { return };
    let Some(target) = Running::fixture("threads", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let script = "\"$0\" record -p $1 -o x.data 2>said & recorder=$!
        until grep -q recording said; do sleep 0.05; done
        kill -INT $recorder; wait $recorder";
    let status = Command::new("timeout")
        .args([HANGS_AFTER, "sh", "-c", script])
        .arg(binary())
        .arg(target.pid().to_string())
        .current_dir(folder.path())
        .status()
        .expect("`timeout` can be run");
    let said = fs::read_to_string(folder.path().join("said")).unwrap_or_default();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(folder.path().join("x.data").exists() && said.contains("saved"), "{said}");
}

/// The command is started with what `prof` was started with.
#[test]
fn a_command_ignores_the_signals_that_it_was_to_ignore() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let kill = "for signal in INT TERM HUP; do kill -$signal $$; done; echo alive";
    for (ignored, expected) in [("trap '' INT TERM HUP;", "alive\n"), ("", "")] {
        let script = format!("{ignored} exec \"$0\" record -q -o \"$1\" -- sh -c '{kill}'");
        let output = Command::new("timeout")
            .args([HANGS_AFTER, "sh", "-c", &script])
            .args([binary(), &folder.path().join(format!("x{}", expected.len()))])
            .output()
            .expect("`timeout` can be run");
        assert_eq!(text(&output), expected, "{ignored} {}", messages(&output));
    }
}

#[test]
fn the_second_recording_of_a_command_takes_its_tables_from_the_first() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let said = |environment: &[(&str, &str)]| {
        let mut command = prof();
        command
            .env_remove("PROF_NO_CACHE")
            .env("XDG_CACHE_HOME", folder.path())
            .envs(environment.iter().copied());
        let output = folder.path().join("prof.data");
        command.args(["record", "-v", "-f", "-o"]).arg(output).args(["--", "/bin/sh", "-c", ":"]);
        let output = command.output().expect("`timeout` can be run");
        assert!(output.status.success(), "{}", messages(&output));
        messages(&output)
    };
    let first = said(&[]);
    assert!(first.contains("unwind tables: 0 from the cache, ") && !first.contains(", 0 added"), "{first}");
    let second = said(&[]);
    assert!(!second.contains("unwind tables: 0 from") && second.contains(", 0 added to it"), "{second}");
    let without = said(&[("PROF_NO_CACHE", "1")]);
    assert!(without.contains("unwind tables are not cached: PROF_NO_CACHE is set"), "{without}");
    // Where it cannot be, tables are made all the same.
    let nowhere = said(&[("XDG_CACHE_HOME", "/proc/nowhere")]);
    assert!(nowhere.contains("unwind tables are not cached: `/proc/nowhere`"), "{nowhere}");
    let homeless = said(&[("XDG_CACHE_HOME", ""), ("HOME", "")]);
    assert!(homeless.contains("neither XDG_CACHE_HOME nor HOME"), "{homeless}");
}
