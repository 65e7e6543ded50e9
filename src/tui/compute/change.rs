//! How a picture differs from its base: what every function and thread cost on both sides, and every box.

use crate::base::failure::Failure;
use crate::diff::{Comparison, DiffRow, DiffRowKey, Difference, RowLabel, RowValue, Tone};
use crate::report::{
    Amount, Analysis, CallTree, CommonOptions, Label, LabelId, LabelKind, Labels, NodeId, Sandwich,
    Selection, SortKey, Step, ThreadRow, ThreadSplit,
};
use crate::tui::app::query::Query;
use crate::tui::compute::namesakes::Namesakes;
use crate::tui::compute::sides::ChangeSides;
use crate::tui::compute::source_sheet::{LinePlace, SourceSheet};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Marks a node whose path only one side has.
const NO_PATH: u32 = u32::MAX;

/// A function of one side or both, as a row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangedRow {
    /// Its label in the picture; `None` where only the other side has it.
    pub(crate) label: Option<LabelId>,
    /// Number of its row in the comparison.
    pub(crate) number: u32,
    is_wait: bool,
}

/// What a picture has that its base has not.
#[derive(Debug)]
pub(crate) struct Change {
    /// The functions of both sides.
    pub(crate) functions: Arc<Comparison>,
    threads: Arc<Comparison>,
    rows_of_threads: FxHashMap<DiffRowKey, u32>,
    /// The threads that have no counterpart on the other side.
    namesakes: Namesakes,
    /// The functions in the order of the table, those that changed first.
    pub(crate) rows: Vec<ChangedRow>,
    /// What lines of the function whose source is shown cost on the other side; `None` where it has another build of it.
    other_lines: Option<FxHashMap<LinePlace, Amount>>,
    sides: ChangeSides,
    /// Row of each label of the picture, in `threads` for a thread and else in `functions`.
    row_of: Vec<Option<u32>>,
    nodes: Vec<Option<[f64; 2]>>,
    callers: Vec<[f64; 2]>,
    callees: Vec<[f64; 2]>,
}

/// What a change is computed for.
pub(crate) struct ChangeOf<'s, 'p> {
    pub(crate) selection: &'s Selection<'p>,
    pub(crate) tree: &'s CallTree,
    /// The threads of the tree, unless all are merged.
    pub(crate) threads: Option<&'s [Step]>,
    /// The function whose callers and callees are shown.
    pub(crate) sandwich: Option<&'s Sandwich>,
    pub(crate) source: Option<&'s SourceSheet>,
}

impl Change {
    /// Compares the two sides, of which one is the picture's.
    ///
    /// # Errors
    ///
    /// When the other side lacks the metric.
    pub(crate) fn new(
        sides: &ChangeSides,
        picture: &ChangeOf<'_, '_>,
        query: &Query,
        before: Option<&Change>,
    ) -> Result<Self, Failure> {
        let selection = picture.selection;
        let mut sides = sides.clone();
        // Both are compared by what is seen.
        for options in &mut sides.options {
            options.metric = Some(selection.shown.metric());
        }
        let [functions, threads] = compared(&sides, before, query.threads())?;
        let (recording, options) = sides.other();
        recording.count_once();
        let mut other = Selection::new(recording, recording.shown(options.metric)?, options)?;
        let split = query.threads();
        let steps = (split != ThreadSplit::None).then(|| other.thread_steps(split));
        let other_tree = query.call_tree(&other, steps.as_deref());
        let mut keys = RowKeys::default();
        let [here, there] = [&selection.labels, &other.labels].map(|labels| keys.of(labels));
        let scales = Scales::of(&functions, sides.shown);
        let mut namesakes = Namesakes::default();
        if let (Some(here), Some(there), ThreadSplit::Each) = (picture.threads, &steps, split) {
            namesakes.add(selection, here);
            namesakes.add(&other, there);
        }
        let nodes = scales.totals((picture.tree, &here), (&other_tree, &there));
        let nodes = without_namesakes(nodes, picture.tree, &selection.labels, &namesakes);
        let of_sandwich = |sandwich| scales.of_sandwich((sandwich, &here), (&other, &there));
        let [callers, callees] = picture.sandwich.map_or_else(Default::default, of_sandwich);
        let other_lines = match picture.source {
            Some(sheet) => lines_of_other(sheet, selection, (recording, &other, options))?,
            None => None,
        };
        let numbers = numbers_of(&functions);
        let row_of = rows_of_labels(&selection.labels, &numbers, &threads, &namesakes);
        let mut change = Change {
            rows: rows(&selection.labels, &row_of, &other.labels, &numbers),
            functions,
            rows_of_threads: numbers_of(&threads),
            threads,
            namesakes,
            other_lines,
            row_of,
            nodes,
            callers,
            callees,
            sides,
        };
        change.sort(query.sort);
        Ok(change)
    }

