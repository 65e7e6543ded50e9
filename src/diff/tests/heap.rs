//! Memory of two recordings, and of two times of one.

use super::fixture::options;
use crate::diff::comparison::Comparison;
use crate::diff::difference::DiffOutcome;
use crate::diff::load::sums_of;
use crate::diff::options::DiffOptions;
use crate::diff::per::Per;
use crate::diff::sums::run::{PathSums, RunOptions};
use crate::report::tests::fixture::Build;
use crate::report::{Analysis, CommonOptions, HeapView};

const SECOND_NS: u64 = 1_000_000_000;

/// A cache that is filled for nine of ten seconds, with blocks so large that each is sampled, and a buffer that is freed.
fn recording(blocks: u64) -> Analysis {
    let mut build = Build::new();
    let task = build.task(7, 7, "app", "app");
    for number in 0..blocks {
        let time_ns = number * 9 * SECOND_NS / blocks;
        build.block(task, time_ns, [1 << 20; 2], None, &["/app:main", "/app:fill"]);
        build.block(task, time_ns, [1 << 10; 2], Some(SECOND_NS / 10), &["/app:main", "/app:copy"]);
    }
    build.finish()
}

/// The comparison of base and new.
fn compared(recordings: [Analysis; 2], options: &DiffOptions) -> Comparison {
    let mut sides = [Vec::new(), Vec::new()];
    for (side, recording) in recordings.into_iter().enumerate() {
        let common = options.common_of(side);
        let run = RunOptions { common: &common, paths: PathSums::None, slices: true, threads: None };
        sides[side].push(sums_of(recording, side.to_string(), &run).expect("it has a heap"));
    }
    Comparison::new(sides, options.per, &[]).expect("both are memory")
}

/// Bytes of a function on both sides.
fn bytes(comparison: &Comparison, function: &str) -> [f64; 2] {
    let row = comparison.rows.iter().find(|row| comparison.label(row).key.name == function);
    row.map_or([0.0; 2], |row| [row.own.base, row.own.new])
}

#[test]
fn what_is_live_at_the_end_is_compared_unless_something_else_is_asked_for() {
    let both = || [recording(90), recording(180)];
    let live = compared(both(), &options());
    assert_eq!(bytes(&live, "fill"), [90.0 * 1048576.0, 180.0 * 1048576.0]);
    assert_eq!(live.measure.per, Per::Run, "it is no matter of length");
    assert_eq!(bytes(&live, "copy"), [0.0; 2], "it was freed");
    let common = CommonOptions { heap: Some(HeapView::Allocated), ..CommonOptions::default() };
    let allocated = DiffOptions { common, ..options() };
    assert_eq!(bytes(&compared(both(), &allocated), "copy"), [90.0 * 1024.0, 180.0 * 1024.0]);
}

#[test]
fn two_times_of_one_recording_are_compared() {
    let times = DiffOptions { heap_times: Some([SECOND_NS * 2, SECOND_NS * 5]), ..options() };
    let live = compared([recording(90), recording(90)], &times);
    assert_eq!(bytes(&live, "fill"), [21.0 * 1048576.0, 51.0 * 1048576.0]);
    assert_eq!(bytes(&live, "copy"), [1024.0; 2], "one of them is live at any time");
}

/// The number of samples decides: how blocks come and go within a recording says nothing of what is live at one moment.
#[test]
fn the_noise_is_that_of_sampling() {
    let sampled = |blocks: u64| {
        let mut build = Build::new();
        let task = build.task(7, 7, "app", "app");
        // All at once.
        (0..blocks)
            .for_each(|_| build.block(task, SECOND_NS, [100, 1 << 19], None, &["/app:main", "/app:fill"]));
        build.finish()
    };
    let outcome = |blocks: [u64; 2]| compared(blocks.map(sampled), &options()).total.outcome;
    assert_eq!(outcome([100, 200]), DiffOutcome::Changed);
    assert_eq!(outcome([100, 110]), DiffOutcome::Noise);
    // Each is sampled for certain.
    assert_eq!(compared([recording(100), recording(101)], &options()).total.outcome, DiffOutcome::Changed);
}
