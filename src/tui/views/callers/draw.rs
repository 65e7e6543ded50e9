//! Draws the Callers view.

use super::layout::{boxes, layout};
use super::selected_box;
use super::state::{CallersState, selected_part, tree};
use crate::base::safe_text;
use crate::base::units::{counted, percent, percent_text};
use crate::report::{BoxOf, FlameBox, LabelKind, NodeId};
use crate::tui::app::context::Context;
use crate::tui::compute::boxes::BoxChange;
use crate::tui::compute::change::Change;
use crate::tui::compute::picture::{Picture, Pivot, Side};
use crate::tui::widgets::change_line;
use crate::tui::widgets::details::{function_details, rest_heading, rest_text};
use crate::tui::widgets::line::{Below, fitting, kind_word};
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

/// Draws the view into `area`.
pub(crate) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &CallersState,
    context: &Context,
    picture: &Picture,
    theme: &Theme,
) {
    let Some(pivot) = &picture.pivot else {
        let text = match &picture.query.pivot {
            None => "choose a function: Enter in Top".to_owned(),
            Some(key) => format!("no sample has {} on its stack", safe_text::terminal(&key.name())),
        };
        let text = theme.fit(&text, usize::from(area.width).saturating_sub(1));
        frame.render_widget(Line::from(format!(" {text}")), Rect { height: area.height.min(1), ..area });
        return;
    };
    let layout = layout(view, picture, pivot, area);
    for side in [Side::Callers, Side::Callees] {
        let boxes = boxes(view, picture, pivot, side, layout.columns);
        let selected =
            (view.side == side && !view.is_middle()).then(|| selected_box(view, picture, pivot, &boxes));
        for (index, one) in boxes.iter().enumerate() {
            let Some(y) = layout.line(side, one.row) else { continue };
            // Fits, since there are no more cells than screen columns.
            let (start, end) = (one.start as u16, one.end as u16);
            let place = Rect { x: layout.x + start, y, width: end - start, height: 1 };
            let (text, style) = look(context, picture, theme, pivot, side, one);
            let style = if selected == Some(index) { theme.selected(style) } else { style };
            let room = usize::from(place.width).saturating_sub(1);
            let text = format!("{}{}", theme.glyphs.edge, theme.fit(&text, room));
            let buffer = frame.buffer_mut();
            buffer.set_style(place, style);
            buffer.set_stringn(place.x, y, text, place.width.into(), style);
        }
    }
    let width = usize::from(area.width);
    let style = if view.is_middle() { theme.selected(theme.heading()) } else { theme.heading() };
    let text = pivot_text(context, picture, theme, pivot, width - usize::from(layout.side));
    frame.buffer_mut().set_stringn(layout.x, layout.middle, text, width - usize::from(layout.side), style);
    if layout.side > 0 {
        // The ellipsis marks a side that is zoomed and not shown in full.
        let heading = |side: Side, word: &str| {
            let is_part = view.zooms.iter().any(|(zoomed, _)| *zoomed == side);
            if is_part { format!(" {word} {}", theme.glyphs.ellipsis) } else { format!(" {word}") }
        };
        for (y, text) in [
            (layout.above > 0).then(|| (area.y, heading(Side::Callers, "callers"))),
            Some((layout.middle, " PIVOT".to_owned())),
            (layout.below > 0 && layout.middle + 1 < area.bottom())
                .then(|| (layout.middle + 1, heading(Side::Callees, "callees"))),
        ]
        .into_iter()
        .flatten()
        {
            frame.buffer_mut().set_stringn(area.x, y, text, layout.side.into(), theme.faint());
        }
    }
}

fn look(
    context: &Context,
    picture: &Picture,
    theme: &Theme,
    pivot: &Pivot,
    side: Side,
    one: &FlameBox,
) -> (String, Style) {
    let columns = (one.end - one.start) as usize;
    let id = match &one.what {
        BoxOf::Node(id) => id,
        BoxOf::Rest(ids) => {
            let text = rest_text(theme, ids.len(), columns.saturating_sub(1));
            return (text, theme.kind(LabelKind::Task, false, "rest"));
        }
        BoxOf::All => return (String::new(), Style::new()),
    };
    let node = tree(pivot, side).node(*id);
    let label = picture.labels.get(node.label);
    let is_waiting = is_waiting(pivot, side, *id);
    let changed = picture.change.as_ref().map(|change| {
        let of_box = of_pivot(change, side, *id);
        (of_box, change.tone(of_box, node.label, label.kind))
    });
    let style =
        changed.map_or_else(|| theme.kind(label.kind, is_waiting, &label.name), |(_, tone)| theme.tone(tone));
    let is_match = context.search.as_ref().is_some_and(|search| search.matches(node.label.index()));
    let name = context.name(label);
    let mark = match (node.is_kernel, node.is_inlined) {
        (true, _) => " [k]",
        (_, true) => " [i]",
        _ => "",
    };
    let change = changed.map_or_else(String::new, |(of_box, tone)| change_line::in_box(of_box, tone));
    let mark = format!("{mark}{change}");
    let text = if safe_text::width(&name) + mark.len() < columns { name + &mark } else { name };
    (text, if is_match { theme.matched(style) } else { style })
}

