//! What is said of a recording besides its rows: what was lost, hidden or not accounted for, how it ended, what it cost.

use super::fixture::Build;
use super::fixture_waits::{slices, stack, waiting};
use crate::base::units::CpuShares;
use crate::profile::{End, Event, EventInfo, EventKind, Reason, Waker};

use crate::report::print::info;
use crate::report::*;

fn of(metric: Metric) -> CommonOptions {
    CommonOptions { metric: Some(metric), ..CommonOptions::default() }
}

#[test]
fn what_was_lost_of_one_event_is_no_loss_of_the_other() {
    let mut build = Build::new();
    let task = build.task(1, 1, "p", "p");
    build.add(task, 100, &["/x:main"]);
    build.wait(task, Reason::Disk, 0, 5_000_000, &["/x:main", "/x:sync"]);
    build.count("lost_ring_full", 900);
    let recording = build.finish();
    let lost = |metric| recording.select(&of(metric)).unwrap().quality.lost;
    assert_eq!([Metric::ON_CPU, Metric::OFF_CPU, Metric::WALL].map(lost), [900, 0, 900]);
    let info = info::render_text(&recording);
    let lines: Vec<&str> = info.lines().filter(|line| line.starts_with("stacks")).collect();
    assert!(lines[0].contains("lost 900") && lines[1].contains("lost 0"), "{info}");
    assert_eq!(info.matches("of samples were lost").count(), 1, "{info}");
}

#[test]
fn what_is_counted_is_no_time_and_loses_its_own() {
    let faults = || EventKind::counted("page-faults", "page faults");
    let mut build = Build::new();
    let task = build.task(1, 1, "p", "p");
    build.add(task, 100, &["/x:main"]);
    build.wait(task, Reason::Disk, 0, 5_000_000, &["/x:main", "/x:sync"]);
    build.thread_time(task, 10_000_000, 0, 9_990_000_000);
    build.counter(faults(), task, [20, 50], &["/x:main", "/x:touch"]);
    build.counter(EventKind::counted("cs", "switches \x1b[2J"), task, [0, 1], &["/x:main"]);
    build.count("lost_ring_full", 900);
    build.count("lost_counts", 7);
    let recording = build.finish();
    let counted = |name| of(Metric::named(name));
    assert_eq!(recording.select(&counted("page-faults")).unwrap().quality.lost, 7);
    assert_eq!(recording.select(&of(Metric::ON_CPU)).unwrap().quality.lost, 900);
    let threads = |format| {
        let common = counted("page-faults");
        let options = ReportOptions { common, view: ReportView::Threads, format, ..ReportOptions::default() };
        render(&recording, &options, &Page::PLAIN).unwrap()
    };
    let text = threads(Format::Text);
    assert!(text.contains("20 samples = 1,000 page faults") && !text.contains("BLOCKED"), "{text}");
    let json = threads(Format::Json);
    assert!(!json.contains("blocked_ns") && json.contains("1000"), "{json}");
    let empty = recording.select_for_report(&counted("cs")).unwrap_err();
    assert_eq!(empty.message, "the recording has no samples: 7 samples of switches \\x1b[2J were lost");
    let export = ExportOptions { common: counted("page-faults"), ..ExportOptions::default() };
    let svg = String::from_utf8(export::render(&recording, ExportFormat::SVG, &export).unwrap()).unwrap();
    assert!(svg.contains("1,000 page faults"), "{svg}");
}

#[test]
fn a_target_that_ended_before_the_first_sample_did_not_just_wait() {
    let mut build = Build::new();
    build.task(1, 1, "p", "p");
    let recording = build.finish().changed(|recording| {
        recording.profile.end.as_mut().unwrap().reason = End::TARGET_GONE.to_owned();
    });
    let empty = recording.select_for_report(&CommonOptions::default()).unwrap_err();
    assert_eq!(empty.message, "the recording has no samples: the target ended before the first of them");
    assert_eq!(empty.hints, ["from its start on:  prof record COMMAND"]);
}

#[test]
fn an_event_that_never_came_is_not_one_that_was_lost() {
    let mut build = Build::new();
    let task = build.task(1, 1, "p", "p");
    build.counter(EventKind::counted("cs", "switches"), task, [0, 1], &["/x:main"]);
    let empty = build.finish().select_for_report(&of(Metric::named("cs"))).unwrap_err();
    assert_eq!(empty.message, "the recording has no samples: no switches were counted");
}

