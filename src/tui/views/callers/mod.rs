//! The Callers view: one function (the pivot) in the middle, its callers above, its callees below, all occurrences
//! merged. The sums are the picture's.

pub(crate) mod draw;
mod export;
mod layout;
mod state;
#[cfg(test)]
pub(crate) mod tests;
mod view;

pub(crate) use state::CallersState;

use crate::report::{BoxOf, FlameBox, LabelId, LabelKind, NodeId};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::compute::picture::{Picture, Pivot, Side};
use layout::{boxes, layout};
use ratatui::layout::{Position, Rect};
use state::{named, node_of, selected_part, tree};
use std::cmp::Reverse;

/// Keeps the selection in another picture, in which functions may have been named since.
pub(super) fn follow(view: &mut CallersState, context: &Context, picture: &Picture) {
    if let Some(pivot) = &picture.pivot {
        pivot.named(picture, view.side).rename(&mut view.selected);
        view.zooms.iter_mut().for_each(|(side, path)| pivot.named(picture, *side).rename(path));
    }
    view.history.iter_mut().for_each(|key| picture.rename(key));
    // Two addresses may have become one function; without this, going back would seem to do nothing.
    view.history.dedup();
    let pivot = context.query.pivot.clone().map(|mut key| {
        picture.rename(&mut key);
        key
    });
    if view.history.last() == pivot.as_ref() {
        view.history.pop();
    }
}

/// Chooses the pivot when the view is opened: the function selected in the view before, or else the hottest.
pub(crate) fn opened(
    view: &mut CallersState,
    context: &mut Context,
    picture: &Picture,
    selected: &[LabelId],
) {
    let key = |label: LabelId| {
        let label = picture.labels.get(label);
        (!matches!(label.kind, LabelKind::Task)).then(|| label.key())
    };
    let hottest = || picture.table.rows.first().map(|row| row.label);
    if let Some(key) = selected.last().copied().and_then(key) {
        view.set_pivot(context, key);
    } else if context.query.pivot.is_none()
        && let Some(key) = hottest().and_then(key)
    {
        view.set_pivot(context, key);
    }
}

fn select(view: &mut CallersState, picture: &Picture, pivot: &Pivot, side: Side, what: &BoxOf) {
    view.selected = named(picture, pivot, side).path_of(what);
    view.side = side;
}

/// The selected stack, root first; the last is the selected function.
pub(crate) fn selected(view: &CallersState, picture: &Picture) -> Vec<LabelId> {
    let Some(pivot) = &picture.pivot else { return Vec::new() };
    let Some(BoxOf::Node(id)) = selected_part(view, picture, pivot) else { return Vec::new() };
    let tree = tree(pivot, view.side);
    let mut labels: Vec<LabelId> = tree.path(id).map(|node| node.label).collect();
    match view.side {
        Side::Callees => labels.reverse(),
        // Callers are above what they call: the selected one is the only function of that stack.
        Side::Callers => labels.truncate(1),
    }
    labels
}

/// Applies `action`, with the view drawn in `area`; returns false if the action does nothing here.
pub(crate) fn update(
    view: &mut CallersState,
    context: &mut Context,
    action: &Action,
    area: Rect,
    picture: &Picture,
) -> bool {
    let Some(pivot) = &picture.pivot else {
        return matches!(action, Action::Back) && back(view, context);
    };
    match action {
        Action::Up => step(view, context, picture, pivot, area, Side::Callers),
        Action::Down => step(view, context, picture, pivot, area, Side::Callees),
        // As in the other views, Shift with the wheel goes to the next box of the row.
        Action::Scroll { rows: 0, columns, .. } => {
            select_neighbour(view, context, picture, pivot, area, *columns > 0)
        }
        Action::Scroll { rows, .. } => {
            let side = if *rows < 0 { Side::Callers } else { Side::Callees };
            step(view, context, picture, pivot, area, side);
        }
        Action::First | Action::PageUp | Action::HalfUp => {
            repeat(view, context, picture, pivot, area, Side::Callers, action)
        }
        Action::Last | Action::PageDown | Action::HalfDown => {
            repeat(view, context, picture, pivot, area, Side::Callees, action);
        }
        Action::Left => select_neighbour(view, context, picture, pivot, area, false),
        Action::Right => select_neighbour(view, context, picture, pivot, area, true),
        Action::Enter => enter(view, context, picture, pivot, area),
        Action::Whole => view.zooms.clear(),
        Action::Back => return back(view, context),
        Action::NextMatch => next_match(view, context, picture, pivot, area, true),
        Action::PreviousMatch => next_match(view, context, picture, pivot, area, false),
        Action::Click(at) | Action::DoubleClick(at) if area.contains(*at) => {
            let Some((side, what)) = box_at(view, picture, pivot, area, *at) else { return true };
            select(view, picture, pivot, side, &what);
            if matches!(action, Action::DoubleClick(_)) {
                enter(view, context, picture, pivot, area);
            }
        }
        _ => return false,
    }
    true
}

