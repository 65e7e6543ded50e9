//! Rows that the caller has numbered alike on both sides: boxes of a tree, paths, lines of a function.

use super::rows::{NO_ROW, Rows};
use super::run_row::{RunRow, RunSum};
use crate::diff::row_label::RowLabel;
use crate::diff::statistics::wait_lengths::WaitLengths;
use crate::report::{Group, Step};
use rustc_hash::FxHashMap;

/// The rows of parts, in the order of their first samples. What is in no part is in no row.
pub(super) struct PartRows<P> {
    parts: P,
    /// Whether the parts of a path depend on the thread.
    has_threads: bool,
    rows: Vec<RunRow>,
    row_of: FxHashMap<u64, u32>,
    /// The rows of the latest group are those of the path.
    is_known: bool,
    numbers: Vec<u64>,
    of_last: Vec<u32>,
}

impl<P: FnMut(&[Step], &Group, &mut Vec<u64>)> PartRows<P> {
    /// `parts` fills a list with the numbers of the parts that samples are in, each once; they end in the last of them. Unless
    /// `has_threads`, all groups of a path are in the same parts.
    pub(super) fn new(has_threads: bool, parts: P) -> Self {
        PartRows {
            parts,
            has_threads,
            rows: Vec::new(),
            row_of: FxHashMap::default(),
            is_known: false,
            numbers: Vec::new(),
            of_last: Vec::new(),
        }
    }

    pub(super) fn into_rows(self) -> Vec<RunRow> {
        self.rows
    }

    fn find(&mut self, path: &[Step], group: &Group) {
        self.numbers.clear();
        self.of_last.clear();
        (self.parts)(path, group, &mut self.numbers);
        for number in &self.numbers {
            let next = self.rows.len() as u32;
            let row = *self.row_of.entry(*number).or_insert(next);
            if row == next {
                let label = RowLabel::bare(number.to_string());
                self.rows.push(RunRow { label, own: RunSum::default(), total: RunSum::default() });
            }
            self.of_last.push(row);
        }
        self.is_known = !self.has_threads;
    }
}

impl<P: FnMut(&[Step], &Group, &mut Vec<u64>)> Rows for PartRows<P> {
    fn begin_path(&mut self) {
        self.is_known = false;
    }

    fn add(&mut self, path: &[Step], group: &Group, lengths: Option<&WaitLengths>) {
        if !self.is_known {
            self.find(path, group);
        }
        for row in &self.of_last {
            self.rows[*row as usize].total.add(group.amount, lengths);
        }
        if let Some(end) = self.of_last.last() {
            self.rows[*end as usize].own.add(group.amount, lengths);
        }
    }

    fn rows_of_last(&self) -> (&[u32], u32) {
        (&self.of_last, self.of_last.last().copied().unwrap_or(NO_ROW))
    }
}

/// Returns the number of the part that a row of [`PartRows`] is for.
pub(crate) fn number_of_part(label: &RowLabel) -> Option<u64> {
    label.key.name.parse().ok()
}
