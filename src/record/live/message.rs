//! What the keeper receives.

use crate::profile::Profile;
use crate::record::live::archive::Downsampling;
use crate::record::live::delta::Delta;
use crate::record::names::lookup::Answer;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// What reaches the keeper.
#[derive(Debug)]
pub(super) enum Message {
    /// From the recorder.
    Delta(Box<Delta>),
    /// Names that were looked up.
    Named(Answer),
    /// The past, in less detail.
    Downsampled(Box<Downsampling>),
    /// From whoever shows it.
    Ask(Request),
    /// The recorder has ended.
    Ended(Box<RecorderEnd>),
}

/// What can be asked for.
#[derive(Debug)]
pub(super) enum Request {
    /// Forget what was seen.
    Clear,
    /// Make pictures this often.
    Interval(Duration),
    /// What was seen of a snapshot, with the names that were still missing, to be saved.
    Complete(Box<Profile>, Sender<Box<Profile>>),
    /// End.
    Quit,
}

/// How the recorder ended.
#[derive(Debug)]
pub(super) struct RecorderEnd {
    pub reason: String,
    pub news: Option<Box<Delta>>,
    pub command_status: Option<i32>,
    pub command_signal: Option<i32>,
    pub failure: Option<anyhow::Error>,
}