/// Zooms into the selected box if what it holds or leads to is not drawn, or else makes its function the pivot.
fn enter(view: &mut CallersState, context: &mut Context, picture: &Picture, pivot: &Pivot, area: Rect) {
    let Some(what) = selected_part(view, picture, pivot) else { return };
    let BoxOf::Node(id) = what else { return open(view, picture, pivot, area) };
    let side = view.side;
    let label = picture.labels.get(tree(pivot, side).node(id).label);
    if view.is_middle() {
        context.show_message("this is already in the middle; select a caller or a callee");
    } else if hides_what_follows(pivot, side, id, &shown(view, picture, pivot, area)) {
        view.zooms.push((side, view.selected.clone()));
    } else if matches!(label.kind, LabelKind::Wait(_) | LabelKind::Cut | LabelKind::Nothing) {
        context.show_message("this is not a function");
    } else {
        view.set_pivot(context, label.key());
    }
}

/// The boxes on the selected side, as they are drawn in `area`.
fn shown(view: &CallersState, picture: &Picture, pivot: &Pivot, area: Rect) -> Vec<FlameBox> {
    boxes(view, picture, pivot, view.side, layout(view, picture, pivot, area).columns)
}

/// Whether a node has children but none of them is in `boxes`: its own box is too narrow, or it has none.
fn hides_what_follows(pivot: &Pivot, side: Side, id: NodeId, boxes: &[FlameBox]) -> bool {
    let tree = tree(pivot, side);
    let is_below =
        |one: &FlameBox| node_of(&one.what).is_some_and(|below| tree.node(below).parent == Some(id));
    let mut children = tree.children(id).iter();
    // Nodes without weight are never drawn.
    children.any(|child| tree.node(*child).total.weight > 0) && !boxes.iter().any(is_below)
}

/// Zooms into the selected shared box, and selects the widest box in it.
fn open(view: &mut CallersState, picture: &Picture, pivot: &Pivot, area: Rect) {
    let side = view.side;
    view.zooms.push((side, view.selected.clone()));
    let row = view.selected.path.len() as u32;
    let boxes = shown(view, picture, pivot, area);
    let first = boxes.iter().find(|one| one.row == row);
    if let Some(one) = first {
        select(view, picture, pivot, side, &one.what);
    }
}

fn back(view: &mut CallersState, context: &mut Context) -> bool {
    if let Some((side, path)) = view.zooms.pop() {
        view.side = side;
        view.selected = path;
        return true;
    }
    let Some(before) = view.history.pop() else { return false };
    view.select_middle();
    context.ask(|query| query.pivot = Some(before));
    true
}

/// Index of the selected box, or of its nearest ancestor that is drawn.
pub(super) fn selected_box(
    view: &CallersState,
    picture: &Picture,
    pivot: &Pivot,
    boxes: &[FlameBox],
) -> usize {
    let tree = tree(pivot, view.side);
    let mut at = selected_part(view, picture, pivot);
    while let Some(what) = at {
        let is_it = |one: &FlameBox| one.what == what;
        let shares = |one: &FlameBox| match (&one.what, &what) {
            (BoxOf::Rest(ids), BoxOf::Node(id)) => ids.contains(id),
            (BoxOf::Rest(ids), BoxOf::Rest(others)) => others.iter().any(|id| ids.contains(id)),
            _ => false,
        };
        if let Some(index) = boxes.iter().position(is_it).or_else(|| boxes.iter().position(shares)) {
            return index;
        }
        at = node_of(&what).and_then(|id| tree.node(id).parent).map(BoxOf::Node);
    }
    0
}

