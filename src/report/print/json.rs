//! `prof.report/2`: the report for programs. Fields are only ever added.

use super::cost::Cost;
use super::heap::json::{HeapRowFields, heap_rows};
use super::json_goroutines::{GoroutineRowFields, SnapshotFields, goroutine_rows};
use super::json_waits::{HiddenIdleFields, TotalsFields, WaitFields, wait_rows};
use super::locks::json::{LockFields, lock_rows};
use super::text;
use crate::base::failure::Failure;
use crate::base::safe_text;
use crate::base::units::percent;
use crate::profile::{End, FoundBy, FrameId};
use crate::report::analysis::Analysis;
use crate::report::clock_part::{ClockPart, ClockPartFields};
use crate::report::model::amount::Amount;
use crate::report::model::label::LabelId;
use crate::report::model::label_kind::LabelKind;
use crate::report::model::totals::Totals;
use crate::report::naming::name;
use crate::report::options::{ReportOptions, ReportView};
use crate::report::query::filter::pattern;
use crate::report::query::filter_words;
use crate::report::query::selection::Selection;
use crate::report::views::call_tree::{CallTree, Direction};
use crate::report::views::function_table::FunctionTable;
use crate::report::views::{peek, threads};
use crate::report::waits::hidden_idle::HiddenIdle;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;

/// Name and version of the layout.
const SCHEMA: &str = "prof.report/2";

#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    event: String,
    unit: &'static str,
    target: String,
    /// What this is by the clock, of a folder or of a part of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_part: Option<ClockPartFields>,
    /// `null` where what it was imported from does not say.
    duration_ns: Option<u64>,
    threads: u64,
    total: u64,
    samples: u64,
    recorded_total: u64,
    recorded_samples: u64,
    /// The filters in the words of the command line, if there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    /// Weight that all percentages are of, in `unit`: `recorded_total`, or `total` with --relative.
    percent_of: u64,
    is_complete_file: bool,
    /// Why the recording ended, and how its command did.
    ended: Option<EndJson>,
    quality: QualityFields,
    cost: Cost,
    notes: Vec<String>,
    /// Where the whole time went, when the recording has waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    totals: Option<TotalsFields>,
    /// Idle waits that the filters on samples keep and that are hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden_idle_ns: Option<u64>,
    /// The same with their places, as far as the filters on functions keep them.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden_idle: Option<HiddenIdleFields>,
    /// What snapshots of goroutines have seen, when these are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshots: Option<SnapshotFields>,
    rows: JsonRows,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<Vec<TreeRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peek: Option<Vec<PeekRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_rows: Option<Vec<ThreadFields>>,
}

/// Rows of the report: waits by their sites in the overview of waiting time, else functions.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum JsonRows {
    Functions(Vec<FunctionJson>),
    Waits(Vec<WaitFields>),
    Goroutines(Vec<GoroutineRowFields>),
    Locks(Vec<LockFields>),
    Heap(Vec<HeapRowFields>),
}

/// How far to trust the samples.
#[derive(Debug, Default, Serialize)]
pub(crate) struct QualityFields {
    /// `null` of stacks of which that is not known: imported ones.
    complete_pct: Option<f64>,
    truncated_pct: Option<f64>,
    unsymbolized_pct: f64,
    /// `null` where no one has counted them.
    lost: Option<u64>,
    by_cause: BTreeMap<&'static str, u64>,
    /// Share of the frames that were found in each way.
    frames_found_by_pct: BTreeMap<&'static str, f64>,
}

impl QualityFields {
    pub(crate) fn of(selection: &Selection<'_>) -> Self {
        let quality = &selection.quality;
        QualityFields {
            complete_pct: quality.complete_percent(),
            truncated_pct: quality.truncated_percent(),
            unsymbolized_pct: quality.unnamed_percent(),
            lost: Some(quality.lost).filter(|_| selection.profile.losses_known()),
            by_cause: quality.by_cause.clone(),
            frames_found_by_pct: FoundBy::ALL
                .map(FoundBy::key)
                .into_iter()
                .zip(quality.found_by_percent())
                .collect(),
        }
    }
}

