//! The flat report: a row for each function, and the call paths that carry most.

use super::page::{CutBy, FAINT, HEADING, Page, more_line, padded, push_line};
use super::paths::heaviest_paths;
use crate::base::fit::{fit_apart, fit_name};
use crate::base::safe_text;
use crate::base::units::{count, percent, percent_text, weight};
use crate::report::naming::style::NameStyle;
use crate::report::options::{Grouping, ReportOptions, SortKey};
use crate::report::query::selection::Selection;
use crate::report::views::function_table::{FunctionRow, FunctionTable};

/// Most columns for the module.
const MODULE_COLUMNS: usize = 16;
/// Most columns for the source on a wide page.
const SOURCE_COLUMNS: usize = 24;
/// With less than this, a cut source says nothing.
const MIN_SOURCE_COLUMNS: usize = 9;
/// Columns of the numbers and of the spaces between columns, on a page that is not wide.
const NUMBER_COLUMNS: usize = 35;
/// The same on a wide page, without the source.
const WIDE_NUMBER_COLUMNS: usize = 62;
/// A wide page leaves at least this to a name that needs it.
const MIN_WIDE_NAME_COLUMNS: usize = 31;
/// Columns of the numbers and of the spaces between columns there.
const FEW_NUMBER_COLUMNS: usize = 19;

pub(super) fn flat(out: &mut String, selection: &Selection<'_>, options: &ReportOptions, page: &Page) {
    let table = FunctionTable::new(selection, options.sort);
    let limits = options.limits_for_people();
    let mut shown = table.shown(limits, options.sort, selection.base());
    let heavy = shown.len();
    let is_cut_by_share = heavy < table.rows.len() && heavy < limits.most;
    // Nothing but reasons ends a wait: there, functions that only call others are what is asked for.
    let is_waits = selection.shown.is_only_waits() && options.common.grouping.has_reasons();
    if options.rows.is_none() && options.sort != SortKey::TotalWeight && !is_waits {
        // Functions that only call others say nothing in this order, and stand at its end.
        shown = &shown[..shown.partition_point(|row| !row.own.is_empty())];
    }
    let noun = options.common.grouping.noun();
    let columns = FlatColumns::new(selection, shown, page, noun);
    if !shown.is_empty() {
        push_line(out, &page.styled(HEADING, &heading(page, columns, noun)));
    }
    let mut sum = 0u64;
    for (row, name) in shown.iter().zip(names(selection, shown, columns, page)) {
        sum = sum.saturating_add(row.own.weight);
        push_line(out, &line(selection, row, &name, sum, columns, page));
    }
    let left_out = table.rows.len() - shown.len();
    if left_out > 0 {
        let rest = selection.total.weight.saturating_sub(sum);
        let share = percent(rest, selection.base().weight);
        let is_by_share = is_cut_by_share && shown.len() == heavy;
        let cut = if is_by_share { CutBy::Share } else { CutBy::Number };
        push_line(out, &more_line(left_out, noun, share, cut, page));
    }
    if options.common.grouping.has_reasons() {
        heaviest_paths(out, selection, page);
    }
}

/// Widths of the columns that hold text; 0 for a column that is left out.
#[derive(Debug, Clone, Copy)]
struct FlatColumns {
    /// Some name is wider than its column and is not cut: then it has to come last.
    is_name_last: bool,
    name: usize,
    module: usize,
    source: usize,
}

impl FlatColumns {
    /// As wide as their texts; when the page is too narrow for that, the module and the source give way
    /// to the name first, down to what it has on a page of [`Page::PLAIN`]'s width.
    fn new(selection: &Selection<'_>, shown: &[FunctionRow], page: &Page, noun: &str) -> Self {
        let label = |row: &FunctionRow| selection.labels.get(row.label);
        let widest = |text: &dyn Fn(&FunctionRow) -> String| {
            shown.iter().map(|row| safe_text::width(&text(row))).max().unwrap_or(0)
        };
        let module = match selection.labels.grouping() {
            // The name says it already.
            Grouping::Module | Grouping::Process | Grouping::Label(_) => 0,
            _ => {
                let modules = widest(&|row| page.module(label(row), MODULE_COLUMNS));
                modules.max(second_heading(noun).len()).min(MODULE_COLUMNS.min(page.width / 5))
            }
        };
        let all = widest(&|row| page.name(label(row), usize::MAX)).max(noun.len());
        let numbers = match page.is_wide() {
            true => WIDE_NUMBER_COLUMNS,
            // There is no room for the error and the time.
            false if page.is_narrow() => FEW_NUMBER_COLUMNS,
            false => NUMBER_COLUMNS,
        };
        let mut room = page.width.saturating_sub(numbers + module).max(12);
        let mut source = 0;
        // A line is in its own name.
        if page.is_wide() && selection.labels.grouping() != Grouping::Line {
            let plain_room = Page::PLAIN.width.saturating_sub(NUMBER_COLUMNS + module);
            let name = plain_room.max(MIN_WIDE_NAME_COLUMNS).min(all);
            let sources = widest(&|row| source_text(row, page, SOURCE_COLUMNS));
            let left = room.saturating_sub(name + 2);
            if sources > 0 && (left >= sources.min(MIN_SOURCE_COLUMNS) || !page.cut_names) {
                source = sources.max(SOURCE.len()).min(SOURCE_COLUMNS).min(left.max(SOURCE.len()));
                room = room.saturating_sub(source + 2).max(name);
            }
        }
        let is_name_last = !page.cut_names && !page.is_wide() && module > 0 && all > room;
        FlatColumns { is_name_last, name: all.min(room), module, source }
    }
}

