//! Off-CPU time: its rows are wait sites, and a few very long waits must not dominate.

use super::fixture::{SCREEN, compared, options, printed, sums};
use crate::diff::difference::DiffOutcome;
use crate::diff::options::DiffOptions;
use crate::diff::sums::run::RunSums;
use crate::profile::Reason;
use crate::report::tests::fixture::Build;
use crate::report::{CommonOptions, Metric};

const MS: u64 = 1_000_000;
const LOCK: [&str; 4] =
    ["/x:main", "/x:pool_get", "/usr/lib/libc.so.6:pthread_mutex_lock", "[kernel]:futex_wait"];

fn common() -> CommonOptions {
    CommonOptions { metric: Some(Metric::OFF_CPU), ..CommonOptions::default() }
}

/// Runs with 1,200 lock waits each, of `length_us` and up to 39 µs more; every third run also has a wait of
/// `longest_ms`.
fn side(name: &str, length_us: u64, longest_ms: u64) -> Vec<RunSums> {
    let run = |run: u64| {
        let mut build = Build::new();
        let task = build.task(1, 1, "x", "x");
        build.add(task, 1, &LOCK[..2]);
        for wait in 0..1_200 {
            let length_us = length_us + (wait * 7 + run * 3) % 40;
            build.wait(task, Reason::Lock, wait * 2 * MS, length_us * 1_000, &LOCK);
        }
        if run.is_multiple_of(3) {
            build.wait(task, Reason::Lock, 5_000 * MS, longest_ms * MS, &LOCK);
        }
        sums(&build.finish(), name, &common(), false)
    };
    (0..9).map(run).collect()
}

fn options_of_waits() -> DiffOptions {
    DiffOptions { common: common(), ..options() }
}

#[test]
fn a_place_where_threads_wait_longer_is_found_whatever_the_longest_wait_was() {
    let (comparison, _) = compared([side("base", 500, 4_000), side("new", 550, 2)], &options_of_waits());
    let names: Vec<&str> =
        comparison.rows.iter().map(|row| comparison.label(row).key.name.as_str()).collect();
    let row = &comparison.rows[names.iter().position(|name| *name == "pool_get [lock]").expect("the place")];
    assert!(row.own.new < row.own.base, "by their sums the base has more: {row:?}");
    let ratio = row.own.ratio().unwrap();
    // (550 + 19.5) / (500 + 19.5) is 1.096.
    assert!((1.08..1.11).contains(&ratio) && row.own.outcome == DiffOutcome::Changed, "{ratio} {names:?}");
}

#[test]
fn text_of_waits() {
    insta::assert_snapshot!(printed(
        [side("base", 500, 4), side("new", 700, 4)],
        &options_of_waits(),
        &SCREEN
    ));
}

#[test]
fn running_and_waiting_together() {
    let metric = Some(Metric::WALL);
    let common = CommonOptions { metric, ..CommonOptions::default() };
    let wall = |length_us: u64| -> Vec<RunSums> {
        let run = |run: u64| {
            let mut build = Build::new();
            let task = build.task(1, 1, "x", "x");
            build.add(task, 1_000 + run, &LOCK[..2]);
            (0..100).for_each(|wait| {
                build.wait(task, Reason::Disk, wait * 9 * MS, (length_us + run) * 1_000, &LOCK)
            });
            sums(&build.finish(), "file", &common, false)
        };
        (0..5).map(run).collect()
    };
    let (comparison, _) =
        compared([wall(5_000), wall(8_000)], &DiffOptions { common: common.clone(), ..options() });
    let outcome = |name: &str| {
        let row = comparison.rows.iter().find(|row| comparison.label(row).key.name == name);
        row.expect("it is there").own.outcome
    };
    assert_eq!((outcome("pool_get [disk]"), outcome("pool_get")), (DiffOutcome::Changed, DiffOutcome::Noise));
}
