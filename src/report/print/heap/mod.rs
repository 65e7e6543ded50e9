//! The table of the heap as text, JSON and tab-separated values.

pub(super) mod json;
pub(super) mod text;
pub(super) mod tsv;

use crate::report::heap::table::HeapRow;

/// The function of a row. Foreign text.
fn function(row: &HeapRow) -> &str {
    row.place[0].as_deref().unwrap_or("[no stack]")
}
