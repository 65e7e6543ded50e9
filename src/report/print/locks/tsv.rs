//! The tables of locks as tab-separated values.

use crate::base::safe_text;
use crate::report::grouping::Grouping;
use crate::report::locks::table::LockTable;
use crate::report::options::ReportOptions;
use crate::report::query::selection::Selection;

/// Names of the columns.
pub(in crate::report::print) const COLUMNS: [&str; 17] = [
    "wait_ns",
    "error_ns",
    "count",
    "samples",
    "mean_ns",
    "p99_ns",
    "longest_ns",
    "threads",
    "kind",
    "role",
    "function",
    "called_by",
    "lock",
    "address",
    "pid",
    "waiter",
    "released_by",
];

/// The cells of each row.
pub(in crate::report::print) fn rows(
    selection: &Selection<'_>,
    options: &ReportOptions,
    by: Grouping,
) -> Vec<Vec<String>> {
    let table = LockTable::new(selection, by);
    let names = options.common.names_for_programs();
    let safe = |text: &str| safe_text::tsv(text).into_owned();
    let shown = table.shown(options.limits_for_programs(), selection.base());
    let cells = shown.iter().map(|row| {
        let [function, called_by] = row.functions(&selection.labels, names);
        let waiter = row.waiters.first().and_then(|(site, _)| site.labels()[0]);
        let mut cells: Vec<String> = [
            row.amount.weight,
            row.amount.error_ns(),
            row.amount.count(),
            row.amount.samples,
            row.mean_ns,
            row.p99_ns,
            row.longest_ns,
            row.threads,
        ]
        .map(|number| number.to_string())
        .to_vec();
        cells.extend([row.kind.word().to_owned(), row.role().to_owned()]);
        cells.extend([function, called_by].map(|name| safe(&name.unwrap_or_default())));
        cells.push(safe(&row.lock_name(names)));
        cells.push(row.lock.address.map_or(String::new(), |address| format!("{address:#x}")));
        cells.push(row.lock.pid.map_or(String::new(), |pid| pid.to_string()));
        cells.push(safe(waiter.map_or("", |label| selection.labels.get(label).name_in(names))));
        cells.push(safe(&row.releasers.first().map_or(String::new(), |(one, _)| one.name_in(names))));
        cells
    });
    cells.collect()
}
