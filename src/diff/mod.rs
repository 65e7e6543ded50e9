//! Comparing recordings: which functions changed between two sides, by how much, and whether that is more than chance.
//!
//! A recording is read, reduced to [`sums`] and dropped; a side is a set of such runs. [`comparison`] compares
//! the two sides and tests the differences with `statistics`; `gate` judges the result by `--fail-on`; `print` shows
//! it. Nothing here depends on how recordings are made; `commands::bench` makes some and compares them.

mod comparison;
mod difference;
mod gate;
mod load;
mod measure;
mod options;
mod pair;
mod per;
mod print;
mod row_label;
mod side;
mod statistics;
mod sums;
#[cfg(test)]
pub(crate) mod tests;
mod tree;

pub(crate) use comparison::{Comparison, DiffRow};
pub(crate) use difference::{Difference, TESTED_SHARE, costs_to_name};
pub(crate) use gate::rule::GateRule;
pub(crate) use load::{compare_files, with_files};
pub(crate) use options::{DiffFormat, DiffOptions, DiffSort, DiffView, GateOptions, Sides};
pub(crate) use pair::{PairSide, PartSums, compare, compare_parts, render};
pub(crate) use per::Per;
pub(crate) use print::change_words::{change_words, interval_words};
pub(crate) use print::header::notes;
pub(crate) use print::output::PrintedDiff;
pub(crate) use print::tones::Tone;
pub(crate) use print::values::{ValueStyle, words};
pub(crate) use row_label::{DiffRowKey, RowLabel};
pub(crate) use side::RowValue;
pub(crate) use sums::path_finder::{KnownPaths, NO_PART, PathFinder};
