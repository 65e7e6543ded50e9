//! Reports on pages of several widths, and what their percentages are of.

use super::fixture::{Build, ingest};
use super::fixture_waits::waiting;
use crate::base::safe_text::{in_ascii, width};
use crate::profile::{ModuleId, ModuleNotes, Reason, Waker};
use crate::report::*;
use insta::assert_snapshot;

/// A terminal with that many columns.
fn terminal(columns: usize) -> Page {
    Page { width: columns, cut_names: true, color: false, names: NameStyle::Short, is_ascii: false }
}

const WIDTHS: [usize; 4] = [40, 80, 120, 200];

fn views() -> Vec<(&'static str, ReportOptions)> {
    let of = |view, metric| {
        let common = CommonOptions { metric: Some(metric), ..CommonOptions::default() };
        ReportOptions { view, common, ..ReportOptions::default() }
    };
    vec![
        ("flat", of(ReportView::Flat, Metric::ON_CPU)),
        ("tree", of(ReportView::Tree, Metric::ON_CPU)),
        ("bottom-up", of(ReportView::BottomUp, Metric::ON_CPU)),
        ("peek", of(ReportView::Peek("compress|insert".into()), Metric::ON_CPU)),
        ("threads", of(ReportView::Threads, Metric::ON_CPU)),
    ]
}

fn views_of_waits() -> Vec<(&'static str, ReportOptions)> {
    let of = |view| {
        let common = CommonOptions { metric: Some(Metric::OFF_CPU), ..CommonOptions::default() };
        ReportOptions { view, common, ..ReportOptions::default() }
    };
    vec![
        ("waits", of(ReportView::Overview)),
        ("flat waits", of(ReportView::Flat)),
        ("tree of waits", of(ReportView::Tree)),
    ]
}

#[test]
fn reports_fit_every_width() {
    for columns in WIDTHS {
        for (name, options) in views() {
            assert_snapshot!(
                format!("{name}_at_{columns}"),
                render(&ingest(), &options, &terminal(columns)).unwrap()
            );
        }
        for (name, metric, view) in [
            ("waits", Metric::OFF_CPU, ReportView::Overview),
            ("thread_times", Metric::ON_CPU, ReportView::Threads),
        ] {
            let common = CommonOptions { metric: Some(metric), ..CommonOptions::default() };
            let options = ReportOptions { view, common, ..ReportOptions::default() };
            assert_snapshot!(
                format!("{name}_at_{columns}"),
                render(&waiting(), &options, &terminal(columns)).unwrap()
            );
        }
    }
}

/// Names of all lengths, among them such as cannot be cut well.
fn long_names() -> Analysis {
    let mut build = Build::new();
    for (number, length) in [3, 30, 60, 120, 250].into_iter().enumerate() {
        let name = "abcdefgh_".repeat(length / 9 + 1);
        let task = build.task(7, 8 + number as u32, &format!("thread-{name}"), &format!("process-{name}"));
        let module = format!("/opt/{name}{number}.so.1");
        let functions: Vec<String> =
            (0..12).map(|depth| format!("{module}:{name}{depth}::inner::{name}{number}")).collect();
        let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
        build.add(task, 10 + number as u64, &functions);
    }
    build.finish()
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for recording in [long_names(), ingest(), waiting()] {
        for columns in 40..=200 {
            for (name, options) in views().into_iter().chain(views_of_waits()) {
                if options.common.metric == Some(Metric::OFF_CPU)
                    && recording.shown(options.common.metric).is_err()
                {
                    continue;
                }
                let options = match options.view {
                    ReportView::Peek(_) => ReportOptions { view: ReportView::Peek(".".into()), ..options },
                    _ => options,
                };
                let text = render(&recording, &options, &terminal(columns)).unwrap();
                let wide: Vec<&str> = text.lines().filter(|line| width(line) > columns).collect();
                assert!(wide.is_empty(), "{name} at {columns}: {wide:#?}");
            }
        }
    }
}

#[test]
fn modules_stay_in_their_column_when_they_are_piped() {
    let text = render(&long_names(), &ReportOptions::default(), &Page::PLAIN).unwrap();
    let heading = text.lines().find(|line| line.contains("SELF%")).unwrap();
    let at = width(&heading[..heading.find("MODULE").unwrap()]);
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.contains("SELF%")).skip(1).take(5).collect();
    assert!(rows.iter().all(|row| row.get(at..).is_some_and(|rest| rest.starts_with("abcdefgh_"))), "{text}");
}

