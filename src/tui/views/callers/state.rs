//! What the user did to the view, and what is selected.

use crate::report::{BoxOf, CallTree, LabelKey, NodeId};
use crate::tui::app::context::Context;
use crate::tui::app::tree_path::{NamedTree, TreePath};
use crate::tui::compute::picture::{Picture, Pivot, Side};

/// What the user did to the view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct CallersState {
    /// The functions that were in the middle before, oldest first.
    pub(crate) history: Vec<LabelKey>,
    /// On which side the selected box is.
    pub(crate) side: Side,
    /// The selected box: its way begins with the function in the middle.
    pub(crate) selected: TreePath,
    /// The shared boxes that were opened and on which side, oldest first.
    pub(crate) zooms: Vec<(Side, TreePath)>,
}

impl CallersState {
    /// Whether the function in the middle is selected.
    pub(in crate::tui::views) fn is_middle(&self) -> bool {
        self.selected.path.len() < 2 && self.selected.rest.is_empty()
    }

    /// Puts a function into the middle.
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

/// What is at the end of the way, or as far as there is one.
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

/// A node of a box; of several they have all but the name in common.
pub(super) fn node_of(what: &BoxOf) -> Option<NodeId> {
    match what {
        BoxOf::Node(id) => Some(*id),
        BoxOf::Rest(ids) => ids.first().copied(),
        BoxOf::All => None,
    }
}
