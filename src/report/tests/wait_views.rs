//! Golden text of every view of waits.

use super::fixture::Build;
use super::fixture_waits::{MS, slices, stack, waiting};
use crate::base::failure::{Failure, status};
use crate::profile::{Reason, Waker};
use crate::report::print::info;
use crate::report::*;
use insta::assert_snapshot;

fn options(metric: Metric, view: ReportView) -> ReportOptions {
    let common = CommonOptions { metric: Some(metric), ..CommonOptions::default() };
    ReportOptions { common, view, ..ReportOptions::default() }
}

fn with_filter(metric: Metric, filter: FilterOptions) -> CommonOptions {
    CommonOptions { metric: Some(metric), filter, ..CommonOptions::default() }
}

fn text(options: &ReportOptions) -> String {
    render(&waiting(), options, &Page::PLAIN).unwrap()
}

fn off_cpu(view: ReportView) -> String {
    text(&options(Metric::OFF_CPU, view))
}

#[test]
fn waits() {
    assert_snapshot!(off_cpu(ReportView::Overview));
}

/// Detail 1 of the promises: every wait is recorded, with its reason, its place and its waker.
#[test]
fn waits_on_a_wide_page() {
    let page = Page { width: 120, ..Page::PLAIN };
    let options = options(Metric::OFF_CPU, ReportView::Overview);
    assert_snapshot!(render(&waiting(), &options, &page).unwrap());
}

#[test]
fn waits_on_a_narrow_terminal() {
    for width in [80, 100, 120, 160] {
        let page = Page { width, cut_names: true, color: false, names: NameStyle::Short, is_ascii: false };
        for idle in [false, true] {
            let mut options = options(Metric::OFF_CPU, ReportView::Overview);
            options.common.filter.idle = idle;
            let text = render(&waiting(), &options, &page).unwrap();
            assert!(text.lines().all(|line| crate::base::safe_text::width(line) <= width), "{width} {text}");
        }
    }
}

#[test]
fn idle_waits_are_listed_when_asked_for() {
    let mut options = options(Metric::OFF_CPU, ReportView::Overview);
    options.common.filter.idle = true;
    assert_snapshot!(text(&options));
}

/// Detail 2 of the promises: running and waiting time add up to the time that passed.
#[test]
fn wall_clock() {
    assert_snapshot!(text(&options(Metric::WALL, ReportView::Overview)));
}

#[test]
fn tree_of_waits() {
    assert_snapshot!(off_cpu(ReportView::Tree));
}

#[test]
fn bottom_up_tree_of_waits() {
    assert_snapshot!(off_cpu(ReportView::BottomUp));
}

#[test]
fn functions_that_wait() {
    assert_snapshot!(off_cpu(ReportView::Flat));
}

#[test]
fn callers_of_a_function_that_waits() {
    assert_snapshot!(off_cpu(ReportView::Peek("^pool_get$".into())));
}

#[test]
fn threads_show_where_their_whole_time_went() {
    assert_snapshot!(text(&options(Metric::ON_CPU, ReportView::Threads)));
}

#[test]
fn threads_on_a_wide_page() {
    let page = Page { width: 120, ..Page::PLAIN };
    assert_snapshot!(render(&waiting(), &options(Metric::ON_CPU, ReportView::Threads), &page).unwrap());
}

#[test]
fn a_report_of_running_time_notes_long_waits() {
    let text = text(&ReportOptions::default());
    assert!(
        text.contains("NOTE  2 threads named `worker` also waited 3.36 s for a lock in pool_get, 81% of\n      the CPU time: prof report --off-cpu"),
        "{text}"
    );
    let few = FilterOptions { threads: vec![ThreadFilter::named("^ingest$")], ..FilterOptions::default() };
    let options = ReportOptions { common: with_filter(Metric::ON_CPU, few), ..ReportOptions::default() };
    let text = self::text(&options);
    assert!(!text.contains("also waited"), "idle waits are worth no note: {text}");
}

