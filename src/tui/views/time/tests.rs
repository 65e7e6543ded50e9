//! The Time view on screens of several sizes, and its keys and pointer actions.

mod counted;
mod room;

use super::Panel;
use super::samples;
use crate::profile::Reason;
use crate::report::tests::fixture::Build;
use crate::report::tests::fixture_waits::{MS, waiting};
use crate::report::{
    Amount, Analysis, CommonOptions, Metric, Page, ReportOptions, ReportView, ThreadFilter, ThreadKey,
    TimeRange, render,
};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::query::SamplesQuery;
use crate::tui::app::search::Search;
use crate::tui::tests::session::{Session, theme};
use crate::tui::widgets::theme::ColorDepth;
use ratatui::layout::Position;
use std::sync::Arc;

#[test]
fn time_on_all_screens() {
    let mut session = Session::new(waiting(), None, Tab::Time);
    insta::assert_snapshot!(session.snapshot());
}

#[test]
fn the_metric_says_which_states_stand_on_each_other() {
    let line = |metric| {
        let mut session = Session::new(waiting(), Some(metric), Tab::Time);
        let lines = session.lines((120, 40), &theme(ColorDepth::True, false));
        // The lowest line of the first row, and the legend.
        (lines[10].clone(), lines[38].clone())
    };
    let (running, legend) = line(Metric::ON_CPU);
    assert!(running.contains("████") && running.contains('▒'), "{running}");
    assert!(["█ running", "▒ lock", "░ I/O"].iter().all(|words| legend.contains(words)), "{legend}");
    let (waiting, _) = line(Metric::OFF_CPU);
    assert!(!waiting.trim_start().starts_with('█') && waiting.contains('▒'), "{waiting}");
}

#[test]
fn a_chosen_range_on_all_screens() {
    let mut session = Session::new(waiting(), None, Tab::Time);
    session.app.views.time.at_ns = 2_000_000_000;
    session.press(&[Action::RangeStart]);
    session.app.views.time.at_ns = 3_000_000_000;
    session.press(&[Action::RangeEnd, Action::Down]);
    insta::assert_snapshot!(session.snapshot());
}

#[test]
fn heat_map_on_all_screens() {
    let mut session = Session::new(waiting(), None, Tab::Time);
    session.press(&[Action::HeatMap]);
    insta::assert_snapshot!(session.snapshot());
}

/// A thread that runs without a break for so long.
fn running(milliseconds: u64) -> Analysis {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, milliseconds, &["/x:main"]);
    build.finish().changed(|recording| {
        recording.profile.end.as_mut().unwrap().duration_ns = milliseconds * MS;
    })
}

#[test]
fn lengths_in_the_list_of_samples_have_the_unit_of_the_longest() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.wait(task, Reason::Disk, 0, 2_000 * MS, &["/x:main", "/x:slow"]);
    build.wait(task, Reason::Disk, 3_000 * MS, 3 * MS, &["/x:main", "/x:quick"]);
    let mut session = Session::new(build.finish(), Some(Metric::OFF_CPU), Tab::Time);
    let time = TimeRange { from_ns: Some(0), to_ns: Some(10_000 * MS) };
    session.app.context.query.samples_at = Some(SamplesQuery { time, row: None });
    session.app.views.time.panel = Panel::Samples;
    session.picture();
    let text = session.text();
    for (function, length) in [("slow", "2.00 s"), ("quick", "0.003 s")] {
        let row = text.lines().find(|line| line.contains(function) && line.contains("disk "));
        assert!(row.is_some_and(|row| row.contains(&format!(" {length}  "))), "{function}: {text}");
    }
}

#[test]
fn samples_behind_a_cell_on_all_screens() {
    let mut session = Session::new(waiting(), Some(Metric::WALL), Tab::Time);
    session.press(&[Action::Down, Action::Enter]);
    insta::assert_snapshot!(session.snapshot());
}

#[test]
fn the_stack_of_a_sample_on_all_screens() {
    let mut session = Session::new(waiting(), Some(Metric::WALL), Tab::Time);
    session.press(&[Action::Enter, Action::Down, Action::Enter]);
    insta::assert_snapshot!(session.snapshot());
}

