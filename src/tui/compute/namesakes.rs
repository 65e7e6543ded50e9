//! Threads and processes that cannot be found again on the other side of a comparison: where each has a row or a box of its own,
//! several have one name, and ids differ from run to run.

use crate::diff::{DiffRowKey, RowLabel};
use crate::profile::StringId;
use crate::report::{LabelId, Selection, Step, ThreadSplit};
use rustc_hash::{FxHashMap, FxHashSet};

/// The names that several threads have on one side, where threads are apart, or several processes, where those are.
#[derive(Debug, Default)]
pub(super) struct Namesakes {
    /// With the name of their process.
    rows: FxHashSet<DiffRowKey>,
    /// Whatever their process: boxes of threads do not say it.
    names: FxHashSet<String>,
}

impl Namesakes {
    /// Finds the namesakes of two sides, each with a step for each of its threads unless all are merged.
    pub(super) fn of(
        here: (&Selection<'_>, Option<&[Step]>),
        there: (&Selection<'_>, Option<&[Step]>),
        split: ThreadSplit,
    ) -> Self {
        let mut namesakes = Namesakes::default();
        let mut add = |(selection, steps): (&Selection<'_>, Option<&[Step]>)| match (split, steps) {
            (ThreadSplit::Each, Some(steps)) => namesakes.add(selection, steps),
            (ThreadSplit::None, _) => namesakes.add_processes(selection),
            _ => {}
        };
        add(here);
        add(there);
        namesakes
    }

    /// Adds those of a side, which has a step for each of its threads.
    fn add(&mut self, selection: &Selection<'_>, steps: &[Step]) {
        let tables = &selection.profile.tables;
        let mut by_row: FxHashMap<DiffRowKey, LabelId> = FxHashMap::default();
        let mut by_name: FxHashMap<String, LabelId> = FxHashMap::default();
        for (id, task) in selection.profile.recorded_tasks() {
            let Some(step) = steps.get(id.index()) else { continue };
            let key = RowLabel::of(selection.labels.get(step.label)).key;
            let key = DiffRowKey { module: tables.string(task.process).to_owned(), ..key };
            if *by_name.entry(key.name.clone()).or_insert(step.label) != step.label {
                self.names.insert(key.name.clone());
            }
            if *by_row.entry(key.clone()).or_insert(step.label) != step.label {
                self.rows.insert(key);
            }
        }
    }

    /// Adds the processes of a side, which has a row for each.
    fn add_processes(&mut self, selection: &Selection<'_>) {
        let tables = &selection.profile.tables;
        let mut by_name: FxHashMap<StringId, u32> = FxHashMap::default();
        // Those without samples have rows, too.
        for (_, task) in selection.profile.recorded_tasks() {
            if *by_name.entry(task.process).or_insert(task.pid) != task.pid {
                let module = tables.string(task.process).to_owned();
                self.rows.insert(DiffRowKey { name: String::new(), module, line: None });
            }
        }
    }

    /// Whether several threads have the name and the process of a row, or several processes its name.
    pub(super) fn has_row(&self, key: &DiffRowKey) -> bool {
        self.rows.contains(key)
    }

    /// Whether several threads have the name of a box.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}
