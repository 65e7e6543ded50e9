//! The Threads view: where the total time of threads went, as in `prof report --threads`. The sums are the picture's.

#[cfg(test)]
pub(crate) mod tests;
mod view;

use crate::base::safe_text;
use crate::base::units::{count, duration, duration_in, percent, percent_text};
use crate::diff::interval_words;
use crate::profile::Unit;
use crate::report::{ThreadFilter, ThreadKey, ThreadRow, ThreadSplit, Times, TopWait, short, thread_name};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::app::search::Search;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::change_line;
use crate::tui::widgets::line::{Below, first_that_fits, fitting, threads_words};
use crate::tui::widgets::list::ListState;
use crate::tui::widgets::table;
use crate::tui::widgets::table::{PlacedColumns, TableColumn};
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::cmp::Reverse;
use std::ops::Range;

/// Columns that the name of a thread takes from others: the kernel keeps 15 characters, but process titles are longer.
const NAME_COLUMNS: usize = 28;
/// Columns for the longest wait of a thread: the least in which it can be read, and from which on names take what is left over.
const WAIT_COLUMNS: Range<usize> = 11..28;
/// Least width of the screen with room for the process.
const ROOMY_COLUMNS: usize = 100;

/// Sort key of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum ThreadSort {
    /// Time that the threads were not idle; without waits, the time that they ran.
    #[default]
    Busy,
    /// Time on a CPU.
    OnCpu,
    /// Time ready to run, without a CPU.
    NoCpu,
    /// Time blocked.
    Blocked,
    /// Time idle.
    Idle,
    /// Number of threads.
    Count,
    /// Name of the thread.
    Name,
}

impl ThreadSort {
    fn next(self, has_times: bool) -> Self {
        match self {
            ThreadSort::Busy if has_times => ThreadSort::OnCpu,
            ThreadSort::OnCpu => ThreadSort::NoCpu,
            ThreadSort::NoCpu => ThreadSort::Blocked,
            ThreadSort::Blocked => ThreadSort::Idle,
            ThreadSort::Busy | ThreadSort::Idle => ThreadSort::Count,
            ThreadSort::Count => ThreadSort::Name,
            ThreadSort::Name => ThreadSort::Busy,
        }
    }
}

/// State of the view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct ThreadsState {
    /// Which row is selected, and which are shown.
    pub(crate) list: ListState,
    /// Sort key of the rows.
    pub(crate) sort: ThreadSort,
    /// Whether the smallest row comes first.
    pub(crate) is_reversed: bool,
    /// Key of the selected row.
    selected: Option<ThreadKey>,
}

/// Content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Id {
    Thread,
    Process,
    Change,
    Interval,
    Count,
    OnCpu,
    NoCpu,
    Blocked,
    Idle,
    TopWait,
    Share,
    Time,
    MostIn,
}

fn has_times(picture: &Picture) -> bool {
    picture.threads.iter().any(|row| row.times.is_some())
}

fn placed(picture: &Picture, columns: usize) -> PlacedColumns<Id> {
    let widest =
        picture.threads.iter().map(|row| safe_text::width(&thread_text(row, "×"))).max().unwrap_or(0);
    let name = widest.clamp(6, NAME_COLUMNS.min((columns / 3).max(12)));
    let mut all = all_columns(picture, columns, name);
    let Some(last) = all.last().map(|column| column.id) else {
        return PlacedColumns::new(all, columns, Id::Thread, 0);
    };
    let placed = PlacedColumns::new(all.clone(), columns, last, usize::MAX);
    let spare = match placed.width_of(last) {
        Some(width) => width.saturating_sub(WAIT_COLUMNS.end),
        None => columns.saturating_sub(placed.end()),
    };
    all[0].width = name + spare.min(widest.saturating_sub(name));
    PlacedColumns::new(all, columns, last, usize::MAX)
}

/// All columns, that of the threads first and the one that takes what is left over last.
fn all_columns(picture: &Picture, columns: usize, name: usize) -> Vec<TableColumn<Id>> {
    let column = |id, heading, width, is_number, rank| TableColumn { id, heading, width, is_number, rank };
    let is_by_process = picture.query.threads() == ThreadSplit::None;
    let mut all = vec![column(Id::Thread, if is_by_process { "PROCESS" } else { "THREAD" }, name, false, 0)];
    if columns >= ROOMY_COLUMNS && !is_by_process {
        // In a comparison it gives way to the longest wait.
        let rank = if picture.change.is_some() { 7 } else { 5 };
        all.push(column(Id::Process, "PROCESS", 15, false, rank));
    }
    if picture.change.is_some() {
        all.push(column(Id::Change, "CHANGE", 8, true, 0));
        all.push(column(Id::Interval, "95% CHANGE", 16, true, 5));
    }
    if has_times(picture) {
        all.extend([
            column(Id::Count, "N", 5, true, 4),
            column(Id::OnCpu, "ON-CPU", 8, true, 0),
            column(Id::NoCpu, "NO CPU", 8, true, 3),
            column(Id::Blocked, "BLOCKED", 8, true, 0),
            column(Id::Idle, "IDLE", 8, true, 2),
            column(Id::TopWait, "TOP WAIT", WAIT_COLUMNS.start, false, 6),
        ]);
    } else {
        all.extend([
            column(Id::Count, "N", 5, true, 4),
            column(Id::Share, "SHARE", 6, true, 0),
            column(Id::Time, picture.event.unit.heading(), 9, true, 0),
            column(Id::MostIn, "MOST IN", WAIT_COLUMNS.start, false, 6),
        ]);
    }
    all
}

