//! Reports as tab-separated tables: a header line, then one line for each row. Numbers are plain and
//! in the unit that their column names.

use super::call_tree::{CallTree, Direction};
use super::filter::pattern;
use super::function_table::FunctionTable;
use super::options::{ReportOptions, View};
use super::selection::Selection;
use super::{json, peek, text, threads};
use crate::failure::Failure;
use crate::safe_text;
use crate::units::percent;

/// A table under construction.
#[derive(Debug)]
struct Table {
    out: String,
}

impl Table {
    fn new(columns: &[&str]) -> Self {
        Table { out: format!("{}\n", columns.join("\t")) }
    }

    fn row(&mut self, cells: &[&str]) {
        self.out.push_str(&cells.join("\t"));
        self.out.push('\n');
    }
}

/// The report as a table.
///
/// # Errors
///
/// A usage failure for a bad pattern; status 3 when nothing matches `--peek`.
pub(super) fn report(selection: &Selection<'_>, options: &ReportOptions) -> Result<String, Failure> {
    let unit = json::unit_word(selection.event.info().unit);
    let table = match &options.view {
        View::Flat => flat(selection, options, unit),
        View::Tree => tree(selection, options, Direction::TopDown, unit),
        View::BottomUp => tree(selection, options, Direction::BottomUp, unit),
        View::Peek(pattern) => peeks(selection, pattern, unit)?,
        View::Threads => thread_table(selection, unit),
    };
    Ok(table.out)
}

fn flat(selection: &Selection<'_>, options: &ReportOptions, unit: &str) -> Table {
    let (own, total) = (format!("self_{unit}"), format!("total_{unit}"));
    let columns =
        ["self_pct", "total_pct", &own, &total, "samples", "threads", "function", "module", "file", "line"];
    let mut table = Table::new(&columns);
    let functions = FunctionTable::new(selection, options.sort);
    let whole = selection.total;
    let shown =
        functions.shown(options.rows.unwrap_or(0), options.min_percent.unwrap_or(0.0), options.sort, whole);
    for row in shown {
        let label = selection.labels.get(row.label);
        let source = row.source.as_ref();
        table.row(&[
            &format!("{:.4}", percent(row.own.weight, whole.weight)),
            &format!("{:.4}", percent(row.total.weight, whole.weight)),
            &row.own.weight.to_string(),
            &row.total.weight.to_string(),
            &row.own.samples.to_string(),
            &row.threads.to_string(),
            &safe_text::tsv(&label.name),
            &safe_text::tsv(&label.module),
            &safe_text::tsv(source.map_or("", |source| &source.file)),
            &source.filter(|source| source.line > 0).map_or(String::new(), |source| source.line.to_string()),
        ]);
    }
    table
}

fn tree(selection: &Selection<'_>, options: &ReportOptions, direction: Direction, unit: &str) -> Table {
    let (own, total) = (format!("self_{unit}"), format!("total_{unit}"));
    let mut table = Table::new(&["depth", &own, &total, "samples", "function", "module", "inlined"]);
    let tree = CallTree::new(selection, direction);
    let min_percent = options.min_percent.unwrap_or(0.0);
    for id in tree.walk(|node| percent(node.total.weight, selection.total.weight) >= min_percent) {
        let node = tree.node(id);
        let label = selection.labels.get(node.label);
        table.row(&[
            &node.depth.to_string(),
            &node.own.weight.to_string(),
            &node.total.weight.to_string(),
            &node.total.samples.to_string(),
            &safe_text::tsv(&label.name),
            &safe_text::tsv(&label.module),
            if node.is_inlined { "1" } else { "0" },
        ]);
    }
    table
}

fn peeks(selection: &Selection<'_>, text: &str, unit: &str) -> Result<Table, Failure> {
    let found = peek::peek(selection, &pattern("--peek", text)?);
    if found.is_empty() {
        return Err(text::no_match(text));
    }
    let weight = format!("total_{unit}");
    let mut table =
        Table::new(&["function", "relation", &weight, "samples", "neighbour", "neighbour_module"]);
    let name = |label| safe_text::tsv(&selection.labels.get(label).name);
    let module = |label| safe_text::tsv(&selection.labels.get(label).module);
    for peek in &found {
        let mut row = |relation: &str, label: Option<super::LabelId>, amount: super::Amount| {
            table.row(&[
                &name(peek.label),
                relation,
                &amount.weight.to_string(),
                &amount.samples.to_string(),
                &label.map_or("".into(), name),
                &label.map_or("".into(), module),
            ]);
        };
        row("total", None, peek.total);
        row("self", None, peek.own);
        for (caller, amount) in &peek.callers {
            row("caller", *caller, *amount);
        }
        for (callee, amount) in &peek.callees {
            row("callee", Some(*callee), *amount);
        }
    }
    Ok(table)
}

fn thread_table(selection: &Selection<'_>, unit: &str) -> Table {
    let total = format!("total_{unit}");
    let mut table = Table::new(&["thread", "process", "threads", "processes", &total, "samples", "hottest"]);
    for row in threads::threads(selection) {
        let hottest = row.hottest.map_or("", |(label, _)| &selection.labels.get(label).name);
        table.row(&[
            &safe_text::tsv(&row.thread),
            &safe_text::tsv(&row.process),
            &row.threads.to_string(),
            &row.processes.to_string(),
            &row.amount.weight.to_string(),
            &row.amount.samples.to_string(),
            &safe_text::tsv(hottest),
        ]);
    }
    table
}