#[test]
fn threads_without_an_account_are_not_accounted() {
    let mut build = Build::new();
    let known = build.task(1, 1, "p", "p");
    build.add(known, 10, &["/x:main"]);
    build.wait(known, Reason::Disk, 0, 5_000_000, &["/x:main", "/x:sync"]);
    build.thread_time(known, 10_000_000, 0, 9_990_000_000);
    for tid in 2..5 {
        let task = build.task(1, tid, "silent", "p");
        build.thread_time(task, 0, 0, 0);
    }
    let recording = build.finish();
    let options = ReportOptions { common: of(Metric::OFF_CPU), ..ReportOptions::default() };
    let text = render(&recording, &options, &Page::PLAIN).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("+ not accounted 30.0 = 40.0 s"), "{text}");
    assert!(text.contains("the kernel reported nothing for 3 threads: 30.0 s"), "{text}");
    let threads =
        render(&recording, &ReportOptions { view: ReportView::Threads, ..options }, &Page::PLAIN).unwrap();
    assert!(threads.contains("NOT ACC."), "{threads}");
}

#[test]
fn top_waits_and_gaps_have_one_unit_in_their_columns() {
    const MS: u64 = 1_000_000;
    let mut build = Build::new();
    for (tid, name, wait_ns) in [(1, "patient", 2_000 * MS), (2, "hasty", 3 * MS), (3, "hastier", 40_000)] {
        let task = build.task(1, tid, name, "p");
        build.add(task, 20, &["/x:main", "/x:work"]);
        build.wait(task, Reason::Disk, 0, wait_ns, &["/x:main", "/x:fetch"]);
        build.thread_time(task, 20 * MS, 0, wait_ns);
    }
    // The second did not live long.
    let recording = build.finish().changed(|recording| recording.profile.thread_times[1].to_ns = 100 * MS);
    let options = ReportOptions { view: ReportView::Threads, ..ReportOptions::default() };
    let text = render(&recording, &options, &Page::PLAIN).unwrap();
    for (name, gap, wait) in [
        ("patient", "  7.98 s  ", "disk fetch 2.00 s"),
        ("hasty", "  0.08 s  ", "disk fetch 0.003 s"),
        ("hastier", "  9.98 s  ", "disk fetch <0.001 s"),
    ] {
        let row = text.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
        assert!(row.contains(gap) && row.ends_with(wait), "{gap:?} and {wait:?} in {text}");
    }
}

#[test]
fn the_titles_of_processes_tell_their_threads_apart() {
    let mut build = Build::new();
    for (pid, title) in [(1, "postgres: checkpointer"), (2, "postgres: walwriter"), (3, "postgres")] {
        let task = build.task(pid, pid, "postgres", title);
        build.add(task, 10, &["/usr/bin/postgres:main"]);
        build.wait(task, Reason::Disk, 0, 5_000_000, &["/usr/bin/postgres:main", "/usr/bin/postgres:write"]);
        build.thread_time(task, 10_000_000, 0, 9_990_000_000);
    }
    let recording = build.finish();
    let options = ReportOptions { view: ReportView::Threads, ..ReportOptions::default() };
    let text = render(&recording, &options, &Page::PLAIN).unwrap();
    for name in ["postgres: checkpointer ", "postgres: walwriter ", "\npostgres "] {
        assert!(text.contains(name), "{name}: {text}");
    }
}

#[test]
fn what_it_cost_is_what_prof_used_while_it_recorded() {
    let cost = |cpu_ns: u64, recording_cpu_ns: Option<u64>| {
        let mut build = Build::new();
        let task = build.task(1, 1, "p", "p");
        build.wait(task, Reason::Lock, 0, 5, &slices(&stack(&["main"], &[], &[])));
        // A target that hardly runs makes no recording dear.
        build.thread_time(task, 1_000, 0, 5);
        build.finish().changed(|recording| {
            let end = recording.profile.end.as_mut().unwrap();
            (end.cpu_ns, end.recording_cpu_ns, end.bpf_ns) = (cpu_ns, recording_cpu_ns, 20_000_000);
        })
    };
    let recording = cost(400_000_000, Some(50_000_000));
    let words = cost_words(&recording);
    assert_eq!(words.as_deref(), Some("prof 0.5% + BPF 0.2% of a CPU, 350 ms before and after"));
    assert!(cost_lines(&recording).contains(&"350 ms of CPU time before and after".to_owned()));
    let late = CpuShares { cpu_percent: 1.25, bpf_percent: 0.0 };
    let watched = cost(400_000_000, Some(50_000_000)).changed(|recording| recording.late_cost = Some(late));
    assert_eq!(cost_words(&watched).as_deref(), Some("prof 1.2% + BPF 0.0% of a CPU"));
    assert_eq!(
        cost_lines(&watched)[..2],
        ["prof 1.2% + BPF 0.0% of a CPU in the last 10 s", "prof 0.5% + BPF 0.2% of a CPU while recording",]
    );
    // Files of versions that did not tell the parts apart.
    assert_eq!(cost_words(&cost(400_000_000, None)).as_deref(), Some("prof 420 ms CPU in all"));
}

