//! The table of goroutines as text.

use super::column::{Column, leave_out, push_table, width_of};
use super::flat::flat;
use super::page::{CutBy, FAINT, Page, more_line, push_line};
use crate::base::safe_text;
use crate::base::units::{count, duration_brief, duration_in, percent, percent_text};
use crate::profile::counter;
use crate::report::options::ReportOptions;
use crate::report::query::selection::Selection;
use crate::report::views::goroutine_table::{GoroutineRow, GoroutineTable};

/// The place keeps at least this many columns.
const MIN_PLACE_COLUMNS: usize = 22;
/// With less than this, a cut caller says nothing.
const MIN_CALLER_COLUMNS: usize = 6;

pub(super) fn goroutines(out: &mut String, selection: &Selection<'_>, options: &ReportOptions, page: &Page) {
    if !options.common.grouping.has_reasons() {
        return flat(out, selection, options, page);
    }
    let table = GoroutineTable::new(selection);
    let limits = options.limits_for_people();
    let shown = table.shown(limits, selection.base());
    if !shown.is_empty() {
        push_table(out, &columns(selection, shown, page), page);
    }
    let left_out = &table.rows[shown.len()..];
    if !left_out.is_empty() {
        let rest = left_out.iter().fold(0u64, |sum, row| sum.saturating_add(row.amount.weight));
        let share = percent(rest, selection.base().weight);
        push_line(out, &more_line(left_out.len(), "row", share, CutBy::of(shown.len(), limits.most), page));
    }
    push_line(out, &page.styled(FAINT, &format!("  {}", snapshots_text(selection))));
}

/// What the snapshots have seen: `150 snapshots, 1,500 goroutines read, none skipped, 3 torn`.
fn snapshots_text(selection: &Selection<'_>) -> String {
    let number = |name| selection.profile.counter(name);
    let some = |number: u64| if number == 0 { "none".to_owned() } else { count(number) };
    let lost = number(counter::GOROUTINES_UNREADABLE);
    let missed = number(counter::GOROUTINE_SNAPSHOTS_MISSED);
    let mut text = format!(
        "{} snapshots, {} goroutines read, {} skipped, {} torn",
        count(number(counter::GOROUTINE_SNAPSHOTS)),
        count(number(counter::GOROUTINES_READ)),
        some(number(counter::GOROUTINES_SKIPPED)),
        some(number(counter::GOROUTINES_CHANGED)),
    );
    if lost > 0 {
        text.push_str(&format!(", {} unreadable", count(lost)));
    }
    if missed > 0 {
        text.push_str(&format!("; {} snapshots missed", count(missed)));
    }
    text
}

/// A mean number of goroutines, rounded: with a tenth where it is small.
fn mean_text(thousandths: u64) -> String {
    match (thousandths + 50) / 100 {
        tenths @ 0..1_000 => format!("{}.{}", tenths / 10, tenths % 10),
        _ => count((thousandths + 500) / 1000),
    }
}

fn columns(selection: &Selection<'_>, shown: &[GoroutineRow], page: &Page) -> Vec<Column> {
    let whole = selection.base().weight;
    let cells = |text: &dyn Fn(&GoroutineRow) -> String| shown.iter().map(text).collect::<Vec<_>>();
    let mean = |row: &GoroutineRow| row.mean_thousandths(selection).map_or("-".to_owned(), mean_text);
    let error = |row: &GoroutineRow| match row.amount.error_ns() {
        0 => "-".to_owned(),
        error_ns => duration_brief(error_ns),
    };
    let mut columns = vec![
        Column::number("TIME", cells(&|row| duration_in(row.amount.weight, whole))),
        Column::number("±", cells(&error)),
        Column::number("SHARE", cells(&|row| percent_text(percent(row.amount.weight, whole)))),
        Column::number("COUNT", cells(&mean)),
        Column::text("STATE", cells(&|row| page.safe(row.state_text(selection)).into_owned())),
    ];
    if page.cut_names {
        leave_out(&mut columns, &["SHARE", "±"], page.width.saturating_sub(MIN_PLACE_COLUMNS));
    }
    let room = page.width.saturating_sub(width_of(&columns)).max(MIN_PLACE_COLUMNS);
    columns.push(Column::text("IN < CALLED BY", cells(&|row| place_text(selection, row, page, room))));
    columns
}

fn place_text(selection: &Selection<'_>, row: &GoroutineRow, page: &Page, room: usize) -> String {
    let name = |label, columns| page.name(selection.labels.get(label), columns);
    let place = row.function.map_or("-".to_owned(), |label| name(label, room));
    let left = room.saturating_sub(safe_text::width(&place) + 3);
    match row.called_by {
        Some(caller) if !page.cut_names || left >= MIN_CALLER_COLUMNS => {
            format!("{place} < {}", name(caller, left))
        }
        _ => place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: ten goroutines in snapshots of 3.0 of 3.001 seconds were 9.9.
    #[test]
    fn means_are_rounded() {
        let shown = [9_996, 996, 4_949, 0, 99_940, 99_960, 10_012_600].map(mean_text);
        assert_eq!(shown, ["10.0", "1.0", "4.9", "0.0", "99.9", "100", "10,013"]);
    }
}
