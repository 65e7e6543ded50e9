//! An export before it is written.

use super::svg;
use crate::report::export::folded::FoldedLines;
use crate::report::options::{ExportFormat, ExportOptions};
use crate::report::recording::Recording;
use std::io;
use std::io::Write;

/// A file that only has to be written.
#[derive(Debug)]
pub(crate) enum Rendered {
    Bytes(Vec<u8>),
    /// Lines can be far longer together than what they are made of.
    Folded(FoldedLines),
}

impl Rendered {
    pub(super) fn new(recording: &Recording, options: &ExportOptions) -> anyhow::Result<Self> {
        let selection = recording.select(&options.common)?;
        Ok(match options.format {
            ExportFormat::Folded => {
                let names = options.common.names.unwrap_or(crate::report::naming::style::NameStyle::Full);
                Rendered::Folded(FoldedLines::new(&selection, names, options.count))
            }
            ExportFormat::Svg => Rendered::Bytes(svg::svg(recording, &selection, options)?),
        })
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Rendered::Bytes(bytes) => out.write_all(bytes),
            Rendered::Folded(lines) => lines.write(out),
        }
    }
}
