//! The boxes of a flame graph, in rows of cells.
//!
//! Both edges of a box come from running totals and are rounded then, never its width: boxes of a row do not overlap,
//! what is called from one place fills exactly the cells of its time, and nothing drifts. Neighbours of less than
//! a cell each share one box.

use super::call_tree::{CallTree, NodeId};
use std::collections::VecDeque;

/// What a box stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoxOf {
    /// All samples.
    All,
    /// One node.
    Node(NodeId),
    /// Several neighbours that are called from one place, each too narrow for a box.
    Rest(Vec<NodeId>),
}

impl BoxOf {
    /// Weight of the samples behind it.
    pub fn total(&self, tree: &CallTree) -> u64 {
        match self {
            BoxOf::All => tree.total().weight,
            BoxOf::Node(id) => tree.node(*id).total.weight,
            BoxOf::Rest(ids) => sum(tree, ids),
        }
    }

    /// What stands below it.
    fn children<'t>(&'t self, tree: &'t CallTree) -> &'t [NodeId] {
        match self {
            BoxOf::All => tree.roots(),
            BoxOf::Node(id) => &tree.node(*id).children,
            BoxOf::Rest(ids) => ids,
        }
    }
}

fn sum(tree: &CallTree, ids: &[NodeId]) -> u64 {
    ids.iter().fold(0, |sum: u64, id| sum.saturating_add(tree.node(*id).total.weight))
}

/// A box in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlameBox {
    /// What it stands for.
    pub what: BoxOf,
    /// Row, 0 on top.
    pub row: u32,
    /// First cell.
    pub start: u32,
    /// First cell that no longer belongs to it: more than `start`.
    pub end: u32,
}

/// The boxes from `top` down, which takes all `columns` of the first row; in the order of rows, then of cells.
/// `order` sorts what is called from one place; it comes heaviest first.
pub fn flame_boxes(
    tree: &CallTree,
    top: BoxOf,
    columns: u32,
    order: impl Fn(&mut [NodeId]),
) -> Vec<FlameBox> {
    let mut boxes = Vec::new();
    let scale = Scale { whole: top.total(tree), columns };
    if columns == 0 {
        return boxes;
    }
    // Each box with the weight that stands to the left of it.
    let mut pending = VecDeque::from([(FlameBox { what: top, row: 0, start: 0, end: columns }, 0u64)]);
    let mut children = Vec::new();
    while let Some((parent, left)) = pending.pop_front() {
        // A shared box is only opened when it is the top.
        if parent.row == 0 || !matches!(parent.what, BoxOf::Rest(_)) {
            children.clear();
            children.extend_from_slice(parent.what.children(tree));
            order(&mut children);
            place(tree, &children, parent.row + 1, left, scale, &mut pending);
        }
        boxes.push(parent);
    }
    boxes
}

/// How weights become cells.
#[derive(Debug, Clone, Copy)]
struct Scale {
    whole: u64,
    columns: u32,
}

impl Scale {
    /// The edge between the weight `left` and what follows.
    fn edge(self, left: u64) -> u32 {
        let whole = u128::from(self.whole.max(1));
        let cell = (u128::from(left) * u128::from(self.columns) * 2 + whole) / (2 * whole);
        u32::try_from(cell).unwrap_or(self.columns).min(self.columns)
    }

    fn is_below_a_cell(self, weight: u64) -> bool {
        u128::from(weight) * u128::from(self.columns) < u128::from(self.whole)
    }
}