    fn sort(&mut self, sort: SortKey) {
        let functions = Arc::clone(&self.functions);
        let value = value_of(sort);
        let of = |row: &ChangedRow| row.difference(&functions, value);
        self.rows.retain(|row| of(row).base > 0.0 || of(row).new > 0.0);
        let key = |row: &ChangedRow| match sort {
            SortKey::Count => (true, of(row).base.max(of(row).new)),
            SortKey::SelfWeight | SortKey::TotalWeight => of(row).rank(),
        };
        let name = |row: &ChangedRow| &functions.labels[row.number as usize].key;
        self.rows.sort_by(|a, b| {
            let [(a_first, a_size), (b_first, b_size)] = [a, b].map(key);
            b_first.cmp(&a_first).then(b_size.total_cmp(&a_size)).then_with(|| name(a).cmp(name(b)))
        });
    }

    /// The difference of the self or the total value of a label of the picture.
    pub(crate) fn of_label(&self, label: LabelId, kind: LabelKind, value: RowValue) -> Option<&Difference> {
        let number = (*self.row_of.get(label.index())?)?;
        let (comparison, value) = match kind {
            LabelKind::Task => (&self.threads, RowValue::Total),
            // All samples with a reason to wait end in it.
            LabelKind::Wait(_) => (&self.functions, RowValue::Total),
            _ => (&self.functions, value),
        };
        comparison.rows.get(number as usize).map(|row| row.value(value))
    }

    /// Whether a row is one of several threads of a name, which are not compared.
    pub(crate) fn has_namesakes(&self, row: &ThreadRow) -> bool {
        self.namesakes.has_row(&key_of(row))
    }

    /// The difference of the threads in a row; `None` for one of several threads of a name, and without samples.
    pub(crate) fn of_threads(&self, row: &ThreadRow) -> Option<&Difference> {
        let key = key_of(row);
        let number = *self.rows_of_threads.get(&key).filter(|_| !self.namesakes.has_row(&key))?;
        self.threads.rows.get(number as usize).map(|row| row.value(RowValue::Total))
    }

    /// What a node of the tree costs in the base and on the new side, in the unit that is compared; `None` below one of several
    /// threads of a name.
    pub(crate) fn of_node(&self, id: NodeId) -> Option<[f64; 2]> {
        self.nodes.get(id.index()).copied().flatten()
    }

    /// What a node costs on both sides of the callers of the function in the middle.
    pub(crate) fn of_caller(&self, id: NodeId) -> [f64; 2] {
        self.callers.get(id.index()).copied().unwrap_or_default()
    }

    /// The same of its callees.
    pub(crate) fn of_callee(&self, id: NodeId) -> [f64; 2] {
        self.callees.get(id.index()).copied().unwrap_or_default()
    }

    /// How much a box of `label` with these costs has changed: as much as it did, if they are known and the function's change is
    /// more than chance.
    pub(crate) fn tone(&self, costs: Option<[f64; 2]>, label: LabelId, kind: LabelKind) -> Tone {
        let Some([base, new]) = costs else { return Tone::Noise };
        let of_function = self.of_label(label, kind, RowValue::Total);
        Tone::of(base, new, of_function.is_some_and(|difference| difference.outcome.is_real()))
    }

    /// What a line cost on the other side; `None` where that is not known.
    pub(crate) fn other_line(&self, place: &LinePlace) -> Option<Amount> {
        Some(self.other_lines.as_ref()?.get(place).copied().unwrap_or_default())
    }

    /// What limits the comparison.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = crate::diff::notes(&self.functions, true);
        notes.extend(self.sides.note());
        notes
    }

    /// What is compared.
    pub(crate) fn sides(&self) -> &ChangeSides {
        &self.sides
    }

    /// Whether the picture is of the base.
    pub(crate) fn shows_base(&self) -> bool {
        self.sides.shown == 0
    }
}

impl ChangedRow {
    /// Its difference; `functions` is the comparison that it is a row of.
    pub(crate) fn difference<'c>(&self, functions: &'c Comparison, value: RowValue) -> &'c Difference {
        let row: &DiffRow = &functions.rows[self.number as usize];
        row.value(if self.is_wait { RowValue::Total } else { value })
    }
}

/// The functions and the threads of both sides: those of `known`, if nothing has changed since.
fn compared(
    sides: &ChangeSides,
    known: Option<&Change>,
    threads: ThreadSplit,
) -> Result<[Arc<Comparison>; 2], Failure> {
    if let Some(known) = known.filter(|known| sides.has_same_costs(&known.sides)) {
        return Ok([Arc::clone(&known.functions), Arc::clone(&known.threads)]);
    }
    let (functions, threads) = rayon::join(|| sides.compare(None), || sides.compare(Some(threads)));
    Ok([Arc::new(functions?), Arc::new(threads?)])
}

