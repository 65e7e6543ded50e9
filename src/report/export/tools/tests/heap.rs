//! Blocks of the heap: those that count next to all that were allocated.

use super::{bytes, options, text};
use crate::report::analysis::Analysis;
use crate::report::export::tools::pprof;
use crate::report::heap::HeapView;
use crate::report::options::ExportOptions;
use crate::report::tests::fixture::Build;

const SECOND_NS: u64 = 1_000_000_000;

/// Of two places, and of two labels of one of them: what is live, and what was freed.
fn recording() -> Analysis {
    let mut build = Build::new();
    let task = build.task(7, 7, "app", "app");
    let (load, parse) = (["/app:main", "/app:load"], ["/app:main", "/app:parse"]);
    build.block(task, SECOND_NS, [1_000, 10_000], None, &load);
    build.block(task, 2 * SECOND_NS, [1_000, 10_000], Some(SECOND_NS), &load);
    build.block(task, 3 * SECOND_NS, [500, 2_000], Some(4 * SECOND_NS), &parse);
    build.label(&[("tenant", "alpha")]);
    build.block(task, 4 * SECOND_NS, [500, 2_000], None, &parse);
    build.finish()
}

/// The recording as `prof export --heap` has it.
fn of_view(view: HeapView) -> (Analysis, ExportOptions) {
    let mut options = options(None);
    options.common.heap = Some(view);
    let (recording, common) = options.common.of_heap(recording()).expect("it has a heap");
    (recording, ExportOptions { common, ..options })
}

fn sums(view: HeapView) -> Vec<(String, u64)> {
    let (recording, options) = of_view(view);
    pprof::decoded::sums(&bytes(&recording, "pprof", &options))
}

#[test]
fn pprof_has_what_was_allocated_and_what_is_in_use() {
    let expected = [("alloc_objects", 28), ("alloc_space", 24_000)];
    let with = |last: &[(&str, u64)]| -> Vec<(String, u64)> {
        expected.iter().chain(last).map(|(name, sum)| ((*name).to_owned(), *sum)).collect()
    };
    assert_eq!(sums(HeapView::LiveAtEnd), with(&[("inuse_objects", 14), ("inuse_space", 12_000)]));
    assert_eq!(sums(HeapView::Allocated), with(&[]));
    assert_eq!(
        sums(HeapView::Grown(Some(3 * SECOND_NS), Some(5 * SECOND_NS))),
        with(&[("grown_objects", 8), ("grown_space", 4_000)])
    );
    let (recording, options) = of_view(HeapView::LiveAtEnd);
    let text = text(&recording, "pprof", &options);
    assert!(text.contains("default inuse_space") && text.contains("period 524288"), "{text}");
    assert!(text.contains("sample [4, 2000, 4, 2000]") && text.contains("tenant=alpha"), "{text}");
    assert!(text.contains("sample [4, 2000, 0, 0]"), "{text}");
    assert!(text.contains("sample [20, 20000, 10, 10000]"), "{text}");
}
