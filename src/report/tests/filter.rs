//! Filters mean the same whatever the rows are, and whatever the format is.

use super::fixture::{Build, ingest};
use super::fixture_waits::waiting;
use crate::base::failure::status;
use crate::profile::Reason;
use crate::report::print::info;
use crate::report::*;
use std::collections::BTreeSet;

const GROUPINGS: [Grouping; 5] =
    [Grouping::Function, Grouping::Line, Grouping::Module, Grouping::Thread, Grouping::Process];

fn options(grouping: Grouping, filter: FilterOptions) -> CommonOptions {
    CommonOptions { grouping, filter, ..CommonOptions::default() }
}

fn filters() -> Vec<FilterOptions> {
    let some = |text: &str| Some(text.to_owned());
    vec![
        FilterOptions { focus: some("^compress$"), ..FilterOptions::default() },
        FilterOptions { ignore: some("ZSTD_insertBt1"), ..FilterOptions::default() },
        FilterOptions { focus: some("^run$"), ignore: some("^compress$"), ..FilterOptions::default() },
        FilterOptions { space: Space::Kernel, ..FilterOptions::default() },
        FilterOptions { space: Space::User, ..FilterOptions::default() },
        FilterOptions { hide: some("^ZSTD"), ..FilterOptions::default() },
    ]
}

#[test]
fn filters_leave_the_same_samples_whatever_the_rows_are() {
    let recording = ingest();
    let whole = recording.select(&CommonOptions::default()).unwrap().total;
    for filter in filters() {
        let total =
            |grouping| recording.select(&options(grouping, filter.clone())).map(|selection| selection.total);
        let by_function = total(Grouping::Function).unwrap();
        // Nothing of it was in the kernel alone.
        let keeps_all = filter.hide.is_some() || filter.space == Space::User;
        assert_eq!(by_function.weight == whole.weight, keeps_all, "{filter:?}");
        for grouping in GROUPINGS {
            assert_eq!(total(grouping).unwrap(), by_function, "{grouping:?} {filter:?}");
        }
    }
    let nothing = FilterOptions { focus: Some("no such function".into()), ..FilterOptions::default() };
    for grouping in GROUPINGS {
        let error = recording.select(&options(grouping, nothing.clone())).unwrap_err();
        assert_eq!(error.status, status::NO_MATCH, "{grouping:?}");
    }
}

fn label(key: &str, value: Option<&str>) -> LabelPattern {
    LabelPattern { key: key.to_owned(), value: value.map(str::to_owned) }
}

/// Samples of one thread and stack: 3 with the lock, 2 without labels, 1 with the lock for a request, 1 for another; and waits.
fn labelled() -> Analysis {
    let mut build = Build::new();
    let task = build.task(1, 1, "app", "app");
    let stack = ["/x:main", "/x:work"];
    build.label(&[("gil", "held")]);
    build.add(task, 3, &stack);
    build.label(&[]);
    build.add(task, 2, &stack);
    build.label(&[("tenant", "alpha"), ("gil", "held")]);
    build.add(task, 1, &stack);
    build.label(&[("tenant", "beta")]);
    build.add(task, 1, &stack);
    build.wait(task, Reason::Pipe, 20_000_000, 4_000_000, &["/x:main", "/x:read"]);
    build.thread_time(task, 7_000_000, 0, 4_000_700);
    build.short_waits(Reason::Lock, 3, 700);
    build.finish()
}

#[test]
fn samples_that_are_equal_but_for_their_labels_are_told_apart_by_them_and_add_up_without() {
    let recording = labelled();
    let select = |metric, labels: &[LabelPattern]| {
        let filter = FilterOptions { labels: labels.to_vec(), ..FilterOptions::default() };
        recording.select(&CommonOptions { metric, filter, ..CommonOptions::default() })
    };
    let samples = |metric, labels: &[LabelPattern]| {
        let selection = select(metric, labels).unwrap();
        (selection.total.weight / 1_000_000, selection.groups().len())
    };
    assert_eq!(samples(None, &[]), (7, 1), "one row");
    assert_eq!(samples(None, &[label("gil", None)]), (4, 1));
    assert_eq!(samples(None, &[label("gil", Some("^held$"))]), (4, 1));
    assert_eq!(samples(None, &[label("tenant", Some("a$"))]), (2, 1));
    assert_eq!(samples(None, &[label("tenant", Some("alpha"))]), (1, 1));
    let any = [label("tenant", Some("beta")), label("gil", Some("held"))];
    assert_eq!(samples(None, &any), (5, 1), "any of them");
    // A wait has no labels, one that was only counted neither.
    assert_eq!(samples(Some(Metric::WALL), &[label("gil", None)]), (4, 1));
    assert_eq!(select(Some(Metric::OFF_CPU), &[label("gil", None)]).unwrap_err().status, status::NO_MATCH);
    assert_eq!(samples(None, &[]), (7, 1), "what passed a filter is not taken for all");
}

