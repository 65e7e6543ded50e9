//! The call tree: an arena of nodes with self and total weights.
//!
//! What always holds: a node's total is its self plus its children's totals; the roots' totals sum
//! up to the weight of all samples. Parents have smaller ids than their children.

use crate::report::model::amount::Amount;
use crate::report::model::label::{LabelId, Labels, Step};
use crate::report::query::selection::Selection;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::ops::Range;

/// Index of a node of a [`CallTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// Index of the node.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// One call path: a label called from its parent's path.
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
    /// Amount of samples that end here.
    pub(crate) own: Amount,
    /// Amount of samples that end here or below.
    pub(crate) total: Amount,
    /// Range of its children in the list of all children.
    children: ChildRange,
}

impl Node {
    /// Whether it has callees.
    pub(crate) fn has_children(&self) -> bool {
        self.children.count > 0
    }
}

/// A range of the list of all children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ChildRange {
    start: u32,
    count: u32,
}

impl ChildRange {
    fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.count as usize
    }
}

/// Which end of a stack is the root of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The outermost caller: callees are below their callers.
    TopDown,
    /// The leaf: callers are below their callees.
    BottomUp,
}

/// All call paths of a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTree {
    nodes: Vec<Node>,
    /// The children of all nodes, siblings next to each other.
    children: Vec<NodeId>,
    roots: Vec<NodeId>,
    total: Amount,
}

/// Trees of threads with fewer groups of samples are built by one thread.
const LEAST_PARALLEL: usize = 4_096;

impl CallTree {
    /// The tree of all samples of `selection`, with its threads as roots if the selection asks for that.
    pub(crate) fn new(selection: &Selection<'_>, direction: Direction) -> Self {
        if let Some(threads) = selection.threads_in_front() {
            return Self::by_thread(selection, direction, threads);
        }
        let mut tree = TreeBuilder::default();
        selection.for_each_path(|path, groups| match direction {
            Direction::TopDown => tree.add(path.iter().copied(), Amount::of(groups)),
            Direction::BottomUp => tree.add(path.iter().rev().copied(), Amount::of(groups)),
        });
        tree.finish(&selection.labels)
    }

    /// The same with `threads` as roots: a step per task (see [`Selection::thread_steps`]).
    pub(crate) fn by_thread(selection: &Selection<'_>, direction: Direction, threads: &[Step]) -> Self {
        // Threads that are the roots share no node: their trees are built at the same time.
        // Each walks all paths, which is worth it where there are many.
        let roots: FxHashSet<LabelId> = threads.iter().map(|thread| thread.label).collect();
        let parts = match direction {
            Direction::TopDown if selection.groups().len() >= LEAST_PARALLEL => {
                rayon::current_num_threads().clamp(1, roots.len().max(1))
            }
            Direction::TopDown | Direction::BottomUp => 1,
        };
        let builders: Vec<TreeBuilder> = (0..parts)
            .into_par_iter()
            .map(|part| {
                let is_in_part = |thread: &Step| thread.label.index() % parts == part;
                TreeBuilder::of_threads(selection, direction, threads, is_in_part)
            })
            .collect();
        TreeBuilder::join(builders).finish(&selection.labels)
    }

    /// The node `id`, which must come from this tree.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The callees of the node `id`, heaviest first.
    pub(crate) fn children(&self, id: NodeId) -> &[NodeId] {
        &self.children[self.node(id).children.range()]
    }

    /// All nodes, parents before children.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId(index as u32), node))
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

    /// All call paths at the end of which samples were taken, heaviest first, each as one of its nodes with the weight
    /// of the samples that end there. A function that calls itself counts once in a path, so that paths that differ
    /// only in the depth of recursion are merged.
    pub(crate) fn heaviest_paths(&self) -> Vec<(NodeId, u64)> {
        let mut paths: Vec<(NodeId, u64)> = Vec::new();
        let mut path_of_node = vec![0usize; self.nodes.len()];
        let mut known: FxHashMap<(Option<usize>, LabelId), usize> = FxHashMap::default();
        // In display order a node comes after its parent, and among equal paths the first one shown stays first.
        for id in self.walk(|_| true) {
            let node = self.node(id);
            let path = match node.parent {
                Some(parent) if self.node(parent).label == node.label => path_of_node[parent.index()],
                parent => {
                    let above = parent.map(|parent| path_of_node[parent.index()]);
                    *known.entry((above, node.label)).or_insert_with(|| {
                        paths.push((id, 0));
                        paths.len() - 1
                    })
                }
            };
            path_of_node[id.index()] = path;
            paths[path].1 = paths[path].1.saturating_add(node.own.weight);
        }
        paths.retain(|(_, weight)| *weight > 0);
        paths.sort_by_key(|(_, weight)| Reverse(*weight));
        paths
    }
}

