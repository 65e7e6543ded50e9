//! One call path of a call tree, and its place in the arena.

use crate::report::model::amount::Amount;
use crate::report::model::label::{LabelId, Step};
use std::num::NonZeroU32;
use std::ops::Range;

/// Index of a node of a [`CallTree`](super::tree::CallTree), plus 1: `Option<NodeId>` takes no more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(NonZeroU32);

impl NodeId {
    /// Id of the node at `index`. Trees have fewer nodes than there are ids: each takes some 50 bytes.
    pub(super) fn at(index: usize) -> Self {
        let number = u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
        NodeId(NonZeroU32::new(number).unwrap_or(NonZeroU32::MAX))
    }

    /// Index of the node.
    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// One call path: a label called from its parent's path. Forests have a million of them, whose time goes into memory: the
/// few that samples end in have their own amount elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The called function or other label.
    pub(crate) label: LabelId,
    /// Whether it was inlined into its parent (in an inverted tree, into its child).
    pub(crate) is_inlined: bool,
    /// Whether it is kernel code.
    pub(crate) is_kernel: bool,
    /// The caller's node; `None` for a root.
    pub(crate) parent: Option<NodeId>,
    /// Distance from the root, 0 for a root.
    pub(crate) depth: u32,
    /// Amount of samples that end here or below.
    pub(crate) total: Amount,
    /// Range of its children in the list of all children.
    pub(super) children: ChildRange,
}

impl Node {
    /// The step `step` below `parent`, with nothing in it yet.
    pub(super) fn new(step: &Step, parent: Option<NodeId>, depth: u32) -> Self {
        Node {
            label: step.label,
            is_inlined: step.is_inlined,
            is_kernel: step.is_kernel,
            parent,
            depth,
            total: Amount::default(),
            children: ChildRange::default(),
        }
    }

    /// Whether it has callees.
    pub(crate) fn has_children(&self) -> bool {
        self.children.count > 0
    }
}

/// A range of the list of all children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ChildRange {
    pub(super) start: u32,
    pub(super) count: u32,
}

impl ChildRange {
    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.count as usize
    }
}
