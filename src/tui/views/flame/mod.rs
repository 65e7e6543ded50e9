//! The Flame view: boxes of the call tree, root on top. The blank space below a box is its own weight. The tree is the picture's.

mod details;
mod export;
mod side;
#[cfg(test)]
pub(crate) mod tests;
mod text;
mod trunk;
mod view;

use crate::base::safe_text;
use crate::base::units::counted;
use crate::report::{BoxOf, FlameBox, LabelId, LabelKey, LabelKind, Node, NodeId, flame_boxes};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::app::tree_path::TreePath;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use trunk::ShortTrunks;

/// State of the view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct FlameState {
    /// The box that takes the full width.
    pub(crate) zoom: TreePath,
    /// Earlier zooms, oldest first.
    pub(crate) history: Vec<TreePath>,
    /// The selected box.
    pub(crate) selected: TreePath,
    /// The first row of boxes on the screen.
    pub(crate) scroll: u32,
    /// Trunks, what the samples of all or of a thread have in common, are shown frame by frame.
    pub(crate) has_open_trunk: bool,
    /// The order that was chosen: by weight, else by name.
    pub(crate) by_weight: Option<bool>,
    /// The state before the stacks were inverted, and the function that was selected then.
    turned: Option<Box<(Option<LabelKey>, FlameState)>>,
}

impl FlameState {
    /// Keeps the state, to come back to it with the next picture, whose stacks are inverted.
    pub(crate) fn for_turn(self) -> Self {
        let function = self.selected.path.last().map(|crumb| crumb.label.clone());
        let (selected, by_weight) = (self.selected.clone(), self.by_weight);
        let turned = Some(Box::new((function, FlameState { turned: None, ..self })));
        FlameState { selected, by_weight, turned, ..FlameState::default() }
    }

    /// Adapts to inverted stacks: paths no longer apply, but the selected function is kept. If the view was inverted
    /// before and the same function is still selected, the state from before is restored.
    pub(crate) fn turn_round(&mut self, picture: &Picture) {
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
        let label = function.as_ref().and_then(|key| picture.label_of(key));
        let is_it = |id: NodeId| Some(picture.tree.node(id).label) == label;
        let root = picture.tree.roots().iter().copied().find(|id| is_it(*id));
        // Not every function is a root of the new tree: one that only calls others is never a leaf. Its heaviest node
        // is selected then.
        let anywhere = || {
            let is_thread = |node: &Node| picture.labels.get(node.label).kind == LabelKind::Task;
            let nodes = picture.tree.nodes().filter(|(id, node)| is_it(*id) && !is_thread(node));
            nodes.max_by_key(|(id, node)| (node.total.weight, std::cmp::Reverse(*id))).map(|(id, _)| id)
        };
        if let Some(id) = root.or_else(anywhere) {
            self.selected = picture.path_of(&BoxOf::Node(id));
        }
        self.turned = Some(Box::new((function, FlameState { turned: None, ..now })));
    }
}

/// Whether boxes are sorted by weight. Live, they are sorted by name, so that they do not move as they grow.
fn is_by_weight(view: &FlameState, context: &Context) -> bool {
    view.by_weight
        .unwrap_or_else(|| !context.live.as_ref().is_some_and(|live| !live.is_frozen && live.ended.is_none()))
}

/// Description of the order of the boxes.
pub(crate) fn order_words(view: &FlameState, context: &Context) -> &'static str {
    if is_by_weight(view, context) { "heaviest first" } else { "by name" }
}

/// All boxes at this width, on the screen or not.
pub(crate) fn boxes(view: &FlameState, context: &Context, picture: &Picture, columns: u16) -> Vec<FlameBox> {
    shortened_boxes(view, context, picture, columns).0
}

/// The same, and which of them replace a shortened trunk.
fn shortened_boxes(
    view: &FlameState,
    context: &Context,
    picture: &Picture,
    columns: u16,
) -> (Vec<FlameBox>, ShortTrunks) {
    let mut boxes = all_boxes(view, context, picture, columns);
    let shortened =
        if view.has_open_trunk { ShortTrunks::default() } else { trunk::shorten(picture, &mut boxes) };
    (boxes, shortened)
}

fn all_boxes(view: &FlameState, context: &Context, picture: &Picture, columns: u16) -> Vec<FlameBox> {
    let by_weight = is_by_weight(view, context);
    let rank = |id: &NodeId| {
        let node = picture.tree.node(*id);
        (picture.name_rank[node.label.index()], node.is_inlined, *id)
    };
    flame_boxes(&picture.tree, picture.find(&view.zoom), columns.into(), |ids| {
        if !by_weight {
            ids.sort_by_key(rank);
        }
    })
}

