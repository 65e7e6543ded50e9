//! What a recording that is watched sends to those who watch it.

use crate::base::mailbox::{Mail, MailKind};
use crate::profile::{FrameId, Integrity, Profile};
use crate::record::session::cost::CostOf;
use std::path::PathBuf;
use std::time::Duration;

/// How often a snapshot is made when nothing else is asked for.
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// What a live recording tells.
#[derive(Debug)]
pub enum LiveEvent {
    /// What is known so far.
    Snapshot(Box<Snapshot>),
    /// How it goes, about every second.
    Status(Status),
    /// Something that the user should know.
    Notice(String),
    /// The recording has ended. Snapshots may follow when names come late.
    Ended(Ended),
}

impl Mail for LiveEvent {
    fn kind(&self) -> MailKind {
        let (rank, most) = match self {
            LiveEvent::Notice(_) => (0, 100),
            LiveEvent::Status(_) => (1, 1),
            LiveEvent::Snapshot(_) => (2, 1),
            LiveEvent::Ended(_) => (3, 1),
        };
        MailKind { rank, most }
    }
}

/// Everything that was seen so far, ready to be shown. Times count from the start, or from when it was cleared.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Counts snapshots, from 1.
    pub number: u64,
    /// What was recorded, with an end record as if it ended now.
    pub profile: Profile,
    /// Nothing is missing.
    pub(crate) integrity: Integrity,
    /// Frames whose names are still being read.
    pub(crate) unnamed: Vec<FrameId>,
    /// What it cost in the last ten seconds.
    pub(crate) cost: CostOf,
}

/// How a live recording goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Time since the start, or since it was cleared.
    pub(crate) elapsed: Duration,
    /// Samples and waits in this time.
    pub(crate) samples: u64,
    /// Samples lost in this time.
    pub(crate) lost: u64,
    /// Threads that were seen running.
    pub(crate) threads: u32,
    /// Sampling rate, Hz.
    pub(crate) hz: u32,
    /// How often a snapshot is made.
    pub(crate) interval: Duration,
}

/// How a live recording ended.
#[derive(Debug)]
pub struct Ended {
    /// Why: `target ended`, `command ended`, `stopped`, …
    pub reason: String,
    /// The last picture: with the waits that were not over, as `prof record` has them, unless the recording failed.
    pub snapshot: Box<Snapshot>,
    /// Exit status of a launched command that has ended, as a shell has it.
    pub command_status: Option<i32>,
    /// What went wrong, if that is why.
    pub failure: Option<String>,
}

/// The shortest and the longest time between two snapshots.
pub(crate) const INTERVALS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// What was saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Where it is.
    pub path: PathBuf,
    /// Why it is not where it was meant to be.
    pub(crate) misplaced: Option<String>,
    /// The name under which the file before it was kept.
    pub(crate) kept_old: Option<PathBuf>,
    /// Its size, bytes.
    pub(crate) bytes: u64,
    /// Length of what it holds.
    pub(crate) duration: Duration,
    /// Samples and waits in it; merged ones count as many as they were.
    pub samples: u64,
}
