//! The Time view: when threads ran and waited, as bars or as a heat map; a time range that filters all views; and the
//! samples of a cell. The buckets are the picture's.

pub(crate) mod axis;
mod column;
pub(crate) mod draw;
mod layout;
pub(crate) mod samples;
mod shown_states;
pub(crate) mod state;
#[cfg(test)]
pub(crate) mod tests;
mod view;

use crate::base::safe_text;
use crate::base::units::{duration, percent, percent_text};
use crate::report::{CommonOptions, ExportShape, ReportView, ThreadKey, TimeRange, Timeline, TimelineRow};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::app::diff_base::DiffBase;
use crate::tui::app::query::SamplesQuery;
use crate::tui::compute::picture::{Picture, samples_options};
use crate::tui::views::view::all_of;
use crate::tui::widgets::change_line;
use crate::tui::widgets::line::{Below, fitting};
use crate::tui::widgets::list::ListState;
use crate::tui::widgets::theme::Theme;
use draw::{draw_bars, draw_heat};
use layout::{TimeLayout, row_text};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use shown_states::{ShownStates, cpus_of, name_of};
use state::{Panel, TimeState};
use std::cmp::Reverse;

/// Names on the selected stack, innermost first. Foreign text.
pub(crate) fn selected_names(view: &TimeState, context: &Context, picture: &Picture) -> Vec<String> {
    match view.panel {
        Panel::Map => Vec::new(),
        Panel::Samples | Panel::Stack => samples::selected_names(view, context, picture),
    }
}

/// Keeps the selected row and the selected sample in another picture.
pub(crate) fn follow(view: &mut TimeState, context: &mut Context, picture: &Picture) {
    samples::follow(view, context, picture);
    let (Some(selected), Some(timeline)) = (&view.selected, &picture.timeline) else { return };
    if let Some(at) = timeline.rows.iter().position(|row| key(row).as_ref() == Some(selected)) {
        view.list.follow(at);
    }
}

fn key(row: &TimelineRow) -> Option<ThreadKey> {
    let (thread, process) = (row.thread.clone(), row.process.clone());
    (!row.is_rest).then_some(ThreadKey { thread, process, tid: row.tid, pid: row.pid })
}

/// Applies `action`, with the view drawn in `area`; returns false if the action does nothing here.
pub(crate) fn update(
    view: &mut TimeState,
    context: &mut Context,
    action: &Action,
    area: Rect,
    picture: &Picture,
) -> bool {
    if view.panel != Panel::Map {
        return samples::update(view, context, action, area, picture);
    }
    let Some(timeline) = &picture.timeline else { return false };
    let layout = TimeLayout::new(view, timeline, cpus_of(picture), area);
    let (first_ns, last_ns) = (timeline.start_ns, timeline.duration_ns.saturating_sub(1));
    view.at_ns = view.at_ns.clamp(first_ns, last_ns.max(first_ns));
    let (from_ns, to_ns) = layout.place(view.at_ns);
    let turned = key_of_wheel(action, layout.grid.is_some());
    match turned.as_ref().unwrap_or(action) {
        Action::HeatMap => view.is_heat_map = !view.is_heat_map,
        Action::NextMatch | Action::PreviousMatch => {
            context.show_message("Enter lists the samples: there n and N go through those that match");
        }
        way @ (Action::Left | Action::Right | Action::Up | Action::Down)
            if layout.grid.is_some() || matches!(way, Action::Left | Action::Right) =>
        {
            view.at_ns = neighbour(&layout, view.at_ns, way).clamp(first_ns, last_ns.max(first_ns));
        }
        Action::First if layout.grid.is_some() => view.at_ns = first_ns,
        Action::Last if layout.grid.is_some() => view.at_ns = last_ns,
        Action::RangeStart => range_from(context, from_ns),
        // The last cell may end after the recording.
        Action::RangeEnd => range_to(context, to_ns.min(timeline.duration_ns)),
        Action::Whole => context.clear_range(),
        Action::Back if !context.query.common.filter.time.is_everything() => context.clear_range(),
        Action::Enter => show_samples(view, context, timeline, (from_ns, to_ns)),
        Action::Click(at) if area.contains(*at) => {
            view.drag = select_at(view, timeline, &layout, area, *at).map(|found_ns| (found_ns, found_ns));
        }
        Action::DoubleClick(at) if area.contains(*at) => {
            let Some(found_ns) = select_at(view, timeline, &layout, area, *at) else { return true };
            view.drag = None;
            show_samples(view, context, timeline, layout.place(found_ns));
        }
        Action::Drag(at) => {
            if let Some((_, end)) = &mut view.drag {
                *end = moment_at(&layout, area, *at).min(last_ns);
            }
        }
        Action::Release(_) => {
            let Some(ends) = view.drag.take() else { return true };
            choose_dragged(view, context, timeline, &layout, ends);
        }
        _ if layout.grid.is_some() => return false,
        _ if !view.list.update(action, timeline.rows.len(), layout.rows.into()) => return false,
        _ => {}
    }
    let cursor = view.list.cursor(timeline.rows.len());
    view.selected = timeline.rows.get(cursor).and_then(key);
    true
}

