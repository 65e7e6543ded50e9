//! Golden text of every view, on small profiles.

use super::fixture::{Build, ingest};
use crate::base::failure::{Failure, status};
use crate::profile::{AddressSettings, Integrity, Outcome, counter};
use crate::report::print::info;
use crate::report::*;
use insta::assert_snapshot;

mod flame_graph;

fn text(options: &ReportOptions) -> String {
    render(&ingest(), options, &Page::PLAIN).unwrap()
}

fn view(view: ReportView) -> ReportOptions {
    ReportOptions { view, ..ReportOptions::default() }
}

fn with_filter(filter: FilterOptions) -> ReportOptions {
    let common = CommonOptions { filter, ..CommonOptions::default() };
    ReportOptions { common, ..ReportOptions::default() }
}

#[test]
fn flat() {
    assert_snapshot!(text(&ReportOptions::default()));
}

#[test]
fn flat_on_a_wide_page() {
    let page = Page { width: 120, ..Page::PLAIN };
    assert_snapshot!(render(&ingest(), &ReportOptions::default(), &page).unwrap());
}

#[test]
fn flat_on_a_narrow_terminal() {
    let page = Page { width: 60, cut_names: true, color: false, names: NameStyle::Short, is_ascii: false };
    let text = render(&ingest(), &ReportOptions::default(), &page).unwrap();
    assert!(text.lines().all(|line| crate::base::safe_text::width(line) <= 66), "{text}");
    assert_snapshot!(text);
}

/// The longest names of each kind.
fn long_names() -> Analysis {
    let mut build = Build::new();
    let task = build.task(1, 1, "a_thread_of_15c", "a_process_of_15");
    let function = "/opt/a_library_of_some_length.so:a_function_whose_name_takes_forty_columns";
    build.add(task, 200, &["/x:main", function]);
    build.finish()
}

#[test]
fn tables_fit_the_terminal() {
    for (width, names) in [(80, 12), (99, 12), (120, 31), (140, 36), (200, 41)] {
        let page = Page { width, cut_names: true, color: false, names: NameStyle::Short, is_ascii: false };
        for view in [ReportView::Flat, ReportView::Threads] {
            let text = render(&long_names(), &self::view(view.clone()), &page).unwrap();
            assert!(
                text.lines().all(|line| crate::base::safe_text::width(line) <= width),
                "{view:?} {width} {text}"
            );
            let cut = text.lines().find(|line| line.contains("a_fun")).unwrap();
            let name = cut.split_whitespace().find(|word| word.starts_with("a_fun")).unwrap();
            assert!(
                crate::base::safe_text::width(name) >= names || view == ReportView::Threads,
                "{width} {text}"
            );
        }
    }
}

#[test]
fn a_wide_page_never_shows_less_of_a_name_than_a_narrow_one() {
    let name_columns = |width| {
        let page = Page { width, cut_names: true, color: false, names: NameStyle::Short, is_ascii: false };
        let text = render(&long_names(), &ReportOptions::default(), &page).unwrap();
        let name = text.split_whitespace().find(|word| word.starts_with("a_fun")).unwrap();
        crate::base::safe_text::width(name)
    };
    assert!(name_columns(120) >= name_columns(80) && name_columns(120) >= 31);
}

#[test]
fn lines_have_no_second_column_for_their_source() {
    let common = CommonOptions { grouping: Grouping::Line, ..Default::default() };
    let options = ReportOptions { common, ..Default::default() };
    let text = render(&ingest(), &options, &Page { width: 120, ..Page::PLAIN }).unwrap();
    assert!(!text.contains("SOURCE") && text.matches("libzstd.c:24").count() == 2, "{text}");
}

#[test]
fn flat_with_few_rows() {
    assert_snapshot!(text(&ReportOptions {
        rows: Some(2),
        sort: SortKey::TotalWeight,
        ..Default::default()
    }));
}

#[test]
fn tree() {
    assert_snapshot!(text(&view(ReportView::Tree)));
}

#[test]
fn bottom_up() {
    assert_snapshot!(text(&ReportOptions { min_percent: Some(5.0), ..view(ReportView::BottomUp) }));
}

#[test]
fn peek_shows_callers_and_callees() {
    assert_snapshot!(text(&view(ReportView::Peek("^(walk|compress)$".into()))));
}

#[test]
fn threads_of_one_name_are_one_row() {
    assert_snapshot!(text(&view(ReportView::Threads)));
}