/// Moves one row towards the callers or the callees.
fn step(
    view: &mut CallersState,
    context: &mut Context,
    picture: &Picture,
    pivot: &Pivot,
    area: Rect,
    towards: Side,
) {
    if view.side != towards && !view.is_middle() {
        view.selected = view.selected.parent();
        return;
    }
    let columns = layout(view, picture, pivot, area).columns;
    view.side = towards;
    let boxes = boxes(view, picture, pivot, towards, columns);
    let at = selected_box(view, picture, pivot, &boxes);
    let Some(here) = boxes.get(at) else { return };
    let next = (boxes.iter().enumerate())
        .filter(|(_, one)| one.row == here.row + 1 && here.start <= one.start && one.end <= here.end)
        .max_by_key(|(index, one)| (one.end - one.start, Reverse(*index)));
    match next {
        Some((_, one)) => select(view, picture, pivot, towards, &one.what),
        None if matches!(here.what, BoxOf::Rest(_)) => {
            context.show_message("Enter shows what is in this box")
        }
        None => {
            let is_narrow =
                node_of(&here.what).is_some_and(|id| hides_what_follows(pivot, towards, id, &boxes));
            context.show_message(match towards {
                _ if is_narrow => "too narrow for what follows: Enter shows it",
                Side::Callers => "nothing calls this",
                Side::Callees => "this calls nothing",
            });
        }
    }
}

fn repeat(
    view: &mut CallersState,
    context: &mut Context,
    picture: &Picture,
    pivot: &Pivot,
    area: Rect,
    towards: Side,
    action: &Action,
) {
    let times = match action {
        Action::HalfUp | Action::HalfDown => area.height / 4,
        Action::PageUp | Action::PageDown => area.height / 2,
        _ => u16::MAX,
    };
    for _ in 0..times.max(1) {
        let before = (view.side, view.selected.clone());
        step(view, context, picture, pivot, area, towards);
        if before == (view.side, view.selected.clone()) {
            break;
        }
    }
}

fn select_neighbour(
    view: &mut CallersState,
    context: &mut Context,
    picture: &Picture,
    pivot: &Pivot,
    area: Rect,
    right: bool,
) {
    let side = view.side;
    let boxes = shown(view, picture, pivot, area);
    let at = selected_box(view, picture, pivot, &boxes);
    let next = if right { Some(at + 1) } else { at.checked_sub(1) };
    match next.and_then(|next| boxes.get(next)).filter(|next| next.row == boxes[at].row) {
        Some(one) => select(view, picture, pivot, side, &one.what),
        None => context.show_message("nothing is next to this"),
    }
}

fn next_match(
    view: &mut CallersState,
    context: &mut Context,
    picture: &Picture,
    pivot: &Pivot,
    area: Rect,
    forward: bool,
) {
    let Some(search) = &context.search else {
        context.show_message("search first: /");
        return;
    };
    let columns = layout(view, picture, pivot, area).columns;
    let mut all: Vec<(Side, NodeId)> = Vec::new();
    for side in [Side::Callers, Side::Callees] {
        let nodes = boxes(view, picture, pivot, side, columns).into_iter().filter_map(|one| match one.what {
            BoxOf::Node(id) => Some((side, id)),
            BoxOf::All | BoxOf::Rest(_) => None,
        });
        // In screen order, from the outermost caller down.
        let mut nodes: Vec<_> = nodes.filter(|(_, id)| tree(pivot, side).node(*id).depth > 0).collect();
        if side == Side::Callers {
            nodes.reverse();
        }
        all.extend(nodes);
    }
    let here = match selected_part(view, picture, pivot) {
        Some(BoxOf::Node(id)) => Some((view.side, id)),
        _ => None,
    };
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
        Some((side, id)) => select(view, picture, pivot, *side, &BoxOf::Node(*id)),
        None => context.show_message("nothing matches here"),
    }
}

fn box_at(
    view: &CallersState,
    picture: &Picture,
    pivot: &Pivot,
    area: Rect,
    at: Position,
) -> Option<(Side, BoxOf)> {
    let layout = layout(view, picture, pivot, area);
    if at.y == layout.middle {
        return Some((Side::Callers, BoxOf::Node(*tree(pivot, Side::Callers).roots().first()?)));
    }
    let side = if at.y < layout.middle { Side::Callers } else { Side::Callees };
    let cell = u32::from(at.x.checked_sub(layout.x)?);
    let is_it =
        |one: &FlameBox| layout.line(side, one.row) == Some(at.y) && (one.start..one.end).contains(&cell);
    let found = boxes(view, picture, pivot, side, layout.columns).into_iter().find(is_it);
    Some((side, found?.what))
}
