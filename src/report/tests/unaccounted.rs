//! Threads without an account, and targets of which nothing was recorded: no view may pass them for idle ones.

use super::fixture::Build;
use super::fixture_waits::waiting;
use crate::base::failure::{Failure, status};
use crate::profile::{End, EventInfo, EventKind, Integrity, Meta, Profile, Reason, counter};
use crate::report::analysis::Analysis;
use crate::report::model::metric::Metric;
use crate::report::model::totals::Totals;
use crate::report::options::{CommonOptions, FilterOptions, ReportOptions, ThreadFilter};
use crate::report::print::info;
use crate::report::print::render::render;
use crate::report::print::text::page::Page;

/// Four seconds of a target of 13 threads, of which the kernel sent nothing.
fn silent() -> Analysis {
    let meta = Meta { target: "server (pid 7)".into(), threads_at_start: 13, ..Meta::default() };
    let mut profile = Profile::new(meta);
    for kind in [EventKind::ON_CPU, EventKind::OFF_CPU] {
        profile.add_event(EventInfo { kind, ..EventInfo::default() });
    }
    profile.count(counter::THREADS_UNACCOUNTED, 13);
    profile.end = Some(End { duration_ns: 4_000_000_000, ..End::default() });
    Analysis::new(profile, Integrity { is_complete: true, ..Integrity::default() })
}

fn refusal(recording: &Analysis, metric: Metric) -> Failure {
    let common = CommonOptions { metric: Some(metric), ..CommonOptions::default() };
    let options = ReportOptions { common, ..ReportOptions::default() };
    let error = render(recording, &options, &Page::PLAIN).expect_err("there is nothing to show");
    error.downcast().expect("a failure with advice")
}

#[test]
fn info_says_what_is_not_accounted_for_and_calls_no_stacks_complete() {
    let text = info::render_text(&silent());
    assert!(text.contains("+ not accounted 52.0 = 52.0 s"), "{text}");
    assert!(text.contains("no account of 13 threads"), "{text}");
    assert!(text.contains("NOTE      the kernel reported nothing for 13 threads of the target"), "{text}");
    assert!(text.contains("stacks    none") && !text.contains("100.0%"), "{text}");
    let document: serde_json::Value = serde_json::from_str(&info::render_json(&silent()).unwrap()).unwrap();
    assert_eq!(document["totals"]["unaccounted_ns"], 52_000_000_000_u64);
    assert_eq!(document["totals"]["threads_unaccounted"], 13);
}

#[test]
fn a_report_without_rows_says_that_nothing_is_known() {
    let failure = refusal(&silent(), Metric::OFF_CPU);
    assert_eq!(failure.status, status::NO_MATCH);
    assert!(failure.message.contains("no account of the time of 13 threads"), "{failure}");
    let message = refusal(&silent(), Metric::ON_CPU).message;
    assert!(message.contains("no samples, and no account of the time of 13 threads"), "{message}");
    let ran = silent().changed(|recording| recording.profile.count(counter::UNRECORDED_NS, 301_000_000));
    let failure = refusal(&ran, Metric::ON_CPU);
    assert!(failure.message.contains("the target used 301 ms of CPU time"), "{failure}");
    assert!(info::render_text(&ran).contains("NOTE      the target used 301 ms of CPU time"));
}

#[test]
fn the_time_of_all_threads_has_those_without_an_account() {
    let options = CommonOptions::default();
    let totals =
        |recording: &Analysis, options: &CommonOptions| Totals::of(recording, options).unwrap().unwrap();
    let known = totals(&waiting(), &options);
    let recording = waiting().changed(|recording| recording.profile.count(counter::THREADS_UNACCOUNTED, 2));
    let all = totals(&recording, &options);
    assert_eq!(all.times.lifetime_ns, known.times.lifetime_ns + 20_000_000_000);
    assert_eq!(all.times.unaccounted_ns(), known.times.unaccounted_ns() + 20_000_000_000);
    let common = CommonOptions { metric: Some(Metric::OFF_CPU), ..CommonOptions::default() };
    let shown = ReportOptions { common, ..ReportOptions::default() };
    let text = render(&recording, &shown, &Page::PLAIN).unwrap();
    assert!(text.contains("10.0 s x 6 threads = 60.0 thread-seconds"), "{text}");
    assert!(text.contains("+ not accounted 20.0 = 60.0 s"), "{text}");
    // One of them was seen running, which is part of its time; one that has waits is none of them.
    let with = |add: &dyn Fn(&mut Build)| {
        let mut build = Build::new();
        build.count(counter::THREADS_UNACCOUNTED, 2);
        add(&mut build);
        totals(&build.finish(), &options)
    };
    let sampled = with(&|build| {
        let accounted = build.task(1, 1, "main", "main");
        build.thread_time(accounted, 0, 0, 10_000_000_000);
        build.wait(accounted, Reason::Sleep, 0, 1_000_000, &["/x:main"]);
        let other = build.task(1, 2, "other", "main");
        build.add(other, 5, &["/x:main"]);
    });
    assert_eq!((sampled.times.lifetime_ns, sampled.thread_count()), (30_000_000_000, 3));
    let waited = with(&|build| {
        let other = build.task(1, 2, "other", "main");
        build.wait(other, Reason::Sleep, 0, 1_000_000, &["/x:main"]);
    });
    assert_eq!((waited.times.lifetime_ns, waited.thread_count()), (20_001_000_000, 3));
    // They have no names that a filter could ask for.
    let filter = FilterOptions { threads: vec![ThreadFilter::named("worker")], ..FilterOptions::default() };
    let of_workers = CommonOptions { filter, ..CommonOptions::default() };
    assert_eq!(totals(&recording, &of_workers), totals(&waiting(), &of_workers));
}