/// A point in time in the neighbouring cell in that direction.
fn neighbour(layout: &TimeLayout, at_ns: u64, way: &Action) -> u64 {
    let (from_ns, to_ns) = layout.place(at_ns);
    match (way, &layout.grid) {
        (Action::Left, Some(grid)) => at_ns.saturating_sub(grid.column_ns),
        (Action::Right, Some(grid)) => at_ns.saturating_add(grid.column_ns),
        (Action::Left | Action::Up, _) => from_ns.saturating_sub(1),
        _ => to_ns,
    }
}

/// Sets the start of the time range.
fn range_from(context: &mut Context, from_ns: u64) {
    context.change_filter(|options| {
        options.time.to_ns = options.time.to_ns.filter(|to| *to > from_ns);
        options.time.from_ns = Some(from_ns);
    });
}

/// Sets the end of the time range.
fn range_to(context: &mut Context, to_ns: u64) {
    context.change_filter(|options| {
        options.time.from_ns = options.time.from_ns.filter(|from| *from < to_ns);
        options.time.to_ns = Some(to_ns);
    });
}

/// Sets the time range that was dragged over, if it is more than one cell.
fn choose_dragged(
    view: &mut TimeState,
    context: &mut Context,
    timeline: &Timeline,
    layout: &TimeLayout,
    (start, end): (u64, u64),
) {
    let (a, b) = (layout.place(start.min(end)), layout.place(start.max(end)));
    if a != b {
        view.at_ns = b.0;
        context.change_filter(|options| {
            let to_ns = b.1.max(a.1).min(timeline.duration_ns);
            options.time = TimeRange { from_ns: Some(a.0), to_ns: Some(to_ns) };
        });
    }
}

/// The wheel as an arrow key, where it scrolls no list: with Shift a step in time, in the heat map a cell up or down.
fn key_of_wheel(action: &Action, is_heat_map: bool) -> Option<Action> {
    match action {
        Action::Scroll { rows: 0, columns, .. } => {
            Some(if *columns > 0 { Action::Right } else { Action::Left })
        }
        Action::Scroll { rows, .. } if is_heat_map => Some(if *rows > 0 { Action::Down } else { Action::Up }),
        _ => None,
    }
}

/// The time at a position on the screen.
fn moment_at(layout: &TimeLayout, area: Rect, at: Position) -> u64 {
    let from_left = at.x.saturating_sub(layout.axis.x);
    match &layout.grid {
        Some(grid) => {
            let column = layout.heat_column_at(from_left);
            let row = usize::from(at.y.saturating_sub(area.y)).min(grid.rows.saturating_sub(1));
            grid.time_of(column, row).0
        }
        None => layout.axis.time_of(from_left.min(layout.axis.columns - 1)).0,
    }
}

fn select_at(
    view: &mut TimeState,
    timeline: &Timeline,
    layout: &TimeLayout,
    area: Rect,
    at: Position,
) -> Option<u64> {
    let line = usize::from(at.y - area.y);
    let (top, lines) = (usize::from(layout.top), usize::from(layout.lines));
    if line >= top + usize::from(layout.rows) * lines {
        return None;
    }
    let count = timeline.rows.len();
    if layout.grid.is_none()
        && let Some(line) = line.checked_sub(top).map(|line| line / lines)
        && let Some(row) = view.list.row_at(line, count, layout.rows.into())
    {
        view.list.select(row, count, layout.rows.into());
    }
    if at.x < layout.axis.x {
        return None;
    }
    view.at_ns = moment_at(layout, area, at).min(timeline.duration_ns.saturating_sub(1));
    Some(view.at_ns)
}

