//! The part of `prof.report/2` that is about goroutines.

use crate::base::units::percent;
use crate::profile::counter;
use crate::report::model::label::LabelId;
use crate::report::options::ReportOptions;
use crate::report::query::selection::Selection;
use crate::report::views::goroutine_table::{GoroutineRow, GoroutineTable};
use serde::Serialize;

/// A row of the table of goroutines. The fields that rows of functions have, too, mean what they mean there.
#[derive(Debug, Serialize)]
pub(crate) struct GoroutineRowFields {
    function: String,
    module: String,
    #[serde(rename = "self")]
    own: u64,
    total: u64,
    samples: u64,
    self_pct: f64,
    self_error_pct: f64,
    state: String,
    /// Mean number of goroutines; `null` if the length of the recording is not known.
    goroutines: Option<f64>,
    error_ns: u64,
    called_by: Option<String>,
}

/// Snapshots that rows of goroutines are from.
#[derive(Debug, Serialize)]
pub(super) struct SnapshotFields {
    snapshots: u64,
    missed: u64,
    goroutines_read: u64,
    goroutines_skipped: u64,
    goroutines_torn: u64,
    goroutines_unreadable: u64,
}

impl SnapshotFields {
    pub(super) fn of(selection: &Selection<'_>) -> Self {
        let number = |name| selection.profile.counter(name);
        SnapshotFields {
            snapshots: number(counter::GOROUTINE_SNAPSHOTS),
            missed: number(counter::GOROUTINE_SNAPSHOTS_MISSED),
            goroutines_read: number(counter::GOROUTINES_READ),
            goroutines_skipped: number(counter::GOROUTINES_SKIPPED),
            goroutines_torn: number(counter::GOROUTINES_CHANGED),
            goroutines_unreadable: number(counter::GOROUTINES_UNREADABLE),
        }
    }
}

/// The rows of the table of goroutines.
pub(super) fn goroutine_rows(selection: &Selection<'_>, options: &ReportOptions) -> Vec<GoroutineRowFields> {
    let table = GoroutineTable::new(selection);
    let names = options.common.names_for_programs();
    let name = |label: LabelId| selection.labels.get(label).name_in(names).to_owned();
    let whole = selection.base();
    let fields = |row: &GoroutineRow| GoroutineRowFields {
        function: row.function.map_or(String::new(), name),
        module: row.function.map_or(String::new(), |label| selection.labels.get(label).module.clone()),
        own: row.amount.weight,
        total: row.amount.weight,
        samples: row.amount.samples,
        self_pct: percent(row.amount.weight, whole.weight),
        self_error_pct: selection.error_points(row.amount),
        state: row.state_text(selection).to_owned(),
        goroutines: row.mean_thousandths(selection).map(|mean| mean as f64 / 1000.0),
        error_ns: row.amount.error_ns(),
        called_by: row.called_by.map(name),
    };
    table.shown(options.limits_for_programs(), whole).iter().map(fields).collect()
}
