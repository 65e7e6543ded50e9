//! The large call paths of a run as parts, so that each can be tested by itself.

use super::path_finder::{KnownPaths, NO_PART};
use super::run_row::{RunPath, RunRow};
use crate::diff::difference::TESTED_SHARE;
use crate::diff::row_label::DiffRowKey;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Least share of a run that a path is summed up from. A path that is tested has ten times that on one side; what a run has
/// less of it counts as nothing.
const LEAST_SHARE: f64 = TESTED_SHARE / 10.0;

/// Most paths of a run that are summed up, the largest: more only very deep stacks have.
const MOST_PARTS: usize = 20_000;

/// Identity of a path in all runs: a hash of that of the path without its last step, and of this step.
pub(crate) fn path_key(parent: Option<u64>, step: &DiffRowKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    (parent, step).hash(&mut hasher);
    hasher.finish()
}

/// The call paths of a run by the rows of their steps: what is inlined and what is called is one path, as in the tree of
/// both sides.
#[derive(Debug, Default)]
pub(super) struct PathParts {
    pub(super) known: KnownPaths,
    /// The part of each path, or [`NO_PART`].
    pub(super) part_of: Vec<u32>,
    /// Identity of each path.
    pub(super) keys: Vec<u64>,
}

impl PathParts {
    /// The parts among `paths`, whose rows are these.
    pub(super) fn of(paths: &[RunPath], rows: &[RunRow]) -> Self {
        let mut parts = PathParts::default();
        let mut parents: Vec<Option<u32>> = Vec::new();
        let mut totals: Vec<f64> = Vec::new();
        let mut number_of: Vec<u32> = Vec::with_capacity(paths.len());
        for path in paths {
            let parent = path.parent.map(|parent| number_of[parent as usize]);
            let next = totals.len() as u32;
            let number =
                *parts.known.entry((parent.map_or(0, |parent| parent + 1), path.row)).or_insert(next);
            if number == next {
                let above = parent.map(|parent| parts.keys[parent as usize]);
                parts.keys.push(path_key(above, &rows[path.row as usize].label.key));
                parents.push(parent);
                totals.push(0.0);
            }
            totals[number as usize] += path.own;
            number_of.push(number);
        }
        let mut whole = 0.0;
        // Callers come before callees.
        for number in (0..totals.len()).rev() {
            match parents[number] {
                Some(parent) => totals[parent as usize] += totals[number],
                None => whole += totals[number],
            }
        }
        let mut by_size = totals.clone();
        by_size.sort_unstable_by(|a, b| b.total_cmp(a));
        let least = by_size.get(MOST_PARTS).map_or(0.0, |total| total.next_up()).max(LEAST_SHARE * whole);
        let is_large = |total: f64| total > 0.0 && total >= least;
        parts.part_of = (totals.iter().zip(0..))
            .map(|(total, number)| if is_large(*total) { number } else { NO_PART })
            .collect();
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::row_label::RowLabel;
    use crate::diff::sums::run_row::RunSum;

    #[test]
    fn large_paths_are_parts_and_inlined_and_called_steps_are_one_path() {
        let row = |name: &str| RunRow {
            label: RowLabel::bare(name.to_owned()),
            own: RunSum::default(),
            total: RunSum::default(),
        };
        let rows = ["main", "work", "rare"].map(row);
        let path = |parent, row, own| RunPath { parent, row, own };
        let paths = [
            path(None, 0, 10.0),
            path(Some(0), 1, 900.0),
            // The same function, inlined.
            path(Some(0), 1, 600.0),
            path(Some(2), 1, 498.0),
            path(Some(0), 2, 1.9),
        ];
        let parts = PathParts::of(&paths, &rows);
        assert_eq!(parts.part_of, [0, 1, 2, NO_PART], "0.1 % of 2009.9 is more than 1.9");
        let main = path_key(None, &rows[0].label.key);
        let work = path_key(Some(main), &rows[1].label.key);
        assert_eq!(parts.keys[..3], [main, work, path_key(Some(work), &rows[1].label.key)]);
        assert_ne!(path_key(None, &rows[1].label.key), work, "a path is more than its last step");
        assert_eq!(parts.known.get(&(2, 1)), Some(&2));
    }
}