/// Text for a terminal that has only ASCII.
fn written(recording: &Analysis, options: &ReportOptions, page: &Page) -> String {
    let page = Page { is_ascii: true, ..*page };
    in_ascii(&render(recording, options, &page).unwrap())
}

#[test]
fn columns_stand_where_they_are_when_only_ascii_can_be_written() {
    let mut build = Build::new();
    for (number, name) in ["größe", "plain", "関数名前", "ünïcödé_name"].into_iter().enumerate() {
        let task = build.task(7, 8 + number as u32, &format!("{name}_{number}"), &format!("prozeß_{number}"));
        let names = [&format!("/opt/mödule{number}.so:{name}"), &*format!("/opt/second.so:{name}_leaf")];
        build.add(task, 50 + number as u64, &names);
    }
    let recording = build.finish();
    for page in [terminal(80), terminal(120), Page::PLAIN] {
        for (view, column) in [(ReportView::Flat, "second"), (ReportView::Threads, "proze\\xdf_")] {
            let options = ReportOptions { view, ..ReportOptions::default() };
            let text = written(&recording, &options, &page);
            let rows = text.lines().filter_map(|line| line.find(column));
            let places: Vec<usize> = rows.collect();
            assert!(places.len() == 4 && places.iter().all(|at| *at == places[0]), "{places:?}\n{text}");
        }
        for (name, options) in views().into_iter().filter(|_| page.cut_names) {
            let ReportOptions { view, common, .. } = options;
            let view = if let ReportView::Peek(_) = view { ReportView::Peek(".".into()) } else { view };
            let text = written(&recording, &ReportOptions { view, common, ..options }, &page);
            let wide = text.lines().find(|line| line.len() > page.width);
            assert!(wide.is_none() && text.is_ascii(), "{name} at {}: {wide:?}", page.width);
        }
    }
}

#[test]
fn an_error_in_a_sentence_is_a_word_of_its_own() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    for number in 0..100 {
        build.thinned_wait(
            task,
            Reason::Lock,
            [number * 9_000_000, 1_000_000, 5_000_000],
            &["/opt/a:f"],
            Waker::default(),
        );
    }
    let common = CommonOptions { metric: Some(Metric::OFF_CPU), ..CommonOptions::default() };
    let options = ReportOptions { common, ..ReportOptions::default() };
    let text = written(&build.finish(), &options, &terminal(80));
    assert!(text.contains(" kept, +- ") && text.contains("\n  +- is the 95 %"), "{text}");
}

#[test]
fn the_end_of_a_source_is_what_stays_of_it() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    let function = "compute_with_a_name_that_takes_the_room_of_others_and_more";
    build.add(task, 500, &[&format!("/opt/a_program_whose_source_has_a_long_name:{function}")]);
    let text = render(&build.finish(), &ReportOptions::default(), &terminal(120)).unwrap();
    let row = text.lines().find(|line| line.starts_with(" 100.0%")).unwrap();
    assert!(row.ends_with(".c:68") && row.contains('…') && width(row) <= 120, "{text}");
}

fn options_with(filter: FilterOptions) -> ReportOptions {
    let common = CommonOptions { filter, ..CommonOptions::default() };
    ReportOptions { common, ..ReportOptions::default() }
}

#[test]
fn percentages_are_of_the_recording_unless_they_are_to_be_relative() {
    let focus =
        |relative| FilterOptions { focus: Some("^send$".into()), relative, ..FilterOptions::default() };
    let text = |relative| render(&ingest(), &options_with(focus(relative)), &Page::PLAIN).unwrap();
    let all = text(false);
    assert!(
        all.contains("of 5,550 samples: 10.8% (600) after --focus ^send$; percentages are of all\n"),
        "{all}"
    );
    assert!(all.contains("\n  10.8%   0.8   10.8%    0.60 s  tcp_write_xmit"), "{all}");
    assert!(all.contains("  10.8%  tcp_write_xmit < entry_SYSCALL_64 < send"), "{all}");
    let relative = text(true);
    assert!(relative.contains("after --focus ^send$; percentages are of these\n"), "{relative}");
    assert!(relative.contains("\n 100.0%   0.0  100.0%    600 ms  tcp_write_xmit"), "{relative}");
}