/// The area of the boxes: below the zoom path, if there is one.
fn box_area(view: &FlameState, area: Rect) -> Rect {
    let path = u16::from(!view.zoom.is_all()).min(area.height);
    Rect { y: area.y + path, height: area.height - path, ..area }
}

/// The selected stack, root first; the last is the selected function.
pub(crate) fn selected(view: &FlameState, picture: &Picture) -> Vec<LabelId> {
    let BoxOf::Node(id) = picture.find(&view.selected) else { return Vec::new() };
    let mut labels: Vec<LabelId> = picture.tree.path(id).map(|node| node.label).collect();
    // The function comes last, whether or not the stacks are inverted.
    labels.reverse();
    labels
}

/// Applies `action`, with the view drawn in `area`; returns false if the action does nothing here.
pub(crate) fn update(
    view: &mut FlameState,
    context: &mut Context,
    action: &Action,
    area: Rect,
    picture: &Picture,
) -> bool {
    let area = box_area(view, area);
    match action {
        Action::Up => move_by(view, context, picture, area, -1),
        Action::Down => move_by(view, context, picture, area, 1),
        Action::PageUp => move_by(view, context, picture, area, -i32::from(area.height.max(2) - 1)),
        Action::PageDown => move_by(view, context, picture, area, i32::from(area.height.max(2) - 1)),
        Action::HalfUp => move_by(view, context, picture, area, -i32::from(area.height / 2).max(1)),
        Action::HalfDown => move_by(view, context, picture, area, i32::from(area.height / 2).max(1)),
        Action::First => move_by(view, context, picture, area, i32::MIN),
        Action::Last => move_by(view, context, picture, area, i32::MAX),
        Action::Left => zoom_to_neighbour(view, context, picture, area, false),
        Action::Right => zoom_to_neighbour(view, context, picture, area, true),
        Action::Enter => zoom_in(view, context),
        Action::Whole => {
            view.history.clear();
            view.zoom = TreePath::ALL;
            view.scroll = 0;
        }
        Action::Back => return zoom_out(view),
        Action::Sort => view.by_weight = Some(!is_by_weight(view, context)),
        Action::Trunk => toggle_trunk(view, context, picture, area),
        Action::NextMatch => next_match(view, context, picture, area, true),
        Action::PreviousMatch => next_match(view, context, picture, area, false),
        Action::Click(at) if area.contains(*at) => select_at(view, context, picture, area, *at),
        Action::DoubleClick(at) if area.contains(*at) => {
            select_at(view, context, picture, area, *at);
            zoom_in(view, context);
        }
        Action::Click(at) if at.y + 1 == area.y => return zoom_out(view),
        Action::Scroll { rows, columns, .. } => {
            let last = last_row(&boxes(view, context, picture, area.width))
                .saturating_sub(u32::from(area.height) - 1);
            view.scroll = view.scroll.min(last).saturating_add_signed(i32::from(*rows)).min(last);
            if *columns != 0 {
                pan(view, context, picture, area, *columns > 0);
            }
        }
        _ => return false,
    }
    true
}

fn toggle_trunk(view: &mut FlameState, context: &mut Context, picture: &Picture, area: Rect) {
    if !view.has_open_trunk && shortened_boxes(view, context, picture, area.width).1.is_empty() {
        context.show_message("no long row of frames is common to all samples here, nor to all of a thread");
        return;
    }
    view.has_open_trunk = !view.has_open_trunk;
    view.scroll = 0;
}

/// Rows above and below those on the screen, in a view that takes `area`.
fn hidden_rows(view: &FlameState, context: &Context, picture: &Picture, area: Rect) -> (u32, u32) {
    let area = box_area(view, area);
    let boxes = boxes(view, context, picture, area.width);
    let above = shown_scroll(view, &boxes, area);
    let below = (last_row(&boxes) + 1).saturating_sub(above + u32::from(area.height));
    (above, below)
}

fn last_row(boxes: &[FlameBox]) -> u32 {
    boxes.last().map_or(0, |last| last.row)
}

fn zoom_in(view: &mut FlameState, context: &mut Context) {
    if view.selected == view.zoom || view.selected.is_all() {
        context.show_message("this is as wide as it gets: select a box below");
        return;
    }
    let before = std::mem::replace(&mut view.zoom, view.selected.clone());
    view.history.push(before);
    view.scroll = 0;
}

fn zoom_out(view: &mut FlameState) -> bool {
    let Some(before) = view.history.pop() else { return false };
    view.selected = std::mem::replace(&mut view.zoom, before);
    view.scroll = 0;
    true
}

