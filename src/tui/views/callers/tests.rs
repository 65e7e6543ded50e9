//! The Callers view on screens of several sizes, and what keys do in it.

use crate::report::Analysis;
use crate::report::tests::fixture::{Build, ingest};
use crate::tui::app::action::{Action, Tab};
use crate::tui::tests::session::{Session, function, theme};
use crate::tui::widgets::theme::ColorDepth;
use ratatui::layout::Position;

#[test]
fn callers_on_all_screens() {
    let mut session = Session::new(ingest(), None, Tab::Top);
    session.press(&[Action::Search, Action::Cancel]);
    session.app.update(&Action::Down);
    let picture = session.app.context.picture.clone().unwrap();
    let batch = picture.labels.iter().find(|label| label.name == "handle_batch").unwrap().key();
    session.app.views.callers.set_pivot(&mut session.app.context, batch);
    session.app.context.tab = Tab::Callers;
    session.picture();
    session.press(&[Action::Down]);
    insta::assert_snapshot!(session.snapshot());
}

#[test]
fn enter_walks_through_callers_and_esc_goes_back() {
    let mut session = Session::new(ingest(), None, Tab::Top);
    session.press(&[Action::Enter]);
    assert_eq!(session.app.context.tab, Tab::Callers);
    let middle = |session: &Session| session.app.context.query.pivot.clone().unwrap().name().into_owned();
    assert_eq!(middle(&session), "ZSTD_insertBt1");
    session.press(&[Action::Up, Action::Up]);
    assert_eq!(function(&session.app), "compress");
    session.press(&[Action::Enter]);
    assert_eq!(middle(&session), "compress");
    session.press(&[Action::Down]);
    assert_eq!(function(&session.app), "ZSTD_compressBlock_opt");
    session.press(&[Action::Down, Action::Up, Action::Up]);
    assert_eq!(function(&session.app), "compress");
    session.press(&[Action::Back]);
    assert_eq!(middle(&session), "ZSTD_insertBt1");
}

#[test]
fn the_word_for_the_colour_of_a_box_is_beside_its_name() {
    let mut session = Session::new(ingest(), None, Tab::Top);
    session.press(&[Action::Enter]);
    for moves in [&[][..], &[Action::Up, Action::Up]] {
        session.press(moves);
        let picture = session.app.context.picture.clone().unwrap();
        let label = picture.labels.get(*session.app.selected().last().unwrap());
        let words = format!(" {}   {}   ", label.name, label.kind.word());
        let text = session.text();
        assert!(text.contains(&words), "{words:?} in {text}");
    }
}

#[test]
fn a_double_click_on_a_callee_puts_it_into_the_middle() {
    let mut session = Session::new(ingest(), None, Tab::Callers);
    let picture = session.app.context.picture.clone().unwrap();
    let batch = picture.labels.iter().find(|label| label.name == "handle_batch").unwrap().key();
    session.app.views.callers.set_pivot(&mut session.app.context, batch);
    session.picture();
    let lines = session.lines((80, 24), &theme(ColorDepth::True, false));
    let y = lines.iter().position(|line| line.contains("compress")).unwrap();
    let x = lines[y].chars().position(|c| c == 'c').unwrap();
    let x = lines[y]
        .chars()
        .collect::<String>()
        .find("▏compress")
        .map_or(x, |at| lines[y][..at].chars().count() + 2);
    let at = Position::new(x as u16, y as u16);
    session.press(&[Action::Click(at), Action::DoubleClick(at)]);
    assert_eq!(session.app.context.query.pivot.clone().unwrap().name(), "compress");
}

/// `main` calls `read` and forty functions too narrow for a box; `read` is called by as many.
fn narrow() -> Session {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 9_000, &["/x:main", "/x:read"]);
    for number in 0..40 {
        build.add(task, 1, &["/x:main", &format!("/x:small{number:02}"), "/x:leaf"]);
        build.add(task, 1, &["/x:main", &format!("/x:caller{number:02}"), "/x:read"]);
    }
    let mut session = Session::new(build.finish(), None, Tab::Callers);
    middle(&mut session, "main");
    session
}

/// Makes a function the pivot.
fn middle(session: &mut Session, name: &str) {
    let picture = session.app.context.picture.clone().unwrap();
    let found = picture.labels.iter().find(|label| label.name == name).unwrap().key();
    session.app.views.callers.set_pivot(&mut session.app.context, found);
    session.picture();
}

