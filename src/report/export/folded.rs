//! Folded stacks: `comm;root;…;leaf WEIGHT`, one line per distinct stack; `comm (tid 7)` where threads are not merged.
//!
//! Kernel frames end in `_[k]`, inlined user frames in `_[i]`. The stack of a wait ends in its reason, `[lock]`. The
//! weight is in the event's unit (ns of time), or the number of samples or waits. Lines are sorted by their bytes.

use super::exporter::{Exporter, Render, Rendered};
use super::text_tree::{Order, StackOrder, TextTree};
use crate::report::analysis::Analysis;
use crate::report::naming::style::NameStyle;
use crate::report::options::ExportOptions;
use crate::report::query::selection::Selection;
use std::io::{self, Write};

/// The lines of a selection, which are generated on writing.
#[derive(Debug)]
struct FoldedLines {
    tree: TextTree,
    count: bool,
}

impl FoldedLines {
    /// Weights are in the event's unit, or numbers of samples and waits with `count`.
    fn new(selection: &Selection<'_>, names: NameStyle, order: StackOrder, count: bool) -> Self {
        FoldedLines { tree: TextTree::new(selection, names, order), count }
    }
}

impl Rendered for FoldedLines {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.tree.lines(Order::Bytes, self.count, |stack, value| writeln!(out, "{stack} {value}"))
    }
}

/// The export format.
pub(in crate::report::export) const EXPORTER: Exporter = Exporter {
    name: "folded",
    endings: &[".folded", ".collapsed"],
    key: Some(('f', "folded")),
    render: Render::Any(render),
    ..Exporter::NONE
};

fn render<'r>(
    _recording: &'r Analysis,
    selection: Selection<'r>,
    options: &ExportOptions,
) -> anyhow::Result<Box<dyn Rendered + 'r>> {
    let names = options.common.names.unwrap_or(NameStyle::Full);
    let order = if options.bottom_up { StackOrder::LeafFirst } else { StackOrder::RootFirst };
    Ok(Box::new(FoldedLines::new(&selection, names, order, options.count)))
}

/// The folded stacks of `selection`, with weights in the event's unit, or as numbers of samples and waits with `count`.
pub fn folded(selection: &Selection<'_>, names: NameStyle, count: bool) -> String {
    let mut out = Vec::new();
    // Writing to a vector never fails, and the lines are valid UTF-8.
    let _ = FoldedLines::new(selection, names, StackOrder::RootFirst, count).write(&mut out);
    String::from_utf8(out).unwrap_or_default()
}
