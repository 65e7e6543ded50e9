//! Writes a comparison in the chosen format.

use super::trackers::{bmf, criterion, gobench};
use super::{json, svg, text, tsv};
use crate::diff::comparison::Comparison;
use crate::diff::gate::verdicts::GateVerdict;
use crate::diff::options::{DiffFormat, DiffOptions};
use crate::report::{Page, ReportDestination, Screen, say_notes, write_with};

/// Prints or writes a comparison.
///
/// # Errors
///
/// Fails when the output cannot be written, or there is nothing to draw.
pub(crate) fn print(
    comparison: &Comparison,
    verdicts: &[GateVerdict],
    options: &DiffOptions,
) -> anyhow::Result<()> {
    let is_text = options.format == DiffFormat::Text;
    if is_text && options.destination == ReportDestination::Stdout {
        let screen = Screen::new(options.color, options.pager);
        let page = screen.page(options.common.names);
        return screen.print(&text::text(comparison, verdicts, options, &page));
    }
    let printed = render(comparison, verdicts, options, &page_of_file(options))?;
    write_with(&options.destination, |out| out.write_all(&printed.bytes))?;
    say_notes(&printed.notes);
    Ok(())
}

/// The page of a file.
pub(crate) fn page_of_file(options: &DiffOptions) -> Page {
    Page { names: options.common.names.unwrap_or(Page::PLAIN.names), ..Page::PLAIN }
}

/// A comparison that is ready to be written.
#[derive(Debug)]
pub(crate) struct PrintedDiff {
    /// The whole file.
    pub(crate) bytes: Vec<u8>,
    /// Notes on what the comparison has and the file lacks, for people.
    pub(crate) notes: Vec<String>,
}

/// The comparison in the chosen format.
///
/// # Errors
///
/// Fails when there is nothing to draw.
pub(crate) fn render(
    comparison: &Comparison,
    verdicts: &[GateVerdict],
    options: &DiffOptions,
    page: &Page,
) -> anyhow::Result<PrintedDiff> {
    let mut notes = Vec::new();
    let bytes = match options.format {
        DiffFormat::Text => text::text(comparison, verdicts, options, page).into_bytes(),
        DiffFormat::Json => json::json(comparison, verdicts, options)?.into_bytes(),
        DiffFormat::Tsv => tsv::tsv(comparison, options).into_bytes(),
        DiffFormat::GoBench => gobench::gobench(comparison, options).into_bytes(),
        DiffFormat::Bmf => bmf::bmf(comparison, options)?.into_bytes(),
        DiffFormat::Criterion => criterion::criterion(comparison, options)?.into_bytes(),
        DiffFormat::Svg => {
            let graph = svg::svg(comparison, options)?;
            notes = graph.notes;
            graph.bytes
        }
    };
    Ok(PrintedDiff { bytes, notes })
}