/// Whether the weights are time.
fn is_time(picture: &Picture) -> bool {
    picture.event.unit == Unit::Nanoseconds
}

/// The rows in the chosen order, as indices into the rows of the picture.
fn order(view: &ThreadsState, picture: &Picture) -> Vec<usize> {
    let mut order: Vec<usize> = (0..picture.threads.len()).collect();
    let time = |row: usize, part: fn(&Times) -> u64| {
        Reverse(picture.threads[row].times.as_ref().map_or(picture.threads[row].amount.weight, part))
    };
    // A stable sort: equal rows stay in the order of the report.
    match view.sort {
        ThreadSort::Busy => {}
        ThreadSort::OnCpu => order.sort_by_key(|row| time(*row, |times| times.on_cpu_ns)),
        ThreadSort::NoCpu => order.sort_by_key(|row| time(*row, |times| times.no_cpu_ns)),
        ThreadSort::Blocked => order.sort_by_key(|row| time(*row, |times| times.blocked_ns())),
        ThreadSort::Idle => order.sort_by_key(|row| time(*row, |times| times.idle_ns())),
        ThreadSort::Count => order.sort_by_key(|row| Reverse(picture.threads[*row].threads)),
        ThreadSort::Name => {
            order.sort_by(|a, b| picture.threads[*a].title().cmp(picture.threads[*b].title()))
        }
    }
    if view.is_reversed {
        order.reverse();
    }
    order
}

fn key(row: &ThreadRow) -> ThreadKey {
    ThreadKey { thread: row.thread.clone(), process: row.process.clone(), tid: row.tid, pid: row.pid }
}

fn selected_row<'p>(view: &ThreadsState, picture: &'p Picture) -> Option<&'p ThreadRow> {
    let order = order(view, picture);
    picture.threads.get(*order.get(view.list.cursor(order.len()))?)
}

/// Description of the order of the rows.
pub(crate) fn order_words(view: &ThreadsState) -> &'static str {
    match (view.sort, view.is_reversed) {
        (ThreadSort::Busy, false) => "busiest first",
        (ThreadSort::Busy, true) => "busiest last",
        (_, false) => "sorted",
        (_, true) => "sorted, reversed",
    }
}

/// Keeps the selected row in another picture.
pub(crate) fn follow(view: &mut ThreadsState, picture: &Picture) {
    let Some(selected) = &view.selected else { return };
    let order = order(view, picture);
    if let Some(at) = order.iter().position(|row| key(&picture.threads[*row]) == *selected) {
        view.list.follow(at);
    }
}

/// Applies `action`, with the view drawn in `area`; returns false if the action does nothing here.
pub(crate) fn update(
    view: &mut ThreadsState,
    context: &mut Context,
    action: &Action,
    area: Rect,
    picture: &Picture,
) -> bool {
    let table = table::Frame { area, count: picture.threads.len() };
    match action {
        Action::Sort => sort_by(view, view.sort.next(has_times(picture))),
        Action::ReverseSort => {
            view.is_reversed = !view.is_reversed;
            view.list = ListState::default();
        }
        Action::NextMatch => next_match(view, context, picture, table.rows(), true),
        Action::PreviousMatch => next_match(view, context, picture, table.rows(), false),
        _ => match table.update(&mut view.list, action) {
            Some(table::TableEvent::Moved) => {}
            Some(table::TableEvent::Opened) => only_this(view, context, picture),
            Some(table::TableEvent::Heading(x)) => {
                sort_by_column(view, placed(picture, area.width.into()).at(x));
            }
            None => return false,
        },
    }
    view.selected = selected_row(view, picture).map(key);
    true
}

fn is_match(search: &Search, row: &ThreadRow) -> bool {
    match row.pid {
        Some(_) => search.matches_text(&row.process),
        None => search.matches_text(&thread_name(&row.thread, row.tid)),
    }
}

/// Whether the search matches a thread.
pub(crate) fn has_match(search: &Search, picture: &Picture) -> bool {
    picture.threads.iter().any(|row| is_match(search, row))
}

