//! A recording as a file for other programs, written whole or not at all: a file a format, and one table of them. What is
//! shown was selected elsewhere; nothing here filters or counts.

mod caption;
mod exporter;
mod folded;
pub(crate) mod formats;
mod html;
mod job;
mod palette;
mod svg;
mod text_tree;

use super::analysis::Analysis;
use super::print::output;
pub use folded::folded;
pub(crate) use formats::{ExportFormat, ExportRequest};
pub(crate) use job::{ExportJob, ExportShape};

/// `prof export`: reads, renders and writes.
///
/// # Errors
///
/// When the profile cannot be read, no sample matches, or the output cannot be written; an output that
/// exists is not touched unless the options say so.
pub(crate) fn export(request: &ExportRequest) -> anyhow::Result<()> {
    output::check(&request.destination)?;
    output::check_not_input(&request.destination, &request.options.common.input)?;
    let recording = Analysis::load(&request.options.common.input)?;
    let rendered = request.format.render(&recording, &request.options)?;
    output::write_with(&request.destination, |out| rendered.write(out))
}

/// The exported bytes.
#[cfg(test)]
pub(super) fn render(
    recording: &Analysis,
    format: ExportFormat,
    options: &super::options::ExportOptions,
) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    format.render(recording, options)?.write(&mut out)?;
    Ok(out)
}
