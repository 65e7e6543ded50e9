//! The Flame view: boxes of the call tree, root on top. What is blank below a box is its own time.

pub mod details;
#[cfg(test)]
pub(crate) mod tests;

use crate::base::safe_text;
use crate::base::units::{count, counted};
use crate::report::{BoxOf, FlameBox, LabelId, LabelKey, LabelKind, Node, NodeId, flame_boxes};
use crate::tui::app::action::Action;
use crate::tui::app::state::App;
use crate::tui::app::tree_path::TreePath;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// What the user did to the view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlameState {
    /// The box that takes the whole width.
    pub zoom: TreePath,
    /// The zooms before it, oldest first.
    pub history: Vec<TreePath>,
    /// The selected box.
    pub selected: TreePath,
    /// The first row of boxes on the screen.
    pub scroll: u32,
    /// The order that was chosen: by weight, else by name.
    pub by_weight: Option<bool>,
    /// What it was before the other end of the stacks came on top, and the function that was selected then.
    turned: Option<Box<(Option<LabelKey>, FlameState)>>,
}

impl FlameState {
    /// The other end of the stacks is on top now: paths mean nothing any more, but the selected function still does. Where it
    /// was turned round before and is still on that function, it is as it was.
    pub fn turn_round(&mut self, picture: &Picture) {
        let function = self.selected.path.last().map(|crumb| crumb.label.clone());
        let by_weight = self.by_weight;
        let now = std::mem::take(self);
        match now.turned {
            Some(before) if before.0 == function => {
                *self = FlameState { by_weight, turned: None, ..before.1 };
                return;
            }
            _ => {}
        }
        self.by_weight = by_weight;
        let is_it = |id: NodeId| {
            let label = picture.labels.get(picture.tree.node(id).label);
            function.as_ref().is_some_and(|key| label.is(key))
        };
        let root = picture.tree.roots().iter().copied().find(|id| is_it(*id));
        // A function that calls others only is no leaf: then it is where most of it is.
        let anywhere = || {
            let is_thread = |node: &Node| picture.labels.get(node.label).kind == LabelKind::Task;
            let nodes = picture.tree.nodes().filter(|(id, node)| is_it(*id) && !is_thread(node));
            nodes.max_by_key(|(id, node)| (node.total.weight, std::cmp::Reverse(*id))).map(|(id, _)| id)
        };
        if let Some(id) = root.or_else(anywhere) {
            self.selected = TreePath::of(picture, &BoxOf::Node(id));
        }
        self.turned = Some(Box::new((function, FlameState { turned: None, ..now })));
    }
}

/// Whether boxes stand in the order of their weight: by name they hold still while they grow.
fn is_by_weight(app: &App) -> bool {
    app.flame
        .by_weight
        .unwrap_or_else(|| !app.live.as_ref().is_some_and(|live| !live.is_frozen && live.ended.is_none()))
}

/// The order of the boxes, in words.
pub fn order_words(app: &App) -> &'static str {
    if is_by_weight(app) { "heaviest first" } else { "by name" }
}

/// All boxes at this width, whether they are on the screen or not.
pub fn boxes(app: &App, picture: &Picture, columns: u16) -> Vec<FlameBox> {
    let by_weight = is_by_weight(app);
    let rank = |id: &NodeId| {
        let node = picture.tree.node(*id);
        (picture.name_rank[node.label.index()], node.is_inlined, *id)
    };
    flame_boxes(&picture.tree, app.flame.zoom.find(picture), columns.into(), |ids| {
        if !by_weight {
            ids.sort_by_key(rank);
        }
    })
}

/// Where the boxes are: below the path of the zoom, if there is one.
fn box_area(app: &App, area: Rect) -> Rect {
    let path = u16::from(!app.flame.zoom.is_all()).min(area.height);
    Rect { y: area.y + path, height: area.height - path, ..area }
}

/// The stack that is selected, root first; the last is the selected function.
pub fn selected(app: &App, picture: &Picture) -> Vec<LabelId> {
    let BoxOf::Node(id) = app.flame.selected.find(picture) else { return Vec::new() };
    let mut labels: Vec<LabelId> = picture.tree.path(id).map(|node| node.label).collect();
    // The function comes last, whichever end of the stack is on top.
    labels.reverse();
    labels
}

