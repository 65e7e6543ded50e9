//! Rows that whoever compares has numbered alike on both sides: boxes of a tree, lines of a function.

use super::rows::Rows;
use super::run_row::{RunRow, RunSum};
use crate::diff::row_label::RowLabel;
use crate::diff::statistics::wait_lengths::WaitLengths;
use crate::report::{Group, Step};
use rustc_hash::FxHashMap;

/// Stands for all samples that are in no part.
const NO_PART: u32 = u32::MAX;

/// The rows of parts, in the order of their first samples.
pub(super) struct PartRows<P> {
    parts: P,
    rows: Vec<RunRow>,
    row_of: FxHashMap<u32, u32>,
    /// The parts of the latest group, then their rows.
    last: (Vec<u32>, Vec<u32>),
}

impl<P: FnMut(&[Step], &Group, &mut Vec<u32>)> PartRows<P> {
    /// `parts` fills a list with the numbers of the parts that samples are in, each once; they end in the last of them.
    pub(super) fn new(parts: P) -> Self {
        PartRows { parts, rows: Vec::new(), row_of: FxHashMap::default(), last: Default::default() }
    }

    pub(super) fn into_rows(self) -> Vec<RunRow> {
        self.rows
    }
}

impl<P: FnMut(&[Step], &Group, &mut Vec<u32>)> Rows for PartRows<P> {
    fn add(&mut self, path: &[Step], group: &Group, lengths: Option<&WaitLengths>) {
        let (numbers, last) = &mut self.last;
        numbers.clear();
        (self.parts)(path, group, numbers);
        if numbers.is_empty() {
            numbers.push(NO_PART);
        }
        last.clear();
        for number in numbers.iter() {
            let next = self.rows.len() as u32;
            let row = *self.row_of.entry(*number).or_insert(next);
            if row == next {
                let label = RowLabel::bare(number.to_string());
                self.rows.push(RunRow { label, own: RunSum::default(), total: RunSum::default() });
            }
            self.rows[row as usize].total.add(group.amount, lengths);
            last.push(row);
        }
        if let Some(end) = last.last() {
            self.rows[*end as usize].own.add(group.amount, lengths);
        }
    }

    fn of_last(&self) -> (&[u32], u32) {
        let rows = &self.last.1;
        (rows, rows.last().copied().unwrap_or(0))
    }
}

/// The number of the part that a row of [`PartRows`] stands for; `None` for that of all samples in no part.
pub(crate) fn number_of_part(label: &RowLabel) -> Option<u32> {
    label.key.name.parse().ok().filter(|number| *number != NO_PART)
}