fn next_match(
    view: &mut ThreadsState,
    context: &mut Context,
    picture: &Picture,
    height: usize,
    forward: bool,
) {
    let Some(search) = &context.search else {
        context.show_message("search first: /");
        return;
    };
    let order = order(view, picture);
    let rows = order.len();
    let is_found = |at: usize| is_match(search, &picture.threads[order[at]]);
    match view.list.next_match(rows, forward, is_found) {
        Some(found) => view.list.select(found, rows, height),
        None => context.show_message("no thread matches"),
    }
}

fn sort_by_column(view: &mut ThreadsState, column: Option<Id>) {
    let sort = match column {
        Some(Id::Thread | Id::Process) => ThreadSort::Name,
        Some(Id::Count) => ThreadSort::Count,
        Some(Id::OnCpu) => ThreadSort::OnCpu,
        Some(Id::NoCpu) => ThreadSort::NoCpu,
        Some(Id::Blocked) => ThreadSort::Blocked,
        Some(Id::Idle) => ThreadSort::Idle,
        Some(Id::Share | Id::Time) => ThreadSort::Busy,
        Some(Id::TopWait | Id::MostIn | Id::Change | Id::Interval) | None => return,
    };
    if sort == view.sort {
        view.is_reversed = !view.is_reversed;
    } else {
        sort_by(view, sort);
    }
}

fn sort_by(view: &mut ThreadsState, sort: ThreadSort) {
    view.sort = sort;
    view.is_reversed = false;
    view.list = ListState::default();
}

/// Keeps only the samples of the threads in the selected row.
fn only_this(view: &mut ThreadsState, context: &mut Context, picture: &Picture) {
    let Some(row) = selected_row(view, picture) else { return };
    // By name, so that threads that start later are included.
    let filter = ThreadFilter::Row(key(row));
    let name = threads_words(row.title(), row.tid.or(row.pid), 1, "");
    context.change_filter(|options| {
        if options.threads.last() != Some(&filter) {
            options.threads.push(filter);
        }
    });
    context.show_message(format!("only {name}; u undoes that"));
}

fn thread_text(row: &ThreadRow, times: &str) -> String {
    threads_words(row.title(), row.tid.or(row.pid), row.threads, times)
}

/// The same in `width` columns: of what is too long the name is cut, since threads of one name differ in the rest.
fn thread_cell(row: &ThreadRow, theme: &Theme, width: usize) -> String {
    let text = thread_text(row, theme.glyphs.times);
    let name = threads_words(row.title(), None, 1, "");
    let rest = text.strip_prefix(&*name).unwrap_or_default();
    let room = width.saturating_sub(safe_text::width(rest));
    format!("{}{rest}", theme.fit(&name, room))
}

/// Draws the view into `area`.
pub(crate) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &ThreadsState,
    context: &Context,
    picture: &Picture,
    theme: &Theme,
) {
    let placed = placed(picture, area.width.into());
    let order = order(view, picture);
    let sorted = match view.sort {
        ThreadSort::Busy if !has_times(picture) => Some(Id::Time),
        ThreadSort::Busy => None,
        ThreadSort::OnCpu => Some(Id::OnCpu),
        ThreadSort::NoCpu => Some(Id::NoCpu),
        ThreadSort::Blocked => Some(Id::Blocked),
        ThreadSort::Idle => Some(Id::Idle),
        ThreadSort::Count => Some(Id::Count),
        ThreadSort::Name => Some(Id::Thread),
    };
    // Busy time is the default order, and the sum of three columns.
    let is_busy = view.sort == ThreadSort::Busy;
    let is_part = |id: Id| is_busy && matches!(id, Id::OnCpu | Id::NoCpu | Id::Blocked);
    let heading = |id: Id, text: &'static str| {
        table::sorted_heading(text, sorted == Some(id) || is_part(id), view.is_reversed)
    };
    let list = (view.list, order.len());
    let top_waits = picture.threads.iter().filter_map(|row| row.top_wait.as_ref());
    let longest_ns = top_waits.map(|top| top.time_ns).max().unwrap_or(0);
    table::draw(frame.buffer_mut(), area, &placed, list, theme, heading, |id, at, width| {
        let row = &picture.threads[order[at]];
        let is_found =
            id == Id::Thread && context.search.as_ref().is_some_and(|search| is_match(search, row));
        let difference = || picture.change.as_ref().and_then(|change| change.of_threads(row.into()));
        let style = match id {
            Id::Change => difference().map_or(Style::new(), |one| theme.changed(change_line::tone(one))),
            _ if is_found => theme.matched(Style::new()),
            _ => Style::new(),
        };
        (cell(picture, theme, row, longest_ns, id, width), style)
    });
}

