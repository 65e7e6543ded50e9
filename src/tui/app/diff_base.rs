//! What the screen compares with.

use super::action::Seen;
use crate::report::TimeRange;

/// The base of a comparison; the new side is what the screen shows without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DiffBase {
    /// Another recording, and the name of its file. Foreign text.
    Recording(Seen, String),
    /// A time range of the same recording.
    Range(TimeRange),
}

impl DiffBase {
    /// What the base is, in a few words: the name of a file, or `0.5-1.2 s`. Foreign text.
    pub(crate) fn words(&self) -> String {
        match self {
            DiffBase::Recording(_, file) => crate::report::module_file(file).to_owned(),
            DiffBase::Range(range) => range_words(*range),
        }
    }
}

/// A time range in seconds: `0.5-1.2 s`, `from 0.5 s`.
pub(crate) fn range_words(range: TimeRange) -> String {
    let seconds = |ns: u64| format!("{:.1}", ns as f64 / 1e9);
    match (range.from_ns, range.to_ns) {
        (None, None) => "all".to_owned(),
        (from, Some(to)) => format!("{}-{} s", seconds(from.unwrap_or(0)), seconds(to)),
        (Some(from), None) => format!("from {} s", seconds(from)),
    }
}
