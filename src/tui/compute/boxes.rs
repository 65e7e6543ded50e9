//! The boxes of a tree on both sides of a comparison: what each costs, and how sure its change is.

use crate::base::failure::Failure;
use crate::diff::{Difference, PairSide, PartSums, TESTED_SHARE, compare_parts};
use crate::report::{CallTree, Direction, Group, LabelId, NodeId, Sandwich, Selection, Step};
use rustc_hash::FxHashMap;

/// Marks a node whose path only one side has, or which is not compared.
const NO_PATH: u32 = u32::MAX;

/// How samples lie in a tree.
#[derive(Debug, Clone, Copy)]
pub(super) enum BoxPaths<'s> {
    /// Along their stacks, with their threads at the outer end unless all are merged: a step for each.
    Stacks(Direction, Option<&'s [Step]>),
    /// From a function, if it is there, to its callers.
    Callers(Option<LabelId>),
    /// From a function, if it is there, to its callees.
    Callees(Option<LabelId>),
}

/// A side whose boxes are compared.
#[derive(Clone, Copy)]
pub(super) struct BoxSide<'s, 'p> {
    pub(super) side: PairSide<'s>,
    pub(super) selection: &'s Selection<'p>,
    /// Number of each label, the same on both sides for what is compared.
    pub(super) keys: &'s [u32],
    /// What weights are divided by.
    pub(super) divisor: f64,
}

/// A tree of the samples of a side.
pub(super) type BoxTree<'s> = (&'s CallTree, BoxPaths<'s>);

/// How the boxes of a tree have changed.
#[derive(Debug, Default)]
pub(crate) struct BoxChanges {
    /// The path of each node, by name.
    path_of: Vec<u32>,
    /// What each path costs in the base and on the new side.
    costs: Vec<[f64; 2]>,
    /// The changes of paths that are large enough to be tested.
    tested: FxHashMap<u32, Difference>,
}

/// How a box has changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoxChange<'c> {
    /// What it costs in the base and on the new side, in the unit that is compared.
    pub(crate) costs: [f64; 2],
    /// The same with its error, if it is large enough.
    pub(crate) tested: Option<&'c Difference>,
}

