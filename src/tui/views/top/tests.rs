//! The Top view: screens of several sizes, the numbers of the report, and its keys.

use crate::report::tests::fixture::{Build, ingest};
use crate::report::tests::fixture_waits::waiting;
use crate::report::{CommonOptions, Metric, Page, ReportOptions, ReportView, ThreadFilter, render};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::context::LiveState;
use crate::tui::tests::session::{Session, function, theme};
use crate::tui::widgets::theme::ColorDepth;
use ratatui::layout::Position;
use std::sync::Arc;

#[test]
fn top_on_all_screens() {
    insta::assert_snapshot!(Session::new(ingest(), None, Tab::Top).snapshot());
}

#[test]
fn top_of_waits_on_all_screens() {
    insta::assert_snapshot!(Session::new(waiting(), Some(Metric::WALL), Tab::Top).snapshot());
}

#[test]
fn top_has_the_numbers_of_the_report() {
    for metric in [Metric::ON_CPU, Metric::OFF_CPU, Metric::WALL] {
        let mut session = Session::new(waiting(), Some(metric), Tab::Top);
        let shown = session.lines((99, 60), &theme(ColorDepth::True, false));
        let common = CommonOptions { metric: Some(metric), ..CommonOptions::default() };
        let options =
            ReportOptions { common, view: ReportView::Flat, rows: Some(0), ..ReportOptions::default() };
        let report = render(&session.recording, &options, &Page::PLAIN).unwrap();
        let heading = report.lines().position(|line| line.contains("SELF%")).unwrap();
        let rows: Vec<&str> = report
            .lines()
            .skip(heading + 1)
            .take_while(|line| line.contains('%') && !line.contains("..."))
            .collect();
        assert!(rows.len() > 5, "{report}");
        let start = shown.iter().position(|line| line.contains("SELF%")).unwrap() + 1;
        for (row, line) in rows.iter().zip(&shown[start..]) {
            // All columns except the module, which is cut by different rules.
            let all: Vec<&str> = row.split_whitespace().collect();
            let found: Vec<&str> = line.trim_start_matches('>').split_whitespace().collect();
            assert_eq!(found[..6], all[..6], "{row}\n{line}");
        }
    }
}

#[test]
fn a_row_of_top_is_followed_when_the_order_changes() {
    let mut session = Session::new(ingest(), None, Tab::Top);
    session.press(&[Action::Down, Action::Down]);
    let name = function(&session.app);
    // A filter under which other functions are the heaviest.
    session.app.context.query.common.filter.threads = vec![ThreadFilter::named("ingest")];
    session.picture();
    session.app.context.query.common.filter.threads.clear();
    session.picture();
    assert_eq!(function(&session.app), name);
    session.press(&[Action::ReverseSort]);
    assert_ne!(function(&session.app), name);
    assert!(session.text().contains("SELF%^"), "{}", session.text());
}

#[test]
fn headings_of_top_sort_when_they_are_clicked() {
    let mut session = Session::new(ingest(), None, Tab::Top);
    let total = session.lines((80, 24), &theme(ColorDepth::True, false))[2].find("TOTAL%").unwrap() as u16;
    session.press(&[Action::Click(Position::new(total - 1, 2))]);
    assert!(session.text().contains("TOTAL%v"), "{}", session.text());
    assert_eq!(function(&session.app), "_start");
    session.press(&[Action::Click(Position::new(total - 1, 2))]);
    assert!(session.text().contains("TOTAL%^"));
}

#[test]
fn searching_top_finds_the_next_match_and_goes_round() {
    let mut session = Session::new(ingest(), None, Tab::Top);
    session.press(&[Action::Search]);
    for c in "zstd_".chars() {
        session.press(&[Action::Edit(tui_input::InputRequest::InsertChar(c))]);
    }
    session.press(&[Action::Accept]);
    let first = function(&session.app);
    assert!(first.starts_with("ZSTD_"), "{first}");
    session.press(&[Action::NextMatch]);
    let second = function(&session.app);
    assert!(second.starts_with("ZSTD_") && second != first);
    session.press(&[Action::NextMatch]);
    assert_eq!(function(&session.app), first);
    session.press(&[Action::PreviousMatch]);
    assert_eq!(function(&session.app), second);
}

/// A live session with one snapshot per number in `all`: that many of 100 samples are in `hot`.
fn live(all: &[u64]) -> Session {
    let mut session = Session::new(ingest(), None, Tab::Top);
    session.app.context.live = Some(LiveState::default());
    all.iter().for_each(|samples| record(&mut session, *samples));
    session
}

fn record(session: &mut Session, samples: u64) {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, samples, &["/x:main", "/x:hot"]);
    build.add(task, 100 - samples, &["/x:main", "/x:cold"]);
    session.recording = Arc::new(build.finish());
    session.picture();
}

/// The trend of `hot` on the screen.
fn trend(session: &mut Session) -> String {
    let text = session.text();
    let row = text.lines().find(|line| line.contains(" hot ")).unwrap();
    row.chars().filter(|c| ('▁'..='█').contains(c)).collect()
}

/// Detail 16 of the promises: live boxes keep their places, and time can be frozen, cut and followed.
#[test]
fn a_trend_has_a_point_for_each_recording_that_was_seen() {
    assert!(!Session::new(ingest(), None, Tab::Top).text().contains("TREND"));
    let mut session = live(&[20, 40, 80]);
    assert_eq!(trend(&mut session), "▂▄█");
    // Other queries, and the same one again, of the same snapshot.
    session.picture();
    let asking = [Action::Sort, Action::Sort, Action::Invert, Action::SplitThreads];
    session.press(&asking);
    session.press(&[Action::Open(Tab::Callers), Action::Open(Tab::Time), Action::Open(Tab::Top)]);
    assert_eq!(trend(&mut session), "▂▄█");
    session.press(&[Action::Freeze]);
    session.press(&asking);
    assert_eq!(trend(&mut session), "▂▄█");
    session.press(&[Action::Freeze]);
    record(&mut session, 40);
    assert_eq!(trend(&mut session), "▂▄█▄");
    (0..12).for_each(|_| record(&mut session, 80));
    assert_eq!(trend(&mut session), "█".repeat(10));
}

#[test]
fn a_trend_begins_anew_with_what_its_shares_are_of() {
    for other in [Action::InlinedFrames, Action::KernelFrames, Action::NextWindow, Action::Focus] {
        let mut session = live(&[20, 40, 80]);
        assert_eq!(function(&session.app), "hot");
        session.press(std::slice::from_ref(&other));
        assert_eq!(trend(&mut session), "█", "{other:?}");
        record(&mut session, 80);
        assert_eq!(trend(&mut session), "██", "{other:?}");
    }
}
