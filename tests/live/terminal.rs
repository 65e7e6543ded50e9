//! The real program in a real terminal: tmux holds the screen and sends the keys.

use super::machine::{tool_or_skip, turn};
use super::postgres::Postgres;
use super::profiler::{Recording, binary};
use super::running::Running;
use prof::tui::terminal::TerminalGuard;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// How long something may take to appear on the screen of a crowded machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A terminal with a shell in it, which is gone with this.
struct Terminal {
    tmux: PathBuf,
    folder: tempfile::TempDir,
}

impl Terminal {
    /// A terminal of so many columns and rows.
    fn open(columns: u16, rows: u16) -> Option<Terminal> {
        let tmux = tool_or_skip("tmux")?;
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let terminal = Terminal { tmux, folder };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        terminal.run(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, "PS1='$ ' sh"]);
        terminal.wait_for("$");
        Some(terminal)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let output = Command::new(&self.tmux)
            .arg("-S")
            .arg(self.folder.path().join("socket"))
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .current_dir(self.folder.path())
            .output()
            .expect("tmux can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {arguments:?}: {said}");
        output
    }

    /// Types text.
    fn type_text(&self, text: &str) {
        self.run(&["send-keys", "-l", "--", text]);
    }

    /// Presses keys by tmux's names: `Enter`, `Escape`, `C-s`.
    fn press(&self, keys: &[&str]) {
        for key in keys {
            self.run(&["send-keys", key]);
        }
    }

    /// What the screen shows.
    fn screen(&self) -> String {
        let output = self.run(&["capture-pane", "-p"]);
        String::from_utf8(output.stdout).expect("tmux gives UTF-8")
    }

    /// Waits until the screen is as wanted; returns it.
    fn wait_until(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if is_wanted(&screen) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "no {what} on the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the screen shows `text`.
    fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("`{text}`"), |screen| screen.contains(text))
    }

    /// Waits until it is gone from the screen.
    fn wait_without(&self, text: &str) -> String {
        self.wait_until(&format!("screen without `{text}`"), |screen| !screen.contains(text))
    }

    /// Runs `prof ARGUMENTS` between two looks at the modes of the terminal.
    fn start_prof(&self, arguments: &str) {
        self.start(&format!("{} {arguments}", binary().display()));
    }

    /// The same with any command.
    fn start(&self, command: &str) {
        // What is typed must not look like what is printed, wherever the line is broken.
        self.type_text(&format!(
            "clear; stty -g >before; {command}; echo status $?; stty -g >after; echo ov''er"
        ));
        self.press(&["Enter"]);
    }

    /// Waits for the end of `prof`, and asserts its status and that the terminal is as it was.
    fn assert_given_back(&self, status: u8) {
        let screen = self.wait_for("over\n");
        assert!(screen.contains(&format!("status {status}\n")), "the status is not {status}:\n{screen}");
        let modes =
            |name: &str| std::fs::read_to_string(self.file(name)).expect("stty has written its modes");
        assert_eq!(modes("before"), modes("after"), "the terminal's modes");
        let flags = self.run(&["display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}"]);
        assert_eq!(String::from_utf8_lossy(&flags.stdout), "0 1 0\n", "alternate screen, cursor, mouse");
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let socket = self.folder.path().join("socket");
        // An error means that it has gone already.
        let _ = Command::new(&self.tmux).arg("-S").arg(socket).arg("kill-server").output();
    }
}

fn recorded_shares() -> Option<Recording> {
    let program = Running::fixture("shares", &["20"])?;
    Some(Recording::of_pid(program.pid(), "1500ms"))
}

fn quoted(path: &Path) -> String {
    path.to_str().expect("a path is text").to_owned()
}

