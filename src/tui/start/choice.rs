//! What can be chosen, and what was.

use std::path::PathBuf;
use std::time::Duration;

/// A process that can be chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProcessRow {
    /// Its number.
    pub(crate) pid: u32,
    /// What it uses of one CPU, percent; `None` while that is not known.
    pub(crate) cpu_percent: Option<f64>,
    /// How many threads it has.
    pub(crate) threads: u64,
    /// Its command line. Any characters.
    pub(crate) command: String,
}

/// A recording that can be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastRecording {
    /// The file.
    pub(crate) path: PathBuf,
    /// How long ago it was written; `None` if the clock was set back since.
    pub(crate) age: Option<Duration>,
    /// Its size, bytes.
    pub(crate) bytes: u64,
}

/// What was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// A process, to be watched live.
    Watch(u32),
    /// A process, to be recorded.
    Record(u32),
    /// The whole machine, to be watched live.
    WatchAll,
    /// The last recording, to be opened.
    Open,
    /// Nothing.
    Leave,
    /// Nothing: this signal ends the program.
    Signal(i32),
}
