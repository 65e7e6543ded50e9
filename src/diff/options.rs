//! What is compared and how it is shown, as plain values.

use super::gate::rule::GateRule;
use super::per::Per;
use crate::report::{ColorWhen, CommonOptions, ReportDestination};
use std::path::PathBuf;

/// The recordings of both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sides {
    /// As they were typed: files, folders, patterns, lists with commas.
    Words([Vec<PathBuf>; 2]),
    /// Files.
    Files([Vec<PathBuf>; 2]),
}

/// The shape of a comparison for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DiffView {
    /// One row for each function.
    #[default]
    Flat,
    /// Callers above what they call.
    Tree,
}

/// The language of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DiffFormat {
    /// For people.
    #[default]
    Text,
    /// `prof.diff/1`.
    Json,
    /// A header line and one line for each row, cells separated by tabs.
    Tsv,
    /// Results of Go benchmarks, one line for each run, as benchstat reads them.
    GoBench,
    /// Bencher Metric Format, of the new side.
    Bmf,
    /// Estimates in the form that Criterion keeps them.
    Criterion,
    /// A differential flame graph.
    Svg,
}

impl DiffFormat {
    /// All formats by the names that `--format` has for them.
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

/// The order of rows, largest first; which value of a function is shown follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DiffSort {
    /// The difference of own time.
    #[default]
    Own,
    /// The difference of own time and that of everything called.
    Total,
    /// The change of own time relative to the base.
    Change,
    /// How sure it is that own time changed.
    P,
}

/// When the exit status says that something became slower.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GateOptions {
    /// What must not grow.
    pub(crate) rules: Vec<GateRule>,
    /// Growth that counts where a rule does not say how much, as a part of the base: 0.05.
    pub(crate) least: f64,
    /// One recording a side is enough.
    pub(crate) single_run_ok: bool,
}

impl GateOptions {
    /// Growth that counts where nothing else is asked for.
    pub(crate) const DEFAULT_LEAST: f64 = 0.05;
}

/// All options of `prof diff`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DiffOptions {
    /// The recordings.
    pub(crate) sides: Sides,
    /// Which samples and frames, of both sides.
    pub(crate) common: CommonOptions,
    /// What the values are divided by; `None` leaves it to the recordings.
    pub(crate) per: Option<Per>,
    /// The shape of text.
    pub(crate) view: DiffView,
    /// The language.
    pub(crate) format: DiffFormat,
    /// Where it goes.
    pub(crate) destination: ReportDestination,
    /// The order of rows.
    pub(crate) sort: DiffSort,
    /// Most rows, 0 for all; `None` leaves it to the view.
    pub(crate) rows: Option<usize>,
    /// Leave out rows and branches with less than this share of both sides, percent; `None` leaves it to the view.
    pub(crate) min_percent: Option<f64>,
    /// The gate.
    pub(crate) gate: GateOptions,
    /// When text is coloured.
    pub(crate) color: ColorWhen,
    /// Whether text that does not fit the terminal goes through a pager.
    pub(crate) pager: bool,
}

impl DiffOptions {
    /// Rows of text when nothing else is asked for.
    pub(crate) const DEFAULT_ROWS: usize = 20;
    /// Smallest branch of a tree when nothing else is asked for, percent of the larger side.
    pub(crate) const DEFAULT_TREE_MIN_PERCENT: f64 = 1.0;

    /// Whether call paths are needed.
    pub(super) fn has_paths(&self) -> bool {
        matches!(self.format, DiffFormat::Text | DiffFormat::Svg)
            || (self.format == DiffFormat::Json && self.view == DiffView::Tree)
    }

    /// Most rows, where all are shown unless fewer are asked for.
    pub(super) fn most_rows(&self) -> usize {
        self.rows.filter(|rows| *rows > 0).unwrap_or(usize::MAX)
    }
}
