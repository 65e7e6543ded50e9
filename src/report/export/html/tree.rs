//! The call tree of a selection for a page: threads below the root, then frames, each a child of its caller. Callers
//! come before callees.
//!
//! A page has a limit of boxes. Boxes with the smallest totals are left out, the deepest first among equals, so that
//! what is kept stays connected. Each box with children left out gets one box of the kind `rest` with their sum. Totals
//! stay exact.

use super::labels::{BoxKind, PageLabel, PageLabels};
use crate::report::model::amount::Amount;
use crate::report::model::label::Step;
use crate::report::naming::style::NameStyle;
use crate::report::naming::thread_class::ThreadClasses;
use crate::report::options::ThreadSplit;
use crate::report::query::selection::Selection;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Most boxes of one tree.
const MOST_BOXES: usize = 100_000;

/// Added to four times the label if the function was inlined.
const INLINED: u32 = 1;

/// Added to four times the label if all its time is waiting.
const WAITING: u32 = 2;

/// Index of a node; node 0 is the root.
type Index = u32;

#[derive(Debug)]
struct PageNode {
    parent: Index,
    depth: u32,
    label: PageLabel,
    is_inlined: bool,
    /// Whether some of its time is not waiting.
    runs: bool,
    own: Amount,
}

/// Call tree of all distinct stacks.
#[derive(Debug)]
pub(super) struct PageTree {
    nodes: Vec<PageNode>,
}

/// Whether boxes show weights or counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Weighing {
    /// Whether to show the number of samples or waits instead of the event's unit.
    pub(super) count: bool,
}

impl Weighing {
    /// The value to show for `amount`.
    pub(super) fn of(self, amount: Amount) -> u64 {
        if self.count { amount.count() } else { amount.weight }
    }
}

/// A number of samples or waits; one of them may be weighted as one and a half.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Occurrences {
    /// A whole number.
    Whole(u64),
    /// Any other number.
    Part(f64),
}

impl Occurrences {
    /// The number that `amount` is weighted as.
    pub(super) fn of(amount: Amount) -> Self {
        match amount.count_thousandths {
            whole if whole.is_multiple_of(1000) => Occurrences::Whole(whole / 1000),
            part => Occurrences::Part(part as f64 / 1000.0),
        }
    }
}

/// A tree in the form that the page reads: one row per box, in breadth-first order, the root first.
#[derive(Debug, Default, Serialize)]
pub(super) struct TreeColumns {
    /// Row of the parent box, as the difference to that of the row before.
    up: Vec<u32>,
    /// Four times the label, plus 1 for an inlined function, plus 2 if it only waits.
    at: Vec<u32>,
    /// Self weight.
    own: Vec<u64>,
    /// Number of samples or waits that end in the box.
    n: Vec<Occurrences>,
}

/// Boxes that the page leaves out of a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct LeftOut {
    /// Number of boxes.
    pub(super) boxes: u64,
    /// Total of the largest of them, percent of the whole.
    pub(super) largest_pct: f64,
}

impl PageTree {
    /// The tree of `selection`, with names in the style of `names`.
    pub(super) fn new(selection: &Selection<'_>, names: NameStyle, labels: &mut PageLabels) -> Self {
        let mut builder = PageTreeBuilder::new(selection, names, labels);
        let tables = &selection.profile.tables;
        let classes = ThreadClasses::of(tables, ThreadSplit::Class);
        // Classes still offer a choice of their threads, so the tree holds single threads.
        let split = selection.thread_split().filter(|split| *split != ThreadSplit::Class);
        let names = ThreadClasses::of(tables, split.unwrap_or(ThreadSplit::Name)).names_of_tasks(tables);
        let threads: Vec<PageLabel> = (names.iter().zip(tables.tasks()))
            .map(|(name, task)| {
                let class = classes.key_of(task);
                builder.labels.of_thread(name, classes.name(class), &classes.title(class))
            })
            .collect();
        // The page takes children of the root for threads.
        let all = threads.is_empty().then(|| builder.labels.of_text("all threads", BoxKind::Thread));
        let mut path = Vec::new();
        selection.for_each_path(|steps, groups| {
            path.clear();
            path.push((all.unwrap_or_default(), false));
            path.extend(steps.iter().map(|step| (builder.label_of(step), step.is_inlined)));
            for group in groups {
                if let Some(thread) = threads.get(group.task.index()) {
                    path[0].0 = *thread;
                }
                builder.add(&path, group.amount, group.activity.reason().is_none());
            }
        });
        builder.finish()
    }

    /// Sum of all stacks.
    #[cfg(test)]
    pub(super) fn total(&self) -> Amount {
        self.totals().first().copied().unwrap_or_default()
    }

