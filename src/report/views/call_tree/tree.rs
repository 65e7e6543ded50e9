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
    pub(super) fn of_nodes(
        mut nodes: Vec<Node>,
        mut ends: Vec<(NodeId, Amount)>,
        labels: &Labels,
    ) -> CallTree {
        ends.sort_by_key(|(id, _)| *id);
        ends.dedup_by(|next, last| {
            let is_same = next.0 == last.0;
            if is_same {
                last.1.add(next.1);
            }
            is_same
        });
        ends.iter().for_each(|(id, own)| nodes[id.index()].total = *own);
        let total = add_up(&mut nodes);
        let (mut roots, mut children) = children_by_parent(&mut nodes);
        nodes
            .iter()
            .filter(|node| node.children.count > 1)
            .for_each(|node| sort_siblings(&mut children[node.children.range()], &nodes, labels));
        sort_siblings(&mut roots, &nodes, labels);
        CallTree { nodes, children, roots, ends, total }
    }

    /// The trees of `parts` as one, with the roots of all of them.
    pub(super) fn of_parts(parts: Vec<CallTree>, labels: &Labels) -> CallTree {
        let mut parts = parts.into_iter();
        let mut tree = parts.next().unwrap_or_default();
        parts.for_each(|part| tree.append(part));
        sort_siblings(&mut tree.roots, &tree.nodes, labels);
        tree
    }

    /// Adds the trees of `part` after these.
    fn append(&mut self, part: CallTree) {
        let (nodes, children) = (self.nodes.len(), self.children.len() as u32);
        let moved = |id: NodeId| NodeId::at(id.index() + nodes);
        self.nodes.extend(part.nodes.into_iter().map(|mut node| {
            node.parent = node.parent.map(moved);
            node.children.start += children;
            node
        }));
        self.children.extend(part.children.into_iter().map(moved));
        self.roots.extend(part.roots.into_iter().map(moved));
        self.ends.extend(part.ends.into_iter().map(|(id, own)| (moved(id), own)));
        self.total.add(part.total);
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

/// Sorts siblings by weight.
fn sort_siblings(ids: &mut [NodeId], nodes: &[Node], labels: &Labels) {
    ids.sort_by(|a, b| {
        let (x, y) = (&nodes[a.index()], &nodes[b.index()]);
        (y.total.weight.cmp(&x.total.weight))
            .then_with(|| labels.get(x.label).order_key().cmp(&labels.get(y.label).order_key()))
            .then(x.is_inlined.cmp(&y.is_inlined))
            .then(a.cmp(b))
    });
}

/// Adds what ends below each node to what ends in it, which is its total at first; returns the sum over all roots.
fn add_up(nodes: &mut [Node]) -> Amount {
    let mut sum = Amount::default();
    for index in (0..nodes.len()).rev() {
        let node = &nodes[index];
        let (parent, total) = (node.parent, node.total);
        match parent {
            Some(parent) => nodes[parent.index()].total.add(total),
            None => sum.add(total),
        }
    }
    sum
}

/// The nodes without a parent, and the children of all others in one list, each in the order of their ids; stores the
/// range of each node's children in the node.
fn children_by_parent(nodes: &mut [Node]) -> (Vec<NodeId>, Vec<NodeId>) {
    let ids = |nodes: &[Node]| (0..nodes.len()).map(NodeId::at);
    let mut roots = Vec::new();
    for id in ids(nodes) {
        match nodes[id.index()].parent {
            Some(parent) => nodes[parent.index()].children.count += 1,
            None => roots.push(id),
        }
    }
    let mut start = 0;
    for node in nodes.iter_mut() {
        let count = std::mem::take(&mut node.children.count);
        node.children.start = start;
        start += count;
    }
    let mut children = vec![NodeId::at(0); start as usize];
    for id in ids(nodes) {
        if let Some(parent) = nodes[id.index()].parent {
            let span = &mut nodes[parent.index()].children;
            children[span.range().end] = id;
            span.count += 1;
        }
    }
    (roots, children)
}
