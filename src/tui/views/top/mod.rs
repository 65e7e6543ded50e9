//! The Top view: a table of functions, as in `prof report --flat`. The sums are the picture's.

mod changes;
#[cfg(test)]
pub(crate) mod tests;
mod view;

use crate::base::safe_text;
use crate::base::units::{count, percent, percent_text};
use crate::report::{CommonOptions, FunctionRow, LabelId, LabelKey, Metric, NameStyle, SortKey, module_stem};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::app::query::Query;
use crate::tui::compute::change::ChangedRow;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::details::function_details;
use crate::tui::widgets::line::Below;
use crate::tui::widgets::list::ListState;
use crate::tui::widgets::table;
use crate::tui::widgets::table::{PlacedColumns, TableColumn};
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of pictures in a trend.
const TREND: usize = 10;
/// Number of functions per picture whose share is remembered.
const REMEMBERED: usize = 500;
/// Least columns of a name on a wide screen.
const WIDE_NAME_COLUMNS: usize = 24;
/// Least columns of a name next to a trend, which is dropped first. Both fit into 80 columns.
const NAME_COLUMNS: usize = 18;
/// Least columns of a name.
const LEAST_NAME_COLUMNS: usize = 12;
/// Columns of a module.
const MODULE_COLUMNS: usize = 12;
/// Columns of a module next to a trend on a narrow screen, where the name needs the rest.
const NARROW_MODULE_COLUMNS: usize = 10;
/// Least width of a wide screen.
const WIDE_COLUMNS: usize = 100;

/// State of the view, and the trend it remembers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TopState {
    /// Which row is selected, and which are shown.
    pub(crate) list: ListState,
    /// Whether the smallest row comes first.
    pub(crate) is_reversed: bool,
    /// The selected function.
    selected: Option<LabelKey>,
    /// Self shares of the heaviest functions in the last pictures, in millionths, oldest first.
    trend: VecDeque<FxHashMap<LabelKey, u64>>,
}

impl TopState {
    /// Replaces remembered addresses by the function names they have in `picture`.
    fn rename(&mut self, picture: &Picture) {
        if let Some(key) = &mut self.selected {
            picture.rename(key);
        }
        let is_address = |key: &&LabelKey| matches!(key, LabelKey::Address { .. });
        let all = self.trend.iter().flat_map(|shares| shares.keys().filter(is_address));
        let addresses: FxHashSet<LabelKey> = all.cloned().collect();
        let since = picture.named_since(&addresses);
        for key in &addresses {
            let Some(label) = since.functions(key).next() else { continue };
            let named = picture.labels.get(label).key();
            for shares in &mut self.trend {
                // Before it was named, a function may have had a row for each of its addresses.
                if let Some(share) = shares.remove(key) {
                    *shares.entry(named.clone()).or_default() += share;
                }
            }
        }
    }
}

/// Content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TopColumn {
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

fn placed(view: &TopState, picture: &Picture, columns: usize) -> PlacedColumns<TopColumn> {
    let has_trend = !view.trend.is_empty();
    let is_wide = columns >= WIDE_COLUMNS + if has_trend { TREND + 2 } else { 0 };
    let column = |id, heading, width, is_number, rank| TableColumn { id, heading, width, is_number, rank };
    let mut all = vec![
        column(TopColumn::Own, "SELF%", 6, true, 0),
        column(TopColumn::Error, "±", 4, true, 4),
        column(TopColumn::Total, "TOTAL%", 7, true, 0),
    ];
    if is_wide || picture.query.sort != SortKey::Count {
        all.push(column(TopColumn::OwnTime, "SELF", 9, true, 1));
    }
    if is_wide || picture.query.sort == SortKey::Count {
        all.push(column(
            TopColumn::Count,
            // Of blocks, those that the samples stand for.
            if picture.event.has_waits || picture.event.metric == Metric::HEAP { "COUNT" } else { "SAMPLES" },
            9,
            true,
            2,
        ));
    }
    if is_wide {
        all.push(column(TopColumn::Threads, "THREADS", 7, true, 3));
    }
    let least_name = if is_wide { WIDE_NAME_COLUMNS } else { LEAST_NAME_COLUMNS };
    all.push(column(TopColumn::Name, "FUNCTION", least_name, false, 0));
    all.push(column(TopColumn::Module, "MODULE", MODULE_COLUMNS, false, 3));
    if is_wide {
        all.push(column(TopColumn::Source, "SOURCE", 16, false, if has_trend { 7 } else { 5 }));
    }
    if has_trend {
        let mut with_trend = all.clone();
        for column in with_trend.iter_mut().filter(|_| !is_wide) {
            match column.id {
                TopColumn::Name => column.width = NAME_COLUMNS,
                TopColumn::Module => column.width = NARROW_MODULE_COLUMNS,
                _ => {}
            }
        }
        with_trend.push(column(TopColumn::Trend, "TREND", TREND, false, 6));
        let placed = PlacedColumns::new(with_trend, columns, TopColumn::Name, usize::MAX);
        if placed.has(TopColumn::Trend) {
            return placed;
        }
    }
    // Without a trend, the other columns keep the widths they have where there is none.
    PlacedColumns::new(all, columns, TopColumn::Name, usize::MAX)
}

