//! The flat report: a row for each function, and the call paths that carry most.

use super::{FAINT, HEADING, Page, more_line, padded, push_line};
use crate::report::call_tree::{CallTree, Direction};
use crate::report::function_table::{FunctionTable, Row};
use crate::report::label::LabelKind;
use crate::report::options::{Grouping, NameStyle, ReportOptions, SortKey};
use crate::report::selection::Selection;
use crate::safe_text;
use crate::units::{count, percent, percent_text, share_error_points, weight};

/// Most columns for the module.
const MODULE_COLUMNS: usize = 16;
/// Columns for the source on a wide page.
const SOURCE_COLUMNS: usize = 24;
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
    if options.rows.is_none() && options.sort != SortKey::TotalWeight {
        // Functions that only call others say nothing in this order, and stand at its end.
        shown = &shown[..shown.partition_point(|row| row.own.samples > 0)];
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
        push_line(out, &more_line(left_out, noun, percent(rest, selection.total.weight), page));
    }
    if matches!(options.common.grouping, Grouping::Function | Grouping::Line) {
        heaviest_paths(out, selection, page);
    }
}

/// Widths of the columns that hold text.
#[derive(Debug, Clone, Copy)]
struct Columns {
    name: usize,
    module: usize,
}

impl Columns {
    /// What the page leaves, or less when the names are short.
    fn new(selection: &Selection<'_>, shown: &[Row], page: &Page, noun: &str) -> Self {
        let module = match selection.labels.grouping() {
            // The name says it already.
            Grouping::Module | Grouping::Process => 0,
            _ => MODULE_COLUMNS.min(page.width / 5),
        };
        let numbers = if page.is_wide() { 64 + SOURCE_COLUMNS } else { 35 };
        let room = page.width.saturating_sub(numbers + module).max(12);
        let widest = (shown.iter())
            .map(|row| safe_text::width(&page.name(selection.labels.get(row.label), room)))
            .max()
            .unwrap_or(0);
        Columns { name: widest.max(noun.len()).min(room), module }
    }
}

fn heading(page: &Page, columns: Columns, noun: &str) -> String {
    let second = match noun {
        _ if columns.module == 0 => "",
        "thread" => "PROCESS",
        _ => "MODULE",
    };
    let noun = padded(&noun.to_uppercase(), columns.name);
    if page.is_wide() {
        let source = "SOURCE";
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
    let error = format!("{:.1}", share_error_points(own_percent, total.samples));
    let all = percent_text(percent(row.total.weight, total.weight));
    let time = weight(selection.event.info().unit, row.own.weight, total.weight);
    let name = padded(&page.name(label, columns.name), columns.name);
    let module = if columns.module == 0 { String::new() } else { page.module(label, columns.module) };
    if !page.is_wide() {
        let module = page.styled(FAINT, &module);
        return format!("{own:>7} {error:>5} {all:>7} {time:>9}  {name}  {module}");
    }
    let sum = percent_text(percent(sum, total.weight));
    let samples = count(row.own.samples);
    let threads = count(row.threads);
    let source = row.source.as_ref().map_or(String::new(), |source| source.text(NameStyle::Short));
    let source = safe_text::terminal(&source);
    let source = if page.cut_names { safe_text::fit_middle(&source, SOURCE_COLUMNS) } else { source };
    let module = page.styled(FAINT, &padded(&module, columns.module));
    format!(
        "{own:>7} {error:>5} {sum:>7} {all:>7} {time:>9} {samples:>9} {threads:>8}  {name}  {module}  {source}"
    )
}

fn heaviest_paths(out: &mut String, selection: &Selection<'_>, page: &Page) {
    let tree = CallTree::new(selection, Direction::TopDown);
    let share = |weight| percent(weight, selection.total.weight);
    let mut paths = tree.heaviest_paths();
    paths.retain(|(id, _)| tree.node(*id).depth > 0);
    let heavy = paths.partition_point(|(_, weight)| share(*weight) >= MIN_PATH_PERCENT);
    paths.truncate(if heavy > 0 { heavy.min(MOST_PATHS) } else { MOST_LIGHT_PATHS });
    if paths.is_empty() {
        return;
    }
    push_line(out, &page.styled(HEADING, "HEAVIEST PATHS"));
    for (id, weight) in paths {
        let mut line = format!("{:>7}  ", percent_text(share(weight)));
        // Paths are an overview: their names are short whatever the table's are.
        let style = if page.names == NameStyle::Full { NameStyle::Short } else { page.names };
        let mut last = None;
        // A function that calls itself is written once.
        let path = tree.path(id).filter(|node| last.replace(node.label) != Some(node.label));
        for (index, node) in path.enumerate() {
            let label = selection.labels.get(node.label);
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