/// Of waits for a CPU the first ones of new threads are only added up; they count as the others do.
#[test]
fn a_note_on_waits_for_a_cpu_counts_all_of_them_and_all_threads() {
    let mut build = Build::new();
    let [kept, only_sum] = [1, 2].map(|tid| build.task(1, tid, "burner", "burner"));
    for task in [kept, only_sum] {
        build.add(task, 1_000, &["/usr/bin/burner:main"]);
    }
    build.wait(kept, Reason::NoCpu, 0, 600_000_000, &["/usr/bin/burner:main"]);
    build.thread_time(kept, 1_000_000_000, 600_000_000, 0);
    build.thread_time(only_sum, 1_000_000_000, 400_000_000, 0);
    build.short_waits(Reason::NoCpu, 1, 400_000_000);
    let text = render(&build.finish(), &ReportOptions::default(), &Page::PLAIN).unwrap();
    assert!(text.contains("2 threads named `burner` also waited 1.00 s for a CPU, 50%"), "{text}");
}

#[test]
fn waits_can_be_grouped() {
    for grouping in [Grouping::Line, Grouping::Module, Grouping::Thread, Grouping::Process] {
        let mut options = options(Metric::OFF_CPU, ReportView::Overview);
        options.common.grouping = grouping;
        let text = text(&options);
        let expected = match grouping {
            Grouping::Line => "pool_get /src/ingest.c:18 < handle_batch",
            Grouping::Module => "lock    ingest",
            Grouping::Thread => "worker (tid 4313)",
            _ => "ingest (pid 4312)",
        };
        assert!(text.contains(expected), "{grouping:?} {text}");
    }
}

#[test]
fn rows_can_be_sorted_and_limited() {
    let mut options = options(Metric::OFF_CPU, ReportView::Overview);
    options.sort = SortKey::Count;
    options.rows = Some(2);
    let text = text(&options);
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.contains("REASON")).skip(1).collect();
    assert!(rows[0].contains("waits below 1us") && rows[1].contains("pool_get"), "{text}");
    assert!(rows[2].contains("more rows") && rows[2].ends_with("(-n 0 shows all)"), "{text}");
    options.rows = None;
    options.min_percent = Some(30.0);
    options.sort = SortKey::SelfWeight;
    assert_eq!(self::text(&options).matches(" lock ").count(), 1);
}

#[test]
fn json_of_waits() {
    let json = ReportOptions { format: Format::Json, ..options(Metric::OFF_CPU, ReportView::Overview) };
    let document: serde_json::Value = serde_json::from_str(&text(&json)).unwrap();
    assert_eq!(document["event"], "off-cpu");
    let totals = &document["totals"];
    let part = |name: &str| totals[name].as_i64().unwrap();
    assert_eq!(part("on_cpu_ns"), 4_210_000_000);
    assert_eq!(part("no_cpu_ns"), 500_000_000);
    let sum = part("on_cpu_ns") + part("no_cpu_ns") + part("blocked_ns") + part("idle_ns");
    assert_eq!(sum + part("unaccounted_ns"), 40_000_000_000);
    let row = document["rows"].as_array().unwrap().iter().find(|row| row["function"] == "pool_get").unwrap();
    assert_eq!((&row["reason"], &row["called_by"]), (&"lock".into(), &"handle_batch".into()));
    assert_eq!((&row["count"], &row["call"]), (&360.into(), &"__lll_lock_wait".into()));
    assert_eq!((&row["mean_ns"], &row["p99_ns"]), (&9_333_333.into(), &200_000_000.into()));
    assert_eq!(row["woken_by"][0]["function"], "pool_put");
    assert!((row["woken_by"][0]["share_pct"].as_f64().unwrap() - 88.9).abs() < 0.1, "{row}");
    let disk = document["rows"].as_array().unwrap().iter().find(|row| row["reason"] == "disk").unwrap();
    // Fifty waits that are weighted as two each, and fifty as one.
    assert_eq!((&disk["count"], &disk["samples"]), (&150.into(), &100.into()));
    assert_eq!(disk["woken_by"][0]["name"], "[jbd2]");
}

