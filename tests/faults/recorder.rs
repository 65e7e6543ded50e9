//! Recorders to which something happens, and the files that they leave.

use crate::fault::Outcome;
use crate::harness::profiler::binary;
use crate::leftovers::{MARK, mark};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest time that a recorder may take to end, however busy the machine is.
const HANGS_AFTER: Duration = Duration::from_secs(240);

/// Rust's exit status of a panic.
const PANIC: i32 = 101;

/// `prof ARGUMENTS…`, marked as of this run.
pub(crate) fn prof(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments);
    marked(&mut command);
    command
}

/// Marks a command that runs `prof` in the end.
pub(crate) fn marked(command: &mut Command) {
    command.env(MARK, mark()).env("PROF_NO_CACHE", "1").stdin(Stdio::null());
}

/// A recorder that runs, with a folder of its own for its file.
pub(crate) struct Recorder {
    child: Child,
    pub(crate) folder: TempDir,
}

/// One that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
    pub(crate) folder: TempDir,
}

impl Recorder {
    /// `prof record ARGUMENTS… -o FILE`.
    pub(crate) fn start(arguments: &[&str]) -> Recorder {
        let mut command = prof(&["record", "-f"]);
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        command.arg("-o").arg(folder.path().join("prof.data")).args(arguments);
        Recorder::spawn(command, folder)
    }

    /// A command that writes `prof.data` in `folder`, its messages into a file next to it.
    pub(crate) fn spawn(mut command: Command, folder: TempDir) -> Recorder {
        let said = fs::File::create(folder.path().join("said")).expect("own folder");
        command.stdout(Stdio::null()).stderr(said);
        Recorder { child: command.spawn().expect("prof can be run"), folder }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended.
        let _ = kill_process(self.pid(), signal);
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        said(self.folder.path())
    }

    /// Waits until it says that it records, or has ended.
    pub(crate) fn wait_until_it_records(&mut self) {
        self.wait_until_it_says("recording ");
    }

    /// Waits until it says so, or has ended; whether it has said it.
    pub(crate) fn wait_until_it_says(&mut self, words: &str) -> bool {
        let deadline = Instant::now() + HANGS_AFTER;
        while !self.said().contains(words)
            && self.child.try_wait().is_ok_and(|end| end.is_none())
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.said().contains(words)
    }

    /// Waits for its end; one that hangs is killed, and the row fails.
    pub(crate) fn end(self, outcome: &mut Outcome) -> Ended {
        self.end_within(Duration::ZERO, outcome)
    }

    /// The same for one that records for so long.
    pub(crate) fn end_within(mut self, length: Duration, outcome: &mut Outcome) -> Ended {
        let deadline = Instant::now() + length + HANGS_AFTER;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("own child") {
                break status;
            }
            if Instant::now() > deadline {
                outcome.problems.push(format!("prof hangs, and said `{}`", self.said().trim()));
                self.signal(Signal::KILL);
                break self.child.wait().expect("own child");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let said = said(self.folder.path());
        let panicked = status.code() == Some(PANIC) || said.contains("panicked");
        outcome.expect(!panicked, || format!("prof panics: `{}`", said.trim()));
        Ended { status, said, folder: self.folder }
    }
}

fn said(folder: &Path) -> String {
    fs::read_to_string(folder.join("said")).unwrap_or_default()
}

/// What a file is.
#[derive(Debug)]
pub(crate) enum Kept {
    /// There is none.
    Absent,
    /// What `prof info --json` says of it.
    Readable(Box<Value>),
    /// It cannot be read, and why.
    Unreadable(String),
}

impl Ended {
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("prof.data")
    }

    /// Counts the recording: its file is readable and accounts for all samples; or there is none, and a message says why.
    pub(crate) fn count(&self, outcome: &mut Outcome) -> Option<Value> {
        outcome.recordings += 1;
        match kept(&self.file()) {
            Kept::Readable(facts) => {
                outcome.readable += 1;
                outcome.unaccounted += unaccounted(&facts);
                Some(*facts)
            }
            Kept::Absent if !self.status.success() && !self.said.trim().is_empty() => {
                outcome.readable += 1;
                None
            }
            Kept::Absent => {
                outcome.problems.push(format!("no file, {}, said `{}`", self.status, self.said.trim()));
                None
            }
            Kept::Unreadable(why) => {
                outcome.problems.push(why);
                None
            }
        }
    }

    /// As [`Ended::count`], of one that was killed: it could say nothing.
    pub(crate) fn count_killed(&self, outcome: &mut Outcome) -> Option<Value> {
        if matches!(kept(&self.file()), Kept::Absent) {
            outcome.recordings += 1;
            outcome.readable += 1;
            return None;
        }
        self.count(outcome)
    }
}

/// Looks at a file by `prof info` and `prof report`.
pub(crate) fn kept(file: &Path) -> Kept {
    if !file.exists() {
        return Kept::Absent;
    }
    let path = file.to_str().expect("a temporary path is text");
    let output = prof(&["info", "--json", path]).output().expect("prof can be run");
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Kept::Unreadable(format!("`prof info` ends with {}: {}", output.status, said.trim()));
    }
    let Ok(facts) = serde_json::from_slice(&output.stdout) else {
        return Kept::Unreadable("`prof info --json` prints no JSON".to_owned());
    };
    // Of a file without samples it says so, and ends with 3.
    let report = prof(&["report", path]).output().expect("prof can be run");
    match report.status.code() {
        Some(0 | 3) => Kept::Readable(Box::new(facts)),
        _ => Kept::Unreadable(format!("`prof report` ends with {}", report.status)),
    }
}

/// A counter of `prof info --json`; 0 if it is not there.
pub(crate) fn counter(facts: &Value, name: &str) -> u64 {
    facts["counters"][name].as_u64().unwrap_or(0)
}

/// Samples that are not waits.
pub(crate) fn samples(facts: &Value) -> u64 {
    let events = facts["events"].as_array().map_or(&[][..], Vec::as_slice);
    let sampled = events.iter().filter(|event| event["event"] != "off-cpu");
    sampled.filter_map(|event| event["samples"].as_u64()).sum()
}

/// Hits of the kernel side that are not filtered, idle, lost or sent, and what was sent and is neither written nor lost. A
/// recorder that was killed writes no counters at the end: then there is nothing to compare.
pub(crate) fn unaccounted(facts: &Value) -> u64 {
    let of = |name: &str| counter(facts, name);
    let hits = of("kernel_hits");
    if hits == 0 {
        return 0;
    }
    let lost = of("lost_ring_full") + of("lost_counts");
    let accounted = of("kernel_filtered") + of("kernel_idle") + of("kernel_sent") + lost;
    let written = samples(facts) + of("lost_bad_record");
    hits.abs_diff(accounted) + of("kernel_sent").abs_diff(written)
}
