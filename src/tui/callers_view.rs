//! The Callers view: one function in the middle, its callers above, what it calls below, every occurrence merged.

use super::action::{Action, Tab};
use super::app::App;
use super::line::{Below, fitting};
use super::picture::{Picture, Pivot};
use super::top_view;
use crate::report::{BoxOf, CallTree, FlameBox, LabelId, LabelKey, LabelKind, NodeId, PathStep, flame_boxes};
use crate::units::{percent, percent_text};
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use std::cmp::Reverse;

/// Columns of what stands to the left of the boxes.
const SIDE_COLUMNS: u16 = 11;
/// From this width on there is room for that.
const ROOMY_COLUMNS: u16 = 60;

/// On which side of the function something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Side {
    /// Above.
    #[default]
    Callers,
    /// Below.
    Callees,
}

/// What the user did to the view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallersState {
    /// The functions that were in the middle before, oldest first.
    pub history: Vec<LabelKey>,
    /// On which side the selected box is.
    pub side: Side,
    /// The way to it from the middle; nothing for the middle itself.
    pub path: Vec<PathStep>,
}

/// Puts a function into the middle.
pub fn set_pivot(app: &mut App, key: LabelKey) {
    if app.query.pivot.as_ref() == Some(&key) {
        return;
    }
    app.callers.history.extend(app.query.pivot.clone());
    app.callers.path.clear();
    app.ask(|query| query.pivot = Some(key));
}

/// Chooses the function in the middle when the view is opened: what was selected before, else the hottest.
pub fn opened(app: &mut App, from: Tab) {
    let Some(picture) = app.picture.clone() else { return };
    let key = |label: LabelId| {
        let label = picture.labels.get(label);
        (!matches!(label.kind, LabelKind::Task)).then(|| label.key())
    };
    let selected = match from {
        Tab::Flame => super::flame_view::selected(app, &picture).last().copied(),
        Tab::Top => top_view::selected(app, &picture).last().copied(),
        _ => None,
    };
    let hottest = || picture.table.rows.first().map(|row| row.label);
    if let Some(key) = selected.and_then(key) {
        set_pivot(app, key);
    } else if app.query.pivot.is_none()
        && let Some(key) = hottest().and_then(key)
    {
        set_pivot(app, key);
    }
}

pub(super) fn tree(pivot: &Pivot, side: Side) -> &CallTree {
    match side {
        Side::Callers => &pivot.sandwich.callers,
        Side::Callees => &pivot.sandwich.callees,
    }
}

fn crumb(picture: &Picture, tree: &CallTree, id: NodeId) -> PathStep {
    let node = tree.node(id);
    PathStep { label: picture.labels.get(node.label).key(), is_inlined: node.is_inlined }
}

/// The node at the end of the way, or as far as there is one.
pub(super) fn selected_node(app: &App, picture: &Picture, pivot: &Pivot) -> Option<NodeId> {
    let tree = tree(pivot, app.callers.side);
    let mut at = *tree.roots().first()?;
    for step in &app.callers.path {
        let children = &tree.node(at).children;
        match children.iter().find(|id| crumb(picture, tree, **id) == *step) {
            Some(next) => at = *next,
            None => break,
        }
    }
    Some(at)
}

fn select(app: &mut App, picture: &Picture, pivot: &Pivot, side: Side, id: NodeId) {
    let tree = tree(pivot, side);
    let mut path = Vec::new();
    let mut next = Some(id);
    while let Some(id) = next {
        next = tree.node(id).parent;
        if next.is_some() {
            path.push(crumb(picture, tree, id));
        }
    }
    path.reverse();
    app.callers.side = side;
    app.callers.path = path;
}

/// The stack that is selected, root first; the last is the selected function.
pub fn selected(app: &App, picture: &Picture) -> Vec<LabelId> {
    let Some(pivot) = &picture.pivot else { return Vec::new() };
    let Some(id) = selected_node(app, picture, pivot) else { return Vec::new() };
    let tree = tree(pivot, app.callers.side);
    let mut labels: Vec<LabelId> = tree.path(id).map(|node| node.label).collect();
    match app.callers.side {
        Side::Callees => labels.reverse(),
        // Callers are above what they call: the selected one is all there is of that stack.
        Side::Callers => labels.truncate(1),
    }
    labels
}

/// The boxes of one side, the function itself in row 0.
pub(super) fn boxes(pivot: &Pivot, side: Side, columns: u16) -> Vec<FlameBox> {
    let tree = tree(pivot, side);
    let Some(root) = tree.roots().first() else { return Vec::new() };
    flame_boxes(tree, BoxOf::Node(*root), columns.into(), |_| {})
}

/// Where everything is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Cells in front of the boxes.
    pub(super) side: u16,
    /// The cells of boxes.
    pub(super) x: u16,
    pub(super) columns: u16,
    /// The row of the function.
    pub(super) middle: u16,
    /// Rows of callers, and the first of them that is shown, counted from the function.
    pub(super) above: u16,
    skipped_above: u32,
    /// The same of callees.
    pub(super) below: u16,
    skipped_below: u32,
}

