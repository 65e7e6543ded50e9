//! The formats of this version. A new format is a file, here or in `tools`, and a line in the table.

use super::exporter::{Exporter, Render, Rendered};
use super::tools::stacks::with_waits;
use super::tools::{callgrind, firefox, json, perf_script, perfetto, pprof, speedscope};
use super::{folded, html, series, svg};
use crate::base::failure::Failure;
use crate::report::analysis::Analysis;
use crate::report::options::{ExportOptions, ReportDestination};
use std::io::IsTerminal;
use std::path::Path;

/// One of [`ExportFormat::ALL`].
#[derive(Debug, Clone, Copy)]
pub struct ExportFormat(&'static Exporter);

/// Options of `prof export`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExportRequest {
    /// Format of the output.
    pub(crate) format: ExportFormat,
    /// Destination of the export.
    pub(crate) destination: ReportDestination,
    /// Samples and frames to export, and how.
    pub(crate) options: ExportOptions,
}

impl PartialEq for ExportFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for ExportFormat {}

impl ExportFormat {
    /// Flame graph for a browser.
    pub(crate) const SVG: Self = Self(&svg::EXPORTER);
    /// Folded stacks: one line per distinct stack.
    pub(crate) const FOLDED: Self = Self(&folded::EXPORTER);
    /// Page for a browser.
    pub(crate) const HTML: Self = Self(&html::EXPORTER);
    /// All formats.
    pub(crate) const ALL: [Self; 11] = [
        Self::SVG,
        Self::HTML,
        Self::FOLDED,
        Self(&pprof::EXPORTER),
        Self(&speedscope::EXPORTER),
        Self(&firefox::EXPORTER),
        Self(&perfetto::EXPORTER),
        Self(&callgrind::EXPORTER),
        Self(&json::EXPORTER),
        Self(&perf_script::EXPORTER),
        Self(&series::otlp::EXPORTER),
    ];

    /// Name on the command line.
    pub(crate) fn name(self) -> &'static str {
        self.0.name
    }

    /// Checks that the format may be written to standard output.
    ///
    /// # Errors
    ///
    /// Fails when standard output is a terminal and the format is binary.
    pub(super) fn check_stdout(self) -> Result<(), Failure> {
        if !self.0.is_binary || !std::io::stdout().is_terminal() {
            return Ok(());
        }
        let name = self.name();
        Err(Failure::usage(format!("{name} is not text, and standard output is a terminal"))
            .hint(format!("to a file:  -o NAME{}", self.ending())))
    }

    /// Key that selects the format in the terminal, and its label there; `None` if it is not offered.
    pub(crate) fn key(self) -> Option<(char, &'static str)> {
        self.0.key
    }

    /// Ending of generated file names, with the dot.
    pub(super) fn ending(self) -> &'static str {
        self.0.endings.first().copied().unwrap_or_default()
    }

    /// The names of all formats, as `--format` takes them: `svg|folded`.
    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join("|")
    }

    /// The format that the name of `path` selects.
    ///
    /// # Errors
    ///
    /// Returns a usage error that lists the formats of this version.
    pub(crate) fn of_path(path: &Path) -> Result<Self, Failure> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        // The longest match wins: `.speedscope.json` over `.json`.
        let found = Self::ALL.into_iter().filter_map(|format| Some((format.suits(&name)?, format)));
        found.max_by_key(|(length, _)| *length).map(|(_, format)| format).ok_or_else(|| {
            let ways = Self::ALL.map(Self::ways).join(", ");
            Failure::usage(format!("cannot tell the format of `{}` from its ending", path.display()))
                .hint(format!("endings of this version:  {ways}"))
                .hint(format!("any other name:           --format {}", Self::names()))
        })
    }

    /// Number of characters of a file name that select this format; `None` if none do.
    fn suits(self, name: &str) -> Option<usize> {
        let ending = self.0.endings.iter().filter(|ending| name.ends_with(**ending));
        let beginning = self.0.beginning.filter(|beginning| name.starts_with(beginning));
        ending.copied().chain(beginning).map(str::len).max()
    }

    /// File names that select the format.
    fn ways(self) -> String {
        let beginning = self.0.beginning.map(|beginning| format!("{beginning}*"));
        beginning
            .into_iter()
            .chain(self.0.endings.iter().map(|&ending| ending.to_owned()))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Renders `recording`.
    ///
    /// # Errors
    ///
    /// Fails when no sample matches, or the format cannot represent the samples.
    pub(super) fn render<'r>(
        self,
        recording: &'r Analysis,
        options: &ExportOptions,
    ) -> anyhow::Result<Box<dyn Rendered + 'r>> {
        let selection = recording.select(&options.common)?;
        match self.0.render {
            Render::Stacks(render) => Ok(render(with_waits(recording, selection, options)?, options)),
            Render::Any(render) => render(recording, selection, options),
        }
    }
}