#[test]
fn a_file_is_shown_searched_zoomed_and_inverted() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(100, 30) else { return };
    terminal.start_prof(&format!("tui {}", quoted(&recording.file())));
    terminal.wait_for("share_fifty");
    terminal.type_text("/share_fif");
    terminal.wait_for("1 function");
    terminal.press(&["Enter"]);
    terminal.press(&["Enter"]);
    let zoomed = terminal.wait_for("of zoom");
    assert!(zoomed.contains("share_fifty"), "{zoomed}");
    // The way to the box that fills the screen now.
    terminal.wait_for("› share_fifty");
    terminal.press(&["Escape", "Escape", "0"]);
    terminal.wait_without("› share_fifty");
    terminal.type_text("i");
    terminal.wait_for("inverted");
    terminal.type_text("i");
    terminal.wait_without("inverted");
    // A filter, and the same without.
    terminal.wait_for("share_thirty");
    terminal.type_text("/share_fif");
    terminal.press(&["Enter"]);
    terminal.type_text("f");
    terminal.wait_without("share_thirty");
    terminal.type_text("u");
    terminal.wait_for("share_thirty");
    // A range of time, which other views follow, and an end to it.
    terminal.type_text("4");
    terminal.wait_for("chooses a range");
    terminal.type_text("[");
    terminal.press(&["Right", "Right"]);
    terminal.type_text("]");
    terminal.wait_for("clears it");
    terminal.type_text("1");
    terminal.wait_for("share_fifty");
    terminal.type_text("4");
    terminal.wait_for("clears it");
    terminal.type_text("0");
    terminal.wait_without("clears it");
    terminal.type_text("?");
    terminal.wait_for("Help");
    terminal.type_text("?");
    terminal.wait_without("Help");
    terminal.type_text("q");
    terminal.assert_given_back(0);
}

#[test]
fn without_a_terminal_it_names_the_report() {
    let output = Command::new(binary()).arg("tui").output().expect("prof can be run");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("prof report"), "{output:?}");
}

#[test]
fn a_terminal_that_cannot_be_drawn_on_is_told_of_the_report() {
    let Some(terminal) = Terminal::open(80, 24) else { return };
    terminal.start(&format!("TERM=dumb {} tui no-such-file", binary().display()));
    let screen = terminal.wait_for("over\n");
    assert!(screen.contains("TERM=dumb") && screen.contains("prof report"), "{screen}");
    terminal.assert_given_back(2);
}

#[test]
fn a_file_that_is_not_whole_says_so_when_it_is_opened() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(80, 24) else { return };
    let whole = std::fs::read(recording.file()).expect("the recording can be read");
    std::fs::write(terminal.file("cut.data"), &whole[..whole.len() - 20])
        .expect("a part of it can be written");
    terminal.start_prof("tui cut.data");
    let screen = terminal.wait_for("is not whole");
    assert!(screen.contains("share_fifty"), "{screen}");
    let report = Command::new(binary()).arg("report").arg(terminal.file("cut.data")).output();
    let said = String::from_utf8(report.expect("prof can be run").stderr).expect("it is text");
    assert!(said.contains("is not whole"), "{said}");
    // The first key takes the message away; the notes keep it.
    terminal.type_text("!");
    terminal.wait_for("the file is not whole");
    terminal.type_text("xq");
    terminal.assert_given_back(0);
}

#[test]
fn a_small_terminal_says_what_it_needs_and_recovers() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(30, 8) else { return };
    terminal.start_prof(&format!("tui {}", quoted(&recording.file())));
    terminal.wait_for("40x10");
    terminal.run(&["resize-window", "-x", "80", "-y", "24"]);
    terminal.wait_for("share_fifty");
    terminal.type_text("q");
    terminal.assert_given_back(0);
}

#[test]
fn the_terminal_is_given_back_whatever_ends_the_program() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(80, 24) else { return };
    for (signal, status) in [("TERM", 143), ("HUP", 129), ("INT", 130), ("QUIT", 131)] {
        terminal.start_prof(&format!("tui {}", quoted(&recording.file())));
        terminal.wait_for("share_fifty");
        let pids =
            Command::new("pgrep").args(["-f", "prof tui .*prof.data"]).output().expect("pgrep can be run");
        for pid in String::from_utf8_lossy(&pids.stdout).split_whitespace() {
            let _ = Command::new("kill").args([&format!("-{signal}"), pid]).output();
        }
        terminal.assert_given_back(status);
    }
    // Stopped and woken again by the shell.
    terminal.type_text("set -m");
    terminal.press(&["Enter"]);
    terminal.start_prof(&format!("tui {}", quoted(&recording.file())));
    terminal.wait_for("share_fifty");
    terminal.press(&["C-z"]);
    terminal.wait_for("over\n");
    let flags = terminal.run(&["display-message", "-p", "#{alternate_on} #{mouse_any_flag}"]);
    assert_eq!(String::from_utf8_lossy(&flags.stdout), "0 0\n", "alternate screen, mouse while stopped");
    terminal.type_text("clear; fg");
    terminal.press(&["Enter"]);
    terminal.wait_for("share_fifty");
    terminal.type_text("q");
    terminal.wait_without("share_fifty");
}

#[test]
#[ignore = "the next test runs it, in a terminal"]
fn a_screen_that_panics() {
    let _guard = TerminalGuard::take(true).expect("there is a terminal");
    panic!("on purpose");
}

