//! The tables of locks as text, JSON and tab-separated values.

pub(super) mod json;
pub(super) mod text;
pub(super) mod tsv;

use crate::report::grouping::Grouping;

/// Name of what rows are.
fn noun(by: Grouping) -> &'static str {
    if by.is_of_locks() { by.noun() } else { "lock" }
}
