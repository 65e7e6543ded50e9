//! The call paths of both sides in one tree.

use super::difference::{Difference, costs_to_name};
use super::row_label::RowLabel;
use super::sums::path_parts::path_key;
use super::sums::run_row::RunPath;
use crate::base::failure::Failure;
use rustc_hash::{FxHashMap, FxHashSet};

/// A call path: a function below its callers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DiffNode {
    /// Row of the function.
    pub(crate) row: u32,
    /// Index of the caller; `None` for a root.
    pub(crate) parent: Option<u32>,
    /// Distance from the root.
    pub(crate) depth: u32,
    /// Self values of the base and of the new side: means over their runs.
    pub(crate) own: [f64; 2],
    /// Total values of the base and of the new side.
    pub(crate) total: [f64; 2],
    /// Indices of the callees, the one with the largest total first.
    pub(crate) children: Vec<u32>,
    /// Test of the totals, if they are large enough and tests were asked for.
    pub(crate) tested: Option<Difference>,
}

impl DiffNode {
    /// The larger of the two totals.
    pub(crate) fn larger(&self) -> f64 {
        self.total[0].max(self.total[1])
    }

    /// The totals by which its change is named and coloured.
    pub(crate) fn costs_to_name(&self) -> [f64; 2] {
        costs_to_name(self.total, self.tested.as_ref())
    }
}

/// All call paths of both sides. Callers come before callees.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct DiffTree {
    /// The call paths.
    pub(crate) nodes: Vec<DiffNode>,
    /// Indices of the paths without a caller, the one with the largest total first.
    pub(crate) roots: Vec<u32>,
}

/// Builds a tree from runs.
#[derive(Debug, Default)]
pub(crate) struct DiffTreeBuilder {
    nodes: Vec<DiffNode>,
    known: FxHashMap<(Option<u32>, u32), u32>,
}

impl DiffTreeBuilder {
    /// Adds the paths of a run of `side`. `rows` maps the run's rows to row numbers; each weight is multiplied by
    /// `scale`.
    pub(crate) fn add(&mut self, side: usize, paths: &[RunPath], rows: &[u32], scale: f64) {
        let mut node_of: Vec<u32> = Vec::with_capacity(paths.len());
        for path in paths {
            let parent = path.parent.map(|parent| node_of[parent as usize]);
            let row = rows[path.row as usize];
            let next = self.nodes.len() as u32;
            let id = *self.known.entry((parent, row)).or_insert(next);
            if id == next {
                let depth = parent.map_or(0, |parent| self.nodes[parent as usize].depth + 1);
                let children = Vec::new();
                let (own, total) = ([0.0; 2], [0.0; 2]);
                self.nodes.push(DiffNode { row, parent, depth, own, total, children, tested: None });
            }
            self.nodes[id as usize].own[side] += path.own * scale;
            node_of.push(id);
        }
    }

    /// Finishes the tree; siblings of equal weight are sorted by name.
    pub(crate) fn finish(mut self, labels: &[RowLabel]) -> DiffTree {
        let mut roots = Vec::new();
        for id in (0..self.nodes.len()).rev() {
            let node = &mut self.nodes[id];
            for side in 0..2 {
                node.total[side] += node.own[side];
            }
            let (total, parent) = (node.total, node.parent);
            match parent {
                Some(parent) => {
                    let parent = &mut self.nodes[parent as usize];
                    parent.children.push(id as u32);
                    (0..2).for_each(|side| parent.total[side] += total[side]);
                }
                None => roots.push(id as u32),
            }
        }
        let mut lists: Vec<Vec<u32>> =
            self.nodes.iter_mut().map(|node| std::mem::take(&mut node.children)).collect();
        for list in lists.iter_mut().chain([&mut roots]) {
            list.sort_by(|a, b| {
                let [a, b] = [a, b].map(|id| &self.nodes[*id as usize]);
                let key = |node: &DiffNode| &labels[node.row as usize].key;
                b.larger().total_cmp(&a.larger()).then_with(|| key(a).cmp(key(b)))
            });
        }
        self.nodes.iter_mut().zip(lists).for_each(|(node, list)| node.children = list);
        DiffTree { nodes: self.nodes, roots }
    }
}

impl DiffTree {
    /// Tests the paths: `compare` gets the keys of those that are worth a test of their own, and returns the differences of
    /// their totals. What has the samples of its caller is tested with it.
    ///
    /// # Errors
    ///
    /// Those of `compare`.
    pub(crate) fn test(
        &mut self,
        labels: &[RowLabel],
        compare: impl FnOnce(&FxHashSet<u64>) -> Result<FxHashMap<u64, Difference>, Failure>,
    ) -> Result<(), Failure> {
        let mut keys: Vec<u64> = Vec::with_capacity(self.nodes.len());
        let mut parts: Vec<u64> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let parent = node.parent.map(|parent| parent as usize);
            let key = path_key(parent.map(|parent| keys[parent]), &labels[node.row as usize].key);
            let same = parent.filter(|parent| self.nodes[*parent].total == node.total);
            parts.push(same.map_or(key, |parent| parts[parent]));
            keys.push(key);
        }
        let tested = compare(&parts.iter().copied().collect())?;
        for (node, part) in self.nodes.iter_mut().zip(parts) {
            node.tested = tested.get(&part).copied();
        }
        Ok(())
    }

    /// The node `id`, which must be from this tree.
    pub(crate) fn node(&self, id: u32) -> &DiffNode {
        &self.nodes[id as usize]
    }

    /// All nodes that `keep` accepts along with all their ancestors, in display order.
    pub(crate) fn walk(&self, keep: impl Fn(&DiffNode) -> bool) -> Vec<u32> {
        let mut order = Vec::new();
        let mut pending: Vec<u32> = self.roots.iter().rev().copied().collect();
        while let Some(id) = pending.pop() {
            if keep(self.node(id)) {
                order.push(id);
                pending.extend(self.node(id).children.iter().rev());
            }
        }
        order
    }

    /// The rows from the node `id` to its root, the innermost first.
    pub(crate) fn path(&self, id: u32) -> impl Iterator<Item = u32> {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let node = self.node(next?);
            next = node.parent;
            Some(node.row)
        })
    }
}
