//! How a picture differs from its base: what every function and thread cost on both sides, and every box.

use crate::base::failure::Failure;
use crate::diff::{Comparison, DiffRow, DiffRowKey, Difference, RowLabel, RowValue, Tone};
use crate::report::{
    CallTree, Direction, Label, LabelId, LabelKey, LabelKind, Labels, NodeId, Sandwich, Selection, SortKey,
    Step, ThreadRow, ThreadSplit, TimelineRow,
};
use crate::tui::app::query::Query;
use crate::tui::compute::boxes::{BoxChange, BoxChanges, BoxLayout, BoxSide, BoxTree};
use crate::tui::compute::line_changes::LineChanges;
use crate::tui::compute::namesakes::Namesakes;
use crate::tui::compute::sides::{ChangeSides, SeveralTwins};
use crate::tui::compute::source_sheet::SourceSheet;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A function of one side or both, as a row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangedRow {
    /// Label of the function in the picture; `None` where only the other side has the function.
    pub(crate) label: Option<LabelId>,
    /// Number of its row in the comparison.
    pub(crate) number: u32,
    is_wait: bool,
}

/// Changes between the two sides of a comparison, as a picture shows them.
#[derive(Debug)]
pub(crate) struct Change {
    /// The functions of both sides.
    pub(crate) functions: Arc<Comparison>,
    threads: Arc<Comparison>,
    rows_of_threads: FxHashMap<DiffRowKey, u32>,
    /// The threads and processes that have no counterpart on the other side.
    namesakes: Namesakes,
    /// The functions in the order of the table, those that changed first.
    pub(crate) rows: Vec<ChangedRow>,
    /// The lines of the function whose source is shown.
    lines: Option<Arc<LineChanges>>,
    sides: ChangeSides,
    /// Row of each label of the picture, in `threads` for a thread and else in `functions`.
    row_of: Vec<Option<u32>>,
    /// Arrangement of the tree that `nodes` are of.
    layout: (Direction, ThreadSplit),
    nodes: Arc<BoxChanges>,
    /// The callers and the callees of the function in the middle.
    sandwich: Option<Arc<SandwichChanges>>,
}

/// Changes of the callers and the callees of a function.
#[derive(Debug)]
struct SandwichChanges {
    key: LabelKey,
    callers: BoxChanges,
    callees: BoxChanges,
}

