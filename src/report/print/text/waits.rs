//! The table of waits as text.

use super::column::{Column, leave_out, push_table, width_of};
use super::page::{CutBy, FAINT, Page, more_line, push_line};
use crate::base::fit::{fit_apart, fit_name};
use crate::base::safe_text;
use crate::base::units::{count, counted, duration, duration_brief, duration_in, percent, percent_text};
use crate::profile::Reason;
use crate::report::model::label::LabelId;
use crate::report::naming::style::NameStyle;
use crate::report::options::ReportOptions;
use crate::report::query::same_path::short_waits_name_of;
use crate::report::query::selection::Selection;
use crate::report::waits::hidden_idle::HiddenIdle;
use crate::report::waits::site::WaitSite;
use crate::report::waits::table::{WaitRow, WaitTable};

/// The site keeps at least this many columns.
const MIN_SITE_COLUMNS: usize = 22;
/// Where names are not cut, the columns after it stay in line up to sites of this width.
const PLAIN_SITE_COLUMNS: usize = 34;
/// From this width on, one more column makes none give way.
const ROOMY_COLUMNS: usize = 100;
/// From this width on, nothing gives way, and there is room for the number of threads.
const SPACIOUS_COLUMNS: usize = 140;
/// Most columns for who woke the thread.
const MOST_WAKER_COLUMNS: usize = 20;
/// The same on a page that is not wide.
const NARROW_WAKER_COLUMNS: usize = 14;
/// Most columns for the call.
const MOST_CALL_COLUMNS: usize = 16;
/// Places of idle waits that are named in a line, at most, and the columns for each.
const MOST_IDLE_PLACES: usize = 5;
const MOST_IDLE_COLUMNS: usize = 32;
/// With less than this, a cut caller says nothing.
const MIN_CALLER_COLUMNS: usize = 6;

pub(super) fn waits(out: &mut String, selection: &Selection<'_>, options: &ReportOptions, page: &Page) {
    let table = WaitTable::new(selection, options.sort);
    let limits = options.limits_for_people();
    let shown = table.shown(limits, options.sort, selection.base());
    if !shown.is_empty() {
        push_table(out, &columns(selection, shown, page), page);
    }
    let left_out = &table.rows[shown.len()..];
    if !left_out.is_empty() {
        let rest = left_out.iter().fold(0u64, |sum, row| sum.saturating_add(row.amount.weight));
        let share = percent(rest, selection.base().weight);
        let cut = CutBy::of(shown.len(), limits.most);
        push_line(out, &more_line(left_out.len(), "row", share, cut, page));
    }
    // On a small terminal there is no room for that column.
    if shown.iter().any(is_thinned) && !page.is_narrow() {
        push_line(out, &page.styled(FAINT, "  ± is the 95 % error of thinning: not all waits were kept"));
    }
}

/// The lines about idle waits, which are in no row: how long they were, and where.
pub(super) fn hidden_idle(hidden: &HiddenIdle, page: &Page) -> Vec<String> {
    let all = counted(hidden.amount.count(), "wait");
    let mut text = format!("... {} idle in {all}, hidden", duration(hidden.amount.weight));
    for (index, place) in hidden.places.iter().take(MOST_IDLE_PLACES).enumerate() {
        let name = if page.names == NameStyle::Full { &place.function } else { &place.short };
        let name = page.safe(name);
        let (name, time) = (page.fit_name(&name, MOST_IDLE_COLUMNS), duration(place.amount.weight));
        let separator = if index == 0 { ": " } else { ", " };
        text.push_str(&format!("{separator}{name} {time} ({})", place.reason.label()));
    }
    let more = hidden.places.len().saturating_sub(MOST_IDLE_PLACES);
    if more > 0 {
        text.push_str(&format!(", {}", counted(more as u64, "more place")));
    }
    text.push_str("; --idle shows them");
    let room = if page.cut_names { page.width.saturating_sub(6) } else { usize::MAX };
    let lines = safe_text::wrapped(&text, room).into_iter().enumerate();
    lines
        .map(|(index, line)| {
            page.styled(FAINT, &format!("{}{line}", if index == 0 { "  " } else { "      " }))
        })
        .collect()
}