/// Index of the selected box, or of its nearest ancestor that is drawn.
fn selected_box(view: &FlameState, picture: &Picture, boxes: &[FlameBox]) -> usize {
    let mut path = view.selected.clone();
    loop {
        let what = picture.find(&path);
        // A node in a shared box has no box of its own. From the end, since the top box can share nodes with one drawn
        // below it.
        let shares = |one: &FlameBox| match (&one.what, &what) {
            (BoxOf::Rest(ids), BoxOf::Node(id)) => ids.contains(id),
            (BoxOf::Rest(ids), BoxOf::Rest(others)) => others.iter().any(|id| ids.contains(id)),
            _ => false,
        };
        let is_it = |one: &FlameBox| one.what == what;
        match boxes.iter().position(is_it).or_else(|| boxes.iter().rposition(shares)) {
            Some(index) => return index,
            None if path.is_all() => return 0,
            None => path = path.parent(),
        }
    }
}

fn select(view: &mut FlameState, picture: &Picture, area: Rect, one: &FlameBox) {
    view.selected = picture.path_of(&one.what);
    let height = u32::from(area.height.max(1));
    view.scroll = view.scroll.min(one.row).max((one.row + 1).saturating_sub(height));
}

fn select_at(view: &mut FlameState, context: &mut Context, picture: &Picture, area: Rect, at: Position) {
    let boxes = boxes(view, context, picture, area.width);
    let scroll = shown_scroll(view, &boxes, area);
    let row = u32::from(at.y - area.y) + scroll;
    let cell = u32::from(at.x - area.x);
    let found = boxes.iter().find(|one| one.row == row && (one.start..one.end).contains(&cell));
    if let Some(one) = found {
        view.scroll = scroll;
        select(view, picture, area, one);
    }
}

/// Moves up to callers, or down to callees, each time to the widest box.
fn move_by(view: &mut FlameState, context: &mut Context, picture: &Picture, area: Rect, rows: i32) {
    let boxes = boxes(view, context, picture, area.width);
    let mut at = selected_box(view, picture, &boxes);
    for _ in 0..rows.unsigned_abs() {
        let here = &boxes[at];
        let holds = |outer: &FlameBox, inner: &FlameBox| outer.start <= inner.start && inner.end <= outer.end;
        let next = if rows < 0 {
            (0..at).rev().find(|index| boxes[*index].row + 1 == here.row && holds(&boxes[*index], here))
        } else {
            // Of boxes with the same width, the leftmost.
            (at + 1..boxes.len())
                .take_while(|index| boxes[*index].row <= here.row + 1)
                .filter(|index| boxes[*index].row == here.row + 1 && holds(here, &boxes[*index]))
                .max_by_key(|index| (boxes[*index].end - boxes[*index].start, std::cmp::Reverse(*index)))
        };
        match next {
            Some(next) => at = next,
            None => {
                if rows > 0 && calls_something(picture, &boxes[at].what) {
                    context.show_message("too narrow for what is below: Enter shows it");
                }
                break;
            }
        }
    }
    select(view, picture, area, &boxes[at]);
}

/// Whether the box has children, drawn or not.
fn calls_something(picture: &Picture, what: &BoxOf) -> bool {
    match what {
        BoxOf::All => false,
        BoxOf::Node(id) => picture.tree.node(*id).has_children(),
        BoxOf::Rest(_) => true,
    }
}

fn zoom_to_neighbour(
    view: &mut FlameState,
    context: &mut Context,
    picture: &Picture,
    area: Rect,
    right: bool,
) {
    let boxes = boxes(view, context, picture, area.width);
    let at = selected_box(view, picture, &boxes);
    let next = if right { Some(at + 1) } else { at.checked_sub(1) };
    if let Some(next) = next.and_then(|next| boxes.get(next)).filter(|next| next.row == boxes[at].row) {
        select(view, picture, area, next);
    }
}

/// Zooms into the neighbour that the zoomed box has in the unzoomed view; without a zoom selects the next box.
fn pan(view: &mut FlameState, context: &mut Context, picture: &Picture, area: Rect, right: bool) {
    let Some(before) = view.history.last().cloned() else {
        return zoom_to_neighbour(view, context, picture, area, right);
    };
    let zoom = std::mem::replace(&mut view.zoom, before);
    let outer = boxes(view, context, picture, area.width);
    let what = picture.find(&zoom);
    let at = outer.iter().position(|one| one.what == what);
    let next = at.and_then(|at| if right { Some(at + 1) } else { at.checked_sub(1) });
    let is_neighbour = |next: &&FlameBox| at.is_some_and(|at| outer[at].row == next.row);
    view.zoom = match next.and_then(|next| outer.get(next)).filter(is_neighbour) {
        Some(next) => picture.path_of(&next.what),
        None => {
            context.show_message("nothing is next to the zoom");
            zoom
        }
    };
    view.selected = view.zoom.clone();
    view.scroll = 0;
}

