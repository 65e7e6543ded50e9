//! The Top view: a table of functions, as `prof report --flat` has it.

#[cfg(test)]
pub(crate) mod tests;

use super::callers;
use crate::base::safe_text;
use crate::base::units::{count, percent, percent_text};
use crate::report::{LabelId, LabelKey, NameStyle, Row, SortKey, module_file, module_stem};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::state::App;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::line::{Below, place_text, self_and_total};
use crate::tui::widgets::list::ListState;
use crate::tui::widgets::table;
use crate::tui::widgets::table::{Column, Placed};
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Pictures that a trend is made of.
const TREND: usize = 10;
/// Functions whose share is remembered from each picture.
const REMEMBERED: usize = 500;
/// Columns that a name has at least where there are more columns.
const WIDE_NAME_COLUMNS: usize = 24;
/// Columns that a name has at least beside a trend, which is the first to go. 80 columns hold both.
const NAME_COLUMNS: usize = 18;
/// Columns that a name has at least.
const LEAST_NAME_COLUMNS: usize = 12;
/// Columns of a module.
const MODULE_COLUMNS: usize = 12;
/// Columns of a module beside a trend, where there are no more columns: the name needs the others.
const NARROW_MODULE_COLUMNS: usize = 10;
/// From this width on there are more columns.
const WIDE_COLUMNS: usize = 100;

/// What the user did to the view, and what it remembers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopState {
    /// Which row is selected, and which are shown.
    pub list: ListState,
    /// The smallest first.
    pub is_reversed: bool,
    /// What the selected row is, by name.
    selected: Option<LabelKey>,
    /// Own share of the heaviest functions in the last pictures, in millionths, oldest first.
    trend: VecDeque<FxHashMap<LabelKey, u64>>,
}

impl TopState {
    /// Gives what is remembered by name the names that `rename` knows.
    pub(crate) fn rename(&mut self, mut rename: impl FnMut(&LabelKey) -> Option<LabelKey>) {
        if let Some(renamed) = self.selected.as_ref().and_then(&mut rename) {
            self.selected = Some(renamed);
        }
        for shares in &mut self.trend {
            let renamed: Vec<(LabelKey, LabelKey)> =
                shares.keys().filter_map(|key| Some((key.clone(), rename(key)?))).collect();
            for (key, renamed) in renamed {
                // A function may have had a row for each of its addresses.
                let share = shares.remove(&key).unwrap_or(0);
                *shares.entry(renamed).or_default() += share;
            }
        }
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Id {
    Own,
    Error,
    Total,
    OwnTime,
    Count,
    Threads,
    Name,
    Module,
    Source,
    Trend,
}

fn placed(app: &App, picture: &Picture, columns: usize) -> Placed<Id> {
    let has_trend = !app.top.trend.is_empty();
    let is_wide = columns >= WIDE_COLUMNS + if has_trend { TREND + 2 } else { 0 };
    let column = |id, heading, width, is_number, rank| Column { id, heading, width, is_number, rank };
    let mut all = vec![
        column(Id::Own, "SELF%", 6, true, 0),
        column(Id::Error, app_sign(), 4, true, 4),
        column(Id::Total, "TOTAL%", 7, true, 0),
    ];
    if is_wide || picture.query.sort != SortKey::Count {
        all.push(column(Id::OwnTime, "SELF", 9, true, 1));
    }
    if is_wide || picture.query.sort == SortKey::Count {
        all.push(column(Id::Count, if picture.event.has_waits { "COUNT" } else { "SAMPLES" }, 9, true, 2));
    }
    if is_wide {
        all.push(column(Id::Threads, "THREADS", 7, true, 3));
    }
    let least_name = if is_wide { WIDE_NAME_COLUMNS } else { LEAST_NAME_COLUMNS };
    all.push(column(Id::Name, "FUNCTION", least_name, false, 0));
    all.push(column(Id::Module, "MODULE", MODULE_COLUMNS, false, 3));
    if is_wide {
        all.push(column(Id::Source, "SOURCE", 16, false, if has_trend { 7 } else { 5 }));
    }
    if has_trend {
        let mut with_trend = all.clone();
        for column in with_trend.iter_mut().filter(|_| !is_wide) {
            match column.id {
                Id::Name => column.width = NAME_COLUMNS,
                Id::Module => column.width = NARROW_MODULE_COLUMNS,
                _ => {}
            }
        }
        with_trend.push(column(Id::Trend, "TREND", TREND, false, 6));
        let placed = Placed::new(with_trend, columns, Id::Name, usize::MAX);
        if placed.has(Id::Trend) {
            return placed;
        }
    }
    // Without it there is room for all others as there would be if there were none.
    Placed::new(all, columns, Id::Name, usize::MAX)
}

/// Stands above the column of errors; written for the terminal when it is drawn.
const fn app_sign() -> &'static str {
    "±"
}

/// The number of the row in the table that is the `at`-th in the list.
fn row_number(app: &App, picture: &Picture, at: usize) -> Option<usize> {
    let rows = picture.table.rows.len();
    if app.top.is_reversed { rows.checked_sub(at + 1) } else { (at < rows).then_some(at) }
}

fn row<'p>(app: &App, picture: &'p Picture, at: usize) -> Option<&'p Row> {
    picture.table.rows.get(row_number(app, picture, at)?)
}

