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
    /// From what shows it.
    Ask(LiveRequest),
    /// The recorder has ended.
    Ended(Box<RecorderEnd>),
}

/// What can be asked for.
#[derive(Debug)]
pub(super) enum LiveRequest {
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
    pub(crate) reason: String,
    pub(crate) news: Option<Box<Delta>>,
    pub(crate) command_status: Option<i32>,
    pub(crate) command_signal: Option<i32>,
    pub(crate) failure: Option<anyhow::Error>,
}