/// Detail 22 of the promises: a range of time applies to every view and export.
#[test]
fn a_range_of_time_is_followed_by_all_views_and_can_be_undone() {
    let mut session = Session::new(waiting(), None, Tab::Time);
    let whole = session.app.context.picture.as_ref().unwrap().total;
    let rows = session.app.context.picture.as_ref().unwrap().timeline.clone().unwrap();
    session.app.views.time.at_ns = 1_000_000_000;
    session.press(&[Action::RangeStart]);
    session.app.views.time.at_ns = 2_000_000_000;
    session.press(&[Action::RangeEnd]);
    let range = session.app.context.query.common.filter.time;
    assert!(range.from_ns.unwrap() <= 1_000_000_000 && range.to_ns.unwrap() > 2_000_000_000, "{range:?}");
    let picture = session.app.context.picture.clone().unwrap();
    assert!(picture.total.weight < whole.weight / 2 && picture.total.weight > 0);
    // The bars still show the whole recording, and are not computed again.
    assert!(Arc::ptr_eq(&rows, picture.timeline.as_ref().unwrap()));
    session.press(&[Action::Whole]);
    assert!(session.app.context.query.common.filter.time.is_everything());
    session.press(&[Action::Undo]);
    assert_eq!(session.app.context.query.common.filter.time, range);
    session.press(&[Action::Back]);
    assert_eq!(session.app.context.picture.as_ref().unwrap().total, whole);
}

#[test]
fn a_range_with_nothing_in_it_shows_the_rest_of_the_time() {
    let mut session = Session::new(waiting(), None, Tab::Time);
    session.app.context.query.common.filter.time = TimeRange { from_ns: Some(1), to_ns: Some(2) };
    session.press(&[Action::Down]);
    let text = session.text();
    assert!(session.app.context.picture.as_ref().unwrap().empty.is_some(), "{text}");
    assert!(text.contains("0 clears it   nothing in it"), "{text}");
    session.press(&[Action::Whole]);
    assert!(session.app.context.picture.as_ref().unwrap().empty.is_none());
    // The other views report that there is nothing.
    session.app.context.query.common.filter.time = TimeRange { from_ns: Some(1), to_ns: Some(2) };
    session.press(&[Action::Open(Tab::Flame)]);
    assert!(session.text().contains("matches --time"), "{}", session.text());
}

#[test]
fn dragging_chooses_a_range() {
    let mut session = Session::new(waiting(), None, Tab::Time);
    let at = |x, y| Position::new(x, y);
    session.press(&[Action::Click(at(50, 3)), Action::Drag(at(40, 3)), Action::Drag(at(30, 3))]);
    assert!(session.app.context.query.common.filter.time.is_everything());
    assert!(session.text().contains("range "), "{}", session.text());
    session.press(&[Action::Release(at(30, 3))]);
    let TimeRange { from_ns: Some(from_ns), to_ns: Some(to_ns) } =
        session.app.context.query.common.filter.time
    else {
        panic!("no range")
    };
    assert!(from_ns < to_ns && to_ns < 10_000_000_000);
    // A click alone selects no range.
    session.press(&[Action::Whole, Action::Click(at(50, 3)), Action::Release(at(50, 3))]);
    assert!(session.app.context.query.common.filter.time.is_everything());
}

#[test]
fn the_samples_behind_a_cell_are_those_of_its_threads_and_time() {
    let mut session = Session::new(waiting(), Some(Metric::OFF_CPU), Tab::Time);
    session.press(&[Action::Down]);
    session.app.views.time.at_ns = 9_110_000_000;
    session.press(&[Action::Enter]);
    assert_eq!(session.app.views.time.panel, Panel::Samples);
    let picture = session.app.context.picture.clone().unwrap();
    let samples_at = picture.samples_at.as_ref().unwrap();
    assert!(!samples_at.samples.is_empty());
    for sample in &samples_at.samples {
        assert_eq!(sample.thread, "writer");
        let end_ns = sample.time_ns + sample.duration_ns.unwrap();
        assert!(sample.time_ns < 9_300_000_000 && end_ns > 9_000_000_000, "{sample:?}");
    }
    session.press(&[Action::Enter]);
    assert!(
        session.text().contains("write_all") && session.text().contains("FUNCTION"),
        "{}",
        session.text()
    );
    session.press(&[Action::Back]);
    assert_eq!(session.app.views.time.panel, Panel::Samples);
    session.press(&[Action::Back]);
    assert_eq!(
        (session.app.views.time.panel, session.app.context.query.samples_at.clone()),
        (Panel::Map, None)
    );
}

