//! Rows, sums and facts of one recording.

use crate::diff::row_label::RowLabel;
use crate::diff::statistics::wait_lengths::WaitLengths;
use crate::profile::{Outcome, StackId, TaskId};
use crate::report::{Activity, Amount};

/// Identity of samples that count as the same.
pub(crate) type SampleSort = (TaskId, Option<StackId>, Outcome, Activity);

/// A sum of weights.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunSum {
    /// Weight, in the event's unit.
    pub(crate) weight: f64,
    /// Number of samples or waits it is weighted as.
    pub(crate) count: f64,
    /// Variance of the weight by sampling alone, as far as it is known of each sample, in squares of the unit.
    pub(crate) variance: f64,
    /// Lengths of the waits in the sum.
    pub(crate) lengths: Option<Box<WaitLengths>>,
}

impl RunSum {
    pub(crate) fn add(&mut self, amount: Amount, lengths: Option<&WaitLengths>) {
        self.weight += amount.weight as f64;
        self.count += amount.count_thousandths as f64 / 1e3;
        self.variance += amount.variance_us2 as f64 * 1e6;
        if let Some(lengths) = lengths {
            self.lengths.get_or_insert_default().merge(lengths);
        }
    }
}

/// A row of one recording.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunRow {
    /// Label of the row.
    pub(crate) label: RowLabel,
    /// Samples that end in the row.
    pub(crate) own: RunSum,
    /// Samples with the row on their stack.
    pub(crate) total: RunSum,
}

/// A call path of one recording, with its self weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RunPath {
    /// Index of the path without its last step; it comes earlier.
    pub(crate) parent: Option<u32>,
    /// Row of the last step.
    pub(crate) row: u32,
    /// Weight of the samples that end here.
    pub(crate) own: f64,
}

/// Facts about a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunFacts {
    /// Path of the file. Foreign text.
    pub(crate) file: String,
    /// From when to when this is, where the user is, of a part of a file or folder by the clock.
    pub(crate) clock_span: Option<String>,
    /// Description of what was recorded. Foreign text.
    pub(crate) target: String,
    /// Length of the recording, or of the selected time range, ns.
    pub(crate) duration_ns: u64,
    /// Sampling rate, Hz; 0 if there is none.
    pub(crate) rate_hz: u32,
    /// Whether the recording is of a command that ended by itself, and includes all of it.
    pub(crate) is_whole_command: bool,
    /// Exit status of the command, if nonzero.
    pub(crate) failed_with: Option<i32>,
    /// Number of lost samples.
    pub(crate) lost: u64,
    /// Whether the file is complete.
    pub(crate) is_whole_file: bool,
}