/// Whether the row's time is an estimate.
fn is_thinned(row: &WaitRow) -> bool {
    row.amount.error_ns() > 0
}

fn columns(selection: &Selection<'_>, shown: &[WaitRow], page: &Page) -> Vec<Column> {
    let whole = selection.base().weight;
    let cells = |text: &dyn Fn(&WaitRow) -> String| shown.iter().map(text).collect::<Vec<_>>();
    let optional = |ns: Option<u64>| ns.map_or("-".to_owned(), duration_brief);
    let mut columns = vec![Column::number("WAIT", cells(&|row| duration_in(row.amount.weight, whole)))];
    let has_errors = shown.iter().any(is_thinned);
    if has_errors {
        let error = |row: &WaitRow| is_thinned(row).then(|| row.amount.error_ns());
        columns.push(Column::number("±", cells(&|row| optional(error(row)))));
    }
    let has_idle = shown.iter().any(|row| !row.idle.is_empty());
    let is_roomy = page.width >= ROOMY_COLUMNS || !page.cut_names;
    let is_spacious = page.width >= SPACIOUS_COLUMNS || !page.cut_names;
    if has_idle {
        columns.push(Column::number("IDLE", cells(&idle_text)));
    }
    if page.is_wide() {
        columns.push(Column::number("SHARE", cells(&|row| percent_text(percent(row.amount.weight, whole)))));
    }
    columns.push(Column::number("COUNT", cells(&|row| count(row.amount.count()))));
    // On a small terminal the mean gives way first: it is the time divided by the number.
    let has_mean = match (has_errors, has_idle) {
        (true, true) => is_spacious,
        (false, false) => true,
        _ => is_roomy,
    };
    if has_mean {
        columns.push(Column::number("MEAN", cells(&|row| duration_brief(row.mean_ns))));
    }
    if is_roomy || !has_errors || !has_idle {
        columns.push(Column::number("P99", cells(&|row| optional(row.p99_ns))));
    }
    if page.is_wide() {
        columns.push(Column::number("LONGEST", cells(&|row| optional(row.longest_ns))));
    }
    if page.width >= SPACIOUS_COLUMNS {
        columns.push(Column::number("THREADS", cells(&|row| count(row.threads))));
    }
    columns.push(Column::text("REASON", cells(&|row| row.reason.label().to_owned())));
    if page.is_wide() {
        let call = |row: &WaitRow| {
            row.call.map_or("-".to_owned(), |call| name_of(selection, call, page, MOST_CALL_COLUMNS))
        };
        columns.push(Column::text("CALL", cells(&call)));
    }
    with_sites(columns, selection, shown, page)
}

/// `columns` and those of names, without such as there is no room for.
fn with_sites(
    mut columns: Vec<Column>,
    selection: &Selection<'_>,
    shown: &[WaitRow],
    page: &Page,
) -> Vec<Column> {
    if page.cut_names {
        let room = page.width.saturating_sub(MIN_SITE_COLUMNS);
        let [with_waker, alone] = [room.saturating_sub(NARROW_WAKER_COLUMNS + 2), room];
        leave_out(&mut columns, &["MEAN", "P99"], with_waker);
        leave_out(&mut columns, &["COUNT", "IDLE", "±"], alone);
    }
    let used = width_of(&columns);
    columns.extend(site_and_waker(selection, shown, page, used));
    columns
}

