//! A file of what the screen shows: of one recording, or of both sides of a comparison as `prof diff` writes them.

use super::sides::ChangeSides;
use crate::diff::{DiffFormat, DiffOptions, DiffSort};
use crate::report::{
    ExportFormat, ExportJob, ExportShape, Grouping, Seen, SortKey, ThreadSplit, TimeRange, write_to_free_name,
};
use std::path::PathBuf;

/// A file to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScreenExport {
    /// Content of the file.
    pub(crate) of: ExportOf,
    /// Directory and prefix of the file name: `/tmp/prof` for `/tmp/prof-1.svg`.
    pub(crate) stem: PathBuf,
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExportOf {
    /// A recording: of a comparison the side that is shown.
    Recording(Box<ExportJob>, Seen),
    /// Both sides of a comparison.
    Sides(Box<SidesExport>),
}

/// Export of both sides of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SidesExport {
    /// The sides.
    pub(crate) sides: ChangeSides,
    /// Format of the file.
    pub(crate) shape: ExportShape,
    /// Order of the rows.
    pub(crate) sort: SortKey,
    /// Rows are threads, merged so, instead of functions.
    pub(crate) threads: Option<ThreadSplit>,
}

impl ScreenExport {
    /// Writes the file; returns its path, and what the recordings have and the file lacks, for people.
    ///
    /// # Errors
    ///
    /// Fails when no sample matches or the file cannot be written.
    pub(crate) fn run(&self) -> anyhow::Result<(PathBuf, Vec<String>)> {
        match &self.of {
            ExportOf::Recording(job, recording) => job.run(&recording.0, &self.stem),
            ExportOf::Sides(job) => {
                let printed = job.sides.render(job.threads, &job.options())?;
                let path =
                    write_to_free_name(&self.stem, job.shape.ending(), |out| out.write_all(&printed.bytes))?;
                Ok((path, printed.notes.into_iter().chain(job.sides.note()).collect()))
            }
        }
    }
}

impl SidesExport {
    /// Whether files of this format hold both sides.
    pub(crate) fn is_of_both(shape: ExportShape) -> bool {
        format_of(shape).is_some()
    }

    fn options(&self) -> DiffOptions {
        let mut common = self.sides.shown().1.clone();
        if self.sides.is_of_ranges() {
            // The ranges are what is compared, and named as the sides.
            common.filter.time = TimeRange::default();
        }
        if self.threads.is_some() {
            common.grouping = Grouping::Thread;
        }
        let sort = if self.sort == SortKey::TotalWeight { DiffSort::Total } else { DiffSort::Own };
        let format = format_of(self.shape).unwrap_or_default();
        DiffOptions { format, sort, rows: Some(0), ..DiffOptions::plain(common) }
    }
}

/// The format of `prof diff` that takes the place of a format of one recording.
fn format_of(shape: ExportShape) -> Option<DiffFormat> {
    match shape {
        ExportShape::Format(format) => (format == ExportFormat::SVG).then_some(DiffFormat::Svg),
        ExportShape::Text => Some(DiffFormat::Text),
    }
}
