//! What an export format is: the trait that each of them implements.

use crate::report::analysis::Analysis;
use crate::report::options::ExportOptions;
use crate::report::query::selection::Selection;
use std::fmt::Debug;
use std::io::{self, Write};

/// A format that a recording is exported to.
pub(crate) trait Exporter: Debug + Sync {
    /// What it is called on the command line.
    fn name(&self) -> &'static str;

    /// Endings of file names that ask for it, with the dot. The first is that of files that are named for the user.
    fn endings(&self) -> &'static [&'static str];

    /// How the names of files begin that ask for it, whatever they end in.
    fn beginning(&self) -> Option<&'static str> {
        None
    }

    /// Whether its files are no text.
    fn is_binary(&self) -> bool {
        false
    }

    /// The key that chooses it in the terminal, and its label there; `None` where it is not offered.
    fn key(&self) -> Option<(char, &'static str)> {
        None
    }

    /// Does all that can fail, before a file is made.
    ///
    /// # Errors
    ///
    /// When the samples cannot be had in this format.
    fn render<'r>(
        &self,
        recording: &'r Analysis,
        selection: Selection<'r>,
        options: &ExportOptions,
    ) -> anyhow::Result<Box<dyn Rendered + 'r>>;
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
