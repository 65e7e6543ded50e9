//! `prof report`: a recording as text, JSON or a table, on standard output.

use super::terminal::Screen;
use super::text::page::Page;
use super::{json, text, tsv};
use crate::report::analysis::Analysis;
use crate::report::options::{Format, ReportOptions, ReportView};

/// Renders a report of `recording` for `page`.
///
/// # Errors
///
/// A usage failure for a bad pattern; status 3 when nothing matches.
pub fn render(recording: &Analysis, options: &ReportOptions, page: &Page) -> anyhow::Result<String> {
    let mut selection = match options.view {
        ReportView::Threads => recording.select_for_threads(&options.common)?,
        _ => recording.select_for_report(&options.common)?,
    };
    if let (ReportView::Tree | ReportView::BottomUp, Some(split)) = (&options.view, options.common.threads) {
        selection.put_threads_in_front(split);
    }
    Ok(match options.format {
        Format::Text => text::report(recording, &selection, options, page)?,
        Format::Json => json::report(recording, &selection, options)?,
        Format::Tsv => tsv::report(recording, &selection, options)?,
    })
}

/// `prof report`: reads, renders and prints.
///
/// # Errors
///
/// When the profile cannot be read, nothing matches, or the output cannot be written.
pub(crate) fn report(options: &ReportOptions) -> anyhow::Result<()> {
    let recording = Analysis::load(&options.common.input)?;
    let asked = options.of_locks(&recording).or_else(|| options.of_heap(&recording));
    let options = asked.as_ref().unwrap_or(options);
    let (recording, common) = options.common.of_waits(recording)?;
    let (recording, common) = common.of_heap(recording)?;
    let options = &ReportOptions { common, ..options.clone() };
    let screen = Screen::new(options.color, options.pager && options.format == Format::Text);
    let page = match options.format {
        Format::Text => screen.page(options.common.names),
        Format::Json | Format::Tsv => Page::PLAIN,
    };
    let rendered = render(&recording, options, &page)?;
    match options.format {
        Format::Text => screen.print(&rendered),
        Format::Json | Format::Tsv => screen.print_document(&rendered),
    }
}