/// How the recording ended.
#[derive(Debug, Serialize)]
pub(crate) struct EndJson {
    reason: String,
    /// Of a launched command, as a shell has it.
    command_status: Option<i32>,
    /// The signal that killed it.
    command_signal: Option<String>,
}

impl EndJson {
    fn of(end: &End) -> Self {
        EndJson {
            reason: end.reason.clone(),
            command_status: end.command_status,
            command_signal: end.command_signal.map(crate::base::units::signal),
        }
    }
}

#[derive(Debug, Serialize)]
struct FunctionJson {
    function: String,
    raw_name: String,
    module: String,
    file: Option<String>,
    line: Option<u32>,
    #[serde(rename = "self")]
    own: u64,
    total: u64,
    samples: u64,
    /// Number that the samples are weighted as: waits are thinned, and short ones only counted.
    count: u64,
    self_pct: f64,
    self_error_pct: f64,
    total_pct: f64,
    threads: u64,
    /// Frames of the function in all samples, by how they were found.
    found_by: BTreeMap<&'static str, u64>,
    /// For the rows of waits: why the threads waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// For rows of addresses: that of the instruction, in the module.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
    /// The same from the start of the function, where its code is in the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
}

#[derive(Debug, Serialize)]
struct TreeRow {
    depth: u32,
    function: String,
    module: String,
    is_inlined: bool,
    is_kernel: bool,
    #[serde(rename = "self")]
    own: u64,
    total: u64,
    samples: u64,
    count: u64,
}

#[derive(Debug, Serialize)]
struct PeekRow {
    function: String,
    module: String,
    #[serde(rename = "self")]
    own: u64,
    total: u64,
    samples: u64,
    callers: Vec<Neighbour>,
    callees: Vec<Neighbour>,
}

/// A caller or callee; without a function where the pivot is the outermost frame.
#[derive(Debug, Serialize)]
struct Neighbour {
    function: Option<String>,
    module: Option<String>,
    total: u64,
    samples: u64,
}

#[derive(Debug, Serialize)]
struct ThreadFields {
    thread: String,
    process: String,
    /// The thread, where each has a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    /// The process, where each has a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    threads: u64,
    processes: u64,
    total: u64,
    samples: u64,
    hottest: Option<String>,
    hottest_self: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<TotalsFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_wait: Option<TopWaitFields>,
}

#[derive(Debug, Serialize)]
struct TopWaitFields {
    reason: &'static str,
    function: String,
    wait_ns: u64,
}

/// The report as a document that ends in a newline.
///
/// # Errors
///
/// A usage failure for a bad pattern; status 3 when nothing matches `--peek`.
pub(crate) fn report(
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &ReportOptions,
) -> anyhow::Result<String> {
    let view = options.view.of(&selection.shown);
    let totals =
        if options.common.is_of_some_waits() { None } else { Totals::of(recording, &options.common)? };
    let tree = match view {
        ReportView::Tree => Some(tree_rows(selection, Direction::TopDown, options)),
        ReportView::BottomUp => Some(tree_rows(selection, Direction::BottomUp, options)),
        _ => None,
    };
    let peek = match view {
        ReportView::Peek(pattern) => Some(peek_rows(selection, pattern, options)?),
        _ => None,
    };
    let profile = &recording.profile;
    document(&Report {
        schema: SCHEMA,
        event: options.common.event_name(selection.shown.name).to_owned(),
        unit: unit_word(selection.shown.unit),
        target: profile.meta.target.clone(),
        clock_part: recording.clock_part.as_ref().map(ClockPart::fields),
        duration_ns: profile.known_duration_ns(),
        threads: threads::threads(selection).iter().map(|row| row.threads).sum(),
        total: selection.total.weight,
        samples: selection.total.samples,
        recorded_total: selection.whole.weight,
        recorded_samples: selection.whole.samples,
        filter: filter_words::description(&options.common.filter),
        percent_of: selection.base().weight,
        is_complete_file: recording.integrity.is_complete && profile.end.is_some(),
        ended: profile.end.as_ref().map(EndJson::of),
        quality: QualityFields::of(selection),
        cost: Cost::of(recording),
        notes: recording.notes_for(selection, &options.common, view),
        hidden_idle: HiddenIdle::of(recording, selection, &options.common)
            .as_ref()
            .map(|hidden| HiddenIdleFields::of(hidden, options.common.names_for_programs())),
        hidden_idle_ns: selection.shown.waits.map(|_| selection.hidden_idle.weight),
        snapshots: (view == &ReportView::Goroutines).then(|| SnapshotFields::of(selection)),
        rows: rows(view, recording, selection, options)?,
        tree,
        peek,
        thread_rows: match view {
            ReportView::Threads => Some(thread_rows(selection, totals.as_ref(), options)),
            _ => None,
        },
        totals: totals.as_ref().map(TotalsFields::of),
    })
}

