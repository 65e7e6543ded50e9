//! Where the whole time of threads went, by thread, as text.

use super::column::{Column, leave_out, push_table, width_of};
use super::page::{CutBy, Page, more_line};
use crate::base::units::{count, duration_in, percent};
use crate::report::model::totals::{Times, Totals};
use crate::report::naming::name;
use crate::report::naming::style::NameStyle;
use crate::report::options::ReportOptions;
use crate::report::query::selection::Selection;
use crate::report::views::threads;
use crate::report::views::threads::{ThreadRow, TopWait};

/// Most columns for the name of a thread or process: the kernel keeps 15, the titles of processes are longer.
const MOST_NAME_COLUMNS: usize = 24;
/// The same on a narrow page.
const NARROW_NAME_COLUMNS: usize = 12;
/// From this width on there is room for the process.
const ROOMY_COLUMNS: usize = 100;
/// The name of the longest wait keeps at least this many columns.
const MIN_WAIT_COLUMNS: usize = 12;

pub(super) fn thread_times(
    out: &mut String,
    selection: &Selection<'_>,
    totals: &Totals,
    options: &ReportOptions,
    page: &Page,
) {
    let rows = threads::threads_with_times(selection, totals);
    let (shown, whole_ns) = threads::shown(&rows, true, selection.base(), options);
    push_table(out, &columns(shown, totals, page), page);
    if shown.len() < rows.len() {
        let sum = rows[shown.len()..].iter().fold(0u64, |sum, row| sum.saturating_add(row.busy_ns()));
        let cut = CutBy::of(shown.len(), options.most_rows());
        let share = percent(sum, whole_ns);
        super::page::push_line(
            out,
            &more_line(rows.len() - shown.len(), super::threads::noun(&rows), share, cut, page),
        );
    }
}

fn columns(shown: &[ThreadRow], totals: &Totals, page: &Page) -> Vec<Column> {
    let cells = |text: &dyn Fn(&ThreadRow) -> String| shown.iter().map(text).collect::<Vec<_>>();
    let named =
        |text: &str| page.fit(&super::threads::shown_name(text, page), MOST_NAME_COLUMNS).into_owned();
    let whole_ns = totals.times.sum_ns();
    let time = |part: fn(&Times) -> u64| {
        cells(&|row| row.times.map_or("-".to_owned(), |times| duration_in(part(&times), whole_ns)))
    };
    let most = if page.is_narrow() { NARROW_NAME_COLUMNS } else { MOST_NAME_COLUMNS };
    let thread = |row: &ThreadRow| super::threads::shown_thread(row, most, page);
    let is_by_process = shown.iter().any(|row| row.pid.is_some());
    let heading = if is_by_process { "PROCESS" } else { "THREAD" };
    let mut columns = vec![Column::text(heading, cells(&thread))];
    // Where all have the name of their process, it says nothing.
    let is_redundant = |row: &ThreadRow| row.title() == row.process;
    let differ = shown.windows(2).any(|pair| pair[0].process != pair[1].process);
    if !is_by_process && (page.width >= ROOMY_COLUMNS || (differ && !shown.iter().all(is_redundant))) {
        columns.push(Column::text("PROCESS", cells(&|row| named(&row.process))));
    }
    columns.push(Column::number("N", cells(&|row| count(row.threads))));
    columns.push(Column::number("ON-CPU", time(|times| times.on_cpu_ns)));
    columns.push(Column::number("NO CPU", time(|times| times.no_cpu_ns)));
    columns.push(Column::number("BLOCKED", time(|times| times.blocked_ns())));
    columns.push(Column::number("IDLE", time(|times| times.idle_ns())));
    if shown.iter().any(|row| has_gap(row.times.as_ref())) {
        columns.push(Column::number("NOT ACC.", cells(&|row| gap(row.times.as_ref(), whole_ns))));
    }
    if page.cut_names {
        leave_out(&mut columns, &["PROCESS", "N"], page.width.saturating_sub(MIN_WAIT_COLUMNS));
        // Idle threads say least.
        leave_out(&mut columns, &["IDLE", "NOT ACC.", "NO CPU"], page.width + 2);
    }
    let room = page.width.saturating_sub(width_of(&columns));
    if page.is_narrow() && room < MIN_WAIT_COLUMNS {
        return columns;
    }
    let room = room.max(MIN_WAIT_COLUMNS);
    let top_waits = shown.iter().filter_map(|row| row.top_wait.as_ref());
    let longest_ns = top_waits.map(|top| top.time_ns).max().unwrap_or(0);
    columns.push(Column::text("TOP WAIT", cells(&|row| wait(row.top_wait.as_ref(), longest_ns, room, page))));
    columns
}

fn has_gap(times: Option<&Times>) -> bool {
    times.is_some_and(Times::has_gap)
}

/// Text of the time that the kinds of time miss of the lifetime, in the unit of the other columns; `-` up to a thousandth.
fn gap(times: Option<&Times>, whole_ns: u64) -> String {
    let Some(times) = times.filter(|times| has_gap(Some(times))) else { return "-".to_owned() };
    let missed_ns = times.unaccounted_ns();
    let sign = if missed_ns < 0 { "-" } else { "" };
    format!("{sign}{}", duration_in(missed_ns.unsigned_abs(), whole_ns))
}

/// Text of a wait, whose time has the unit of the longest in the column.
fn wait(top: Option<&TopWait>, longest_ns: u64, room: usize, page: &Page) -> String {
    let Some(top) = top else { return "-".to_owned() };
    let time = duration_in(top.time_ns, longest_ns);
    let reason = top.reason.label();
    let name = match page.names {
        NameStyle::Short => name::short(&top.place),
        _ => top.place.clone(),
    };
    let name = page.safe(&name);
    let left = room.saturating_sub(reason.len() + time.len() + 2);
    if page.fit_name(&name, left) == name {
        return format!("{reason} {name} {time}");
    }
    // Where says more than why.
    let left = room.saturating_sub(time.len() + 1).max(4);
    format!("{} {time}", page.fit_name(&name, left))
}