#[test]
fn rows_say_how_much_of_them_is_idle_where_such_waits_are_shown() {
    for idle in [true, false] {
        let filter = FilterOptions { idle, ..FilterOptions::default() };
        let common = with_filter(Metric::OFF_CPU, filter);
        let json = ReportOptions { common, format: Format::Json, ..ReportOptions::default() };
        let document: serde_json::Value = serde_json::from_str(&text(&json)).unwrap();
        let rows = document["rows"].as_array().unwrap();
        let sum: u64 = rows.iter().map(|row| row["idle_ns"].as_u64().unwrap()).sum();
        let whole = document["totals"]["idle_ns"].as_u64().unwrap();
        assert!(whole > 0);
        assert_eq!(sum, if idle { whole } else { 0 });
        let of = |name: &str| rows.iter().find(|row| row["function"] == name).unwrap();
        assert_eq!(of("pool_get")["idle_count"], 0);
        if idle {
            assert_eq!(of("queue_pop")["idle_ns"], of("queue_pop")["wait_ns"]);
            assert_eq!(of("queue_pop")["idle_count"], of("queue_pop")["count"]);
        }
    }
}

/// A reason is none of them.
#[test]
fn waiting_is_time_of_threads_processes_and_modules_themselves() {
    for grouping in [Grouping::Thread, Grouping::Process, Grouping::Module] {
        let common = CommonOptions { metric: Some(Metric::WALL), grouping, ..CommonOptions::default() };
        let selection_options = common.clone();
        let options = ReportOptions { common, format: Format::Json, ..ReportOptions::default() };
        let document: serde_json::Value = serde_json::from_str(&text(&options)).unwrap();
        let rows = document["rows"].as_array().unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row["function"].as_str().unwrap()).collect();
        for reason in ["[lock]", "[disk]", "[net]", "[fault]", "[no CPU]"] {
            assert!(!names.contains(&reason), "{grouping:?} {names:?}");
        }
        let own: u64 = rows.iter().map(|row| row["self"].as_u64().unwrap()).sum();
        let recording = waiting();
        assert_eq!(own, recording.select(&selection_options).unwrap().total.weight, "{grouping:?}");
    }
}

#[test]
fn callers_and_callees_have_the_numbers_of_the_table_whatever_rows_stand_for() {
    let recording = waiting();
    let groupings =
        [Grouping::Function, Grouping::Line, Grouping::Module, Grouping::Thread, Grouping::Process];
    for (metric, grouping) in [Metric::ON_CPU, Metric::OFF_CPU, Metric::WALL]
        .into_iter()
        .flat_map(|metric| groupings.map(|g| (metric, g)))
    {
        let common = CommonOptions { metric: Some(metric), grouping, ..CommonOptions::default() };
        let selection = recording.select(&common).unwrap();
        let rows = FunctionTable::new(&selection, SortKey::SelfWeight).rows;
        assert!(!rows.is_empty());
        for row in rows {
            let name = &selection.labels.get(row.label).name;
            let pattern = regex::Regex::new(&format!("^{}$", regex::escape(name))).unwrap();
            let peeks = peek(&selection, &pattern);
            let peek = peeks.iter().find(|peek| peek.label == row.label).unwrap();
            assert_eq!((peek.own, peek.total), (row.own, row.total), "{metric:?} {grouping:?} {name}");
        }
    }
}

#[test]
fn ways_to_sleep_in_the_kernel_are_one_path() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    for way in ["jbd2_log_wait_commit", "folio_wait_writeback"] {
        let sync = stack(&["writer_main", "save"], &["fsync"], &["do_fsync", way]);
        build.wait(task, Reason::Disk, 0, 30 * MS, &slices(&sync));
    }
    let read = stack(&["writer_main", "load"], &["read"], &["pipe_read"]);
    build.wait(task, Reason::Pipe, 0, 40 * MS, &slices(&read));
    let text = render(&build.finish(), &options(Metric::OFF_CPU, ReportView::Flat), &Page::PLAIN).unwrap();
    let (_, paths) = text.split_once("HEAVIEST PATHS\n").unwrap();
    let paths: Vec<&str> = paths.lines().collect();
    assert_eq!(paths.len(), 2, "{text}");
    assert!(paths[0].contains("60.0%  [disk] < fsync < save"), "{text}");
    assert!(paths[1].contains("40.0%  [pipe] < read < load"), "{text}");
}