#[test]
fn rows_are_the_values_of_a_label_and_what_has_none() {
    let recording = labelled();
    let rows = |focus: Option<&str>| {
        let filter = FilterOptions { focus: focus.map(str::to_owned), ..FilterOptions::default() };
        let selection = recording.select(&options(Grouping::Label("tenant"), filter)).unwrap();
        let table = FunctionTable::new(&selection, SortKey::SelfWeight);
        let row =
            |row: &FunctionRow| (selection.labels.get(row.label).name.clone(), row.own.weight / 1_000_000);
        table.rows.iter().map(row).collect::<Vec<_>>()
    };
    let expected = [("[no tenant]", 5), ("tenant=alpha", 1), ("tenant=beta", 1)];
    let expected = expected.map(|(name, weight)| (name.to_owned(), weight));
    assert_eq!(rows(None), expected);
    assert_eq!(rows(Some("work")), expected, "a filter on functions keeps the labels");
}

#[test]
fn the_times_of_threads_are_those_of_samples_with_the_label() {
    let recording = labelled();
    let filter = FilterOptions { labels: vec![label("gil", None)], ..FilterOptions::default() };
    let totals = Totals::of(&recording, &options(Grouping::Function, filter)).unwrap().unwrap();
    assert!(!totals.is_by_scheduler, "the scheduler knows no labels");
    assert_eq!((totals.times.on_cpu_ns, totals.times.sum_ns()), (4_000_000, 4_000_000));
}

#[test]
fn where_no_label_matches_those_that_there_are_are_named() {
    let fails = |recording: &Analysis, wanted| {
        let filter = FilterOptions { labels: vec![wanted], ..FilterOptions::default() };
        recording.select(&options(Grouping::Function, filter)).unwrap_err()
    };
    let failure = fails(&labelled(), label("gil", Some("wanted")));
    assert_eq!(failure.message, "none of 7 samples matches --label gil=wanted");
    assert_eq!(failure.hints[0], "the labels of samples:  gil (held), tenant (alpha, beta)");
    let failure = fails(&ingest(), label("gil", None));
    assert_eq!(failure.hints[0], "the recording has no labels of samples");
    let failure = fails(&labelled(), label("gil", Some("(")));
    assert!(failure.message.contains("is not a regular expression"), "{}", failure.message);
}

#[test]
fn info_and_documents_name_labels() {
    let recording = labelled();
    let text = info::render_text(&recording);
    assert!(text.contains("\nlabels    gil (1 value), tenant (2 values)\n"), "{text}");
    let document: serde_json::Value = serde_json::from_str(&info::render_json(&recording).unwrap()).unwrap();
    assert_eq!(document["labels"], serde_json::json!({"gil": 1, "tenant": 2}));
    let document: serde_json::Value = serde_json::from_str(&info::render_json(&ingest()).unwrap()).unwrap();
    assert!(document.get("labels").is_none());
    let filter = FilterOptions { labels: vec![label("gil", Some("held"))], ..FilterOptions::default() };
    let common = options(Grouping::Function, filter);
    let options = ReportOptions { common, format: Format::Json, ..ReportOptions::default() };
    let document: serde_json::Value =
        serde_json::from_str(&render(&recording, &options, &Page::PLAIN).unwrap()).unwrap();
    assert_eq!(document["filter"], "--label gil=held");
}

#[test]
fn hidden_functions_leave_their_module_where_all_of_its_frames_are_hidden() {
    let filter = FilterOptions { hide: Some("^ZSTD".into()), ..FilterOptions::default() };
    let recording = ingest();
    let selection = recording.select(&options(Grouping::Module, filter)).unwrap();
    let table = FunctionTable::new(&selection, SortKey::default());
    let names: Vec<&str> =
        table.rows.iter().map(|row| selection.labels.get(row.label).name.as_str()).collect();
    assert!(names.contains(&"ingest") && !names.iter().any(|name| name.starts_with("libzstd")), "{names:?}");
}

#[test]
fn reasons_are_hidden_whatever_the_rows_are() {
    let hide = |text: &str| FilterOptions { hide: Some(text.to_owned()), ..FilterOptions::default() };
    let recording = waiting();
    for grouping in GROUPINGS {
        let names = |filter| {
            let common = CommonOptions { metric: Some(Metric::OFF_CPU), ..options(grouping, filter) };
            let selection = recording.select(&common).unwrap();
            let mut names = BTreeSet::new();
            selection.for_each_path(|path, _| {
                names.extend(path.iter().map(|step| selection.labels.get(step.label).name.clone()));
            });
            names
        };
        assert!(names(FilterOptions::default()).contains("[lock]"), "{grouping:?}");
        assert!(!names(hide(r"^\[lock\]$")).contains("[lock]"), "{grouping:?}");
        let short = names(hide("^.waits below"));
        assert!(!short.iter().any(|name| name.starts_with("[waits below")), "{grouping:?} {short:?}");
    }
}

