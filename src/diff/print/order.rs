//! The rows that are shown, and their order.

use crate::diff::comparison::{Comparison, DiffRow};
use crate::diff::options::{DiffOptions, DiffSort};
use crate::diff::side::RowValue;

/// The value that a table with this sort key shows.
pub(super) fn value_of(sort: DiffSort) -> RowValue {
    if sort == DiffSort::Total { RowValue::Total } else { RowValue::Own }
}

/// The rows with a nonzero value (with `has_both`, or a nonzero total), those that changed first.
pub(super) fn ordered<'c>(
    comparison: &'c Comparison,
    options: &DiffOptions,
    has_both: bool,
) -> Vec<&'c DiffRow> {
    let value = value_of(options.sort);
    let least = options.min_percent.unwrap_or(0.0) / 100.0;
    let has_some = |row: &&DiffRow| {
        let has = |value| row.value(value).base > 0.0 || row.value(value).new > 0.0;
        has(value) || (has_both && has(RowValue::Total))
    };
    let is_large = |row: &&DiffRow| {
        let share = comparison.share(row, value);
        share.max(if has_both { comparison.share(row, RowValue::Total) } else { 0.0 }) >= least
    };
    let mut rows: Vec<&DiffRow> = comparison.rows.iter().filter(has_some).filter(is_large).collect();
    rows.sort_by(|a, b| {
        let keys = [a, b].map(|row| key(row, value, options.sort));
        let [a_first, b_first] = keys.map(|key| key.0);
        let [a_size, b_size] = keys.map(|key| key.1);
        let name = |row: &DiffRow| &comparison.label(row).key;
        b_first.cmp(&a_first).then(b_size.total_cmp(&a_size)).then_with(|| name(a).cmp(name(b)))
    });
    rows
}

/// Sort key of a row, largest first: whether the difference is more than chance, and its size.
fn key(row: &DiffRow, value: RowValue, sort: DiffSort) -> (bool, f64) {
    let difference = row.value(value);
    let size = match sort {
        DiffSort::Own | DiffSort::Total => return difference.rank(),
        // New and gone rows changed most.
        DiffSort::Change => difference.ratio().map_or(f64::INFINITY, |ratio| ratio.ln().abs()),
        DiffSort::P => -difference.p_adjusted.unwrap_or(2.0),
    };
    (difference.outcome.is_real(), size)
}
