//! The free third of a wide screen: the functions with the most time in the zoom, and the callers of the selection. In a
//! comparison each has the change of its function, as in the table of functions.

use super::FlameState;
use crate::base::safe_text;
use crate::base::units::{percent, percent_text};
use crate::diff::RowValue;
use crate::report::{BoxOf, Direction, LabelId, NodeId, module_stem};
use crate::tui::app::context::Context;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::change_line;
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Least width of a screen with a panel at its side, columns.
const LEAST_COLUMNS: u16 = 160;
/// Most functions in each list.
const MOST_ROWS: usize = 12;
/// Columns of a share with a space on both sides.
const SHARE_COLUMNS: usize = 9;
/// Columns of a change with what is between it and the name.
const CHANGE_COLUMNS: usize = 10;

/// The part for the boxes, and that for the panel if there is room for one.
pub(super) fn split(area: Rect) -> (Rect, Option<Rect>) {
    if area.width < LEAST_COLUMNS {
        return (area, None);
    }
    let boxes = Rect { width: area.width - area.width / 3, ..area };
    // An empty column stands between the two.
    let side = Rect { x: area.x + boxes.width + 1, width: area.width / 3 - 1, ..area };
    (boxes, Some(side))
}

/// Draws the panel.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &FlameState,
    context: &Context,
    picture: &Picture,
    theme: &Theme,
) {
    let zoom = picture.find(&view.zoom);
    let columns = usize::from(area.width);
    let mut lines = Vec::new();
    let mut list = |heading: String, rows: Vec<(LabelId, u64)>, whole: u64, value: RowValue| {
        if rows.is_empty() {
            return;
        }
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::from(theme.fit(&heading, columns)).style(theme.heading()));
        let rows = rows.into_iter().take(MOST_ROWS);
        lines.extend(
            rows.map(|(label, weight)| row(context, picture, theme, (label, weight, whole), value, columns)),
        );
    };
    let of_zoom =
        if zoom == BoxOf::All { "functions by self time" } else { "functions of the zoom by self time" };
    list(of_zoom.to_owned(), own_by_function(picture, &zoom), zoom.total(&picture.tree), RowValue::Own);
    if let BoxOf::Node(id) = picture.find(&view.selected) {
        let label = picture.tree.node(id).label;
        let (callers, whole) = callers_of(picture, label);
        let name = context.name(picture.labels.get(label));
        list(format!("callers of {name}"), callers, whole, RowValue::Total);
    }
    for (line, y) in lines.into_iter().zip(area.y..area.bottom()) {
        frame.render_widget(line, Rect { y, height: 1, ..area });
    }
}

/// A function with its share of `whole`, in a comparison its change everywhere, and its module where there is room.
fn row(
    context: &Context,
    picture: &Picture,
    theme: &Theme,
    (id, weight, whole): (LabelId, u64, u64),
    value: RowValue,
    columns: usize,
) -> Line<'static> {
    let label = picture.labels.get(id);
    let share = percent_text(percent(weight, whole));
    let mut spans = vec![Span::raw(format!("{share:>width$}  ", width = SHARE_COLUMNS - 2))];
    if let Some(change) = &picture.change {
        let difference = change.of_label(id, label.kind, value);
        let cell = difference.map_or_else(String::new, change_line::cell);
        let style = difference.map_or_else(Style::new, |one| theme.changed(change_line::tone(one)));
        spans.push(Span::styled(format!("{cell:<CHANGE_COLUMNS$}"), style));
    }
    let name = context.name(label);
    let module = safe_text::terminal(module_stem(&label.module)).into_owned();
    let room = columns.saturating_sub(spans.iter().map(Span::width).sum());
    let name = theme.fit(&name, room);
    let left = room.saturating_sub(safe_text::width(&name) + 2);
    let module = if safe_text::width(&module) <= left { module } else { String::new() };
    let gap = " ".repeat(room.saturating_sub(safe_text::width(&name) + safe_text::width(&module)));
    spans.push(Span::raw(format!("{name}{gap}")));
    spans.push(Span::styled(theme.fit(&module, columns), theme.faint()));
    Line::from(spans)
}

/// The weight that ends in each function at or below `zoom`, heaviest first.
fn own_by_function(picture: &Picture, zoom: &BoxOf) -> Vec<(LabelId, u64)> {
    let tree = &picture.tree;
    let mut own: FxHashMap<LabelId, u64> = FxHashMap::default();
    let is_inverted = picture.query.direction == Direction::BottomUp;
    if *zoom == BoxOf::All || is_inverted {
        // The boxes of an inverted tree are callers: of a part of it there is no such list.
        let rows = picture.table.rows.iter().filter(|_| *zoom == BoxOf::All);
        own.extend(rows.map(|row| (row.label, row.own.weight)));
    } else {
        let mut pending: Vec<NodeId> = match zoom {
            BoxOf::All => Vec::new(),
            BoxOf::Node(id) => vec![*id],
            BoxOf::Rest(ids) => ids.clone(),
        };
        let mut is_below = vec![false; tree.nodes().len()];
        while let Some(id) = pending.pop() {
            is_below[id.index()] = true;
            pending.extend(tree.children(id));
        }
        for (id, ended) in tree.ends().iter().filter(|(id, _)| is_below[id.index()]) {
            let sum = own.entry(tree.node(*id).label).or_default();
            *sum = sum.saturating_add(ended.weight);
        }
    }
    sorted(own)
}

/// The weight of the outermost calls of `label` by each of its callers, heaviest first, and of all of them.
fn callers_of(picture: &Picture, label: LabelId) -> (Vec<(LabelId, u64)>, u64) {
    let tree = &picture.tree;
    let mut callers: FxHashMap<LabelId, u64> = FxHashMap::default();
    let mut whole = 0u64;
    // Whether the function is further up: parents come before their children.
    let mut is_below = vec![false; tree.nodes().len()];
    for (id, node) in tree.nodes() {
        let parent = node.parent.map(|parent| (is_below[parent.index()], tree.node(parent).label));
        let (is_inner, above) = parent.map_or((false, None), |(is_below, above)| (is_below, Some(above)));
        is_below[id.index()] = is_inner || node.label == label;
        if node.label != label || is_inner {
            continue;
        }
        whole = whole.saturating_add(node.total.weight);
        let mut add = |caller: LabelId, weight: u64| {
            let sum = callers.entry(caller).or_default();
            *sum = sum.saturating_add(weight);
        };
        match picture.query.direction {
            Direction::TopDown => above.into_iter().for_each(|caller| add(caller, node.total.weight)),
            Direction::BottomUp => {
                let below = tree.children(id).iter().map(|child| tree.node(*child));
                below.for_each(|caller| add(caller.label, caller.total.weight));
            }
        }
    }
    (sorted(callers), whole)
}

fn sorted(weights: FxHashMap<LabelId, u64>) -> Vec<(LabelId, u64)> {
    let mut rows: Vec<(LabelId, u64)> = weights.into_iter().filter(|(_, weight)| *weight > 0).collect();
    rows.sort_by_key(|(label, weight)| (Reverse(*weight), label.index()));
    rows
}
