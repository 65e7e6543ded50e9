//! The call tree of a picture, and what is known of its nodes.

use crate::report::{CallTree, Direction, LabelKind, Labels, NodeId, Selection, Step};
use crate::tui::app::query::Query;

/// The call tree, with what is known of its nodes.
pub(super) struct Paths {
    /// The tree.
    pub(super) tree: CallTree,
    /// Whether each node holds only waits, by node.
    pub(super) is_waiting: Vec<bool>,
    /// Number of nodes of each label, by label.
    pub(super) places_of: Vec<u32>,
}

impl Paths {
    /// The paths of `selection`, with `threads` in front if there are some.
    pub(super) fn of(selection: &Selection<'_>, query: &Query, threads: Option<&[Step]>) -> Self {
        let tree = query.call_tree(selection, threads);
        let (is_waiting, places_of) = rayon::join(
            || waiting_nodes(&tree, &selection.labels, query.direction),
            || places_of(&tree, selection.labels.len()),
        );
        Paths { tree, is_waiting, places_of }
    }
}

/// Whether each node holds only waits. A wait's stack ends in its reason, so a node that leads only to reasons is
/// waiting; in the bottom-up tree, a node below a reason is.
pub(super) fn waiting_nodes(tree: &CallTree, labels: &Labels, direction: Direction) -> Vec<bool> {
    let is_reason: Vec<bool> = labels.iter().map(|label| matches!(label.kind, LabelKind::Wait(_))).collect();
    let mut is_waiting = vec![false; tree.nodes().len()];
    if !is_reason.contains(&true) {
        return is_waiting;
    }
    let nodes: Vec<NodeId> = tree.nodes().map(|(id, _)| id).collect();
    match direction {
        Direction::BottomUp => {
            for id in nodes {
                let node = tree.node(id);
                let above = node.parent.is_some_and(|parent| is_waiting[parent.index()]);
                is_waiting[id.index()] = above || is_reason[node.label.index()];
            }
        }
        Direction::TopDown => {
            // In reverse, since parents come before their children.
            for id in nodes.into_iter().rev() {
                let node = tree.node(id);
                let leads_to_waits = node.has_children()
                    && tree.children(id).iter().all(|child| is_waiting[child.index()])
                    && tree.own(id).is_empty();
                is_waiting[id.index()] = leads_to_waits || is_reason[node.label.index()];
            }
        }
    }
    is_waiting
}

fn places_of(tree: &CallTree, labels: usize) -> Vec<u32> {
    let mut places = vec![0u32; labels];
    for (_, node) in tree.nodes() {
        places[node.label.index()] += 1;
    }
    places
}