#[test]
fn a_function_of_a_stack_can_be_put_into_the_middle() {
    let mut session = Session::new(waiting(), Some(Metric::OFF_CPU), Tab::Time);
    session.press(&[Action::Enter, Action::Enter, Action::Enter]);
    // The reason of a wait is not a function.
    assert_eq!(session.app.context.tab, Tab::Time);
    session.press(&[Action::Down, Action::Down, Action::Down, Action::Down, Action::Enter]);
    assert_eq!(session.app.context.tab, Tab::Callers);
    assert_eq!(session.app.context.query.pivot.clone().unwrap().name(), "pool_get");
}

#[test]
fn a_sample_can_begin_and_end_a_range() {
    let mut session = Session::new(waiting(), Some(Metric::OFF_CPU), Tab::Time);
    session.press(&[Action::Enter, Action::RangeStart, Action::RangeEnd]);
    let sample =
        session.app.context.picture.as_ref().unwrap().samples_at.as_ref().unwrap().samples[0].clone();
    let range = session.app.context.query.common.filter.time;
    let end_ns = sample.time_ns + sample.duration_ns.unwrap();
    assert_eq!(range, TimeRange { from_ns: Some(sample.time_ns), to_ns: Some(end_ns) });
    session.press(&[Action::HeatMap]);
    assert!(session.app.views.time.is_heat_map && session.text().contains("+100 ms"), "{}", session.text());
}

#[test]
fn bars_are_split_by_thread_as_rows_are() {
    let mut session = Session::new(waiting(), None, Tab::Time);
    session.press(&[Action::SplitThreads]);
    let text = session.text();
    assert!(text.contains("worker 4313") && text.contains("worker 4314"), "{text}");
}

/// Detail 22 of the promises: a range of time applies to every view and export.
#[test]
fn a_chosen_range_has_the_numbers_of_the_report_of_that_time() {
    for metric in [Metric::ON_CPU, Metric::OFF_CPU, Metric::WALL] {
        let mut session = Session::new(waiting(), Some(metric), Tab::Time);
        session.press(&[(); 3].map(|()| Action::Right)).press(&[Action::RangeStart]);
        session.press(&[(); 9].map(|()| Action::Right)).press(&[Action::RangeEnd]);
        let chosen = session.app.context.query.common.filter.time;
        let (from_ns, to_ns) = (chosen.from_ns.unwrap(), chosen.to_ns.unwrap());
        assert!(0 < from_ns && from_ns < to_ns && to_ns < 10_000_000_000, "{chosen:?}");
        // The command a user would type.
        let line = format!("prof report --json -n 0 --time {from_ns}ns..{to_ns}ns");
        let Ok(crate::cli::request::Request::Report(typed)) =
            crate::cli::parse(line.split(' ').map(Into::into))
        else {
            panic!("not understood: {line}");
        };
        let common = CommonOptions { metric: Some(metric), ..typed.common };
        let options = ReportOptions { common, view: ReportView::Flat, ..typed };
        let report = render(&session.recording, &options, &Page::PLAIN).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let picture = session.app.context.picture.clone().unwrap();
        assert_eq!(report["total"].as_u64(), Some(picture.total.weight), "{report:#}");
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), picture.table.rows.len());
        assert!(rows.len() > 3);
        for (row, shown) in rows.iter().zip(&picture.table.rows) {
            let found = (row["function"].as_str(), row["self"].as_u64(), row["total"].as_u64());
            let name = picture.labels.get(shown.label).name.as_str();
            assert_eq!(found, (Some(name), Some(shown.own.weight), Some(shown.total.weight)));
        }
    }
}