/// Parts of a picture for which a change is computed.
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
        let split = query.threads();
        let (other, steps) = other_side(&sides, split)?;
        let mut keys = RowKeys::default();
        let [here, there] = [&selection.labels, &other.labels].map(|labels| keys.of(labels));
        let shown = sides.shown;
        let namesakes = Namesakes::of((selection, picture.threads), (&other, steps.as_deref()), split);
        let pair = sides.pair();
        let divisor = |side: usize| functions.sides[side].runs.first().map_or(1.0, |run| run.divisor);
        let here = BoxSide { side: pair[shown], selection, keys: &here, divisor: divisor(shown) };
        let there =
            BoxSide { side: pair[1 - shown], selection: &other, keys: &there, divisor: divisor(1 - shown) };
        let known = before.filter(|known| known.sides.shown == shown && sides.has_same_costs(&known.sides));
        let layout = (query.direction, split);
        let nodes = match known.filter(|known| known.layout == layout) {
            Some(known) => Arc::clone(&known.nodes),
            None => {
                let trees = Trees { picture, threads: steps.as_deref(), query, namesakes: &namesakes };
                Arc::new(trees.changes(here, there, shown)?)
            }
        };
        let sandwich =
            picture.sandwich.map(|sandwich| sandwich_changes(here, there, sandwich, &sides, known));
        let lines = picture.source.map(|sheet| line_changes(here, there, sheet, &sides, known));
        let (sandwich, lines) = (sandwich.transpose()?, lines.transpose()?);
        let numbers = numbers_of(&functions);
        let row_of = rows_of_labels(&selection.labels, &numbers, &threads, &namesakes);
        let mut change = Change {
            rows: rows(&selection.labels, &row_of, &other.labels, &numbers),
            functions,
            rows_of_threads: numbers_of(&threads),
            threads,
            namesakes,
            lines,
            row_of,
            layout,
            nodes,
            sandwich,
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

    /// Whether a row is one of several threads or processes of a name, which are not compared.
    pub(crate) fn has_namesakes(&self, row: ThreadsOf<'_>) -> bool {
        self.namesakes.has_row(&row.key())
    }

    /// The difference of the threads in a row; `None` for one of several threads or processes of a name, and without samples.
    pub(crate) fn of_threads(&self, row: ThreadsOf<'_>) -> Option<&Difference> {
        let key = row.key();
        let number = *self.rows_of_threads.get(&key).filter(|_| !self.namesakes.has_row(&key))?;
        self.threads.rows.get(number as usize).map(|row| row.value(RowValue::Total))
    }

    /// Returns the change of a node of the tree; `None` below one of several threads of a name.
    pub(crate) fn of_node(&self, id: NodeId) -> Option<BoxChange<'_>> {
        self.nodes.of(id)
    }

    /// Returns the change of a node of the callers of the pivot.
    pub(crate) fn of_caller(&self, id: NodeId) -> Option<BoxChange<'_>> {
        self.sandwich.as_ref()?.callers.of(id)
    }

    /// The same of its callees.
    pub(crate) fn of_callee(&self, id: NodeId) -> Option<BoxChange<'_>> {
        self.sandwich.as_ref()?.callees.of(id)
    }

    /// The lines of the function whose source is shown, if they are compared.
    pub(crate) fn lines(&self) -> Option<&LineChanges> {
        self.lines.as_deref().filter(|lines| lines.why_not().is_none())
    }

    /// Why they are not compared, if they are not. Foreign text.
    pub(crate) fn why_no_lines(&self) -> Option<&str> {
        self.lines.as_ref().and_then(|lines| lines.why_not())
    }

    /// How much a box of `label` has changed: as much as it did, if that is known and more than chance. A box that is too small
    /// to be tested has the test of its function.
    pub(crate) fn tone(&self, of_box: Option<BoxChange<'_>>, label: LabelId, kind: LabelKind) -> Tone {
        let Some(of_box) = of_box else { return Tone::Noise };
        let [base, new] = of_box.costs_to_name();
        let tested = of_box.tested.filter(|difference| difference.is_tested());
        let tested = tested.or_else(|| self.of_label(label, kind, RowValue::Total));
        Tone::of(base, new, tested.is_some_and(|difference| difference.outcome.is_real()))
    }

    /// Notes on what limits the comparison.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = crate::diff::notes(&self.functions, true);
        notes.extend(self.why_no_lines().map(str::to_owned));
        notes.extend(self.sides.note());
        notes
    }

    /// Sides that are compared.
    pub(crate) fn sides(&self) -> &ChangeSides {
        &self.sides
    }

    /// Whether the picture is of the base.
    pub(crate) fn shows_base(&self) -> bool {
        self.sides.shown == 0
    }
}

impl ChangedRow {
    /// Difference of the row; `functions` is the comparison that has the row.
    pub(crate) fn difference<'c>(&self, functions: &'c Comparison, value: RowValue) -> &'c Difference {
        let row: &DiffRow = &functions.rows[self.number as usize];
        row.value(if self.is_wait { RowValue::Total } else { value })
    }
}

/// The samples of the side that is not shown, and a step for each of its threads, unless all are merged.
fn other_side(
    sides: &ChangeSides,
    split: ThreadSplit,
) -> Result<(Selection<'_>, Option<Vec<Step>>), Failure> {
    let (recording, options) = sides.other();
    recording.prepare();
    let mut other = Selection::new(recording, recording.shown(options.metric)?, options)?;
    let steps = (split != ThreadSplit::None).then(|| other.thread_steps(split));
    Ok((other, steps))
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

/// Inputs of the trees of both sides.
struct Trees<'c, 's, 'p> {
    picture: &'c ChangeOf<'s, 'p>,
    /// A step for each thread of the other side, unless all are merged.
    threads: Option<&'c [Step]>,
    query: &'c Query,
    namesakes: &'c Namesakes,
}

