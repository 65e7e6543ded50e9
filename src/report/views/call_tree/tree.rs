//! The arena of nodes, with the siblings in order.

use super::node::{Node, NodeId};
use crate::report::model::amount::Amount;
use crate::report::model::label::Labels;

/// All call paths of a selection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallTree {
    nodes: Vec<Node>,
    /// The children of all nodes, siblings next to each other.
    children: Vec<NodeId>,
    roots: Vec<NodeId>,
    /// Amount of the samples that end in a node, for each in which some do, by id.
    ends: Vec<(NodeId, Amount)>,
    total: Amount,
}

impl CallTree {
    /// The tree of `nodes`, in which samples end as in `ends`, in any order: siblings are sorted by weight.
    pub(super) fn of_nodes(mut nodes: Vec<Node>, ends: Vec<(NodeId, Amount)>, labels: &Labels) -> CallTree {
        let part = TreePart { start: 0, roots_before: 0, nodes: &mut nodes };
        let finished = part.finish(ends, labels);
        Self::of_parts(nodes, vec![finished], labels)
    }

    /// The trees that `nodes` hold, whose `parts` are finished, as one with the roots of all of them.
    pub(super) fn of_parts(nodes: Vec<Node>, parts: Vec<CallTree>, labels: &Labels) -> CallTree {
        let mut parts = parts.into_iter();
        let mut tree = parts.next().unwrap_or_default();
        for part in parts {
            tree.children.extend(part.children);
            tree.roots.extend(part.roots);
            tree.ends.extend(part.ends);
            tree.total.add(part.total);
        }
        tree.nodes = nodes;
        sort_siblings(&mut tree.roots, &tree.nodes, 0, labels);
        tree
    }

    /// The node `id`, which must come from this tree.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Amount of the samples that end in the node `id`.
    pub(crate) fn own(&self, id: NodeId) -> Amount {
        let found = self.ends.binary_search_by_key(&id, |(id, _)| *id);
        found.map_or(Amount::default(), |at| self.ends[at].1)
    }

    /// The nodes that samples end in, with how much does.
    pub(crate) fn ends(&self) -> &[(NodeId, Amount)] {
        &self.ends
    }

    /// The callees of the node `id`, heaviest first.
    pub(crate) fn children(&self, id: NodeId) -> &[NodeId] {
        &self.children[self.node(id).children.range()]
    }

    /// All nodes, parents before children.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId::at(index), node))
    }

    /// Nodes without a parent, heaviest first.
    pub(crate) fn roots(&self) -> &[NodeId] {
        &self.roots
    }

    /// Sum over all roots.
    pub(crate) fn total(&self) -> Amount {
        self.total
    }

    /// All nodes that `keep` accepts along with all their ancestors, in display order: parents first, heavier siblings
    /// first.
    pub(crate) fn walk(&self, keep: impl Fn(&Node) -> bool) -> Vec<NodeId> {
        let mut order = Vec::new();
        let mut pending: Vec<NodeId> = self.roots.iter().rev().copied().collect();
        while let Some(id) = pending.pop() {
            if keep(self.node(id)) {
                order.push(id);
                pending.extend(self.children(id).iter().rev());
            }
        }
        order
    }

    /// The nodes from `id` to its root, `id` first.
    pub(crate) fn path(&self, id: NodeId) -> impl Iterator<Item = &Node> {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let node = self.node(next?);
            next = node.parent;
            Some(node)
        })
    }
}

/// Neighbours in the arena that are whole trees.
pub(super) struct TreePart<'n> {
    /// Index of the first of them.
    pub(super) start: usize,
    /// Number of roots in the arena before them.
    pub(super) roots_before: usize,
    /// The nodes.
    pub(super) nodes: &'n mut [Node],
}

impl TreePart<'_> {
    /// Adds up what ends in each node as in `ends`, in any order, and sorts siblings; returns everything of the trees but
    /// their nodes.
    pub(super) fn finish(self, mut ends: Vec<(NodeId, Amount)>, labels: &Labels) -> CallTree {
        let (start, nodes) = (self.start, self.nodes);
        ends.sort_by_key(|(id, _)| *id);
        ends.dedup_by(|next, last| {
            let is_same = next.0 == last.0;
            if is_same {
                last.1.add(next.1);
            }
            is_same
        });
        ends.iter().for_each(|(id, own)| nodes[id.index() - start].total = *own);
        let total = add_up(nodes, start);
        // All nodes before these but the roots are children, and have their places in the list of all children.
        let children_before = start - self.roots_before;
        let (roots, mut children) = children_by_parent(nodes, start, children_before);
        nodes.iter().filter(|node| node.children.count > 1).for_each(|node| {
            let range = node.children.range();
            let siblings = range.start - children_before..range.end - children_before;
            sort_siblings(&mut children[siblings], nodes, start, labels);
        });
        CallTree { nodes: Vec::new(), children, roots, ends, total }
    }
}

/// Sorts siblings by weight; `nodes` begin with that of index `start`.
fn sort_siblings(ids: &mut [NodeId], nodes: &[Node], start: usize, labels: &Labels) {
    ids.sort_by(|a, b| {
        let (x, y) = (&nodes[a.index() - start], &nodes[b.index() - start]);
        (y.total.weight.cmp(&x.total.weight))
            .then_with(|| labels.get(x.label).order_key().cmp(&labels.get(y.label).order_key()))
            .then(x.is_inlined.cmp(&y.is_inlined))
            .then(a.cmp(b))
    });
}

/// Adds what ends below each node to what ends in it, which is its total at first; returns the sum over all roots. `nodes`
/// begin with that of index `start`, as below.
fn add_up(nodes: &mut [Node], start: usize) -> Amount {
    let mut sum = Amount::default();
    for index in (0..nodes.len()).rev() {
        let node = &nodes[index];
        let (parent, total) = (node.parent, node.total);
        match parent {
            Some(parent) => nodes[parent.index() - start].total.add(total),
            None => sum.add(total),
        }
    }
    sum
}

/// The nodes without a parent, and the children of all others in one list, each in the order of their ids; stores the
/// range of each node's children in the node. In the list of all children, `children_before` come before these.
fn children_by_parent(
    nodes: &mut [Node],
    start: usize,
    children_before: usize,
) -> (Vec<NodeId>, Vec<NodeId>) {
    let mut roots = Vec::new();
    for index in 0..nodes.len() {
        match nodes[index].parent {
            Some(parent) => nodes[parent.index() - start].children.count += 1,
            None => roots.push(NodeId::at(start + index)),
        }
    }
    let mut next = children_before as u32;
    for node in nodes.iter_mut() {
        let count = std::mem::take(&mut node.children.count);
        node.children.start = next;
        next += count;
    }
    let mut children = vec![NodeId::at(0); next as usize - children_before];
    for index in 0..nodes.len() {
        if let Some(parent) = nodes[index].parent {
            let span = &mut nodes[parent.index() - start].children;
            children[span.range().end - children_before] = NodeId::at(start + index);
            span.count += 1;
        }
    }
    (roots, children)
}
