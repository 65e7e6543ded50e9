//! Events that measure no time: the bars are made of their samples, and numbers have their unit.

use crate::profile::{EventKind, Unit};
use crate::report::tests::fixture::Build;
use crate::report::tests::fixture_waits::MS;
use crate::report::{Analysis, FilterOptions, Metric};
use crate::tui::app::action::{Action, Tab};
use crate::tui::tests::session::{Session, theme};
use crate::tui::widgets::theme::ColorDepth;

fn faults() -> EventKind {
    EventKind::counted("page-faults", "page faults")
}

fn metric() -> Option<Metric> {
    Some(Metric::of_kind(&faults()))
}

/// A loader that faults more and more, and a writer that does so twice; with `has_time`, also a thread that only runs.
fn recording(kind: &EventKind, has_time: bool) -> Analysis {
    let mut build = Build::new();
    let loader = build.task(10, 10, "loader", "app");
    let writer = build.task(10, 11, "writer", "app");
    for second in 0..9u64 {
        let times_ns = (0..=second * 20).map(|number| (second * 1_000 + number) * MS);
        build.counter_at(kind.clone(), loader, (times_ns, 10), &["/x:main", "/x:load", "/x:touch"]);
    }
    build.counter_at(kind.clone(), writer, ([2_500 * MS, 7_250 * MS], 10), &["/x:main", "/x:write"]);
    if has_time {
        build.add(loader, 2_000, &["/x:main", "/x:load"]);
        let other = build.task(10, 12, "other", "app");
        build.add(other, 1_000, &["/x:main"]);
    }
    build.finish()
}

#[test]
fn a_counted_event_on_all_screens() {
    let mut session = Session::new(recording(&faults(), false), metric(), Tab::Time);
    insta::assert_snapshot!(session.snapshot());
}

#[test]
fn a_heat_map_of_a_counted_event_on_all_screens() {
    let mut session = Session::new(recording(&faults(), false), metric(), Tab::Time);
    session.app.views.time.at_ns = 8_050 * MS;
    session.press(&[Action::HeatMap]);
    insta::assert_snapshot!(session.snapshot());
}

#[test]
fn samples_of_a_counted_event_on_all_screens() {
    let mut session = Session::new(recording(&faults(), true), metric(), Tab::Time);
    session.app.views.time.at_ns = 8_050 * MS;
    session.press(&[Action::Enter]);
    insta::assert_snapshot!(session.snapshot());
    session.press(&[Action::Enter]);
    let text = session.text();
    assert!(text.contains("10 page faults") && !text.contains("ran "), "{text}");
}

#[test]
fn bars_are_of_the_metric_beside_running_time() {
    let lines = |metric| {
        let mut session = Session::new(recording(&faults(), true), metric, Tab::Time);
        session.lines((120, 40), &theme(ColorDepth::True, false)).join("\n")
    };
    let (time, counted) = (lines(Some(Metric::ON_CPU)), lines(metric()));
    assert!(time.contains("other") && time.contains("running") && time.contains("CPU"), "{time}");
    // A thread without faults has no row, and nothing is said of CPUs and running.
    assert!(counted.contains("loader") && counted.contains("writer"), "{counted}");
    assert!(["other", "running", "no CPU", "CPUs"].iter().all(|word| !counted.contains(word)), "{counted}");
    assert!(counted.contains("page faults, up to "), "{counted}");
}

#[test]
fn cells_of_bars_add_up_to_the_total_under_every_filter() {
    for focus in [None, Some("touch"), Some("write")] {
        let mut session = Session::new(recording(&faults(), true), metric(), Tab::Time);
        let filter = FilterOptions { focus: focus.map(String::from), ..FilterOptions::default() };
        session.app.context.query.common.filter = filter;
        session.picture();
        let picture = session.app.context.picture.clone().unwrap();
        let timeline = picture.timeline.as_ref().unwrap();
        for columns in [1, 7, 62, 120, 960, 2_000u64] {
            let edge = |column| timeline.duration_ns * column / columns;
            let parts = (0..columns).flat_map(|column| {
                timeline.rows.iter().map(move |row| timeline.weight_in(row, edge(column), edge(column + 1)))
            });
            assert_eq!(parts.sum::<u64>(), picture.total.weight, "{focus:?} in {columns} columns");
        }
        assert!(picture.total.weight > 0);
    }
}

#[test]
fn weights_of_other_units_have_them() {
    let kind = EventKind { unit: Unit::Bytes, ..EventKind::counted("alloc", "allocated") };
    let mut session = Session::new(recording(&kind, false), Some(Metric::of_kind(&kind)), Tab::Time);
    let text = session.text();
    assert!(text.contains("B allocated") && text.contains("allocated, up to "), "{text}");
    session.press(&[Action::Enter]);
    let text = session.text();
    assert!(text.contains("BYTES") && !text.contains(" ns"), "{text}");
}
