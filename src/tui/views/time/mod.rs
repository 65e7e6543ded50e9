//! The Time view: when threads ran and waited, as bars or as a heat map; a range of time that all views follow; and the
//! samples behind a place.

pub mod axis;
pub(crate) mod draw;
#[cfg(test)]
pub(crate) mod tests;

use crate::base::safe_text;
use crate::base::units::{count, duration, percent, percent_text};
use crate::report::{Activity, HeatGrid, LabelId, ThreadKey, TimeRange, Timeline, TimelineRow, thread_title};
use crate::tui::app::action::Action;
use crate::tui::app::query::SamplesQuery;
use crate::tui::app::state::App;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::line::{Below, fitting, threads_words};
use crate::tui::widgets::list::ListState;
use crate::tui::widgets::samples_list;
use crate::tui::widgets::theme::Theme;
use axis::TimeAxis;
use draw::{busy_in, draw_bars, draw_heat, whole_ns};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;

/// Most columns for the names of threads.
const NAME_COLUMNS: usize = 16;
/// Columns of `+200 ms`, and a space on both sides.
const OFFSET_COLUMNS: u16 = 10;
/// Cells of the heat map are no wider than this.
const MOST_CELL_COLUMNS: u16 = 6;

/// What the view shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Panel {
    /// Bars or the heat map.
    #[default]
    Map,
    /// The samples behind a place.
    Samples,
    /// The stack of one of them.
    Stack,
}

/// What the user did to the view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeState {
    /// Which row of threads is selected, and which are shown.
    pub list: ListState,
    /// The selected moment, ns.
    pub at_ns: u64,
    /// The heat map, else bars.
    pub is_heat_map: bool,
    /// What is shown.
    pub panel: Panel,
    /// The selected sample.
    pub samples: ListState,
    /// Which one that is; `None` for the first, whichever it is.
    pub sample: Option<SampleKey>,
    /// The selected line of its stack.
    pub stack: ListState,
    /// Where the pointer went down, and where it is: the range that is being chosen.
    pub drag: Option<(u64, u64)>,
    /// What the selected row is.
    selected: Option<ThreadKey>,
}

/// A sample that is listed: the same in the next picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleKey {
    /// The thread.
    pub tid: u32,
    /// When it was taken, or began, ns.
    pub time_ns: u64,
    /// Length of the step of time that it is the sum of, ns; 0 of one sample.
    pub step_ns: u64,
    /// Ran, or why it waited.
    pub activity: Activity,
    /// A hash of the names on its stack: stacks of one thread that are added up in one step have all else in common.
    pub stack: u64,
}

/// No function of the call tree is selected here.
pub fn selected(_app: &App, _picture: &Picture) -> Vec<LabelId> {
    Vec::new()
}

/// The names of the stack that is selected, innermost first. Foreign text.
pub(crate) fn selected_names(app: &App, picture: &Picture) -> Vec<String> {
    match app.time.panel {
        Panel::Map => Vec::new(),
        Panel::Samples | Panel::Stack => samples_list::selected_names(app, picture),
    }
}

/// Asks for what the view draws.
pub fn opened(app: &mut App) {
    app.ask(|query| query.timeline = true);
}

/// Follows the selected row and the selected sample into another picture.
pub fn follow(app: &mut App, picture: &Picture) {
    samples_list::follow(app, picture);
    let (Some(selected), Some(timeline)) = (&app.time.selected, &picture.timeline) else { return };
    if let Some(at) = timeline.rows.iter().position(|row| key(row).as_ref() == Some(selected)) {
        app.time.list.follow(at);
    }
}

fn key(row: &TimelineRow) -> Option<ThreadKey> {
    let (thread, process) = (row.thread.clone(), row.process.clone());
    (!row.is_rest).then_some(ThreadKey { thread, process, tid: row.tid })
}

pub(super) fn row_text(row: &TimelineRow, times: &str) -> String {
    if row.is_rest {
        return format!("{} others", count(row.threads));
    }
    threads_words(thread_title(&row.thread, &row.process), row.tid, row.threads, times)
}

/// Where the parts of the view are.
pub(crate) struct Layout {
    /// Names, or offsets.
    pub(crate) side: u16,
    /// Rows of bars or cells.
    pub(crate) rows: u16,
    /// Cells on the screen of one column of the map.
    pub(crate) cell: u16,
    pub(crate) axis: TimeAxis,
    pub(crate) grid: Option<HeatGrid>,
}

