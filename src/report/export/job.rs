//! Writing what a screen shows to a new file, whose name is chosen so that nothing is replaced.

use super::rendered::Rendered;
use crate::base::privilege;
use crate::report::options::{
    ColorWhen, CommonOptions, Destination, ExportFormat, ExportOptions, ReportOptions, SortKey, View,
};
use crate::report::print::output;
use crate::report::print::text::page::Page;
use crate::report::recording::Recording;
use std::path::PathBuf;

/// Names that are tried before giving up: `prof-1.svg`, `prof-2.svg`, ...
const MOST_NAMES: u32 = 10_000;

/// The kinds of files that can be written of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportShape {
    /// A flame graph for a browser.
    Svg,
    /// One line for each distinct stack.
    Folded,
    /// A report.
    Text,
}

impl ExportShape {
    /// The ending of its files.
    pub fn ending(self) -> &'static str {
        match self {
            ExportShape::Svg => "svg",
            ExportShape::Folded => "folded",
            ExportShape::Text => "txt",
        }
    }
}

/// One file to write.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportJob {
    /// Which samples and frames.
    pub common: CommonOptions,
    /// The kind of file.
    pub shape: ExportShape,
    /// The report, for text.
    pub view: View,
    /// The order of its rows.
    pub sort: SortKey,
    /// Where the files are put, and how their names begin: `/tmp/prof` for `/tmp/prof-1.svg`.
    pub stem: PathBuf,
}

impl ExportJob {
    /// Writes the file; returns its name.
    ///
    /// # Errors
    ///
    /// When no sample matches or the file cannot be written.
    pub fn run(&self, recording: &Recording) -> anyhow::Result<PathBuf> {
        let rendered = self.rendered(recording)?;
        for number in 1..MOST_NAMES {
            let mut name = self.stem.clone().into_os_string();
            name.push(format!("-{number}.{}", self.shape.ending()));
            let path = PathBuf::from(name);
            let destination = Destination::File { path: path.clone(), force: false };
            // Something of that name is there, whatever it is.
            if privilege::as_user(|| std::fs::symlink_metadata(&path)).is_ok() {
                continue;
            }
            output::write_with(&destination, |out| rendered.write(out))?;
            return Ok(path);
        }
        anyhow::bail!("cannot write `{}`: too many files of that name", self.stem.display())
    }

    fn rendered(&self, recording: &Recording) -> anyhow::Result<Rendered> {
        let format = match self.shape {
            ExportShape::Svg => ExportFormat::Svg,
            ExportShape::Folded => ExportFormat::Folded,
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
                return Ok(Rendered::Bytes(text.into_bytes()));
            }
        };
        Rendered::new(
            recording,
            &ExportOptions {
                common: self.common.clone(),
                format,
                destination: Destination::Stdout,
                count: false,
                title: None,
                subtitle: None,
                icicle: true,
                no_meta: false,
                min_percent: None,
            },
        )
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
            shape: ExportShape::Folded,
            view: View::Flat,
            sort: SortKey::default(),
            stem: folder.path().join("prof"),
        };
        let first = job.run(&recording).unwrap();
        let second = job.run(&recording).unwrap();
        assert_eq!(
            (first, second),
            (folder.path().join("prof-1.folded"), folder.path().join("prof-2.folded"))
        );
        let text = ExportJob { shape: ExportShape::Text, ..job }.run(&recording).unwrap();
        assert!(std::fs::read_to_string(text).unwrap().contains("main"));
    }
}
