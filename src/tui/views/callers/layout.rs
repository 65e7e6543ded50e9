//! Places the boxes of both sides.

use super::state::{CallersState, named, node_of, selected_part, tree};
use crate::report::{BoxOf, FlameBox, NodeId, flame_boxes};
use crate::tui::compute::picture::{Picture, Pivot, Side};
use ratatui::layout::Rect;

/// Columns of the labels to the left of the boxes.
const SIDE_COLUMNS: u16 = 11;
/// Least width of the screen with room for the labels.
const ROOMY_COLUMNS: u16 = 60;

/// The boxes of one side, with the pivot in row 0. Everything between the pivot and an opened box gets the full width.
pub(crate) fn boxes(
    view: &CallersState,
    picture: &Picture,
    pivot: &Pivot,
    side: Side,
    columns: u16,
) -> Vec<FlameBox> {
    let (named, columns) = (named(picture, pivot, side), u32::from(columns));
    let Some(root) = named.tree.roots().first() else { return Vec::new() };
    let zoom = view.zooms.iter().rev().find(|(of, _)| *of == side);
    let top = match zoom.map(|(_, path)| named.find(path)) {
        None | Some(BoxOf::All) => BoxOf::Node(*root),
        Some(what) => what,
    };
    let Some(first) = node_of(&top) else { return Vec::new() };
    let mut above: Vec<NodeId> = Vec::new();
    let mut next = named.tree.node(first).parent;
    while let Some(id) = next {
        above.push(id);
        next = named.tree.node(id).parent;
    }
    // A shared box has no row of its own once opened: its nodes take its place.
    let is_rest = matches!(top, BoxOf::Rest(_));
    let rows = above.len() as u32 - u32::from(is_rest);
    let way = above.into_iter().rev().zip(0..);
    let way = way.map(|(id, row)| FlameBox { what: BoxOf::Node(id), row, start: 0, end: columns });
    let below = flame_boxes(named.tree, top, columns, |_| {});
    let below = below.into_iter().skip(usize::from(is_rest));
    way.chain(below.map(|one| FlameBox { row: one.row + rows, ..one })).collect()
}

/// Positions of the parts of the view.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallersLayout {
    /// Columns to the left of the boxes.
    pub(crate) side: u16,
    /// First column of the boxes.
    pub(crate) x: u16,
    pub(crate) columns: u16,
    /// Line of the pivot.
    pub(crate) middle: u16,
    /// Lines for callers, and the number of rows next to the pivot that are scrolled out.
    pub(crate) above: u16,
    skipped_above: u32,
    /// The same for callees.
    pub(crate) below: u16,
    skipped_below: u32,
}

pub(crate) fn layout(view: &CallersState, picture: &Picture, pivot: &Pivot, area: Rect) -> CallersLayout {
    let side = if area.width >= ROOMY_COLUMNS { SIDE_COLUMNS } else { 0 };
    let depth = |side: Side| tree(pivot, side).nodes().map(|(_, node)| node.depth).max().unwrap_or(0);
    let rows = area.height.saturating_sub(1);
    let (up, down) = (depth(Side::Callers), depth(Side::Callees));
    let within = |depth: u32| u16::try_from(depth).unwrap_or(u16::MAX);
    // Each side gets half of the screen, plus what the other does not need.
    let half = rows / 2;
    let above = within(up).min(rows - within(down).min(rows - half));
    let below = rows - above;
    let selected = selected_part(view, picture, pivot).and_then(|what| node_of(&what));
    let row = selected.map_or(0, |id| tree(pivot, view.side).node(id).depth);
    let skipped = |side: Side, rows: u16| {
        if view.side == side { row.saturating_sub(u32::from(rows)) } else { 0 }
    };
    CallersLayout {
        side,
        x: area.x + side,
        columns: area.width - side,
        middle: area.y + above,
        above,
        skipped_above: skipped(Side::Callers, above),
        below,
        skipped_below: skipped(Side::Callees, below),
    }
}

/// Rows of callers and of callees that are not on the screen, in a view that takes `area`.
pub(super) fn hidden_rows(view: &CallersState, picture: &Picture, area: Rect) -> (u32, u32) {
    let Some(pivot) = &picture.pivot else { return (0, 0) };
    let layout = layout(view, picture, pivot, area);
    let hidden = |side: Side| {
        let last = boxes(view, picture, pivot, side, layout.columns).last().map_or(0, |one| one.row);
        // Row 0 is the pivot, in the middle.
        let rows = (1..=last).filter(|row| layout.line(side, *row).is_none());
        u32::try_from(rows.count()).unwrap_or(u32::MAX)
    };
    (hidden(Side::Callers), hidden(Side::Callees))
}

impl CallersLayout {
    /// The screen line of a row of boxes; `None` if it is not shown.
    pub(crate) fn line(&self, side: Side, row: u32) -> Option<u16> {
        let (skipped, rows) = match side {
            Side::Callers => (self.skipped_above, self.above),
            Side::Callees => (self.skipped_below, self.below),
        };
        let distance = u16::try_from(row.checked_sub(skipped).filter(|distance| *distance > 0)?).ok()?;
        if distance > rows {
            return None;
        }
        Some(match side {
            Side::Callers => self.middle - distance,
            Side::Callees => self.middle + distance,
        })
    }
}