/// Whether there is nothing but waits below a box.
fn is_waiting(pivot: &Pivot, side: Side, id: NodeId) -> bool {
    side == Side::Callees && pivot.is_waiting.get(id.index()).copied().unwrap_or(false)
}

/// Change of a box.
fn of_pivot(change: &Change, side: Side, id: NodeId) -> Option<BoxChange<'_>> {
    match side {
        Side::Callers => change.of_caller(id),
        Side::Callees => change.of_callee(id),
    }
}

/// The pivot line: the name of the function, as far as there is room next to the numbers.
fn pivot_text(context: &Context, picture: &Picture, theme: &Theme, pivot: &Pivot, columns: usize) -> String {
    let sandwich = &pivot.sandwich;
    let share = |weight: u64| percent_text(percent(weight, picture.total.weight));
    let mut parts = vec![
        format!("self {}", share(sandwich.own.weight)),
        format!(" {}{:.1}", theme.glyphs.plus_minus, picture.error_points(sandwich.own)),
        format!("  total {}", share(sandwich.total.weight)),
        format!(" {}", picture.weight_text(sandwich.total.weight)),
        format!("  {}", counted(sandwich.paths as u64, "path")),
    ];
    // On a narrow screen the error is dropped first, then the paths, then the time.
    let least_name = 12;
    let width = |parts: &[String]| parts.iter().map(|part| safe_text::width(part)).sum::<usize>();
    for index in [1, 4, 3] {
        if width(&parts) + 4 + least_name > columns {
            parts[index].clear();
        }
    }
    let room = columns.saturating_sub(width(&parts) + 4);
    let name = theme.fit(&context.name(picture.labels.get(sandwich.label)), room);
    format!("{} {name}  {}", theme.glyphs.pivot, parts.concat())
}

/// Details of the selection.
pub(crate) fn details(
    view: &CallersState,
    context: &Context,
    picture: &Picture,
    below: Below<'_>,
) -> Vec<Line<'static>> {
    let Some(pivot) = &picture.pivot else { return Vec::new() };
    let Some(what) = selected_part(view, picture, pivot) else { return Vec::new() };
    let tree = tree(pivot, view.side);
    let mut found = match &what {
        BoxOf::Node(id) => {
            let label = tree.node(*id).label;
            let is_waiting = is_waiting(pivot, view.side, *id);
            let kind = kind_word(picture, below.theme, picture.labels.get(label).kind, is_waiting);
            function_details(context, picture, label, Some(kind), below)
        }
        BoxOf::Rest(ids) => vec![rest_heading(ids.len(), below)],
        BoxOf::All => return Vec::new(),
    };
    if view.is_middle() {
        return found;
    }
    if let (Some(change), BoxOf::Node(id), true) = (&picture.change, &what, below.lines > 1) {
        let of_box = of_pivot(change, view.side, *id);
        let label = tree.node(*id).label;
        found.truncate(1);
        let words = change_line::of_box(picture, change, label, of_box, below.theme, below.columns);
        found.push(Line::from(words));
        return found;
    }
    // Share of the pivot that goes through the selected caller or callee.
    let weight = what.total(tree);
    let share = percent_text(percent(weight, pivot.sandwich.total.weight));
    let way = match view.side {
        Side::Callers => "comes this way",
        Side::Callees => "goes this way",
    };
    // What is not a function has only a name, so its second line is added here.
    found.resize(below.lines.clamp(1, 2), Line::default());
    if let Some(last) = found.last_mut().filter(|_| below.lines > 1) {
        let parts =
            [(0, format!("{share} of the pivot")), (1, picture.weight_text(weight)), (2, way.to_owned())];
        *last = Line::from(below.theme.fit(&fitting(&parts, ", ", below.columns), below.columns));
    }
    found
}
