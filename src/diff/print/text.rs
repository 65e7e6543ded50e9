//! A comparison for people: one row per function, and the call paths that changed most.

use super::change_words::{chance_words, change_color, change_words, interval_words};
use super::header::header;
use super::order::{ordered, value_of};
use super::paths::changed_paths;
use super::values::ValueStyle;
use super::{tree, verdict};
use crate::base::safe_text;
use crate::base::units::counted;
use crate::diff::comparison::{Comparison, DiffRow};
use crate::diff::gate::verdicts::GateVerdict;
use crate::diff::options::{DiffOptions, DiffView};
use crate::diff::side::RowValue;
use crate::report::{FAINT, HEADING, Page, RowLimits, module_stem, padded, push_line};
use anstyle::Style;

/// Least width with room for the confidence interval and the probability; also shown where names are not cut.
const ROOMY: usize = 100;
/// Least width with room for the other value and the module.
const WIDE: usize = 140;
/// Least columns of a name.
const MIN_NAME_COLUMNS: usize = 12;
/// Columns of a module.
const MODULE_COLUMNS: usize = 16;

/// The complete text.
pub(super) fn text(
    comparison: &Comparison,
    verdicts: &[GateVerdict],
    options: &DiffOptions,
    page: &Page,
) -> String {
    let mut out = String::new();
    let value = value_of(options.sort);
    header(&mut out, comparison, value, options, page);
    match options.view {
        DiffView::Flat => {
            table(&mut out, comparison, options, page);
            changed_paths(&mut out, comparison, page);
        }
        DiffView::Tree => tree::tree(&mut out, comparison, options, page),
    }
    verdict::lines(verdicts, page.width).iter().for_each(|line| push_line(&mut out, line));
    out
}

fn table(out: &mut String, comparison: &Comparison, options: &DiffOptions, page: &Page) {
    let rows = ordered(comparison, options, false);
    let most = RowLimits::for_people(options.rows, None).most;
    let table = DiffTable {
        comparison,
        style: ValueStyle::of(comparison),
        value: value_of(options.sort),
        is_roomy: page.width >= ROOMY || !page.cut_names,
        is_wide: page.width >= WIDE,
        page,
    };
    let noun = options.common.grouping.noun();
    if !rows.is_empty() {
        push_line(out, &page.styled(HEADING, &table.heading(noun)));
    }
    rows.iter().take(most).for_each(|row| push_line(out, &table.line(row)));
    if let Some(more) = rows.len().checked_sub(most).filter(|more| *more > 0) {
        let more = counted(more as u64, noun).replacen(' ', " more ", 1);
        push_line(out, &page.styled(FAINT, &format!("  ... {more} (-n 0 shows all)")));
    }
}

struct DiffTable<'c> {
    comparison: &'c Comparison,
    style: ValueStyle,
    value: RowValue,
    /// Whether there is room for the confidence interval and the probability.
    is_roomy: bool,
    /// Whether there is room for the other value and the module.
    is_wide: bool,
    page: &'c Page,
}

impl DiffTable<'_> {
    fn heading(&self, noun: &str) -> String {
        let (value, other) = if self.value == RowValue::Own { ("self", "TOTAL") } else { ("total", "SELF") };
        let mut line = String::from("    BASE      NEW     DELTA     CHANGE");
        if self.is_roomy {
            line.push_str("       95% CHANGE       P");
        }
        if self.is_wide {
            line.push_str(&format!("  {other:>9}  {}", padded("MODULE", MODULE_COLUMNS)));
        }
        format!("{line}  {} ({value})", noun.to_uppercase())
    }

    fn line(&self, row: &DiffRow) -> String {
        let difference = row.value(self.value);
        let [base, new] = [difference.base, difference.new].map(|value| self.style.cell(value));
        let delta = self.style.delta(difference.delta());
        let (mark, words, color) = self.change(row);
        let mut line = format!("{base:>8} {new:>8} {delta:>9}  ");
        let mut used = safe_text::width(&line) + 1 + 8 + 2;
        line.push_str(&self.page.styled(color, &format!("{mark}{words:>8}")));
        if self.is_roomy {
            let more = self.sureness(row);
            used += safe_text::width(&more);
            line.push_str(&more);
        }
        let label = self.comparison.label(row);
        if self.is_wide {
            let other = if self.value == RowValue::Own { RowValue::Total } else { RowValue::Own };
            let other = self.style.delta(row.value(other).delta());
            let module = self.page.safe(module_stem(&label.key.module)).into_owned();
            let module = safe_text::fit_middle(&module, MODULE_COLUMNS);
            let more = format!("  {other:>9}  {}", padded(&module, MODULE_COLUMNS));
            used += safe_text::width(&more);
            line.push_str(&self.page.styled(FAINT, &more));
        }
        let name = self.page.safe(&label.text(self.page.names)).into_owned();
        let name = self
            .page
            .fit_name(&name, self.page.width.saturating_sub(used).max(MIN_NAME_COLUMNS))
            .into_owned();
        let name = if difference.outcome.is_real() { name } else { self.page.styled(FAINT, &name) };
        format!("{line}  {name}")
    }

    /// Mark, change in words, and their colour.
    fn change(&self, row: &DiffRow) -> (char, String, Style) {
        let difference = row.value(self.value);
        let (mark, words) = change_words(difference);
        (mark, words, change_color(difference.outcome, mark))
    }

    /// Confidence interval and probability.
    fn sureness(&self, row: &DiffRow) -> String {
        let difference = row.value(self.value);
        let (interval, p) = (interval_words(difference), chance_words(difference));
        format!("  {interval:>15}  {p:>6}")
    }
}
