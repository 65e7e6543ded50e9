//! A place in a call tree, identified by names, so that it can be found again in the next picture.

use crate::profile::Profile;
use crate::report::{
    BoxOf, CallTree, LabelId, LabelKey, Labels, NamedSince, NodeId, PathStart, PathStep, Step,
};
use crate::tui::compute::modules::FollowedModules;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cell::OnceCell;

/// A box, identified by names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct TreePath {
    /// Path to the box, root first; empty for all samples.
    pub(crate) path: Vec<PathStep>,
    /// The siblings at the end of the path that share the box; empty for a box of one node.
    pub(crate) rest: Vec<PathStep>,
}

/// A call tree with what is needed to name its nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedTree<'p> {
    /// The tree that the boxes are of.
    pub(crate) tree: &'p CallTree,
    /// Labels of the nodes.
    pub(crate) labels: &'p Labels,
    /// The profile that the labels come from.
    pub(crate) profile: &'p Profile,
    /// Number of samples of each frame.
    pub(crate) samples_of_frame: &'p [u64],
    /// Which end of the stacks the paths begin at.
    pub(crate) start: PathStart,
    /// Whether the tree has a single root, the function whose callers or callees it holds.
    pub(crate) has_middle: bool,
    /// The modules of the other side of a comparison: a path may have been chosen there.
    pub(crate) modules: &'p FollowedModules,
}

impl<'p> NamedTree<'p> {
    /// The step that identifies a node below its parent.
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

    /// The path of `what`.
    pub(crate) fn path_of(self, what: &BoxOf) -> TreePath {
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

    /// The node at `path`, or its nearest ancestor that is in this tree.
    pub(crate) fn find(self, path: &TreePath) -> BoxOf {
        self.follow(path).0
    }

    /// Replaces addresses in `path` by the function names they have here, if the whole path is in this tree.
    pub(crate) fn rename(self, path: &mut TreePath) {
        if path.keys().any(|key| matches!(key, LabelKey::Address { .. }))
            && let (found, true) = self.follow(path)
        {
            *path = self.path_of(&found);
        }
    }

    /// The node at `path` or its nearest ancestor, and whether the whole path was found.
    fn follow(self, path: &TreePath) -> (BoxOf, bool) {
        let path = &*path.followed(self.modules);
        // Computed only when needed: in most paths no function has been named since.
        let since = OnceCell::new();
        let since = || {
            let new = || NamedSince::new(self.profile, self.labels, self.samples_of_frame, path.keys());
            since.get_or_init(new)
        };
        let mut at = BoxOf::All;
        for (place, step) in path.path.iter().enumerate() {
            let found = self.child(&at, step).or_else(|| {
                let steps = since().steps(&step.label)?;
                let is_end = place + 1 == path.path.len() && path.rest.is_empty();
                self.descend(&at, &self.way(steps, place, is_end))
            });
            match found {
                Some(id) => at = BoxOf::Node(id),
                None => return (at, false),
            }
        }
        if path.rest.is_empty() {
            return (at, true);
        }
        // Hash maps, since a caller can have many callees and comparing each with each would be quadratic.
        let mut by_name: FxHashMap<Cow<'_, str>, Vec<(usize, &PathStep)>> = FxHashMap::default();
        let mut by_label: FxHashMap<(LabelId, bool), usize> = FxHashMap::default();
        for (place, step) in path.rest.iter().enumerate() {
            by_name.entry(step.label.name()).or_default().push((place, step));
            let steps = since().steps(&step.label).unwrap_or_default();
            if let Some(first) = self.start.way(steps, false).first() {
                by_label.entry((first.label, first.is_inlined)).or_insert(place);
            }
        }
        let place_of = |id: &NodeId| {
            let node = self.tree.node(*id);
            let same_name = by_name.get(self.labels.get(node.label).name.as_str());
            let by_name = same_name.and_then(|steps| steps.iter().find(|(_, step)| self.is_step(*id, step)));
            let place = by_name.map(|(place, _)| *place);
            Some((place.or_else(|| by_label.get(&(node.label, node.is_inlined)).copied())?, *id))
        };
        let mut rest: Vec<(usize, NodeId)> = self.children(&at).iter().filter_map(place_of).collect();
        rest.sort();
        match rest[..] {
            [] => (at, false),
            [(_, one)] => (BoxOf::Node(one), true),
            _ => (BoxOf::Rest(rest.into_iter().map(|(_, id)| id).collect()), true),
        }
    }

    /// The steps that replace a step whose address has been named since, through the functions inlined in it.
    fn way(self, steps: &[Step], place: usize, is_end: bool) -> Vec<Step> {
        let is_middle = self.has_middle && place == 0;
        // What is inlined in the pivot is on the side of its callees.
        let is_alone = is_middle && self.start == PathStart::Leaf;
        let mut way = self.start.way(if is_alone { &steps[..1] } else { steps }, is_end);
        if let Some(middle) = way.first_mut().filter(|_| is_middle) {
            middle.is_inlined = false;
        }
        way
    }

    fn descend(self, from: &BoxOf, way: &[Step]) -> Option<NodeId> {
        let mut at = from.clone();
        for step in way {
            let is_it = |id: &&NodeId| {
                let node = self.tree.node(**id);
                node.label == step.label && node.is_inlined == step.is_inlined
            };
            at = BoxOf::Node(*self.children(&at).iter().find(is_it)?);
        }
        match at {
            BoxOf::Node(id) => Some(id),
            _ => None,
        }
    }

    fn is_step(self, id: NodeId, step: &PathStep) -> bool {
        let node = self.tree.node(id);
        node.is_inlined == step.is_inlined && self.labels.get(node.label).is(&step.label)
    }

    /// The node for `step` below `at`.
    pub(crate) fn child(self, at: &BoxOf, step: &PathStep) -> Option<NodeId> {
        self.children(at).iter().find(|id| self.is_step(**id, step)).copied()
    }

    /// Children of a box that is not shared, heaviest first.
    pub(crate) fn children(self, at: &BoxOf) -> &'p [NodeId] {
        match at {
            BoxOf::All => self.tree.roots(),
            BoxOf::Node(id) => self.tree.children(*id),
            BoxOf::Rest(_) => &[],
        }
    }
}

impl TreePath {
    /// All samples.
    pub(crate) const ALL: TreePath = TreePath { path: Vec::new(), rest: Vec::new() };

    /// Whether the path is that of all samples.
    pub(crate) fn is_all(&self) -> bool {
        self.path.is_empty() && self.rest.is_empty()
    }

    /// The path as it is called in a recording with these modules.
    fn followed(&self, modules: &FollowedModules) -> Cow<'_, TreePath> {
        if modules.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut path = self.clone();
        path.path.iter_mut().chain(&mut path.rest).for_each(|step| modules.follow(&mut step.label));
        Cow::Owned(path)
    }

    /// All functions on the path.
    fn keys(&self) -> impl Iterator<Item = &LabelKey> {
        self.path.iter().chain(&self.rest).map(|step| &step.label)
    }

    /// The path one step up.
    #[must_use]
    pub(crate) fn parent(&self) -> TreePath {
        let mut path = self.path.clone();
        if self.rest.is_empty() {
            path.pop();
        }
        TreePath { path, rest: Vec::new() }
    }
}