impl Layout {
    fn new(app: &App, timeline: &Timeline, area: Rect) -> Self {
        // The last line is the axis.
        let rows = area.height.saturating_sub(1);
        if app.time.is_heat_map {
            let side = OFFSET_COLUMNS.min(area.width / 3);
            let room = area.width.saturating_sub(side).max(1);
            let grid = timeline.heat.grid(room.into(), rows.into());
            // A column of the grid is at most one of the screen.
            let columns = (grid.columns as u16).max(1);
            let cell = (room / columns).clamp(1, MOST_CELL_COLUMNS);
            let length_ns = grid.column_ns.saturating_mul(columns.into());
            let start_ns = grid.origin_ns;
            let axis = TimeAxis { x: area.x + side, columns: columns * cell, start_ns, length_ns };
            return Layout { side, rows, cell, axis, grid: Some(grid) };
        }
        let widest = timeline.rows.iter().map(|row| safe_text::width(&row_text(row, "×"))).max().unwrap_or(0);
        // At most a third of the screen.
        let most = NAME_COLUMNS.min(usize::from(area.width / 3));
        let side = widest.min(most) as u16 + 2;
        let axis = TimeAxis {
            x: area.x + side,
            columns: area.width.saturating_sub(side).max(1),
            start_ns: timeline.start_ns,
            length_ns: timeline.duration_ns.saturating_sub(timeline.start_ns),
        };
        Layout { side, rows, cell: 1, axis, grid: None }
    }

    /// The time of the selected place.
    fn place(&self, at_ns: u64) -> (u64, u64) {
        match &self.grid {
            Some(grid) => {
                let (column, row) = grid.cell_at(at_ns);
                grid.time_of(column, row)
            }
            None => self.axis.time_of(self.axis.column_of(at_ns)),
        }
    }
}

/// Does what `action` means here, where the view takes `area`; false when it means nothing.
pub fn update(app: &mut App, action: &Action, area: Rect, picture: &Picture) -> bool {
    if app.time.panel != Panel::Map {
        return samples_list::update(app, action, area, picture);
    }
    let Some(timeline) = &picture.timeline else { return false };
    let layout = Layout::new(app, timeline, area);
    let (first_ns, last_ns) = (timeline.start_ns, timeline.duration_ns.saturating_sub(1));
    app.time.at_ns = app.time.at_ns.clamp(first_ns, last_ns.max(first_ns));
    let (from_ns, to_ns) = layout.place(app.time.at_ns);
    let turned = key_of_wheel(action, layout.grid.is_some());
    match turned.as_ref().unwrap_or(action) {
        Action::HeatMap => app.time.is_heat_map = !app.time.is_heat_map,
        Action::NextMatch | Action::PreviousMatch => {
            app.tell("Enter lists the samples: there n and N go through those that match");
        }
        way @ (Action::Left | Action::Right) => {
            let step_ns = layout.grid.as_ref().map_or(0, |grid| grid.column_ns);
            let next_ns = match (way, layout.grid.is_some()) {
                (Action::Left, true) => app.time.at_ns.saturating_sub(step_ns),
                (_, true) => app.time.at_ns.saturating_add(step_ns),
                (Action::Left, false) => from_ns.saturating_sub(1),
                (_, false) => to_ns,
            };
            app.time.at_ns = next_ns.clamp(first_ns, last_ns.max(first_ns));
        }
        way @ (Action::Up | Action::Down) if layout.grid.is_some() => {
            let next_ns = if *way == Action::Up { from_ns.saturating_sub(1) } else { to_ns };
            app.time.at_ns = next_ns.clamp(first_ns, last_ns.max(first_ns));
        }
        Action::First if layout.grid.is_some() => app.time.at_ns = first_ns,
        Action::Last if layout.grid.is_some() => app.time.at_ns = last_ns,
        Action::RangeStart => {
            app.change_filter(|options| {
                options.time.to_ns = options.time.to_ns.filter(|to| *to > from_ns);
                options.time.from_ns = Some(from_ns);
            });
        }
        Action::RangeEnd => {
            app.change_filter(|options| {
                options.time.from_ns = options.time.from_ns.filter(|from| *from < to_ns);
                // The last cell may end after the recording.
                options.time.to_ns = Some(to_ns.min(timeline.duration_ns));
            });
        }
        Action::Whole => clear_range(app),
        Action::Back if !app.query.common.filter.time.is_everything() => clear_range(app),
        Action::Enter => show_samples(app, timeline, (from_ns, to_ns)),
        Action::Click(at) | Action::DoubleClick(at) if area.contains(*at) => {
            let Some(found_ns) = select_at(app, timeline, &layout, area, *at) else { return true };
            app.time.drag = Some((found_ns, found_ns));
            if matches!(action, Action::DoubleClick(_)) {
                app.time.drag = None;
                show_samples(app, timeline, layout.place(found_ns));
            }
        }
        Action::Drag(at) => {
            let at_ns = moment_at(&layout, area, *at).min(last_ns);
            if let Some((_, end)) = &mut app.time.drag {
                *end = at_ns;
            }
        }
        Action::Release(_) => {
            let Some((start, end)) = app.time.drag.take() else { return true };
            let (a, b) = (layout.place(start.min(end)), layout.place(start.max(end)));
            if a != b {
                app.time.at_ns = b.0;
                app.change_filter(|options| {
                    let to_ns = b.1.max(a.1).min(timeline.duration_ns);
                    options.time = TimeRange { from_ns: Some(a.0), to_ns: Some(to_ns) };
                });
            }
        }
        _ if layout.grid.is_some() => return false,
        _ => {
            if !app.time.list.update(action, timeline.rows.len(), layout.rows.into()) {
                return false;
            }
        }
    }
    let cursor = app.time.list.cursor(timeline.rows.len());
    app.time.selected = timeline.rows.get(cursor).and_then(key);
    true
}

