//! Writes what a screen shows to a new file with an unused name.

use super::exporter::Rendered;
use super::formats::ExportFormat;
use crate::base::privilege;
use crate::report::analysis::Analysis;
use crate::report::options::{
    ColorWhen, CommonOptions, ExportOptions, ReportDestination, ReportOptions, ReportView, SortKey,
};
use crate::report::print::output;
use crate::report::print::text::page::Page;
use std::path::PathBuf;

/// Limit on the names to try: `prof-1.svg`, `prof-2.svg`, ...
const MOST_NAMES: u32 = 10_000;

/// Formats in which a screen can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportShape {
    /// A format of `prof export`.
    Format(ExportFormat),
    /// The text of a report.
    Text,
}

impl ExportShape {
    /// The formats that the terminal offers.
    pub(crate) fn offered() -> impl Iterator<Item = (Self, char, &'static str)> {
        let all = ExportFormat::ALL.into_iter().map(ExportShape::Format).chain([ExportShape::Text]);
        all.filter_map(|shape| shape.key().map(|(letter, label)| (shape, letter, label)))
    }

    /// Key that selects the format in the terminal, and its label there.
    fn key(self) -> Option<(char, &'static str)> {
        match self {
            ExportShape::Format(format) => format.key(),
            ExportShape::Text => Some(('t', "text")),
        }
    }

    /// Ending of the files, with the dot.
    fn ending(self) -> &'static str {
        match self {
            ExportShape::Format(format) => format.ending(),
            ExportShape::Text => ".txt",
        }
    }
}

/// A file to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExportJob {
    /// Samples and frames to include.
    pub(crate) common: CommonOptions,
    /// Format of the file.
    pub(crate) shape: ExportShape,
    /// View of the report, for text.
    pub(crate) view: ReportView,
    /// Order of the rows of the report.
    pub(crate) sort: SortKey,
    /// Directory and prefix of the file name: `/tmp/prof` for `/tmp/prof-1.svg`.
    pub(crate) stem: PathBuf,
}

impl ExportJob {
    /// Writes the file; returns its path, and what the recording has and the file lacks, for people.
    ///
    /// # Errors
    ///
    /// Fails when no sample matches or the file cannot be written.
    pub(crate) fn run(&self, recording: &Analysis) -> anyhow::Result<(PathBuf, Vec<String>)> {
        let rendered = self.rendered(recording)?;
        for number in 1..MOST_NAMES {
            let mut name = self.stem.clone().into_os_string();
            name.push(format!("-{number}{}", self.shape.ending()));
            let path = PathBuf::from(name);
            let destination = ReportDestination::File { path: path.clone(), force: false };
            // The name is taken, whatever kind of file it is.
            if privilege::as_user(|| std::fs::symlink_metadata(&path)).is_ok() {
                continue;
            }
            output::write_with(&destination, |out| rendered.write(out))?;
            return Ok((path, rendered.notes()));
        }
        anyhow::bail!("cannot write `{}`: too many files with that name", self.stem.display())
    }

    fn rendered<'r>(&self, recording: &'r Analysis) -> anyhow::Result<Box<dyn Rendered + 'r>> {
        match self.shape {
            ExportShape::Format(format) => {
                let common = self.common.clone();
                format.render(recording, &ExportOptions { common, icicle: true, ..ExportOptions::default() })
            }
            ExportShape::Text => {
                let options = ReportOptions {
                    common: self.common.clone(),
                    view: self.view.clone(),
                    sort: self.sort,
                    rows: Some(0),
                    color: ColorWhen::Never,
                    pager: false,
                    ..ReportOptions::default()
                };
                let text = crate::report::print::render::render(recording, &options, &Page::PLAIN)?;
                Ok(Box::new(text.into_bytes()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::fixture::Build;

    #[test]
    fn files_get_names_that_are_free() {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        build.add(task, 3, &["/x:main"]);
        let recording = build.finish();
        let folder = tempfile::tempdir().unwrap();
        let job = ExportJob {
            common: CommonOptions::default(),
            shape: ExportShape::Format(ExportFormat::FOLDED),
            view: ReportView::Flat,
            sort: SortKey::default(),
            stem: folder.path().join("prof"),
        };
        let first = job.run(&recording).unwrap().0;
        let second = job.run(&recording).unwrap().0;
        assert_eq!(
            (first, second),
            (folder.path().join("prof-1.folded"), folder.path().join("prof-2.folded"))
        );
        let (text, _) = ExportJob { shape: ExportShape::Text, ..job }.run(&recording).unwrap();
        assert!(std::fs::read_to_string(text).unwrap().contains("main"));
    }
}
