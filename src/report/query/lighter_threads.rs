//! Threads of which many share one tree: a tree for each would have more nodes than a screen can be made of in time.

use super::selection::Selection;
use crate::report::model::label::{LabelId, Step};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Most steps of stacks, counted once for each thread and stack, that threads have in trees of their own: some half of that
/// are nodes, in a tenth of a second.
const MOST_STEPS: u64 = 2_000_000;
/// A thread with this share of the weight and more always has a tree of its own: one of this many. It would fill a column of
/// a wide screen.
const VISIBLE_PART: u64 = 500;

/// Threads that share a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LighterThreads {
    /// Label of their root.
    pub(crate) label: LabelId,
    /// Their ids, in order.
    pub(crate) tids: Vec<u32>,
}

impl Selection<'_> {
    /// Gives the lightest of the threads that have trees of their own by `steps`, a step for each task, one step instead, if
    /// there would be too many nodes; `None` if there would not.
    pub(crate) fn merge_lighter_threads(&mut self, steps: &mut [Step]) -> Option<LighterThreads> {
        self.merge_threads_beyond(MOST_STEPS, steps)
    }

    fn merge_threads_beyond(&mut self, most: u64, steps: &mut [Step]) -> Option<LighterThreads> {
        let costs = self.costs_of(steps);
        let sum = |cost: fn(&ThreadCost) -> u64| {
            costs.iter().map(|(_, costs)| cost(costs)).fold(0, u64::saturating_add)
        };
        if sum(|cost| cost.steps) <= most {
            return None;
        }
        let visible = sum(|cost| cost.weight) / VISIBLE_PART;
        let mut kept_steps = 0u64;
        let mut is_lighter = vec![false; self.labels.len()];
        for (label, cost) in &costs {
            kept_steps = kept_steps.saturating_add(cost.steps);
            is_lighter[label.index()] = kept_steps > most && cost.weight < visible.max(1);
        }
        let shared = self.labels.lighter_threads_step();
        let mut tids = Vec::new();
        for (step, task) in steps.iter_mut().zip(self.profile.tables.tasks()) {
            if is_lighter[step.label.index()] {
                *step = shared;
                tids.push(task.tid);
            }
        }
        tids.sort_unstable();
        tids.dedup();
        (!tids.is_empty()).then_some(LighterThreads { label: shared.label, tids })
    }

    /// What the trees below each of `steps` cost, the heaviest first.
    fn costs_of(&self, steps: &[Step]) -> Vec<(LabelId, ThreadCost)> {
        // A stack comes after the one that it continues.
        let stacks = self.profile.tables.stacks();
        let mut depths = vec![0u32; stacks.len()];
        for (index, stack) in stacks.iter().enumerate() {
            depths[index] = 1 + stack.parent.map_or(0, |parent| depths[parent.index()]);
        }
        let mut of_tasks = vec![ThreadCost::default(); steps.len()];
        for group in self.groups() {
            let cost = &mut of_tasks[group.task.index()];
            cost.weight = cost.weight.saturating_add(group.amount.weight);
            cost.steps += 1 + group.stack.map_or(0, |stack| u64::from(depths[stack.index()]));
        }
        let mut costs: FxHashMap<LabelId, ThreadCost> = FxHashMap::default();
        for (step, of_task) in steps.iter().zip(of_tasks) {
            let cost = costs.entry(step.label).or_default();
            cost.weight = cost.weight.saturating_add(of_task.weight);
            cost.steps = cost.steps.saturating_add(of_task.steps);
        }
        let mut costs: Vec<(LabelId, ThreadCost)> = costs.into_iter().collect();
        costs.sort_unstable_by_key(|(label, cost)| (Reverse(cost.weight), *label));
        costs
    }
}

/// What the tree of a thread costs, and how much it says.
#[derive(Debug, Clone, Copy, Default)]
struct ThreadCost {
    weight: u64,
    steps: u64,
}

#[cfg(test)]
mod tests {
    use crate::report::tests::fixture::Build;
    use crate::report::{CallTree, CommonOptions, Direction, NodeId, ThreadSplit};

    #[test]
    fn the_lightest_threads_share_a_tree_and_nothing_is_lost() {
        let mut build = Build::new();
        for (tid, samples) in [(10, 5_000), (11, 2_500), (12, 4), (13, 2), (14, 1)] {
            let task = build.task(1, tid, "worker", "app");
            build.add(task, samples, &["/x:main", "/x:run"]);
        }
        let recording = build.finish();
        let tree_of = |most: u64| {
            let mut selection = recording.select(&CommonOptions::default()).unwrap();
            let mut steps = selection.thread_steps(ThreadSplit::Each);
            let lighter = selection.merge_threads_beyond(most, &mut steps);
            let tree = CallTree::by_thread(&selection, Direction::TopDown, &steps);
            let root = |id: &NodeId| {
                let node = tree.node(*id);
                format!("{} {}", selection.labels.get(node.label).name, node.total.samples)
            };
            assert_eq!(tree.total().samples, 7_507);
            (tree.roots().iter().map(root).collect::<Vec<_>>(), lighter.map(|lighter| lighter.tids))
        };
        // Two frames and the thread itself: three steps for each of the five.
        let (each, lighter) = tree_of(15);
        assert_eq!((each.len(), lighter), (5, None));
        let (merged, lighter) = tree_of(6);
        assert_eq!(merged, ["worker (tid 10) 5000", "worker (tid 11) 2500", "[lighter threads] 7"]);
        assert_eq!(lighter, Some(vec![12, 13, 14]));
        // What can be seen has a tree of its own, whatever it costs.
        let (seen, lighter) = tree_of(0);
        assert_eq!((seen.len(), lighter), (3, Some(vec![12, 13, 14])));
    }
}
