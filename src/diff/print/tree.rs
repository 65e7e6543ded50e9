//! The call paths of both sides as one tree.
//!
//! The only shown callee of a function is printed right below it without indentation; where a path branches, each
//! branch is marked `+` and indented.

use super::change_words::{change_color, change_words};
use super::values::ValueStyle;
use crate::base::units::counted;
use crate::diff::comparison::Comparison;
use crate::diff::difference::{DiffOutcome, Difference};
use crate::diff::gate::verdicts::change;
use crate::diff::options::DiffOptions;
use crate::diff::tree::DiffNode;
use crate::report::{FAINT, HEADING, Page, RowLimits, push_line};

/// Deepest indentation, columns; deeper branches are aligned.
const MOST_INDENT: usize = 40;

/// Columns in front of the names.
const NUMBER_COLUMNS: usize = 39;

pub(super) fn tree(out: &mut String, comparison: &Comparison, options: &DiffOptions, page: &Page) {
    let Some(tree) = &comparison.tree else { return };
    let least = options.min_percent.unwrap_or(RowLimits::DEFAULT_TREE_MIN_PERCENT) / 100.0;
    let whole = comparison.total.base.max(comparison.total.new);
    let is_shown = |node: &DiffNode| node.larger() >= least * whole;
    let order = tree.walk(is_shown);
    let most = options.most_rows();
    let style = ValueStyle::of(comparison);
    let noun = options.common.grouping.noun().to_uppercase();
    let heading = format!("    BASE      NEW     DELTA    CHANGE  {noun} (total, callers above callees)");
    push_line(out, &page.styled(HEADING, &heading));
    // Callers of the next line, with their indentation.
    let mut open: Vec<(u32, usize)> = Vec::new();
    for &id in order.iter().take(most) {
        let node = tree.node(id);
        while open.last().is_some_and(|(caller, _)| Some(*caller) != node.parent) {
            open.pop();
        }
        let siblings = node.parent.map_or(&tree.roots, |parent| &tree.node(parent).children);
        let is_branch = siblings.iter().filter(|id| is_shown(tree.node(**id))).count() > 1;
        let depth = open.last().map_or(0, |(_, depth)| depth + usize::from(is_branch));
        open.push((id, depth));
        let indent = (2 * depth).min(MOST_INDENT);
        let name = page.safe(&comparison.labels[node.row as usize].text(page.names)).into_owned();
        let name =
            page.fit_name(&name, page.width.saturating_sub(NUMBER_COLUMNS + indent + 2).max(12)).into_owned();
        let marks = if is_branch { "+ " } else { "  " };
        let (numbers, mark, words) = numbers(node, &style);
        let color = change_color(node.tested.map_or(DiffOutcome::Untested, |tested| tested.outcome), mark);
        let change = page.styled(color, &format!("{mark}{words:>8}"));
        push_line(out, &format!("{numbers} {change}  {:indent$}{marks}{name}", ""));
    }
    let hidden = tree.nodes.len() - order.len().min(most);
    if hidden > 0 {
        let limit = if order.len() > most { "-n 0" } else { "--min-pct 0" };
        let more = counted(hidden as u64, "call path").replacen(' ', " more ", 1);
        push_line(out, &page.styled(FAINT, &format!("  ... {more} ({limit} shows all)")));
    }
}

/// The costs of a node, and the mark and words of its change. What was not tested has no mark.
fn numbers(node: &DiffNode, style: &ValueStyle) -> (String, char, String) {
    let [base, new] = node.total;
    let untested = || match (base > 0.0, new > 0.0) {
        (true, true) => change(new / base),
        (true, false) => "gone".to_owned(),
        _ => "new".to_owned(),
    };
    let tested = node.tested.filter(Difference::is_tested);
    let (mark, words) = tested.map_or_else(|| (' ', untested()), |tested| change_words(&tested));
    let numbers = format!("{:>8} {:>8} {:>9}", style.cell(base), style.cell(new), style.delta(new - base));
    (numbers, mark, words)
}