const SOURCE: &str = "SOURCE";

/// The names of `shown`, which differ where the functions do.
fn names(selection: &Selection<'_>, shown: &[FunctionRow], columns: FlatColumns, page: &Page) -> Vec<String> {
    let texts = shown.iter().map(|row| page.name(selection.labels.get(row.label), usize::MAX));
    let texts: Vec<String> = texts.collect();
    if page.cut_names { fit_apart(&texts, columns.name, fit_name) } else { texts }
}

/// Heading of the column after the name.
fn second_heading(noun: &str) -> &'static str {
    if noun == "thread" { "PROCESS" } else { "MODULE" }
}

fn source_text(row: &FunctionRow, page: &Page, columns: usize) -> String {
    let source = row.source.as_ref().map_or(String::new(), |source| source.text(NameStyle::Short));
    let source = page.safe(&source);
    // The end says most: the line, and the name of the file.
    let shown = if page.cut_names { safe_text::fit_end(&source, columns) } else { source };
    shown.into_owned()
}

fn heading(page: &Page, columns: FlatColumns, noun: &str) -> String {
    let second = if columns.module == 0 { "" } else { second_heading(noun) };
    let noun = noun.to_uppercase();
    let noun = if columns.is_name_last { noun } else { padded(&noun, columns.name) };
    if page.is_wide() {
        let source = if columns.source == 0 { "" } else { SOURCE };
        format!(
            "  SELF%     ±    SUM%  TOTAL%      SELF   SAMPLES  THREADS  {noun}  {}  {source}",
            padded(second, columns.module)
        )
    } else if page.is_narrow() {
        format!("  SELF%  TOTAL%  {noun}  {second}")
    } else if columns.is_name_last {
        format!("  SELF%     ±  TOTAL%      SELF  {}  {noun}", padded(second, columns.module))
    } else {
        format!("  SELF%     ±  TOTAL%      SELF  {noun}  {second}")
    }
}

fn line(
    selection: &Selection<'_>,
    row: &FunctionRow,
    name: &str,
    sum: u64,
    columns: FlatColumns,
    page: &Page,
) -> String {
    let total = selection.base();
    let label = selection.labels.get(row.label);
    let own_percent = percent(row.own.weight, total.weight);
    let own = percent_text(own_percent);
    let error = format!("{:.1}", selection.error_points(row.own));
    let all = percent_text(percent(row.total.weight, total.weight));
    let time = weight(selection.shown.unit, row.own.weight, total.weight);
    let module = if columns.module == 0 { String::new() } else { page.module(label, columns.module) };
    if columns.is_name_last {
        let module = page.styled(FAINT, &padded(&module, columns.module));
        return format!("{own:>7} {error:>5} {all:>7} {time:>9}  {module}  {name}");
    }
    let name = padded(name, columns.name);
    if page.is_narrow() {
        return format!("{own:>7} {all:>7}  {name}  {}", page.styled(FAINT, &module));
    }
    if !page.is_wide() {
        let module = page.styled(FAINT, &module);
        return format!("{own:>7} {error:>5} {all:>7} {time:>9}  {name}  {module}");
    }
    let sum = percent_text(percent(sum, total.weight));
    let samples = count(row.own.count());
    let threads = count(row.threads);
    let source = if columns.source == 0 { String::new() } else { source_text(row, page, columns.source) };
    let module = page.styled(FAINT, &padded(&module, columns.module));
    format!(
        "{own:>7} {error:>5} {sum:>7} {all:>7} {time:>9} {samples:>9} {threads:>8}  {name}  {module}  {source}"
    )
}
