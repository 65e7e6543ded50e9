//! Exports the Flame view.

use super::FlameState;
use crate::base::safe_text;
use crate::base::units::{counted, honest_percent_text, percent};
use crate::report::{BoxOf, CommonOptions, Direction, LabelKind, PathStep, ReportView, StackFilter, short};
use crate::tui::app::query::keep_threads;
use crate::tui::compute::picture::Picture;

/// Selects the zoomed boxes for an export.
pub(super) fn exported(
    view: &FlameState,
    picture: &Picture,
    common: &mut CommonOptions,
) -> (ReportView, String) {
    let direction = picture.query.direction;
    let shape = if direction == Direction::BottomUp { ReportView::BottomUp } else { ReportView::Tree };
    // The zoom, or its nearest ancestor in this picture.
    let top = picture.find(&view.zoom);
    let ids = match &top {
        BoxOf::All => return (shape, "all stacks".to_owned()),
        BoxOf::Node(id) => vec![*id],
        BoxOf::Rest(ids) => ids.clone(),
    };
    // Thread nodes are the roots, or at the far end when the stacks are inverted; they are not part of a stack.
    let mut threads: Vec<&str> = Vec::new();
    let mut lighter: &[u32] = &[];
    let mut paths: Vec<Vec<PathStep>> = Vec::new();
    for id in &ids {
        let mut path: Vec<PathStep> = Vec::new();
        for node in picture.tree.path(*id) {
            let label = picture.labels.get(node.label);
            if let Some(several) = picture.lighter_threads.as_ref().filter(|of| of.label == node.label) {
                lighter = &several.tids;
            } else if label.kind == LabelKind::Task {
                threads.push(&label.name);
            } else {
                path.push(PathStep { label: label.key(), is_inlined: node.is_inlined });
            }
        }
        path.reverse();
        paths.push(path);
    }
    if !threads.is_empty() || !lighter.is_empty() {
        keep_threads(&mut common.filter, &threads, lighter, picture.query.threads());
    }
    if paths.iter().all(|path| !path.is_empty()) {
        common.filter.stacks.push(match direction {
            Direction::TopDown => StackFilter::Under(paths),
            Direction::BottomUp => StackFilter::EndingIn(paths),
        });
    }
    let name = match ids[..] {
        [id] => short(&picture.labels.get(picture.tree.node(id).label).name),
        _ => counted(ids.len() as u64, "call"),
    };
    let share = honest_percent_text(percent(top.total(&picture.tree), picture.total.weight));
    (shape, format!("the zoom on {}, {share}", safe_text::terminal(&name)))
}