pub(super) fn layout(app: &App, picture: &Picture, pivot: &Pivot, area: Rect) -> Layout {
    let side = if area.width >= ROOMY_COLUMNS { SIDE_COLUMNS } else { 0 };
    let depth = |side: Side| tree(pivot, side).nodes().map(|(_, node)| node.depth).max().unwrap_or(0);
    let rows = area.height.saturating_sub(1);
    let (up, down) = (depth(Side::Callers), depth(Side::Callees));
    let within = |depth: u32| u16::try_from(depth).unwrap_or(u16::MAX);
    // Each side has half of the screen, and what the other does not need.
    let half = rows / 2;
    let above = within(up).min(rows - within(down).min(rows - half));
    let below = rows - above;
    let row = selected_node(app, picture, pivot).map_or(0, |id| tree(pivot, app.callers.side).node(id).depth);
    let skipped = |side: Side, rows: u16| {
        if app.callers.side == side { row.saturating_sub(u32::from(rows)) } else { 0 }
    };
    Layout {
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

impl Layout {
    /// The line on which a row of boxes is.
    pub(super) fn line(&self, side: Side, row: u32) -> Option<u16> {
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

/// Does what `action` means here, where the view takes `area`; false when it means nothing.
pub fn update(app: &mut App, action: &Action, area: Rect, picture: &Picture) -> bool {
    let Some(pivot) = &picture.pivot else {
        return matches!(action, Action::Back) && back(app);
    };
    match action {
        Action::Up => step(app, picture, pivot, area, Side::Callers),
        Action::Down => step(app, picture, pivot, area, Side::Callees),
        // As in the other views, the wheel with Shift goes to the next one beside.
        Action::Scroll { rows: 0, columns, .. } => beside(app, picture, pivot, area, *columns > 0),
        Action::Scroll { rows, .. } => {
            let side = if *rows < 0 { Side::Callers } else { Side::Callees };
            step(app, picture, pivot, area, side);
        }
        Action::First | Action::PageUp | Action::HalfUp => {
            repeat(app, picture, pivot, area, Side::Callers, action)
        }
        Action::Last | Action::PageDown | Action::HalfDown => {
            repeat(app, picture, pivot, area, Side::Callees, action);
        }
        Action::Left => beside(app, picture, pivot, area, false),
        Action::Right => beside(app, picture, pivot, area, true),
        Action::Enter => enter(app, picture),
        Action::Back => return back(app),
        Action::NextMatch => next_match(app, picture, pivot, area, true),
        Action::PreviousMatch => next_match(app, picture, pivot, area, false),
        Action::Click(at) | Action::DoubleClick(at) if area.contains(*at) => {
            let Some((side, id)) = box_at(app, picture, pivot, area, *at) else { return true };
            select(app, picture, pivot, side, id);
            if matches!(action, Action::DoubleClick(_)) {
                enter(app, picture);
            }
        }
        _ => return false,
    }
    true
}

/// Puts the selected function into the middle.
fn enter(app: &mut App, picture: &Picture) {
    let Some(label) = selected(app, picture).last().map(|id| picture.labels.get(*id)) else { return };
    if app.callers.path.is_empty() {
        app.tell("this is in the middle already: select a caller or a callee");
    } else if matches!(label.kind, LabelKind::Wait(_) | LabelKind::Cut | LabelKind::Nothing) {
        app.tell("this is no function");
    } else {
        set_pivot(app, label.key());
    }
}

fn back(app: &mut App) -> bool {
    let Some(before) = app.callers.history.pop() else { return false };
    app.callers.path.clear();
    app.ask(|query| query.pivot = Some(before));
    true
}

/// The box of the selected node, or of the nearest to the middle that is drawn.
pub(super) fn selected_box(app: &App, picture: &Picture, pivot: &Pivot, boxes: &[FlameBox]) -> usize {
    let tree = tree(pivot, app.callers.side);
    let mut at = selected_node(app, picture, pivot);
    while let Some(id) = at {
        let is_it = |one: &FlameBox| match &one.what {
            BoxOf::Node(other) => *other == id,
            BoxOf::Rest(ids) => ids.contains(&id),
            BoxOf::All => false,
        };
        if let Some(index) = boxes.iter().position(is_it) {
            return index;
        }
        at = tree.node(id).parent;
    }
    0
}

/// The node that a box stands for: of several the heaviest.
fn node_of(one: &FlameBox) -> Option<NodeId> {
    match &one.what {
        BoxOf::Node(id) => Some(*id),
        BoxOf::Rest(ids) => ids.first().copied(),
        BoxOf::All => None,
    }
}

/// Moves a row towards the callers or the callees.
fn step(app: &mut App, picture: &Picture, pivot: &Pivot, area: Rect, towards: Side) {
    let Some(id) = selected_node(app, picture, pivot) else { return };
    if app.callers.side != towards && !app.callers.path.is_empty() {
        let parent = tree(pivot, app.callers.side).node(id).parent;
        if let Some(parent) = parent {
            select(app, picture, pivot, app.callers.side, parent);
        }
        return;
    }
    let columns = layout(app, picture, pivot, area).columns;
    app.callers.side = towards;
    let boxes = boxes(pivot, towards, columns);
    let at = selected_box(app, picture, pivot, &boxes);
    let here = &boxes[at];
    let next = (boxes.iter().enumerate())
        .filter(|(_, one)| one.row == here.row + 1 && here.start <= one.start && one.end <= here.end)
        .max_by_key(|(index, one)| (one.end - one.start, Reverse(*index)));
    match next.and_then(|(_, one)| node_of(one)) {
        Some(id) => select(app, picture, pivot, towards, id),
        None => app.tell(match towards {
            Side::Callers => "nothing calls this",
            Side::Callees => "this calls nothing",
        }),
    }
}

fn repeat(app: &mut App, picture: &Picture, pivot: &Pivot, area: Rect, towards: Side, action: &Action) {
    let times = match action {
        Action::HalfUp | Action::HalfDown => area.height / 4,
        Action::PageUp | Action::PageDown => area.height / 2,
        _ => u16::MAX,
    };
    for _ in 0..times.max(1) {
        let before = (app.callers.side, app.callers.path.len());
        step(app, picture, pivot, area, towards);
        if before == (app.callers.side, app.callers.path.len()) {
            break;
        }
    }
}

fn beside(app: &mut App, picture: &Picture, pivot: &Pivot, area: Rect, right: bool) {
    let side = app.callers.side;
    let boxes = boxes(pivot, side, layout(app, picture, pivot, area).columns);
    let at = selected_box(app, picture, pivot, &boxes);
    let next = if right { Some(at + 1) } else { at.checked_sub(1) };
    let next = next.and_then(|next| boxes.get(next)).filter(|next| next.row == boxes[at].row);
    match next.and_then(node_of) {
        Some(id) => select(app, picture, pivot, side, id),
        None => app.tell("nothing stands beside this"),
    }
}

fn next_match(app: &mut App, picture: &Picture, pivot: &Pivot, area: Rect, forward: bool) {
    let Some(search) = &app.search else {
        app.tell("search first: /");
        return;
    };
    let columns = layout(app, picture, pivot, area).columns;
    let mut all: Vec<(Side, NodeId)> = Vec::new();
    for side in [Side::Callers, Side::Callees] {
        let nodes = boxes(pivot, side, columns).into_iter().filter_map(|one| match one.what {
            BoxOf::Node(id) => Some((side, id)),
            BoxOf::All | BoxOf::Rest(_) => None,
        });
        // From the outermost caller down.
        let mut nodes: Vec<_> = nodes.filter(|(_, id)| tree(pivot, side).node(*id).depth > 0).collect();
        if side == Side::Callers {
            nodes.reverse();
        }
        all.extend(nodes);
    }
    let here = selected_node(app, picture, pivot).map(|id| (app.callers.side, id));
    let at = all.iter().position(|one| Some(*one) == here);
    let is_match = |(side, id): &&(Side, NodeId)| search.matches(tree(pivot, *side).node(*id).label.index());
    let found = if forward {
        let start = at.map_or(0, |at| at + 1);
        all[start..].iter().chain(&all[..start]).find(is_match)
    } else {
        let end = at.unwrap_or(all.len());
        all[..end].iter().rev().chain(all[end..].iter().rev()).find(is_match)
    };
    match found {
        Some((side, id)) => select(app, picture, pivot, *side, *id),
        None => app.tell("nothing matches here"),
    }
}

fn box_at(app: &App, picture: &Picture, pivot: &Pivot, area: Rect, at: Position) -> Option<(Side, NodeId)> {
    let layout = layout(app, picture, pivot, area);
    if at.y == layout.middle {
        return Some((Side::Callers, *tree(pivot, Side::Callers).roots().first()?));
    }
    let side = if at.y < layout.middle { Side::Callers } else { Side::Callees };
    let cell = u32::from(at.x.checked_sub(layout.x)?);
    let boxes = boxes(pivot, side, layout.columns);
    let found = boxes
        .iter()
        .find(|one| layout.line(side, one.row) == Some(at.y) && (one.start..one.end).contains(&cell));
    Some((side, node_of(found?)?))
}

/// What is selected.
pub fn details(app: &App, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>> {
    let Some(pivot) = &picture.pivot else { return Vec::new() };
    let Some(id) = selected_node(app, picture, pivot) else { return Vec::new() };
    let tree = tree(pivot, app.callers.side);
    let mut found = top_view::function_details(app, picture, tree.node(id).label, below);
    if app.callers.path.is_empty() {
        return found;
    }
    // How much of the function in the middle goes this way.
    let weight = tree.node(id).total.weight;
    let share = percent_text(percent(weight, pivot.sandwich.total.weight));
    let way = match app.callers.side {
        Side::Callers => "comes this way",
        Side::Callees => "goes this way",
    };
    if let Some(last) = found.last_mut().filter(|_| below.lines > 1) {
        let parts =
            [(0, format!("{share} of the pivot")), (1, picture.weight_text(weight)), (2, way.to_owned())];
        *last = Line::from(below.theme.fit(&fitting(&parts, ", ", below.columns), below.columns));
    }
    found
}
