//! Writes what a screen shows to a new file with an unused name.

use super::exporter::Rendered;
use super::formats::ExportFormat;
use crate::base::opener;
use crate::report::analysis::Analysis;
use crate::report::options::{
    ColorWhen, CommonOptions, ExportOptions, ReportDestination, ReportOptions, ReportView, SortKey,
};
use crate::report::print::output;
use crate::report::print::text::page::Page;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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

    /// Whether the file holds stacks, whatever the view: only text has the rows of the view.
    pub(crate) fn is_of_stacks(self) -> bool {
        self != ExportShape::Text
    }

    /// Ending of the files, with the dot.
    pub(crate) fn ending(self) -> &'static str {
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
}

impl ExportJob {
    /// Writes the file, whose name begins with `stem`; returns its path, and what the recording has and the file lacks, for
    /// people.
    ///
    /// # Errors
    ///
    /// Fails when no sample matches or the file cannot be written.
    pub(crate) fn run(&self, recording: &Analysis, stem: &Path) -> anyhow::Result<(PathBuf, Vec<String>)> {
        let rendered = self.rendered(recording)?;
        let path = write_to_free_name(stem, self.shape.ending(), |out| rendered.write(out))?;
        Ok((path, rendered.notes()))
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
                let text = match options.view {
                    ReportView::Locks(_) => {
                        // Of a recording from which they were not taken yet.
                        let (locks, common) = options.common.of_waits(Analysis::clone(recording))?;
                        let options = ReportOptions { common, ..options };
                        crate::report::print::render::render(&locks, &options, &Page::PLAIN)?
                    }
                    _ => crate::report::print::render::render(recording, &options, &Page::PLAIN)?,
                };
                Ok(Box::new(text.into_bytes()))
            }
        }
    }
}

/// Writes a file with a name that is free, `/tmp/prof-1.svg` for `/tmp/prof` and `.svg`; returns its path.
///
/// # Errors
///
/// Fails when the file cannot be written.
pub(crate) fn write_to_free_name(
    stem: &Path,
    ending: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<PathBuf> {
    let path_of = |number| {
        let mut name = stem.as_os_str().to_owned();
        name.push(format!("-{number}{ending}"));
        PathBuf::from(name)
    };
    // A name is taken, whatever kind of file has it.
    let is_free = |path: &PathBuf| opener::look(path, false).is_err();
    let Some(path) = (1..MOST_NAMES).map(path_of).find(is_free) else {
        anyhow::bail!("cannot write `{}`: too many files with that name", stem.display())
    };
    output::write_with(&ReportDestination::File { path: path.clone(), force: false }, write)?;
    Ok(path)
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
        };
        let stem = folder.path().join("prof");
        let first = job.run(&recording, &stem).unwrap().0;
        let second = job.run(&recording, &stem).unwrap().0;
        assert_eq!(
            (first, second),
            (folder.path().join("prof-1.folded"), folder.path().join("prof-2.folded"))
        );
        let (text, _) = ExportJob { shape: ExportShape::Text, ..job }.run(&recording, &stem).unwrap();
        assert!(std::fs::read_to_string(text).unwrap().contains("main"));
    }
}
