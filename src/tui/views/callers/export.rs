//! Exports the Callers view.

use crate::base::safe_text;
use crate::report::{CommonOptions, ExportShape, ReportView, StackFilter, short};
use crate::tui::compute::picture::Picture;
use crate::tui::views::view::all_of;

/// Selects the pivot with its callers and callees for an export.
pub(super) fn exported(
    picture: &Picture,
    common: &mut CommonOptions,
    shape: ExportShape,
) -> (ReportView, String) {
    let Some(pivot) = &picture.pivot else { return (ReportView::Flat, all_of("all functions", shape)) };
    let label = picture.labels.get(pivot.sandwich.label);
    common.filter.stacks.push(StackFilter::Focus(label.key()));
    let name = safe_text::terminal(&short(&label.name)).into_owned();
    let words = if shape.is_of_stacks() { "stacks with" } else { "callers and callees of" };
    (ReportView::Peek(format!("^{}$", regex::escape(&label.name))), format!("{words} {name}"))
}
