//! Unusual recordings.

use super::fixture::{Paths, SCREEN, compared, options, printed, recording, runs, sums};
use crate::diff::comparison::Comparison;
use crate::diff::difference::DiffOutcome;
use crate::diff::options::{DiffFormat, DiffOptions, DiffView};
use crate::diff::per::Per;
use crate::diff::side::RowValue;
use crate::diff::sums::run::RunSums;
use crate::profile::EventKind;
use crate::report::tests::fixture::Build;
use crate::report::{CommonOptions, FilterOptions, Grouping, Metric, Page};

const PATHS: Paths<'static> = &[(&["/x:main", "/x:work"], 900), (&["/x:main", "/x:rest"], 100)];

fn outcome(comparison: &Comparison, name: &str) -> DiffOutcome {
    let row = comparison.rows.iter().find(|row| comparison.label(row).key.name == name);
    row.expect("it is there").own.outcome
}

/// Detail 23 of the promises: a comparison tells change from noise in every view, and can fail a build.
#[test]
fn a_function_that_some_runs_lack_is_a_row() {
    let some: Paths<'_> =
        &[(&["/x:main", "/x:work"], 900), (&["/x:main", "/x:rest"], 100), (&["/x:main", "/x:once"], 30)];
    let mut base = runs("base", 4, PATHS);
    base.extend(runs("odd", 2, some));
    let (comparison, _) = compared([base, runs("new", 6, PATHS)], &options());
    assert_eq!(outcome(&comparison, "once"), DiffOutcome::Untested, "it is too small");
    assert_eq!(outcome(&comparison, "work"), DiffOutcome::Noise);
    let once = comparison.rows.iter().find(|row| comparison.label(row).key.name == "once").unwrap();
    // 30 samples of 1 ms in two of six runs, with slight variation.
    assert!((9e6..11e6).contains(&once.own.base) && once.own.new == 0.0, "{once:?}");
}

#[test]
fn a_side_without_samples_is_compared_as_nothing() {
    let common = CommonOptions {
        filter: FilterOptions { focus: Some("once".into()), ..FilterOptions::default() },
        ..CommonOptions::default()
    };
    let with = recording(&[(&["/x:main", "/x:once"], 500)]);
    let without = recording(PATHS);
    let side = |recording, name: &str| -> Vec<RunSums> {
        (0..5).map(|run| sums(recording, &format!("{name}{run}"), &common, false)).collect()
    };
    for format in DiffFormat::ALL.map(|(_, format)| format) {
        let options = DiffOptions { format, common: common.clone(), ..options() };
        let text = printed([side(&without, "base"), side(&with, "new")], &options, &SCREEN);
        assert!(text.contains("once"), "{text}");
    }
    let (comparison, _) = compared([side(&with, "base"), side(&without, "new")], &options());
    assert_eq!(outcome(&comparison, "once"), DiffOutcome::Gone);
    assert_eq!(comparison.total.ratio(), None);
}

#[test]
fn names_cannot_do_anything() {
    const NASTY: &str = "/x\x1b[2J:<script>;\"a\tb\n\r\u{202e}=cmd()' 1 2";
    let one: Paths<'_> = &[(&["/x:main", NASTY], 500), (&["/x:main"], 500)];
    let two: Paths<'_> = &[(&["/x:main", NASTY], 900), (&["/x:main"], 500)];
    let sides = || [runs("b\x1b[2J", 5, one), runs("n\n", 5, two)];
    for format in DiffFormat::ALL.map(|(_, format)| format) {
        for view in [DiffView::Flat, DiffView::Tree] {
            let text = printed(sides(), &DiffOptions { format, view, ..options() }, &Page::PLAIN);
            let is_odd =
                |letter: char| letter.is_control() && !"\n\t".contains(letter) || letter == '\u{202e}';
            assert!(!text.contains(is_odd), "{format:?}: {text:?}");
            assert!(!text.contains("<script>;") || format != DiffFormat::Svg, "{text}");
        }
    }
    let options = DiffOptions { format: DiffFormat::GoBench, ..options() };
    let text = printed(sides(), &options, &Page::PLAIN);
    for line in text.lines().filter(|line| line.starts_with("Benchmark")) {
        assert_eq!(line.split(' ').count(), 4, "{line}");
    }
}

