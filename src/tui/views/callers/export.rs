//! Exports the Callers view.

use crate::base::safe_text;
use crate::report::{CommonOptions, ReportView, StackFilter, short};
use crate::tui::compute::picture::Picture;

/// Selects the pivot with its callers and callees for an export.
pub(super) fn exported(picture: &Picture, common: &mut CommonOptions) -> (ReportView, String) {
    let Some(pivot) = &picture.pivot else { return (ReportView::Flat, "all functions".to_owned()) };
    let label = picture.labels.get(pivot.sandwich.label);
    common.filter.stacks.push(StackFilter::Focus(label.key()));
    let name = safe_text::terminal(&short(&label.name)).into_owned();
    (ReportView::Peek(format!("^{}$", regex::escape(&label.name))), format!("callers and callees of {name}"))
}
