//! The flat table: one row for each label, with its own and its total weight.
//!
//! Recursion counts once: however often a function is on a stack, a sample adds to its total once.
//! The own weights of all rows sum up to the weight of all samples.

use super::label::{LabelId, LabelKind, Source};
use super::options::SortKey;
use super::selection::{Amount, Selection};
use crate::profile::StringId;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// One row of a flat report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What the row stands for.
    pub label: LabelId,
    /// Samples that end in it.
    pub own: Amount,
    /// Samples that have it on their stack.
    pub total: Amount,
    /// Threads that ran it as the innermost function.
    pub threads: u64,
    /// Where in its source most of its own weight was seen; of its total weight when it has none.
    pub source: Option<Source>,
}

/// All rows of a selection, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionTable {
    /// The rows, largest first.
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    own: Amount,
    total: Amount,
    threads: u64,
    /// Number of the group that last added to `total`, plus 1.
    last_group: usize,
}

impl FunctionTable {
    /// The table of `selection` in the order of `sort`.
    pub fn new(selection: &Selection<'_>, sort: SortKey) -> Self {
        let labels = &selection.labels;
        let mut sums = vec![Sums::default(); labels.len()];
        let mut places = Places::default();
        let mut threads: FxHashSet<(LabelId, u32, u32)> = FxHashSet::default();
        let mut group_number = 0;
        selection.for_each_path(|path, group| {
            group_number += 1;
            let amount = group.amount();
            for step in path {
                let sum = &mut sums[step.label.index()];
                if sum.last_group != group_number {
                    sum.last_group = group_number;
                    sum.total.add(amount);
                    places.add(step.label, Place { file: step.file, line: step.line }, 0, amount.weight);
                }
            }
            if let Some(leaf) = path.last() {
                let sum = &mut sums[leaf.label.index()];
                sum.own.add(amount);
                let task = selection.profile.tables.task(group.task);
                sum.threads += u64::from(threads.insert((leaf.label, task.tid, task.generation)));
                places.add(leaf.label, Place { file: leaf.file, line: leaf.line }, amount.weight, 0);
            }
        });
        let sources = places.heaviest();
        let mut rows: Vec<Row> = (labels.ids().zip(&sums))
            .filter(|(_, sum)| sum.total.samples > 0)
            .filter(|(label, sum)| labels.get(*label).kind != LabelKind::Cut || sum.own.samples > 0)
            .map(|(label, sum)| Row {
                label,
                own: sum.own,
                total: sum.total,
                threads: sum.threads,
                source: (labels.get(label).line.clone())
                    .or_else(|| source_text(selection, sources.get(&label).copied()?)),
            })
            .collect();
        rows.sort_by(|a, b| {
            let key = |row: &Row| match sort {
                SortKey::SelfWeight => Reverse([row.own.weight, row.total.weight]),
                SortKey::TotalWeight => Reverse([row.total.weight, row.own.weight]),
                SortKey::Count => Reverse([row.own.samples, row.total.samples]),
            };
            key(a)
                .cmp(&key(b))
                .then_with(|| labels.get(a.label).order_key().cmp(&labels.get(b.label).order_key()))
                .then(a.label.cmp(&b.label))
        });
        FunctionTable { rows }
    }

    /// Splits off the rows that a report with these limits leaves out: at most `most_rows` rows (0 = no
    /// limit), each with at least `min_percent` of `whole` by its sort key.
    pub fn shown(&self, most_rows: usize, min_percent: f64, sort: SortKey, whole: Amount) -> &[Row] {
        let share = |row: &Row| match sort {
            SortKey::SelfWeight => super::units::percent(row.own.weight, whole.weight),
            SortKey::TotalWeight => super::units::percent(row.total.weight, whole.weight),
            SortKey::Count => super::units::percent(row.own.samples, whole.samples),
        };
        // Rows are sorted by that very share.
        let heavy = self.rows.partition_point(|row| share(row) >= min_percent);
        let most = if most_rows == 0 { usize::MAX } else { most_rows };
        &self.rows[..heavy.min(most)]
    }
}

/// A place in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    file: StringId,
    line: u32,
}

/// Weights of source places of labels.
#[derive(Debug, Default)]
struct Places {
    weights: FxHashMap<(LabelId, Place), (u64, u64)>,
}

impl Places {
    fn add(&mut self, label: LabelId, place: Place, own: u64, total: u64) {
        if place.file != StringId(0) {
            let weights = self.weights.entry((label, place)).or_default();
            weights.0 = weights.0.saturating_add(own);
            weights.1 = weights.1.saturating_add(total);
        }
    }

    fn heaviest(&self) -> FxHashMap<LabelId, Place> {
        let mut best: FxHashMap<LabelId, ((u64, u64), Reverse<Place>)> = FxHashMap::default();
        for (&(label, place), &weights) in &self.weights {
            let candidate = (weights, Reverse(place));
            let best = best.entry(label).or_insert(candidate);
            *best = (*best).max(candidate);
        }
        best.into_iter().map(|(label, (_, Reverse(place)))| (label, place)).collect()
    }
}

fn source_text(selection: &Selection<'_>, place: Place) -> Option<Source> {
    let file = selection.profile.tables.string(place.file);
    (!file.is_empty()).then(|| Source { file: file.to_owned(), line: place.line })
}
