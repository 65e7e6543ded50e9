//! Timelines: which rows, which buckets, and that they add up.

use super::fixture::Build;
use super::fixture_waits::{MS, waiting};
use crate::profile::{Reason, TaskId, ThreadTime};
use crate::report::views::timeline::{self, Busy};
use crate::report::*;

/// A row for each thread.
fn by_thread() -> CommonOptions {
    CommonOptions { threads: Some(ThreadSplit::Each), ..CommonOptions::default() }
}

fn row<'t>(timeline: &'t Timeline, thread: &str) -> &'t TimelineRow {
    timeline.rows.iter().find(|row| row.thread == thread).unwrap()
}

fn total(recording: &Analysis, metric: Metric, options: &CommonOptions) -> u64 {
    recording.select(&CommonOptions { metric: Some(metric), ..options.clone() }).unwrap().total.weight
}

#[test]
fn rows_are_thread_names_or_threads() {
    let recording = waiting();
    let merged = Timeline::new(&recording, &CommonOptions::default(), 100, 0).unwrap();
    let found: Vec<_> =
        merged.rows.iter().map(|row| (&*row.thread, row.threads, row.tid, row.sum.on_cpu_ns / MS)).collect();
    assert_eq!(found, [("worker", 2, None, 3_600), ("writer", 1, None, 500), ("ingest", 1, None, 40)]);
    assert_eq!((merged.duration_ns, merged.bucket_ns), (10_000 * MS, 100 * MS));
    let split = Timeline::new(&recording, &by_thread(), 100, 0).unwrap();
    let tids: Vec<_> = split.rows.iter().map(|row| row.tid.unwrap()).collect();
    assert_eq!(tids, [4313, 4314, 4315, 4312]);
}

#[test]
fn buckets_hold_what_happened_then() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 500, &["/x:main", "/x:run"]);
    build.wait(task, Reason::Disk, 600 * MS, 300 * MS, &["/x:main", "/x:fsync"]);
    build.wait(task, Reason::NoCpu, 950 * MS, 100 * MS, &["/x:main", "/x:run"]);
    let recording = build.finish();
    let timeline = Timeline::new(&recording, &CommonOptions::default(), 10, 0).unwrap();
    let buckets = &row(&timeline, "t").buckets;
    let busy = |on_cpu, no_cpu, blocked, alive| Busy {
        on_cpu_ns: on_cpu * MS,
        no_cpu_ns: no_cpu * MS,
        blocked_ns: blocked * MS,
        alive_ns: alive * MS,
    };
    assert_eq!(buckets[..3], [busy(500, 50, 300, 1_000), busy(0, 50, 0, 50), busy(0, 0, 0, 0)]);
}

#[test]
fn sums_are_those_of_the_other_views() {
    let recording = waiting();
    for (focus, idle) in [(None, false), (None, true), (Some("handle_batch"), false), (Some("fsync"), true)] {
        let filter = FilterOptions { focus: focus.map(String::from), idle, ..FilterOptions::default() };
        let options = CommonOptions { filter, ..CommonOptions::default() };
        let timeline = Timeline::new(&recording, &options, 960, 0).unwrap();
        let mut sum = Busy::default();
        timeline.rows.iter().for_each(|row| sum.add(row.sum));
        if focus != Some("fsync") {
            assert_eq!(sum.on_cpu_ns, total(&recording, Metric::ON_CPU, &options));
        }
        // Short waits have no time; those of the fixture are 4 ms, and part of no filter on names. Parts of
        // waits are rounded down.
        let short_ns = if focus.is_none() { 4 * MS } else { 0 };
        let waited_ns = total(&recording, Metric::OFF_CPU, &options) - short_ns;
        let found_ns = sum.no_cpu_ns + sum.blocked_ns;
        // One wait reaches beyond the end of the recording.
        assert!(found_ns <= waited_ns && found_ns + 50 * MS >= waited_ns, "{found_ns} of {waited_ns}");
    }
}

#[test]
fn a_range_of_time_changes_no_row() {
    let recording = waiting();
    let whole = Timeline::new(&recording, &CommonOptions::default(), 50, 0).unwrap();
    let time = TimeRange { from_ns: Some(5), to_ns: Some(9) };
    let filter = FilterOptions { time, ..FilterOptions::default() };
    let options = CommonOptions { filter, ..CommonOptions::default() };
    assert_eq!(Timeline::new(&recording, &options, 50, 0).unwrap(), whole);
}

#[test]
fn many_threads_share_a_row() {
    let mut build = Build::new();
    for number in 0..1_000 {
        let task = build.task(1, 1 + number, &format!("t{number}"), "p");
        build.add(task, 1 + u64::from(number % 3), &["/x:main"]);
    }
    let recording = build.finish();
    let timeline = Timeline::new(&recording, &by_thread(), 10, 0).unwrap();
    assert_eq!(timeline.rows.len(), timeline::MOST_ROWS);
    let last = timeline.rows.last().unwrap();
    assert!(last.is_rest && last.thread.is_empty());
    assert_eq!(last.threads, 601);
    let sum: u64 = timeline.rows.iter().map(|row| row.sum.on_cpu_ns).sum();
    assert_eq!(sum, recording.select(&CommonOptions::default()).unwrap().total.weight);
}

#[test]
fn an_empty_recording_has_a_timeline() {
    let recording = Build::new().finish();
    let timeline = Timeline::new(&recording, &CommonOptions::default(), 0, 0).unwrap();
    assert!(timeline.rows.is_empty() && timeline.bucket_ns > 0);
}

#[test]
fn threads_that_come_and_go_share_the_time_that_they_were_there() {
    for has_times in [false, true] {
        let mut build = Build::new();
        for number in 0..100 {
            let task = build.task(1, 1 + number, "job", "p");
            build.add(task, 20, &["/x:main", "/x:job"]);
        }
        let mut recording = build.finish();
        if has_times {
            let times = (0..100u64).map(|number| ThreadTime {
                task: TaskId(number as u32),
                from_ns: number * 20 * MS,
                to_ns: (number + 1) * 20 * MS,
                ..ThreadTime::default()
            });
            recording = recording.changed(|recording| recording.profile.thread_times = times.collect());
        }
        let timeline = Timeline::new(&recording, &CommonOptions::default(), 100, 0).unwrap();
        let job = row(&timeline, "job");
        assert_eq!(job.threads, 100);
        // Two seconds, one of the threads at a time.
        for bucket in &job.buckets[..19] {
            let percent = bucket.on_cpu_ns * 100 / bucket.alive_ns;
            assert!((98..=102).contains(&percent), "{bucket:?}");
        }
        assert_eq!(job.buckets[30], Busy::default());
    }
}