/// The costs of the nodes of a tree, but of none at or below one of several threads of a name.
fn without_namesakes(
    costs: Vec<[f64; 2]>,
    tree: &CallTree,
    labels: &Labels,
    namesakes: &Namesakes,
) -> Vec<Option<[f64; 2]>> {
    let mut kept: Vec<Option<[f64; 2]>> = Vec::with_capacity(costs.len());
    for ((_, node), costs) in tree.nodes().zip(costs) {
        let label = labels.get(node.label);
        let is_alone = label.kind == LabelKind::Task && namesakes.has_name(&RowLabel::of(label).key.name);
        // Parents come before their children.
        let is_below = node.parent.is_some_and(|parent| kept[parent.index()].is_none());
        kept.push((!is_alone && !is_below).then_some(costs));
    }
    kept
}

/// The row of a comparison that has the threads in `row`.
fn key_of(row: &ThreadRow) -> DiffRowKey {
    DiffRowKey { name: row.thread.clone(), module: row.process.clone(), line: None }
}

/// The value that rows are compared by.
pub(crate) fn value_of(sort: SortKey) -> RowValue {
    match sort {
        SortKey::TotalWeight => RowValue::Total,
        SortKey::SelfWeight | SortKey::Count => RowValue::Own,
    }
}

fn numbers_of(comparison: &Comparison) -> FxHashMap<DiffRowKey, u32> {
    comparison.labels.iter().map(|label| label.key.clone()).zip(0..).collect()
}

/// The row of the threads of each name; none where several processes have some.
fn thread_numbers_of(threads: &Comparison) -> FxHashMap<String, Option<u32>> {
    let mut numbers: FxHashMap<String, Option<u32>> = FxHashMap::default();
    for (label, number) in threads.labels.iter().zip(0..) {
        numbers.entry(label.key.name.clone()).and_modify(|known| *known = None).or_insert(Some(number));
    }
    numbers
}

/// The row of each label: of a function among `functions`, of a thread in `threads`.
fn rows_of_labels(
    labels: &Labels,
    functions: &FxHashMap<DiffRowKey, u32>,
    threads: &Comparison,
    namesakes: &Namesakes,
) -> Vec<Option<u32>> {
    let threads = thread_numbers_of(threads);
    let row = |label: &Label| match (RowLabel::of(label).key, label.kind) {
        (key, LabelKind::Task) if namesakes.has_name(&key.name) => None,
        (key, LabelKind::Task) => threads.get(&key.name).copied().flatten(),
        (key, _) => functions.get(&key).copied(),
    };
    labels.iter().map(row).collect()
}

/// The functions of both sides. The rows of places where threads wait are left out: boxes and labels are of functions.
fn rows(
    labels: &Labels,
    row_of: &[Option<u32>],
    others: &Labels,
    numbers: &FxHashMap<DiffRowKey, u32>,
) -> Vec<ChangedRow> {
    let mut found: FxHashMap<u32, ChangedRow> = FxHashMap::default();
    let is_function = |label: &Label| label.kind != LabelKind::Task;
    let mut add = |label: Option<LabelId>, number: Option<u32>, kind: LabelKind| {
        if let Some(number) = number {
            let is_wait = matches!(kind, LabelKind::Wait(_));
            found.entry(number).or_insert(ChangedRow { label, number, is_wait });
        }
    };
    for id in labels.ids().filter(|id| is_function(labels.get(*id))) {
        add(Some(id), row_of[id.index()], labels.get(id).kind);
    }
    for label in others.iter().filter(|label| is_function(label)) {
        add(None, numbers.get(&RowLabel::of(label).key).copied(), label.kind);
    }
    found.into_values().collect()
}