/// Whatever the filters and the view are, the shares of JSON are of what the document says that they are of.
#[test]
fn documents_say_what_their_percentages_are_of() {
    let some = |text: &str| Some(text.to_owned());
    let filters = [
        FilterOptions::default(),
        FilterOptions { focus: some("compress"), ..FilterOptions::default() },
        FilterOptions { module: some("^libzstd$"), ignore: some("walk"), ..FilterOptions::default() },
        FilterOptions {
            threads: vec![ThreadFilter::OfProcessesMatching("^ing".into())],
            ..FilterOptions::default()
        },
        FilterOptions { show: some("^ZSTD"), space: Space::User, ..FilterOptions::default() },
    ];
    for filter in filters {
        for relative in [false, true] {
            let filter = FilterOptions { relative, ..filter.clone() };
            let options = ReportOptions { format: Format::Json, ..options_with(filter.clone()) };
            let json: serde_json::Value =
                serde_json::from_str(&render(&ingest(), &options, &Page::PLAIN).unwrap()).unwrap();
            let base = json["percent_of"].as_u64().unwrap();
            let kept = json[if relative { "total" } else { "recorded_total" }].as_u64().unwrap();
            assert_eq!(base, kept, "{filter:?}");
            for row in json["rows"].as_array().unwrap() {
                let share = 100.0 * row["self"].as_u64().unwrap() as f64 / base as f64;
                assert!((row["self_pct"].as_f64().unwrap() - share).abs() < 1e-9, "{row}");
            }
            // The folded stacks of the same filters come to the same sum.
            let selection_options = CommonOptions { filter, ..CommonOptions::default() };
            let recording = ingest();
            let lines = folded(&recording.select(&selection_options).unwrap(), NameStyle::Full, false);
            let weights = lines.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
            assert_eq!(weights.sum::<u64>(), json["total"].as_u64().unwrap());
        }
    }
}

#[test]
fn show_keeps_only_the_frames_that_match_and_all_of_the_time() {
    let filter = FilterOptions { show: Some("^(run|ZSTD_insertBt1)$".into()), ..FilterOptions::default() };
    let recording = ingest();
    let selection = recording.select(&CommonOptions { filter, ..CommonOptions::default() }).unwrap();
    assert_eq!(selection.total, selection.whole);
    let lines = folded(&selection, NameStyle::Full, false);
    let expected = "ingest;[hidden] 150000000\nworker;run 2400000000\nworker;run;ZSTD_insertBt1 3000000000\n";
    assert_eq!(lines, expected);
}

/// A pool of workers, a timer and a main thread in two processes of one name.
fn pools() -> Analysis {
    let mut build = Build::new();
    for pid in [10, 20] {
        let main = build.task(pid, pid, "server", "server: main");
        build.add(main, 5, &["/x:main"]);
        for number in 1..=4 {
            let worker = build.task(pid, pid + number, &format!("worker-{number}"), "server: main");
            build.add(worker, 10, &["/x:work"]);
        }
        let timer = build.task(pid, pid + 9, "timer-1", "server: main");
        build.add(timer, 1, &["/x:tick"]);
    }
    build.finish()
}

fn thread_names(split: Option<ThreadSplit>) -> Vec<(String, u64, Option<u32>, Option<u32>)> {
    let recording = pools();
    let selection = recording.select(&CommonOptions { threads: split, ..CommonOptions::default() }).unwrap();
    let rows = threads(&selection);
    rows.iter().map(|row| (row.title().to_owned(), row.threads, row.tid, row.pid)).collect()
}

#[test]
fn threads_are_one_by_class_or_process_or_are_each_for_themselves() {
    let row = |name: &str, threads, tid, pid| (name.to_owned(), threads, tid, pid);
    let class =
        [row("worker-#", 8, None, None), row("server: main", 2, None, None), row("timer-1", 2, None, None)];
    assert_eq!(thread_names(None), class);
    assert_eq!(thread_names(Some(ThreadSplit::Class)), class);
    assert_eq!(thread_names(Some(ThreadSplit::Each)).len(), 12);
    let none = [row("server: main", 6, None, Some(10)), row("server: main", 6, None, Some(20))];
    assert_eq!(thread_names(Some(ThreadSplit::None)), none);
    let names = thread_names(Some(ThreadSplit::Name));
    assert_eq!((names.len(), names[0].1), (6, 2));
}

