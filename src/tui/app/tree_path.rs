//! A place in a call tree that is known by names, so that it is the same in the next picture.

use crate::report::{BoxOf, CallTree, Labels, NodeId, PathStep};
use crate::tui::compute::picture::Picture;
use rustc_hash::FxHashMap;

/// A box, by names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreePath {
    /// The way to it, root first; nothing for all samples.
    pub path: Vec<PathStep>,
    /// Those at the end of the way that share the box; nothing for a box of one.
    pub rest: Vec<PathStep>,
}

/// A tree with the names of what is in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedTree<'p> {
    /// The boxes come from it.
    pub(crate) tree: &'p CallTree,
    /// Its names.
    pub(crate) labels: &'p Labels,
}

impl<'p> NamedTree<'p> {
    /// What a node is known by.
    pub(super) fn step_of(self, id: NodeId) -> PathStep {
        let node = self.tree.node(id);
        PathStep { label: self.labels.get(node.label).key(), is_inlined: node.is_inlined }
    }

    fn path_to(self, id: NodeId) -> Vec<PathStep> {
        let mut path = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next {
            path.push(self.step_of(id));
            next = self.tree.node(id).parent;
        }
        path.reverse();
        path
    }

    /// Where `what` is.
    pub(crate) fn spot_of(self, what: &BoxOf) -> TreePath {
        match what {
            BoxOf::All => TreePath::ALL,
            BoxOf::Node(id) => TreePath { path: self.path_to(*id), rest: Vec::new() },
            BoxOf::Rest(ids) => {
                let parent = ids.first().and_then(|id| self.tree.node(*id).parent);
                TreePath {
                    path: parent.map_or_else(Vec::new, |parent| self.path_to(parent)),
                    rest: ids.iter().map(|id| self.step_of(*id)).collect(),
                }
            }
        }
    }

    /// What is there at `spot`: as much of the way as there is.
    pub(crate) fn find(self, spot: &TreePath) -> BoxOf {
        let mut at = BoxOf::All;
        for step in &spot.path {
            match self.child(&at, step) {
                Some(id) => at = BoxOf::Node(id),
                None => return at,
            }
        }
        // There may be as many as the caller calls: none is compared with all.
        let mut steps: FxHashMap<&str, Vec<(usize, &PathStep)>> = FxHashMap::default();
        for (place, step) in spot.rest.iter().enumerate() {
            steps.entry(&step.label.name).or_default().push((place, step));
        }
        let place_of = |id: &NodeId| {
            let name = self.labels.get(self.tree.node(*id).label).name.as_str();
            let (place, _) = steps.get(name)?.iter().find(|(_, step)| self.is_step(*id, step))?;
            Some((*place, *id))
        };
        let mut rest: Vec<(usize, NodeId)> = if steps.is_empty() {
            Vec::new()
        } else {
            self.children(&at).iter().filter_map(place_of).collect()
        };
        rest.sort();
        match rest[..] {
            [] => at,
            [(_, one)] => BoxOf::Node(one),
            _ => BoxOf::Rest(rest.into_iter().map(|(_, id)| id).collect()),
        }
    }

    fn is_step(self, id: NodeId, step: &PathStep) -> bool {
        let node = self.tree.node(id);
        node.is_inlined == step.is_inlined && self.labels.get(node.label).is(&step.label)
    }

    /// The node that `step` means below `at`.
    pub(crate) fn child(self, at: &BoxOf, step: &PathStep) -> Option<NodeId> {
        self.children(at).iter().find(|id| self.is_step(**id, step)).copied()
    }

    /// What stands below a box that is not shared, heaviest first.
    pub(crate) fn children(self, at: &BoxOf) -> &'p [NodeId] {
        match at {
            BoxOf::All => self.tree.roots(),
            BoxOf::Node(id) => &self.tree.node(*id).children,
            BoxOf::Rest(_) => &[],
        }
    }
}

impl TreePath {
    /// All samples.
    pub const ALL: TreePath = TreePath { path: Vec::new(), rest: Vec::new() };

    /// Where `what` is.
    pub fn of(picture: &Picture, what: &BoxOf) -> Self {
        picture.named_tree().spot_of(what)
    }

    /// What is there in `picture`: as much of the way as it has.
    pub fn find(&self, picture: &Picture) -> BoxOf {
        picture.named_tree().find(self)
    }

    /// Whether it is all samples.
    pub fn is_all(&self) -> bool {
        self.path.is_empty() && self.rest.is_empty()
    }

    /// One step up.
    #[must_use]
    pub fn parent(&self) -> TreePath {
        let mut path = self.path.clone();
        if self.rest.is_empty() {
            path.pop();
        }
        TreePath { path, rest: Vec::new() }
    }
}
