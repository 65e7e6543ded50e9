//! The call paths that changed most, one line each.

use super::values::ValueStyle;
use crate::base::safe_text;
use crate::diff::comparison::Comparison;
use crate::diff::tree::DiffNode;
use crate::report::{HEADING, NameStyle, Page, push_line};

/// Number of paths below the table.
const MOST_PATHS: usize = 5;

/// Least change of a path that is listed, as a part of the larger side.
const LEAST_PART: f64 = 0.005;

/// Appends the paths that end in functions with a significant change.
pub(super) fn changed_paths(out: &mut String, comparison: &Comparison, page: &Page) {
    let Some(tree) = &comparison.tree else { return };
    let delta = |node: &DiffNode| node.own[1] - node.own[0];
    let least = LEAST_PART * comparison.total.base.max(comparison.total.new);
    let is_real = |row: u32| {
        // Rows are indexed by row number.
        let row = &comparison.rows[row as usize];
        row.own.outcome.is_real() || (row.own.base + row.own.new == 0.0 && row.total.outcome.is_real())
    };
    let mut paths: Vec<u32> = (0..tree.nodes.len() as u32)
        .filter(|id| {
            let node = tree.node(*id);
            node.parent.is_some() && delta(node).abs() >= least && delta(node) != 0.0 && is_real(node.row)
        })
        .collect();
    paths.sort_by(|a, b| {
        let size = |id: &u32| delta(tree.node(*id)).abs();
        let names =
            |id: &u32| tree.path(*id).map(|row| &comparison.labels[row as usize].key).collect::<Vec<_>>();
        size(b).total_cmp(&size(a)).then_with(|| names(a).cmp(&names(b)))
    });
    if paths.is_empty() {
        return;
    }
    push_line(out, &page.styled(HEADING, "HEAVIEST CHANGED PATHS"));
    let style = ValueStyle::of(comparison);
    // The paths are an overview, so their names are short whatever the style of the table.
    let names = if page.names == NameStyle::Full { NameStyle::Short } else { page.names };
    for id in paths.into_iter().take(MOST_PATHS) {
        let mut rows: Vec<u32> = tree.path(id).collect();
        rows.dedup();
        let words: Vec<String> = (rows.iter())
            .map(|row| page.safe(&comparison.labels[*row as usize].text(names)).into_owned())
            .collect();
        let room = page.width.saturating_sub(11).max(20);
        let line = words.join(" < ");
        push_line(
            out,
            &format!("{:>9}  {}", style.delta(delta(tree.node(id))), safe_text::fit_tail(&line, room)),
        );
    }
}