/// Lists the samples of the selected cell, or of the time range if the cell is in it.
fn show_samples(
    view: &mut TimeState,
    context: &mut Context,
    timeline: &Timeline,
    (from_ns, to_ns): (u64, u64),
) {
    let range = context.query.common.filter.time;
    let is_in_range = !range.is_everything() && range.contains(from_ns);
    let time = if is_in_range { range } else { TimeRange { from_ns: Some(from_ns), to_ns: Some(to_ns) } };
    let row = if view.is_heat_map {
        None
    } else {
        let Some(row) = timeline.rows.get(view.list.cursor(timeline.rows.len())) else { return };
        if row.is_rest {
            context.show_message("too many threads for a row each: choose some in Threads first");
            return;
        }
        key(row)
    };
    view.panel = Panel::Samples;
    view.samples = ListState::default();
    view.sample = None;
    context.ask(|query| query.samples_at = Some(SamplesQuery { time, row }));
}

/// Fewest columns in which a range is printed next to a change.
const LEAST_RANGE: usize = 24;

/// The marked range: the one being dragged, or else that of the filter.
fn marked(
    view: &TimeState,
    context: &Context,
    layout: &TimeLayout,
    timeline: &Timeline,
) -> Option<(u64, u64)> {
    if let Some((start, end)) = view.drag.filter(|(start, end)| start != end) {
        return Some((layout.place(start.min(end)).0, layout.place(start.max(end)).1));
    }
    let time = context.query.common.filter.time;
    (!time.is_everything()).then(|| {
        (time.from_ns.unwrap_or(0), time.to_ns.unwrap_or(timeline.duration_ns).min(timeline.duration_ns))
    })
}

/// Draws the view into `area`.
pub(super) fn draw_view(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &TimeState,
    context: &Context,
    picture: &Picture,
    theme: &Theme,
) {
    if view.panel != Panel::Map {
        samples::draw(frame, area, view, context, picture, theme);
        return;
    }
    let Some(timeline) = &picture.timeline else {
        frame.render_widget(
            Line::from(" adding up").style(theme.faint()),
            Rect { height: area.height.min(1), ..area },
        );
        return;
    };
    let layout = TimeLayout::new(view, timeline, cpus_of(picture), area);
    let range = marked(view, context, &layout, timeline);
    match &layout.grid {
        Some(grid) => draw_heat(frame, area, view, theme, &layout, grid, range),
        None => {
            let shown = ShownStates::of(picture, timeline);
            draw_bars(frame, area, view, theme, &layout, &shown, range);
        }
    }
    let y = area.bottom().saturating_sub(1);
    let start = match layout.axis.start_ns {
        0 => " 0s".to_owned(),
        start_ns => format!(" {:.1}s", start_ns as f64 / 1e9),
    };
    frame.buffer_mut().set_stringn(area.x, y, start, layout.side.into(), theme.faint());
    let rollup_until_ns = picture.recording.rollup_time().until_ns();
    let mut line = layout.axis.ruler(range, rollup_until_ns, timeline.duration_ns);
    if let Some(DiffBase::Range(base)) = &context.query.base {
        let (from_ns, to_ns) = (base.from_ns.unwrap_or(0), base.to_ns.unwrap_or(timeline.duration_ns));
        line = layout.axis.with_base(&line, from_ns, to_ns);
    }
    frame.buffer_mut().set_stringn(layout.axis.x, y, line, layout.axis.columns.into(), theme.faint());
}

/// Rows above and below those on the screen, in a view that takes `area`.
fn hidden_rows(view: &TimeState, context: &Context, picture: &Picture, area: Rect) -> (u32, u32) {
    if view.panel != Panel::Map {
        return samples::hidden_rows(view, context, picture, area);
    }
    // The heat map is made such that all of it fits.
    let Some(timeline) = picture.timeline.as_ref().filter(|_| !view.is_heat_map) else { return (0, 0) };
    let layout = TimeLayout::new(view, timeline, cpus_of(picture), area);
    view.list.hidden_rows(timeline.rows.len(), layout.rows.into())
}