/// What the lines of a function cost on the other side, if that has the same build of its module.
fn lines_of_other(
    sheet: &SourceSheet,
    selection: &Selection<'_>,
    (recording, other, options): (&Analysis, &Selection<'_>, &CommonOptions),
) -> Result<Option<FxHashMap<LinePlace, Amount>>, Failure> {
    let samples_of_frame = &selection.quality.samples_of_frame;
    let here = crate::report::label_of(selection.profile, &selection.labels, samples_of_frame, &sheet.key);
    let Some(here) = here.map(|label| selection.labels.get(label)) else { return Ok(None) };
    let is_same_recording = std::ptr::eq(selection.profile, other.profile);
    if !is_same_recording && !has_same_build(selection, other, &here.module) {
        return Ok(None);
    }
    let key = RowLabel::of(here).key;
    let there = other.labels.iter().find(|label| label.kind.is_code() && RowLabel::of(label).key == key);
    let Some(there) = there else { return Ok(Some(FxHashMap::default())) };
    let lines = SourceSheet::new(recording, other, options, &there.key(), &[])?;
    Ok(Some(lines.map_or_else(FxHashMap::default, |lines| lines.costs_of_lines(&recording.profile))))
}

/// Whether both recordings have this module with one build ID.
fn has_same_build(a: &Selection<'_>, b: &Selection<'_>, module: &str) -> bool {
    let file = crate::report::module_file(module);
    let builds = [a.profile, b.profile].map(|profile| {
        let tables = &profile.tables;
        let of_file = tables.modules().iter().filter(|module| {
            crate::report::module_file(tables.string(module.path)) == file && !module.build_id.is_empty()
        });
        of_file.map(|module| module.build_id.clone()).collect::<Vec<_>>()
    });
    !builds[0].is_empty() && builds[0].iter().all(|id| builds[1].contains(id))
}

/// A number for each function, the same on both sides.
#[derive(Debug, Default)]
struct RowKeys(FxHashMap<DiffRowKey, u32>);

impl RowKeys {
    /// The number of each label.
    fn of(&mut self, labels: &Labels) -> Vec<u32> {
        let number = |label: &Label| {
            let next = self.0.len() as u32;
            *self.0.entry(RowLabel::of(label).key).or_insert(next)
        };
        labels.iter().map(number).collect()
    }
}

/// What weights of the picture's side and of the other are divided by.
#[derive(Debug, Clone, Copy)]
struct Scales {
    here: f64,
    there: f64,
    shown: usize,
}

impl Scales {
    fn of(comparison: &Comparison, shown: usize) -> Self {
        let divisor = |side: usize| comparison.sides[side].runs.first().map_or(1.0, |run| run.divisor);
        Scales { here: divisor(shown), there: divisor(1 - shown), shown }
    }

    /// The same of the callers, and of the callees of a function.
    fn of_sandwich(
        &self,
        (sandwich, here): (&Sandwich, &[u32]),
        (other, there): (&Selection<'_>, &[u32]),
    ) -> [Vec<[f64; 2]>; 2] {
        let key = here[sandwich.label.index()];
        let label = other.labels.ids().find(|label| there[label.index()] == key);
        let found = label.and_then(|label| Sandwich::new(other, label));
        let none = CallTree::default();
        let (callers, callees) =
            found.as_ref().map_or((&none, &none), |found| (&found.callers, &found.callees));
        [(&sandwich.callers, callers), (&sandwich.callees, callees)]
            .map(|(tree, other)| self.totals((tree, here), (other, there)))
    }

    /// The totals of each path of `here` on both sides: that of the base, then that of the new side. Each tree comes with the
    /// numbers of its labels.
    fn totals(&self, here: (&CallTree, &[u32]), there: (&CallTree, &[u32])) -> Vec<[f64; 2]> {
        let mut paths = PathTotals::default();
        let nodes = paths.add(here, 0, true);
        paths.add(there, 1, false);
        let totals = |path: u32| {
            let [here, there] = paths.totals[path as usize];
            let both = [here as f64 / self.here, there as f64 / self.there];
            if self.shown == 0 { both } else { [both[1], both[0]] }
        };
        nodes.into_iter().map(totals).collect()
    }
}

/// Totals of paths by name.
#[derive(Debug, Default)]
struct PathTotals {
    /// Path of a caller's path and the number of a function.
    known: FxHashMap<(u32, u32), u32>,
    totals: Vec<[u64; 2]>,
}

impl PathTotals {
    /// Adds the nodes of a tree to `side`; paths that are not known are left out unless `grows`. Returns the path of each
    /// node.
    fn add(&mut self, (tree, keys): (&CallTree, &[u32]), side: usize, grows: bool) -> Vec<u32> {
        let mut of_node: Vec<u32> = Vec::with_capacity(tree.nodes().len());
        // Callers come before callees.
        for (_, node) in tree.nodes() {
            let parent = node.parent.map(|parent| of_node[parent.index()]);
            let key = (parent.map_or(0, |path| path.saturating_add(1)), keys[node.label.index()]);
            let next = self.totals.len() as u32;
            let path = match (parent, self.known.get(&key)) {
                (Some(NO_PATH), _) => NO_PATH,
                (_, Some(path)) => *path,
                (_, None) if grows => {
                    self.known.insert(key, next);
                    self.totals.push([0; 2]);
                    next
                }
                (_, None) => NO_PATH,
            };
            if path != NO_PATH {
                self.totals[path as usize][side] += node.total.weight;
            }
            of_node.push(path);
        }
        of_node
    }
}
