//! The Callers view on screens of several sizes, and what keys do in it.

use super::action::{Action, Tab};
use super::test_session::{Session, function, theme};
use super::theme::ColorDepth;
use crate::report::fixture::ingest;
use ratatui::layout::Position;

#[test]
fn callers_on_all_screens() {
    let mut session = Session::new(ingest(), None, Tab::Top);
    session.press(&[Action::Search, Action::Cancel]);
    session.app.update(&Action::Down);
    let picture = session.app.picture.clone().unwrap();
    let batch = picture.labels.iter().find(|label| label.name == "handle_batch").unwrap().key();
    super::callers_view::set_pivot(&mut session.app, batch);
    session.app.tab = Tab::Callers;
    session.picture();
    session.press(&[Action::Down]);
    insta::assert_snapshot!(session.snapshot());
}

#[test]
fn enter_walks_through_callers_and_esc_goes_back() {
    let mut session = Session::new(ingest(), None, Tab::Top);
    session.press(&[Action::Enter]);
    assert_eq!(session.app.tab, Tab::Callers);
    let middle = |session: &Session| session.app.query.pivot.clone().unwrap().name;
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
fn a_double_click_on_a_callee_puts_it_into_the_middle() {
    let mut session = Session::new(ingest(), None, Tab::Callers);
    let picture = session.app.picture.clone().unwrap();
    let batch = picture.labels.iter().find(|label| label.name == "handle_batch").unwrap().key();
    super::callers_view::set_pivot(&mut session.app, batch);
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
    assert_eq!(session.app.query.pivot.clone().unwrap().name, "compress");
}