/// What the wheel means where it scrolls no list: with Shift a step in time, in the heat map a cell up or down.
fn key_of_wheel(action: &Action, is_heat_map: bool) -> Option<Action> {
    match action {
        Action::Scroll { rows: 0, columns, .. } => {
            Some(if *columns > 0 { Action::Right } else { Action::Left })
        }
        Action::Scroll { rows, .. } if is_heat_map => Some(if *rows > 0 { Action::Down } else { Action::Up }),
        _ => None,
    }
}

pub(crate) fn clear_range(app: &mut App) {
    if app.query.common.filter.time.is_everything() {
        app.tell("no range is chosen: [ and ] choose one");
    }
    app.change_filter(|options| options.time = TimeRange::default());
}

/// The moment at a place of the screen.
fn moment_at(layout: &Layout, area: Rect, at: Position) -> u64 {
    let from_left = at.x.saturating_sub(layout.axis.x);
    match &layout.grid {
        Some(grid) => {
            let column = usize::from(from_left / layout.cell).min(grid.columns.saturating_sub(1));
            let row = usize::from(at.y.saturating_sub(area.y)).min(grid.rows.saturating_sub(1));
            grid.time_of(column, row).0
        }
        None => layout.axis.time_of(from_left.min(layout.axis.columns - 1)).0,
    }
}

fn select_at(app: &mut App, timeline: &Timeline, layout: &Layout, area: Rect, at: Position) -> Option<u64> {
    let line = usize::from(at.y - area.y);
    if line >= layout.rows.into() {
        return None;
    }
    let count = timeline.rows.len();
    if layout.grid.is_none()
        && let Some(row) = app.time.list.row_at(line, count, layout.rows.into())
    {
        app.time.list.select(row, count, layout.rows.into());
    }
    if at.x < layout.axis.x {
        return None;
    }
    app.time.at_ns = moment_at(layout, area, at).min(timeline.duration_ns.saturating_sub(1));
    Some(app.time.at_ns)
}

/// Lists the samples behind the selected place, or behind the range if that is in it.
fn show_samples(app: &mut App, timeline: &Timeline, (from_ns, to_ns): (u64, u64)) {
    let range = app.query.common.filter.time;
    let is_in_range = !range.is_everything() && range.contains(from_ns);
    let time = if is_in_range { range } else { TimeRange { from_ns: Some(from_ns), to_ns: Some(to_ns) } };
    let row = if app.time.is_heat_map {
        None
    } else {
        let Some(row) = timeline.rows.get(app.time.list.cursor(timeline.rows.len())) else { return };
        if row.is_rest {
            app.tell("too many threads for a row each: choose some in Threads first");
            return;
        }
        key(row)
    };
    app.time.panel = Panel::Samples;
    app.time.samples = ListState::default();
    app.time.sample = None;
    app.ask(|query| query.behind = Some(SamplesQuery { time, row }));
}

/// The range that is marked: the one that is being chosen, else that of the filter.
fn marked(app: &App, layout: &Layout, timeline: &Timeline) -> Option<(u64, u64)> {
    if let Some((start, end)) = app.time.drag.filter(|(start, end)| start != end) {
        return Some((layout.place(start.min(end)).0, layout.place(start.max(end)).1));
    }
    let time = app.query.common.filter.time;
    (!time.is_everything()).then(|| {
        (time.from_ns.unwrap_or(0), time.to_ns.unwrap_or(timeline.duration_ns).min(timeline.duration_ns))
    })
}

