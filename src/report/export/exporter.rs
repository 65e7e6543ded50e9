//! What an export format is: the trait that each of them implements.

use crate::report::options::ExportOptions;
use crate::report::query::selection::Selection;
use crate::report::recording::Recording;
use std::fmt::Debug;
use std::io::{self, Write};

/// A format that a recording is exported to.
pub(crate) trait Exporter: Debug + Sync {
    /// What it is called on the command line, and the ending of files that are named for the user.
    fn name(&self) -> &'static str;

    /// Endings of file names that ask for it, with the dot.
    fn endings(&self) -> &'static [&'static str];

    /// The key that chooses it in the terminal, and its label there.
    fn key(&self) -> (char, &'static str);

    /// Does all that can fail, before a file is made.
    ///
    /// # Errors
    ///
    /// When the samples cannot be had in this format.
    fn render(
        &self,
        recording: &Recording,
        selection: &Selection<'_>,
        options: &ExportOptions,
    ) -> anyhow::Result<Box<dyn Rendered>>;
}

/// An export that only has to be written.
pub(crate) trait Rendered {
    /// Writes all of it.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    fn write(&self, out: &mut dyn Write) -> io::Result<()>;
}

impl Rendered for Vec<u8> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(self)
    }
}