#[test]
fn grouped_by_module() {
    let common = CommonOptions { grouping: Grouping::Module, ..Default::default() };
    assert_snapshot!(text(&ReportOptions { common, ..Default::default() }));
}

#[test]
fn grouped_by_thread() {
    let common = CommonOptions { grouping: Grouping::Thread, ..Default::default() };
    assert_snapshot!(text(&ReportOptions { common, ..Default::default() }));
}

#[test]
fn grouped_by_line_without_inlining() {
    let common = CommonOptions { grouping: Grouping::Line, inline: false, ..Default::default() };
    assert_snapshot!(text(&ReportOptions { common, ..Default::default() }));
}

#[test]
fn a_filter_is_named_in_the_header() {
    let filter = FilterOptions { focus: Some("handle_batch".into()), cpus: vec![0], ..Default::default() };
    assert_snapshot!(text(&with_filter(filter)));
}

/// Detail 24 of the promises: colours work on every terminal.
#[test]
fn colour_adds_nothing_but_colour() {
    let page = Page { color: true, ..Page::PLAIN };
    for shape in [
        ReportView::Flat,
        ReportView::Tree,
        ReportView::BottomUp,
        ReportView::Threads,
        ReportView::Peek("walk".into()),
    ] {
        let colored = render(&ingest(), &view(shape.clone()), &page).unwrap();
        assert!(colored.contains('\x1b'), "{shape:?}");
        assert_eq!(anstream::adapter::strip_str(&colored).to_string(), text(&view(shape)));
    }
}

#[test]
fn json() {
    assert_snapshot!(text(&ReportOptions { format: Format::Json, rows: Some(2), ..Default::default() }));
}

/// Detail 15 of the promises: all works over ssh and in scripts.
#[test]
fn json_has_a_part_for_every_view() {
    for (shape, field) in [
        (ReportView::Tree, "tree"),
        (ReportView::BottomUp, "tree"),
        (ReportView::Threads, "thread_rows"),
        (ReportView::Peek("walk".into()), "peek"),
    ] {
        let document = text(&ReportOptions { format: Format::Json, ..view(shape) });
        let value: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert!(!value[field].as_array().unwrap().is_empty(), "{field}");
        assert!(value["rows"].as_array().unwrap().len() > 5);
    }
}

#[test]
fn tsv() {
    for shape in [
        ReportView::Flat,
        ReportView::Tree,
        ReportView::BottomUp,
        ReportView::Threads,
        ReportView::Peek("walk".into()),
    ] {
        let table = text(&ReportOptions { format: Format::Tsv, ..view(shape.clone()) });
        let columns: Vec<usize> = table.lines().map(|line| line.split('\t').count()).collect();
        assert!(columns.len() > 1 && columns.iter().all(|count| *count == columns[0]), "{shape:?}");
    }
    assert_snapshot!(text(&ReportOptions { format: Format::Tsv, rows: Some(3), ..Default::default() }));
}

#[test]
fn info_text() {
    assert_snapshot!(info::render_text(&ingest()));
}

#[test]
fn names_in_documents_for_programs_are_full_unless_asked_for_otherwise() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 10, &["/x:main", "/x:std::vector<int>::push_back(int&&)"]);
    let recording = build.finish();
    let written = |format, names| {
        let common = CommonOptions { names, ..Default::default() };
        let options = ReportOptions { format, common, ..Default::default() };
        render(&recording, &options, &Page::PLAIN).unwrap()
    };
    for format in [Format::Tsv, Format::Json] {
        let full = written(format, None);
        assert!(full.contains("std::vector<int>::push_back(int&&)"), "{full}");
        assert_eq!(written(format, Some(NameStyle::Full)), full);
        let short = written(format, Some(NameStyle::Short));
        assert!(short.contains("vector<..>::push_back"), "{short}");
    }
}

