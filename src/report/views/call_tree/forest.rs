//! The call paths of each thread: a forest with a tree for every one.
//!
//! Threads of one program mostly have the same paths. The tree of all paths is made once, and each thread gets a copy of
//! the part that it has: copying a node needs no lookup by label.

use super::builder::TreeBuilder;
use super::node::{Node, NodeId};
use super::tree::{CallTree, TreePart};
use crate::report::model::amount::Amount;
use crate::report::model::label::{LabelId, Step};
use crate::report::query::same_path::PathGroups;
use crate::report::query::selection::Selection;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Forests of fewer ends are grown by one thread.
const LEAST_PARALLEL: usize = 4_096;

/// How much of a thread's samples have one path.
#[derive(Debug, Clone, Copy)]
struct PathEnd {
    /// Index of the thread in the list of roots.
    root: usize,
    /// The last node of the path, in the tree of all paths; `None` for a path without steps.
    node: Option<NodeId>,
    amount: Amount,
}

/// The trees of all threads of `selection`: `threads` are the roots, a step for each task, and tasks with the same step share
/// one.
pub(super) fn by_thread(selection: &Selection<'_>, threads: &[Step]) -> CallTree {
    let (roots, root_of_task) = roots_of(threads);
    let mut paths = TreeBuilder::default();
    let mut ends: Vec<PathEnd> = Vec::new();
    let mut sums = RootSums::new(roots.len());
    selection.for_each_path(|path, groups| {
        let node = paths.insert(path.iter().copied());
        sums.add(groups, &root_of_task);
        ends.extend(sums.drain().map(|(root, amount)| PathEnd { root, node, amount }));
    });
    // A thread's ends stay in the order of the paths, in which neighbours share most of their nodes.
    ends.sort_by_key(|end| end.root);

    let Some(first) = roots.first() else { return CallTree::default() };
    let parts = if ends.len() < LEAST_PARALLEL { 1 } else { rayon::current_num_threads() };
    let parts = parts_by_root(&ends, parts);
    let counts: Vec<(usize, usize)> =
        parts.clone().into_par_iter().map(|part| count_nodes(&paths.nodes, &ends[part])).collect();
    // Each part is grown where it stays: a million nodes take longer to copy than to count.
    let all = counts.iter().map(|(nodes, _)| nodes).sum();
    let empty = Node::new(first, None, 0);
    let mut nodes: Vec<Node> = (0..all).into_par_iter().map(|_| empty.clone()).collect();
    let mut room = Vec::with_capacity(parts.len());
    let (mut rest, mut start, mut roots_before) = (&mut nodes[..], 0, 0);
    for (part, (count, own_roots)) in parts.into_iter().zip(counts) {
        let (nodes, others) = rest.split_at_mut(count);
        room.push((part, TreePart { start, roots_before, nodes }));
        (rest, start, roots_before) = (others, start + count, roots_before + own_roots);
    }
    let grown: Vec<CallTree> = room
        .into_par_iter()
        .map(|(part, room)| {
            let mut grove = Grove::next_to(&paths.nodes, room);
            for tree in ends[part].chunk_by(|a, b| a.root == b.root) {
                grove.grow(&roots[tree[0].root], tree);
            }
            grove.room.finish(grove.ends, &selection.labels)
        })
        .collect();
    CallTree::of_parts(nodes, grown, &selection.labels)
}

/// How many nodes and roots the trees of `ends` have.
fn count_nodes(paths: &[Node], ends: &[PathEnd]) -> (usize, usize) {
    let mut latest: Vec<u32> = vec![0; paths.len()];
    let (mut nodes, mut roots) = (0, 0u32);
    for tree in ends.chunk_by(|a, b| a.root == b.root) {
        roots += 1;
        for end in tree {
            let mut at = end.node;
            while let Some(id) = at.filter(|id| latest[id.index()] != roots) {
                latest[id.index()] = roots;
                nodes += 1;
                at = paths[id.index()].parent;
            }
        }
    }
    (nodes + roots as usize, roots as usize)
}

