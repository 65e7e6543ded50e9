//! Trunks: what all samples of a box have in common. Each is one row until they are opened.

use crate::report::{BoxOf, FlameBox, LabelKind, NodeId};
use crate::tui::compute::picture::Picture;
use rustc_hash::FxHashMap;

/// Fewer frames than this are shown: shortening would save nothing.
const LEAST_FRAMES: usize = 4;

/// Boxes that replace a trunk, each with the number of frames that it hides.
pub(super) type ShortTrunks = FxHashMap<NodeId, usize>;

/// Shortens the trunks in `boxes`, which are sorted by row, then by column: that of the first box, which is on top, and those of the
/// threads in front. Of the frames that all samples of such a box have in common only the last stays, in the row of the first.
pub(super) fn shorten(picture: &Picture, boxes: &mut Vec<FlameBox>) -> ShortTrunks {
    let mut shortened = ShortTrunks::default();
    // Of each column the first hidden row, and how many there are. No two trunks share a column, since one ends above threads.
    let mut hidden_in = vec![(0, 0); boxes.first().map_or(0, |top| top.end as usize)];
    let all: &[FlameBox] = boxes;
    for (_, head) in all.iter().enumerate().filter(|(at, one)| *at == 0 || is_thread(picture, one)) {
        let frames = trunk(picture, all, head);
        let Some(last) = frames.last().filter(|_| frames.len() >= LEAST_FRAMES) else { continue };
        let hidden = frames.len() - 1;
        shortened.insert(*last, hidden);
        hidden_in[head.start as usize..head.end as usize].fill((head.row + 1, hidden as u32));
    }
    if shortened.is_empty() {
        return shortened;
    }
    boxes.retain_mut(|one| {
        let (first, hidden) = hidden_in[one.start as usize];
        let is_below = one.row >= first + hidden;
        if is_below {
            one.row -= hidden;
        }
        is_below || one.row < first
    });
    boxes.sort_by_key(|one| (one.row, one.start));
    shortened
}

/// The frames that all samples of `head`, one of `boxes`, have in common, outermost first.
fn trunk(picture: &Picture, boxes: &[FlameBox], head: &FlameBox) -> Vec<NodeId> {
    let (tree, whole) = (&picture.tree, head.what.total(&picture.tree));
    let mut frames = Vec::new();
    let mut above = head;
    loop {
        let place = (above.row + 1, above.start);
        let below = boxes.binary_search_by_key(&place, |one| (one.row, one.start)).map(|at| &boxes[at]);
        match below {
            Ok(one) if one.end == above.end && one.what.total(tree) == whole => above = one,
            _ => return frames,
        }
        match above.what {
            BoxOf::Node(id) if !is_thread(picture, above) => frames.push(id),
            _ => return frames,
        }
    }
}

fn is_thread(picture: &Picture, one: &FlameBox) -> bool {
    match one.what {
        BoxOf::Node(id) => picture.labels.get(picture.tree.node(id).label).kind == LabelKind::Task,
        BoxOf::All | BoxOf::Rest(_) => false,
    }
}
