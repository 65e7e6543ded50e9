//! What the screen compares with.

use crate::report::{Seen, TimeRange};

/// The base of a comparison; the new side is what the screen shows without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DiffBase {
    /// Another recording, and the name of its file. Foreign text.
    Recording(Seen, String),
    /// A time range of the same recording.
    Range(TimeRange),
}

impl DiffBase {
    /// Short name of the base: the name of a file, or `0.5-1.2 s`. Foreign text.
    pub(crate) fn words(&self) -> String {
        match self {
            DiffBase::Recording(_, file) => crate::report::module_file(file).to_owned(),
            DiffBase::Range(range) => range_words(*range),
        }
    }
}

/// A time range in seconds, with as many digits as its length needs: `0.5-1.2 s`, `0.581-0.602 s`, `from 0.5 s`.
pub(crate) fn range_words(range: TimeRange) -> String {
    /// Least length of the range, in units of the last digit.
    const PARTS: u64 = 5;
    let length_ns = range.to_ns.map_or(u64::MAX, |to_ns| to_ns.saturating_sub(range.from_ns.unwrap_or(0)));
    let digits = [(1, 100_000_000), (3, 1_000_000), (6, 1_000)].into_iter();
    let digits = digits.filter(|(_, unit_ns)| unit_ns * PARTS <= length_ns).map(|(digits, _)| digits);
    let digits = digits.min().unwrap_or(9);
    let seconds = |ns: u64| format!("{:.digits$}", ns as f64 / 1e9);
    match (range.from_ns, range.to_ns) {
        (None, None) => "all".to_owned(),
        (from, Some(to)) => format!("{}-{} s", seconds(from.unwrap_or(0)), seconds(to)),
        (Some(from), None) => format!("from {} s", seconds(from)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_range_has_more_digits() {
        let words = |from_ms: u64, to_ms: u64| {
            let [from_ns, to_ns] = [from_ms, to_ms].map(|ms| Some(ms * 1_000_000));
            range_words(TimeRange { from_ns, to_ns })
        };
        assert_eq!(words(500, 1_200), "0.5-1.2 s");
        assert_eq!(words(581, 602), "0.581-0.602 s");
        assert_eq!(words(581, 583), "0.581000-0.583000 s");
        assert_eq!(range_words(TimeRange { from_ns: Some(500_000_000), to_ns: None }), "from 0.5 s");
        assert_eq!(range_words(TimeRange::default()), "all");
    }
}