#[test]
fn every_format_has_every_view() {
    for metric in [Metric::OFF_CPU, Metric::WALL] {
        for view in [
            ReportView::Overview,
            ReportView::Flat,
            ReportView::Tree,
            ReportView::BottomUp,
            ReportView::Threads,
            ReportView::Peek("main".into()),
        ] {
            let tsv = text(&ReportOptions { format: Format::Tsv, ..options(metric, view.clone()) });
            let columns: Vec<usize> = tsv.lines().map(|line| line.split('\t').count()).collect();
            assert!(columns.len() > 1 && columns.iter().all(|count| *count == columns[0]), "{view:?} {tsv}");
            let json = text(&ReportOptions { format: Format::Json, ..options(metric, view) });
            let document: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert!(!document["rows"].as_array().unwrap().is_empty());
        }
    }
}

#[test]
fn folded_waits_end_in_their_reason() {
    let recording = waiting();
    let folded = |metric, idle| {
        let filter = FilterOptions { idle, ..FilterOptions::default() };
        let selection = recording.select(&with_filter(metric, filter)).unwrap();
        (folded(&selection, NameStyle::Full, false), selection.total.weight)
    };
    let sum = |text: &str| -> u64 {
        text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    let (blocked, total) = folded(Metric::OFF_CPU, false);
    assert_eq!(sum(&blocked), total);
    assert!(
        blocked.contains("pool_get;pthread_mutex_lock;__lll_lock_wait;futex_wait_[k];[lock] 3360000000\n"),
        "{blocked}"
    );
    assert!(blocked.contains("worker;[waits below 1us];[futex] 4000000\n"), "{blocked}");
    let (all, total) = folded(Metric::OFF_CPU, true);
    assert_eq!(sum(&all), total);
    assert_eq!(total, recording.profile.events[1].total_weight() + 4_000_000);
    let (wall, total) = folded(Metric::WALL, true);
    assert_eq!(total, sum(&all) + recording.profile.events[0].total_weight());
    assert!(
        wall.contains("handle_batch;compress 3600000000\n") && wall.contains(";compress;[no CPU] "),
        "{wall}"
    );
}

#[test]
fn folded_counts_are_numbers_of_waits() {
    let recording = waiting();
    let selection = recording.select(&with_filter(Metric::OFF_CPU, FilterOptions::default())).unwrap();
    let counts = folded(&selection, NameStyle::Full, true);
    assert!(counts.contains("jbd2_log_wait_commit_[k];[disk] 150\n"), "{counts}");
    assert!(counts.contains("[waits below 1us];[futex] 8000\n"), "{counts}");
}

#[test]
fn a_wait_counts_as_far_as_it_lies_in_the_time_range() {
    let time = TimeRange { from_ns: Some(4_000_000_000), to_ns: Some(6_000_000_000) };
    let filter = FilterOptions {
        time,
        idle: true,
        threads: vec![ThreadFilter::named("writer")],
        ..FilterOptions::default()
    };
    let recording = waiting();
    let selection = recording.select(&with_filter(Metric::OFF_CPU, filter.clone())).unwrap();
    let table = WaitTable::new(&selection, SortKey::SelfWeight);
    let poll = table.rows.iter().find(|row| row.reason == Reason::Poll).unwrap();
    // From 2 s to 9 s, of which two seconds are of interest; its length stays what it is.
    assert_eq!((poll.amount.weight, poll.amount.count(), poll.mean_ns), (2_000_000_000, 1, 7_000_000_000));
    let totals =
        Totals::of(&recording, &CommonOptions { filter, ..CommonOptions::default() }).unwrap().unwrap();
    assert!(!totals.is_by_scheduler);
    assert_eq!((totals.times.lifetime_ns, totals.times.idle_ns()), (2_000_000_000, 2_000_000_000));
}

#[test]
fn a_wait_that_stands_for_those_of_other_threads_counts_in_their_sum() {
    let mut build = Build::new();
    let sleep = stack(&["thread_main", "sleep_on"], &["usleep", "clock_nanosleep"], &["hrtimer_nanosleep"]);
    let threads: Vec<_> = (1..=10).map(|tid| build.task(1, tid, "pool", "pool")).collect();
    for &task in &threads {
        build.thread_time(task, 0, 0, 1_000_000_000);
    }
    // Sampling kept the waits of two threads, which are weighted as all of them.
    for &task in &threads[..2] {
        let wait = [0, 1_000_000_000, 4_500_000_000];
        build.thinned_wait(task, Reason::Sleep, wait, &slices(&sleep), Waker::default());
    }
    let recording = build.finish();
    let totals = Totals::of(&recording, &CommonOptions::default()).unwrap().unwrap();
    assert_eq!(recording.idle_waits().all().weight, 9_000_000_000);
    // All that was kept was idle. Threads of which nothing was kept are taken for ones like the others.
    assert_eq!((totals.times.idle_ns(), totals.times.blocked_ns()), (10_000_000_000, 0));
    for thread in totals.threads {
        // A thread cannot have been idle for longer than it was blocked.
        assert_eq!((thread.times.idle_ns(), thread.times.blocked_ns()), (1_000_000_000, 0));
    }
}

#[test]
fn reasons_can_be_filtered_like_functions() {
    let total = |filter| waiting().select(&with_filter(Metric::OFF_CPU, filter)).unwrap().total.weight;
    let all = total(FilterOptions::default());
    let disk = total(FilterOptions { focus: Some(r"\[disk\]".into()), ..FilterOptions::default() });
    let rest = total(FilterOptions { ignore: Some(r"\[disk\]".into()), ..FilterOptions::default() });
    assert_eq!((disk, disk + rest), (50 * 20_000_000 + 50 * 25_000_000, all));
    let user = total(FilterOptions { space: Space::User, ..FilterOptions::default() });
    assert_eq!(user, all);
    let kernel = total(FilterOptions { space: Space::Kernel, ..FilterOptions::default() });
    assert!(kernel < all && kernel > disk);
}

#[test]
fn a_recording_without_waits_says_how_to_record_them() {
    for metric in [Metric::OFF_CPU, Metric::WALL] {
        let options = options(metric, ReportView::Overview);
        let error = render(&super::fixture::ingest(), &options, &Page::PLAIN).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.status, status::NO_MATCH);
        assert!(failure.message.starts_with("the recording has no waits: it was made with -e cpu"));
        assert_eq!(failure.hints, ["to record both:  prof record -e cpu,off -p PID"]);
    }
}

