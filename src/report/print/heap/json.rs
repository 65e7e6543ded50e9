//! The table of the heap as JSON.

use super::function;
use crate::base::failure::Failure;
use crate::base::units::percent;
use crate::report::analysis::Analysis;
use crate::report::heap::table::HeapTable;
use crate::report::options::ReportOptions;
use crate::report::query::selection::Selection;
use serde::Serialize;

/// A row of `prof.report/2` for a place that allocated.
#[derive(Debug, Serialize)]
pub(in crate::report::print) struct HeapRowFields {
    function: String,
    called_by: Option<String>,
    #[serde(rename = "self")]
    own: u64,
    total: u64,
    self_pct: f64,
    samples: u64,
    bytes: u64,
    error_bytes: u64,
    count: u64,
    mean_bytes: u64,
    allocated_bytes: u64,
    lifetime_ns: Option<u64>,
}

/// The rows of the table of the heap.
///
/// # Errors
///
/// A usage failure for a bad pattern.
pub(in crate::report::print) fn heap_rows(
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &ReportOptions,
) -> Result<Vec<HeapRowFields>, Failure> {
    let names = options.common.names_for_programs();
    let table = HeapTable::new(recording, selection, &options.common, names)?;
    let whole = selection.base();
    let shown = table.shown(options.limits_for_programs(), whole);
    let fields = shown.iter().map(|row| HeapRowFields {
        function: function(row).to_owned(),
        called_by: row.place[1].clone(),
        own: row.amount.weight,
        total: row.amount.weight,
        self_pct: percent(row.amount.weight, whole.weight),
        samples: row.amount.samples,
        bytes: row.amount.weight,
        error_bytes: row.error_bytes(),
        count: row.amount.count(),
        mean_bytes: row.mean_bytes(),
        allocated_bytes: row.allocated.weight,
        lifetime_ns: row.lifetime_ns,
    });
    Ok(fields.collect())
}