fn selected_row<'p>(app: &App, picture: &'p Picture) -> Option<&'p Row> {
    row(app, picture, app.top.list.cursor(picture.table.rows.len()))
}

/// The stack that is selected, root first; the last is the selected function.
pub fn selected(app: &App, picture: &Picture) -> Vec<LabelId> {
    selected_row(app, picture).map(|row| row.label).into_iter().collect()
}

/// Follows the selected function into another picture, and remembers the shares of a live one.
pub fn follow(app: &mut App, picture: &Picture) {
    if let Some(key) = &app.top.selected {
        let found = picture.table.rows.iter().position(|row| picture.labels.get(row.label).is(key));
        if let Some(number) = found {
            let at = if app.top.is_reversed { picture.table.rows.len() - 1 - number } else { number };
            app.top.list.follow(at);
        }
    }
    if app.live.is_some() {
        remember(app, picture);
    }
}

/// Adds a point to the trend when something was recorded since the last one, be it asked for often or not at all.
fn remember(app: &mut App, picture: &Picture) {
    // The order of the rows, or what other views ask for, changes no share.
    let is_same = |before: &Picture| {
        before.query.common == picture.query.common && before.query.window == picture.query.window
    };
    match &app.picture {
        Some(before) if !is_same(before) => app.top.trend.clear(),
        // In another order other functions may be the ones that are remembered.
        Some(before) if Arc::ptr_eq(&before.recording, &picture.recording) => {
            app.top.trend.pop_back();
        }
        Some(_) | None => {}
    }
    let shares = picture.table.rows.iter().take(REMEMBERED).map(|row| {
        let share = percent(row.own.weight, picture.total.weight);
        (picture.labels.get(row.label).key(), (share * 10_000.0) as u64)
    });
    app.top.trend.push_back(shares.collect());
    if app.top.trend.len() > TREND {
        app.top.trend.pop_front();
    }
}

/// Does what `action` means here, where the view takes `area`; false when it means nothing.
pub fn update(app: &mut App, action: &Action, area: Rect, picture: &Picture) -> bool {
    let table = table::Frame { area, count: picture.table.rows.len() };
    match action {
        Action::ReverseSort => {
            app.top.is_reversed = !app.top.is_reversed;
            app.top.list = ListState::default();
        }
        Action::Sort => {
            app.top.list = ListState::default();
            app.top.selected = None;
            return false;
        }
        Action::NextMatch => next_match(app, picture, table.rows(), true),
        Action::PreviousMatch => next_match(app, picture, table.rows(), false),
        _ => match table.update(&mut app.top.list, action) {
            Some(table::Event::Moved) => {}
            Some(table::Event::Opened) => pivot(app, picture),
            Some(table::Event::Heading(x)) => {
                sort_by(app, picture, placed(app, picture, area.width.into()).at(x));
                return true;
            }
            None => return false,
        },
    }
    app.top.selected = selected_row(app, picture).map(|row| picture.labels.get(row.label).key());
    true
}

/// Shows the callers of the selected function.
fn pivot(app: &mut App, picture: &Picture) {
    if let Some(row) = selected_row(app, picture) {
        let key = picture.labels.get(row.label).key();
        callers::set_pivot(app, key);
        app.tab = Tab::Callers;
    }
}

fn sort_by(app: &mut App, picture: &Picture, column: Option<Id>) {
    let sort = match column {
        Some(Id::Own | Id::OwnTime) => SortKey::SelfWeight,
        Some(Id::Total) => SortKey::TotalWeight,
        Some(Id::Count) => SortKey::Count,
        _ => return,
    };
    app.top.list = ListState::default();
    app.top.selected = None;
    if sort == picture.query.sort {
        app.top.is_reversed = !app.top.is_reversed;
    } else {
        app.top.is_reversed = false;
        app.ask(|query| query.sort = sort);
    }
}

fn next_match(app: &mut App, picture: &Picture, height: usize, forward: bool) {
    let Some(search) = &app.search else {
        app.tell("search first: /");
        return;
    };
    let rows = picture.table.rows.len();
    let at = app.top.list.cursor(rows);
    let is_match = |at: &usize| row(app, picture, *at).is_some_and(|row| search.matches(row.label.index()));
    let found = if forward {
        (at + 1..rows).chain(0..=at).find(is_match)
    } else {
        (0..at).rev().chain((at..rows).rev()).find(is_match)
    };
    match found {
        Some(found) => app.top.list.select(found, rows, height),
        None => app.tell("nothing matches"),
    }
}

