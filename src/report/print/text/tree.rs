//! The call tree as text.
//!
//! A function that is its caller's only shown callee stands right below it at the same depth, so that
//! deep stacks stay on the page; where a path branches, each branch is marked `+` and indented.

use super::page::{FAINT, HEADING, Page, push_line};
use crate::base::units::{counted, percent, percent_text, weight};
use crate::report::options::ReportOptions;
use crate::report::query::selection::Selection;
use crate::report::views::call_tree::{CallTree, Direction, Node, NodeId};

/// Deepest indentation: deeper branches line up.
const MOST_INDENT: usize = 40;

pub(super) fn tree(
    out: &mut String,
    selection: &Selection<'_>,
    options: &ReportOptions,
    direction: Direction,
    page: &Page,
) {
    let tree = CallTree::new(selection, direction);
    let min_percent = options.min_percent.unwrap_or(ReportOptions::DEFAULT_TREE_MIN_PERCENT);
    let whole = selection.total.weight;
    let is_shown = |node: &Node| percent(node.total.weight, whole) >= min_percent;
    let order = tree.walk(is_shown);
    let most = options.most_rows();
    let noun = options.common.grouping.noun().to_uppercase();
    let title = match direction {
        Direction::TopDown => format!("  TOTAL%   SELF%     TOTAL  {noun} (callers above callees)"),
        Direction::BottomUp => format!("  TOTAL%   SELF%     TOTAL  {noun} (callees above callers)"),
    };
    push_line(out, &page.styled(HEADING, &title));
    let mut branches = Branches::default();
    for id in order.iter().take(most) {
        let node = tree.node(*id);
        let siblings = match node.parent {
            Some(parent) => &tree.node(parent).children,
            None => tree.roots(),
        };
        let is_branch = siblings.iter().filter(|id| is_shown(tree.node(**id))).count() > 1;
        let indent = branches.enter(*id, node, is_branch);
        push_line(out, &line(selection, node, direction, indent, is_branch, page));
    }
    let hidden = tree.nodes().len() - order.len().min(most);
    if hidden > 0 {
        let limit = if order.len() > most { "-n 0" } else { "--min-pct 0" };
        let smaller = counted(hidden as u64, "call path").replacen(' ', " more ", 1);
        push_line(out, &page.styled(FAINT, &format!("  ... {smaller} ({limit} shows all)")));
    }
}

/// Depth of indentation of each node shown so far that can still get children.
#[derive(Debug, Default)]
struct Branches {
    open: Vec<(NodeId, usize)>,
}

impl Branches {
    /// Columns of indentation of a node that comes next in display order.
    fn enter(&mut self, id: NodeId, node: &Node, is_branch: bool) -> usize {
        while let Some((open, _)) = self.open.last()
            && Some(*open) != node.parent
        {
            self.open.pop();
        }
        let depth = self.open.last().map_or(0, |(_, depth)| depth + usize::from(is_branch));
        self.open.push((id, depth));
        (2 * depth).min(MOST_INDENT)
    }
}

fn line(
    selection: &Selection<'_>,
    node: &Node,
    direction: Direction,
    indent: usize,
    is_branch: bool,
    page: &Page,
) -> String {
    let whole = selection.total;
    let total = percent_text(percent(node.total.weight, whole.weight));
    // Read upwards, only a root's own weight means something: the leaf's.
    let own = match direction {
        Direction::BottomUp if node.parent.is_none() => {
            percent_text(percent(node.total.weight, whole.weight))
        }
        Direction::BottomUp => String::new(),
        Direction::TopDown => percent_text(percent(node.own.weight, whole.weight)),
    };
    let time = weight(selection.shown.unit, node.total.weight, whole.weight);
    let label = selection.labels.get(node.label);
    let marks = if is_branch { "+ " } else { "  " };
    let inlined = if node.is_inlined { " [inlined]" } else { "" };
    let module = page.module(label, 16);
    let module = if module.is_empty() { module } else { format!("  {module}") };
    let used = 28 + indent + 2 + crate::base::safe_text::width(&module) + inlined.len();
    let name = page.name(label, page.width.saturating_sub(used).max(12));
    let tail = page.styled(FAINT, &format!("{inlined}{module}"));
    format!("{total:>8} {own:>7} {time:>9}  {:indent$}{marks}{name}{tail}", "")
}
