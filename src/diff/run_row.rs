//! Rows, sums and facts that one recording is reduced to.

use super::row_label::RowLabel;
use super::statistics::wait_lengths::WaitLengths;
use crate::profile::{Outcome, StackId, TaskId};
use crate::report::{Activity, Amount};

/// What makes samples equal.
pub(crate) type SampleSort = (TaskId, Option<StackId>, Outcome, Activity);

/// A sum of weights.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunSum {
    /// In the event's unit.
    pub(crate) weight: f64,
    /// How many samples or waits it is weighted as.
    pub(crate) count: f64,
    /// The lengths of the waits among them.
    pub(crate) lengths: Option<Box<WaitLengths>>,
}

impl RunSum {
    pub(crate) fn add(&mut self, amount: Amount, lengths: Option<&WaitLengths>) {
        self.weight += amount.weight as f64;
        self.count += amount.count_thousandths as f64 / 1e3;
        if let Some(lengths) = lengths {
            self.lengths.get_or_insert_default().merge(lengths);
        }
    }
}

/// A row of one recording.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunRow {
    /// What it is called.
    pub(crate) label: RowLabel,
    /// Samples that end in it.
    pub(crate) own: RunSum,
    /// Samples that have it on their stack.
    pub(crate) total: RunSum,
}

/// A call path of one recording: what ends there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RunPath {
    /// The path that it goes on from; it comes before this one.
    pub(crate) parent: Option<u32>,
    /// Number of its row.
    pub(crate) row: u32,
    /// Weight of the samples that end here.
    pub(crate) own: f64,
}

/// Facts about a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunFacts {
    /// Name of the file. Foreign text.
    pub(crate) file: String,
    /// What was recorded. Foreign text.
    pub(crate) target: String,
    /// Length of the recording, or of the part of it that was asked for, ns.
    pub(crate) duration_ns: u64,
    /// Sampling rate, Hz; 0 where there is none.
    pub(crate) rate_hz: u32,
    /// It is of a command that ended by itself.
    pub(crate) is_whole_command: bool,
    /// Exit status of that, if it is not 0.
    pub(crate) failed_with: Option<i32>,
    /// Samples that were lost.
    pub(crate) lost: u64,
    /// The file is whole.
    pub(crate) is_whole_file: bool,
}
