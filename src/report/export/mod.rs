//! Exports of a recording for other programs, written as a whole or not at all: one file per format, and one table of
//! them. The samples are selected elsewhere; nothing here filters or counts.

mod caption;
mod exporter;
mod folded;
pub(crate) mod formats;
mod html;
mod job;
mod palette;
pub(super) mod series;
mod svg;
mod text_tree;
mod tools;

use super::analysis::Analysis;
use super::options::ReportDestination;
use super::print::output;
pub use folded::folded;
pub(crate) use formats::{ExportFormat, ExportRequest};
pub(crate) use job::{ExportJob, ExportShape, write_to_free_name};
pub(crate) use series::{
    HostLabel, SampleLabel, SeriesBatch, SeriesChunk, SeriesOptions, halves, otlp_profiles, otlp_request,
    pprof_profile, refuse_label,
};
pub(crate) use tools::pprof::messages as pprof_messages;

/// `prof export`: reads, renders and writes.
///
/// # Errors
///
/// Fails when the profile cannot be read, no sample matches, or the output cannot be written. An existing output is not
/// replaced unless the options say so.
pub(crate) fn export(request: &ExportRequest) -> anyhow::Result<()> {
    output::check(&request.destination)?;
    if request.destination == ReportDestination::Stdout {
        request.format.check_stdout()?;
    }
    output::check_not_input(&request.destination, &request.options.common.input)?;
    let common = &request.options.common;
    let recording = Analysis::load(&common.input)?;
    let of_heap = common.with_default_heap(&recording);
    let (recording, common) = of_heap.as_ref().unwrap_or(common).of_waits(recording)?;
    let (recording, common) = common.of_heap(recording)?;
    let options = super::options::ExportOptions { common, ..request.options.clone() };
    let rendered = request.format.render(&recording, &options)?;
    let is_packed = matches!(&request.destination, ReportDestination::File { path, .. } if tools::gzip::asks_for_gzip(path));
    output::write_with(&request.destination, |out| match is_packed {
        true => tools::gzip::packed(out, |out| rendered.write(out)),
        false => rendered.write(out),
    })?;
    output::say_notes(&rendered.notes());
    Ok(())
}

/// The exported bytes, for tests.
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
