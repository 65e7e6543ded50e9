//! The formats of this version. A new one is a file in this folder and a line here.

use super::exporter::{Exporter, Rendered};
use super::folded::Folded;
use super::html::Html;
use super::svg::Svg;
use crate::base::failure::Failure;
use crate::report::analysis::Analysis;
use crate::report::options::{ExportOptions, ReportDestination};
use std::path::Path;

/// One of [`ExportFormat::ALL`].
#[derive(Debug, Clone, Copy)]
pub struct ExportFormat(&'static dyn Exporter);

/// Options of `prof export`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExportRequest {
    /// What is written.
    pub(crate) format: ExportFormat,
    /// Where it goes.
    pub(crate) destination: ReportDestination,
    /// Of which samples, and how.
    pub(crate) options: ExportOptions,
}

impl PartialEq for ExportFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for ExportFormat {}

impl ExportFormat {
    /// A flame graph for a browser.
    pub(crate) const SVG: Self = Self(&Svg);
    /// One line for each distinct stack.
    pub(crate) const FOLDED: Self = Self(&Folded);
    /// A page for a browser.
    pub(crate) const HTML: Self = Self(&Html);
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::SVG, Self::HTML, Self::FOLDED];

    /// What it is called on the command line.
    pub(crate) fn name(self) -> &'static str {
        self.0.name()
    }

    /// The key that chooses it in the terminal, and its label there.
    pub(crate) fn key(self) -> (char, &'static str) {
        self.0.key()
    }

    /// The names of all formats, as `--format` takes them: `svg|folded`.
    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join("|")
    }

    /// The format that the ending of `path` names.
    ///
    /// # Errors
    ///
    /// A usage failure that lists the formats of this version.
    pub(crate) fn of_path(path: &Path) -> Result<Self, Failure> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let has_ending = |format: &Self| format.0.endings().iter().any(|ending| name.ends_with(ending));
        Self::ALL.into_iter().find(has_ending).ok_or_else(|| {
            let endings = Self::ALL.map(|format| format.0.endings().join(", ")).join(", ");
            Failure::usage(format!("cannot tell the format of `{}` from its ending", path.display()))
                .hint(format!("endings of this version:  {endings}"))
                .hint(format!("any other name:           --format {}", Self::names()))
        })
    }

    /// What is to be written of `recording`.
    ///
    /// # Errors
    ///
    /// When no sample matches, or the samples cannot be had in this format.
    pub(super) fn render(
        self,
        recording: &Analysis,
        options: &ExportOptions,
    ) -> anyhow::Result<Box<dyn Rendered>> {
        self.0.render(recording, &recording.select(&options.common)?, options)
    }
}