#[test]
fn a_box_that_several_share_is_opened_by_enter_and_closed_by_esc() {
    let mut session = narrow();
    session.press(&[Action::Down, Action::Right]);
    assert!(session.app.selected().is_empty(), "{}", session.text());
    let text = session.text();
    assert!(text.contains(" … 80 calls   each narrower than a column: Enter shows them"), "{text}");
    assert!(text.contains("goes this way"), "{text}");
    // The shared box holds further shared boxes, and one of those holds functions.
    session.press(&[Action::Enter]);
    assert_eq!(session.app.views.callers.zooms.len(), 1);
    session.press(&[Action::Right, Action::Enter]);
    assert_eq!(session.app.context.query.pivot.as_ref().unwrap().name(), "main");
    assert_eq!(session.app.views.callers.zooms.len(), 2);
    let text = session.text();
    assert!(text.contains("caller1"), "{text}");
    let name = function(&session.app);
    assert!(name.starts_with("caller"), "{name}\n{text}");
    // A shared box has no function to filter by; a box in it has one.
    session.press(&[Action::Right]);
    let name = function(&session.app);
    session.press(&[Action::Back]);
    assert_eq!(session.app.views.callers.zooms.len(), 1);
    session.press(&[Action::Focus]);
    assert_eq!(session.app.context.toast.as_deref(), Some("select a function first"));
    session.press(&[Action::Whole]);
    assert!(session.app.views.callers.zooms.is_empty());
    session.press(&[Action::Whole]);
    assert_eq!(session.app.context.toast.as_deref(), Some("nothing is zoomed"));
    // In an opened box, Enter on a function makes it the pivot, as everywhere.
    session.press(&[Action::Enter, Action::Right, Action::Enter, Action::Right, Action::Enter]);
    assert_eq!(session.app.context.query.pivot.as_ref().unwrap().name(), name);
    assert!(session.app.views.callers.zooms.is_empty());
}

#[test]
fn what_is_behind_a_narrow_box_of_callers_keeps_the_way_to_the_middle() {
    let mut session = narrow();
    middle(&mut session, "leaf");
    // Called by forty functions of the same weight: none is wide enough for a box, so they share boxes, which Enter
    // opens.
    session.press(&[Action::Up]);
    while session.app.selected().is_empty() {
        session.press(&[Action::Enter]);
        assert!(session.app.views.callers.zooms.len() < 5, "{}", session.text());
    }
    assert!(function(&session.app).starts_with("small"));
    session.press(&[Action::Up]);
    assert_eq!(function(&session.app), "main");
    middle(&mut session, "main");
    session.press(&[Action::Down, Action::Right, Action::Enter, Action::Enter, Action::Down]);
    let text = session.text();
    // What the opened functions call is below them.
    assert!(["read", "leaf"].contains(&function(&session.app).as_str()), "{text}");
    insta::assert_snapshot!(session.snapshot());
}

#[test]
fn a_click_on_a_narrow_box_selects_it_and_a_second_opens_it() {
    let mut session = narrow();
    let lines = session.lines((80, 24), &theme(ColorDepth::True, false));
    let y = lines.iter().position(|line| line.contains("▏read")).unwrap();
    let at = Position::new(79, y as u16);
    session.press(&[Action::Click(at)]);
    assert_eq!(session.app.views.callers.selected.rest.len(), 80, "{lines:#?}");
    session.press(&[Action::DoubleClick(at)]);
    assert_eq!(session.app.views.callers.zooms.len(), 1);
}

/// `read` has a wide caller and callee, and one of each that is too narrow and gets a column anyway.
pub(crate) fn with_gifts() -> Analysis {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 9_000, &["/x:main", "/x:read", "/x:parse"]);
    build.add(task, 1, &["/x:outer", "/x:caller", "/x:read", "/x:callee", "/x:inner"]);
    build.finish()
}

/// A session with `read` as the pivot.
fn gifts() -> Session {
    let mut session = Session::new(with_gifts(), None, Tab::Callers);
    middle(&mut session, "read");
    session
}

#[test]
fn enter_shows_what_follows_a_narrow_box_and_then_puts_that_into_the_middle() {
    let pivot = |session: &Session| session.app.context.query.pivot.clone().unwrap().name().into_owned();
    for (towards, away, wide, narrow, beyond) in [
        (Action::Up, Action::Down, "main", "caller", "outer"),
        (Action::Down, Action::Up, "parse", "callee", "inner"),
    ] {
        let mut session = gifts();
        session.press(&[towards.clone(), Action::Right, towards.clone()]);
        assert_eq!(session.app.context.toast.as_deref(), Some("too narrow for what follows: Enter shows it"));
        assert_eq!(function(&session.app), narrow);
        session.press(&[Action::Enter]);
        assert_eq!((pivot(&session), function(&session.app)), ("read".to_owned(), narrow.to_owned()));
        let text = session.text();
        assert!(text.contains(&format!("▏{narrow}")) && text.contains(&format!("▏{beyond}")), "{text}");
        assert!(!text.contains(&format!("▏{wide}")), "{text}");
        session.press(&[Action::Back]);
        assert!(session.text().contains(&format!("▏{wide}")), "{}", session.text());
        assert_eq!((pivot(&session), function(&session.app)), ("read".to_owned(), narrow.to_owned()));
        // The hidden box can be selected now, with the same pivot.
        session.press(&[Action::Enter, towards]);
        assert_eq!((pivot(&session), function(&session.app)), ("read".to_owned(), beyond.to_owned()));
        session.press(&[away]);
        assert_eq!(function(&session.app), narrow);
        session.press(&[Action::Enter]);
        assert_eq!(pivot(&session), narrow);
        assert!(session.app.views.callers.zooms.is_empty());
    }
}

#[test]
fn enter_puts_a_box_that_hides_nothing_into_the_middle_at_once() {
    for (towards, wide) in [(Action::Up, "main"), (Action::Down, "parse")] {
        let mut session = gifts();
        session.press(&[towards, Action::Enter]);
        assert_eq!(session.app.context.query.pivot.clone().unwrap().name(), wide);
    }
}
