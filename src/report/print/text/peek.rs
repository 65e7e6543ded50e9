//! Callers and callees of chosen functions as text; nothing is trimmed.

use super::page::{CutBy, FAINT, HEADING, Page, more_line, push_line};
use crate::base::failure::{Failure, status};
use crate::base::safe_text;
use crate::base::units::{percent, percent_text, weight};
use crate::report::model::amount::Amount;
use crate::report::model::label::LabelId;
use crate::report::naming::nearest::nearest_hint;
use crate::report::options::ReportOptions;
use crate::report::query::filter::pattern;
use crate::report::query::selection::Selection;
use crate::report::views::peek as neighbours;

/// A function keeps at least this many columns.
const MIN_NAME_COLUMNS: usize = 16;

pub(super) fn peek(
    out: &mut String,
    selection: &Selection<'_>,
    text: &str,
    options: &ReportOptions,
    page: &Page,
) -> Result<(), Failure> {
    let peeks = neighbours::peek(selection, &pattern("--peek", text)?);
    if peeks.is_empty() {
        return Err(no_match(selection, text));
    }
    let shown = neighbours::shown(&peeks, selection, options);
    for (index, found) in shown.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let label = selection.labels.get(found.label);
        let total = selection.base();
        let time = weight(selection.shown.unit, found.total.weight, total.weight);
        let shares = format!(
            "  self {}  total {}  {time}",
            percent_text(percent(found.own.weight, total.weight)),
            percent_text(percent(found.total.weight, total.weight)),
        );
        let facts = format!("  {}{shares}", page.module(label, 16));
        let room = page.width.saturating_sub(safe_text::width(&facts));
        if page.cut_names && room < MIN_NAME_COLUMNS {
            push_line(out, &page.styled(HEADING, &page.name(label, page.width)));
            push_line(out, if page.is_narrow() { &shares } else { &facts });
        } else {
            let name = page.name(label, room.max(MIN_NAME_COLUMNS));
            push_line(out, &format!("{}{facts}", page.styled(HEADING, &name)));
        }
        push_line(out, &page.styled(FAINT, "  called by"));
        for (caller, amount) in &found.callers {
            push_line(out, &line(selection, *caller, "[outermost frame]", *amount, page));
        }
        push_line(out, &page.styled(FAINT, "  calls"));
        for (callee, amount) in &found.callees {
            push_line(out, &line(selection, Some(*callee), "", *amount, page));
        }
        if found.own.weight > 0 {
            push_line(out, &line(selection, None, "[self]", found.own, page));
        }
    }
    if let Some(heaviest) = peeks.get(shown.len()) {
        let cut = CutBy::of(shown.len(), options.most_rows());
        let share = percent(heaviest.total.weight, selection.base().weight);
        // They call each other: their shares have no sum.
        let line = more_line(peeks.len() - shown.len(), "function", share, cut, page);
        push_line(out, &line.replacen(", ", ", each up to ", 1));
    }
    Ok(())
}

/// Error for when no function of `selection` matches `--peek`.
pub(in crate::report) fn no_match(selection: &Selection<'_>, pattern: &str) -> Failure {
    Failure::new(status::NO_MATCH, format!("no function in a sample matches `--peek {pattern}`"))
        .hint(nearest_hint(selection.labels.names_of_code(), pattern))
}

fn line(
    selection: &Selection<'_>,
    label: Option<LabelId>,
    otherwise: &str,
    amount: Amount,
    page: &Page,
) -> String {
    let whole = selection.base().weight;
    let share = percent_text(percent(amount.weight, whole));
    let time = weight(selection.shown.unit, amount.weight, whole);
    let Some(label) = label else { return format!("{share:>9} {time:>9}  {otherwise}") };
    let label = selection.labels.get(label);
    if page.is_narrow() {
        return format!("{share:>9}  {}", page.name(label, page.width.saturating_sub(11)));
    }
    let module = page.module(label, 16);
    let name =
        page.name(label, page.width.saturating_sub(23 + safe_text::width(&module)).max(MIN_NAME_COLUMNS));
    format!("{share:>9} {time:>9}  {name}  {}", page.styled(FAINT, &module))
}