/// Does what `action` means here, where the view takes `area`; false when it means nothing.
pub fn update(app: &mut App, action: &Action, area: Rect, picture: &Picture) -> bool {
    let area = box_area(app, area);
    match action {
        Action::Up => move_by(app, picture, area, -1),
        Action::Down => move_by(app, picture, area, 1),
        Action::PageUp => move_by(app, picture, area, -i32::from(area.height.max(2) - 1)),
        Action::PageDown => move_by(app, picture, area, i32::from(area.height.max(2) - 1)),
        Action::HalfUp => move_by(app, picture, area, -i32::from(area.height / 2).max(1)),
        Action::HalfDown => move_by(app, picture, area, i32::from(area.height / 2).max(1)),
        Action::First => move_by(app, picture, area, i32::MIN),
        Action::Last => move_by(app, picture, area, i32::MAX),
        Action::Left => move_beside(app, picture, area, false),
        Action::Right => move_beside(app, picture, area, true),
        Action::Enter => zoom_in(app),
        Action::Whole => {
            app.flame.history.clear();
            app.flame.zoom = TreePath::ALL;
            app.flame.scroll = 0;
        }
        Action::Back => return zoom_out(app),
        Action::Sort => app.flame.by_weight = Some(!is_by_weight(app)),
        Action::NextMatch => next_match(app, picture, area, true),
        Action::PreviousMatch => next_match(app, picture, area, false),
        Action::Click(at) if area.contains(*at) => select_at(app, picture, area, *at),
        Action::DoubleClick(at) if area.contains(*at) => {
            select_at(app, picture, area, *at);
            zoom_in(app);
        }
        Action::Click(at) if at.y + 1 == area.y => return zoom_out(app),
        Action::Scroll { rows, columns, .. } => {
            let last = last_row(&boxes(app, picture, area.width)).saturating_sub(u32::from(area.height) - 1);
            app.flame.scroll = app.flame.scroll.min(last).saturating_add_signed(i32::from(*rows)).min(last);
            if *columns != 0 {
                pan(app, picture, area, *columns > 0);
            }
        }
        _ => return false,
    }
    true
}

fn last_row(boxes: &[FlameBox]) -> u32 {
    boxes.last().map_or(0, |last| last.row)
}

fn zoom_in(app: &mut App) {
    if app.flame.selected == app.flame.zoom || app.flame.selected.is_all() {
        app.tell("this is as wide as it gets: select a box below");
        return;
    }
    let before = std::mem::replace(&mut app.flame.zoom, app.flame.selected.clone());
    app.flame.history.push(before);
    app.flame.scroll = 0;
}

fn zoom_out(app: &mut App) -> bool {
    let Some(before) = app.flame.history.pop() else { return false };
    app.flame.selected = std::mem::replace(&mut app.flame.zoom, before);
    app.flame.scroll = 0;
    true
}

/// The number of the selected box, or of the nearest above it that is drawn.
fn selected_box(app: &App, picture: &Picture, boxes: &[FlameBox]) -> usize {
    let mut spot = app.flame.selected.clone();
    loop {
        let what = spot.find(picture);
        // In a shared box it is not drawn by itself. The one on top may be shared by what is drawn below it.
        let shares = |one: &FlameBox| match (&one.what, &what) {
            (BoxOf::Rest(ids), BoxOf::Node(id)) => ids.contains(id),
            (BoxOf::Rest(ids), BoxOf::Rest(others)) => others.iter().any(|id| ids.contains(id)),
            _ => false,
        };
        let is_it = |one: &FlameBox| one.what == what;
        match boxes.iter().position(is_it).or_else(|| boxes.iter().rposition(shares)) {
            Some(index) => return index,
            None if spot.is_all() => return 0,
            None => spot = spot.parent(),
        }
    }
}

fn select(app: &mut App, picture: &Picture, area: Rect, one: &FlameBox) {
    app.flame.selected = TreePath::of(picture, &one.what);
    let height = u32::from(area.height.max(1));
    app.flame.scroll = app.flame.scroll.min(one.row).max((one.row + 1).saturating_sub(height));
}

fn select_at(app: &mut App, picture: &Picture, area: Rect, at: Position) {
    let boxes = boxes(app, picture, area.width);
    let scroll = shown_scroll(app, &boxes, area);
    let row = u32::from(at.y - area.y) + scroll;
    let cell = u32::from(at.x - area.x);
    let found = boxes.iter().find(|one| one.row == row && (one.start..one.end).contains(&cell));
    if let Some(one) = found {
        app.flame.scroll = scroll;
        select(app, picture, area, one);
    }
}

