//! Time by thread as text.

use super::page::{CutBy, HEADING, Page, more_line, padded, push_line};
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
/// Columns of the numbers and of the spaces between columns.
const NUMBER_COLUMNS: usize = 29;
/// Columns of ` 100.0%` after the hottest function.
const SHARE_COLUMNS: usize = 7;

/// Widths of the columns that hold names.
#[derive(Debug, Clone, Copy)]
struct ThreadColumns {
    thread: usize,
    process: usize,
    hottest: usize,
}

impl ThreadColumns {
    /// As wide as the names are, within what the page allows.
    fn new(shown: &[ThreadRow], page: &Page) -> Self {
        let most = if page.width >= ROOMY_COLUMNS || !page.cut_names {
            MOST_NAME_COLUMNS
        } else {
            NARROW_NAME_COLUMNS
        };
        let widest = |heading: &str, name: fn(&ThreadRow) -> String| {
            let names = shown.iter().map(|row| safe_text::width(&name(row)));
            names.max().unwrap_or(0).max(heading.len()).min(most)
        };
        let thread = widest(THREAD, |row| shown_name(row.title()).into_owned() + &tid_text(row));
        let process = widest(PROCESS, |row| shown_name(&row.process).into_owned());
        let used = thread + process + NUMBER_COLUMNS + SHARE_COLUMNS;
        ThreadColumns { thread, process, hottest: page.width.saturating_sub(used).max(12) }
    }
}

const THREAD: &str = "THREAD";
const PROCESS: &str = "PROCESS";

pub(super) fn shown_name(text: &str) -> Cow<'_, str> {
    let text = safe_text::terminal(text);
    if text.is_empty() { safe_text::UNNAMED.into() } else { text }
}

/// The id after the name of a thread that has a row for itself.
fn tid_text(row: &ThreadRow) -> String {
    row.tid.map_or_else(String::new, |tid| format!(" {tid}"))
}

/// The name of the threads of a row, in at most `columns`; of one thread with its id, which is never cut.
pub(super) fn shown_thread(row: &ThreadRow, columns: usize, page: &Page) -> String {
    let tid = tid_text(row);
    let room = columns.saturating_sub(tid.len());
    format!("{}{tid}", page.fit(&shown_name(row.title()), room))
}

/// What a row is.
pub(super) fn noun(rows: &[ThreadRow]) -> &'static str {
    if rows.iter().any(|row| row.tid.is_some()) { "thread" } else { "thread name" }
}

pub(super) fn threads(out: &mut String, selection: &Selection<'_>, options: &ReportOptions, page: &Page) {
    let rows = threads::threads(selection);
    let (shown, whole) = threads::shown(&rows, false, options);
    let columns = ThreadColumns::new(shown, page);
    let title = format!(
        "{}  {}       N  SHARE      TIME  MOST IN",
        padded(THREAD, columns.thread),
        padded(PROCESS, columns.process)
    );
    push_line(out, &page.styled(HEADING, &title));
    for row in shown {
        push_line(out, &line(selection, row, columns, page));
    }
    if shown.len() < rows.len() {
        let sum = rows[shown.len()..].iter().fold(0u64, |sum, row| sum.saturating_add(row.amount.weight));
        let cut = CutBy::of(shown.len(), options.most_rows());
        push_line(out, &more_line(rows.len() - shown.len(), noun(&rows), percent(sum, whole), cut, page));
    }
}

fn line(selection: &Selection<'_>, row: &ThreadRow, columns: ThreadColumns, page: &Page) -> String {
    let whole = selection.total.weight;
    let share = percent_text(percent(row.amount.weight, whole));
    let time = weight(selection.shown.unit, row.amount.weight, whole);
    let threads = count(row.threads);
    let name = |text: &str, columns| padded(&page.fit(&shown_name(text), columns), columns);
    let hottest = row.hottest.map_or(String::new(), |(label, weight)| {
        let share = percent_text(percent(weight, row.amount.weight));
        format!("{} {share}", page.name(selection.labels.get(label), columns.hottest))
    });
    let thread = padded(&shown_thread(row, columns.thread, page), columns.thread);
    let process = name(&row.process, columns.process);
    format!("{thread}  {process} {threads:>7} {share:>6} {time:>9}  {hottest}")
}