#[test]
fn the_terminal_is_given_back_by_a_panic() {
    let Some(terminal) = Terminal::open(100, 40) else { return };
    let tests = std::env::current_exe().expect("a test knows its own program");
    let itself = "--ignored --exact terminal::a_screen_that_panics --nocapture";
    terminal.start(&format!("{} {itself}", tests.display()));
    let screen = terminal.wait_for("over\n");
    assert!(screen.contains("on purpose"), "the panic is not on the normal screen:\n{screen}");
    terminal.assert_given_back(101);
}

#[test]
fn a_program_is_watched_while_it_runs_and_what_was_seen_is_saved() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("shares", &["60"]) else { return };
    let Some(terminal) = Terminal::open(100, 30) else { return };
    terminal.start_prof(&format!("tui -p {}", program.pid()));
    terminal.wait_for("LIVE");
    terminal.wait_for("share_fifty");
    terminal.type_text(" ");
    terminal.wait_for("FROZEN");
    terminal.type_text(" ");
    terminal.wait_without("FROZEN");
    terminal.type_text("2");
    terminal.wait_for("SELF%");
    terminal.type_text("1");
    std::thread::sleep(Duration::from_secs(2));
    terminal.press(&["C-s"]);
    terminal.wait_for("prof.data");
    let saved = terminal.file("prof.data");
    let began = Instant::now();
    while !saved.exists() {
        assert!(began.elapsed() < PATIENCE, "nothing is saved:\n{}", terminal.screen());
        std::thread::sleep(Duration::from_millis(50));
    }
    terminal.type_text(" ");
    terminal.wait_for("FROZEN");
    drop(program);
    terminal.wait_for("ENDED");
    terminal.wait_for("share_fifty");
    // What was seen can still be saved; the file from before is kept.
    terminal.press(&["C-s"]);
    terminal.wait_for("previous kept");
    // The first key after a change of size counts.
    terminal.run(&["resize-window", "-x", "90", "-y", "28"]);
    std::thread::sleep(Duration::from_millis(400));
    terminal.type_text("q");
    terminal.assert_given_back(0);
    let report = Command::new(binary()).arg("report").arg(&saved).output().expect("prof can be run");
    let text = String::from_utf8_lossy(&report.stdout);
    assert!(text.contains("share_fifty") && text.contains("shares"), "{text}");
    terminal.start_prof("tui");
    terminal.wait_for("share_fifty");
    terminal.type_text("q");
    terminal.assert_given_back(0);
}

#[test]
fn the_screen_follows_the_size_while_it_is_live_and_the_recording_ends_in_time() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("shares", &["60"]) else { return };
    let Some(terminal) = Terminal::open(100, 30) else { return };
    terminal.start_prof(&format!("tui -d 8s -p {}", program.pid()));
    terminal.wait_for("share_fifty");
    for (columns, rows) in [(60, 16), (140, 45), (40, 10), (30, 8), (90, 28)] {
        terminal.run(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        // What is drawn reaches from edge to edge, and the recording goes on.
        let what = format!("screen of {columns} columns");
        let screen = terminal.wait_until(&what, |screen| match columns {
            30 => screen.contains("40x10"),
            _ => screen.lines().any(|line| line.starts_with(&"─".repeat(columns))),
        });
        assert!(screen.lines().all(|line| line.chars().count() <= columns), "{screen}");
    }
    terminal.wait_for("ENDED");
    terminal.wait_for("share_fifty");
    terminal.type_text("q");
    terminal.assert_given_back(0);
}

#[test]
fn a_database_is_watched_with_its_waits() {
    let Some(_turn) = turn() else { return };
    let Some(database) = Postgres::start() else { return };
    let _load = database.load();
    let Some(terminal) = Terminal::open(120, 40) else { return };
    terminal.start_prof("tui --name '^postgres$'");
    terminal.wait_for("PostgresMain");
    terminal.type_text("m");
    terminal.wait_for("off-CPU");
    terminal.type_text("5");
    terminal.wait_for("BLOCKED");
    terminal.type_text("q");
    terminal.assert_given_back(0);
}

#[test]
fn a_target_that_cannot_be_recorded_is_refused_on_the_normal_screen() {
    let Some(_turn) = turn() else { return };
    let Some(terminal) = Terminal::open(80, 24) else { return };
    terminal.start_prof("tui -p 4000000");
    terminal.wait_for("no such process");
    terminal.assert_given_back(1);
}
