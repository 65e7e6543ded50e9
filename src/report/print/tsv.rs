//! Reports as tab-separated tables: a header line, then one line for each row. Numbers are plain and
//! in the unit that their column names.

use super::{heap, json, json_waits, locks, text};
use crate::base::failure::Failure;
use crate::base::safe_text;
use crate::base::units::percent;
use crate::report::analysis::Analysis;
use crate::report::grouping::Grouping;
use crate::report::model::amount::Amount;
use crate::report::model::label::LabelId;
use crate::report::model::totals::Totals;
use crate::report::naming::name;
use crate::report::options::{ReportOptions, ReportView};
use crate::report::query::filter::pattern;
use crate::report::query::selection::Selection;
use crate::report::views::call_tree::{CallTree, Direction};
use crate::report::views::function_table::FunctionTable;
use crate::report::views::{peek, threads};
use crate::report::waits::table::WaitTable;
use std::borrow::Cow;

/// A table under construction.
#[derive(Debug)]
struct TsvTable {
    out: String,
}

impl TsvTable {
    fn new(columns: &[&str]) -> Self {
        TsvTable { out: format!("{}\n", columns.join("\t")) }
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
pub(crate) fn report(
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &ReportOptions,
) -> Result<String, Failure> {
    let unit = json::unit_word(selection.shown.unit);
    let table = match options.view.of(&selection.shown) {
        ReportView::Overview | ReportView::Flat | ReportView::Goroutines => flat(selection, options, unit),
        ReportView::Tree => tree(selection, options, Direction::TopDown, unit),
        ReportView::BottomUp => tree(selection, options, Direction::BottomUp, unit),
        ReportView::Peek(pattern) => peeks(selection, pattern, options, unit)?,
        ReportView::Threads => thread_table(recording, selection, options, unit)?,
        ReportView::Waits => waits(selection, options),
        ReportView::Locks(by) => lock_table(selection, options, *by),
        ReportView::Heap => heap_table(recording, selection, options)?,
    };
    Ok(table.out)
}

fn heap_table(
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &ReportOptions,
) -> Result<TsvTable, Failure> {
    let mut table = TsvTable::new(&heap::tsv::COLUMNS);
    for cells in heap::tsv::rows(recording, selection, options)? {
        table.row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    Ok(table)
}

fn lock_table(selection: &Selection<'_>, options: &ReportOptions, by: Grouping) -> TsvTable {
    let mut table = TsvTable::new(&locks::tsv::COLUMNS);
    for cells in locks::tsv::rows(selection, options, by) {
        table.row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    table
}

fn flat(selection: &Selection<'_>, options: &ReportOptions, unit: &str) -> TsvTable {
    let (own, total) = (format!("self_{unit}"), format!("total_{unit}"));
    let columns = [
        "self_pct",
        "total_pct",
        &own,
        &total,
        "samples",
        "threads",
        "function",
        "module",
        "file",
        "line",
        "count",
    ];
    let mut table = TsvTable::new(&columns);
    let functions = FunctionTable::new(selection, options.sort);
    let names = options.common.names_for_programs();
    let whole = selection.base();
    let shown = functions.shown(options.limits_for_programs(), options.sort, whole);
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
            &safe_text::tsv(&label.at.map_or_else(|| label.name_in(names).to_owned(), |_| label.text(names))),
            &safe_text::tsv(&label.module),
            &safe_text::tsv(source.map_or("", |source| &source.file)),
            &source.filter(|source| source.line > 0).map_or(String::new(), |source| source.line.to_string()),
            &row.own.count().to_string(),
        ]);
    }
    table
}

fn tree(selection: &Selection<'_>, options: &ReportOptions, direction: Direction, unit: &str) -> TsvTable {
    let (own, total) = (format!("self_{unit}"), format!("total_{unit}"));
    let mut table =
        TsvTable::new(&["depth", &own, &total, "samples", "function", "module", "inlined", "count"]);
    let tree = CallTree::new(selection, direction);
    let names = options.common.names_for_programs();
    let least = options.least_percent();
    let order = tree.walk(|node| percent(node.total.weight, selection.base().weight) >= least);
    for id in order.into_iter().take(options.most_rows()) {
        let node = tree.node(id);
        let label = selection.labels.get(node.label);
        table.row(&[
            &node.depth.to_string(),
            &tree.own(id).weight.to_string(),
            &node.total.weight.to_string(),
            &node.total.samples.to_string(),
            &safe_text::tsv(label.name_in(names)),
            &safe_text::tsv(&label.module),
            if node.is_inlined { "1" } else { "0" },
            &node.total.count().to_string(),
        ]);
    }
    table
}

fn peeks(
    selection: &Selection<'_>,
    text: &str,
    options: &ReportOptions,
    unit: &str,
) -> Result<TsvTable, Failure> {
    let found = peek::peek(selection, &pattern("--peek", text)?);
    if found.is_empty() {
        return Err(text::no_match(selection, text));
    }
    let weight = format!("total_{unit}");
    let mut table =
        TsvTable::new(&["function", "relation", &weight, "samples", "neighbour", "neighbour_module"]);
    let names = options.common.names_for_programs();
    let name = |label| safe_text::tsv(selection.labels.get(label).name_in(names));
    let module = |label| safe_text::tsv(&selection.labels.get(label).module);
    for peek in peek::shown(&found, selection, options) {
        let mut row = |relation: &str, label: Option<LabelId>, amount: Amount| {
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

fn thread_table(
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &ReportOptions,
    unit: &str,
) -> Result<TsvTable, Failure> {
    let total = format!("total_{unit}");
    let mut columns = vec!["thread", "process", "threads", "processes", &total, "samples", "hottest"];
    let totals = Totals::of(recording, &options.common)?;
    let rows = match &totals {
        Some(totals) => {
            columns.extend(["on_cpu_ns", "no_cpu_ns", "blocked_ns", "idle_ns", "unaccounted_ns"]);
            columns.extend(["top_wait_reason", "top_wait", "top_wait_ns"]);
            threads::threads_with_times(selection, totals)
        }
        None => threads::threads(selection),
    };
    let mut table = TsvTable::new(&columns);
    let names = options.common.names_for_programs();
    for row in threads::shown(&rows, totals.is_some(), selection.base(), options).0 {
        let hottest = row.hottest.map_or("", |(label, _)| selection.labels.get(label).name_in(names));
        let mut cells = vec![
            safe_text::tsv(&row.thread).into_owned(),
            safe_text::tsv(&row.process).into_owned(),
            row.threads.to_string(),
            row.processes.to_string(),
            row.amount.weight.to_string(),
            row.amount.samples.to_string(),
            safe_text::tsv(hottest).into_owned(),
        ];
        if totals.is_some() {
            let times = row.times.unwrap_or_default();
            let parts = [times.on_cpu_ns, times.no_cpu_ns, times.blocked_ns(), times.idle_ns()];
            cells.extend(parts.map(|ns| ns.to_string()));
            cells.push(times.unaccounted_ns().to_string());
            let top = row.top_wait.as_ref();
            cells.push(top.map_or("", |top| top.reason.label()).to_owned());
            cells.push(
                safe_text::tsv(&top.map_or(Cow::Borrowed(""), |top| name::in_style(&top.place, names)))
                    .into_owned(),
            );
            cells.push(top.map_or(0, |top| top.time_ns).to_string());
        }
        table.row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    Ok(table)
}

fn waits(selection: &Selection<'_>, options: &ReportOptions) -> TsvTable {
    let mut table = TsvTable::new(&[
        "wait_ns",
        "error_ns",
        "count",
        "samples",
        "mean_ns",
        "p99_ns",
        "longest_ns",
        "threads",
        "reason",
        "blocked_in",
        "module",
        "called_by",
        "call",
        "woken_by",
        "woken_by_pct",
        "idle_ns",
        "idle_count",
    ]);
    let waits = WaitTable::new(selection, options.sort);
    let names = options.common.names_for_programs();
    for row in waits.shown(options.limits_for_programs(), options.sort, selection.base()) {
        let [place, called_by] = row.site.labels();
        let name = |label: Option<LabelId>| {
            safe_text::tsv(label.map_or("", |label| selection.labels.get(label).name_in(names)))
        };
        let blocked_in = place.map_or_else(
            || json_waits::place_name(selection, row),
            |label| selection.labels.get(label).name_in(names).to_owned(),
        );
        let optional = |ns: Option<u64>| ns.map_or(String::new(), |ns| ns.to_string());
        let waker = row.woken_by.first();
        table.row(&[
            &row.amount.weight.to_string(),
            &row.amount.error_ns().to_string(),
            &row.amount.count().to_string(),
            &row.amount.samples.to_string(),
            &row.mean_ns.to_string(),
            &optional(row.p99_ns),
            &optional(row.longest_ns),
            &row.threads.to_string(),
            row.reason.label(),
            &safe_text::tsv(&blocked_in),
            &safe_text::tsv(place.map_or("", |label| &selection.labels.get(label).module)),
            &name(called_by),
            &name(row.call),
            &safe_text::tsv(&waker.map_or(Cow::Borrowed(""), |waker| waker.name_in(names))),
            &waker.map_or(String::new(), |waker| format!("{:.4}", waker.share_percent)),
            &row.idle.weight.to_string(),
            &row.idle.count().to_string(),
        ]);
    }
    table
}
