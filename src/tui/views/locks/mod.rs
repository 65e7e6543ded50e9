//! The Locks view: what threads waited for, who waited and who let go, as in `prof report --locks`. The sums are the picture's.

#[cfg(test)]
pub(crate) mod tests;
mod view;

use crate::base::safe_text;
use crate::base::units::{count, counted, duration, duration_brief, duration_in, percent, percent_text};
use crate::profile::EventKind;
use crate::report::{Grouping, LockIdentity, LockLine, LockSheet, Metric, module_file, short};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::context::{Context, NameDetail};
use crate::tui::app::search::Search;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::line::{Below, fitting};
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

/// Columns for what a row is about, and for one of the other names.
const NAME_COLUMNS: Range<usize> = 12..32;
const OTHER_COLUMNS: usize = 10;
/// What is said where there are no rows.
const NONE: &str = "no wait says for which lock it was";

/// Sort key of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum LockSort {
    /// Time of the waits.
    #[default]
    Wait,
    /// Number of waits.
    Count,
    /// Mean length.
    Mean,
    /// 99th percentile of the length.
    P99,
    /// The longest wait.
    Longest,
    /// Number of threads that waited.
    Threads,
    /// Name.
    Name,
}

impl LockSort {
    fn next(self) -> Self {
        match self {
            LockSort::Wait => LockSort::Count,
            LockSort::Count => LockSort::Mean,
            LockSort::Mean => LockSort::P99,
            LockSort::P99 => LockSort::Longest,
            LockSort::Longest => LockSort::Threads,
            LockSort::Threads => LockSort::Name,
            LockSort::Name => LockSort::Wait,
        }
    }
}

/// State of the view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct LocksState {
    /// Which row is selected, and which are shown.
    list: ListState,
    sort: LockSort,
    /// Whether the smallest row comes first.
    is_reversed: bool,
    /// The selected row.
    selected: Option<LockIdentity>,
    /// What a row is: its place in [`ROWS`].
    rows: usize,
}

/// What a row can be, in the order of the key.
const ROWS: [Grouping; 3] = [Grouping::Function, Grouping::Waiter, Grouping::Holder];

/// Content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockColumn {
    Title,
    Wait,
    Share,
    Count,
    Mean,
    P99,
    Longest,
    Threads,
    Kind,
    Pid,
    Lock,
    Waiter,
    Releaser,
}

fn lines(picture: &Picture) -> &[LockLine] {
    picture.locks.as_ref().map_or(&[], |sheet| &sheet.rows)
}

fn by(picture: &Picture) -> Grouping {
    picture.locks.as_ref().map_or(Grouping::default(), |sheet| sheet.by)
}

/// A name as it is shown now, safe for a terminal.
fn shown(context: &Context, name: &str) -> String {
    match context.names {
        NameDetail::Short => {
            let parts: Vec<String> = name.split(" < ").map(short).collect();
            safe_text::terminal(&parts.join(" < ")).into_owned()
        }
        NameDetail::Full | NameDetail::WithModule => safe_text::terminal(name).into_owned(),
    }
}

fn placed(context: &Context, picture: &Picture, columns: usize) -> PlacedColumns<LockColumn> {
    let titles = lines(picture).iter().map(|line| safe_text::width(&shown(context, &line.title())));
    let widest = titles.max().unwrap_or(0);
    let name = widest.clamp(NAME_COLUMNS.start, NAME_COLUMNS.end.min((columns / 3).max(NAME_COLUMNS.start)));
    let column = |id, heading, width, is_number, rank| TableColumn { id, heading, width, is_number, rank };
    let (heading, others) = match by(picture) {
        Grouping::Waiter => ("WAITED IN", [(LockColumn::Lock, "LOCK"), (LockColumn::Releaser, "HOLDER")]),
        Grouping::Holder => ("RELEASED IN", [(LockColumn::Lock, "LOCK"), (LockColumn::Waiter, "WAITER")]),
        _ => ("LOCK", [(LockColumn::Waiter, "WAITER"), (LockColumn::Releaser, "HOLDER")]),
    };
    let mut all = vec![
        column(LockColumn::Title, heading, name, false, 0),
        column(LockColumn::Wait, "WAIT", 9, true, 0),
        column(LockColumn::Share, "SHARE", 6, true, 6),
        column(LockColumn::Count, "COUNT", 7, true, 1),
        column(LockColumn::Mean, "MEAN", 8, true, 7),
        column(LockColumn::P99, "P99", 8, true, 5),
        column(LockColumn::Longest, "LONGEST", 8, true, 8),
        column(LockColumn::Threads, "THREADS", 7, true, 9),
        column(LockColumn::Kind, "KIND", 9, false, 3),
    ];
    let pids = || lines(picture).iter().map(|line| line.row.lock.pid);
    if pids().any(|pid| Some(pid) != pids().next()) {
        all.push(column(LockColumn::Pid, "PID", 7, true, 3));
    }
    let [(first, first_heading), (last, last_heading)] = others;
    all.push(column(first, first_heading, OTHER_COLUMNS, false, 4));
    all.push(column(last, last_heading, OTHER_COLUMNS, false, 2));
    let most = widest.max(NAME_COLUMNS.start);
    let placed = PlacedColumns::new(all.clone(), columns, LockColumn::Title, most);
    // These two share what is left over.
    let is_other =
        |column: &TableColumn<LockColumn>| [first, last].contains(&column.id) && placed.has(column.id);
    let others = all.iter().filter(|column| is_other(column)).count();
    let each = columns.saturating_sub(placed.end()).checked_div(others).unwrap_or(0);
    for column in &mut all {
        column.width += if is_other(column) { each } else { 0 };
    }
    PlacedColumns::new(all, columns, LockColumn::Title, most)
}

