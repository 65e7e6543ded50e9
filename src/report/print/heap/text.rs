//! The table of the heap as text.

use super::function;
use crate::base::failure::Failure;
use crate::base::fit::fit_name;
use crate::base::safe_text;
use crate::base::units::{bytes, count, counted, duration_brief, percent};
use crate::profile::{EventKind, counter};
use crate::report::analysis::Analysis;
use crate::report::heap::HeapView;
use crate::report::heap::heap_blocks::{all_blocks, is_from_before};
use crate::report::heap::table::{HeapRow, HeapTable};
use crate::report::options::ReportOptions;
use crate::report::print::text::column::{Column, leave_out, push_table, width_of};
use crate::report::print::text::page::{CutBy, FAINT, Page, more_line, push_line};
use crate::report::query::selection::Selection;

/// Names keep at least this many columns of the page.
const MIN_NAME_COLUMNS: usize = 30;

/// Appends the table of the places that allocated the blocks of `selection`.
///
/// # Errors
///
/// A usage failure for a bad pattern.
pub(in crate::report::print) fn heap(
    out: &mut String,
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &ReportOptions,
    page: &Page,
) -> Result<(), Failure> {
    let view = options.common.heap.unwrap_or(HeapView::LiveAtEnd);
    let table = HeapTable::new(recording, selection, &options.common, page.names)?;
    let limits = options.limits_for_people();
    let shown = table.shown(limits, selection.base());
    if !shown.is_empty() {
        push_table(out, &columns(shown, view, page), page);
    }
    let left_out = &table.rows[shown.len()..];
    if !left_out.is_empty() {
        let rest = left_out.iter().fold(0u64, |sum, row| sum.saturating_add(row.amount.weight));
        let share = percent(rest, selection.base().weight);
        let cut_by = CutBy::of(shown.len(), limits.most);
        push_line(out, &more_line(left_out.len(), "place", share, cut_by, page));
    }
    let room = if page.cut_names { page.width.saturating_sub(2) } else { usize::MAX };
    for text in facts(recording) {
        for line in safe_text::wrapped(&text, room) {
            push_line(out, &page.styled(FAINT, &format!("  {line}")));
        }
    }
    Ok(())
}

/// How much of what the memory of the target grew by is `live` blocks, both in bytes.
fn growth_fact(live: u64, growth: u64) -> String {
    let numbers =
        format!("live at the end: {}, where memory without files grew by {}", bytes(live), bytes(growth));
    // A percentage of little says nothing: blocks went where others had been before the recording.
    match live > growth.saturating_mul(3) / 2 {
        true => format!("{numbers}: most of them are in memory that was there before"),
        false => format!("{numbers} ({:.0} %)", percent(live, growth)),
    }
}

/// How far to trust the table.
fn facts(recording: &Analysis) -> Vec<String> {
    let profile = &recording.profile;
    let number = |name| profile.counter(name);
    let Some(event) = all_blocks(profile).or_else(|| profile.event_of(&EventKind::HEAP)) else {
        return Vec::new();
    };
    let live = event.samples().filter(|sample| sample.block.is_some_and(|block| block.lifetime_ns.is_none()));
    let live = live.fold(0u64, |sum, sample| sum.saturating_add(sample.weight));
    let is_from_before = is_from_before(profile);
    let before = match event.samples().any(|sample| is_from_before(&sample)) {
        true => "blocks from before the recording are live, and not allocated in it",
        false => "blocks from before the recording are not known",
    };
    let mut facts = vec![format!(
        "{}, {}; ± is the 95 % error of sampling; {before}",
        safe_text::terminal(&event.info().sampling),
        counted(event.len() as u64, "sample")
    )];
    match number(counter::RSS_GROWTH_BYTES) {
        0 => {}
        growth => facts.push(growth_fact(live, growth)),
    }
    let unsure = [
        (
            counter::LOST_BLOCKS,
            "sampled block was lost, since the ring was full",
            "sampled blocks were lost, since the ring was full",
        ),
        (
            counter::LOST_FREES,
            "end of a block was lost: it looks live",
            "ends of blocks were lost: they look live",
        ),
        (
            counter::BLOCKS_NOT_FOLLOWED,
            "block could not be followed: it looks live",
            "blocks could not be followed: they look live",
        ),
        (
            counter::BLOCK_ENDS_MISSED,
            "end of a block was not seen: its lifetime is too long",
            "ends of blocks were not seen: their lifetimes are too long",
        ),
    ];
    for (name, one, several) in unsure {
        match number(name) {
            0 => {}
            1 => facts.push(format!("1 {one}")),
            number => facts.push(format!("{} {several}", count(number))),
        }
    }
    facts
}

fn columns(shown: &[HeapRow], view: HeapView, page: &Page) -> Vec<Column> {
    let cells = |text: &dyn Fn(&HeapRow) -> String| shown.iter().map(text).collect::<Vec<_>>();
    let mut columns = vec![
        Column::number(view.heading(), cells(&|row| bytes(row.amount.weight))),
        Column::number("±", cells(&|row| bytes(row.error_bytes()))),
    ];
    if view != HeapView::Allocated {
        columns.push(Column::number("ALLOC", cells(&|row| bytes(row.allocated.weight))));
    }
    columns.push(Column::number("COUNT", cells(&|row| count(row.amount.count()))));
    columns.push(Column::number("MEAN", cells(&|row| bytes(row.mean_bytes()))));
    let lifetime = |row: &HeapRow| row.lifetime_ns.map_or("-".to_owned(), duration_brief);
    columns.push(Column::number("LIFETIME", cells(&lifetime)));
    if page.cut_names {
        leave_out(&mut columns, &["MEAN", "LIFETIME"], page.width.saturating_sub(MIN_NAME_COLUMNS));
    }
    let room = page.width.saturating_sub(width_of(&columns));
    let name = |row: &HeapRow| {
        let caller = row.place[1].as_ref().map_or(String::new(), |caller| format!(" < {caller}"));
        let text = page.safe(&format!("{}{caller}", function(row))).into_owned();
        if page.cut_names { fit_name(&text, room).into_owned() } else { text }
    };
    columns.push(Column::text("FUNCTION < CALLED BY", cells(&name)));
    columns
}
