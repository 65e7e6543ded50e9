//! A program in a pseudo-terminal: keys go in, and what comes out is timed.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing takes longer on a machine that is not broken.
const PATIENCE: Duration = Duration::from_secs(30);
#[allow(dead_code, reason = "not every bench times keys")]
/// Output of one screen comes in pieces that are no further apart.
const PIECES: Duration = Duration::from_millis(3);

/// How long a key took.
#[allow(dead_code, reason = "not every bench times keys")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pressed {
    /// To the end of the first change of the screen.
    pub redraw: Duration,
    /// To the end of the last one.
    pub settled: Duration,
}

/// A program and the terminal that it runs in.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: File,
    program: Child,
    output: Vec<u8>,
}

fn open(columns: u16, rows: u16) -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: both descriptors are written before it returns 0; the name and the modes are not asked for.
    let opened = unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, std::ptr::null_mut(), std::ptr::null(), &raw const size)
    };
    assert_eq!(opened, 0, "a pseudo-terminal can be opened");
    // SAFETY: they were just opened, and no one else has them.
    unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

impl Screen {
    /// Starts `program` in a terminal of 120 columns and 40 rows.
    #[allow(dead_code, reason = "not every bench takes this size")]
    pub(crate) fn start(program: &str, arguments: &[&OsStr]) -> Screen {
        Screen::start_in((120, 40), program, arguments)
    }

    /// Starts `program` in a terminal of this size.
    pub(crate) fn start_in((columns, rows): (u16, u16), program: &str, arguments: &[&OsStr]) -> Screen {
        let (ours, theirs) = open(columns, rows);
        let end = || Stdio::from(theirs.try_clone().expect("a descriptor can be copied"));
        // The terminal has to be the one that /dev/tty means.
        let program = Command::new("setsid")
            .arg("--ctty")
            .arg(program)
            .args(arguments)
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("setsid can be run");
        Screen { terminal: File::from(ours), program, output: Vec::new() }
    }

    /// Takes what comes within `patience`; answers what the terminal is asked. Returns whether something came.
    fn take(&mut self, patience: Duration) -> bool {
        let mut fds = [PollFd::new(&self.terminal, PollFlags::IN)];
        let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        if poll(&mut fds, Some(&timeout)).unwrap_or(0) == 0 {
            return false;
        }
        let mut piece = [0; 1 << 16];
        let Ok(bytes) = self.terminal.read(&mut piece) else { return false };
        let piece = &piece[..bytes];
        let has = |text: &[u8]| piece.windows(text.len()).any(|window| window == text);
        let mut answer = Vec::new();
        for colour in ["10", "11"] {
            if has(format!("\x1b]{colour};?").as_bytes()) {
                answer.extend(format!("\x1b]{colour};rgb:0000/0000/0000\x1b\\").into_bytes());
            }
        }
        if has(b"\x1b[c") {
            answer.extend(b"\x1b[?62;22c");
        }
        if !answer.is_empty() {
            self.terminal.write_all(&answer).expect("the terminal takes an answer");
        }
        self.output.extend_from_slice(piece);
        bytes > 0
    }

    /// Waits until `text` was written.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let began = Instant::now();
        while !self.output.windows(text.len()).any(|window| window == text.as_bytes()) {
            assert!(began.elapsed() < PATIENCE, "no `{text}`: {}", String::from_utf8_lossy(&self.output));
            self.take(Duration::from_millis(50));
        }
    }

    /// Waits until nothing has come for `quiet`.
    #[allow(dead_code, reason = "a live screen never settles")]
    pub(crate) fn settle(&mut self, quiet: Duration) {
        while self.take(quiet) {}
    }

    /// Takes what is drawn for so long.
    #[allow(dead_code, reason = "not every bench watches")]
    pub(crate) fn draw_for(&mut self, length: Duration) {
        let end = Instant::now() + length;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.take(left);
            self.output.clear();
        }
    }

    /// The CPU time of the program so far, of user and system.
    #[allow(dead_code, reason = "not every bench watches")]
    pub(crate) fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.program.id()));
        let stat = stat.expect("the program runs");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = [11, 12].into_iter().filter_map(|at| fields.get(at)?.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// Types keys without looking at what follows.
    pub(crate) fn send(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    #[allow(dead_code, reason = "not every bench times keys")]
    /// Types keys, and waits until the screen has not changed for `quiet`.
    pub(crate) fn press(&mut self, keys: &str, quiet: Duration) -> Pressed {
        self.output.clear();
        let began = Instant::now();
        self.send(keys);
        assert!(self.take(PATIENCE), "nothing follows {keys:?}");
        let mut redraw = began.elapsed();
        while self.take(PIECES) {
            redraw = began.elapsed();
        }
        let mut settled = redraw;
        while self.take(quiet) {
            settled = began.elapsed();
        }
        Pressed { redraw, settled }
    }

    /// The most memory that the program has had, kB.
    pub(crate) fn most_resident_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.program.id()));
        let status = status.expect("the program runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
    }

    /// Ends the program by its key.
    pub(crate) fn quit(mut self) {
        self.send("q");
        while self.take(Duration::from_secs(2)) {}
        let status = self.program.wait().expect("own child");
        assert!(status.success(), "it ended with {status}");
    }
}
