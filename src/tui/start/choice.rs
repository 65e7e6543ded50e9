//! What can be chosen in the list of processes, and the choice.

use std::path::PathBuf;
use std::time::Duration;

/// A process in the list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProcessRow {
    /// Process id.
    pub(crate) pid: u32,
    /// CPU usage, percent of one CPU; `None` until there are two scans.
    pub(crate) cpu_percent: Option<f64>,
    /// Number of threads.
    pub(crate) threads: u64,
    /// Command line. May hold any characters.
    pub(crate) command: String,
}

/// The last recording, which can be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastRecording {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Time since it was written; `None` if the clock was set back since.
    pub(crate) age: Option<Duration>,
    /// File size, bytes.
    pub(crate) bytes: u64,
}

/// The user's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Watch a process live.
    Watch(u32),
    /// Record a process.
    Record(u32),
    /// Watch the whole machine live.
    WatchAll,
    /// Open the last recording.
    Open,
    /// Leave without a choice.
    Leave,
    /// Leave because of this signal, which ends the program.
    Signal(i32),
}