/// The columns of names, next to others that take `used` columns of the screen.
fn site_and_waker(selection: &Selection<'_>, shown: &[WaitRow], page: &Page, used: usize) -> Vec<Column> {
    // Who woke the thread has what the sites leave, and at least its own share.
    let widest = |texts: Vec<String>| texts.iter().map(|text| safe_text::width(text)).max().unwrap_or(0);
    let all_sites =
        widest(shown.iter().map(|row| site_text(selection, row, page, usize::MAX, false)).collect());
    let least = if page.is_wide() { MOST_WAKER_COLUMNS } else { NARROW_WAKER_COLUMNS };
    let most = page.width.saturating_sub(used + all_sites.max(MIN_SITE_COLUMNS) + 2).max(least);
    let wakers = Column::text("WOKEN BY", shown.iter().map(|row| waker_text(row, page, most)).collect());
    // On a small terminal the place is all there is room for.
    let with_waker = used + wakers.width.min(most) + 2;
    let has_waker = !page.cut_names || with_waker + MIN_SITE_COLUMNS <= page.width;
    let used = if has_waker { with_waker } else { used };
    let room = page.width.saturating_sub(used).max(MIN_SITE_COLUMNS);
    let mut sites = Column::text("BLOCKED IN < CALLED BY", site_texts(selection, shown, page, room));
    // Where names are not cut, a long one pushes only its own line out of the columns.
    let most_columns = if page.cut_names { room } else { room.max(PLAIN_SITE_COLUMNS) };
    sites.width = sites.width.min(most_columns.max(sites.heading.len()));
    let mut columns = vec![sites];
    columns.extend(has_waker.then_some(wakers));
    columns
}

/// How much of the row's time is idle.
fn idle_text(row: &WaitRow) -> String {
    match row.idle.weight {
        0 => "-".to_owned(),
        idle if idle == row.amount.weight => "all".to_owned(),
        // What is not all and not nothing does not look like it.
        idle => format!("{:.0}%", percent(idle, row.amount.weight).clamp(1.0, 99.0)),
    }
}

fn name_of(selection: &Selection<'_>, label: LabelId, page: &Page, columns: usize) -> String {
    page.name(selection.labels.get(label), columns)
}

/// The sites of `shown`, which differ where the rows do: where two functions have one name, or are cut to one, their callers
/// have their share of the room.
fn site_texts(selection: &Selection<'_>, shown: &[WaitRow], page: &Page, room: usize) -> Vec<String> {
    let mut texts: Vec<String> =
        shown.iter().map(|row| site_text(selection, row, page, room, false)).collect();
    if !page.cut_names {
        return texts;
    }
    for at in 0..texts.len() {
        let same: Vec<usize> = (at..texts.len()).filter(|other| texts[*other] == texts[at]).collect();
        let has_others = same.iter().any(|other| shown[*other].site != shown[at].site);
        for other in same.into_iter().filter(|_| has_others) {
            texts[other] = site_text(selection, &shown[other], page, room, true);
        }
    }
    fit_apart(&texts, room, fit_name)
}

/// With `is_shared` the caller has its share of the room, whatever the function needs.
fn site_text(selection: &Selection<'_>, row: &WaitRow, page: &Page, room: usize, is_shared: bool) -> String {
    let (blocked_in, called_by) = match row.site {
        WaitSite::NoCpu => return "runnable, not scheduled".to_owned(),
        WaitSite::Short => {
            let name = format!("{} (sum only)", short_waits_name_of(&selection.shown, row.mean_ns));
            return page.fit(&page.safe(&name), room).into_owned();
        }
        WaitSite::Call { blocked_in, called_by } => (blocked_in, called_by),
    };
    let nowhere = if row.reason == Reason::Fault { "page fault" } else { "[no stack]" };
    let own_room = if is_shared && called_by.is_some() { room / 2 } else { room };
    let site = blocked_in.map_or(nowhere.to_owned(), |label| name_of(selection, label, page, own_room));
    let left = room.saturating_sub(safe_text::width(&site) + 3);
    match called_by {
        Some(caller) if !page.cut_names || left >= MIN_CALLER_COLUMNS => {
            format!("{site} < {}", name_of(selection, caller, page, left))
        }
        _ => site,
    }
}

/// The commonest waker, with its share unless it is the only one.
fn waker_text(row: &WaitRow, page: &Page, columns: usize) -> String {
    let Some(first) = row.woken_by.first() else { return "-".to_owned() };
    let name = first.name_in(page.names);
    let text = page.safe(&name);
    let share =
        if first.share_percent >= 99.5 { String::new() } else { format!(" {:.0}%", first.share_percent) };
    // Who it was says more than how often.
    let width = safe_text::width(&text);
    if page.cut_names && width <= columns && width + share.len() > columns {
        return text.into_owned();
    }
    format!("{}{share}", page.fit_name(&text, columns.saturating_sub(share.len())))
}