fn rows(
    view: &ReportView,
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &ReportOptions,
) -> Result<JsonRows, Failure> {
    Ok(match view {
        ReportView::Heap => JsonRows::Heap(heap_rows(recording, selection, options)?),
        ReportView::Waits => JsonRows::Waits(wait_rows(selection, options)),
        ReportView::Locks(by) => JsonRows::Locks(lock_rows(selection, options, *by)),
        ReportView::Goroutines if options.common.grouping.has_reasons() => {
            JsonRows::Goroutines(goroutine_rows(selection, options))
        }
        _ => JsonRows::Functions(function_rows(selection, options)),
    })
}

/// `value` as a JSON document that is safe to print and ends in a newline.
///
/// # Errors
///
/// When `value` cannot be written as JSON.
pub(crate) fn document(value: &impl Serialize) -> anyhow::Result<String> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(safe_text::json(&text).into_owned())
}

pub(super) fn unit_word(unit: crate::profile::Unit) -> &'static str {
    match unit {
        crate::profile::Unit::Nanoseconds => "ns",
        crate::profile::Unit::Bytes => "bytes",
        _ => "count",
    }
}

/// How the frames of each label were found, inlined functions as the frame that they are part of.
fn frames_found_by(selection: &Selection<'_>) -> FxHashMap<LabelId, BTreeMap<&'static str, u64>> {
    let mut of_label: FxHashMap<LabelId, BTreeMap<&'static str, u64>> = FxHashMap::default();
    let samples_of_frame = selection.quality.samples_of_frame.iter().enumerate();
    for (index, &samples) in samples_of_frame.filter(|(_, samples)| **samples > 0) {
        let frame = FrameId(index as u32);
        let way = selection.profile.tables.frame(frame).flags.found_by.key();
        for step in selection.labels.steps(frame) {
            *of_label.entry(step.label).or_default().entry(way).or_default() += samples;
        }
    }
    of_label
}

fn function_rows(selection: &Selection<'_>, options: &ReportOptions) -> Vec<FunctionJson> {
    let mut found_by = frames_found_by(selection);
    let table = FunctionTable::new(selection, options.sort);
    let names = options.common.names_for_programs();
    let whole = selection.base();
    let shown = table.shown(options.limits_for_programs(), options.sort, whole);
    (shown.iter())
        .map(|row| {
            let label = selection.labels.get(row.label);
            let self_pct = percent(row.own.weight, whole.weight);
            FunctionJson {
                function: label.name_in(names).to_owned(),
                raw_name: label.raw_name.clone(),
                module: label.module.clone(),
                file: row.source.as_ref().map(|source| source.file.clone()),
                line: row.source.as_ref().map(|source| source.line).filter(|line| *line > 0),
                own: row.own.weight,
                total: row.total.weight,
                samples: row.own.samples,
                count: row.own.count(),
                self_pct,
                self_error_pct: selection.error_points(row.own),
                total_pct: percent(row.total.weight, whole.weight),
                threads: row.threads,
                found_by: found_by.remove(&row.label).unwrap_or_default(),
                reason: match label.kind {
                    LabelKind::Wait(reason) => Some(reason.label()),
                    _ => None,
                },
                address: label.at.map(|at| at.address),
                offset: label.at.and_then(|at| Some(at.address.wrapping_sub(at.start?))),
            }
        })
        .collect()
}

fn tree_rows(selection: &Selection<'_>, direction: Direction, options: &ReportOptions) -> Vec<TreeRow> {
    let tree = CallTree::new(selection, direction);
    let names = options.common.names_for_programs();
    let least = options.least_percent();
    let order = tree.walk(|node| percent(node.total.weight, selection.base().weight) >= least);
    (order.into_iter().take(options.most_rows()))
        .map(|id| {
            let node = tree.node(id);
            let label = selection.labels.get(node.label);
            TreeRow {
                depth: node.depth,
                function: label.name_in(names).to_owned(),
                module: label.module.clone(),
                is_inlined: node.is_inlined,
                is_kernel: node.is_kernel,
                own: tree.own(id).weight,
                total: node.total.weight,
                samples: node.total.samples,
                count: node.total.count(),
            }
        })
        .collect()
}

fn peek_rows(selection: &Selection<'_>, text: &str, options: &ReportOptions) -> anyhow::Result<Vec<PeekRow>> {
    let found = peek::peek(selection, &pattern("--peek", text)?);
    if found.is_empty() {
        return Err(text::no_match(selection, text).into());
    }
    let names = options.common.names_for_programs();
    let neighbour = |label: Option<crate::report::model::label::LabelId>, amount: Amount| {
        let label = label.map(|label| selection.labels.get(label));
        Neighbour {
            function: label.map(|label| label.name_in(names).to_owned()),
            module: label.map(|label| label.module.clone()),
            total: amount.weight,
            samples: amount.samples,
        }
    };
    let rows = peek::shown(&found, selection, options).iter().map(|found| {
        let label = selection.labels.get(found.label);
        PeekRow {
            function: label.name_in(names).to_owned(),
            module: label.module.clone(),
            own: found.own.weight,
            total: found.total.weight,
            samples: found.total.samples,
            callers: found.callers.iter().map(|(caller, amount)| neighbour(*caller, *amount)).collect(),
            callees: found.callees.iter().map(|(callee, amount)| neighbour(Some(*callee), *amount)).collect(),
        }
    });
    Ok(rows.collect())
}

fn thread_rows(
    selection: &Selection<'_>,
    totals: Option<&Totals>,
    options: &ReportOptions,
) -> Vec<ThreadFields> {
    let rows = match totals {
        Some(totals) => threads::threads_with_times(selection, totals),
        None => threads::threads(selection),
    };
    let shown = threads::shown(&rows, totals.is_some(), selection.base(), options).0.len();
    let names = options.common.names_for_programs();
    (rows.into_iter().take(shown))
        .map(|row| ThreadFields {
            thread: row.thread,
            process: row.process,
            tid: row.tid,
            pid: row.pid,
            threads: row.threads,
            processes: row.processes,
            total: row.amount.weight,
            samples: row.amount.samples,
            hottest: row.hottest.map(|(label, _)| selection.labels.get(label).name_in(names).to_owned()),
            hottest_self: row.hottest.map_or(0, |(_, weight)| weight),
            times: row.times.map(|times| TotalsFields::of_times(&times, row.threads, row.threads_by_samples)),
            top_wait: row.top_wait.map(|top| TopWaitFields {
                reason: top.reason.label(),
                function: name::in_style(&top.place, names).into_owned(),
                wait_ns: top.time_ns,
            }),
        })
        .collect()
}