#[test]
fn a_recording_of_nothing_but_waits_shows_them() {
    let mut build = super::fixture::Build::new();
    let task = build.task(1, 1, "t", "t");
    build.wait(task, Reason::Disk, 0, 1_000_000, &["/x:main"]);
    let recording = build.finish();
    let text = render(&recording, &ReportOptions::default(), &Page::PLAIN).unwrap();
    assert!(text.starts_with("unknown target  off-CPU  ") && text.contains("disk    main"), "{text}");
    let error = render(&recording, &options(Metric::ON_CPU, ReportView::Flat), &Page::PLAIN).unwrap_err();
    assert_eq!(error.downcast_ref::<Failure>().unwrap().status, status::NO_MATCH);
}

#[test]
fn a_recording_of_nothing_but_idle_waits_says_so() {
    let mut build = super::fixture::Build::new();
    let task = build.task(1, 1, "t", "t");
    build.wait(task, Reason::Sleep, 0, 1_000_000, &["/x:main", "/libc.so.6:usleep"]);
    let recording = build.finish();
    for view in [ReportView::Overview, ReportView::Flat, ReportView::Tree, ReportView::BottomUp] {
        let options = ReportOptions { view, ..ReportOptions::default() };
        let text = render(&recording, &options, &Page::PLAIN).unwrap();
        let note = "NOTE  all waits are idle: 1 wait, 1.00 ms; to see them:  --idle\n";
        assert!(text.contains("0 waits") && text.ends_with(note), "{text}");
        let json =
            render(&recording, &ReportOptions { format: Format::Json, ..options.clone() }, &Page::PLAIN);
        let json: serde_json::Value = serde_json::from_str(&json.unwrap()).unwrap();
        assert_eq!(json["rows"], serde_json::json!([]));
        assert_eq!((&json["hidden_idle_ns"], &json["total"]), (&1_000_000.into(), &0.into()));
        let tsv =
            render(&recording, &ReportOptions { format: Format::Tsv, ..options }, &Page::PLAIN).unwrap();
        assert_eq!(tsv.lines().count(), 1, "{tsv}");
    }
    // Whether any of the idle waits would match is not known.
    let filter = FilterOptions { focus: Some("nothing".into()), ..FilterOptions::default() };
    let common = with_filter(Metric::OFF_CPU, filter);
    let error =
        render(&recording, &ReportOptions { common, ..ReportOptions::default() }, &Page::PLAIN).unwrap_err();
    assert_eq!(error.downcast_ref::<Failure>().unwrap().status, status::NO_MATCH);
    let mut build = super::fixture::Build::new();
    let task = build.task(1, 1, "t", "t");
    build.wait(task, Reason::Sleep, 0, 1_000_000, &["/x:main", "/libc.so.6:usleep"]);
    let options = ReportOptions { view: ReportView::Threads, ..ReportOptions::default() };
    let text = render(&build.finish(), &options, &Page::PLAIN).unwrap();
    assert!(text.contains("t       1") && text.contains("1.00 ms"), "{text}");
}

