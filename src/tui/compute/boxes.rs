//! The boxes of a tree on both sides of a comparison: what each costs, and how sure its change is.

use crate::base::failure::Failure;
use crate::diff::{
    Difference, KnownPaths, NO_PART, PairSide, PartSums, PathFinder, TESTED_SHARE, compare_parts,
    costs_to_name,
};
use crate::report::{CallTree, Direction, Group, LabelId, NodeId, Sandwich, Selection, Step};
use rustc_hash::FxHashMap;

/// Arrangement of samples in a tree.
#[derive(Debug, Clone, Copy)]
pub(super) enum BoxLayout<'s> {
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
    /// Divisor of weights.
    pub(super) divisor: f64,
}

/// A tree of the samples of a side.
pub(super) struct BoxTree<'s> {
    pub(super) tree: &'s CallTree,
    pub(super) layout: BoxLayout<'s>,
    /// Nodes that are not compared, with all below them.
    pub(super) left_out: Vec<NodeId>,
}

impl<'s> BoxTree<'s> {
    /// A tree of which all nodes are compared.
    fn whole(tree: &'s CallTree, layout: BoxLayout<'s>) -> Self {
        BoxTree { tree, layout, left_out: Vec::new() }
    }
}

/// Changes of the boxes of a tree.
#[derive(Debug, Default)]
pub(crate) struct BoxChanges {
    /// Costs of each node in the base and on the new side, and its part; `None` where it is not compared.
    nodes: Vec<Option<([f64; 2], u32)>>,
    /// The changes of parts.
    tested: FxHashMap<u64, Difference>,
}

/// Change of a box.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoxChange<'c> {
    /// Costs of the box in the base and on the new side, in the unit that is compared.
    pub(crate) costs: [f64; 2],
    /// The same with its error, if it is large enough.
    pub(crate) tested: Option<&'c Difference>,
}

impl BoxChange<'_> {
    /// The costs by which its change is named and coloured.
    pub(crate) fn costs_to_name(&self) -> [f64; 2] {
        costs_to_name(self.costs, self.tested)
    }
}

impl BoxChanges {
    /// Changes in the first of two trees, one of each side: that of `here`, which is the base if `shown` is 0, and of `there`.
    ///
    /// # Errors
    ///
    /// When the two sides have different events.
    pub(super) fn new(
        (here, tree): (BoxSide<'_, '_>, &BoxTree<'_>),
        (there, other): (BoxSide<'_, '_>, &BoxTree<'_>),
        shown: usize,
    ) -> Result<Self, Failure> {
        let mut paths = NamedPaths::default();
        let path_of = paths.add(tree, here.keys, 0);
        paths.add(other, there.keys, 1);
        let wholes = [here.selection.total.weight, there.selection.total.weight];
        let part_of = paths.parts(wholes);
        let (known, parts) = (&paths.known, part_of.as_slice());
        let (of_here, of_there) =
            rayon::join(|| here.sums(tree.layout, known, parts), || there.sums(other.layout, known, parts));
        let tested = compare_parts(in_order(shown, [of_here, of_there]))?;
        let node = |path: u32| {
            let NamedPath { totals: [a, b], is_left_out, .. } = paths.paths[path as usize];
            let costs = in_order(shown, [a as f64 / here.divisor, b as f64 / there.divisor]);
            (!is_left_out).then_some((costs, part_of[path as usize]))
        };
        Ok(BoxChanges { nodes: path_of.into_iter().map(node).collect(), tested })
    }

    /// Changes of the callers, and of the callees, of a function of `here`, which is `twin` on the other side.
    ///
    /// # Errors
    ///
    /// As [`BoxChanges::new`].
    pub(super) fn of_sandwich(
        here: BoxSide<'_, '_>,
        there: BoxSide<'_, '_>,
        (sandwich, twin): (&Sandwich, Option<LabelId>),
        shown: usize,
    ) -> Result<[Self; 2], Failure> {
        let other = twin.and_then(|twin| Sandwich::new(there.selection, twin));
        let none = CallTree::default();
        let (up, down) = other.as_ref().map_or((&none, &none), |other| (&other.callers, &other.callees));
        let this = Some(sandwich.label);
        let changes = |tree, other| Self::new((here, &tree), (there, &other), shown);
        Ok([
            changes(
                BoxTree::whole(&sandwich.callers, BoxLayout::Callers(this)),
                BoxTree::whole(up, BoxLayout::Callers(twin)),
            )?,
            changes(
                BoxTree::whole(&sandwich.callees, BoxLayout::Callees(this)),
                BoxTree::whole(down, BoxLayout::Callees(twin)),
            )?,
        ])
    }

    /// The change of a node of the tree; `None` where it is not compared.
    pub(crate) fn of(&self, id: NodeId) -> Option<BoxChange<'_>> {
        let (costs, part) = (*self.nodes.get(id.index())?)?;
        Some(BoxChange { costs, tested: self.tested.get(&u64::from(part)) })
    }
}

/// The base and the new side of what is shown and the other.
pub(super) fn in_order<T>(shown: usize, [here, there]: [T; 2]) -> [T; 2] {
    if shown == 0 { [here, there] } else { [there, here] }
}

impl BoxLayout<'_> {
    /// Whether samples of one path lie elsewhere if they are of another thread.
    fn has_threads(self) -> bool {
        matches!(self, BoxLayout::Stacks(_, Some(_)))
    }