/// The groups of one path, added up by root.
pub(super) struct RootSums {
    /// By root; nothing between paths.
    amounts: Vec<Amount>,
    /// The roots that have some, in the order of their first group.
    roots: Vec<usize>,
}

impl RootSums {
    /// No sums yet, of so many roots.
    pub(super) fn new(roots: usize) -> Self {
        RootSums { amounts: vec![Amount::default(); roots], roots: Vec::new() }
    }

    /// Adds up `groups`, whose tasks have these roots.
    pub(super) fn add(&mut self, groups: PathGroups<'_>, root_of_task: &[usize]) {
        for group in groups {
            let Some(root) = root_of_task.get(group.task.index()) else { continue };
            let amount = &mut self.amounts[*root];
            if *amount == Amount::default() {
                self.roots.push(*root);
            }
            amount.add(group.amount);
        }
    }

    /// Takes the sums out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (usize, Amount)> {
        self.roots.drain(..).map(|root| (root, std::mem::take(&mut self.amounts[root])))
    }
}

/// Distinct steps, and the index of the step of each task.
pub(super) fn roots_of(threads: &[Step]) -> (Vec<Step>, Vec<usize>) {
    let mut known: FxHashMap<LabelId, usize> = FxHashMap::default();
    let mut roots = Vec::new();
    let root_of_task = threads.iter().map(|thread| {
        *known.entry(thread.label).or_insert_with(|| {
            roots.push(*thread);
            roots.len() - 1
        })
    });
    let root_of_task = root_of_task.collect();
    (roots, root_of_task)
}

/// Cuts `ends`, sorted by root, into at most `parts` ranges of about the same length, none of which shares a root with
/// another.
fn parts_by_root(ends: &[PathEnd], parts: usize) -> Vec<Range<usize>> {
    let mut cuts = Vec::new();
    let mut start = 0;
    for part in 1..=parts {
        let aim = (ends.len() * part / parts).max(start);
        let root = ends[..aim].last().map(|end| end.root);
        let end = ends.partition_point(|end| Some(end.root) <= root);
        if end > start {
            cuts.push(start..end);
            start = end;
        }
    }
    cuts
}

/// The trees of some threads.
struct Grove<'a, 'n> {
    /// The tree of all paths.
    paths: &'a [Node],
    /// Where the nodes go.
    room: TreePart<'n>,
    /// Number of nodes so far.
    len: usize,
    ends: Vec<(NodeId, Amount)>,
    /// The latest copy of each node of `paths`; `None` if there is none. It is the present thread's if it comes after the
    /// thread's root.
    copies: Vec<Option<NodeId>>,
    /// The nodes of one path that have no copy yet, the leaf first.
    missing: Vec<NodeId>,
}

impl<'a, 'n> Grove<'a, 'n> {
    fn next_to(paths: &'a [Node], room: TreePart<'n>) -> Self {
        let copies = vec![None; paths.len()];
        Grove { paths, room, len: 0, ends: Vec::new(), copies, missing: Vec::new() }
    }

    /// Adds a node.
    fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId::at(self.room.start + self.len);
        self.room.nodes[self.len] = node;
        self.len += 1;
        id
    }

    /// Adds the tree of one thread.
    fn grow(&mut self, thread: &Step, ends: &[PathEnd]) {
        let root = self.push(Node::new(thread, None, 0));
        for end in ends {
            let node = self.copy_of(end.node, root);
            self.ends.push((node, end.amount));
        }
    }

    /// The copy of a node of `paths` below `root`, which is made with all above it if there is none.
    fn copy_of(&mut self, node: Option<NodeId>, root: NodeId) -> NodeId {
        let mut at = node;
        let mut parent = root;
        while let Some(id) = at {
            if let Some(copy) = self.copies[id.index()].filter(|copy| *copy > root) {
                parent = copy;
                break;
            }
            self.missing.push(id);
            at = self.paths[id.index()].parent;
        }
        while let Some(id) = self.missing.pop() {
            let path = &self.paths[id.index()];
            parent = self.push(Node { parent: Some(parent), depth: path.depth + 1, ..path.clone() });
            self.copies[id.index()] = Some(parent);
        }
        parent
    }
}