#[test]
fn times_that_are_no_account_of_the_scheduler_are_not_called_so() {
    let mut build = super::fixture::Build::new();
    let worker = build.task(1, 1, "worker", "worker");
    let kernel_thread = build.task(2, 2, "kswapd0", "kswapd0");
    build.wait(worker, Reason::Disk, 0, 1_000_000, &["/x:main", "/libc.so.6:read"]);
    build.thread_time(worker, 5_000_000, 0, 1_000_000);
    build.add(worker, 5, &["/x:main"]);
    // There is no account of kernel threads.
    build.add(kernel_thread, 9, &["[kernel]:kswapd"]);
    let options = ReportOptions { format: Format::Json, ..options(Metric::ON_CPU, ReportView::Threads) };
    let json = render(&build.finish(), &options, &Page::PLAIN).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let facts: Vec<_> = (json["thread_rows"].as_array().unwrap().iter())
        .map(|row| (row["thread"].as_str().unwrap(), row["times"]["is_by_scheduler"].as_bool().unwrap()))
        .collect();
    assert_eq!(facts, [("kswapd0", false), ("worker", true)]);
    assert_eq!(
        (&json["totals"]["is_by_scheduler"], &json["totals"]["threads_by_samples"]),
        (&true.into(), &1.into())
    );
}

#[test]
fn info_counts_waits() {
    assert_snapshot!(info::render_text(&waiting()));
    let document: serde_json::Value = serde_json::from_str(&info::render_json(&waiting()).unwrap()).unwrap();
    assert_eq!(document["events"][1]["waits"]["short_count"], 8_000);
    assert_eq!(document["totals"]["threads"], 4);
}

#[test]
fn flame_graphs_of_waits_say_what_they_show() {
    let draw = |metric, count| {
        let options = ExportOptions {
            common: CommonOptions { metric: Some(metric), ..CommonOptions::default() },
            count,
            ..ExportOptions::default()
        };
        String::from_utf8(export::render(&waiting(), ExportFormat::SVG, &options).unwrap()).unwrap()
    };
    let off = draw(Metric::OFF_CPU, false);
    assert!(off.contains(">ingest off-CPU, 10.0 s, without idle waits</text>"));
    let tips = super::hostile::xml_texts(&off, "title");
    assert!(tips.iter().any(|tip| tip.starts_with("[lock] (3.360 s, ")), "{tips:?}");
    let wall = draw(Metric::WALL, false);
    assert!(wall.contains(">ingest wall clock (waits in blue), 10.0 s, without idle waits</text>"));
    let tips = super::hostile::xml_texts(&draw(Metric::OFF_CPU, true), "title");
    assert!(tips.iter().any(|tip| tip.starts_with("[disk] (150 waits, ")), "{tips:?}");
}
