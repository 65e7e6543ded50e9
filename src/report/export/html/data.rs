//! Data of a page, as the JSON document inside it (`prof.page/1`): for each event its call tree, the rows of its table,
//! and the lines above and below a report of it.

use super::labels::{BoxKind, PageLabel, PageLabels};
use super::tree::{LeftOut, Occurrences, PageTree, TreeColumns, Weighing};
use crate::base::{safe_text, units};
use crate::profile::Unit;
use crate::report::analysis::Analysis;
use crate::report::export::caption;
use crate::report::model::metric::{Metric, Shown};
use crate::report::model::totals::Totals;
use crate::report::naming::style::NameStyle;
use crate::report::options::{CommonOptions, ExportOptions, SortKey, ThreadSplit};
use crate::report::print::text::{header, page::Page};
use crate::report::query::notes;
use crate::report::query::selection::Selection;
use crate::report::views::function_table::{FunctionRow, FunctionTable};
use serde::Serialize;

/// Schema version of the document.
const SCHEMA: &str = "prof.page/1";

/// Most rows of a table; the rest are summed in one row.
const MOST_ROWS: usize = 5_000;

/// Width of a header line, so large that none is wrapped.
const LINE_COLUMNS: usize = 100_000;

/// Most events of a page, since a foreign file may have any number.
const MOST_EVENTS: usize = 32;

/// The JSON document.
#[derive(Debug, Serialize)]
pub(super) struct PageData {
    schema: &'static str,
    version: &'static str,
    /// Title of the document if the options set one; else each event has its own.
    pub(super) title: Option<String>,
    pub(super) subtitle: Option<String>,
    is_icicle: bool,
    is_bottom_up: bool,
    /// Threads that are shown at first: `class`, `each` (by name or id) or `merged`.
    threads: &'static str,
    kinds: [&'static str; BoxKind::KEYS.len()],
    pub(super) labels: PageLabels,
    /// Events, the one that is shown at first in front.
    pub(super) events: Vec<EventData>,
}

/// One event, or running and waiting time together.
#[derive(Debug, Serialize)]
pub(super) struct EventData {
    /// Name of the event in links.
    id: String,
    pub(super) title: String,
    /// Title of the document while the event is shown.
    pub(super) caption: String,
    /// `ns`, `bytes` or `count`.
    unit: &'static str,
    /// Noun after a weight that is neither a time nor a size.
    count_name: String,
    /// Noun for one sample.
    noun: String,
    /// Whether the samples are statistical, so that shares have a sampling error.
    is_sampled: bool,
    pub(super) total: u64,
    samples: u64,
    n: Occurrences,
    pub(super) header: Vec<String>,
    pub(super) notes: Vec<String>,
    left_out: LeftOut,
    tree: TreeColumns,
    pub(super) rows: RowColumns,
}

/// The rows of a table, column by column, largest first.
#[derive(Debug, Default, Serialize)]
pub(super) struct RowColumns {
    pub(super) label: Vec<PageLabel>,
    pub(super) own: Vec<u64>,
    pub(super) total: Vec<u64>,
    /// Number of samples or waits that end in the function.
    pub(super) n: Vec<Occurrences>,
    /// Half the width of the 95 % confidence interval of the self share, percentage points.
    pub(super) error: Vec<f64>,
    /// Index in `places` of `file:line`, which is empty when unknown.
    pub(super) place: Vec<u32>,
    pub(super) places: Vec<String>,
    /// Number of rows that are left out of the page; then their self weight.
    pub(super) left_out: u64,
    left_out_own: u64,
}

impl PageData {
    /// Creates the document of `selection`, and of all other events of its recording with the same options.
    ///
    /// # Errors
    ///
    /// Returns a usage error for a bad pattern.
    pub(super) fn new(selection: &Selection<'_>, options: &ExportOptions) -> anyhow::Result<Self> {
        let recording = selection.analysis();
        let mut labels = PageLabels::default();
        let first = selection.shown.metric();
        let mut events = vec![EventData::new(selection, options, &mut labels)?];
        let others = Metric::all_of(&recording.profile).into_iter().filter(|metric| *metric != first);
        for metric in others.take(MOST_EVENTS) {
            let common = CommonOptions { metric: Some(metric), ..options.common.clone() };
            let other = Selection::new(recording, Shown::of(&recording.profile, Some(metric))?, &common)?;
            // An event without matching samples is left out rather than an error.
            if (Weighing { count: options.count }).of(other.total) > 0 {
                let options = ExportOptions { common, ..options.clone() };
                events.push(EventData::new(&other, &options, &mut labels)?);
            }
        }
        Ok(PageData {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            title: options.title.as_deref().map(line),
            subtitle: caption::subtitle(recording, options).as_deref().map(line),
            is_icicle: options.icicle,
            is_bottom_up: options.bottom_up,
            threads: match options.common.threads {
                Some(ThreadSplit::Each | ThreadSplit::Name) => "each",
                Some(ThreadSplit::None) => "merged",
                _ => "class",
            },
            kinds: BoxKind::KEYS,
            labels,
            events,
        })
    }