/// Number of rows.
fn count_of(picture: &Picture) -> usize {
    picture.change.as_ref().map_or(picture.table.rows.len(), |change| change.rows.len())
}

/// The function in the `at`-th row of the list; `None` where only the other side of a comparison has it.
fn label_at(view: &TopState, picture: &Picture, at: usize) -> Option<LabelId> {
    match &picture.change {
        Some(_) => changed_row(view, picture, at)?.label,
        None => row(view, picture, at).map(|row| row.label),
    }
}

/// Index in the table of the `at`-th row of the list.
fn row_number(view: &TopState, picture: &Picture, at: usize) -> Option<usize> {
    let rows = count_of(picture);
    if view.is_reversed { rows.checked_sub(at + 1) } else { (at < rows).then_some(at) }
}

fn row<'p>(view: &TopState, picture: &'p Picture, at: usize) -> Option<&'p FunctionRow> {
    picture.table.rows.get(row_number(view, picture, at)?)
}

fn changed_row<'p>(view: &TopState, picture: &'p Picture, at: usize) -> Option<&'p ChangedRow> {
    picture.change.as_ref()?.rows.get(row_number(view, picture, at)?)
}

fn selected_label(view: &TopState, picture: &Picture) -> Option<LabelId> {
    label_at(view, picture, view.list.cursor(count_of(picture)))
}

/// The selected stack, root first; the last is the selected function.
pub(crate) fn selected(view: &TopState, picture: &Picture) -> Vec<LabelId> {
    selected_label(view, picture).into_iter().collect()
}

/// Keeps the selected function in another picture, and records the trend of a live one.
pub(crate) fn follow(view: &mut TopState, context: &mut Context, picture: &Picture) {
    view.rename(picture);
    if let Some(key) = &view.selected {
        let label_of = |at: &usize| label_at(view, picture, *at);
        let is_it = |at: &usize| label_of(at).is_some_and(|label| picture.labels.get(label).is(key));
        if let Some(at) = (0..count_of(picture)).find(is_it) {
            view.list.follow(at);
        }
    }
    if context.live.is_some() {
        remember(view, context, picture);
    }
}

/// Adds a point to the trend for each new snapshot, however many pictures are made of it.
fn remember(view: &mut TopState, context: &mut Context, picture: &Picture) {
    // The sort order and the queries of other views change no share.
    let is_same = |before: &Picture| {
        // Merging threads changes no function.
        let of = |query: &Query| (CommonOptions { threads: None, ..query.common.clone() }, query.window);
        of(&before.query) == of(&picture.query)
    };
    match &context.picture {
        Some(before) if !is_same(before) => view.trend.clear(),
        // The same snapshot again: replaces its point, since in another order other functions may be among the
        // heaviest.
        Some(before) if Arc::ptr_eq(&before.recording, &picture.recording) => {
            view.trend.pop_back();
        }
        Some(_) | None => {}
    }
    let shares = picture.table.rows.iter().take(REMEMBERED).map(|row| {
        let share = percent(row.own.weight, picture.total.weight);
        (picture.labels.get(row.label).key(), (share * 10_000.0) as u64)
    });
    view.trend.push_back(shares.collect());
    if view.trend.len() > TREND {
        view.trend.pop_front();
    }
}

/// Applies `action`, with the view drawn in `area`; returns false if the action does nothing here.
pub(crate) fn update(
    view: &mut TopState,
    context: &mut Context,
    action: &Action,
    area: Rect,
    picture: &Picture,
) -> bool {
    let table = table::Frame { area, count: count_of(picture) };
    match action {
        Action::ReverseSort => {
            view.is_reversed = !view.is_reversed;
            view.list = ListState::default();
        }
        Action::Sort => {
            view.list = ListState::default();
            view.selected = None;
            return false;
        }
        Action::NextMatch => next_match(view, context, picture, table.rows(), true),
        Action::PreviousMatch => next_match(view, context, picture, table.rows(), false),
        _ => match table.update(&mut view.list, action) {
            Some(table::TableEvent::Moved) => {}
            Some(table::TableEvent::Opened) => pivot(view, context, picture),
            Some(table::TableEvent::Heading(_)) if picture.change.is_some() => return false,
            Some(table::TableEvent::Heading(x)) => {
                sort_by(view, context, picture, placed(view, picture, area.width.into()).at(x));
                return true;
            }
            None => return false,
        },
    }
    view.selected = selected_label(view, picture).map(|label| picture.labels.get(label).key());
    true
}