/// The rows in the chosen order, as indices into those of the picture.
fn order(view: &LocksState, picture: &Picture) -> Vec<usize> {
    let lines = lines(picture);
    let mut order: Vec<usize> = (0..lines.len()).collect();
    // A stable sort: equal rows stay in the order of the report.
    match view.sort {
        LockSort::Wait => {}
        LockSort::Count => order.sort_by_key(|at| Reverse(lines[*at].row.amount.count())),
        LockSort::Mean => order.sort_by_key(|at| Reverse(lines[*at].row.mean_ns)),
        LockSort::P99 => order.sort_by_key(|at| Reverse(lines[*at].row.p99_ns)),
        LockSort::Longest => order.sort_by_key(|at| Reverse(lines[*at].row.longest_ns)),
        LockSort::Threads => order.sort_by_key(|at| Reverse(lines[*at].row.threads)),
        LockSort::Name => order.sort_by_cached_key(|at| lines[*at].title()),
    }
    if view.is_reversed {
        order.reverse();
    }
    order
}

fn selected_line<'p>(view: &LocksState, picture: &'p Picture) -> Option<&'p LockLine> {
    let order = order(view, picture);
    lines(picture).get(*order.get(view.list.cursor(order.len()))?)
}

/// Description of the order of the rows.
fn order_words(view: &LocksState) -> &'static str {
    match (view.sort, view.is_reversed) {
        (LockSort::Wait, false) => "most waited for first",
        (LockSort::Wait, true) => "most waited for last",
        (_, false) => "sorted",
        (_, true) => "sorted, reversed",
    }
}

/// Keeps the selected row in another picture.
fn follow(view: &mut LocksState, picture: &Picture) {
    let Some(selected) = &view.selected else { return };
    let order = order(view, picture);
    if let Some(at) = order.iter().position(|row| lines(picture)[*row].identity() == *selected) {
        view.list.follow(at);
    }
}

/// Applies `action`, with the view drawn in `area`; returns false if the action does nothing here.
fn update(
    view: &mut LocksState,
    context: &mut Context,
    action: &Action,
    area: Rect,
    picture: &Picture,
) -> bool {
    let table = table::Frame { area, count: lines(picture).len() };
    match action {
        Action::Sort => sort_by(view, view.sort.next()),
        Action::ReverseSort => {
            view.is_reversed = !view.is_reversed;
            view.list = ListState::default();
        }
        Action::NextRows => next_rows(view, context),
        Action::NextMatch => next_match(view, context, picture, table.rows(), true),
        Action::PreviousMatch => next_match(view, context, picture, table.rows(), false),
        _ => match table.update(&mut view.list, action) {
            Some(table::TableEvent::Moved) => {}
            Some(table::TableEvent::Opened) => show_waits(view, context, picture),
            Some(table::TableEvent::Heading(x)) => {
                sort_by_column(view, placed(context, picture, area.width.into()).at(x));
            }
            None => return false,
        },
    }
    view.selected = selected_line(view, picture).map(LockLine::identity);
    true
}

