//! The tables of locks as text, JSON and tab-separated values.

pub(super) mod json;
pub(super) mod text;
pub(super) mod tsv;

use crate::report::grouping::Grouping;
use crate::report::locks::table::{LockRow, LockRowKey};
use crate::report::naming::name;
use crate::report::naming::style::NameStyle;
use crate::report::query::selection::Selection;

/// Name of the lock of a row, in this style. Foreign text.
fn lock_name(row: &LockRow, style: NameStyle) -> String {
    let text = row.name.text(row.lock.address);
    match row.name.variable {
        Some(_) => name::in_style(&text, style).into_owned(),
        None => text,
    }
}

/// Functions that a row is about, innermost first, in this style; of rows of locks none. Foreign text.
fn functions(selection: &Selection<'_>, row: &LockRow, style: NameStyle) -> [Option<String>; 2] {
    match &row.key {
        LockRowKey::Lock(_) => [None, None],
        LockRowKey::Waiter(site) => site
            .labels()
            .map(|label| label.map(|label| selection.labels.get(label).name_in(style).to_owned())),
        LockRowKey::Releaser(releaser, _) => [Some(releaser.name_in(style)), releaser.caller_in(style)],
    }
}

/// What those are called who end the waits of a row.
fn role(row: &LockRow) -> &'static str {
    match row.key {
        LockRowKey::Releaser(_, is_held) => {
            if is_held {
                "holder"
            } else {
                "signaller"
            }
        }
        _ => row.kind.role(),
    }
}

/// Name of what rows are.
fn noun(by: Grouping) -> &'static str {
    if by.is_of_locks() { by.noun() } else { "lock" }
}