fn next_match(view: &mut FlameState, context: &mut Context, picture: &Picture, area: Rect, forward: bool) {
    let Some(search) = &context.search else {
        context.show_message("search first: /");
        return;
    };
    let boxes = boxes(view, context, picture, area.width);
    let matches: Vec<usize> = (0..boxes.len())
        .filter(|index| match &boxes[*index].what {
            BoxOf::Node(id) => search.matches(picture.tree.node(*id).label.index()),
            BoxOf::All | BoxOf::Rest(_) => false,
        })
        .collect();
    if matches.is_empty() {
        let what = if search.functions + search.threads == 0 {
            "nothing matches"
        } else if is_in_trunk(view, context, picture, area.width) {
            "the match is in a shortened trunk: t shows it whole"
        } else {
            "no box of a match is wide enough: & keeps only matches"
        };
        context.show_message(what);
        return;
    }
    let at = selected_box(view, picture, &boxes);
    let next = if forward {
        matches.iter().find(|index| **index > at).or(matches.first())
    } else {
        matches.iter().rev().find(|index| **index < at).or(matches.last())
    };
    if let Some(next) = next {
        select(view, picture, area, &boxes[*next]);
    }
}

/// Whether the search matches a frame of a shortened trunk.
fn is_in_trunk(view: &FlameState, context: &Context, picture: &Picture, columns: u16) -> bool {
    let Some(search) = context.search.as_ref().filter(|_| !view.has_open_trunk) else { return false };
    let is_match = |one: &FlameBox| match &one.what {
        BoxOf::Node(id) => search.matches(picture.tree.node(*id).label.index()),
        BoxOf::All | BoxOf::Rest(_) => false,
    };
    all_boxes(view, context, picture, columns).iter().any(is_match)
}

/// First row on the screen, such that no line stays empty that could be filled.
fn shown_scroll(view: &FlameState, boxes: &[FlameBox], area: Rect) -> u32 {
    let most = (last_row(boxes) + 1).saturating_sub(u32::from(area.height));
    view.scroll.min(most)
}

/// Draws the view into `area`.
pub(crate) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &FlameState,
    context: &Context,
    picture: &Picture,
    theme: &Theme,
) {
    let inner = box_area(view, area);
    if inner.y > area.y {
        frame.render_widget(path_line(view, picture, theme, area.width.into()), Rect { height: 1, ..area });
    }
    if inner.height == 0 {
        return;
    }
    let (boxes, shortened) = shortened_boxes(view, context, picture, inner.width);
    let scroll = shown_scroll(view, &boxes, inner);
    let selected = selected_box(view, picture, &boxes);
    for (index, one) in boxes.iter().enumerate() {
        let Some(row) = one.row.checked_sub(scroll).and_then(|row| u16::try_from(row).ok()) else { continue };
        if row >= inner.height {
            break;
        }
        // Fits, since there are no more cells than screen columns.
        let (start, end) = (one.start as u16, one.end as u16);
        let place = Rect { x: inner.x + start, y: inner.y + row, width: end - start, height: 1 };
        let mut style = style_of(context, picture, theme, &one.what);
        if index == selected {
            style = theme.selected(style);
        }
        let text = match &one.what {
            BoxOf::Node(id) if shortened.contains_key(id) => {
                text::trunk_text(context, picture, theme, (*id, shortened[id]), place.width.into())
            }
            what => text::text_of(context, picture, theme, what, place.width.into()),
        };
        let buffer = frame.buffer_mut();
        buffer.set_style(place, style);
        buffer.set_stringn(place.x, place.y, text, place.width.into(), style);
    }
}

fn style_of(context: &Context, picture: &Picture, theme: &Theme, what: &BoxOf) -> Style {
    match what {
        BoxOf::All | BoxOf::Rest(_) => theme.kind(LabelKind::Task, false, "all"),
        BoxOf::Node(id) => {
            let node = picture.tree.node(*id);
            let label = picture.labels.get(node.label);
            let is_waiting = picture.is_waiting[id.index()];
            let style = match &picture.change {
                Some(change) => theme.tone(change.tone(change.of_node(*id), node.label, label.kind)),
                None => theme.kind(label.kind, is_waiting, &label.name),
            };
            let is_match = context.search.as_ref().is_some_and(|search| search.matches(node.label.index()));
            if is_match { theme.matched(style) } else { style }
        }
    }
}

/// The way to the zoom.
fn path_line(view: &FlameState, picture: &Picture, theme: &Theme, columns: usize) -> Line<'static> {
    // The zoom, or its nearest ancestor in this picture.
    let zoom = picture.path_of(&picture.find(&view.zoom));
    let mut names: Vec<String> = vec!["all".to_owned()];
    names.extend(zoom.path.iter().map(|crumb| {
        let short = crate::report::short(&crumb.label.name());
        safe_text::terminal(&short).into_owned()
    }));
    if !zoom.rest.is_empty() {
        names.push(counted(zoom.rest.len() as u64, "small box"));
    }
    // Cut at the start, since the end of the path says more.
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