    /// Notes on what the page leaves out so that it opens quickly, in sentences.
    pub(super) fn left_out(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for event in &self.events {
            let LeftOut { boxes, largest_pct } = event.left_out;
            let title = &event.title;
            if boxes > 0 {
                let boxes = units::counted(boxes, "box");
                notes.push(format!(
                    "{title}: {boxes}, at most {largest_pct:.2}% each, left out of the graph to keep the page small; totals are exact"
                ));
            }
            if event.rows.left_out > 0 {
                let rows = units::counted(event.rows.left_out, "function");
                notes.push(format!("{title}: {rows} with the smallest self left out of the table"));
            }
        }
        if self.labels.cut > 0 {
            let names = units::counted(self.labels.cut, "name");
            notes.push(format!("{names} cut to keep the page small"));
        }
        notes
    }

    /// Title of the document while the first event is shown.
    pub(super) fn first_title(&self) -> &str {
        let first = self.events.first().map_or("", |event| &event.caption);
        self.title.as_deref().unwrap_or(first)
    }
}

impl EventData {
    fn new(
        selection: &Selection<'_>,
        options: &ExportOptions,
        labels: &mut PageLabels,
    ) -> anyhow::Result<Self> {
        let recording = selection.analysis();
        let names = options.common.names.unwrap_or(NameStyle::Short);
        let weighing = Weighing { count: options.count };
        let tree = PageTree::new(selection, names, labels);
        let rest = labels.of_text("…", BoxKind::Rest);
        let (tree, left_out) = tree.columns(weighing, options.min_percent.unwrap_or(0.0), rest);
        let shown = &selection.shown;
        Ok(EventData {
            id: line(shown.name),
            title: shown.title.to_string(),
            caption: line(&caption::title(recording, selection, options.count)),
            unit: match shown.unit {
                _ if options.count => "count",
                Unit::Nanoseconds => "ns",
                Unit::Bytes => "bytes",
                _ => "count",
            },
            count_name: caption::count_name(selection, options.count),
            noun: if shown.waits.is_some() && shown.sampled.is_none() {
                "wait".to_owned()
            } else {
                shown.noun.to_string()
            },
            is_sampled: shown.waits.is_none(),
            total: weighing.of(selection.total),
            samples: selection.total.samples,
            n: Occurrences::of(selection.total),
            header: header_lines(recording, selection, &options.common)?,
            notes: (notes::report_notes(recording, selection, &options.common).iter())
                .map(|note| safe_text::message(note).into_owned())
                .collect(),
            left_out,
            tree,
            rows: RowColumns::new(selection, names, weighing, labels),
        })
    }

    /// A weight in the unit of the event, formatted for a column that adds up to the total.
    pub(super) fn weight_text(&self, weight: u64) -> String {
        let unit = match self.unit {
            "ns" => Unit::Nanoseconds,
            "bytes" => Unit::Bytes,
            _ => Unit::Count,
        };
        units::weight(unit, weight, self.total)
    }
}

/// The header lines of a report.
fn header_lines(
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &CommonOptions,
) -> anyhow::Result<Vec<String>> {
    let totals = Totals::of(recording, options)?;
    let page = Page { width: LINE_COLUMNS, ..Page::PLAIN };
    let text = header::header(recording, selection, totals.as_ref(), &options.filter, &page);
    Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

impl RowColumns {
    fn new(selection: &Selection<'_>, names: NameStyle, weighing: Weighing, labels: &mut PageLabels) -> Self {
        let sort = if weighing.count { SortKey::Count } else { SortKey::SelfWeight };
        let table = FunctionTable::new(selection, sort);
        let (shown, others) = table.rows.split_at(table.rows.len().min(MOST_ROWS));
        let mut rows = RowColumns { places: vec![String::new()], ..RowColumns::default() };
        for row in shown {
            rows.push(selection, row, names, weighing, labels);
        }
        rows.left_out = others.len() as u64;
        rows.left_out_own = others.iter().map(|row| weighing.of(row.own)).fold(0, u64::saturating_add);
        rows
    }

    fn push(
        &mut self,
        selection: &Selection<'_>,
        row: &FunctionRow,
        names: NameStyle,
        weighing: Weighing,
        labels: &mut PageLabels,
    ) {
        self.label.push(labels.of_label(selection, row.label, names));
        self.own.push(weighing.of(row.own));
        self.total.push(weighing.of(row.total));
        self.n.push(Occurrences::of(row.own));
        let error = if weighing.count {
            units::share_error_points(
                units::percent(row.own.count(), selection.total.count()),
                selection.total.samples,
            )
        } else {
            // Shares in the page are relative to the filtered total.
            row.own.share_error_points(selection.total, selection.shown.waits.is_some())
        };
        // Two decimals are more than the page ever shows.
        self.error.push((error * 100.0).round() / 100.0);
        let place = row.source.as_ref().map(|source| match source.line {
            0 => source.file.clone(),
            line => format!("{}:{line}", source.file),
        });
        self.place.push(place.map_or(0, |place| {
            self.places.push(line(&place));
            self.places.len() as u32 - 1
        }));
    }
}

/// Makes foreign text safe to show in one line of a page.
fn line(text: &str) -> String {
    safe_text::terminal(text).into_owned()
}