/// The average number of threads that existed in a period of `length_ns`.
fn threads_there(row: &TimelineRow, alive_ns: u64, length_ns: u64) -> String {
    if row.threads < 2 || length_ns == 0 {
        return String::new();
    }
    format!("of {:.1} threads there", alive_ns as f64 / length_ns as f64)
}

/// Details of the selection.
pub(crate) fn details(
    view: &TimeState,
    context: &Context,
    picture: &Picture,
    below: Below<'_>,
) -> Vec<Line<'static>> {
    if view.panel != Panel::Map {
        return samples::details(view, context, picture, below);
    }
    let Below { theme, columns, lines } = below;
    let Some(timeline) = &picture.timeline else { return Vec::new() };
    let body = context.areas().map_or(Rect::new(0, 0, columns as u16, 10), |areas| areas.body);
    let layout = TimeLayout::new(view, timeline, cpus_of(picture), body);
    let at_ns = view.at_ns.clamp(timeline.start_ns, timeline.duration_ns.max(timeline.start_ns));
    let (from_ns, to_ns) = layout.place(at_ns);
    let when = format!("{}-{} s", seconds(from_ns), seconds(to_ns.min(timeline.duration_ns)));
    let what = words_at(view, picture, timeline, &layout, at_ns, theme);
    let mut range = range_words(view, context, timeline, &layout);
    if picture.empty.is_some() {
        range.push((0, "nothing in it".to_owned()));
    }
    let rollup = picture.recording.rollup_time();
    if rollup.until_ns().is_some_and(|until_ns| until_ns > timeline.start_ns) {
        range.push((1, rollup.words().unwrap_or_default()));
    }
    let mut first = vec![(0, when)];
    if let Some((start, end)) =
        rollup.bucket_at(from_ns).filter(|(start, end)| *start < from_ns || to_ns < *end)
    {
        first.push((1, format!("mean of {:.0}-{:.0} s", start as f64 / 1e9, end as f64 / 1e9)));
    }
    first.extend(what);
    let line = |parts: &[(u8, String)], columns| theme.fit(&fitting(parts, "   ", columns), columns);
    // A range that is chosen comes before what the colours mean.
    let is_chosen = marked(view, context, &layout, timeline).is_some();
    let row = timeline.rows.get(view.list.cursor(timeline.rows.len()));
    let row = row.filter(|row| !row.is_rest && layout.grid.is_none() && view.drag.is_none());
    if let (Some(change), Some(row)) = (&picture.change, row) {
        let words = change_line::of_threads(change, row.into(), theme, columns);
        let range = if is_chosen { range } else { Vec::new() };
        let legend = ShownStates::of(picture, timeline).legend(theme, &layout.axis);
        let second = beside_change(words, &range, legend, theme, columns);
        return [Line::from(line(&first, columns)), second].into_iter().take(lines).collect();
    }
    let mut second = vec![Span::raw(" ")];
    if layout.grid.is_none() {
        second.extend(ShownStates::of(picture, timeline).legend(theme, &layout.axis));
    }
    let used: usize = second.iter().map(Span::width).sum();
    let range_columns = safe_text::width(&fitting(&range, "   ", usize::MAX)) - 1;
    if used + if is_chosen { range_columns } else { 0 } > columns {
        second.truncate(1);
    }
    let used: usize = second.iter().map(Span::width).sum();
    second.push(Span::raw(line(&range, columns.saturating_sub(used - 1)).split_off(1)));
    [Line::from(line(&first, columns)), Line::from(second)].into_iter().take(lines).collect()
}

/// The change of a row, with the range that is chosen and the colours of states as far as there is room.
fn beside_change(
    words: String,
    range: &[(u8, String)],
    legend: Vec<Span<'static>>,
    theme: &Theme,
    columns: usize,
) -> Line<'static> {
    let mut room = columns.saturating_sub(safe_text::width(&words));
    let mut spans = vec![Span::raw(words)];
    if !range.is_empty() && room > LEAST_RANGE {
        let words = format!("  {}", theme.fit(&fitting(range, "   ", room - 2), room - 2));
        room = room.saturating_sub(safe_text::width(&words));
        spans.push(Span::raw(words));
    }
    if legend.iter().map(Span::width).sum::<usize>() + 3 <= room {
        spans.push(Span::raw("   "));
        spans.extend(legend);
    }
    Line::from(spans)
}