    /// The steps of samples in the tree, from its root on; none if they are not in it.
    fn fill(self, path: &[Step], group: &Group, steps: &mut Vec<LabelId>) {
        steps.clear();
        let label = |step: &Step| step.label;
        match self {
            BoxLayout::Stacks(direction, threads) => {
                let thread = threads.and_then(|threads| threads.get(group.task.index())).map(label);
                match direction {
                    Direction::TopDown => steps.extend(thread.into_iter().chain(path.iter().map(label))),
                    Direction::BottomUp => steps.extend(path.iter().rev().map(label).chain(thread)),
                }
            }
            BoxLayout::Callers(pivot) => {
                if let Some([outermost, _]) = pivot.and_then(|pivot| Sandwich::calls_of(path, pivot)) {
                    steps.extend(path[..=outermost].iter().rev().map(label));
                }
            }
            BoxLayout::Callees(pivot) => {
                if let Some([_, innermost]) = pivot.and_then(|pivot| Sandwich::calls_of(path, pivot)) {
                    steps.extend(path[innermost..].iter().map(label));
                }
            }
        }
    }
}

impl BoxSide<'_, '_> {
    /// Sums up the costs of the parts that `part_of` has for the paths of `known`.
    fn sums(self, layout: BoxLayout<'_>, known: &KnownPaths, part_of: &[u32]) -> PartSums {
        let mut steps = Vec::new();
        let mut finder = PathFinder::new(known, part_of);
        PartSums::of(self.side, self.selection, layout.has_threads(), |path, group, found| {
            layout.fill(path, group, &mut steps);
            let keys = steps.iter().map(|label: &LabelId| self.keys[label.index()]);
            finder.find(keys, |part| found.push(u64::from(part)));
        })
    }
}

/// A path by name.
#[derive(Debug, Clone, Copy, Default)]
struct NamedPath {
    /// The path without its last step.
    parent: Option<u32>,
    /// Weight on the side that is shown, and on the other.
    totals: [u64; 2],
    is_left_out: bool,
}

/// The paths of the trees of both sides.
#[derive(Debug, Default)]
struct NamedPaths {
    known: KnownPaths,
    /// Parents come before what is below them.
    paths: Vec<NamedPath>,
}

impl NamedPaths {
    /// Adds the nodes of a tree to `side`. Returns the path of each node.
    fn add(&mut self, tree: &BoxTree<'_>, keys: &[u32], side: usize) -> Vec<u32> {
        let mut of_node: Vec<u32> = Vec::with_capacity(tree.tree.nodes().len());
        // Parents come before their children.
        for (_, node) in tree.tree.nodes() {
            let parent = node.parent.map(|parent| of_node[parent.index()]);
            let next = self.paths.len() as u32;
            let key = (parent.map_or(0, |path| path + 1), keys[node.label.index()]);
            let path = *self.known.entry(key).or_insert(next);
            if path == next {
                self.paths.push(NamedPath { parent, ..NamedPath::default() });
            }
            self.paths[path as usize].totals[side] += node.total.weight;
            of_node.push(path);
        }
        for id in &tree.left_out {
            self.paths[of_node[id.index()] as usize].is_left_out = true;
        }
        of_node
    }

    /// The part that each path is, where everything on each side is `wholes`: what has the same samples as its parent is one
    /// part with it, which is tested once.
    fn parts(&self, wholes: [u64; 2]) -> Vec<u32> {
        let is_large = |path: &NamedPath| {
            let mut sides = path.totals.iter().zip(wholes);
            sides.any(|(total, whole)| *total > 0 && *total as f64 >= TESTED_SHARE * whole as f64)
        };
        let mut part_of: Vec<u32> = Vec::with_capacity(self.paths.len());
        for (path, number) in self.paths.iter().zip(0..) {
            let parent = path.parent.filter(|parent| self.paths[*parent as usize].totals == path.totals);
            part_of.push(match parent {
                _ if path.is_left_out || !is_large(path) => NO_PART,
                Some(parent) => part_of[parent as usize],
                None => number,
            });
        }
        part_of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(parent: Option<u32>, totals: [u64; 2]) -> NamedPath {
        NamedPath { parent, totals, is_left_out: false }
    }

    #[test]
    fn what_has_the_samples_of_its_parent_is_one_part_with_it() {
        let paths = vec![
            path(None, [1_000, 900]),
            path(Some(0), [1_000, 900]),
            path(Some(1), [600, 900]),
            // On one side it is large.
            path(Some(1), [9, 9]),
            path(Some(1), [391, 0]),
            path(Some(2), [600, 900]),
        ];
        let mut paths = NamedPaths { known: KnownPaths::default(), paths };
        assert_eq!(paths.parts([1_000, 900]), [0, 0, 2, 3, 4, 2]);
        assert_eq!(paths.parts([10_000, 9_000]), [0, 0, 2, NO_PART, 4, 2]);
        paths.paths[2].is_left_out = true;
        paths.paths[5].is_left_out = true;
        assert_eq!(paths.parts([1_000, 900]), [0, 0, NO_PART, 3, 4, NO_PART]);
    }
}