impl Trees<'_, '_, '_> {
    fn changes(
        &self,
        here: BoxSide<'_, '_>,
        there: BoxSide<'_, '_>,
        shown: usize,
    ) -> Result<BoxChanges, Failure> {
        let other = self.query.call_tree(there.selection, self.threads);
        let direction = self.query.direction;
        let tree = BoxTree {
            tree: self.picture.tree,
            layout: BoxLayout::Stacks(direction, self.picture.threads),
            left_out: below_namesakes(self.picture.tree, &here.selection.labels, self.namesakes),
        };
        let other = BoxTree {
            tree: &other,
            layout: BoxLayout::Stacks(direction, self.threads),
            left_out: below_namesakes(&other, &there.selection.labels, self.namesakes),
        };
        BoxChanges::new((here, &tree), (there, &other), shown)
    }
}

/// Returns the changes of the callers and callees of a function, which are not computed again if they are `known`.
fn sandwich_changes(
    here: BoxSide<'_, '_>,
    there: BoxSide<'_, '_>,
    sandwich: &Sandwich,
    sides: &ChangeSides,
    known: Option<&Change>,
) -> Result<Arc<SandwichChanges>, Failure> {
    let label = here.selection.labels.get(sandwich.label);
    let key = label.key();
    let known = known.and_then(|known| known.sandwich.as_ref()).filter(|known| known.key == key);
    if let Some(known) = known {
        return Ok(Arc::clone(known));
    }
    let [callers, callees] = match sides.twin(label, there.selection) {
        Ok(twin) => BoxChanges::of_sandwich(here, there, (sandwich, twin), sides.shown)?,
        // Nothing is compared.
        Err(SeveralTwins) => <[BoxChanges; 2]>::default(),
    };
    Ok(Arc::new(SandwichChanges { key, callers, callees }))
}

/// Returns the changes of the lines of a function, likewise.
fn line_changes(
    here: BoxSide<'_, '_>,
    there: BoxSide<'_, '_>,
    sheet: &SourceSheet,
    sides: &ChangeSides,
    known: Option<&Change>,
) -> Result<Arc<LineChanges>, Failure> {
    let known = known.and_then(|known| known.lines.as_ref()).filter(|known| known.key == sheet.key);
    if let Some(known) = known {
        return Ok(Arc::clone(known));
    }
    let twin = |label: &Label| sides.twin(label, there.selection);
    Ok(Arc::new(LineChanges::new(sheet, here, there, twin, sides.shown)?))
}

/// The nodes at or below one of several threads of a name.
fn below_namesakes(tree: &CallTree, labels: &Labels, namesakes: &Namesakes) -> Vec<NodeId> {
    let mut is_below = vec![false; tree.nodes().len()];
    // Parents come before their children.
    for (id, node) in tree.nodes() {
        let label = labels.get(node.label);
        is_below[id.index()] = node.parent.is_some_and(|parent| is_below[parent.index()])
            || label.kind == LabelKind::Task && namesakes.has_name(&RowLabel::of(label).key.name);
    }
    tree.nodes().map(|(id, _)| id).filter(|id| is_below[id.index()]).collect()
}

/// The threads of a row, by their names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadsOf<'r> {
    thread: &'r str,
    process: &'r str,
    /// All threads of a process.
    pub(crate) is_process: bool,
}

impl ThreadsOf<'_> {
    /// The row of a comparison that has them.
    fn key(&self) -> DiffRowKey {
        DiffRowKey { name: self.thread.to_owned(), module: self.process.to_owned(), line: None }
    }
}

impl<'r> From<&'r ThreadRow> for ThreadsOf<'r> {
    fn from(row: &'r ThreadRow) -> Self {
        ThreadsOf { thread: &row.thread, process: &row.process, is_process: row.pid.is_some() }
    }
}

impl<'r> From<&'r TimelineRow> for ThreadsOf<'r> {
    fn from(row: &'r TimelineRow) -> Self {
        ThreadsOf { thread: &row.thread, process: &row.process, is_process: row.pid.is_some() }
    }
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
