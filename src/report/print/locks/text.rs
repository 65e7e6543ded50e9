//! The tables of locks as text.

use super::noun;
use crate::base::fit::fit_name;
use crate::base::safe_text;
use crate::base::units::{count, counted, duration, duration_brief, duration_in, percent};
use crate::report::grouping::Grouping;
use crate::report::locks::lock_waits::{IDLE, IDLE_NS, TIMED_OUT};
use crate::report::locks::table::{LockRow, LockTable};
use crate::report::options::ReportOptions;
use crate::report::print::text::column::{Column, leave_out, push_table, width_of};
use crate::report::print::text::page::{CutBy, FAINT, Page, more_line, push_line};
use crate::report::query::selection::Selection;

/// Names together keep at least this many columns.
const MIN_NAME_COLUMNS: usize = 44;
/// One of them at least this many.
const MIN_COLUMNS: usize = 10;

/// Appends the table of the locks of `selection`.
pub(in crate::report::print) fn locks(
    out: &mut String,
    selection: &Selection<'_>,
    options: &ReportOptions,
    by: Grouping,
    page: &Page,
) {
    let table = LockTable::new(selection, by);
    let limits = options.limits_for_people();
    let shown = table.shown(limits, selection.base());
    if !shown.is_empty() {
        push_table(out, &columns(selection, shown, by, page), page);
    }
    let left_out = &table.rows[shown.len()..];
    if !left_out.is_empty() {
        let rest = left_out.iter().fold(0u64, |sum, row| sum.saturating_add(row.amount.weight));
        let share = percent(rest, selection.base().weight);
        push_line(
            out,
            &more_line(left_out.len(), noun(by), share, CutBy::of(shown.len(), limits.most), page),
        );
    }
    let mut say = |text: String| {
        let room = if page.cut_names { page.width.saturating_sub(2) } else { usize::MAX };
        for line in safe_text::wrapped(&text, room) {
            push_line(out, &page.styled(FAINT, &format!("  {line}")));
        }
    };
    if shown.iter().any(|row| !row.is_held()) {
        say("signals: who ends these waits holds no lock".to_owned());
    }
    if shown.iter().any(|row| row.amount.error_ns() > 0) {
        say("± is the 95 % error of thinning: not all waits were kept".to_owned());
    }
    let number = |name| selection.profile.counter(name);
    if number(IDLE) > 0 {
        let (time, waits) = (duration(number(IDLE_NS)), counted(number(IDLE), "wait"));
        say(format!("... {time} idle in {waits}, hidden; --idle shows them"));
    }
    if number(TIMED_OUT) > 0 {
        say(format!("... {} ended by timeout: sleeps, not shown", counted(number(TIMED_OUT), "wait")));
    }
}

fn columns(selection: &Selection<'_>, shown: &[LockRow], by: Grouping, page: &Page) -> Vec<Column> {
    let whole = selection.base().weight;
    let cells = |text: &dyn Fn(&LockRow) -> String| shown.iter().map(text).collect::<Vec<_>>();
    let mut columns = vec![Column::number("WAIT", cells(&|row| duration_in(row.amount.weight, whole)))];
    if shown.iter().any(|row| row.amount.error_ns() > 0) {
        let error = |row: &LockRow| match row.amount.error_ns() {
            0 => "-".to_owned(),
            error_ns => duration_brief(error_ns),
        };
        columns.push(Column::number("±", cells(&error)));
    }
    columns.push(Column::number("COUNT", cells(&|row| count(row.amount.count()))));
    columns.push(Column::number("MEAN", cells(&|row| duration_brief(row.mean_ns))));
    columns.push(Column::number("P99", cells(&|row| duration_brief(row.p99_ns))));
    if page.is_wide() {
        columns.push(Column::number("LONGEST", cells(&|row| duration_brief(row.longest_ns))));
        columns.push(Column::number("THREADS", cells(&|row| count(row.threads))));
    }
    columns.push(Column::text("KIND", cells(&|row| row.kind.word().to_owned())));
    let pids = |row: &LockRow| row.lock.pid;
    if shown.iter().any(|row| pids(row) != pids(&shown[0])) {
        let text = |row: &LockRow| pids(row).map_or("-".to_owned(), |pid| pid.to_string());
        columns.push(Column::number("PID", cells(&text)));
    }
    if page.cut_names {
        let room = page.width.saturating_sub(MIN_NAME_COLUMNS);
        leave_out(&mut columns, &["LONGEST", "THREADS", "MEAN", "±", "P99", "PID"], room);
    }
    let room = page.width.saturating_sub(width_of(&columns));
    columns.extend(names(selection, shown, by, page, room));
    columns
}

