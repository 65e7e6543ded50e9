//! The boxes of a flame graph, in rows of cells.
//!
//! The edges of a box are rounded running totals, and its width follows from them: boxes of a row do not overlap,
//! callees of one caller fill exactly the cells of their time, and nothing drifts. Callees narrower than a cell share
//! the last box below their caller. That box always gets a cell, if need be from its neighbour, so that every function
//! is reachable through some box and can be zoomed. The neighbour has a cell less then, and so have all below it.

use super::call_tree::{CallTree, NodeId};
use std::collections::VecDeque;

/// The nodes that a box shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BoxOf {
    /// All samples.
    All,
    /// One node.
    Node(NodeId),
    /// Several siblings that are each too narrow for a box.
    Rest(Vec<NodeId>),
}

impl BoxOf {
    /// Weight of the samples in the box.
    pub(crate) fn total(&self, tree: &CallTree) -> u64 {
        match self {
            BoxOf::All => tree.total().weight,
            BoxOf::Node(id) => tree.node(*id).total.weight,
            BoxOf::Rest(ids) => sum(tree, ids),
        }
    }

    /// Children of the box.
    fn children<'t>(&'t self, tree: &'t CallTree) -> &'t [NodeId] {
        match self {
            BoxOf::All => tree.roots(),
            BoxOf::Node(id) => tree.children(*id),
            BoxOf::Rest(ids) => ids,
        }
    }
}

fn sum(tree: &CallTree, ids: &[NodeId]) -> u64 {
    ids.iter().fold(0, |sum: u64, id| sum.saturating_add(tree.node(*id).total.weight))
}

/// A box and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlameBox {
    /// Nodes in the box.
    pub(crate) what: BoxOf,
    /// Row, 0 on top.
    pub(crate) row: u32,
    /// First cell.
    pub(crate) start: u32,
    /// One past the last cell; greater than `start`.
    pub(crate) end: u32,
}

/// The boxes from `top` down, which takes all `columns` of the first row; sorted by row, then by cell. `order` sorts
/// siblings, which it gets heaviest first.
pub(crate) fn flame_boxes(
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
    // Pending boxes, each with the weight to the left of it.
    let mut pending = VecDeque::from([(FlameBox { what: top, row: 0, start: 0, end: columns }, 0u64)]);
    let mut children = Vec::new();
    while let Some((parent, left)) = pending.pop_front() {
        // A shared box is only opened when it is the top. The same holds for a box that borrowed its cell: everything
        // below it would have to borrow, down to the last row.
        let is_open = match parent.what {
            BoxOf::All => true,
            BoxOf::Node(_) => scale.has_cell(left, parent.what.total(tree)),
            BoxOf::Rest(_) => false,
        };
        if parent.row == 0 || is_open {
            children.clear();
            children.extend_from_slice(parent.what.children(tree));
            order(&mut children);
            place(tree, &children, &parent, left, scale, &mut pending);
        }
        boxes.push(parent);
    }
    boxes
}

/// Conversion of weights to cells.
#[derive(Debug, Clone, Copy)]
struct Scale {
    whole: u64,
    columns: u32,
}

impl Scale {
    /// The cell edge at the weight `left`.
    fn edge(self, left: u64) -> u32 {
        let whole = u128::from(self.whole.max(1));
        let cell = (u128::from(left) * u128::from(self.columns) * 2 + whole) / (2 * whole);
        u32::try_from(cell).unwrap_or(self.columns).min(self.columns)
    }

    /// Whether `weight`, starting at `left`, covers a cell by itself.
    fn has_cell(self, left: u64, weight: u64) -> bool {
        self.edge(left) < self.edge(left.saturating_add(weight))
    }

    fn is_below_a_cell(self, weight: u64) -> bool {
        u128::from(weight) * u128::from(self.columns) < u128::from(self.whole)
    }
}

/// Number of boxes that a zoomed shared box is split into if none of its nodes has a cell even then: few enough for
/// text to fit.
const PARTS: u32 = 8;

