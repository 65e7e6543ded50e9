//! Reports for people: 80 columns, more where the terminal has them. Every foreign name passes [`Page::name`] or
//! [`safe_text`](crate::base::safe_text); colour comes only from [`Page::styled`]. Nothing is added up here.

pub(crate) mod annotation;
pub(super) mod column;
mod flat;
mod goroutines;
pub(crate) mod header;
pub(crate) mod page;
mod paths;
mod peek;
mod thread_times;
mod threads;
mod totals;
mod tree;
mod waits;

use crate::base::failure::Failure;
use crate::report::analysis::Analysis;
use crate::report::model::totals::Totals;
use crate::report::options::{ReportOptions, ReportView};
use crate::report::print::text::page::{Page, push_line};
use crate::report::print::{heap, locks};
use crate::report::query::selection::Selection;
use crate::report::views::call_tree::Direction;
use crate::report::waits::hidden_idle::HiddenIdle;
pub(super) use peek::no_match;
pub(super) use totals::totals_text;

/// The whole report.
///
/// # Errors
///
/// A usage failure for a bad pattern; a failure with status 3 when nothing matches `--peek`.
pub(crate) fn report(
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &ReportOptions,
    page: &Page,
) -> Result<String, Failure> {
    let view = options.view.of(&selection.shown);
    let has_totals = selection.shown.waits.is_some() && !options.common.is_of_some_waits();
    let totals = if has_totals || view == &ReportView::Threads {
        Totals::of(recording, &options.common)?
    } else {
        None
    };
    let mut out = header::header(recording, selection, totals.as_ref(), &options.common.filter, page);
    match view {
        ReportView::Overview | ReportView::Flat => flat::flat(&mut out, selection, options, page),
        ReportView::Waits => waits::waits(&mut out, selection, options, page),
        ReportView::Goroutines => goroutines::goroutines(&mut out, selection, options, page),
        ReportView::Locks(by) => locks::text::locks(&mut out, selection, options, *by, page),
        ReportView::Heap => heap::text::heap(&mut out, recording, selection, options, page)?,
        ReportView::Tree => tree::tree(&mut out, selection, options, Direction::TopDown, page),
        ReportView::BottomUp => tree::tree(&mut out, selection, options, Direction::BottomUp, page),
        ReportView::Peek(pattern) => peek::peek(&mut out, selection, pattern, options, page)?,
        ReportView::Threads => match &totals {
            Some(totals) => {
                thread_times::thread_times(&mut out, selection, totals, options, page);
            }
            None => threads::threads(&mut out, selection, options, page),
        },
    }
    if matches!(view, ReportView::Overview | ReportView::Flat | ReportView::Waits)
        && let Some(hidden) = HiddenIdle::of(recording, selection, &options.common)
    {
        waits::hidden_idle(&hidden, page).iter().for_each(|line| push_line(&mut out, line));
    }
    out.push_str(&header::notes_block(recording, selection, &options.common, view, page));
    Ok(out)
}
