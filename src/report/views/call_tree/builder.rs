//! Builds a call tree path by path.

use super::node::{Node, NodeId};
use super::tree::CallTree;
use crate::report::model::amount::Amount;
use crate::report::model::label::{LabelId, Labels, Step};
use rustc_hash::FxHashMap;

/// Identity of a child below its parent. Steps differ in file and line, too, but those belong to the call site, not to
/// the path.
type ChildKey = (Option<NodeId>, LabelId, bool);

/// Builds a tree from paths.
#[derive(Debug, Default)]
pub(crate) struct TreeBuilder {
    pub(super) nodes: Vec<Node>,
    /// What ends in nodes; one may be there several times.
    ends: Vec<(NodeId, Amount)>,
    children: FxHashMap<ChildKey, NodeId>,
    /// The nodes of the path that was inserted last below each root, root first.
    last: FxHashMap<(LabelId, bool), Vec<NodeId>>,
}

impl TreeBuilder {
    /// Adds `amount` at the end of a path, from the root of the tree on. A path without steps has no end.
    pub(crate) fn add(&mut self, steps: impl Iterator<Item = Step>, amount: Amount) {
        if let Some(end) = self.insert(steps) {
            self.end_at(end, amount);
        }
    }

    /// Adds `amount` at a node.
    pub(super) fn end_at(&mut self, node: NodeId, amount: Amount) {
        self.ends.push((node, amount));
    }

    /// The node at the end of a path, which is made with all above it if it is not there; `None` for a path without steps.
    pub(super) fn insert(&mut self, steps: impl Iterator<Item = Step>) -> Option<NodeId> {
        let mut steps = steps.peekable();
        let root = steps.peek().map(|step| (step.label, step.is_inlined))?;
        // Consecutive paths with the same root share their first steps, which need no lookup. One path per root: in an
        // inverted tree the roots alternate.
        let mut last = std::mem::take(self.last.entry(root).or_default());
        let mut at = None;
        let mut is_shared = true;
        let mut depth = 0;
        for step in steps {
            is_shared = is_shared && last.get(depth).is_some_and(|id| self.is_step(*id, &step));
            let id = if is_shared { last[depth] } else { self.child(at, &step) };
            if !is_shared {
                last.truncate(depth);
                last.push(id);
            }
            at = Some(id);
            depth += 1;
        }
        last.truncate(depth);
        self.last.insert(root, last);
        at
    }

    fn is_step(&self, id: NodeId, step: &Step) -> bool {
        let node = &self.nodes[id.index()];
        node.label == step.label && node.is_inlined == step.is_inlined
    }

    pub(super) fn child(&mut self, parent: Option<NodeId>, step: &Step) -> NodeId {
        let next = NodeId::at(self.nodes.len());
        let id = *self.children.entry((parent, step.label, step.is_inlined)).or_insert(next);
        if id == next {
            let depth = parent.map_or(0, |parent| self.nodes[parent.index()].depth + 1);
            self.nodes.push(Node::new(step, parent, depth));
        }
        id
    }

    /// Finishes the tree, with siblings sorted by weight.
    pub(crate) fn finish(self, labels: &Labels) -> CallTree {
        CallTree::of_nodes(self.nodes, self.ends, labels)
    }
}