#[test]
fn info_json() {
    let document = info::render_json(&ingest()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(value["schema"], "prof.info/1");
    assert_eq!(value["events"][0]["samples"], 5_550);
    assert_eq!(value["start"], "2026-11-21T12:00:00Z");
    assert_eq!(value["file"]["is_complete"], true);
    assert_eq!(value["counters"]["lost_ring_full"], 12);
}

#[test]
fn folded_stacks() {
    let recording = ingest();
    let selection = recording.select(&CommonOptions::default()).unwrap();
    let weights = folded(&selection, NameStyle::Full, false);
    assert_snapshot!(weights);
    let sum = |text: &str| -> u64 {
        text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    assert_eq!(sum(&weights), recording.profile.events[0].total_weight());
    assert_eq!(sum(&folded(&selection, NameStyle::Full, true)), 5_550);
}

#[test]
fn nothing_that_matches_is_status_3() {
    let fails = |options: &ReportOptions| {
        let error = render(&ingest(), options, &Page::PLAIN).unwrap_err();
        error.downcast_ref::<Failure>().unwrap().clone()
    };
    let failure = fails(&with_filter(FilterOptions { focus: Some("nowhere".into()), ..Default::default() }));
    assert_eq!(failure.status, status::NO_MATCH);
    assert_eq!(failure.message, "none of 5,550 samples matches --focus nowhere");
    assert_eq!(fails(&view(ReportView::Peek("nowhere".into()))).status, status::NO_MATCH);
    let error = render(&Build::new().finish(), &ReportOptions::default(), &Page::PLAIN).unwrap_err();
    assert_eq!(error.downcast_ref::<Failure>().unwrap().status, status::NO_MATCH);
    let error = render(&Analysis::default(), &ReportOptions::default(), &Page::PLAIN).unwrap_err();
    assert_eq!(error.downcast_ref::<Failure>().unwrap().status, status::NO_MATCH);
}

#[test]
fn a_recording_of_a_killed_recorder_says_so() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 200, &["/x:main"]);
    let recording = build.cut_off(Integrity::default());
    let text = render(&recording, &ReportOptions::default(), &Page::PLAIN).unwrap();
    assert!(
        text.contains("NOTE  the file is incomplete (the recording has no end: prof was killed"),
        "{text}"
    );
    assert!(!text.contains("of a CPU") && !text.contains("before and after"), "{text}");
    let problem = Some("chunk 7 is cut".to_owned());
    let recording = recording.changed(|recording| recording.integrity.problem = problem);
    let text = render(&recording, &ReportOptions::default(), &Page::PLAIN).unwrap();
    assert!(text.contains("NOTE  the file is incomplete (chunk 7 is cut)"), "{text}");
}

/// Names are read while it goes on: without an end, nothing that could be installed brings those that are missing.
#[test]
fn a_recording_without_an_end_lacks_names_that_symbolize_adds() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 200, &["/x:+0x10", "/x:+0x20"]);
    let text = render(&build.cut_off(Integrity::default()), &ReportOptions::default(), &Page::PLAIN).unwrap();
    assert!(text.contains("of frames have no name: the recording was cut short or"), "{text}");
    assert!(text.contains("prof symbolize") && !text.contains("debug symbols"), "{text}");
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 200, &["/x:+0x10", "/x:+0x20"]);
    let damaged = Integrity { bytes_skipped: 9, ..Integrity::default() };
    let text = render(&build.cut_off(damaged), &ReportOptions::default(), &Page::PLAIN).unwrap();
    assert!(text.contains("names come after the damaged part") && !text.contains("prof symbolize"), "{text}");
    // Not only where hardly anything has a name.
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 100, &["/x:main", "/x:+0x10"]);
    let text = render(&build.cut_off(Integrity::default()), &ReportOptions::default(), &Page::PLAIN).unwrap();
    assert!(text.contains("50.0% of frames have no name: the recording was cut short"), "{text}");
}

/// Detail 4 of the promises: what share of the stacks is complete, what breaks the others, and what mends them.
#[test]
fn notes_name_the_module_and_the_flag_that_mends_it() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 59, &["/x:main", "[kernel]:+0x10"]);
    build.add_ended(task, 41, &["/opt/libfoo.so.2:+0x10"], Outcome::NoUnwindInfo);
    build.count(counter::LOST_BAD_RECORD, 100);
    build.meta().kernel_addresses =
        Some(AddressSettings { kptr_restrict: 0, perf_event_paranoid: 2, has_syslog: false });
    let text = render(&build.finish(), &ReportOptions::default(), &Page::PLAIN).unwrap();
    let notes = &text[text.find("NOTE").unwrap()..];
    assert_snapshot!(notes);
}