    /// Total of each box: what ends in the box or in one of its descendants.
    fn totals(&self) -> Vec<Amount> {
        let mut totals: Vec<Amount> = self.nodes.iter().map(|node| node.own).collect();
        for id in (1..self.nodes.len()).rev() {
            let above = totals[id];
            totals[self.nodes[id].parent as usize].add(above);
        }
        totals
    }

    /// The rows of the boxes with at least `least_percent` of the whole, as many as a page holds.
    pub(super) fn columns(
        &self,
        weighing: Weighing,
        least_percent: f64,
        rest: PageLabel,
    ) -> (TreeColumns, LeftOut) {
        self.columns_within(MOST_BOXES, weighing, least_percent, rest)
    }

    fn columns_within(
        &self,
        most: usize,
        weighing: Weighing,
        least_percent: f64,
        rest: PageLabel,
    ) -> (TreeColumns, LeftOut) {
        let totals = self.totals();
        let whole = totals.first().map_or(0, |total| weighing.of(*total));
        let least = whole as f64 * least_percent / 100.0;
        let (kept, left_out) = self.kept(most, &totals, weighing, least);
        // Sum of what is left out directly below each kept box.
        let mut rests: FxHashMap<Index, Amount> = FxHashMap::default();
        let mut children: Vec<Vec<Index>> = vec![Vec::new(); self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate().skip(1) {
            if kept[id] {
                children[node.parent as usize].push(id as Index);
            } else if kept[node.parent as usize] {
                rests.entry(node.parent).or_default().add(totals[id]);
            }
        }
        let mut columns = TreeColumns::default();
        let mut last_up = 0;
        // Boxes to write, each with the row of its parent; `None` for a rest.
        let mut pending: VecDeque<(Option<Index>, u32, Amount)> =
            VecDeque::from([(Some(0), 0, Amount::default())]);
        while let Some((id, up, rest_of)) = pending.pop_front() {
            let number = columns.up.len() as u32;
            columns.up.push(up - last_up);
            last_up = up;
            let Some(id) = id else {
                columns.push(rest * 4, rest_of, weighing);
                continue;
            };
            let node = &self.nodes[id as usize];
            let marks = if node.is_inlined { INLINED } else { 0 } | if node.runs { 0 } else { WAITING };
            columns.push(node.label * 4 + marks, node.own, weighing);
            let standing = std::mem::take(&mut children[id as usize]);
            pending.extend(standing.into_iter().map(|child| (Some(child), number, Amount::default())));
            pending.extend(rests.remove(&id).map(|rest_of| (None, number, rest_of)));
        }
        (columns, left_out)
    }

    /// Which boxes the page shows, and what it leaves out.
    fn kept(&self, most: usize, totals: &[Amount], weighing: Weighing, least: f64) -> (Vec<bool>, LeftOut) {
        let value = |id: usize| weighing.of(totals[id]);
        let is_wide = |id: &usize| value(*id) > 0 && value(*id) as f64 >= least;
        let mut order: Vec<usize> = (1..self.nodes.len()).filter(is_wide).collect();
        if order.len() > most {
            // A caller has at least the total of its callees and is less deep, so it is kept when they are.
            order.select_nth_unstable_by_key(most, |id| (Reverse(value(*id)), self.nodes[*id].depth, *id));
            order.truncate(most);
        }
        let mut kept = vec![false; self.nodes.len()];
        kept[0] = true;
        order.iter().for_each(|id| kept[*id] = true);
        let left: Vec<usize> = (1..self.nodes.len()).filter(|id| !kept[*id] && value(*id) > 0).collect();
        let largest = left.iter().map(|id| value(*id)).max().unwrap_or(0);
        let whole = value(0);
        let largest_pct = crate::base::units::percent(largest, whole);
        (kept, LeftOut { boxes: left.len() as u64, largest_pct })
    }
}

impl TreeColumns {
    fn push(&mut self, at: u32, own: Amount, weighing: Weighing) {
        self.at.push(at);
        self.own.push(weighing.of(own));
        self.n.push(Occurrences::of(own));
    }
}

/// Builds a tree from stacks.
struct PageTreeBuilder<'s, 'p, 'l> {
    selection: &'s Selection<'p>,
    names: NameStyle,
    labels: &'l mut PageLabels,
    of_label: Vec<Option<PageLabel>>,
    children: FxHashMap<(Index, PageLabel, bool), Index>,
    /// The stack that was added last, with its nodes: consecutive stacks share their first frames.
    last: Vec<((PageLabel, bool), Index)>,
    tree: PageTree,
}

impl<'s, 'p, 'l> PageTreeBuilder<'s, 'p, 'l> {
    fn new(selection: &'s Selection<'p>, names: NameStyle, labels: &'l mut PageLabels) -> Self {
        let label = labels.of_text("all", BoxKind::Thread);
        let (own, runs) = (Amount::default(), false);
        let root = PageNode { parent: 0, depth: 0, label, is_inlined: false, runs, own };
        PageTreeBuilder {
            selection,
            names,
            of_label: vec![None; selection.labels.len()],
            labels,
            children: FxHashMap::default(),
            last: Vec::new(),
            tree: PageTree { nodes: vec![root] },
        }
    }

