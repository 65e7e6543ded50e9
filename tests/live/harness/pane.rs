//! A real terminal with a shell in it: tmux holds the screen and sends the keys.

use crate::harness::machine::tool_or_skip;
use crate::harness::profiler::binary;
use crate::harness::running::children;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// How long something may take to appear on the screen of a crowded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks at the screen.
const POLL: Duration = Duration::from_millis(20);

/// A terminal with a shell in it, which is gone with this.
pub(crate) struct Terminal {
    tmux: PathBuf,
    folder: tempfile::TempDir,
}

impl Terminal {
    /// A terminal of so many columns and rows.
    pub(crate) fn open(columns: u16, rows: u16) -> Option<Terminal> {
        let tmux = tool_or_skip("tmux")?;
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let terminal = Terminal { tmux, folder };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        terminal.run(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, "PS1='$ ' sh"]);
        terminal.wait_for("$");
        Some(terminal)
    }

    /// What tmux knows of it, such as `#{pane_pid}`.
    pub(crate) fn fact(&self, format: &str) -> String {
        let output = self.run(&["display-message", "-p", format]);
        String::from_utf8(output.stdout).expect("tmux gives UTF-8").trim_end().to_owned()
    }

    /// The process that the shell in it runs.
    pub(crate) fn program(&self) -> u32 {
        let shell: u32 = self.fact("#{pane_pid}").parse().expect("a process has a number");
        let programs = children(shell);
        assert_eq!(programs.len(), 1, "{programs:?} of {shell}");
        programs[0]
    }

    /// The modes of the terminal, as seen from outside, in the words of `stty`.
    pub(crate) fn modes(&self) -> String {
        let output = Command::new("stty").arg("-F").arg(self.fact("#{pane_tty}")).arg("-a").output();
        String::from_utf8_lossy(&output.expect("stty can be run").stdout).into_owned()
    }

    /// Takes the terminal away from what runs in it, as a closed window or a broken connection does.
    pub(crate) fn close(&self) {
        self.run(&["kill-server"]);
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let output = Command::new(&self.tmux)
            .arg("-S")
            .arg(self.folder.path().join("socket"))
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            // What is left behind there is seen.
            .env("TMPDIR", self.folder.path())
            .env("TERM", "xterm-256color")
            .current_dir(self.folder.path())
            .output()
            .expect("tmux can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {arguments:?}: {said}");
        output
    }

    /// Types text.
    pub(crate) fn type_text(&self, text: &str) {
        self.run(&["send-keys", "-l", "--", text]);
    }

    /// Presses keys by tmux's names: `Enter`, `Escape`, `C-s`.
    pub(crate) fn press(&self, keys: &[&str]) {
        for key in keys {
            self.run(&["send-keys", key]);
        }
    }

    /// What the screen shows.
    pub(crate) fn screen(&self) -> String {
        let output = self.run(&["capture-pane", "-p"]);
        String::from_utf8(output.stdout).expect("tmux gives UTF-8")
    }

    /// Waits until the screen is as wanted; returns it.
    pub(crate) fn wait_until(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if is_wanted(&screen) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "no {what} on the screen:\n{screen}");
            std::thread::sleep(POLL);
        }
    }

    /// What the screen shows once it has stopped changing: what `prof` draws may come in parts.
    pub(crate) fn settled(&self) -> String {
        let last = std::cell::RefCell::new(String::new());
        self.wait_until("still picture", |screen| {
            std::thread::sleep(POLL);
            last.replace(screen.to_owned()) == screen
        })
    }

    /// Waits until the screen shows `text`.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("`{text}`"), |screen| screen.contains(text))
    }

    /// Waits until it is gone from the screen.
    pub(crate) fn wait_without(&self, text: &str) -> String {
        self.wait_until(&format!("screen without `{text}`"), |screen| !screen.contains(text))
    }

    /// Runs `prof ARGUMENTS` between two looks at the modes of the terminal.
    pub(crate) fn start_prof(&self, arguments: &str) {
        self.start(&format!("{} {arguments}", binary().display()));
    }

    /// The same with any command.
    pub(crate) fn start(&self, command: &str) {
        // What is typed must not look like what is printed, wherever the line is broken.
        self.type_text(&format!(
            "clear; stty -g >before; {command}; echo status $?; stty -g >after; echo ov''er"
        ));
        self.press(&["Enter"]);
    }

    /// Waits for the end of `prof`, and asserts its status and that the terminal is as it was.
    pub(crate) fn assert_given_back(&self, status: u8) {
        let screen = self.wait_for("over\n");
        assert!(screen.contains(&format!("status {status}\n")), "the status is not {status}:\n{screen}");
        let modes =
            |name: &str| std::fs::read_to_string(self.file(name)).expect("stty has written its modes");
        assert_eq!(modes("before"), modes("after"), "the terminal's modes");
        self.assert_normal_screen();
    }

    /// Asserts that the screen is the normal one, with a cursor and without the mouse.
    pub(crate) fn assert_normal_screen(&self) {
        let flags = self.fact("#{alternate_on} #{cursor_flag} #{mouse_any_flag}");
        assert_eq!(flags, "0 1 0", "alternate screen, cursor, mouse");
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
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
