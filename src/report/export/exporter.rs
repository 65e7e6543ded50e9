//! What an export format is, and what is written of one.

use crate::report::analysis::Analysis;
use crate::report::options::ExportOptions;
use crate::report::query::selection::Selection;
use std::io::{self, Write};

/// A format that a recording is exported to.
#[derive(Debug)]
pub(crate) struct Exporter {
    /// What it is called on the command line.
    pub(super) name: &'static str,
    /// Endings of file names that ask for it, with the dot. The first is that of files that are named for the user.
    pub(super) endings: &'static [&'static str],
    /// How the names of files begin that ask for it, whatever they end in.
    pub(super) beginning: Option<&'static str>,
    /// Whether its files are no text.
    pub(super) is_binary: bool,
    /// The key that chooses it in the terminal, and its label there; `None` where it is not offered.
    pub(super) key: Option<(char, &'static str)>,
    /// Does all that can fail, before a file is made.
    pub(super) render: Render,
}

/// How a format is made ready to be written.
#[derive(Debug)]
pub(super) enum Render {
    /// Formats of other tools, which hold several events: of the waits besides the running time, where nothing was chosen.
    Stacks(for<'r> fn(Selection<'r>, &ExportOptions) -> Box<dyn Rendered + 'r>),
    /// In any way; it may find that the samples cannot be had in this format.
    Any(for<'r> fn(&'r Analysis, Selection<'r>, &ExportOptions) -> anyhow::Result<Box<dyn Rendered + 'r>>),
}

impl Exporter {
    /// What a format is where it does not say otherwise: text, and not offered in the terminal.
    pub(super) const NONE: Self = Exporter {
        name: "",
        endings: &[],
        beginning: None,
        is_binary: false,
        key: None,
        render: Render::Stacks(|_, _| Box::new(Vec::<u8>::new())),
    };
}

/// An export that only has to be written.
pub(crate) trait Rendered {
    /// Writes all of it.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    fn write(&self, out: &mut dyn Write) -> io::Result<()>;

    /// What the recording has and the file does not, for people. Quotes foreign names.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Rendered for Vec<u8> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(self)
    }
}