#[test]
fn huge_weights_are_numbers() {
    let side = |name: &str, weight: u64| -> Vec<RunSums> {
        let run = |run: u64| {
            let mut build = Build::new();
            let task = build.task(1, 1, "x", "x");
            build.counter(
                EventKind::counted("cycles", "cycles"),
                task,
                [3, weight - run],
                &["/x:main", "/x:work"],
            );
            let common = CommonOptions { metric: Some(Metric::named("cycles")), ..CommonOptions::default() };
            sums(&build.finish(), name, &common, false)
        };
        (0..5).map(run).collect()
    };
    for format in
        DiffFormat::ALL.map(|(_, format)| format).into_iter().filter(|format| *format != DiffFormat::Svg)
    {
        for per in [Per::Run, Per::Second, Per::Share, Per::Work([1e-300, 1e300])] {
            let options = DiffOptions { format, per: Some(per), ..options() };
            let text = printed([side("base", u64::MAX / 4), side("new", u64::MAX)], &options, &SCREEN);
            assert!(!text.contains("NaN") && !text.contains("inf"), "{per:?} {text}");
        }
    }
}

#[test]
fn builds_in_other_folders_with_other_addresses_have_the_same_rows() {
    let base: Paths<'_> = &[
        (&["/old/bin/x:main", "/old/bin/x:+0x1234", "/old/bin/x:parse.llvm.17"], 500),
        (&["/old/bin/x:main", "/old/bin/x:+0x1234"], 100),
    ];
    let new: Paths<'_> = &[
        (&["/new/x:main", "/new/x:+0x9876", "/new/x:parse.llvm.4711"], 500),
        (&["/new/x:main", "/new/x:+0x777"], 100),
    ];
    let (comparison, _) = compared([runs("base", 5, base), runs("new", 5, new)], &options());
    let mut names: Vec<(&str, &str)> = (comparison.rows.iter())
        .map(|row| (comparison.label(row).key.name.as_str(), comparison.label(row).key.module.as_str()))
        .collect();
    names.sort_unstable();
    assert_eq!(names, [("[no names] x", "x"), ("main", "x"), ("parse", "x")]);
    assert_eq!(comparison.count(RowValue::Own, DiffOutcome::is_real), 0);
}

#[test]
fn threads_of_one_name_are_one_row_whatever_their_numbers() {
    let side = |first: u32| -> Vec<RunSums> {
        let run = |run: u32| {
            let mut build = Build::new();
            for thread in 0..3 {
                let task = build.task(first, first + run * 10 + thread, "worker", "x");
                build.add(task, 300, &["/x:main"]);
            }
            let common = CommonOptions { grouping: Grouping::Thread, ..CommonOptions::default() };
            sums(&build.finish(), "file", &common, false)
        };
        (0..5).map(run).collect()
    };
    let (comparison, _) = compared([side(100), side(900)], &options());
    let names: Vec<&str> =
        comparison.rows.iter().map(|row| comparison.label(row).key.name.as_str()).collect();
    assert_eq!(names, ["worker"]);
    assert_eq!((comparison.rows[0].own.base, comparison.rows[0].own.new), (0.9e9, 0.9e9));
}

#[test]
fn recordings_of_different_lengths_are_compared_per_second() {
    let mut new = runs("new", 5, PATHS);
    new.iter_mut().for_each(|run| run.facts.duration_ns *= 2);
    new.iter_mut().for_each(|run| run.facts.is_whole_command = false);
    let sides = || [runs("base", 5, PATHS), new.clone()];
    let (comparison, _) = compared(sides(), &options());
    assert_eq!(comparison.measure.per, Per::Second);
    assert!((comparison.total.new / comparison.total.base - 0.5).abs() < 1e-9);
    let text = printed(sides(), &options(), &SCREEN);
    assert!(text.contains("CPU s per second") && text.contains("differ in length"), "{text}");
    // Commands that ended by themselves did the same work, however long they took.
    let mut sides = sides();
    sides.iter_mut().flatten().for_each(|run| run.facts.is_whole_command = true);
    assert_eq!(compared(sides, &options()).0.measure.per, Per::Run);
}

#[test]
fn different_events_are_not_compared() {
    let mut new = runs("new", 5, PATHS);
    new[3].event.metric = Metric::OFF_CPU;
    let failure = Comparison::new([runs("base", 5, PATHS), new], None, &[]).unwrap_err();
    assert!(failure.message.contains("new-04.data"), "{failure}");
}