#[test]
fn notes_say_what_would_complete_the_stacks() {
    for (outcome, expected) in [
        (Outcome::NoUnwindInfo, "; rebuild it with -fasynchronous-unwind-tables"),
        (Outcome::TableNotLoaded, "; tables were still being compiled when the program started"),
        (Outcome::CopyTooShort, "; tables were still being compiled when the program started"),
        (Outcome::FileUnreadable, "; the file could not be opened: record as root, or add CAP_SYS_PTRACE"),
    ] {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        build.add_ended(task, 200, &["/opt/libfoo.so:a"], outcome);
        let page = Page { width: 400, ..Page::PLAIN };
        let text = render(&build.finish(), &ReportOptions::default(), &page).unwrap();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_walk_by_frame_pointers_is_not_blamed_on_the_compiler() {
    let mut build = Build::new();
    build.found_by = crate::profile::FoundBy::FramePointer;
    let task = build.task(1, 1, "t", "t");
    build.add_ended(task, 200, &["/opt/libfoo.so:a"], Outcome::NoUnwindInfo);
    let text =
        render(&build.finish(), &ReportOptions::default(), &Page { width: 400, ..Page::PLAIN }).unwrap();
    assert!(text.contains("walked by frame pointers only (--call-graph fp): drop that option"), "{text}");
    assert!(!text.contains("-fasynchronous"), "{text}");
}

#[test]
fn samples_without_frames_and_functions_without_symbols_are_unnamed() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 50, &["/x:main"]);
    build.add(task, 25, &["/x:@x+0x400"]);
    build.add(task, 25, &[]);
    let recording = build.finish();
    let selection = recording.select(&CommonOptions::default()).unwrap();
    assert_eq!((selection.quality.frames, selection.quality.unnamed_frames), (100, 50));
    let text = render(&recording, &ReportOptions::default(), &Page::PLAIN).unwrap();
    assert!(text.contains("symbols 50.0%") && text.contains("  x+0x400"), "{text}");
}

#[test]
fn recursion_counts_once() {
    let recording = ingest();
    let selection = recording.select(&CommonOptions::default()).unwrap();
    let table = FunctionTable::new(&selection, SortKey::SelfWeight);
    let walk = table.rows.iter().find(|row| selection.labels.get(row.label).name == "walk").unwrap();
    assert_eq!((walk.own.samples, walk.total.samples, walk.threads), (400, 400, 2));
}

#[test]
fn kernel_time_can_count_for_the_code_that_entered_it() {
    let select = |space| {
        let filter = FilterOptions { space, ..Default::default() };
        let recording = ingest();
        let selection = recording.select(&CommonOptions { filter, ..Default::default() }).unwrap();
        (selection.total.samples, folded(&selection, NameStyle::Full, true))
    };
    let (samples, user) = select(Space::User);
    assert_eq!(samples, 5_550);
    assert!(user.contains("worker;_start;run;send 600\n"), "{user}");
    let (samples, kernel) = select(Space::Kernel);
    assert_eq!((samples, kernel.as_str()), (600, "worker;entry_SYSCALL_64_[k];tcp_write_xmit_[k] 600\n"));
}

#[test]
fn hidden_functions_leave_their_time() {
    let filter = FilterOptions { hide: Some("^(_start|run)$|ZSTD".into()), ..Default::default() };
    let recording = ingest();
    let selection = recording.select(&CommonOptions { filter, ..Default::default() }).unwrap();
    assert_eq!(selection.total.samples, 5_550);
    let text = folded(&selection, NameStyle::Full, true);
    assert!(text.contains("worker;handle_batch;compress 3000\n"), "{text}");
    let filter = FilterOptions { hide: Some(".".into()), ..Default::default() };
    let selection = recording.select(&CommonOptions { filter, ..Default::default() }).unwrap();
    assert_eq!(folded(&selection, NameStyle::Full, true), "ingest;[hidden] 150\nworker;[hidden] 5400\n");
}

#[test]
fn time_threads_and_cpus_choose_samples() {
    let samples = |filter| {
        let recording = ingest();
        recording.select(&CommonOptions { filter, ..Default::default() }).unwrap().total.samples
    };
    let time = TimeRange { from_ns: Some(1_000_000), to_ns: Some(101_000_000) };
    assert_eq!(samples(FilterOptions { time, ..Default::default() }), 100);
    assert_eq!(
        samples(FilterOptions { threads: vec![ThreadFilter::named("^work")], ..Default::default() }),
        5_400
    );
    assert_eq!(
        samples(FilterOptions { threads: vec![ThreadFilter::Ids(vec![4313])], ..Default::default() }),
        2_700
    );
    assert_eq!(
        samples(FilterOptions { threads: vec![ThreadFilter::OfProcesses(vec![4312])], ..Default::default() }),
        5_550
    );
    assert_eq!(samples(FilterOptions { cpus: vec![0, 1], ..Default::default() }), 5_550);
    assert_eq!(samples(FilterOptions { cpus: vec![0], ..Default::default() }), 2_775);
}
