//! Interface of an export format.

use crate::report::analysis::Analysis;
use crate::report::options::ExportOptions;
use crate::report::query::selection::Selection;
use std::io::{self, Write};

/// An export format.
#[derive(Debug)]
pub(crate) struct Exporter {
    /// Name on the command line.
    pub(super) name: &'static str,
    /// File name endings that select the format, with the dot. Generated file names use the first.
    pub(super) endings: &'static [&'static str],
    /// File name prefix that selects the format, whatever the ending.
    pub(super) beginning: Option<&'static str>,
    /// Whether the files are binary rather than text.
    pub(super) is_binary: bool,
    /// Key that selects the format in the terminal, and its label there; `None` if it is not offered.
    pub(super) key: Option<(char, &'static str)>,
    /// Does everything that can fail before a file is created.
    pub(super) render: Render,
}

/// Way in which a format renders a selection.
#[derive(Debug)]
pub(super) enum Render {
    /// Formats of other tools that hold several events: waits in addition to running time, unless a metric was chosen.
    Stacks(for<'r> fn(Selection<'r>, &ExportOptions) -> Box<dyn Rendered + 'r>),
    /// Any other format; it may find that it cannot represent the samples.
    Any(for<'r> fn(&'r Analysis, Selection<'r>, &ExportOptions) -> anyhow::Result<Box<dyn Rendered + 'r>>),
}

impl Exporter {
    /// Defaults for the fields of a format: text, and not offered in the terminal.
    pub(super) const NONE: Self = Exporter {
        name: "",
        endings: &[],
        beginning: None,
        is_binary: false,
        key: None,
        render: Render::Stacks(|_, _| Box::new(Vec::<u8>::new())),
    };
}

/// An export that is ready to be written.
pub(crate) trait Rendered {
    /// Writes the whole file.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    fn write(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Notes on what the recording has and the file lacks, for people. Quotes foreign names.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Rendered for Vec<u8> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(self)
    }
}
