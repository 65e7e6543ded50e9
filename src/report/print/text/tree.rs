//! The call tree as text.
//!
//! A function that is its caller's only shown callee stands right below it at the same depth, so that
//! deep stacks stay on the page; where a path branches, each branch is marked `+` and indented.

use super::page::{FAINT, HEADING, Page, push_line};
use crate::base::units::{counted, percent, percent_text, weight};
use crate::report::model::amount::Amount;
use crate::report::options::ReportOptions;
use crate::report::query::selection::Selection;
use crate::report::row_limits::RowLimits;
use crate::report::views::call_tree::{CallTree, Direction, Node, NodeId};

/// Deepest indentation: deeper branches line up.
const MOST_INDENT: usize = 40;
/// The same on a narrow page, where half of the width is for names.
const NARROW_INDENT: usize = 12;

pub(super) fn tree(
    out: &mut String,
    selection: &Selection<'_>,
    options: &ReportOptions,
    direction: Direction,
    page: &Page,
) {
    let tree = CallTree::new(selection, direction);
    let min_percent = options.min_percent.unwrap_or(RowLimits::DEFAULT_TREE_MIN_PERCENT);
    let whole = selection.base().weight;
    let is_shown = |node: &Node| percent(node.total.weight, whole) >= min_percent;
    let order = tree.walk(is_shown);
    let most = options.most_rows();
    let noun = options.common.grouping.noun().to_uppercase();
    let title = match direction {
        _ if page.is_narrow() => format!("  TOTAL%  {noun}"),
        Direction::TopDown => format!("  TOTAL%   SELF%     TOTAL  {noun} (callers above callees)"),
        Direction::BottomUp => format!("  TOTAL%   SELF%     TOTAL  {noun} (callees above callers)"),
    };
    push_line(out, &page.styled(HEADING, &title));
    let mut branches = Branches::default();
    for id in order.iter().take(most) {
        let node = tree.node(*id);
        let siblings = match node.parent {
            Some(parent) => tree.children(parent),
            None => tree.roots(),
        };
        let is_branch = siblings.iter().filter(|id| is_shown(tree.node(**id))).count() > 1;
        let indent = branches.enter(*id, node, is_branch);
        push_line(out, &line(selection, (node, tree.own(*id)), direction, indent, is_branch, page));
    }
    let hidden = tree.nodes().len() - order.len().min(most);
    if hidden > 0 {
        let limit = if order.len() > most { "-n 0" } else { "--min-pct 0" };
        let smaller = counted(hidden as u64, "call path").replacen(' ', " more ", 1);
        let all = if page.is_narrow() { "" } else { " shows all" };
        push_line(out, &page.styled(FAINT, &format!("  ... {smaller} ({limit}{all})")));
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

/// A function keeps at least this many columns.
const MIN_NAME_COLUMNS: usize = 12;

/// Texts that follow a name, as far as `room` columns hold them and a name.
fn with_room(inlined: &'static str, module: String, room: usize, page: &Page) -> [String; 2] {
    let has_room = |columns: usize| !page.cut_names || columns + MIN_NAME_COLUMNS <= room;
    let inlined = if has_room(inlined.len()) { inlined } else { "" };
    let has_module = has_room(inlined.len() + crate::base::safe_text::width(&module));
    [inlined.to_owned(), if has_module { module } else { String::new() }]
}

fn line(
    selection: &Selection<'_>,
    (node, own): (&Node, Amount),
    direction: Direction,
    indent: usize,
    is_branch: bool,
    page: &Page,
) -> String {
    let whole = selection.base();
    let total = percent_text(percent(node.total.weight, whole.weight));
    // Read upwards, only a root's own weight means something: the leaf's.
    let own = match direction {
        Direction::BottomUp if node.parent.is_none() => {
            percent_text(percent(node.total.weight, whole.weight))
        }
        Direction::BottomUp => String::new(),
        Direction::TopDown => percent_text(percent(own.weight, whole.weight)),
    };
    let time = weight(selection.shown.unit, node.total.weight, whole.weight);
    let label = selection.labels.get(node.label);
    let marks = if is_branch { "+ " } else { "  " };
    let inlined = if node.is_inlined { " [inlined]" } else { "" };
    if page.is_narrow() {
        let indent = indent.min(NARROW_INDENT);
        let name = page.name(label, page.width.saturating_sub(12 + indent));
        return format!("{total:>8}  {:indent$}{marks}{name}", "");
    }
    let module = page.module(label, 16);
    let module = if module.is_empty() { module } else { format!("  {module}") };
    // Half of the room is for names, however deep they are.
    let indent = indent.min(page.width.saturating_sub(28) / 2);
    let [inlined, module] = with_room(inlined, module, page.width.saturating_sub(28 + indent + 2), page);
    let used = 28 + indent + 2 + crate::base::safe_text::width(&module) + inlined.len();
    let name = page.name(label, page.width.saturating_sub(used).max(MIN_NAME_COLUMNS));
    let tail = page.styled(FAINT, &format!("{inlined}{module}"));
    format!("{total:>8} {own:>7} {time:>9}  {:indent$}{marks}{name}{tail}", "")
}