/// Draws the view into `area`.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, picture: &Picture, theme: &Theme) {
    if app.time.panel != Panel::Map {
        samples_list::draw(frame, area, app, picture, theme);
        return;
    }
    let Some(timeline) = &picture.timeline else {
        frame.render_widget(
            Line::from(" adding up").style(theme.faint()),
            Rect { height: area.height.min(1), ..area },
        );
        return;
    };
    let layout = Layout::new(app, timeline, area);
    let range = marked(app, &layout, timeline);
    match &layout.grid {
        Some(grid) => draw_heat(frame, area, app, theme, &layout, grid, range),
        None => draw_bars(frame, area, app, theme, &layout, timeline, range),
    }
    let y = area.bottom().saturating_sub(1);
    let start = match layout.axis.start_ns {
        0 => " 0s".to_owned(),
        start_ns => format!(" {:.1}s", start_ns as f64 / 1e9),
    };
    frame.buffer_mut().set_stringn(area.x, y, start, layout.side.into(), theme.faint());
    let coarse_until_ns = picture.recording.rollup_time().until_ns();
    let line = layout.axis.ruler(range, coarse_until_ns, timeline.duration_ns);
    frame.buffer_mut().set_stringn(layout.axis.x, y, line, layout.axis.columns.into(), theme.faint());
}

/// How many of several threads there were in a time of `length_ns`.
fn threads_there(row: &TimelineRow, alive_ns: u64, length_ns: u64) -> String {
    if row.threads < 2 || length_ns == 0 {
        return String::new();
    }
    format!("of {:.1} threads there", alive_ns as f64 / length_ns as f64)
}

/// What is selected.
pub fn details(app: &App, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>> {
    if app.time.panel != Panel::Map {
        return samples_list::details(app, picture, below);
    }
    let Below { theme, columns, lines } = below;
    let Some(timeline) = &picture.timeline else { return Vec::new() };
    let body = app.areas().map_or(Rect::new(0, 0, columns as u16, 10), |areas| areas.body);
    let layout = Layout::new(app, timeline, body);
    let at_ns = app.time.at_ns.clamp(timeline.start_ns, timeline.duration_ns.max(timeline.start_ns));
    let (from_ns, to_ns) = layout.place(at_ns);
    let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
    let when = format!("{}-{} s", seconds(from_ns), seconds(to_ns.min(timeline.duration_ns)));
    let what = match &layout.grid {
        Some(grid) => {
            let (column, row) = grid.cell_at(at_ns);
            let weight = grid.weight(column, row);
            vec![(0, duration(weight)), (1, format!("shade = {} there", picture.event.name))]
        }
        None => match timeline.rows.get(app.time.list.cursor(timeline.rows.len())) {
            Some(row) => {
                let busy = busy_in(timeline, row, from_ns, to_ns);
                let whole = whole_ns(&busy);
                // A wait that stands for several can weigh more than its thread had time.
                let share = |ns: u64| percent_text(percent(ns.min(whole), whole));
                vec![
                    (3, row_text(row, theme.glyphs.times)),
                    (0, format!("on-CPU {}", share(busy.on_cpu_ns))),
                    (2, format!("no CPU {}", share(busy.no_cpu_ns))),
                    (1, format!("blocked {}", share(busy.blocked_ns))),
                    (4, threads_there(row, busy.alive_ns, to_ns - from_ns)),
                ]
            }
            None => Vec::new(),
        },
    };
    let range = match marked(app, &layout, timeline) {
        Some((start, end)) => {
            let length = duration(end.saturating_sub(start));
            vec![
                (0, format!("range {}-{} s", seconds(start), seconds(end))),
                (2, length),
                (1, "0 clears it".to_owned()),
            ]
        }
        None => {
            let what = match app.time.is_heat_map {
                true => "each column from the top down".to_owned(),
                false => format!("bars = on-CPU share, {} = blocked", theme.glyphs.dot),
            };
            vec![(2, what), (0, "[ ] or drag chooses a range".to_owned())]
        }
    };
    let rollup = picture.recording.rollup_time();
    let mut range = range;
    if rollup.until_ns().is_some_and(|until_ns| until_ns > timeline.start_ns) {
        range.push((1, rollup.words().unwrap_or_default()));
    }
    let mut first = vec![(0, when)];
    if let Some((start, end)) =
        rollup.step_at(from_ns).filter(|(start, end)| *start < from_ns || to_ns < *end)
    {
        first.push((1, format!("mean of {:.0}-{:.0} s", start as f64 / 1e9, end as f64 / 1e9)));
    }
    first.extend(what);
    let line = |parts: &[(u8, String)]| Line::from(theme.fit(&fitting(parts, "   ", columns), columns));
    [line(&first), line(&range)].into_iter().take(lines).collect()
}
