//! Options of a comparison, as plain values.

use super::gate::rule::GateRule;
use super::per::Per;
use super::sums::run::PathSums;
use crate::report::{ColorWhen, CommonOptions, HeapView, ReportDestination, RowLimits};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The recordings of both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sides {
    /// Arguments as they were typed: files, folders, patterns, comma-separated lists.
    Words([Vec<PathBuf>; 2]),
    /// The files of base and new.
    Files([Vec<PathBuf>; 2]),
}

/// View of a comparison in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DiffView {
    /// One row per function.
    #[default]
    Flat,
    /// Call tree, callers above callees.
    Tree,
}

/// Output format of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DiffFormat {
    /// Text for people.
    #[default]
    Text,
    /// JSON, `prof.diff/1`.
    Json,
    /// Tab-separated: a header line and one line per row.
    Tsv,
    /// Go benchmark results, one line per run, for benchstat.
    GoBench,
    /// Bencher Metric Format, with the values of the new side.
    Bmf,
    /// Estimates in Criterion's form.
    Criterion,
    /// Differential flame graph.
    Svg,
}

impl DiffFormat {
    /// All formats with their names for `--format`.
    pub(crate) const ALL: [(&'static str, DiffFormat); 7] = [
        ("text", DiffFormat::Text),
        ("json", DiffFormat::Json),
        ("tsv", DiffFormat::Tsv),
        ("gobench", DiffFormat::GoBench),
        ("bmf", DiffFormat::Bmf),
        ("criterion", DiffFormat::Criterion),
        ("svg", DiffFormat::Svg),
    ];
}

/// Sort key of the rows, largest first; it also decides which value of a function is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DiffSort {
    /// Difference of self time.
    #[default]
    Own,
    /// Difference of total time.
    Total,
    /// Change of self time relative to the base.
    Change,
    /// Significance of the change of self time.
    P,
}

/// Conditions under which the exit status reports a regression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GateOptions {
    /// Rules on what must not grow.
    pub(crate) rules: Vec<GateRule>,
    /// Growth that counts where a rule gives no limit, as a part of the base: 0.05.
    pub(crate) least: f64,
    /// Whether one recording per side is enough.
    pub(crate) single_run_ok: bool,
}

impl GateOptions {
    /// Default of the growth that counts.
    pub(crate) const DEFAULT_LEAST: f64 = 0.05;
}

/// All options of `prof diff`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DiffOptions {
    /// The recordings.
    pub(crate) sides: Sides,
    /// Those of its files that were found in folders: of these, what is no recording is passed over.
    pub(crate) of_folders: BTreeSet<PathBuf>,
    /// Which samples and frames, on both sides.
    pub(crate) common: CommonOptions,
    /// Of the heap: the times whose live blocks are compared, of base and new, ns since the start of a recording.
    pub(crate) heap_times: Option<[u64; 2]>,
    /// Divisor of the values; `None` lets the recordings decide.
    pub(crate) per: Option<Per>,
    /// View for text.
    pub(crate) view: DiffView,
    /// Output format.
    pub(crate) format: DiffFormat,
    /// Destination of the output.
    pub(crate) destination: ReportDestination,
    /// Sort key of the rows.
    pub(crate) sort: DiffSort,
    /// Most rows, 0 for all; `None` for the default of the view.
    pub(crate) rows: Option<usize>,
    /// Leave out rows and branches with less than this share of both sides, percent; `None` for the default of the
    /// view.
    pub(crate) min_percent: Option<f64>,
    /// Options of the gate.
    pub(crate) gate: GateOptions,
    /// Whether to colour text.
    pub(crate) color: ColorWhen,
    /// Whether to page text that does not fit the terminal.
    pub(crate) pager: bool,
}

impl DiffOptions {
    /// The defaults of `prof diff`, with these samples and frames, for recordings in memory.
    pub(crate) fn plain(common: CommonOptions) -> Self {
        DiffOptions {
            sides: Sides::Files([Vec::new(), Vec::new()]),
            of_folders: BTreeSet::new(),
            common,
            heap_times: None,
            per: None,
            view: DiffView::default(),
            format: DiffFormat::default(),
            destination: ReportDestination::Stdout,
            sort: DiffSort::default(),
            rows: None,
            min_percent: None,
            gate: GateOptions { rules: Vec::new(), least: GateOptions::DEFAULT_LEAST, single_run_ok: false },
            color: ColorWhen::Never,
            pager: false,
        }
    }

    /// Samples and frames of the base (0) or the new side (1).
    pub(super) fn common_of(&self, side: usize) -> CommonOptions {
        let at = self.heap_times.map(|times| HeapView::LiveAtOneOf(times[side], times[1 - side]));
        CommonOptions { heap: at.or(self.common.heap), ..self.common.clone() }
    }

    /// Returns the sums of call paths that the output needs.
    pub(super) fn path_sums(&self) -> PathSums {
        match (self.format, self.view) {
            (DiffFormat::Svg, _) | (DiffFormat::Text | DiffFormat::Json, DiffView::Tree) => PathSums::Tested,
            (DiffFormat::Text, DiffView::Flat) => PathSums::Costs,
            _ => PathSums::None,
        }
    }

    /// Limit on the number of rows, for formats that show all rows by default.
    pub(super) fn most_rows(&self) -> usize {
        RowLimits::for_programs(self.rows, None).most
    }
}