/// Moves up to callers, or down to what is called, each time to the widest.
fn move_by(app: &mut App, picture: &Picture, area: Rect, rows: i32) {
    let boxes = boxes(app, picture, area.width);
    let mut at = selected_box(app, picture, &boxes);
    for _ in 0..rows.unsigned_abs() {
        let here = &boxes[at];
        let holds = |outer: &FlameBox, inner: &FlameBox| outer.start <= inner.start && inner.end <= outer.end;
        let next = if rows < 0 {
            (0..at).rev().find(|index| boxes[*index].row + 1 == here.row && holds(&boxes[*index], here))
        } else {
            // Of boxes of one width, the one to the left.
            (at + 1..boxes.len())
                .take_while(|index| boxes[*index].row <= here.row + 1)
                .filter(|index| boxes[*index].row == here.row + 1 && holds(here, &boxes[*index]))
                .max_by_key(|index| (boxes[*index].end - boxes[*index].start, std::cmp::Reverse(*index)))
        };
        match next {
            Some(next) => at = next,
            None => {
                if rows > 0 && calls_something(picture, &boxes[at].what) {
                    app.tell("too narrow for what is below: Enter shows it");
                }
                break;
            }
        }
    }
    select(app, picture, area, &boxes[at]);
}

/// Whether something stands below it, be it drawn or not.
fn calls_something(picture: &Picture, what: &BoxOf) -> bool {
    match what {
        BoxOf::All => false,
        BoxOf::Node(id) => !picture.tree.node(*id).children.is_empty(),
        BoxOf::Rest(_) => true,
    }
}

fn move_beside(app: &mut App, picture: &Picture, area: Rect, right: bool) {
    let boxes = boxes(app, picture, area.width);
    let at = selected_box(app, picture, &boxes);
    let next = if right { Some(at + 1) } else { at.checked_sub(1) };
    if let Some(next) = next.and_then(|next| boxes.get(next)).filter(|next| next.row == boxes[at].row) {
        select(app, picture, area, next);
    }
}

/// Shows the box beside the zoomed one instead, as it is where the zoom began; without a zoom selects what is beside.
fn pan(app: &mut App, picture: &Picture, area: Rect, right: bool) {
    let Some(before) = app.flame.history.last().cloned() else {
        return move_beside(app, picture, area, right);
    };
    let zoom = std::mem::replace(&mut app.flame.zoom, before);
    let outer = boxes(app, picture, area.width);
    let what = zoom.find(picture);
    let at = outer.iter().position(|one| one.what == what);
    let next = at.and_then(|at| if right { Some(at + 1) } else { at.checked_sub(1) });
    let is_beside = |next: &&FlameBox| at.is_some_and(|at| outer[at].row == next.row);
    app.flame.zoom = match next.and_then(|next| outer.get(next)).filter(is_beside) {
        Some(next) => TreePath::of(picture, &next.what),
        None => {
            app.tell("nothing is beside the zoom");
            zoom
        }
    };
    app.flame.selected = app.flame.zoom.clone();
    app.flame.scroll = 0;
}

fn next_match(app: &mut App, picture: &Picture, area: Rect, forward: bool) {
    let Some(search) = &app.search else {
        app.tell("search first: /");
        return;
    };
    let boxes = boxes(app, picture, area.width);
    let matches: Vec<usize> = (0..boxes.len())
        .filter(|index| match &boxes[*index].what {
            BoxOf::Node(id) => search.matches(picture.tree.node(*id).label.index()),
            BoxOf::All | BoxOf::Rest(_) => false,
        })
        .collect();
    if matches.is_empty() {
        let what = if search.functions + search.threads == 0 {
            "nothing matches"
        } else {
            "no box of a match is wide enough: & keeps only matches"
        };
        app.tell(what);
        return;
    }
    let at = selected_box(app, picture, &boxes);
    let next = if forward {
        matches.iter().find(|index| **index > at).or(matches.first())
    } else {
        matches.iter().rev().find(|index| **index < at).or(matches.last())
    };
    if let Some(next) = next {
        select(app, picture, area, &boxes[*next]);
    }
}

/// The first row on the screen: never so far down that rows stay empty.
fn shown_scroll(app: &App, boxes: &[FlameBox], area: Rect) -> u32 {
    let most = (last_row(boxes) + 1).saturating_sub(u32::from(area.height));
    app.flame.scroll.min(most)
}

/// Draws the view into `area`.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, picture: &Picture, theme: &Theme) {
    let inner = box_area(app, area);
    if inner.y > area.y {
        frame.render_widget(path_line(app, picture, theme, area.width.into()), Rect { height: 1, ..area });
    }
    if inner.height == 0 {
        return;
    }
    let boxes = boxes(app, picture, inner.width);
    let scroll = shown_scroll(app, &boxes, inner);
    let selected = selected_box(app, picture, &boxes);
    for (index, one) in boxes.iter().enumerate() {
        let Some(row) = one.row.checked_sub(scroll).and_then(|row| u16::try_from(row).ok()) else { continue };
        if row >= inner.height {
            break;
        }
        // Cells are at most the width of the screen.
        let (start, end) = (one.start as u16, one.end as u16);
        let place = Rect { x: inner.x + start, y: inner.y + row, width: end - start, height: 1 };
        let mut style = style_of(app, picture, theme, &one.what);
        if index == selected {
            style = theme.selected(style);
        }
        let text = text_of(app, picture, theme, &one.what, place.width.into());
        let buffer = frame.buffer_mut();
        buffer.set_style(place, style);
        buffer.set_stringn(place.x, place.y, text, place.width.into(), style);
    }
}

