//! The terminal is given back, whatever ends or stops the program; nothing stays behind when the terminal is gone.

use crate::harness::machine::turn;
use crate::harness::pane::Terminal;
use crate::harness::profiler::binary;
use crate::harness::running::{Running, UNTIL_ENDED, children, wait_for};
use crate::terminal::files::{quoted, recorded_shares};
use prof::internals::profile::{Integrity, Profile};
use prof::internals::report::Analysis;
use prof::internals::tui::terminal::guard::TerminalGuard;
use prof::internals::tui::{TuiOptions, show};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process has a number");
    kill_process(pid, signal).expect("it runs");
}

#[test]
fn the_terminal_is_given_back_whatever_ends_the_program() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(80, 24) else { return };
    for (signal, status) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130), (Signal::QUIT, 131)]
    {
        terminal.start_prof(&format!("tui {}", quoted(&recording.file())));
        terminal.wait_for("share_fifty");
        send(terminal.program(), signal);
        terminal.assert_given_back(status);
    }
}

#[test]
fn the_terminal_is_given_back_while_the_program_is_stopped_and_taken_again() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(80, 24) else { return };
    terminal.type_text("set -m");
    terminal.press(&["Enter"]);
    let assert_taken = || {
        terminal.wait_for("share_fifty");
        let modes = terminal.modes();
        assert!(modes.contains("-icanon") && modes.contains("-echo"), "{modes}");
        assert_eq!(terminal.fact("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"), "1 0 1");
    };
    terminal.start_prof(&format!("tui {}", quoted(&recording.file())));
    assert_taken();
    // By the key, which the program reads itself, and by the signal, which any other may send.
    let first = terminal.program();
    for round in 0..2 {
        match round {
            0 => terminal.press(&["C-z"]),
            _ => send(first, Signal::TSTP),
        }
        // 128 and SIGTSTP: the shell goes on with what follows.
        terminal.assert_given_back(148);
        terminal.start("fg");
        assert_taken();
    }
    terminal.type_text("q");
    terminal.assert_given_back(0);
}

/// A script that runs the program stops, too, or its shell would wait for one that no one lets go on.
#[test]
fn what_the_shell_started_stops_with_the_program() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(80, 24) else { return };
    terminal.type_text("set -m");
    terminal.press(&["Enter"]);
    let script = format!("{} tui {}; echo the script goes on", binary().display(), quoted(&recording.file()));
    terminal.start(&format!("sh -c \"{script}\""));
    terminal.wait_for("share_fifty");
    terminal.press(&["C-z"]);
    terminal.assert_given_back(148);
    terminal.start("fg");
    terminal.wait_for("share_fifty");
    terminal.type_text("q");
    terminal.wait_for("the script goes on");
    terminal.assert_given_back(0);
}

#[test]
fn a_program_that_was_stopped_from_outside_takes_the_terminal_again() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(80, 24) else { return };
    terminal.type_text("set -m");
    terminal.press(&["Enter"]);
    terminal.start_prof(&format!("tui {}", quoted(&recording.file())));
    terminal.wait_for("share_fifty");
    send(terminal.program(), Signal::STOP);
    // The shell has the terminal once it goes on with its line; what is typed before may be read by no one.
    let line_goes_on = || std::fs::metadata(terminal.file("after")).is_ok_and(|after| after.len() > 0);
    wait_for("the shell to go on", || line_goes_on().then_some(()));
    // Nothing was given back; most shells set their own modes then.
    terminal.type_text("stty sane");
    terminal.press(&["C-j"]);
    wait_for("modes of the shell's", || (!terminal.modes().contains("-icanon")).then_some(()));
    terminal.start("fg");
    wait_for("raw modes", || terminal.modes().contains("-icanon").then_some(()));
    terminal.type_text("2");
    terminal.wait_for("[2 Top]");
    terminal.type_text("q");
    // The modes are those that were there first.
    let screen = terminal.wait_for("over\n");
    assert!(screen.contains("status 0\n"), "{screen}");
    assert!(!terminal.modes().contains("-icanon"));
    terminal.assert_normal_screen();
}

/// A process that is stopped until this is dropped.
struct Stopped(u32);

impl Stopped {
    fn new(pid: u32) -> Stopped {
        send(pid, Signal::STOP);
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        send(self.0, Signal::CONT);
    }
}

/// A terminal over a connection that hangs.
#[test]
fn the_terminal_is_given_back_when_nobody_reads_it() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(200, 60) else { return };
    terminal.start_prof(&format!("tui {}", quoted(&recording.file())));
    terminal.wait_for("share_fifty");
    let program = terminal.program();
    let server: u32 = terminal.fact("#{pid}").parse().expect("a process has a number");
    let stopped = Stopped::new(server);
    let screen = wait_for("the process with the screen", || children(program).first().copied());
    // Each draws the whole screen, until there is no room for more: the thread that draws waits for the terminal then, not for
    // what happens.
    wait_for("a program that is held by its terminal", || {
        send(program, Signal::CONT);
        let waits = std::fs::read_to_string(format!("/proc/{screen}/wchan")).unwrap_or_default();
        waits.contains("poll").then_some(())
    });
    send(program, Signal::TERM);
    wait_for("the end of the program", || is_gone(program).then_some(()));
    drop(stopped);
    terminal.assert_given_back(143);
}