impl BoxChanges {
    /// Those of the first of two trees, one of each side: that of `here`, which is the base if `shown` is 0, and of `there`.
    ///
    /// # Errors
    ///
    /// When the two sides have different events.
    pub(super) fn new(
        (here, tree): (BoxSide<'_, '_>, BoxTree<'_>),
        (there, other): (BoxSide<'_, '_>, BoxTree<'_>),
        shown: usize,
    ) -> Result<Self, Failure> {
        let mut paths = PathTotals::default();
        let path_of = paths.add((tree.0, here.keys), 0, true);
        paths.add((other.0, there.keys), 1, false);
        let wholes = [here.selection.total.weight, there.selection.total.weight];
        let large: Vec<bool> = paths.totals.iter().map(|totals| is_tested(*totals, wholes)).collect();
        let (known, large) = (&paths.known, large.as_slice());
        let (of_here, of_there) =
            rayon::join(|| here.sums(tree.1, known, large), || there.sums(other.1, known, large));
        let tested = compare_parts(in_order(shown, [of_here, of_there]))?;
        let cost = |[a, b]: &[u64; 2]| in_order(shown, [*a as f64 / here.divisor, *b as f64 / there.divisor]);
        Ok(BoxChanges { path_of, costs: paths.totals.iter().map(cost).collect(), tested })
    }

    /// Those of the callers, and those of the callees of a function of `here`.
    ///
    /// # Errors
    ///
    /// As [`BoxChanges::new`].
    pub(super) fn of_sandwich(
        here: BoxSide<'_, '_>,
        there: BoxSide<'_, '_>,
        sandwich: &Sandwich,
        shown: usize,
    ) -> Result<[Self; 2], Failure> {
        let key = here.keys[sandwich.label.index()];
        let label = there.selection.labels.ids().find(|label| there.keys[label.index()] == key);
        let other = label.and_then(|label| Sandwich::new(there.selection, label));
        let none = CallTree::default();
        let (up, down) = other.as_ref().map_or((&none, &none), |other| (&other.callers, &other.callees));
        let this = Some(sandwich.label);
        let callers = [(&sandwich.callers, BoxPaths::Callers(this)), (up, BoxPaths::Callers(label))];
        let callees = [(&sandwich.callees, BoxPaths::Callees(this)), (down, BoxPaths::Callees(label))];
        let changes = |[tree, other]: [BoxTree<'_>; 2]| Self::new((here, tree), (there, other), shown);
        Ok([changes(callers)?, changes(callees)?])
    }

    /// The change of a node of the tree; `None` where it is not compared.
    pub(crate) fn of(&self, id: NodeId) -> Option<BoxChange<'_>> {
        let path = *self.path_of.get(id.index())?;
        let costs = *self.costs.get(path as usize)?;
        Some(BoxChange { costs, tested: self.tested.get(&path) })
    }

    /// Takes nodes out of the comparison.
    pub(super) fn leave_out(&mut self, nodes: &[NodeId]) {
        nodes.iter().for_each(|id| self.path_of[id.index()] = NO_PATH);
    }
}

/// The base and the new side of what is shown and the other.
pub(super) fn in_order<T>(shown: usize, [here, there]: [T; 2]) -> [T; 2] {
    if shown == 0 { [here, there] } else { [there, here] }
}

/// Whether a path with these totals is tested, where everything on each side is `wholes`.
fn is_tested(totals: [u64; 2], wholes: [u64; 2]) -> bool {
    totals.iter().zip(wholes).any(|(total, whole)| *total > 0 && *total as f64 >= TESTED_SHARE * whole as f64)
}

impl BoxPaths<'_> {
    /// The steps of samples in the tree, from its root on; none if they are not in it.
    fn fill(self, path: &[Step], group: &Group, steps: &mut Vec<LabelId>) {
        steps.clear();
        let label = |step: &Step| step.label;
        match self {
            BoxPaths::Stacks(direction, threads) => {
                let thread = threads.and_then(|threads| threads.get(group.task.index())).map(label);
                match direction {
                    Direction::TopDown => steps.extend(thread.into_iter().chain(path.iter().map(label))),
                    Direction::BottomUp => steps.extend(path.iter().rev().map(label).chain(thread)),
                }
            }
            BoxPaths::Callers(pivot) => {
                if let Some([outermost, _]) = pivot.and_then(|pivot| Sandwich::calls_of(path, pivot)) {
                    steps.extend(path[..=outermost].iter().rev().map(label));
                }
            }
            BoxPaths::Callees(pivot) => {
                if let Some([_, innermost]) = pivot.and_then(|pivot| Sandwich::calls_of(path, pivot)) {
                    steps.extend(path[innermost..].iter().map(label));
                }
            }
        }
    }
}

impl BoxSide<'_, '_> {
    /// What those paths of `known` cost that are `large`.
    fn sums(self, way: BoxPaths<'_>, known: &FxHashMap<(u32, u32), u32>, large: &[bool]) -> PartSums {
        let mut steps = Vec::new();
        let mut finder = PathFinder { known, large, last: Vec::new() };
        PartSums::of(self.side, self.selection, |path, group, found| {
            way.fill(path, group, &mut steps);
            finder.find(steps.iter().map(|label: &LabelId| self.keys[label.index()]), found);
        })
    }
}

/// Finds the numbers of paths; most share their first steps with the one before.
struct PathFinder<'k> {
    known: &'k FxHashMap<(u32, u32), u32>,
    large: &'k [bool],
    /// Keys and paths of the steps that were found last.
    last: Vec<(u32, u32)>,
}

impl PathFinder<'_> {
    /// Adds the large paths from a root down along `keys` to `found`.
    fn find(&mut self, keys: impl Iterator<Item = u32>, found: &mut Vec<u32>) {
        let mut depth = 0;
        for key in keys {
            if self.last.get(depth).is_none_or(|(last, _)| *last != key) {
                self.last.truncate(depth);
                let parent = self.last.last().map_or(0, |(_, path)| path + 1);
                // What is below a small path is small as well.
                let path = self.known.get(&(parent, key)).filter(|path| self.large[**path as usize]);
                let Some(path) = path else { break };
                self.last.push((key, *path));
            }
            found.push(self.last[depth].1);
            depth += 1;
        }
        self.last.truncate(depth);
    }
}

/// Totals of paths by name.
#[derive(Debug, Default)]
struct PathTotals {
    /// Path of a caller's path, from 1, and the number of a function.
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