#[test]
fn a_range_does_not_end_after_the_recording() {
    let recording =
        waiting().changed(|recording| recording.profile.end.as_mut().unwrap().duration_ns = 3_015_000_000);
    let mut session = Session::new(recording, None, Tab::Time);
    session.app.views.time.at_ns = 1_000_000_000;
    // The last cell of the heat map is 100 ms long.
    session.press(&[Action::HeatMap, Action::RangeStart, Action::Last, Action::RangeEnd]);
    let range = session.app.context.query.common.filter.time;
    assert_eq!(range, TimeRange { from_ns: Some(1_000_000_000), to_ns: Some(3_015_000_000) });
}

#[test]
fn the_list_of_samples_and_a_stack_can_be_searched() {
    let mut session = Session::new(waiting(), Some(Metric::WALL), Tab::Time);
    session.press(&[Action::Enter, Action::NextMatch]);
    assert_eq!(session.app.context.toast.as_deref(), Some("search first: /"));
    session.app.context.search = Some(Search::new("pool_get").unwrap());
    let matches = |session: &Session| {
        let picture = session.app.context.picture.clone().unwrap();
        let names = samples::selected_names(&session.app.views.time, &session.app.context, &picture);
        names.iter().any(|name| name == "pool_get")
    };
    session.press(&[Action::Last, Action::NextMatch]);
    assert!(matches(&session), "{}", session.text());
    let first = session.app.views.time.samples;
    session.press(&[Action::NextMatch]);
    assert!(matches(&session) && session.app.views.time.samples != first, "{}", session.text());
    session.press(&[Action::PreviousMatch]);
    assert_eq!(session.app.views.time.samples.cursor, first.cursor);
    session.press(&[Action::Enter, Action::NextMatch]);
    assert_eq!(session.app.views.time.panel, Panel::Stack);
    let picture = session.app.context.picture.clone().unwrap();
    assert_eq!(
        samples::selected_names(&session.app.views.time, &session.app.context, &picture)[0],
        "pool_get"
    );
    session.app.context.search = Some(Search::new("no_such_function").unwrap());
    session.press(&[Action::NextMatch]);
    assert_eq!(session.app.context.toast.as_deref(), Some("nothing matches in what is listed"));
}

#[test]
fn the_id_of_a_thread_is_not_cut() {
    let mut session = Session::new(waiting(), None, Tab::Time);
    session.press(&[Action::SplitThreads]);
    let lines = session.lines((40, 10), &theme(ColorDepth::True, false));
    for tid in ["4313", "4314", "4315", "4312"] {
        assert!(lines.iter().any(|line| line.contains(tid)), "{tid} in {lines:#?}");
    }
}

#[test]
fn escape_does_not_bring_a_cleared_range_back() {
    for clear in [Action::Back, Action::Whole] {
        let mut session = Session::new(waiting(), None, Tab::Time);
        session.press(&[Action::Right, Action::RangeStart, clear.clone()]);
        assert!(session.app.context.query.common.filter.time.is_everything());
        session.press(&[Action::Back]);
        assert!(session.app.context.query.common.filter.time.is_everything(), "{clear:?}");
        assert_eq!(session.app.context.toast.as_deref(), Some("nothing to go back to; q quits"));
    }
    // After the range, Esc undoes the earlier filter, and u brings the range back.
    let mut session = Session::new(waiting(), None, Tab::Flame);
    session.press(&[Action::Down, Action::Down, Action::Down, Action::Focus, Action::Open(Tab::Time)]);
    session.press(&[Action::Right, Action::RangeStart]);
    let range = session.app.context.query.common.filter.time;
    session.press(&[Action::Back, Action::Undo]);
    assert_eq!(session.app.context.query.common.filter.time, range);
    session.press(&[Action::Back]);
    assert_eq!(session.app.context.query.common.filter.stacks.len(), 1);
    session.press(&[Action::Back]);
    let filter = &session.app.context.query.common.filter;
    assert!(filter.stacks.is_empty() && filter.time.is_everything(), "{filter:?}");
}