fn seconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e9)
}

/// Contents of the selected cell: its weight in the heat map, or else what the threads of the row did, or the weight of their
/// samples if the metric is no time.
fn words_at(
    view: &TimeState,
    picture: &Picture,
    timeline: &Timeline,
    layout: &TimeLayout,
    at_ns: u64,
    theme: &Theme,
) -> Vec<(u8, String)> {
    if let Some(grid) = &layout.grid {
        let (column, row) = grid.cell_at(at_ns);
        let weight = grid.weight(column, row);
        return vec![
            (0, picture.event.amount(weight)),
            (1, format!("shade = {} there", picture.event.title)),
        ];
    }
    let Some(row) = timeline.rows.get(view.list.cursor(timeline.rows.len())) else { return Vec::new() };
    let (from_ns, to_ns) = layout.place(at_ns);
    let name = (3, row_text(row, theme.glyphs.times));
    if !timeline.is_time {
        return vec![name, (0, picture.event.amount(timeline.weight_in(row, from_ns, to_ns)))];
    }
    let busy = timeline.busy_in(&row.buckets, from_ns, to_ns);
    // The time that threads could have run: as long as they existed.
    let whole = busy.alive_ns.max(busy.on_cpu_ns);
    // A wait that is weighted as several can add up to more than its thread's time.
    let share = |ns: u64| percent_text(percent(ns.min(whole), whole));
    let mut blocked = timeline.states_in(row, from_ns, to_ns).split_off(2);
    blocked.retain(|(_, ns)| *ns > 0);
    blocked.sort_by_key(|(_, ns)| Reverse(*ns));
    let mut parts = vec![
        name,
        (0, format!("on-CPU {}", share(busy.on_cpu_ns))),
        (2, format!("no CPU {}", share(busy.no_cpu_ns))),
        (1, format!("blocked {}", share(busy.blocked_ns))),
    ];
    // Idle waits that are hidden, and time that is not accounted for.
    let rest = whole.saturating_sub(busy.sum_ns());
    if picture.totals.is_some() && rest > whole / 1_000 {
        parts.push((4, format!("idle or not known {}", share(rest))));
    }
    // The heaviest reasons stay longest.
    let ranks = 5u8..12;
    parts.extend(
        ranks.zip(blocked).map(|(rank, (state, ns))| (rank, format!("{} {}", name_of(state), share(ns)))),
    );
    parts.push((12, threads_there(row, busy.alive_ns, to_ns - from_ns)));
    parts
}

/// The time range, or without one the keys that set it.
fn range_words(
    view: &TimeState,
    context: &Context,
    timeline: &Timeline,
    layout: &TimeLayout,
) -> Vec<(u8, String)> {
    if let Some((start, end)) = marked(view, context, layout, timeline) {
        let length = duration(end.saturating_sub(start));
        let range = format!("range {}-{} s", seconds(start), seconds(end));
        return vec![(0, range), (2, length), (1, "0 clears it".to_owned())];
    }
    let what = if view.is_heat_map { "each column from the top down".to_owned() } else { String::new() };
    vec![(2, what), (0, "[ ] or drag chooses a range".to_owned())]
}

/// Selects the listed samples, or everything in the time range, for an export.
pub(super) fn exported(
    view: &TimeState,
    picture: &Picture,
    common: &mut CommonOptions,
    shape: ExportShape,
) -> (ReportView, String) {
    match &picture.query.samples_at {
        Some(asked) if view.panel != Panel::Map => {
            *common = samples_options(asked, common);
            let threads = asked
                .row
                .as_ref()
                .map_or("all threads".to_owned(), |row| safe_text::terminal(&row.thread).into_owned());
            (ReportView::Flat, format!("the samples of {threads}"))
        }
        _ => (ReportView::Flat, all_of("all functions", shape)),
    }
}
