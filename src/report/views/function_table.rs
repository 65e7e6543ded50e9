//! The flat table: one row per label, with its self and total weight.
//!
//! Recursion counts once: however often a function is on a stack, a sample adds to its total once.
//! The self weights of all rows add up to the weight of all samples.

use crate::profile::StringId;
use crate::report::model::amount::Amount;
use crate::report::model::group::Group;
use crate::report::model::label::{LabelId, Place};
use crate::report::model::label_key::SourceLine;
use crate::report::model::label_kind::LabelKind;
use crate::report::naming::thread_class::numbered;
use crate::report::options::SortKey;
use crate::report::query::selection::Selection;
use crate::report::row_limits::RowLimits;
use std::cmp::Reverse;

/// One row of a flat report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionRow {
    /// The function or other label of the row.
    pub(crate) label: LabelId,
    /// Amount of samples that end in it.
    pub(crate) own: Amount,
    /// Amount of samples with it on their stack.
    pub(crate) total: Amount,
    /// Number of threads in which it was the innermost function.
    pub(crate) threads: u64,
    /// Source line with most of its self weight; with most of its total weight if it has no self weight.
    pub(crate) source: Option<SourceLine>,
}

/// All rows of a selection, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionTable {
    /// The rows, largest first.
    pub(crate) rows: Vec<FunctionRow>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    own: Amount,
    total: Amount,
    threads: u64,
    /// Index of the path that last added to `total`, from 1.
    last_path: usize,
}

impl FunctionTable {
    /// The table of `selection` in the order of `sort`.
    pub(crate) fn new(selection: &Selection<'_>, sort: SortKey) -> Self {
        let labels = &selection.labels;
        let mut sums = vec![Sums::default(); labels.len()];
        // Self and total weight of each place.
        let mut places = vec![[0u64; 2]; labels.places().len()];
        let mut leaves: Vec<(LabelId, &[Group])> = Vec::new();
        let mut path_number = 0;
        selection.for_each_path(|path, groups| {
            path_number += 1;
            let amount = groups.amount;
            let path = selection.rows_of(path);
            for step in path {
                let sum = &mut sums[step.label.index()];
                if sum.last_path != path_number {
                    sum.last_path = path_number;
                    sum.total.add(amount);
                    let total = &mut places[step.place.index()][1];
                    *total = total.saturating_add(amount.weight);
                }
            }
            if let Some(leaf) = path.last() {
                let sum = &mut sums[leaf.label.index()];
                sum.own.add(amount);
                leaves.push((leaf.label, groups.list));
                let own = &mut places[leaf.place.index()][0];
                *own = own.saturating_add(amount.weight);
            }
        });
        count_threads(selection, &mut leaves, &mut sums);
        let sources = heaviest_places(selection, &places);
        let mut rows: Vec<FunctionRow> = (labels.ids().zip(&sums))
            .filter(|(_, sum)| !sum.total.is_empty())
            .filter(|(label, sum)| labels.get(*label).kind != LabelKind::Cut || !sum.own.is_empty())
            .map(|(label, sum)| FunctionRow {
                label,
                own: sum.own,
                total: sum.total,
                threads: sum.threads,
                source: (labels.get(label).line.clone())
                    .or_else(|| source_text(selection, sources[label.index()]?)),
            })
            .collect();
        rows.sort_by(|a, b| {
            let key = |row: &FunctionRow| match sort {
                SortKey::SelfWeight => Reverse([row.own.weight, row.total.weight]),
                SortKey::TotalWeight => Reverse([row.total.weight, row.own.weight]),
                SortKey::Count => Reverse([row.own.count_thousandths, row.total.count_thousandths]),
            };
            key(a)
                .cmp(&key(b))
                .then_with(|| labels.get(a.label).order_key().cmp(&labels.get(b.label).order_key()))
                .then(a.label.cmp(&b.label))
        });
        FunctionTable { rows }
    }

    /// The rows that a report with these limits shows, by their share of `whole` in the sort key.
    pub(crate) fn shown(&self, limits: RowLimits, sort: SortKey, whole: Amount) -> &[FunctionRow] {
        let share = |row: &FunctionRow| match sort {
            SortKey::SelfWeight => crate::base::units::percent(row.own.weight, whole.weight),
            SortKey::TotalWeight => crate::base::units::percent(row.total.weight, whole.weight),
            SortKey::Count => crate::base::units::percent(row.own.count_thousandths, whole.count_thousandths),
        };
        limits.of(&self.rows, share)
    }
}

/// Counts the threads that have each of the `leaves` on top of their stacks.
fn count_threads(selection: &Selection<'_>, leaves: &mut [(LabelId, &[Group])], sums: &mut [Sums]) {
    // A thread may have several tasks, one for each of its names.
    let tasks = selection.profile.tables.tasks().iter();
    let (thread_of, threads) = numbered(tasks.map(|task| (task.tid, task.generation)));
    // Label by label, so that the latest label of each thread tells whether the thread has been counted.
    leaves.sort_by_key(|(label, _)| *label);
    let mut latest: Vec<Option<LabelId>> = vec![None; threads.len()];
    for (label, groups) in leaves {
        let sum = &mut sums[label.index()];
        for group in *groups {
            let is_new = latest[thread_of[group.task.index()]].replace(*label) != Some(*label);
            sum.threads += u64::from(is_new);
        }
    }
}

/// The heaviest place of each label: by self weight, then total weight, then file and line.
fn heaviest_places(selection: &Selection<'_>, weights: &[[u64; 2]]) -> Vec<Option<Place>> {
    let mut best: Vec<Option<(Place, [u64; 2])>> = vec![None; selection.labels.len()];
    let text = |place: &Place| (selection.profile.tables.string(place.file), place.line);
    for (place, weights) in selection.labels.places().iter().zip(weights) {
        if place.file == StringId(0) {
            continue;
        }
        let best = &mut best[place.label.index()];
        let is_better = best.is_none_or(|(other, other_weights)| {
            (*weights, Reverse(text(place))) > (other_weights, Reverse(text(&other)))
        });
        if is_better {
            *best = Some((*place, *weights));
        }
    }
    best.into_iter().map(|best| best.map(|(place, _)| place)).collect()
}

fn source_text(selection: &Selection<'_>, place: Place) -> Option<SourceLine> {
    let file = selection.profile.tables.string(place.file);
    (!file.is_empty()).then(|| SourceLine { file: file.to_owned(), line: place.line })
}
