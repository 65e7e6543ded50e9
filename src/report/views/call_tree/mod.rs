//! The call tree: an arena of nodes with self and total weights. What always holds: a node's total is its self plus its
//! children's totals; the roots' totals sum up to the weight of all samples; parents have smaller ids than their children.
//! How a tree is drawn, folded or searched stays outside.

mod builder;
mod forest;
mod node;
mod tree;

use crate::report::model::label::Step;
use crate::report::query::selection::Selection;
pub(crate) use builder::TreeBuilder;
use forest::RootSums;
pub(crate) use node::Node;
pub(crate) use node::NodeId;
pub(crate) use tree::CallTree;

/// Which end of a stack is the root of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The outermost caller: callees are below their callers.
    TopDown,
    /// The leaf: callers are below their callees.
    BottomUp,
}

impl CallTree {
    /// The tree of all samples of `selection`, with its threads as roots if the selection asks for that.
    pub(crate) fn new(selection: &Selection<'_>, direction: Direction) -> Self {
        if let Some(threads) = selection.threads_in_front() {
            return Self::by_thread(selection, direction, threads);
        }
        let mut tree = TreeBuilder::default();
        selection.for_each_path(|path, groups| match direction {
            Direction::TopDown => tree.add(path.iter().copied(), groups.amount),
            Direction::BottomUp => tree.add(path.iter().rev().copied(), groups.amount),
        });
        tree.finish(&selection.labels)
    }

    /// The same with `threads` as roots: a step per task (see [`Selection::thread_steps`]).
    pub(crate) fn by_thread(selection: &Selection<'_>, direction: Direction, threads: &[Step]) -> Self {
        match direction {
            Direction::TopDown => forest::by_thread(selection, threads),
            Direction::BottomUp => {
                let mut tree = TreeBuilder::default();
                let (threads, thread_of_task) = forest::roots_of(threads);
                let mut sums = RootSums::new(threads.len());
                selection.for_each_path(|path, groups| {
                    let root = tree.insert(path.iter().rev().copied());
                    sums.add(groups, &thread_of_task);
                    for (thread, amount) in sums.drain() {
                        let end = tree.child(root, &threads[thread]);
                        tree.end_at(end, amount);
                    }
                });
                tree.finish(&selection.labels)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::fixture::Build;
    use crate::report::{CommonOptions, ThreadSplit};

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
                assert_eq!(node.total.samples, tree.own(id).samples + below);
                assert!(tree.children(id).iter().all(|child| tree.node(*child).parent == Some(id)));
                assert_eq!(node.has_children(), !tree.children(id).is_empty());
            }
            // A thread, main, run, sort, hash, load, hash; inverted, sort or hash, then run or load, main and the
            // threads below.
            assert_eq!(tree.nodes().len(), if direction == Direction::TopDown { 21 } else { 17 });
        }
    }
}
