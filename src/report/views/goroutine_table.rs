//! The table of goroutines: one row for each state and place in the program, with how many there were and for how long.

use crate::base::units::percent;
use crate::report::model::amount::Amount;
use crate::report::model::label::{LabelId, Step};
use crate::report::query::selection::Selection;
use crate::report::row_limits::RowLimits;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Goroutines in one state at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GoroutineRow {
    /// Their state, or what they wait for.
    pub(crate) state: LabelId,
    /// Innermost function that is the program's own, and the next one.
    pub(crate) function: Option<LabelId>,
    pub(crate) called_by: Option<LabelId>,
    /// The time that they were there, and how many were found.
    pub(crate) amount: Amount,
}

/// All goroutines of a selection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GoroutineTable {
    /// The rows, largest first.
    pub(crate) rows: Vec<GoroutineRow>,
}

/// First parts of the names of Go's own packages.
const GO_PACKAGES: [&str; 48] = [
    "archive",
    "bufio",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
    "vendor",
    "weak",
];

/// Outermost function of every goroutine.
const OUTERMOST: &str = "runtime.goexit";

/// Whether a function is one of Go's own packages. Names of others' packages begin with a domain, or are the program's.
fn is_of_go(name: &str) -> bool {
    // A dot before the first slash is that of a domain.
    let package = name.split_once('/').map_or_else(|| name.split('.').next(), |(first, _)| Some(first));
    package.is_some_and(|package| GO_PACKAGES.contains(&package))
}

/// The innermost function that is none of Go's own, and the next one; where there is none, the goroutine's first function.
fn place_of(selection: &Selection<'_>, path: &[Step]) -> (Option<LabelId>, Option<LabelId>) {
    let is_code = |label: &LabelId| selection.labels.get(*label).kind.is_user_code();
    let name = |label: LabelId| selection.labels.get(label).name.as_str();
    let steps = || path.iter().map(|step| step.label).filter(is_code);
    let mut own = steps().rev().filter(|label| !is_of_go(name(*label)));
    let function = own.next();
    let called_by = own.find(|label| Some(*label) != function);
    (function.or_else(|| steps().find(|label| name(*label) != OUTERMOST)), called_by)
}

impl GoroutineTable {
    pub(crate) fn new(selection: &Selection<'_>) -> Self {
        let mut sums: FxHashMap<(LabelId, Option<LabelId>, Option<LabelId>), Amount> = FxHashMap::default();
        selection.for_each_path(|path, groups| {
            // The state stands before the leaf.
            let Some((state, path)) = path.split_last() else { return };
            let (function, called_by) = place_of(selection, path);
            sums.entry((state.label, function, called_by)).or_default().add(groups.amount);
        });
        let row =
            |((state, function, called_by), amount)| GoroutineRow { state, function, called_by, amount };
        let mut rows: Vec<GoroutineRow> = sums.into_iter().map(row).collect();
        let name = |label: Option<LabelId>| label.map_or("", |label| &selection.labels.get(label).name);
        rows.sort_by_key(|row| {
            let names = [Some(row.state), row.function, row.called_by].map(name);
            (Reverse(row.amount.weight), names, row.function, row.called_by)
        });
        GoroutineTable { rows }
    }

    /// Without the rows that a report with these limits leaves out, by their shares of `whole`.
    pub(crate) fn shown(&self, limits: RowLimits, whole: Amount) -> &[GoroutineRow] {
        limits.of(&self.rows, |row| percent(row.amount.weight, whole.weight))
    }
}

impl GoroutineRow {
    /// Mean number of goroutines that were there, in thousandths. `None` for a recording of unknown length.
    pub(crate) fn mean_thousandths(&self, selection: &Selection<'_>) -> Option<u64> {
        let duration_ns = selection.profile.known_duration_ns().filter(|duration_ns| *duration_ns > 0)?;
        let half_ns = u128::from(duration_ns / 2);
        Some(((u128::from(self.amount.weight) * 1000 + half_ns) / u128::from(duration_ns)) as u64)
    }

    /// State in words, without what tells it from functions. Foreign text.
    pub(crate) fn state_text<'s>(&self, selection: &'s Selection<'_>) -> &'s str {
        selection.labels.get(self.state).name.trim_start_matches('[').trim_end_matches(']')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_go_are_told_by_the_first_part_of_their_names() {
        for name in ["runtime.gopark", "time.Sleep", "internal/poll.(*FD).Read", "net/http.(*conn).serve"] {
            assert!(is_of_go(name), "{name}");
        }
        for name in ["main.nap", "github.com/a/time.Wait", "timer.Wait", "go.uber.org/zap.New"] {
            assert!(!is_of_go(name), "{name}");
        }
    }
}