#[test]
fn the_selected_sample_is_followed_into_the_next_picture() {
    let recording = |more: u64| {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        for number in 0..8 {
            let at_ns = number * 100 * MS;
            let name = format!("/x:wait_{number}");
            build.wait(task, Reason::Lock, at_ns, (50 - number) * MS, &["/x:main", &name]);
        }
        // Longer samples, which are listed first.
        for number in 0..more {
            let at_ns = (800 + number * 100) * MS;
            build.wait(task, Reason::Lock, at_ns, 90 * MS, &["/x:main", "/x:new"]);
        }
        build.thread_time(task, 0, 0, 2_000 * MS);
        build.finish()
    };
    let names = |session: &Session| {
        let picture = session.app.context.picture.clone().unwrap();
        samples::selected_names(&session.app.views.time, &session.app.context, &picture)
    };
    let mut session = Session::new(recording(0), Some(Metric::OFF_CPU), Tab::Time);
    session.app.context.query.samples_at = Some(SamplesQuery { time: TimeRange::default(), row: None });
    session.app.views.time.panel = Panel::Samples;
    session.picture();
    session.press(&[Action::Down, Action::Down]);
    assert!(names(&session).contains(&"wait_2".to_owned()), "{:?}", names(&session));
    session.recording = Arc::new(recording(3));
    session.picture();
    assert_eq!(session.app.views.time.samples.cursor, 5);
    assert!(names(&session).contains(&"wait_2".to_owned()), "{:?}", names(&session));
    session.press(&[Action::Enter]);
    session.recording = Arc::new(recording(5));
    session.picture();
    assert_eq!(session.app.views.time.panel, Panel::Stack);
    assert!(session.text().contains("wait_2"), "{}", session.text());
    // The sample is gone: its stack is not replaced by another.
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.wait(task, Reason::Lock, 5 * MS, 4 * MS, &["/x:main", "/x:other"]);
    build.thread_time(task, 0, 0, 2_000 * MS);
    session.recording = Arc::new(build.finish());
    session.picture();
    assert_eq!(session.app.views.time.panel, Panel::Samples);
    assert!(session.text().contains("was merged with others, or dropped"), "{}", session.text());
}

#[test]
fn the_samples_of_a_thread_that_the_filter_drops_are_none() {
    let mut session = Session::new(waiting(), None, Tab::Time);
    let row = ThreadKey { thread: "writer".into(), process: "ingest".into(), tid: None, pid: None };
    session.app.context.query.samples_at = Some(SamplesQuery { time: TimeRange::default(), row: Some(row) });
    session.picture();
    let samples_at =
        |session: &Session| session.app.context.picture.as_ref().unwrap().samples_at.clone().unwrap();
    let writer = samples_at(&session).total;
    assert!(writer.weight > 0);
    session.app.context.query.common.filter.threads = vec![ThreadFilter::Ids(vec![4313])];
    session.picture();
    assert_eq!(samples_at(&session).total, Amount::default());
    assert!(samples_at(&session).samples.is_empty());
    session.app.context.query.common.filter.threads = vec![ThreadFilter::Ids(vec![4313, 4315])];
    session.picture();
    assert_eq!(samples_at(&session).total, writer);
}

#[test]
fn the_wheel_goes_through_the_heat_map_and_with_shift_through_time() {
    let scroll = |rows, columns| Action::Scroll { at: Position::default(), rows, columns };
    for is_heat_map in [false, true] {
        let mut session = Session::new(waiting(), None, Tab::Time);
        if is_heat_map {
            session.press(&[Action::HeatMap]);
        }
        let mut same = Session::new(waiting(), None, Tab::Time);
        same.app.views.time = session.app.views.time.clone();
        let mut pairs =
            vec![(scroll(0, 3), Action::Right), (scroll(0, 3), Action::Right), (scroll(0, -3), Action::Left)];
        if is_heat_map {
            pairs.extend([
                (scroll(3, 0), Action::Down),
                (scroll(3, 0), Action::Down),
                (scroll(-3, 0), Action::Up),
            ]);
        }
        for (wheel, key) in pairs {
            let before = session.app.views.time.at_ns;
            session.press(std::slice::from_ref(&wheel));
            same.press(&[key]);
            assert_eq!(session.app.views.time.at_ns, same.app.views.time.at_ns, "{wheel:?}");
            assert_ne!(session.app.views.time.at_ns, before, "{wheel:?}");
        }
    }
}
