//! The table of the heap as tab-separated values.

use super::function;
use crate::base::failure::Failure;
use crate::base::safe_text;
use crate::report::analysis::Analysis;
use crate::report::heap::table::HeapTable;
use crate::report::options::ReportOptions;
use crate::report::query::selection::Selection;

/// Names of the columns.
pub(in crate::report::print) const COLUMNS: [&str; 9] = [
    "bytes",
    "error_bytes",
    "count",
    "samples",
    "mean_bytes",
    "allocated_bytes",
    "lifetime_ns",
    "function",
    "called_by",
];

/// The cells of each row.
///
/// # Errors
///
/// A usage failure for a bad pattern.
pub(in crate::report::print) fn rows(
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &ReportOptions,
) -> Result<Vec<Vec<String>>, Failure> {
    let names = options.common.names_for_programs();
    let table = HeapTable::new(recording, selection, &options.common, names)?;
    let shown = table.shown(options.limits_for_programs(), selection.base());
    let cells = shown.iter().map(|row| {
        let numbers = [
            row.amount.weight,
            row.error_bytes(),
            row.amount.count(),
            row.amount.samples,
            row.mean_bytes(),
            row.allocated.weight,
        ];
        let mut cells: Vec<String> = numbers.iter().map(u64::to_string).collect();
        // Empty where nothing was freed.
        cells.push(row.lifetime_ns.map_or(String::new(), |lifetime_ns| lifetime_ns.to_string()));
        let names = [function(row), row.place[1].as_deref().unwrap_or_default()];
        cells.extend(names.map(|name| safe_text::tsv(name).into_owned()));
        cells
    });
    Ok(cells.collect())
}