fn place(
    tree: &CallTree,
    children: &[NodeId],
    row: u32,
    mut left: u64,
    scale: Scale,
    out: &mut VecDeque<(FlameBox, u64)>,
) {
    let is_small = |id: &NodeId| scale.is_below_a_cell(tree.node(*id).total.weight);
    for run in children.chunk_by(|a, b| is_small(a) && is_small(b)) {
        let right = left.saturating_add(sum(tree, run));
        let (start, end) = (scale.edge(left), scale.edge(right));
        if start < end {
            let what = match run {
                [one] => BoxOf::Node(*one),
                several => BoxOf::Rest(several.to_vec()),
            };
            out.push_back((FlameBox { what, row, start, end }, left));
        }
        left = right;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::Build;
    use crate::report::{CommonOptions, Direction, Recording};
    use proptest::prelude::*;

    fn tree_of(stacks: &[(Vec<u8>, u8)]) -> CallTree {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        for (path, samples) in stacks {
            let names: Vec<String> = path.iter().map(|function| format!("/x:f{function}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            build.add(task, u64::from(*samples), &names);
        }
        let recording: Recording = build.finish();
        let selection = recording.select(&CommonOptions::default()).unwrap();
        CallTree::new(&selection, Direction::TopDown)
    }

    /// What a cell may be off by: half at each edge.
    const ROUNDING: f64 = 1.0;

    fn cells(tree: &CallTree, what: &BoxOf, whole: u64, columns: u32) -> f64 {
        what.total(tree) as f64 * f64::from(columns) / whole as f64
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn boxes_of_a_row_never_overlap_leave_no_gap_and_add_up(
            stacks in prop::collection::vec((prop::collection::vec(0u8..6, 1..7), 1u8..40), 1..40),
            columns in 1u32..200,
            zoom in 0usize..20,
            by_name: bool,
        ) {
            let tree = tree_of(&stacks);
            let nodes: Vec<NodeId> = tree.nodes().map(|(id, _)| id).collect();
            let top = nodes.get(zoom).map_or(BoxOf::All, |id| BoxOf::Node(*id));
            let whole = top.total(&tree);
            let order = |ids: &mut [NodeId]| if by_name {
                ids.sort_by_key(|id| tree.node(*id).label);
            };
            let boxes = flame_boxes(&tree, top.clone(), columns, order);
            prop_assert_eq!(&boxes[0], &FlameBox { what: top, row: 0, start: 0, end: columns });
            // In order, none empty, none over another, none outside.
            for pair in boxes.windows(2) {
                let in_row = pair[0].row == pair[1].row && pair[0].end <= pair[1].start;
                prop_assert!(in_row || pair[0].row + 1 == pair[1].row, "{:?}", pair);
            }
            for one in &boxes {
                prop_assert!(one.start < one.end && one.end <= columns);
                let exact = cells(&tree, &one.what, whole, columns);
                prop_assert!((f64::from(one.end - one.start) - exact).abs() <= ROUNDING, "{one:?} {exact}");
            }
            // What is called from a box fills it from its left edge, but for its own time; nothing is missing between.
            for parent in boxes.iter().filter(|one| matches!(one.what, BoxOf::Node(_) | BoxOf::All)) {
                let called = sum(&tree, parent.what.children(&tree));
                let below: Vec<&FlameBox> = boxes.iter()
                    .filter(|one| one.row == parent.row + 1 && parent.start <= one.start && one.end <= parent.end)
                    .collect();
                let filled: u32 = below.iter().map(|one| one.end - one.start).sum();
                let exact = called as f64 * f64::from(columns) / whole as f64;
                prop_assert!((f64::from(filled) - exact).abs() <= ROUNDING, "{parent:?}: {filled} of {exact}");
                let mut at = parent.start;
                for one in below {
                    prop_assert!(one.start == at, "gap before {one:?} in {parent:?}");
                    at = one.end;
                }
            }
        }
    }

    #[test]
    fn neighbours_below_a_cell_share_a_box() {
        let stacks: Vec<(Vec<u8>, u8)> =
            (0..50).map(|function| (vec![100, function], if function == 0 { 50 } else { 1 })).collect();
        let tree = tree_of(&stacks);
        let boxes = flame_boxes(&tree, BoxOf::All, 10, |_| {});
        let below: Vec<&FlameBox> = boxes.iter().filter(|one| one.row == 2).collect();
        assert_eq!(below.len(), 2);
        let BoxOf::Rest(rest) = &below[1].what else { panic!("{below:?}") };
        assert_eq!((rest.len(), below[1].start, below[1].end), (49, 5, 10));
        // Zoomed, it shows what it holds.
        let zoomed = flame_boxes(&tree, below[1].what.clone(), 49, |_| {});
        assert_eq!(zoomed.len(), 1 + 49);
    }

    #[test]
    fn no_columns_hold_no_boxes() {
        assert!(flame_boxes(&tree_of(&[(vec![1], 1)]), BoxOf::All, 0, |_| {}).is_empty());
    }
}