/// Shows the callers of the selected function.
fn pivot(view: &mut TopState, context: &mut Context, picture: &Picture) {
    match selected_label(view, picture) {
        Some(label) => context.callers_of = Some(picture.labels.get(label).key()),
        None if picture.change.is_some() => context.show_message("only the other side has it: B shows that"),
        None => {}
    }
}

fn sort_by(view: &mut TopState, context: &mut Context, picture: &Picture, column: Option<TopColumn>) {
    let sort = match column {
        Some(TopColumn::Own | TopColumn::OwnTime) => SortKey::SelfWeight,
        Some(TopColumn::Total) => SortKey::TotalWeight,
        Some(TopColumn::Count) => SortKey::Count,
        _ => return,
    };
    view.list = ListState::default();
    view.selected = None;
    if sort == picture.query.sort {
        view.is_reversed = !view.is_reversed;
    } else {
        view.is_reversed = false;
        context.ask(|query| query.sort = sort);
    }
}

fn next_match(view: &mut TopState, context: &mut Context, picture: &Picture, height: usize, forward: bool) {
    let Some(search) = &context.search else {
        context.show_message("search first: /");
        return;
    };
    let rows = count_of(picture);
    let is_match = |at: usize| match &picture.change {
        None => row(view, picture, at).is_some_and(|row| search.matches(row.label.index())),
        Some(change) => changed_row(view, picture, at)
            .is_some_and(|row| changes::is_match(search, row, &changes::name(context, picture, change, row))),
    };
    match view.list.next_match(rows, forward, is_match) {
        Some(found) => view.list.select(found, rows, height),
        None => context.show_message("nothing matches"),
    }
}

/// Draws the view into `area`.
pub(crate) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &TopState,
    context: &Context,
    picture: &Picture,
    theme: &Theme,
) {
    if let Some(change) = &picture.change {
        return changes::draw(frame, area, (view.list, view.is_reversed), context, (picture, change), theme);
    }
    let placed = placed(view, picture, area.width.into());
    let sorted: &[TopColumn] = match picture.query.sort {
        SortKey::SelfWeight => &[TopColumn::Own],
        SortKey::TotalWeight => &[TopColumn::Total],
        SortKey::Count => &[TopColumn::Count],
    };
    let heading = |id: TopColumn, text: &'static str| {
        table::sorted_heading(text, sorted.contains(&id), view.is_reversed)
    };
    let list = (view.list, picture.table.rows.len());
    table::draw(frame.buffer_mut(), area, &placed, list, theme, heading, |id, at, width| {
        match row(view, picture, at) {
            Some(row) => cell(view, context, picture, theme, row, id, width),
            None => (String::new(), Style::new()),
        }
    });
}

fn cell(
    view: &TopState,
    context: &Context,
    picture: &Picture,
    theme: &Theme,
    row: &FunctionRow,
    id: TopColumn,
    width: usize,
) -> table::TableCell {
    let label = picture.labels.get(row.label);
    let share = |weight: u64| percent_text(percent(weight, picture.total.weight));
    let plain = |text: String| (text, Style::new());
    match id {
        TopColumn::Own => plain(share(row.own.weight)),
        TopColumn::Error => plain(format!("{:.1}", picture.error_points(row.own))),
        TopColumn::Total => plain(share(row.total.weight)),
        TopColumn::OwnTime => plain(picture.weight_text(row.own.weight)),
        TopColumn::Count => plain(count(row.own.count())),
        TopColumn::Threads => plain(count(row.threads)),
        TopColumn::Name => {
            let is_match = context.search.as_ref().is_some_and(|search| search.matches(row.label.index()));
            let style = if is_match { theme.matched(Style::new()) } else { Style::new() };
            (theme.fit(&context.name(label), width), style)
        }
        TopColumn::Module => (safe_text::terminal(module_stem(&label.module)).into_owned(), theme.faint()),
        TopColumn::Source => {
            let source = row.source.as_ref().map_or(String::new(), |source| source.text(NameStyle::Short));
            (theme.fit_end(&safe_text::terminal(&source), width), theme.faint())
        }
        TopColumn::Trend => {
            let key = label.key();
            let shares: Vec<u64> =
                view.trend.iter().map(|shares| shares.get(&key).copied().unwrap_or(0)).collect();
            (table::bars(&shares, theme), theme.running())
        }
    }
}

/// Details of the selection.
pub(crate) fn details(
    view: &TopState,
    context: &Context,
    picture: &Picture,
    below: Below<'_>,
) -> Vec<Line<'static>> {
    let at = view.list.cursor(count_of(picture));
    match (label_at(view, picture, at), &picture.change) {
        (Some(label), _) => function_details(context, picture, label, None, below),
        (None, Some(change)) => {
            let row = changed_row(view, picture, at);
            row.map_or_else(Vec::new, |row| changes::details(context, (picture, change), row, below))
        }
        (None, None) => Vec::new(),
    }
}