fn next_rows(view: &mut LocksState, context: &mut Context) {
    view.rows = (view.rows + 1) % ROWS.len();
    view.list = ListState::default();
    let by = ROWS[view.rows];
    context.ask(|query| query.locks = Some(by));
    context.show_message(match by {
        Grouping::Waiter => "a row is a place that waited; L shows who let go",
        Grouping::Holder => "a row is who let go of the lock, or signalled; L shows locks",
        _ => "a row is a lock; L shows who waited",
    });
}

fn is_match(search: &Search, line: &LockLine) -> bool {
    search.matches_text(&line.title()) || search.matches_text(&line.lock)
}

fn next_match(view: &mut LocksState, context: &mut Context, picture: &Picture, height: usize, forward: bool) {
    let Some(search) = &context.search else { return context.show_message("search first: /") };
    let order = order(view, picture);
    let is_found = |at: usize| is_match(search, &lines(picture)[order[at]]);
    match view.list.next_match(order.len(), forward, is_found) {
        Some(found) => view.list.select(found, order.len(), height),
        None => context.show_message("no row matches"),
    }
}

fn sort_by_column(view: &mut LocksState, column: Option<LockColumn>) {
    let sort = match column {
        Some(LockColumn::Title) => LockSort::Name,
        Some(LockColumn::Wait | LockColumn::Share) => LockSort::Wait,
        Some(LockColumn::Count) => LockSort::Count,
        Some(LockColumn::Mean) => LockSort::Mean,
        Some(LockColumn::P99) => LockSort::P99,
        Some(LockColumn::Longest) => LockSort::Longest,
        Some(LockColumn::Threads) => LockSort::Threads,
        Some(
            LockColumn::Kind | LockColumn::Pid | LockColumn::Lock | LockColumn::Waiter | LockColumn::Releaser,
        )
        | None => {
            return;
        }
    };
    if sort == view.sort {
        view.is_reversed = !view.is_reversed;
    } else {
        sort_by(view, sort);
    }
}

fn sort_by(view: &mut LocksState, sort: LockSort) {
    view.sort = sort;
    view.is_reversed = false;
    view.list = ListState::default();
}

/// Shows the stacks of the waits of the selected row.
fn show_waits(view: &LocksState, context: &mut Context, picture: &Picture) {
    let Some(line) = selected_line(view, picture) else { return };
    if !context.query.common.filter.labels.is_empty() {
        return context.show_message("the waits are filtered by a label already: take that off first, by U");
    }
    let mut filter = context.query.common.filter.clone();
    if !line.keep_waits(&mut filter) {
        return context.show_message(match by(picture) {
            Grouping::Holder => "stacks of those who let go:  prof tui --locks --by holder",
            _ => "no waits can be told by this row",
        });
    }
    let name = shown(context, &line.title());
    context.change_filter(|options| *options = filter);
    if let Some(waits) = waits(picture) {
        context.ask(|query| query.common.metric = Some(waits));
    }
    context.opens = Some(Tab::Flame);
    context.show_message(format!("only waits for {name}: u takes that back, m shows another metric"));
}

/// The metric that has the waits.
fn waits(picture: &Picture) -> Option<Metric> {
    [Metric::OFF_CPU, Metric::of_kind(&EventKind::LOCK)].into_iter().find(|one| picture.metrics.contains(one))
}

/// Draws the view into `area`.
fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &LocksState,
    context: &Context,
    picture: &Picture,
    theme: &Theme,
) {
    let Some(sheet) = picture.locks.as_ref().filter(|sheet| !sheet.rows.is_empty()) else {
        let words = if picture.has_locks { "no wait for a lock passes the filters" } else { NONE };
        let words = if picture.has_locks && picture.locks.is_none() { "reading the locks" } else { words };
        frame.render_widget(Line::from(format!(" {}", theme.fit(words, area.width.into()))), area);
        return;
    };
    let placed = placed(context, picture, area.width.into());
    let order = order(view, picture);
    let sorted = match view.sort {
        LockSort::Wait => LockColumn::Wait,
        LockSort::Count => LockColumn::Count,
        LockSort::Mean => LockColumn::Mean,
        LockSort::P99 => LockColumn::P99,
        LockSort::Longest => LockColumn::Longest,
        LockSort::Threads => LockColumn::Threads,
        LockSort::Name => LockColumn::Title,
    };
    let heading =
        |id: LockColumn, text: &'static str| table::sorted_heading(text, sorted == id, view.is_reversed);
    let list = (view.list, order.len());
    table::draw(frame.buffer_mut(), area, &placed, list, theme, heading, |id, at, width| {
        let line = &sheet.rows[order[at]];
        let is_found =
            id == LockColumn::Title && context.search.as_ref().is_some_and(|search| is_match(search, line));
        let style = if is_found { theme.matched(Style::new()) } else { Style::new() };
        (cell(context, theme, sheet, line, id, width), style)
    });
}

