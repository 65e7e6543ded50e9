//! Time by thread: threads of one name and process are one row, since pools have many.

use super::label::LabelId;
use super::selection::{Amount, Selection};
use crate::profile::StringId;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// All threads of one name in processes of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadRow {
    /// Name of the threads. Foreign text.
    pub thread: String,
    /// Name of their process. Foreign text.
    pub process: String,
    /// How many threads.
    pub threads: u64,
    /// How many processes.
    pub processes: u64,
    /// What they ran.
    pub amount: Amount,
    /// Where they were most often, with its own weight.
    pub hottest: Option<(LabelId, u64)>,
}

#[derive(Debug, Default)]
struct Sums {
    amount: Amount,
    threads: FxHashSet<(u32, u32)>,
    processes: FxHashSet<u32>,
    leaves: FxHashMap<LabelId, u64>,
}

/// The threads of `selection`, heaviest first.
pub fn threads(selection: &Selection<'_>) -> Vec<ThreadRow> {
    let tables = &selection.profile.tables;
    let mut sums: FxHashMap<(StringId, StringId), Sums> = FxHashMap::default();
    selection.for_each_path(|path, groups| {
        for group in groups {
            let task = tables.task(group.task);
            let sum = sums.entry((task.comm, task.process)).or_default();
            sum.amount.add(group.amount());
            sum.threads.insert((task.tid, task.generation));
            sum.processes.insert(task.pid);
            if let Some(leaf) = path.last() {
                let weight = sum.leaves.entry(leaf.label).or_default();
                *weight = weight.saturating_add(group.weight);
            }
        }
    });
    let name = |label: LabelId| &selection.labels.get(label).name;
    let mut rows: Vec<ThreadRow> = (sums.into_iter())
        .map(|((comm, process), sum)| ThreadRow {
            thread: tables.string(comm).to_owned(),
            process: tables.string(process).to_owned(),
            threads: sum.threads.len() as u64,
            processes: sum.processes.len() as u64,
            amount: sum.amount,
            hottest: sum
                .leaves
                .into_iter()
                .max_by_key(|(label, weight)| (*weight, Reverse((name(*label), *label)))),
        })
        .collect();
    rows.sort_by(|a, b| {
        (b.amount.weight.cmp(&a.amount.weight))
            .then_with(|| (&a.thread, &a.process).cmp(&(&b.thread, &b.process)))
    });
    rows
}
