//! Events that a live recording sends to its viewers.

use crate::base::mailbox::{Mail, MailKind};
use crate::profile::{FrameId, Integrity, Profile};
use crate::record::session::cost::CostOf;
use std::path::PathBuf;
use std::time::Duration;

/// Default interval between snapshots.
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// An event of a live recording.
#[derive(Debug)]
pub enum LiveEvent {
    /// Everything known so far.
    Snapshot(Box<Snapshot>),
    /// Progress of the recording, about every second.
    Status(Status),
    /// A notice for the user.
    Notice(String),
    /// The recording has ended. Snapshots may follow if names come late.
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

/// Everything seen so far, ready to be shown. Times count from the start, or from the last clearing.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Number of the snapshot, counted from 1.
    pub number: u64,
    /// Profile so far, with an end record as if the recording ended now.
    pub profile: Profile,
    /// Always complete, because nothing was read from a file.
    pub(crate) integrity: Integrity,
    /// Frames whose names are still being read.
    pub(crate) unnamed: Vec<FrameId>,
    /// Cost of the recording in the last ten seconds.
    pub(crate) cost: CostOf,
}

/// Progress of a live recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Time since the start, or since the last clearing.
    pub(crate) elapsed: Duration,
    /// Samples and waits in this time.
    pub(crate) samples: u64,
    /// Samples lost in this time.
    pub(crate) lost: u64,
    /// Number of threads that were seen running.
    pub(crate) threads: u32,
    /// Sampling rate, Hz.
    pub(crate) hz: u32,
    /// Interval between snapshots.
    pub(crate) interval: Duration,
}

/// End of a live recording.
#[derive(Debug)]
pub struct Ended {
    /// Reason of the end: `target ended`, `command ended`, `stopped`, …
    pub reason: String,
    /// The last snapshot, which includes the waits that were not over, as in `prof record`, unless the recording
    /// failed.
    pub snapshot: Box<Snapshot>,
    /// Exit status of a launched command that has ended, as a shell reports it.
    pub command_status: Option<i32>,
    /// The error, if the recording ended because of one.
    pub failure: Option<String>,
}

/// The shortest and the longest time between two snapshots.
pub(crate) const INTERVALS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// A recording that was saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Path of the file.
    pub path: PathBuf,
    /// Why the file is not where it was meant to be, if so.
    pub(crate) misplaced: Option<String>,
    /// The name under which the previous file was kept.
    pub(crate) kept_old: Option<PathBuf>,
    /// Size of the file, bytes.
    pub(crate) bytes: u64,
    /// Length of the recording in the file.
    pub(crate) duration: Duration,
    /// Samples and waits in the file; merged ones count with their original number.
    pub samples: u64,
}