/// The columns of names, which share `room` columns of the page.
fn names(
    selection: &Selection<'_>,
    shown: &[LockRow],
    by: Grouping,
    page: &Page,
    room: usize,
) -> Vec<Column> {
    let lock = |row: &LockRow| {
        let more = if row.locks > 1 { format!(" +{}", row.locks - 1) } else { String::new() };
        format!("{}{more}", page.safe(&row.lock_name(page.names)))
    };
    let of_row = |row: &LockRow| {
        let [function, caller] = row.functions(&selection.labels, page.names);
        let function = function.unwrap_or_else(|| "[no stack]".to_owned());
        let text = caller.map_or(function.clone(), |caller| format!("{function} < {caller}"));
        page.safe(&text).into_owned()
    };
    type CellText<'t> = &'t dyn Fn(&LockRow) -> String;
    let waiter = |row: &LockRow| waiter_text(selection, row, page);
    let releaser = |row: &LockRow| releaser_text(row, page);
    let parts: [(&'static str, CellText<'_>); 3] = match by {
        Grouping::Holder => [
            ("RELEASED IN < CALLED BY", &|row| format!("{}{}", of_row(row), signals(row))),
            ("LOCK", &lock),
            ("WAITER", &waiter),
        ],
        Grouping::Waiter => [("BLOCKED IN < CALLED BY", &of_row), ("LOCK", &lock), ("HOLDER", &releaser)],
        _ => [("LOCK", &lock), ("WAITER", &waiter), ("HOLDER", &releaser)],
    };
    let mut left = room;
    let mut columns = Vec::new();
    for (index, (heading, text)) in parts.into_iter().enumerate() {
        let mut cells: Vec<String> = shown.iter().map(text).collect();
        let after = parts.len() - index;
        // What is left is shared by this column and those after it.
        let most = (left / after).max(MIN_COLUMNS).saturating_sub(2).max(heading.len());
        if page.cut_names {
            cells.iter_mut().for_each(|cell| *cell = fit_name(cell, most).into_owned());
        }
        let column = Column::text(heading, cells);
        left = left.saturating_sub(column.width + 2);
        columns.push(column);
    }
    columns
}

/// The place that waited longest, with its share unless it is the only one.
fn waiter_text(selection: &Selection<'_>, row: &LockRow, page: &Page) -> String {
    let Some((site, share)) = row.top(&row.waiters) else { return "-".to_owned() };
    let [function, _] = site.labels();
    let name =
        function.map_or("[no stack]".to_owned(), |label| page.name(selection.labels.get(label), usize::MAX));
    with_share(&name, share)
}

/// The one that ended most of the time, likewise.
fn releaser_text(row: &LockRow, page: &Page) -> String {
    let Some((releaser, share)) = row.top(&row.releasers) else { return "-".to_owned() };
    let caller = releaser.caller_in(page.names).map_or(String::new(), |caller| format!(" < {caller}"));
    let name = format!("{}{caller}", releaser.name_in(page.names));
    with_share(&format!("{}{}", page.safe(&name), signals(row)), share)
}

fn signals(row: &LockRow) -> &'static str {
    if row.is_held() { "" } else { " signals" }
}

fn with_share(name: &str, share_percent: f64) -> String {
    if share_percent >= 99.5 { name.to_owned() } else { format!("{name} {share_percent:.0}%") }
}