#[test]
fn exports_and_trees_have_the_threads_in_front_that_are_asked_for() {
    let recording = pools();
    let lines = |threads| {
        let selection = recording.select(&CommonOptions { threads, ..CommonOptions::default() }).unwrap();
        folded(&selection, NameStyle::Full, true)
    };
    assert_eq!(lines(Some(ThreadSplit::Class)), "server;main 10\ntimer-1;tick 2\nworker-#;work 80\n");
    assert_eq!(lines(Some(ThreadSplit::None)), "main 10\ntick 2\nwork 80\n");
    assert_eq!(lines(None).lines().count(), 6);
    assert_eq!(lines(Some(ThreadSplit::Each)).lines().count(), 12);
    let common = CommonOptions { threads: Some(ThreadSplit::Class), ..CommonOptions::default() };
    let options = ReportOptions { common, view: ReportView::Tree, ..ReportOptions::default() };
    let text = render(&recording, &options, &Page::PLAIN).unwrap();
    assert!(text.contains("+ worker-# ×8\n"), "{text}");
}

#[test]
fn what_to_look_at_next_has_a_size_and_a_command() {
    let mut build = Build::new();
    let tasks: Vec<_> = (1..=5).map(|tid| build.task(1, tid, &format!("t{tid}"), "p")).collect();
    build.add(tasks[0], 90, &["/x:main", "/x:parse⇒from_str⇒digits"]);
    build.add(tasks[1], 10, &["/x:main", "/x:other"]);
    let text = render(&build.finish(), &ReportOptions::default(), &terminal(120)).unwrap();
    let notes: Vec<&str> = text.lines().filter(|line| line.starts_with("NOTE")).collect();
    assert_eq!(
        notes,
        [
            "NOTE  90.0% of the time is in parse, 100% of that in functions inlined into it: prof annotate parse",
            "NOTE  thread `t1` has 90.0% of the CPU time of 5 threads: prof report --thread '^t1$'",
        ]
    );
    // Threads of other processes, which have only ended waits, are none of the program's.
    let mut build = Build::new();
    let tasks: Vec<_> = (1..=5).map(|tid| build.task(1, tid, &format!("t{tid}"), "p")).collect();
    tasks.iter().for_each(|task| build.thread_time(*task, 1_000_000, 0, 0));
    for tid in 7..=9 {
        build.task(tid, tid, "waker", "waker");
    }
    build.add(tasks[0], 100, &["/x:main", "/x:work"]);
    let text = render(&build.finish(), &ReportOptions::default(), &terminal(120)).unwrap();
    assert!(text.contains("of the CPU time of 5 threads"), "{text}");
    // There is nothing to say of a program that does as one expects.
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 500, &["/x:main", "/x:work"]);
    let text = render(&build.finish(), &ReportOptions::default(), &terminal(120)).unwrap();
    assert!(!text.contains("NOTE"), "{text}");
}

/// Regression: under `--kernel` the share was of the samples in the kernel, while the time was of the threads' accounts.
#[test]
fn time_without_a_cpu_is_not_compared_with_a_part_of_the_functions() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 500, &["/x:main", "/x:work"]);
    build.add(task, 500, &["/x:main", "/x:work", "[kernel]:sys_read"]);
    build.thread_time(task, 1_000_000_000, 1_000_000_000, 0);
    build.wait(task, Reason::Lock, 0, 1_000_000, &["/x:main", "/x:take"]);
    let recording = build.finish();
    let notes = |filter: FilterOptions| {
        let common = CommonOptions { filter, ..CommonOptions::default() };
        render(&recording, &ReportOptions { common, ..ReportOptions::default() }, &terminal(120)).unwrap()
    };
    let is_noted = |filter| notes(filter).contains("without a CPU");
    let whole = notes(FilterOptions::default());
    assert!(whole.contains("ready without a CPU for 1.00 s, 50.0% of the time"), "{whole}");
    assert!(!is_noted(FilterOptions { space: Space::Kernel, ..FilterOptions::default() }));
    assert!(!is_noted(FilterOptions { ignore: Some("sys_read".into()), ..FilterOptions::default() }));
    assert!(!is_noted(FilterOptions { cpus: vec![0], ..FilterOptions::default() }));
}

#[test]
fn missing_files_of_debug_information_are_noted() {
    let recording = ingest().changed(|recording| {
        let profile = &mut recording.profile;
        let path = |module: &crate::profile::Module| profile.tables.string(module.path);
        let at =
            profile.tables.modules().iter().position(|module| path(module).ends_with("/ingest")).unwrap();
        let notes = ModuleNotes { has_debug_info: true, split_missing: 2, ..ModuleNotes::default() };
        profile.module_notes.insert(ModuleId(at as u32), notes);
    });
    let text = render(&recording, &ReportOptions::default(), &terminal(160)).unwrap();
    assert!(text.contains("NOTE  inlined functions are missing in ingest, "), "{text}");
    assert!(text.contains("% of frames; which files bring them: prof info --modules\n"), "{text}");
}
