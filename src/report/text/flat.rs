//! The flat report: a row for each function, and the call paths that carry most.

use super::{CutBy, FAINT, HEADING, Page, more_line, padded, push_line};
use crate::report::call_tree::{CallTree, Direction};
use crate::report::function_table::{FunctionTable, Row};
use crate::report::label::{LabelId, LabelKind};
use crate::report::metric::Metric;
use crate::report::options::{Grouping, NameStyle, ReportOptions, SortKey};
use crate::report::selection::Selection;
use crate::safe_text;
use crate::units::{count, percent, percent_text, weight};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Most columns for the module.
const MODULE_COLUMNS: usize = 16;
/// Most columns for the source on a wide page.
const SOURCE_COLUMNS: usize = 24;
/// With less than this, a cut source says nothing.
const MIN_SOURCE_COLUMNS: usize = 10;
/// Columns of the numbers and of the spaces between columns, on a page that is not wide.
const NUMBER_COLUMNS: usize = 35;
/// The same on a wide page, without the source.
const WIDE_NUMBER_COLUMNS: usize = 62;
/// A wide page leaves at least this to a name that needs it.
const MIN_WIDE_NAME_COLUMNS: usize = 31;
/// Paths under the table.
const MOST_PATHS: usize = 5;
/// Paths that are shown when all are light.
const MOST_LIGHT_PATHS: usize = 3;
/// Share of all, in percent, below which a path is not worth a line beside heavier ones.
const MIN_PATH_PERCENT: f64 = 1.0;