/// Places the `children` of `parent` below it; the first starts at the weight `left`.
fn place(
    tree: &CallTree,
    children: &[NodeId],
    parent: &FlameBox,
    mut left: u64,
    scale: Scale,
    out: &mut VecDeque<(FlameBox, u64)>,
) {
    let weight = |id: NodeId| tree.node(id).total.weight;
    // Nodes without weight are not drawn.
    let (small, wide): (Vec<NodeId>, Vec<NodeId>) =
        (children.iter().filter(|id| weight(**id) > 0)).partition(|id| scale.is_below_a_cell(weight(**id)));
    let parts = PARTS.min(scale.columns / 2);
    let mut boxes: Vec<Vec<NodeId>> = wide.into_iter().map(|id| vec![id]).collect();
    if boxes.is_empty() && matches!(parent.what, BoxOf::Rest(_)) && parts > 1 {
        boxes = parted(tree, &small, parts);
    } else if !small.is_empty() {
        boxes.push(small);
    }
    // A parent that gave up a cell may have too few for all of them.
    let most = (parent.end - parent.start) as usize;
    while boxes.len() > most {
        let Some(last) = boxes.pop() else { break };
        match boxes.last_mut() {
            Some(before) => before.extend(last),
            None => break,
        }
    }
    let mut start = parent.start;
    let mut to_come = boxes.len() as u32;
    for ids in boxes {
        to_come -= 1;
        let right = left.saturating_add(sum(tree, &ids));
        // A cell for this box, and one for each that follows.
        let end = scale.edge(right).max(start + 1).min(parent.end - to_come);
        let what = match ids[..] {
            [one] => BoxOf::Node(one),
            _ => BoxOf::Rest(ids),
        };
        out.push_back((FlameBox { what, row: parent.row + 1, start, end }, left));
        (start, left) = (end, right);
    }
}

