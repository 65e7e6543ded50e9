//! The Top view: on screens of several sizes, with the numbers of the report, and what keys do in it.

use super::action::{Action, Tab};
use super::test_session::{Session, function, theme};
use super::theme::ColorDepth;
use crate::report::fixture::ingest;
use crate::report::fixture_waits::waiting;
use crate::report::{CommonOptions, Metric, Page, ReportOptions, View, render};
use ratatui::layout::Position;

#[test]
fn top_on_all_screens() {
    insta::assert_snapshot!(Session::new(ingest(), None, Tab::Top).snapshot());
}

#[test]
fn top_of_waits_on_all_screens() {
    insta::assert_snapshot!(Session::new(waiting(), Some(Metric::Wall), Tab::Top).snapshot());
}

#[test]
fn top_has_the_numbers_of_the_report() {
    for metric in [Metric::OnCpu, Metric::OffCpu, Metric::Wall] {
        let mut session = Session::new(waiting(), Some(metric), Tab::Top);
        let shown = session.lines((99, 60), &theme(ColorDepth::True, false));
        let common = CommonOptions { metric: Some(metric), ..CommonOptions::default() };
        let options = ReportOptions { common, view: View::Flat, rows: Some(0), ..ReportOptions::default() };
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
            // All but the module, which is cut by other rules.
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
    // Another recording of the same program, in which other functions are the heaviest.
    session.app.query.common.filter.thread = Some("ingest".into());
    session.picture();
    session.app.query.common.filter.thread = None;
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

#[test]
fn trends_are_of_the_last_ten_pictures_of_a_live_recording() {
    let mut session = Session::new(ingest(), None, Tab::Top);
    assert!(!session.text().contains("TREND"));
    session.app.live = Some(super::app::Live::default());
    for _ in 0..12 {
        session.picture();
    }
    let lines = session.lines((99, 24), &theme(ColorDepth::True, false));
    assert!(lines[2].ends_with("TREND"), "{lines:#?}");
    assert!(lines[3].ends_with("██████████") && !lines[3].ends_with("███████████"), "{lines:#?}");
    // Other filters are another story.
    session.press(&[Action::KernelFrames]);
    let lines = session.lines((99, 24), &theme(ColorDepth::True, false));
    assert!(lines[3].ends_with(" █") || lines[3].ends_with('█') && !lines[3].contains("██"), "{lines:#?}");
}