/// A program that cannot write its first frame ends like any other.
#[test]
fn a_signal_ends_a_program_whose_terminal_was_full_before() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(200, 60) else { return };
    // More fits in where the terminal does not process what is written, as under prof.
    let fill = "stty -opost; dd if=/dev/zero of=/dev/tty bs=1 oflag=nonblock 2>dd; stty opost";
    let wait_and_fill = format!("until test -e go; do sleep 0.1; done; {fill}");
    // Without colours, since the question for them waits in the kernel, where the default action of a signal ends it.
    let prof = format!("{} tui --color never {}", binary().display(), quoted(&recording.file()));
    terminal.start(&format!("{wait_and_fill}; {prof}"));
    let shell: u32 = terminal.fact("#{pane_pid}").parse().expect("a process has a number");
    let server: u32 = terminal.fact("#{pid}").parse().expect("a process has a number");
    let stopped = Stopped::new(server);
    std::fs::write(terminal.file("go"), "").expect("the folder can be written to");
    let program = wait_for("a program that is held by its terminal", || {
        let waits = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        let is_prof =
            |pid: &u32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == binary());
        let has_screen = |pid: &u32| children(*pid).iter().any(|screen| waits(screen).contains("poll"));
        children(shell).into_iter().find(|pid| is_prof(pid) && has_screen(pid))
    });
    send(program, Signal::TERM);
    wait_for("the end of the program", || is_gone(program).then_some(()));
    drop(stopped);
    terminal.assert_given_back(143);
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn is_gone(pid: u32) -> bool {
    // One that no one has waited for yet has ended, too.
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

#[test]
fn nothing_is_left_when_the_terminal_goes_away() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(target) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let fixture = crate::harness::fixture::build("shares").expect("it was built before");
    for what in [
        format!("tui {}", quoted(&recording.file())),
        format!("tui -p {}", target.pid()),
        format!("tui -- {} 60", quoted(&fixture)),
    ] {
        let Some(terminal) = Terminal::open(100, 30) else { return };
        terminal.start_prof(&what);
        terminal.wait_for("share_fifty");
        let before = files(&terminal.file("."));
        let program = terminal.program();
        // Some open files for it, or read them, and end with it.
        let is_helper = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("prof-"))
        };
        let (helpers, launched): (Vec<u32>, Vec<u32>) = children(program).into_iter().partition(is_helper);
        assert_eq!(launched.len(), usize::from(what.starts_with("tui --")), "{what}: {launched:?}");
        terminal.close();
        wait_for(&format!("the end of prof {what}"), || is_gone(program).then_some(()));
        // The command that it was asked to run has lost its terminal, too.
        for pid in launched.into_iter().chain(helpers) {
            wait_for("the end of the command", || is_gone(pid).then_some(()));
        }
        // The modes that are noted when it is over, which it is now.
        let mut after = files(&terminal.file("."));
        after.retain(|name| name != "after" && name != "socket");
        assert!(after.iter().all(|name| before.contains(name)), "{what}: {before:?}, then {after:?}");
        assert!(target.is_alive(), "{what}: the target ended, too");
    }
}

#[test]
#[ignore = "the next test runs it, in a terminal"]
fn a_screen_that_panics() {
    let _guard = TerminalGuard::take(true).expect("there is a terminal");
    panic!("on purpose");
}

#[test]
#[ignore = "the test after the next runs it, in a terminal"]
fn a_thread_that_panics_beside_the_screen() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(500));
        panic!("on purpose");
    });
    let recording = Arc::new(Analysis::new(Profile::default(), Integrity::default()));
    let ended = show(&TuiOptions::default(), recording);
    panic!("the session ended: {ended:?}");
}

#[test]
fn the_terminal_is_given_back_by_a_panic() {
    let Some(terminal) = Terminal::open(100, 40) else { return };
    let tests = std::env::current_exe().expect("a test knows its own program");
    let itself = "--ignored --exact terminal::given_back::a_screen_that_panics --nocapture";
    terminal.start(&format!("RUST_BACKTRACE=0 {} {itself}", tests.display()));
    let screen = terminal.wait_for("over\n");
    assert!(screen.contains("on purpose"), "the panic is not on the normal screen:\n{screen}");
    terminal.assert_given_back(101);
}

#[test]
fn the_terminal_is_given_back_by_a_panic_of_any_thread() {
    let Some(terminal) = Terminal::open(100, 60) else { return };
    let tests = std::env::current_exe().expect("a test knows its own program");
    let itself = "--ignored --exact terminal::given_back::a_thread_that_panics_beside_the_screen --nocapture";
    terminal.start(&format!("RUST_BACKTRACE=0 {} {itself}", tests.display()));
    let screen = terminal.wait_for("over\n");
    assert!(screen.contains("on purpose"), "the panic is not on the normal screen:\n{screen}");
    assert!(screen.contains("the session ended: Err(a thread of prof has failed"), "{screen}");
    terminal.assert_given_back(101);
}
