//! State of the Callers view: what the user selected and opened.

use crate::report::{BoxOf, CallTree, LabelKey, NodeId};
use crate::tui::app::context::Context;
use crate::tui::app::tree_path::{NamedTree, TreePath};
use crate::tui::compute::picture::{Picture, Pivot, Side};

/// State of the view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct CallersState {
    /// Earlier pivots, oldest first.
    pub(crate) history: Vec<LabelKey>,
    /// Side of the selected box.
    pub(crate) side: Side,
    /// Path of the selected box, which begins with the pivot.
    pub(crate) selected: TreePath,
    /// Boxes that were zoomed into, with their side, oldest first.
    pub(crate) zooms: Vec<(Side, TreePath)>,
}

impl CallersState {
    /// Whether the pivot is selected.
    pub(in crate::tui::views) fn is_middle(&self) -> bool {
        self.selected.path.len() < 2 && self.selected.rest.is_empty()
    }

    /// Makes a function the pivot.
    pub(crate) fn set_pivot(&mut self, context: &mut Context, key: LabelKey) {
        if context.query.pivot.as_ref() == Some(&key) {
            return;
        }
        self.history.extend(context.query.pivot.clone());
        self.select_middle();
        context.ask(|query| query.pivot = Some(key));
    }

    pub(super) fn select_middle(&mut self) {
        self.selected = TreePath::ALL;
        self.zooms.clear();
    }
}

pub(crate) fn tree(pivot: &Pivot, side: Side) -> &CallTree {
    match side {
        Side::Callers => &pivot.sandwich.callers,
        Side::Callees => &pivot.sandwich.callees,
    }
}

pub(super) fn named<'p>(picture: &'p Picture, pivot: &'p Pivot, side: Side) -> NamedTree<'p> {
    pivot.named(picture, side)
}

/// The selected box, or its nearest ancestor in this picture.
pub(in crate::tui::views) fn selected_part(
    view: &CallersState,
    picture: &Picture,
    pivot: &Pivot,
) -> Option<BoxOf> {
    let named = named(picture, pivot, view.side);
    match named.find(&view.selected) {
        BoxOf::All => Some(BoxOf::Node(*named.tree.roots().first()?)),
        found => Some(found),
    }
}

/// A node of the box; nodes that share a box differ only in their label.
pub(super) fn node_of(what: &BoxOf) -> Option<NodeId> {
    match what {
        BoxOf::Node(id) => Some(*id),
        BoxOf::Rest(ids) => ids.first().copied(),
        BoxOf::All => None,
    }
}
