//! Time by thread as text.

use super::{HEADING, Page, more_line, padded, push_line};
use crate::report::options::ReportOptions;
use crate::report::selection::Selection;
use crate::report::threads::{self, ThreadRow};
use crate::safe_text;
use crate::units::{count, percent, percent_text, weight};

const NAME_COLUMNS: usize = 16;

pub(super) fn threads(out: &mut String, selection: &Selection<'_>, options: &ReportOptions, page: &Page) {
    let rows = threads::threads(selection);
    let whole = selection.total.weight;
    let min_percent = options.min_percent.unwrap_or(0.0);
    let heavy = rows.partition_point(|row| percent(row.amount.weight, whole) >= min_percent);
    let most = options.rows.filter(|rows| *rows > 0).unwrap_or(usize::MAX);
    let shown = &rows[..heavy.min(most)];
    let title = format!(
        "{}  {}        N  SHARE      TIME   SAMPLES  MOST IN",
        padded("THREAD", NAME_COLUMNS),
        padded("PROCESS", NAME_COLUMNS)
    );
    push_line(out, &page.styled(HEADING, &title));
    for row in shown {
        push_line(out, &line(selection, row, page));
    }
    if shown.len() < rows.len() {
        let sum = rows[shown.len()..].iter().fold(0u64, |sum, row| sum.saturating_add(row.amount.weight));
        push_line(out, &more_line(rows.len() - shown.len(), "thread name", percent(sum, whole), page));
    }
}

fn line(selection: &Selection<'_>, row: &ThreadRow, page: &Page) -> String {
    let whole = selection.total.weight;
    let share = percent_text(percent(row.amount.weight, whole));
    let time = weight(selection.event.info().unit, row.amount.weight, whole);
    let samples = count(row.amount.samples);
    let threads = count(row.threads);
    let name = |text: &str| {
        let text = safe_text::terminal(text);
        let text = if text.is_empty() { safe_text::UNNAMED.into() } else { text };
        padded(&page.fit(&text, NAME_COLUMNS), NAME_COLUMNS)
    };
    let hottest = row.hottest.map_or(String::new(), |(label, weight)| {
        let share = percent_text(percent(weight, row.amount.weight));
        let room = page.width.saturating_sub(77).max(16);
        format!("{} {share}", page.name(selection.labels.get(label), room))
    });
    let (thread, process) = (name(&row.thread), name(&row.process));
    format!("{thread}  {process} {threads:>8} {share:>6} {time:>9} {samples:>9}  {hottest}")
}
