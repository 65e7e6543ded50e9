//! Trunks: what all samples of a box have in common, but for too few to see. Each is one row until it is opened.

use crate::report::{BoxOf, FlameBox, LabelKind, NodeId};
use crate::tui::compute::picture::Picture;
use rustc_hash::FxHashMap;

/// Fewer frames than this are shown: shortening would save nothing.
const LEAST_FRAMES: usize = 4;
/// Most of a box, in percent, that may be missing in its trunk: however wide that is on the screen, and if it would not fill a
/// column there. Of a narrow box a column is much.
const MISSING_PERCENT: [u128; 2] = [1, 5];

/// The row of a shortened trunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShortTrunk {
    /// Frames that it hides.
    pub(super) hidden: usize,
    /// Weight of the box above, and how much of that has not all of the frames.
    pub(super) whole: u64,
    pub(super) missing: u64,
}

/// Boxes that replace a trunk.
pub(super) type ShortTrunks = FxHashMap<NodeId, ShortTrunk>;

/// Shortens the trunks in `boxes`, which are sorted by row, then by column: that of the first box, which is on top, and those of the
/// threads in front. Of the frames that the samples of such a box have in common only the last stays, in the row of the first;
/// what branches off before it is hidden, too.
pub(super) fn shorten(picture: &Picture, boxes: &mut Vec<FlameBox>) -> ShortTrunks {
    let mut shortened = ShortTrunks::default();
    // Of each column the first hidden row and the first after it. No two trunks share a column, since one ends above threads.
    let mut hidden_in = vec![(0, 0); boxes.first().map_or(0, |top| top.end as usize)];
    let all: &[FlameBox] = boxes;
    for (_, head) in all.iter().enumerate().filter(|(at, one)| *at == 0 || is_thread(picture, one)) {
        let frames = trunk(picture, all, head);
        let Some((id, last)) = frames.last().filter(|_| frames.len() >= LEAST_FRAMES) else { continue };
        let whole = head.what.total(&picture.tree);
        let missing = whole.saturating_sub(last.what.total(&picture.tree));
        shortened.insert(*id, ShortTrunk { hidden: frames.len() - 1, whole, missing });
        let first = head.row + 1;
        hidden_in[head.start as usize..head.end as usize].fill((first, u32::MAX));
        hidden_in[last.start as usize..last.end as usize].fill((first, last.row));
    }
    if shortened.is_empty() {
        return shortened;
    }
    boxes.retain_mut(|one| {
        let (first, end) = hidden_in[one.start as usize];
        let is_below = one.row >= end;
        if is_below {
            one.row -= end - first;
        }
        is_below || one.row < first
    });
    boxes.sort_by_key(|one| (one.row, one.start));
    shortened
}

/// The frames that the samples of `head`, one of `boxes`, have in common, outermost first.
fn trunk<'b>(picture: &Picture, boxes: &'b [FlameBox], head: &'b FlameBox) -> Vec<(NodeId, &'b FlameBox)> {
    let total = |one: &FlameBox| one.what.total(&picture.tree);
    let (whole, top) = (total(head), boxes.first().map_or((0, 0), |top| (total(top), top.end)));
    let is_all_but_a_column = |one: &FlameBox| {
        let missing = u128::from(whole.saturating_sub(total(one)));
        let is_below_a_column = missing * u128::from(top.1) < u128::from(top.0);
        missing * 100 <= MISSING_PERCENT[usize::from(is_below_a_column)] * u128::from(whole)
    };
    let mut frames = Vec::new();
    let mut above = head;
    loop {
        let from = boxes.partition_point(|one| (one.row, one.start) < (above.row + 1, above.start));
        let below = boxes[from..].iter().take_while(|one| one.row == above.row + 1 && one.end <= above.end);
        let Some(next) = below.max_by_key(|one| total(one)).filter(|one| is_all_but_a_column(one)) else {
            return frames;
        };
        match next.what {
            BoxOf::Node(id) if !is_thread(picture, next) => frames.push((id, next)),
            _ => return frames,
        }
        above = next;
    }
}

fn is_thread(picture: &Picture, one: &FlameBox) -> bool {
    match one.what {
        BoxOf::Node(id) => picture.labels.get(picture.tree.node(id).label).kind == LabelKind::Task,
        BoxOf::All | BoxOf::Rest(_) => false,
    }
}
