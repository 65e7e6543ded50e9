//! The blocks of the heap that a screen is of, where it is of the heap.

use super::HeapView;
use super::heap_blocks::only_heap;
use crate::base::failure::Failure;
use crate::report::analysis::Analysis;
use crate::report::model::metric::{Metric, Shown};
use crate::report::options::{CommonOptions, TimeRange};
use std::sync::Arc;

/// A recording of nothing but the blocks that count.
#[derive(Debug, Clone)]
pub(crate) struct HeapPart {
    /// What it was made of.
    whole: Arc<Analysis>,
    view: HeapView,
    blocks: Arc<Analysis>,
}

impl HeapPart {
    /// The part that the options are about, and the options for it; `None` where they are about something else. `before` is the
    /// part that was shown before.
    ///
    /// # Errors
    ///
    /// When the recording has no heap.
    pub(crate) fn of(
        whole: &Arc<Analysis>,
        common: &CommonOptions,
        before: Option<&HeapPart>,
    ) -> Result<Option<(Self, CommonOptions)>, Failure> {
        if !is_of_heap(whole, common) {
            return Ok(None);
        }
        let view = common.heap.unwrap_or(HeapView::LiveAtEnd);
        let (view, time) = shown(view, common.filter.time, whole.profile.duration_ns());
        let known = before.filter(|before| Arc::ptr_eq(&before.whole, whole) && before.view == view);
        let part = match known {
            Some(known) => known.clone(),
            None => {
                let blocks = Arc::new(only_heap(Analysis::clone(whole), view)?);
                HeapPart { whole: Arc::clone(whole), view, blocks }
            }
        };
        let mut common = common.clone();
        common.metric = Some(Metric::HEAP);
        common.filter.time = time;
        Ok(Some((part, common)))
    }

    /// The recording of these blocks.
    pub(crate) fn blocks(&self) -> &Arc<Analysis> {
        &self.blocks
    }

    /// The recording that has all.
    pub(crate) fn whole(&self) -> &Arc<Analysis> {
        &self.whole
    }
}

/// Whether what the options show of a recording is the heap.
fn is_of_heap(recording: &Analysis, common: &CommonOptions) -> bool {
    let heap = Metric::HEAP;
    Shown::of(&recording.profile, common.metric).is_ok_and(|shown| shown.metric() == heap)
}

/// The blocks that count where a time range is chosen, and the range that is left as a filter: of what is live, a range selects
/// what it grew by. The last bucket of a time line may end after the recording.
fn shown(view: HeapView, time: TimeRange, duration_ns: u64) -> (HeapView, TimeRange) {
    match view {
        HeapView::LiveAtEnd if time != TimeRange::default() => {
            let to_ns = time.to_ns.map(|to_ns| to_ns.min(duration_ns));
            (HeapView::Grown(time.from_ns, to_ns), TimeRange::default())
        }
        view => (view, time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::fixture::Build;
    use crate::report::views::timeline::Timeline;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Ten seconds in which a block is kept each second, and one freed after a second.
    fn recording() -> Arc<Analysis> {
        let mut build = Build::new();
        let task = build.task(7, 7, "app", "app");
        for second in 0..10 {
            build.block(task, second * SECOND_NS, [100, 1_000], None, &["/app:main", "/app:keep"]);
            build.block(task, second * SECOND_NS, [100, 500], Some(SECOND_NS), &["/app:main", "/app:use"]);
        }
        Arc::new(build.finish())
    }

    #[test]
    fn a_range_of_what_is_live_selects_growth() {
        let recording = recording();
        let bytes = |heap, from_ns, to_ns| {
            let mut common = CommonOptions { heap, ..CommonOptions::default() };
            common.filter.time = TimeRange { from_ns, to_ns };
            let part = HeapPart::of(&recording, &common, None).expect("it has a heap");
            let (part, common) = part.expect("it is about that");
            part.blocks().select(&common).expect("there are some").total.weight
        };
        assert_eq!(bytes(None, None, None), 10_000);
        assert_eq!(bytes(Some(HeapView::Allocated), None, None), 15_000);
        assert_eq!(bytes(None, Some(2 * SECOND_NS), Some(5 * SECOND_NS + 1)), 4_500);
        assert_eq!(bytes(None, Some(8 * SECOND_NS), Some(11 * SECOND_NS)), 2_000, "up to the end");
        assert_eq!(bytes(Some(HeapView::Allocated), Some(2 * SECOND_NS), Some(5 * SECOND_NS)), 4_500);
    }

    #[test]
    fn where_no_block_counts_it_is_said_of_how_many() {
        let common = CommonOptions { heap: Some(HeapView::Short(1)), ..CommonOptions::default() };
        let (part, common) =
            HeapPart::of(&recording(), &common, None).expect("it has a heap").expect("it is");
        let empty = part.blocks().select_for_report(&common).expect_err("none is that short-lived");
        assert_eq!(empty.message, "none of 20 sampled blocks counts as `heap, short-lived`");
    }

    #[test]
    fn the_time_line_has_what_was_live() {
        let (part, common) = HeapPart::of(&recording(), &CommonOptions::default(), None)
            .expect("it has a heap")
            .expect("it is about that");
        let timeline = Timeline::new(part.blocks(), &common, 10, 0).expect("nothing is wrong");
        let live =
            |from: u64, to: u64| timeline.weight_in(&timeline.rows[0], from * SECOND_NS, to * SECOND_NS);
        assert_eq!([live(0, 1), live(4, 5), live(9, 10)], [1_500, 5_500, 10_500]);
        assert_eq!(live(0, 2), 2_000, "the mean");
    }
}