/// A filter of the rows that are shown means those rows in the sums, too.
#[test]
fn sums_go_by_the_rows_that_a_filter_means() {
    let recording = waiting();
    for grouping in [Grouping::Module, Grouping::Line, Grouping::Function] {
        let all = options(grouping, FilterOptions::default());
        let selection = recording.select(&all).unwrap();
        let table = FunctionTable::new(&selection, SortKey::default());
        let key = selection.labels.get(table.rows[0].label).key();
        let filter = FilterOptions { stacks: vec![StackFilter::Focus(key)], ..FilterOptions::default() };
        let totals = Totals::of(&recording, &options(grouping, filter)).unwrap().unwrap();
        assert!(!totals.threads.is_empty() && totals.times.sum_ns() > 0, "{grouping:?}");
    }
}

fn render_with(
    view: ReportView,
    format: Format,
    change: impl FnOnce(&mut ReportOptions),
) -> anyhow::Result<String> {
    let mut options = ReportOptions { view, format, ..ReportOptions::default() };
    change(&mut options);
    render(&waiting(), &options, &Page::PLAIN)
}

#[test]
fn times_of_threads_are_those_of_the_functions_that_are_asked_for() {
    let focus = |name: &'static str| {
        move |options: &mut ReportOptions| options.common.filter.focus = Some(name.to_owned())
    };
    let text = render_with(ReportView::Threads, Format::Text, focus("^pool_get$")).unwrap();
    assert!(text.contains("worker") && !text.contains("writer"), "{text}");
    assert!(text.contains("on-CPU 0.00 (by samples) + no CPU 0.00 + blocked 3.36"), "{text}");
    let error = render_with(ReportView::Threads, Format::Text, focus("no such function")).unwrap_err();
    assert_eq!(error.downcast_ref::<crate::base::failure::Failure>().unwrap().status, status::NO_MATCH);
    let json = render_with(ReportView::Threads, Format::Json, focus("^pool_get$")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["thread_rows"].as_array().unwrap().len(), 1, "{json}");
    assert_eq!(json["thread_rows"][0]["times"]["blocked_ns"], 3_360_000_000u64, "{json}");
}

#[test]
fn limits_on_rows_hold_in_every_format() {
    for view in [
        ReportView::Flat,
        ReportView::Tree,
        ReportView::BottomUp,
        ReportView::Threads,
        ReportView::Peek(".".into()),
    ] {
        for format in [Format::Json, Format::Tsv] {
            let rows = |change: fn(&mut ReportOptions)| {
                let text = render_with(view.clone(), format, change).unwrap();
                match format {
                    Format::Json => {
                        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
                        let name = match &view {
                            ReportView::Tree | ReportView::BottomUp => "tree",
                            ReportView::Peek(_) => "peek",
                            ReportView::Threads => "thread_rows",
                            _ => "rows",
                        };
                        json[name].as_array().unwrap_or_else(|| panic!("{name}: {json}")).len()
                    }
                    // Functions that are peeked at have several lines each.
                    _ if matches!(view, ReportView::Peek(_)) => text.matches("\ttotal\t").count(),
                    _ => text.lines().skip(1).count(),
                }
            };
            assert!(rows(|_| ()) > 2, "{view:?}");
            assert_eq!(rows(|options| options.rows = Some(2)), 2, "{view:?} {format:?}");
            let heavy = rows(|options| options.min_percent = Some(60.0));
            assert!(heavy < rows(|_| ()), "{view:?} {format:?} {heavy}");
        }
    }
}

#[test]
fn what_is_left_out_is_shown_by_the_option_that_left_it_out() {
    for view in [ReportView::Flat, ReportView::Threads, ReportView::Peek(".".into())] {
        let text = render_with(view.clone(), Format::Text, |options| {
            (options.rows, options.min_percent) = (Some(0), Some(60.0));
        });
        let text = text.unwrap();
        assert!(text.contains("(--min-pct 0 shows all)") && !text.contains("(-n 0 shows all)"), "{text}");
        let text = render_with(view, Format::Text, |options| options.rows = Some(1)).unwrap();
        assert!(text.contains("(-n 0 shows all)"), "{text}");
    }
}

#[test]
fn samples_and_what_they_stand_for_are_columns_of_their_own() {
    let off_cpu = |options: &mut ReportOptions| options.common.metric = Some(Metric::OFF_CPU);
    let json = render_with(ReportView::Flat, Format::Json, off_cpu).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let tsv = render_with(ReportView::Flat, Format::Tsv, off_cpu).unwrap();
    let mut lines = tsv.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    let column = |name: &str| heading.iter().position(|cell| *cell == name).unwrap();
    let lines: Vec<_> = lines.collect();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), lines.len());
    assert!(rows.iter().any(|row| row["samples"] != row["count"]), "{json}");
    for (row, line) in rows.iter().zip(lines) {
        for name in ["samples", "count"] {
            assert_eq!(row[name].to_string(), line[column(name)], "{name} {row}");
        }
    }
}