/// Detail 25 of the promises: idle time is hidden but counted, and widths are time.
#[test]
fn idle_waits_that_are_hidden_are_named_by_their_places() {
    let recording = waiting();
    let options = ReportOptions { common: of(Metric::OFF_CPU), ..ReportOptions::default() };
    let text = render(&recording, &options, &Page::PLAIN).unwrap();
    let line = text.lines().find(|line| line.contains("idle in")).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(
        line,
        "  ... 29.1 s idle in 300 waits, hidden: queue_pop 12.2 s (condvar), main 9.90 s (sleep), writer_main 7.00 s \
         (poll); --idle shows them"
    );
    let narrow = Page { width: 60, cut_names: true, ..Page::PLAIN };
    let text = render(&recording, &options, &narrow).unwrap();
    assert!(text.contains("writer_main 7.00 s"), "{text}");
    let json =
        render(&recording, &ReportOptions { format: Format::Json, ..options.clone() }, &Page::PLAIN).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let hidden = &json["hidden_idle"];
    assert_eq!(hidden["wait_ns"], json["hidden_idle_ns"]);
    assert_eq!(hidden["places"][0]["function"], "queue_pop");
    assert_eq!(
        (&hidden["places"][0]["reason"], &hidden["places"][0]["count"]),
        (&"condvar".into(), &200.into())
    );
    // Where they are shown, none is hidden.
    let mut shown = options;
    shown.common.filter.idle = true;
    assert!(!render(&recording, &shown, &Page::PLAIN).unwrap().contains("hidden"));
}

#[test]
fn how_it_ended_is_said_by_report_and_info() {
    let recording = waiting().changed(|recording| {
        let end = recording.profile.end.as_mut().unwrap();
        (end.reason, end.command_status, end.command_signal) =
            ("command ended".to_owned(), Some(139), Some(11));
    });
    let text = render(&recording, &ReportOptions::default(), &Page::PLAIN).unwrap();
    assert!(text.contains("command killed by SIGSEGV"), "{text}");
    assert!(info::render_text(&recording).contains("(command killed by SIGSEGV)"));
    let options = ReportOptions { format: Format::Json, ..ReportOptions::default() };
    let json: serde_json::Value =
        serde_json::from_str(&render(&recording, &options, &Page::PLAIN).unwrap()).unwrap();
    assert_eq!(json["ended"]["command_signal"], "SIGSEGV");
}

#[test]
fn a_recording_without_waits_says_why_it_has_none() {
    let mut build = Build::new();
    let task = build.task(2, 2, "kthreadd", "kthreadd");
    build.add(task, 1, &["[kernel]:kthread"]);
    build.meta().why_no_waits =
        "kthreadd (pid 2) is of the kernel: it is recorded while it runs, not while it waits".into();
    let recording = build.finish();
    let failure = recording.select(&of(Metric::OFF_CPU)).unwrap_err();
    assert!(failure.message.contains("is of the kernel") && failure.hints.is_empty(), "{failure:?}");
}

/// The other end of a pipe may be in the same process.
#[test]
fn a_wait_for_a_pipe_is_not_said_to_be_for_another_process() {
    let mut build = Build::new();
    let task = build.task(1, 1, "reader", "p");
    build.add(task, 1_000, &["/x:main"]);
    build.wait(task, Reason::Pipe, 0, 900_000_000, &["/x:main", "/x:read_all"]);
    build.thread_time(task, 1_000_000_000, 0, 900_000_000);
    let text = render(&build.finish(), &ReportOptions::default(), &Page::PLAIN).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("for the other end of a pipe or a local socket in read_all"), "{text}");
}