/// Groups adjacent siblings so that each group has about 1/`parts` of the weight.
fn parted(tree: &CallTree, ids: &[NodeId], parts: u32) -> Vec<Vec<NodeId>> {
    let whole = u128::from(sum(tree, ids).max(1));
    let mut left = 0u128;
    let mut part_of = |id: &NodeId| {
        let part = left * u128::from(parts) / whole;
        left += u128::from(tree.node(*id).total.weight);
        part
    };
    let numbered: Vec<(u128, NodeId)> = ids.iter().map(|id| (part_of(id), *id)).collect();
    numbered.chunk_by(|a, b| a.0 == b.0).map(|part| part.iter().map(|(_, id)| *id).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::fixture::Build;
    use crate::report::{Analysis, CommonOptions, Direction};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn tree_of(stacks: &[(Vec<u8>, u8)]) -> CallTree {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        for (path, samples) in stacks {
            let names: Vec<String> = path.iter().map(|function| format!("/x:f{function}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            build.add(task, u64::from(*samples), &names);
        }
        let recording: Analysis = build.finish();
        let selection = recording.select(&CommonOptions::default()).unwrap();
        CallTree::new(&selection, Direction::TopDown)
    }

    /// Largest deviation of a width in cells: half a cell at each edge.
    const ROUNDING: f64 = 1.0;
    /// Cells that a box may lack for each row above it: one for the neighbour that borrowed it.
    const BORROWED: f64 = 1.0;
    /// From this width on everything can be reached; below it, a shared box may be as narrow as its parts.
    const LEAST_COLUMNS: u32 = 8;

    fn cells(tree: &CallTree, what: &BoxOf, whole: u64, columns: u32) -> f64 {
        what.total(tree) as f64 * f64::from(columns) / whole as f64
    }

    /// The boxes directly below `parent`.
    fn below<'b>(boxes: &'b [FlameBox], parent: &FlameBox) -> Vec<&'b FlameBox> {
        let is_below =
            |one: &&FlameBox| one.row == parent.row + 1 && parent.start <= one.start && one.end <= parent.end;
        boxes.iter().filter(is_below).collect()
    }

    /// Opens every box from `top` down by zooming into it; returns all nodes that had a box of their own.
    fn reached(tree: &CallTree, top: BoxOf, columns: u32) -> BTreeSet<NodeId> {
        let mut seen = BTreeSet::new();
        let mut zooms = vec![top];
        while let Some(top) = zooms.pop() {
            for one in flame_boxes(tree, top.clone(), columns, |_| {}) {
                match one.what {
                    BoxOf::Node(id) => {
                        // Below a narrow box the children may not be drawn, so it is zoomed, too.
                        if seen.insert(id) && one.row > 0 {
                            zooms.push(BoxOf::Node(id));
                        }
                    }
                    BoxOf::Rest(_) if one.row > 0 => {
                        assert_ne!(one.what, top, "a zoom that shows itself");
                        zooms.push(one.what);
                    }
                    BoxOf::Rest(_) | BoxOf::All => {}
                }
            }
        }
        seen
    }

    /// A zoom into a node, or into several siblings.
    fn top_of(tree: &CallTree, zoom: usize, is_rest: bool) -> BoxOf {
        let nodes: Vec<NodeId> = tree.nodes().map(|(id, _)| id).collect();
        let Some(id) = nodes.get(zoom) else { return BoxOf::All };
        let siblings = tree.node(*id).parent.map_or(tree.roots(), |parent| tree.children(parent));
        if is_rest && siblings.len() > 1 { BoxOf::Rest(siblings.to_vec()) } else { BoxOf::Node(*id) }
    }

    /// A neighbour borrows a cell from a box and another one from what it calls, which has one of three then.
    #[test]
    fn a_cell_that_is_lent_is_missing_in_all_rows_below() {
        let mut stacks = vec![(vec![0], 121), (vec![2], 121), (vec![2], 121), (vec![2], 121)];
        stacks.extend([(vec![1, 1], 37), (vec![1, 2], 21), (vec![1, 3], 1), (vec![4], 60), (vec![5], 1)]);
        let tree = tree_of(&stacks);
        for columns in 8..200 {
            for one in flame_boxes(&tree, BoxOf::All, columns, |_| {}) {
                let exact = cells(&tree, &one.what, tree.total().weight, columns);
                let off = (f64::from(one.end - one.start) - exact).abs();
                assert!(off <= ROUNDING + BORROWED * f64::from(one.row), "{columns} {one:?} {exact}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn boxes_of_a_row_never_overlap_leave_no_gap_and_add_up(
            stacks in prop::collection::vec((prop::collection::vec(0u8..6, 1..7), 1u8..40), 1..40),
            columns in 1u32..200,
            zoom in 0usize..20,
            is_rest: bool,
            by_name: bool,
        ) {
            let tree = tree_of(&stacks);
            let top = top_of(&tree, zoom, is_rest);
            let whole = top.total(&tree);
            let order = |ids: &mut [NodeId]| if by_name {
                ids.sort_by_key(|id| tree.node(*id).label);
            };
            let boxes = flame_boxes(&tree, top.clone(), columns, order);
            prop_assert_eq!(&boxes[0], &FlameBox { what: top, row: 0, start: 0, end: columns });
            // In order, none empty, none overlapping, none outside.
            for pair in boxes.windows(2) {
                let in_row = pair[0].row == pair[1].row && pair[0].end <= pair[1].start;
                prop_assert!(in_row || pair[0].row + 1 == pair[1].row, "{:?}", pair);
            }
            // If no box borrowed a cell, every edge is at its weight.
            let exact = |one: &FlameBox| cells(&tree, &one.what, whole, columns);
            let has_lent = !boxes.iter().all(|one| exact(one) >= 1.0);
            let allowed = |row: u32| match has_lent {
                true => ROUNDING + BORROWED * f64::from(row),
                false => ROUNDING,
            };
            for one in &boxes {
                prop_assert!(one.start < one.end && one.end <= columns);
                let off = (f64::from(one.end - one.start) - exact(one)).abs();
                prop_assert!(off <= allowed(one.row), "{one:?} {}", exact(one));
            }
            // Boxes without a cell of their own are opened only by a zoom.
            let is_open = |one: &&FlameBox| match one.what {
                _ if one.row == 0 => true,
                BoxOf::Node(_) => exact(one) >= 1.0 || !below(&boxes, one).is_empty(),
                BoxOf::Rest(_) | BoxOf::All => false,
            };
            for parent in boxes.iter().filter(is_open) {
                let children = parent.what.children(&tree);
                let below = below(&boxes, parent);
                // The boxes below cover all children, each once.
                let weights: u64 = below.iter().map(|one| one.what.total(&tree)).sum();
                prop_assert_eq!(weights, sum(&tree, children), "{:?}", parent);
                let mut sharing: Vec<NodeId> = below.iter().flat_map(|one| match &one.what {
                    BoxOf::Node(id) => vec![*id],
                    BoxOf::Rest(ids) => ids.clone(),
                    BoxOf::All => Vec::new(),
                }).collect();
                let mut called = children.to_vec();
                sharing.sort();
                called.sort();
                prop_assert_eq!(sharing, called);
                // They fill the parent from its left edge, except for its self weight, without gaps.
                let filled: u32 = below.iter().map(|one| one.end - one.start).sum();
                let exact = weights as f64 * f64::from(columns) / whole as f64;
                prop_assert!((f64::from(filled) - exact).abs() <= allowed(parent.row + 1), "{parent:?}: {filled} of {exact}");
                let mut at = parent.start;
                for one in below {
                    prop_assert!(one.start == at, "gap before {one:?} in {parent:?}");
                    at = one.end;
                }
            }
        }

        #[test]
        fn every_call_can_be_reached_by_zooming(
            stacks in prop::collection::vec((prop::collection::vec(0u8..40, 1..5), 1u8..=255), 1..120),
            columns in LEAST_COLUMNS..100,
        ) {
            let tree = tree_of(&stacks);
            let all: BTreeSet<NodeId> = tree.nodes().map(|(id, _)| id).collect();
            prop_assert_eq!(reached(&tree, BoxOf::All, columns), all);
        }
    }

    #[test]
    fn what_rounds_to_no_cell_has_a_box() {
        // 1 of 400 samples at 80 columns: a fifth of a cell.
        let tree = tree_of(&[(vec![1, 2], 200), (vec![1, 3], 199), (vec![1, 4], 1)]);
        let boxes = flame_boxes(&tree, BoxOf::All, 80, |_| {});
        let ends: Vec<u32> = boxes.iter().filter(|one| one.row == 2).map(|one| one.end).collect();
        assert_eq!(ends, [40, 79, 80]);
        // If the caller has self weight, the cell is borrowed from that.
        let tree = tree_of(&[(vec![1, 2], 200), (vec![1, 4], 1), (vec![1], 199)]);
        let boxes = flame_boxes(&tree, BoxOf::All, 80, |_| {});
        let ends: Vec<u32> = boxes.iter().filter(|one| one.row == 2).map(|one| one.end).collect();
        assert_eq!(ends, [40, 41]);
    }

    #[test]
    fn what_was_given_a_cell_is_opened_by_a_zoom() {
        let tree = tree_of(&[(vec![1, 2], 200), (vec![1, 3], 199), (vec![1, 4, 5, 6], 1)]);
        let boxes = flame_boxes(&tree, BoxOf::All, 80, |_| {});
        assert_eq!(boxes.last().map(|one| one.row), Some(2));
        let [.., gift] = &boxes[..] else { panic!("{boxes:?}") };
        let zoomed = flame_boxes(&tree, gift.what.clone(), 80, |_| {});
        assert_eq!(zoomed.iter().map(|one| (one.start, one.end)).collect::<Vec<_>>(), [(0, 80); 3]);
    }

    #[test]
    fn where_there_is_no_cell_for_it_the_last_shares_its_box() {
        // Two siblings of one cell each in a parent of two cells, and a narrow third.
        let tree = tree_of(&[(vec![1, 2], 100), (vec![1, 3], 100), (vec![1, 4], 1), (vec![9], 199)]);
        let boxes = flame_boxes(&tree, BoxOf::All, 4, |_| {});
        let below: Vec<&FlameBox> = boxes.iter().filter(|one| one.row == 2).collect();
        let [BoxOf::Node(_), BoxOf::Rest(rest)] = [&below[0].what, &below[1].what] else {
            panic!("{below:?}")
        };
        assert_eq!((below.len(), rest.len(), below[1].start, below[1].end), (2, 2, 1, 2));
    }

    #[test]
    fn many_of_less_than_a_cell_are_parted_where_they_are_zoomed() {
        let stacks: Vec<(Vec<u8>, u8)> = (0..200).map(|function| (vec![201, function], 1)).collect();
        let tree = tree_of(&stacks);
        let boxes = flame_boxes(&tree, BoxOf::All, 80, |_| {});
        let [.., last] = &boxes[..] else { panic!("{boxes:?}") };
        assert!(matches!(&last.what, BoxOf::Rest(ids) if ids.len() == 200), "{last:?}");
        let zoomed = flame_boxes(&tree, last.what.clone(), 80, |_| {});
        let parts: Vec<usize> = zoomed[1..]
            .iter()
            .map(|one| match &one.what {
                BoxOf::Rest(ids) => ids.len(),
                BoxOf::Node(_) | BoxOf::All => 1,
            })
            .collect();
        assert_eq!(parts, [25; 8]);
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
        // Zoomed, the shared box shows its nodes.
        let zoomed = flame_boxes(&tree, below[1].what.clone(), 49, |_| {});
        assert_eq!(zoomed.len(), 1 + 49);
    }

    #[test]
    fn no_columns_hold_no_boxes() {
        assert!(flame_boxes(&tree_of(&[(vec![1], 1)]), BoxOf::All, 0, |_| {}).is_empty());
    }
}
