//! A profile as a file for other programs, written whole or not at all.

mod folded;
mod job;
mod palette;
pub(crate) mod rendered;
mod svg;
mod text_tree;

use super::options::{ExportFormat, ExportOptions};
use super::print::output;
use super::recording::Recording;
use crate::base::failure::Failure;
use crate::report::export::rendered::Rendered;
pub use folded::folded;
pub use job::{ExportJob, ExportShape};
use std::path::Path;

/// File name endings, and what is written for each.
const ENDINGS: [(&str, ExportFormat); 3] =
    [(".svg", ExportFormat::Svg), (".folded", ExportFormat::Folded), (".collapsed", ExportFormat::Folded)];

impl ExportFormat {
    /// All formats of this version with their names on the command line.
    pub const ALL: [(&str, ExportFormat); 2] = [("svg", ExportFormat::Svg), ("folded", ExportFormat::Folded)];

    /// The format that the ending of `path` names.
    ///
    /// # Errors
    ///
    /// A usage failure that lists the formats of this version.
    pub fn of_path(path: &Path) -> Result<Self, Failure> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let found = ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| *format);
        found.ok_or_else(|| {
            Failure::usage(format!("cannot tell the format of `{}` from its ending", path.display()))
                .hint("endings of this version:  .svg, .folded, .collapsed")
                .hint("any other name:           --format svg|folded")
        })
    }
}

/// `prof export`: reads, renders and writes.
///
/// # Errors
///
/// When the profile cannot be read, no sample matches, or the output cannot be written; an output that
/// exists is not touched unless the options say so.
pub fn export(options: &ExportOptions) -> anyhow::Result<()> {
    output::check(&options.destination)?;
    let recording = Recording::load(&options.common.input)?;
    let rendered = Rendered::new(&recording, options)?;
    output::write_with(&options.destination, |out| rendered.write(out))
}

/// The exported bytes.
#[cfg(test)]
pub(super) fn render(recording: &Recording, options: &ExportOptions) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    Rendered::new(recording, options)?.write(&mut out)?;
    Ok(out)
}