#[test]
fn what_is_counted_has_no_words_of_time_and_of_sampling_it() {
    let build = |has_time: bool| {
        let mut build = Build::new();
        let task = build.task(1, 1, "p", "p");
        build.meta().clock = "cpu-clock".into();
        build.meta().effective_hz = 999;
        build.counter(
            EventKind::counted("page-faults", "page faults"),
            task,
            [20, 50],
            &["/x:main", "/x:touch"],
        );
        if has_time {
            build.add(task, 100, &["/x:main"]);
        }
        build.finish().changed(|recording| {
            recording.profile.events.retain(|event| !event.is_empty());
        })
    };
    let common = of(Metric::named("page-faults"));
    let options = ReportOptions { common, view: ReportView::Threads, ..ReportOptions::default() };
    let text = render(&build(false), &options, &Page::PLAIN).unwrap();
    assert!(text.contains("COUNT") && !text.contains("TIME"), "{text}");
    let info = |has_time| info::render_text(&build(has_time));
    assert!(!info(false).contains("\nsampling ") && info(false).contains("every 50"), "{}", info(false));
    assert!(info(true).contains("\nsampling  cpu-clock at 999 Hz"), "{}", info(true));
}

/// Nothing but its kind says that an event is one of intervals.
#[test]
fn a_third_kind_with_a_length_is_shown_as_waits_are() {
    let kind = EventKind { has_duration: true, ..EventKind::counted("lock-hold", "lock hold") };
    let mut build = Build::new();
    let task = build.task(1, 1, "p", "p");
    build.wait(task, Reason::Lock, 0, 5_000_000, &["/x:main", "/x:hold"]);
    build.thread_time(task, 10_000_000, 0, 9_990_000_000);
    let recording = build.finish().changed(|recording| {
        let waits = recording.profile.event_of(&EventKind::OFF_CPU).unwrap();
        let mut held = Event::new(EventInfo { kind: kind.clone(), ..EventInfo::default() });
        waits.samples().for_each(|wait| held.push(wait));
        recording.profile.events.push(held);
    });
    let rendered = |metric| {
        let options = ReportOptions { common: of(metric), ..ReportOptions::default() };
        render(&recording, &options, &Page::PLAIN).unwrap()
    };
    let heading = "BLOCKED IN";
    let text = rendered(Metric::of_kind(&kind));
    assert!(text.contains(heading) && text.contains("hold"), "{text}");
    assert!(rendered(Metric::OFF_CPU).contains(heading), "{text}");
}

/// Of a thread that waited a thousand times for the same, sampling may keep more or less than its share.
#[test]
fn times_of_threads_whose_waits_were_dropped_by_sampling_add_up() {
    let mut build = Build::new();
    let sleep = stack(&["thread_main", "sleep_on"], &["usleep", "clock_nanosleep"], &["hrtimer_nanosleep"]);
    let disk = stack(&["thread_main", "write_log"], &["fsync"], &["jbd2_log_wait_commit"]);
    let threads: Vec<_> = (1..=4).map(|tid| build.task(1, tid, "pool", "pool")).collect();
    for &task in &threads {
        build.thread_time(task, 0, 0, 4_000_000_000);
    }
    // The first three only sleep, and are weighted as too little, too much and right; the last one also writes.
    for (task, weight) in threads.iter().zip([1_500_000_000, 9_000_000_000, 4_000_000_000, 6_000_000_000]) {
        let wait = [0, 1_000_000, weight];
        build.thinned_wait(*task, Reason::Sleep, wait, &slices(&sleep), Waker::default());
    }
    let wait = [2_000_000, 1_000_000, 2_000_000_000];
    build.thinned_wait(threads[3], Reason::Disk, wait, &slices(&disk), Waker::default());
    let totals = Totals::of(&build.finish(), &CommonOptions::default()).unwrap().unwrap();
    let blocked: Vec<u64> = totals.threads.iter().map(|thread| thread.times.blocked_ns()).collect();
    assert_eq!(blocked, [0, 0, 0, 1_000_000_000]);
    assert_eq!(totals.times.blocked_ns(), blocked.iter().sum::<u64>());
    assert_eq!(totals.times.idle_ns(), 15_000_000_000);
}