/// Identity of a child below its parent. Steps differ in file and line, too, but those belong to the call site, not to
/// the path.
type ChildKey = (Option<NodeId>, LabelId, bool);

/// Builds a tree from paths.
#[derive(Debug, Default)]
pub(crate) struct TreeBuilder {
    nodes: Vec<Node>,
    children: FxHashMap<ChildKey, NodeId>,
    total: Amount,
    /// The nodes of the path that was added last below each root, root first.
    last: FxHashMap<(LabelId, bool), Vec<NodeId>>,
}

impl TreeBuilder {
    /// The paths of the threads that `is_wanted` accepts, with a step for the thread in front.
    fn of_threads(
        selection: &Selection<'_>,
        direction: Direction,
        threads: &[Step],
        is_wanted: impl Fn(&Step) -> bool,
    ) -> Self {
        let mut tree = TreeBuilder::default();
        let mut parts: Vec<(Step, Amount)> = Vec::new();
        selection.for_each_path(|path, groups| {
            parts.clear();
            for group in groups {
                let thread = threads.get(group.task.index()).filter(|thread| is_wanted(thread));
                let Some(thread) = thread else { continue };
                match parts.iter_mut().find(|(step, _)| step.label == thread.label) {
                    Some((_, amount)) => amount.add(group.amount),
                    None => parts.push((*thread, group.amount)),
                }
            }
            for (thread, amount) in &parts {
                let steps = std::iter::once(*thread).chain(path.iter().copied());
                match direction {
                    Direction::TopDown => tree.add(steps, *amount),
                    Direction::BottomUp => tree.add(steps.rev(), *amount),
                }
            }
        });
        tree
    }

    /// The nodes of all `builders`, which have no root in common. No path can be added any more.
    fn join(builders: Vec<TreeBuilder>) -> Self {
        let mut joined = TreeBuilder::default();
        for builder in builders {
            let before = joined.nodes.len() as u32;
            joined.total.add(builder.total);
            let moved = |id: NodeId| NodeId(id.0 + before);
            let nodes = builder.nodes.into_iter().map(|node| Node { parent: node.parent.map(moved), ..node });
            joined.nodes.extend(nodes);
        }
        joined
    }

    /// Adds a path, from the root of the tree on.
    pub(crate) fn add(&mut self, steps: impl Iterator<Item = Step>, amount: Amount) {
        let mut steps = steps.peekable();
        let Some(root) = steps.peek().map(|step| (step.label, step.is_inlined)) else { return };
        // Consecutive paths with the same root share their first steps, which need no lookup. One path per root, since
        // threads with the same stacks are roots that alternate.
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
            self.nodes[id.index()].total.add(amount);
            at = Some(id);
            depth += 1;
        }
        last.truncate(depth);
        self.last.insert(root, last);
        if let Some(leaf) = at {
            self.nodes[leaf.index()].own.add(amount);
            self.total.add(amount);
        }
    }

    fn is_step(&self, id: NodeId, step: &Step) -> bool {
        let node = &self.nodes[id.index()];
        node.label == step.label && node.is_inlined == step.is_inlined
    }

    fn child(&mut self, parent: Option<NodeId>, step: &Step) -> NodeId {
        let next = NodeId(self.nodes.len() as u32);
        let id = *self.children.entry((parent, step.label, step.is_inlined)).or_insert(next);
        if id == next {
            self.nodes.push(Node {
                label: step.label,
                is_inlined: step.is_inlined,
                is_kernel: step.is_kernel,
                parent,
                depth: parent.map_or(0, |parent| self.nodes[parent.index()].depth + 1),
                own: Amount::default(),
                total: Amount::default(),
                children: ChildRange::default(),
            });
        }
        id
    }

    /// Finishes the tree, with siblings sorted by weight.
    pub(crate) fn finish(self, labels: &Labels) -> CallTree {
        let TreeBuilder { mut nodes, total, .. } = self;
        let (mut roots, mut children) = children_by_parent(&mut nodes);
        let order = |ids: &mut [NodeId]| {
            ids.sort_by(|a, b| {
                let (x, y) = (&nodes[a.index()], &nodes[b.index()]);
                (y.total.weight.cmp(&x.total.weight))
                    .then_with(|| labels.get(x.label).order_key().cmp(&labels.get(y.label).order_key()))
                    .then(x.is_inlined.cmp(&y.is_inlined))
                    .then(a.cmp(b))
            });
        };
        nodes
            .iter()
            .filter(|node| node.children.count > 1)
            .for_each(|node| order(&mut children[node.children.range()]));
        order(&mut roots);
        CallTree { nodes, children, roots, total }
    }
}

