//! A place in a call tree that is known by names, so that it is the same in the next picture.

use super::picture::Picture;
use crate::report::{BoxOf, NodeId, PathStep};

fn step_of(picture: &Picture, id: NodeId) -> PathStep {
    PathStep { label: picture.key(id), is_inlined: picture.tree.node(id).is_inlined }
}

/// A box, by names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spot {
    /// The way to it, root first; nothing for all samples.
    pub path: Vec<PathStep>,
    /// Those at the end of the way that share the box; nothing for a box of one.
    pub rest: Vec<PathStep>,
}

impl Spot {
    /// All samples.
    pub const ALL: Spot = Spot { path: Vec::new(), rest: Vec::new() };

    /// Where `what` is.
    pub fn of(picture: &Picture, what: &BoxOf) -> Self {
        let path_to = |id: NodeId| {
            let mut path = Vec::new();
            let mut next = Some(id);
            while let Some(id) = next {
                path.push(step_of(picture, id));
                next = picture.tree.node(id).parent;
            }
            path.reverse();
            path
        };
        match what {
            BoxOf::All => Spot::ALL,
            BoxOf::Node(id) => Spot { path: path_to(*id), rest: Vec::new() },
            BoxOf::Rest(ids) => {
                let parent = ids.first().and_then(|id| picture.tree.node(*id).parent);
                Spot {
                    path: parent.map_or_else(Vec::new, path_to),
                    rest: ids.iter().map(|id| step_of(picture, *id)).collect(),
                }
            }
        }
    }

    /// What is there in `picture`: as much of the way as it has.
    pub fn find(&self, picture: &Picture) -> BoxOf {
        let mut at = BoxOf::All;
        for step in &self.path {
            match child(picture, &at, step) {
                Some(id) => at = BoxOf::Node(id),
                None => return at,
            }
        }
        let rest: Vec<NodeId> = self.rest.iter().filter_map(|step| child(picture, &at, step)).collect();
        match rest[..] {
            [] => at,
            [one] => BoxOf::Node(one),
            _ => BoxOf::Rest(rest),
        }
    }

    /// Whether it is all samples.
    pub fn is_all(&self) -> bool {
        self.path.is_empty() && self.rest.is_empty()
    }

    /// Whether `other` is it or below it.
    pub fn contains(&self, other: &Spot) -> bool {
        if !other.path.starts_with(&self.path) {
            return false;
        }
        let next = other.path.get(self.path.len());
        self.rest.is_empty()
            || next.is_some_and(|step| self.rest.contains(step))
            || (next.is_none() && !other.rest.is_empty() && other.rest.iter().all(|c| self.rest.contains(c)))
    }

    /// One step up.
    #[must_use]
    pub fn parent(&self) -> Spot {
        let mut path = self.path.clone();
        if self.rest.is_empty() {
            path.pop();
        }
        Spot { path, rest: Vec::new() }
    }
}

fn child(picture: &Picture, at: &BoxOf, step: &PathStep) -> Option<NodeId> {
    let children = match at {
        BoxOf::All => picture.tree.roots(),
        BoxOf::Node(id) => &picture.tree.node(*id).children,
        BoxOf::Rest(_) => return None,
    };
    let is_it = |id: &&NodeId| {
        let node = picture.tree.node(**id);
        node.is_inlined == step.is_inlined && picture.labels.get(node.label).is(&step.label)
    };
    children.iter().find(is_it).copied()
}