fn style_of(app: &App, picture: &Picture, theme: &Theme, what: &BoxOf) -> Style {
    match what {
        BoxOf::All | BoxOf::Rest(_) => theme.kind(LabelKind::Task, false, "all"),
        BoxOf::Node(id) => {
            let node = picture.tree.node(*id);
            let label = picture.labels.get(node.label);
            let is_waiting = picture.is_waiting[id.index()];
            let style = theme.kind(label.kind, is_waiting, &label.name);
            let is_match = app.search.as_ref().is_some_and(|search| search.matches(node.label.index()));
            if is_match { theme.matched(style) } else { style }
        }
    }
}

/// What stands in a box of `columns`.
fn text_of(app: &App, picture: &Picture, theme: &Theme, what: &BoxOf, columns: usize) -> String {
    let room = columns.saturating_sub(1);
    let text = match what {
        BoxOf::All => all_text(picture, theme),
        BoxOf::Rest(ids) => rest_text(theme, ids.len(), room),
        BoxOf::Node(id) => {
            let name = name_of(app, picture, theme, *id);
            let mark = mark_of(picture, *id);
            if safe_text::width(&name) + mark.len() <= room { name + mark } else { name }
        }
    };
    format!("{}{}", theme.glyphs.edge, theme.fit(&text, room))
}

/// What stands in a box that several share.
pub(super) fn rest_text(theme: &Theme, calls: usize, room: usize) -> String {
    let ellipsis = theme.glyphs.ellipsis;
    let text = format!("{ellipsis} {}", counted(calls as u64, "call"));
    if safe_text::width(&text) <= room { text } else { ellipsis.to_owned() }
}

fn all_text(picture: &Picture, theme: &Theme) -> String {
    let separator = theme.glyphs.separator;
    let samples = counted(picture.count, picture.event.noun);
    format!(
        "all{separator}{samples}{separator}{}{}",
        picture.weight_text(picture.total.weight),
        cpu_word(picture)
    )
}

fn cpu_word(picture: &Picture) -> &'static str {
    if picture.event.metric == Some(crate::report::Metric::OnCpu) { " CPU" } else { "" }
}

/// Its name, with the number of threads behind it.
pub(crate) fn name_of(app: &App, picture: &Picture, theme: &Theme, id: NodeId) -> String {
    let label = picture.tree.node(id).label;
    let name = app.name(picture.labels.get(label));
    match picture.threads_of.get(&label) {
        Some(threads) if *threads > 1 => format!("{name} {}{}", theme.glyphs.times, count(*threads)),
        _ => name,
    }
}

/// Says what the colour says.
pub(super) fn mark_of(picture: &Picture, id: NodeId) -> &'static str {
    let node = picture.tree.node(id);
    match (node.is_kernel, node.is_inlined) {
        (true, _) => " [k]",
        (_, true) => " [i]",
        _ => "",
    }
}

/// The way to the zoom.
fn path_line(app: &App, picture: &Picture, theme: &Theme, columns: usize) -> Line<'static> {
    // As much of it as there is in this picture.
    let zoom = TreePath::of(picture, &app.flame.zoom.find(picture));
    let mut names: Vec<String> = vec!["all".to_owned()];
    names.extend(zoom.path.iter().map(|crumb| {
        let short = crate::report::short(&crumb.label.name);
        safe_text::terminal(&short).into_owned()
    }));
    if !zoom.rest.is_empty() {
        names.push(counted(zoom.rest.len() as u64, "small box"));
    }
    // The end of the way says more than its start.
    let step = theme.glyphs.step;
    let mut text = names.pop().unwrap_or_default();
    while let Some(name) = names.pop() {
        let longer = format!("{name}{step}{text}");
        if safe_text::width(&longer) + 4 > columns && !names.is_empty() {
            text = format!("{}{step}{text}", theme.glyphs.ellipsis);
            break;
        }
        text = longer;
    }
    Line::from(Span::styled(format!(" {}", theme.fit(&text, columns.saturating_sub(1))), theme.faint()))
}