pub(super) fn flat(out: &mut String, selection: &Selection<'_>, options: &ReportOptions, page: &Page) {
    let table = FunctionTable::new(selection, options.sort);
    let most = options.rows.unwrap_or(ReportOptions::DEFAULT_ROWS);
    let mut shown = table.shown(most, options.min_percent.unwrap_or(0.0), options.sort, selection.total);
    let heavy = shown.len();
    let is_cut_by_share = heavy < table.rows.len() && (most == 0 || heavy < most);
    // Nothing but reasons ends a wait: there, functions that only call others are what is asked for.
    let is_waits = selection.shown.metric() == Some(Metric::OffCpu) && options.common.grouping.has_reasons();
    if options.rows.is_none() && options.sort != SortKey::TotalWeight && !is_waits {
        // Functions that only call others say nothing in this order, and stand at its end.
        shown = &shown[..shown.partition_point(|row| !row.own.is_empty())];
    }
    let noun = options.common.grouping.noun();
    let columns = Columns::new(selection, shown, page, noun);
    push_line(out, &page.styled(HEADING, &heading(page, columns, noun)));
    let mut sum = 0u64;
    for row in shown {
        sum = sum.saturating_add(row.own.weight);
        push_line(out, &line(selection, row, sum, columns, page));
    }
    let left_out = table.rows.len() - shown.len();
    if left_out > 0 {
        let rest = selection.total.weight.saturating_sub(sum);
        let share = percent(rest, selection.total.weight);
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
struct Columns {
    name: usize,
    module: usize,
    source: usize,
}

impl Columns {
    /// As wide as their texts; when the page is too narrow for that, the module and the source give way
    /// to the name first, down to what it has on a page of [`Page::PLAIN`]'s width.
    fn new(selection: &Selection<'_>, shown: &[Row], page: &Page, noun: &str) -> Self {
        let label = |row: &Row| selection.labels.get(row.label);
        let widest = |text: &dyn Fn(&Row) -> String| {
            shown.iter().map(|row| safe_text::width(&text(row))).max().unwrap_or(0)
        };
        let module = match selection.labels.grouping() {
            // The name says it already.
            Grouping::Module | Grouping::Process => 0,
            _ => {
                let modules = widest(&|row| page.module(label(row), MODULE_COLUMNS));
                modules.max(second_heading(noun).len()).min(MODULE_COLUMNS.min(page.width / 5))
            }
        };
        let all = widest(&|row| page.name(label(row), usize::MAX)).max(noun.len());
        let numbers = if page.is_wide() { WIDE_NUMBER_COLUMNS } else { NUMBER_COLUMNS };
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
        Columns { name: all.min(room), module, source }
    }
}

const SOURCE: &str = "SOURCE";

/// What the column behind the name holds.
fn second_heading(noun: &str) -> &'static str {
    if noun == "thread" { "PROCESS" } else { "MODULE" }
}

fn source_text(row: &Row, page: &Page, columns: usize) -> String {
    let source = row.source.as_ref().map_or(String::new(), |source| source.text(NameStyle::Short));
    page.fit(&safe_text::terminal(&source), columns).into_owned()
}

fn heading(page: &Page, columns: Columns, noun: &str) -> String {
    let second = if columns.module == 0 { "" } else { second_heading(noun) };
    let noun = padded(&noun.to_uppercase(), columns.name);
    if page.is_wide() {
        let source = if columns.source == 0 { "" } else { SOURCE };
        format!(
            "  SELF%     ±    SUM%  TOTAL%      SELF   SAMPLES  THREADS  {noun}  {}  {source}",
            padded(second, columns.module)
        )
    } else {
        format!("  SELF%     ±  TOTAL%      SELF  {noun}  {second}")
    }
}

fn line(selection: &Selection<'_>, row: &Row, sum: u64, columns: Columns, page: &Page) -> String {
    let total = selection.total;
    let label = selection.labels.get(row.label);
    let own_percent = percent(row.own.weight, total.weight);
    let own = percent_text(own_percent);
    let error = format!("{:.1}", selection.error_points(row.own));
    let all = percent_text(percent(row.total.weight, total.weight));
    let time = weight(selection.shown.unit, row.own.weight, total.weight);
    let name = padded(&page.name(label, columns.name), columns.name);
    let module = if columns.module == 0 { String::new() } else { page.module(label, columns.module) };
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

fn heaviest_paths(out: &mut String, selection: &Selection<'_>, page: &Page) {
    let tree = CallTree::new(selection, Direction::TopDown);
    let share = |weight| percent(weight, selection.total.weight);
    let mut paths = shown_paths(&tree, selection);
    let heavy = paths.partition_point(|(_, weight)| share(*weight) >= MIN_PATH_PERCENT);
    paths.truncate(if heavy > 0 { heavy.min(MOST_PATHS) } else { MOST_LIGHT_PATHS });
    if paths.is_empty() {
        return;
    }
    push_line(out, &page.styled(HEADING, "HEAVIEST PATHS"));
    for (path, weight) in paths {
        let mut line = format!("{:>7}  ", percent_text(share(weight)));
        // Paths are an overview: their names are short whatever the table's are.
        let style = if page.names == NameStyle::Full { NameStyle::Short } else { page.names };
        for (index, label) in path.into_iter().map(|label| selection.labels.get(label)).enumerate() {
            if index > 0 && label.kind == LabelKind::Cut {
                line.push_str(" < [truncated]");
                break;
            }
            let text = label.text(style);
            let name = safe_text::terminal(&text);
            let name = safe_text::fit_middle(&name, page.width / 2);
            let separator = if index == 0 { "" } else { " < " };
            let needed = safe_text::width(&line) + separator.len() + safe_text::width(&name);
            if index > 0 && needed + 4 > page.width {
                line.push_str(" < …");
                break;
            }
            line.push_str(separator);
            line.push_str(&name);
        }
        push_line(out, &line);
    }
}

/// Paths that are looked at for those that carry most.
const MOST_CANDIDATES: usize = 1000;

/// The paths that carry most, heaviest first: their labels, the leaf first, as they are shown, and their weights.
fn shown_paths(tree: &CallTree, selection: &Selection<'_>) -> Vec<(Vec<LabelId>, u64)> {
    let mut numbers: FxHashMap<Vec<LabelId>, usize> = FxHashMap::default();
    let mut shown: Vec<(Vec<LabelId>, u64)> = Vec::new();
    let candidates = tree.heaviest_paths().into_iter().filter(|(id, _)| tree.node(*id).depth > 0);
    for (id, weight) in candidates.take(MOST_CANDIDATES) {
        let mut path: Vec<LabelId> = tree.path(id).map(|node| node.label).collect();
        // A function that calls itself is written once.
        path.dedup();
        leave_out_way_to_sleep(&mut path, selection);
        match numbers.get(&path) {
            Some(number) => shown[*number].1 = shown[*number].1.saturating_add(weight),
            None => {
                numbers.insert(path.clone(), shown.len());
                shown.push((path, weight));
            }
        }
    }
    shown.sort_by_key(|(_, weight)| Reverse(*weight));
    shown
}

/// How the kernel puts a thread to sleep says less than the reason that stands before it: of waits that the program made,
/// those frames are left out.
fn leave_out_way_to_sleep(path: &mut Vec<LabelId>, selection: &Selection<'_>) {
    let kind = |label: &LabelId| selection.labels.get(*label).kind;
    let is_wait = path.first().is_some_and(|label| matches!(kind(label), LabelKind::Wait(_)));
    let kernel = path.iter().skip(1).take_while(|label| kind(label) == LabelKind::Kernel).count();
    let is_programs = path.get(1 + kernel).is_some_and(|label| kind(label) != LabelKind::Cut);
    if is_wait && is_programs {
        path.drain(1..=kernel);
    }
}