fn cell(picture: &Picture, theme: &Theme, row: &ThreadRow, longest_ns: u64, id: Id, width: usize) -> String {
    let whole_ns = picture.totals.as_ref().map_or(0, |totals| totals.times.sum_ns());
    let time = |part: fn(&Times) -> u64| {
        row.times.as_ref().map_or("-".to_owned(), |times| duration_in(part(times), whole_ns))
    };
    let difference = picture.change.as_ref().and_then(|change| change.of_threads(row.into()));
    match id {
        Id::Thread => thread_cell(row, theme, width),
        Id::Process => safe_text::terminal(&row.process).into_owned(),
        Id::Change => difference.map_or("-".to_owned(), change_line::cell),
        Id::Interval => difference.map_or_else(String::new, interval_words),
        Id::Count => count(row.threads),
        Id::OnCpu => time(|times| times.on_cpu_ns),
        Id::NoCpu => time(|times| times.no_cpu_ns),
        Id::Blocked => time(|times| times.blocked_ns()),
        Id::Idle => time(|times| times.idle_ns()),
        Id::TopWait => {
            row.top_wait.as_ref().map_or("-".to_owned(), |top| wait_text(top, longest_ns, width, theme))
        }
        Id::Share => percent_text(percent(row.amount.weight, picture.total.weight)),
        Id::Time => picture.weight_text(row.amount.weight),
        Id::MostIn => row.hottest.map_or(String::new(), |(label, weight)| {
            let share = percent_text(percent(weight, row.amount.weight));
            let name = short(&picture.labels.get(label).name);
            let room = width.saturating_sub(share.len() + 1);
            format!("{} {share}", theme.fit(&safe_text::terminal(&name), room))
        }),
    }
}

/// The reason and the time, in the unit of the longest, are shown, and as much of the name as there is room for. A time
/// that does not fit is left out, since a cut one would be another.
fn wait_text(top: &TopWait, longest_ns: u64, width: usize, theme: &Theme) -> String {
    let (reason, time) = (top.reason.label(), duration_in(top.time_ns, longest_ns));
    let name = short(&top.place);
    let room = width.saturating_sub(reason.len() + time.len() + 2);
    if room < 3 {
        let both = format!("{reason} {time}");
        return if both.len() <= width { both } else { reason.to_owned() };
    }
    format!("{reason} {} {time}", theme.fit(&safe_text::terminal(&name), room))
}

/// Details of the selection.
pub(crate) fn details(view: &ThreadsState, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>> {
    let Below { theme, columns, lines } = below;
    let Some(row) = selected_row(view, picture) else { return Vec::new() };
    let name = thread_text(row, theme.glyphs.times);
    let first = match &row.times {
        // On a narrow screen the most important numbers stay.
        Some(times) => {
            let mut parts = vec![
                (0, format!("on-CPU {}", duration(times.on_cpu_ns))),
                (2, format!("no CPU {}", duration(times.no_cpu_ns))),
                (1, format!("blocked {}", duration(times.blocked_ns()))),
                (3, format!("idle {}", duration(times.idle_ns()))),
            ];
            if times.has_gap() {
                let missed_ns = times.unaccounted_ns();
                let sign = if missed_ns < 0 { "-" } else { "" };
                parts.push((2, format!("not accounted {sign}{}", duration(missed_ns.unsigned_abs()))));
            }
            parts
        }
        None if is_time(picture) => vec![(0, format!("ran {}", picture.weight_text(row.amount.weight)))],
        None => vec![(0, format!("{} {}", picture.weight_text(row.amount.weight), picture.event.title))],
    };
    let second = match (&row.top_wait, row.hottest) {
        (Some(top), _) => {
            let (reason, time) = (top.reason.label(), duration(top.time_ns));
            let place = safe_text::terminal(&top.place);
            let texts = [
                format!(" waited longest for: {reason} in {place}, {time}"),
                format!(" {reason} in {place}, {time}"),
                format!(" {reason} {time} in {place}"),
            ];
            first_that_fits(texts, columns)
        }
        (None, Some((label, _))) => {
            format!(" most in {}", safe_text::terminal(&picture.labels.get(label).name))
        }
        (None, None) => String::new(),
    };
    let fit = |text: &str| theme.fit(text, columns);
    if lines < 2 {
        let mut parts = vec![(0, name)];
        parts.extend(first);
        return vec![Line::from(fit(&fitting(&parts, "  ", columns)))];
    }
    let second = match &picture.change {
        Some(change) => change_line::of_threads(change, row.into(), theme, columns),
        None => second,
    };
    let name = theme.fit(&format!(" {name}"), columns);
    let room = columns.saturating_sub(safe_text::width(&name) + 2);
    vec![
        Line::from(vec![
            Span::styled(name, theme.heading()),
            Span::raw(format!("  {}", theme.fit(&fitting(&first, " + ", room), room))),
        ]),
        Line::from(fit(&second)),
    ]
}