fn cell(
    context: &Context,
    theme: &Theme,
    sheet: &LockSheet,
    line: &LockLine,
    id: LockColumn,
    width: usize,
) -> String {
    let row = &line.row;
    let top = |parts: &[(String, u64)]| {
        let Some((name, share)) = row.top(parts) else { return "-".to_owned() };
        let share = if share >= 99.5 { String::new() } else { format!(" {share:.0}%") };
        let room = width.saturating_sub(share.len());
        format!("{}{share}", theme.fit(&shown(context, name), room))
    };
    match id {
        LockColumn::Title => theme.fit(&shown(context, &line.title()), width),
        LockColumn::Wait => duration_in(row.amount.weight, sheet.wait_ns),
        LockColumn::Share => percent_text(percent(row.amount.weight, sheet.wait_ns)),
        LockColumn::Count => count(row.amount.count()),
        LockColumn::Mean => duration_brief(row.mean_ns),
        LockColumn::P99 => duration_brief(row.p99_ns),
        LockColumn::Longest => duration_brief(row.longest_ns),
        LockColumn::Threads => count(row.threads),
        LockColumn::Kind => row.kind.word().to_owned(),
        LockColumn::Pid => row.lock.pid.map_or("-".to_owned(), |pid| pid.to_string()),
        LockColumn::Lock => {
            let more = if row.locks > 1 { format!(" +{}", row.locks - 1) } else { String::new() };
            let room = width.saturating_sub(more.len());
            format!("{}{more}", theme.fit(&shown(context, &line.lock), room))
        }
        LockColumn::Waiter => top(&line.waiters),
        // Who only signals holds nothing.
        LockColumn::Releaser if !row.is_held() => format!("({})", top(&line.releasers)),
        LockColumn::Releaser => top(&line.releasers),
    }
}

/// Details of the selection.
fn details(view: &LocksState, context: &Context, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>> {
    let Below { theme, columns, lines } = below;
    let Some(line) = selected_line(view, picture) else { return Vec::new() };
    let row = &line.row;
    let mut facts = vec![
        (0, format!("waited for {}", duration(row.amount.weight))),
        (1, counted(row.amount.count(), "time")),
        (3, format!("by {}", counted(row.threads, "thread"))),
    ];
    if row.amount.error_ns() > 0 {
        facts.push((2, format!("± {}", duration_brief(row.amount.error_ns()))));
    }
    if matches!(by(picture), Grouping::Function) {
        facts.extend(row.lock.pid.map(|pid| (3, format!("in pid {pid}"))));
    }
    let place = row.lock.address.map(|address| format!("at {address:#x}"));
    facts.extend(place.map(|text| (4, text)));
    facts.extend(row.name.memory.as_ref().map(|memory| (5, format!("in {}", safe_text::terminal(memory)))));
    facts.extend(
        (row.name.module.as_ref()).map(|path| (6, format!("of {}", safe_text::terminal(module_file(path))))),
    );
    let title = theme.fit(&format!(" {} {}", row.kind.word(), shown(context, &line.title())), columns);
    if lines < 2 {
        facts.insert(0, (0, title));
        return vec![Line::from(theme.fit(&fitting(&facts, "  ", columns), columns))];
    }
    let parts = |parts: &[(String, u64)]| {
        let texts = parts.iter().take(3).map(|(name, time)| {
            let name = if name == "-" { "not known" } else { name };
            format!("{} {}", shown(context, name), percent_text(percent(*time, row.amount.weight)))
        });
        texts.collect::<Vec<_>>().join(", ")
    };
    let ended = if row.is_held() { "held by" } else { "signalled by" };
    let others = format!(" waited: {}   {ended}: {}", parts(&line.waiters), parts(&line.releasers));
    let room = columns.saturating_sub(safe_text::width(&title) + 2);
    vec![
        Line::from(vec![
            Span::styled(title, theme.heading()),
            Span::raw(format!("  {}", theme.fit(&fitting(&facts, "  ", room), room))),
        ]),
        Line::from(theme.fit(&others, columns)),
    ]
}
