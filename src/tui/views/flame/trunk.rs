//! The trunk: what every sample has in common. It is one row until it is opened.

use crate::report::{BoxOf, FlameBox, LabelKind};
use crate::tui::compute::picture::Picture;

/// Fewer frames than this are shown: folding them would save nothing.
const LEAST_FRAMES: usize = 4;

/// Folds the trunk of `boxes`, whose first box is on top: of the frames that all samples have in common only the last stays, in the
/// row of the first. Returns how many are hidden.
pub(super) fn fold(picture: &Picture, boxes: &mut Vec<FlameBox>) -> usize {
    let tree = &picture.tree;
    let Some(top) = boxes.first() else { return 0 };
    let (whole, columns) = (top.what.total(tree), top.start..top.end);
    // Threads in front stay: they say whose samples these are.
    let is_thread = |one: &&FlameBox| match one.what {
        BoxOf::Node(id) => picture.labels.get(tree.node(id).label).kind == LabelKind::Task,
        BoxOf::All | BoxOf::Rest(_) => false,
    };
    let threads = 1 + boxes[1..].iter().take_while(is_thread).count();
    let is_shared = |one: &&FlameBox| {
        one.start == columns.start
            && one.end == columns.end
            && matches!(one.what, BoxOf::Node(_))
            && one.what.total(tree) == whole
    };
    let frames = boxes[threads..].iter().take_while(is_shared).count();
    if frames < LEAST_FRAMES {
        return 0;
    }
    let hidden = frames - 1;
    boxes.drain(threads..threads + hidden);
    boxes[threads..].iter_mut().for_each(|one| one.row -= hidden as u32);
    hidden
}

/// The number of the box that stands for a folded trunk.
pub(super) fn place(picture: &Picture, boxes: &[FlameBox]) -> Option<usize> {
    boxes
        .iter()
        .skip(1)
        .position(|one| match one.what {
            BoxOf::Node(id) => picture.labels.get(picture.tree.node(id).label).kind != LabelKind::Task,
            BoxOf::All | BoxOf::Rest(_) => false,
        })
        .map(|at| at + 1)
}