    fn label_of(&mut self, step: &Step) -> PageLabel {
        let index = step.label.index();
        if let Some(known) = self.of_label[index] {
            return known;
        }
        let label = self.labels.of_label(self.selection, step.label, self.names);
        self.of_label[index] = Some(label);
        label
    }

    fn add(&mut self, path: &[(PageLabel, bool)], amount: Amount, runs: bool) {
        let shared = self.last.iter().zip(path).take_while(|((step, _), other)| step == *other).count();
        self.last.truncate(shared);
        let mut at = self.last.last().map_or(0, |(_, node)| *node);
        for &(label, is_inlined) in &path[shared..] {
            let next = self.tree.nodes.len() as Index;
            let id = *self.children.entry((at, label, is_inlined)).or_insert(next);
            if id == next {
                let depth = self.tree.nodes[at as usize].depth + 1;
                let (own, runs) = (Amount::default(), false);
                self.tree.nodes.push(PageNode { parent: at, depth, label, is_inlined, runs, own });
            }
            self.last.push(((label, is_inlined), id));
            at = id;
        }
        let node = &mut self.tree.nodes[at as usize];
        node.own.add(amount);
        node.runs |= runs;
    }

    fn finish(mut self) -> PageTree {
        for id in (1..self.tree.nodes.len()).rev() {
            let (parent, runs) = (self.tree.nodes[id].parent, self.tree.nodes[id].runs);
            self.tree.nodes[parent as usize].runs |= runs;
        }
        self.tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::CommonOptions;
    use crate::report::tests::fixture::Build;

    const SHOWN: Weighing = Weighing { count: true };

    fn tree(stacks: &[(u64, &[&str])]) -> (PageTree, PageLabels) {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        stacks.iter().for_each(|(samples, stack)| build.add(task, *samples, stack));
        let recording = build.finish();
        let mut labels = PageLabels::default();
        let selection = recording.select(&CommonOptions::default()).unwrap();
        (PageTree::new(&selection, NameStyle::Full, &mut labels), labels)
    }

    /// `name@parent own` for each row.
    fn rows(columns: &TreeColumns, labels: &PageLabels) -> Vec<String> {
        let mut up = 0;
        (0..columns.up.len())
            .map(|row| {
                up += columns.up[row];
                let name = labels.text(columns.at[row] / 4).0;
                format!("{name}@{up} {}", columns.own[row])
            })
            .collect()
    }

    #[test]
    fn callers_come_before_what_they_call() {
        let (tree, mut labels) =
            tree(&[(5, &["/x:a", "/x:b"]), (2, &["/x:a", "/x:b⇒c"]), (1, &["/x:a", "/x:d"]), (3, &["/x:a"])]);
        assert_eq!(tree.total().count(), 11);
        let rest = labels.of_text("rest", BoxKind::Rest);
        let (columns, left_out) = tree.columns(SHOWN, 0.0, rest);
        assert_eq!(left_out, LeftOut::default());
        assert_eq!(rows(&columns, &labels), ["all@0 0", "t@0 0", "a@1 3", "b@2 5", "d@2 1", "c@3 2"]);
        // The last frame is inlined, and nothing waits.
        assert_eq!(columns.at.iter().map(|at| at % 4).collect::<Vec<_>>(), [0, 0, 0, 0, 0, INLINED]);
    }

    #[test]
    fn what_is_left_out_is_the_smallest_and_deepest_and_keeps_its_sum() {
        let (tree, mut labels) =
            tree(&[(5, &["/x:a", "/x:b"]), (1, &["/x:a", "/x:c", "/x:d", "/x:e"]), (1, &["/x:a", "/x:f"])]);
        let rest = labels.of_text("rest", BoxKind::Rest);
        let (columns, left_out) = tree.columns_within(4, SHOWN, 0.0, rest);
        assert_eq!(
            rows(&columns, &labels),
            ["all@0 0", "t@0 0", "a@1 0", "b@2 5", "c@2 0", "rest@2 1", "rest@4 1"]
        );
        assert_eq!(left_out.boxes, 3);
        assert!((left_out.largest_pct - 100.0 / 7.0).abs() < 1e-9);
        assert_eq!(columns.own.iter().sum::<u64>(), 7);
        let (columns, left_out) = tree.columns(SHOWN, 50.0, rest);
        assert_eq!(rows(&columns, &labels), ["all@0 0", "t@0 0", "a@1 0", "b@2 5", "rest@2 2"]);
        assert_eq!(left_out.boxes, 4);
    }
}