/// Draws the view into `area`.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, picture: &Picture, theme: &Theme) {
    let placed = placed(app, picture, area.width.into());
    let sorted: &[Id] = match picture.query.sort {
        SortKey::SelfWeight => &[Id::Own],
        SortKey::TotalWeight => &[Id::Total],
        SortKey::Count => &[Id::Count],
    };
    let heading =
        |id: Id, text: &'static str| table::sorted_heading(text, sorted.contains(&id), app.top.is_reversed);
    let list = (app.top.list, picture.table.rows.len());
    table::draw(frame.buffer_mut(), area, &placed, list, theme, heading, |id, at, width| {
        match row(app, picture, at) {
            Some(row) => cell(app, picture, theme, row, id, width),
            None => (String::new(), Style::new()),
        }
    });
}

fn cell(app: &App, picture: &Picture, theme: &Theme, row: &Row, id: Id, width: usize) -> table::Cell {
    let label = picture.labels.get(row.label);
    let share = |weight: u64| percent_text(percent(weight, picture.total.weight));
    let plain = |text: String| (text, Style::new());
    match id {
        Id::Own => plain(share(row.own.weight)),
        Id::Error => plain(format!("{:.1}", picture.error_points(row.own))),
        Id::Total => plain(share(row.total.weight)),
        Id::OwnTime => plain(picture.weight_text(row.own.weight)),
        Id::Count => plain(count(row.own.count())),
        Id::Threads => plain(count(row.threads)),
        Id::Name => {
            let is_match = app.search.as_ref().is_some_and(|search| search.matches(row.label.index()));
            let style = if is_match { theme.matched(Style::new()) } else { Style::new() };
            (theme.fit(&app.name(label), width), style)
        }
        Id::Module => (safe_text::terminal(module_stem(&label.module)).into_owned(), theme.faint()),
        Id::Source => {
            let source = row.source.as_ref().map_or(String::new(), |source| source.text(NameStyle::Short));
            (theme.fit_end(&safe_text::terminal(&source), width), theme.faint())
        }
        Id::Trend => {
            let key = label.key();
            let shares: Vec<u64> =
                app.top.trend.iter().map(|shares| shares.get(&key).copied().unwrap_or(0)).collect();
            (table::bars(&shares, theme), theme.running())
        }
    }
}

/// What is selected.
pub fn details(app: &App, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>> {
    let Some(row) = selected_row(app, picture) else { return Vec::new() };
    function_details(app, picture, row.label, below)
}

/// What is known of a function.
pub fn function_details(
    app: &App,
    picture: &Picture,
    label: LabelId,
    below: Below<'_>,
) -> Vec<Line<'static>> {
    let Below { theme, columns, lines } = below;
    let text = picture.labels.get(label);
    let name = app.name(text);
    let Some(row) = picture.row(label) else {
        return vec![Line::from(Span::styled(
            format!(" {}", theme.fit(&name, columns.saturating_sub(1))),
            theme.heading(),
        ))];
    };
    let share = |weight: u64| percent_text(percent(weight, picture.total.weight));
    if lines < 2 {
        let numbers = format!("  self {} total {}", share(row.own.weight), share(row.total.weight));
        let room = columns.saturating_sub(1 + numbers.len());
        return vec![Line::from(format!(" {}{numbers}", theme.fit(&name, room)))];
    }
    let module = safe_text::terminal(module_file(&text.module)).into_owned();
    let source = row.source.as_ref().map_or(String::new(), |source| source.text(NameStyle::Full));
    let source = safe_text::terminal(&source);
    let shown = theme.fit(&name, columns.saturating_sub(1));
    let room = columns.saturating_sub(4 + safe_text::width(&shown));
    let mut first = vec![Span::styled(format!(" {shown}"), theme.heading())];
    if room > 3 && !(module.is_empty() && source.is_empty()) {
        first.push(Span::raw(format!("   {}", place_text(theme, &module, &source, room))));
    }
    let places = picture.places_of.get(label.index()).copied().unwrap_or(0);
    let mut second = self_and_total(picture, theme, Some(row.own), row.total.weight, columns);
    for part in [
        format!("   in {}", crate::base::units::counted(places.into(), "place")),
        format!("   {}", crate::base::units::counted(row.threads, "thread")),
    ] {
        if safe_text::width(&second) + part.len() <= columns {
            second.push_str(&part);
        }
    }
    vec![Line::from(first), Line::from(theme.fit(&second, columns))]
}
