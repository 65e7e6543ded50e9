//! Messages to the keeper.

use crate::profile::Profile;
use crate::record::live::archive::Downsampling;
use crate::record::live::delta::Delta;
use crate::record::names::lookup::Answer;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// A message to the keeper.
#[derive(Debug)]
pub(super) enum Message {
    /// An update of the recorder.
    Delta(Box<Delta>),
    /// The result of a lookup of names.
    Named(Answer),
    /// The past, merged.
    Downsampled(Box<Downsampling>),
    /// A request of the viewer.
    Ask(LiveRequest),
    /// The recorder has ended.
    Ended(Box<RecorderEnd>),
}

/// A request to the keeper.
#[derive(Debug)]
pub(super) enum LiveRequest {
    /// Forget everything seen so far.
    Clear,
    /// Make snapshots at this interval.
    Interval(Duration),
    /// Complete the profile of a snapshot with the names that were still missing, to be saved.
    Complete(Box<Profile>, Sender<Box<Profile>>),
    /// End the recording.
    Quit,
}

/// End of the recorder.
#[derive(Debug)]
pub(super) struct RecorderEnd {
    pub(crate) reason: String,
    pub(crate) last_delta: Option<Box<Delta>>,
    pub(crate) command_status: Option<i32>,
    pub(crate) command_signal: Option<i32>,
    pub(crate) failure: Option<anyhow::Error>,
}