#[test]
fn a_wait_whose_frames_are_all_hidden_is_no_page_fault() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.wait(task, Reason::Lock, 0, 5_000_000, &["/x:main", "[kernel]:futex_wait"]);
    build.thread_time(task, 0, 0, 5_000_000);
    let filter = FilterOptions { hide: Some("^[^\\[]".into()), idle: true, ..FilterOptions::default() };
    let common = CommonOptions { metric: Some(Metric::OFF_CPU), filter, ..CommonOptions::default() };
    let options = ReportOptions { common, ..ReportOptions::default() };
    let recording = build.finish();
    let text = render(&recording, &options, &Page::PLAIN).unwrap();
    assert!(text.contains("[hidden]") && !text.contains("page fault"), "{text}");
    let tree = ReportOptions { view: ReportView::Tree, ..options };
    let text = render(&recording, &tree, &Page::PLAIN).unwrap();
    assert!(text.contains("[hidden]") && text.contains("[futex]"), "{text}");
}

#[test]
fn info_has_the_notes_of_all_events_and_no_rate_for_waits_alone() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 200, &["/x:main"]);
    build.wait(task, Reason::Lock, 0, 5_000_000, &["/x:main", "[kernel]:futex_wait"]);
    build.count(crate::profile::counter::LOST_WAITS, 77);
    let text = info::render_text(&build.finish());
    assert!(text.contains("77 waits") && text.contains("sampling  "), "{text}");
    let mut build = Build::new();
    build.meta().effective_hz = 999;
    let task = build.task(1, 1, "t", "t");
    build.wait(task, Reason::Lock, 0, 5_000_000, &["/x:main", "[kernel]:futex_wait"]);
    let text = info::render_text(&build.finish());
    assert!(!text.contains("sampling  "), "{text}");
}

/// Regression: only names matched, while pprof goes by source files and modules as well.
#[test]
fn functions_match_by_source_file_and_module_as_in_pprof() {
    let recording = ingest();
    let tables = &recording.profile.tables;
    let functions = |filter: FilterOptions, grouping| {
        let selection = recording.select(&options(grouping, filter)).unwrap();
        let mut found: BTreeSet<(String, String)> = BTreeSet::new();
        selection.for_each_path(|path, _| {
            let labels = path.iter().map(|step| selection.labels.get(step.label));
            found.extend(labels.map(|label| (label.name.clone(), label.module.clone())));
        });
        (selection.total.weight, found)
    };
    let all = functions(FilterOptions::default(), Grouping::Function);
    let (_, module) = all.1.iter().find(|(name, _)| name.starts_with("ZSTD")).unwrap().clone();
    let pattern = |text: &str| Some(format!("^{}$", regex::escape(text)));
    let of_module = FilterOptions { module: pattern(&module), ..FilterOptions::default() };
    let focused = FilterOptions { focus: pattern(&module), ..FilterOptions::default() };
    let ignored = FilterOptions { ignore: pattern(&module), ..FilterOptions::default() };
    let hidden = FilterOptions { hide: pattern(&module), ..FilterOptions::default() };
    let shown = FilterOptions { show: pattern(&module), ..FilterOptions::default() };
    let kept = functions(of_module, Grouping::Function).0;
    assert!(kept > 0 && kept < all.0);
    for grouping in GROUPINGS {
        assert_eq!(functions(focused.clone(), grouping).0, kept, "{grouping:?}");
        assert_eq!(functions(ignored.clone(), grouping).0, all.0 - kept, "{grouping:?}");
    }
    assert!(functions(hidden.clone(), Grouping::Function).1.iter().all(|(_, other)| *other != module));
    assert_eq!(functions(hidden, Grouping::Function).0, all.0, "time is kept");
    let left = functions(shown, Grouping::Function).1;
    assert!(left.iter().all(|(name, other)| *other == module || name == "[hidden]"), "{left:?}");

    // By source file: the functions of that file, whatever their names are.
    let selection = recording.select(&CommonOptions::default()).unwrap();
    let place = selection.labels.places().iter().find(|place| !tables.string(place.file).is_empty()).unwrap();
    let file = tables.string(place.file);
    let name = selection.labels.get(place.label).name.clone();
    let by_file = FilterOptions { focus: pattern(file), ..FilterOptions::default() };
    let found = functions(by_file, Grouping::Function);
    assert!(found.0 > 0 && found.1.iter().any(|(other, _)| *other == name), "{found:?}");
}
