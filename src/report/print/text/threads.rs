//! Time by thread as text.

use super::column::{Column, leave_out, push_table, width_of};
use super::page::{CutBy, Page, more_line, push_line};
use crate::base::safe_text;
use crate::base::units::{count, percent, percent_text, weight};
use crate::report::options::ReportOptions;
use crate::report::query::selection::Selection;
use crate::report::views::threads;
use crate::report::views::threads::ThreadRow;
use std::borrow::Cow;

/// Most columns for the name of a thread: the kernel keeps 15, the titles of processes are longer.
const MOST_NAME_COLUMNS: usize = 24;
/// The same on a page below [`ROOMY_COLUMNS`].
const NARROW_NAME_COLUMNS: usize = 12;
/// From this width on, names have all the room they can need; where they are not cut, too.
const ROOMY_COLUMNS: usize = 100;
/// The hottest function keeps at least this many columns, with its share.
const MIN_HOTTEST_COLUMNS: usize = 16;

pub(super) fn shown_name<'t>(text: &'t str, page: &Page) -> Cow<'t, str> {
    let text = page.safe(text);
    if text.is_empty() { safe_text::UNNAMED.into() } else { text }
}

/// The id after the name of a thread or process that has a row for itself.
fn id_text(row: &ThreadRow) -> String {
    row.tid.or(row.pid).map_or_else(String::new, |id| format!(" {id}"))
}

/// The name of the threads of a row, in at most `columns`; of one thread or process with its id, which is never cut.
pub(super) fn shown_thread(row: &ThreadRow, columns: usize, page: &Page) -> String {
    let id = id_text(row);
    let room = columns.saturating_sub(id.len());
    format!("{}{id}", page.fit(&shown_name(row.title(), page), room))
}

/// Noun for a row.
pub(super) fn noun(rows: &[ThreadRow]) -> &'static str {
    match rows.first() {
        Some(ThreadRow { pid: Some(_), .. }) => "process",
        Some(ThreadRow { tid: Some(_), .. }) => "thread",
        _ => "thread name",
    }
}

pub(super) fn threads(out: &mut String, selection: &Selection<'_>, options: &ReportOptions, page: &Page) {
    let rows = threads::threads(selection);
    let (shown, whole) = threads::shown(&rows, false, selection.base(), options);
    push_table(out, &columns(selection, shown, page), page);
    if shown.len() < rows.len() {
        let sum = rows[shown.len()..].iter().fold(0u64, |sum, row| sum.saturating_add(row.amount.weight));
        let cut = CutBy::of(shown.len(), options.most_rows());
        push_line(out, &more_line(rows.len() - shown.len(), noun(&rows), percent(sum, whole), cut, page));
    }
}

fn columns(selection: &Selection<'_>, shown: &[ThreadRow], page: &Page) -> Vec<Column> {
    let whole = selection.base().weight;
    let cells = |text: &dyn Fn(&ThreadRow) -> String| shown.iter().map(text).collect::<Vec<_>>();
    let is_roomy = page.width >= ROOMY_COLUMNS || !page.cut_names;
    let most = if is_roomy { MOST_NAME_COLUMNS } else { NARROW_NAME_COLUMNS };
    let is_by_process = shown.iter().any(|row| row.pid.is_some());
    // A process is known by its title, and has the room of both names.
    let (heading, most_first) = if is_by_process { ("PROCESS", MOST_NAME_COLUMNS) } else { ("THREAD", most) };
    let mut columns = vec![Column::text(heading, cells(&|row| shown_thread(row, most_first, page)))];
    if !is_by_process {
        let process = |row: &ThreadRow| page.fit(&shown_name(&row.process, page), most).into_owned();
        columns.push(Column::text("PROCESS", cells(&process)));
    }
    columns.push(Column::number("N", cells(&|row| count(row.threads))));
    let share = |row: &ThreadRow| percent_text(percent(row.amount.weight, whole));
    columns.push(Column::number("SHARE", cells(&share)));
    let time = |row: &ThreadRow| weight(selection.shown.unit, row.amount.weight, whole);
    let heading = selection.shown.unit.heading();
    columns.push(Column::number(heading, cells(&time)));
    if page.cut_names {
        let room = page.width.saturating_sub(MIN_HOTTEST_COLUMNS);
        let by_process = ["N", heading];
        let by_thread = ["PROCESS", "N", heading];
        leave_out(&mut columns, if is_by_process { &by_process } else { &by_thread }, room);
    }
    let room = page.width.saturating_sub(width_of(&columns)).max(MIN_HOTTEST_COLUMNS);
    columns.push(Column::text("MOST IN", cells(&|row| hottest(selection, row, room, page))));
    columns
}

/// Where the threads of a row were most often, and how much of their time.
fn hottest(selection: &Selection<'_>, row: &ThreadRow, room: usize, page: &Page) -> String {
    let Some((label, weight)) = row.hottest else { return String::new() };
    let share = percent_text(percent(weight, row.amount.weight));
    let name = page.name(selection.labels.get(label), room.saturating_sub(share.len() + 1));
    format!("{name} {share}")
}