/// The nodes without a parent, and the children of all others in one list, each in the order of their ids; stores the
/// range of each node's children in the node.
fn children_by_parent(nodes: &mut [Node]) -> (Vec<NodeId>, Vec<NodeId>) {
    let ids = |nodes: &[Node]| (0..nodes.len() as u32).map(NodeId);
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
    let mut children = vec![NodeId(0); start as usize];
    for id in ids(nodes) {
        if let Some(parent) = nodes[id.index()].parent {
            let span = &mut nodes[parent.index()].children;
            children[span.range().end] = id;
            span.count += 1;
        }
    }
    (roots, children)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::fixture::Build;
    use crate::report::{CommonOptions, ThreadSplit};

    #[test]
    fn the_heaviest_paths_are_those_where_most_samples_end() {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        // No single sort path is heavy, but the sum over all depths is.
        for depth in 1..=10 {
            let mut path = vec!["/x:main", "/x:run"];
            path.extend(std::iter::repeat_n("/x:sort", depth));
            path.push("/x:compare");
            build.add(task, 3, &path);
        }
        build.add(task, 20, &["/x:main", "/x:run", "/x:generate"]);
        build.add(task, 25, &["/x:main", "/x:run", "/x:index", "/x:hash"]);
        build.add(task, 10, &["/x:main", "/x:run", "/x:index"]);
        let recording = build.finish();
        let selection = recording.select(&CommonOptions::default()).unwrap();
        let tree = CallTree::new(&selection, Direction::TopDown);
        let found: Vec<(&str, u64)> = (tree.heaviest_paths().into_iter())
            .map(|(id, weight)| (&*selection.labels.get(tree.node(id).label).name, weight / 1_000_000))
            .collect();
        assert_eq!(found, [("compare", 30), ("hash", 25), ("generate", 20), ("index", 10)]);
    }

    #[test]
    fn threads_in_front_have_their_own_paths_and_all_children_are_listed_once() {
        let mut build = Build::new();
        let threads = ["a", "b", "c"].map(|name| build.task(1, u32::from(name.as_bytes()[0]), name, "app"));
        // Every stack occurs in all threads by turns, so that consecutive paths are of different threads.
        for (samples, path) in
            [(1, ["main", "run", "sort"]), (2, ["main", "run", "hash"]), (4, ["main", "load", "hash"])]
        {
            let path = path.map(|name| format!("/x:{name}"));
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            threads.iter().for_each(|task| build.add(*task, samples, &path));
        }
        let recording = build.finish();
        let mut selection = recording.select(&CommonOptions::default()).unwrap();
        let steps = selection.thread_steps(ThreadSplit::Each);
        for direction in [Direction::TopDown, Direction::BottomUp] {
            let tree = CallTree::by_thread(&selection, direction, &steps);
            let mut listed: Vec<NodeId> =
                tree.nodes().flat_map(|(id, _)| tree.children(id)).copied().collect();
            listed.extend(tree.roots());
            listed.sort();
            assert!(
                listed.iter().copied().eq(tree.nodes().map(|(id, _)| id)),
                "each node is below one other"
            );
            for (id, node) in tree.nodes() {
                let below: u64 = tree.children(id).iter().map(|child| tree.node(*child).total.samples).sum();
                assert_eq!(node.total.samples, node.own.samples + below);
                assert!(tree.children(id).iter().all(|child| tree.node(*child).parent == Some(id)));
                assert_eq!(node.has_children(), !tree.children(id).is_empty());
            }
            // A thread, main, run, sort, hash, load, hash; inverted, sort or hash, then run or load, main and the
            // threads below.
            assert_eq!(tree.nodes().len(), if direction == Direction::TopDown { 21 } else { 17 });
        }
    }
}
