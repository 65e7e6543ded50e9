//! The Source view: on screens of several sizes, with the numbers of the report, and what keys do in it.

use crate::profile::code::source_text::SourceText;
use crate::report::{Analysis, annotated};
use crate::tui::app::action::{Action, Effect, Tab};
use crate::tui::tests::session::{Session, function, theme};
use crate::tui::widgets::theme::ColorDepth;
use std::path::PathBuf;

/// `work` of `/src/demo.c`, with the text of its lines.
pub(crate) fn with_text() -> Analysis {
    let text = (1..=14).map(|line| format!("\tline {line};")).collect::<Vec<_>>().join("\n");
    annotated().changed(|recording| {
        let file = recording.profile.tables.intern_string("/src/demo.c");
        recording.profile.sources.push(SourceText { file, first_line: 1, text });
    })
}

fn opened() -> Session {
    Session::new(with_text(), None, Tab::Source)
}

/// The lines on the screen that show a line of the source, without the mark of the selected one.
fn shown(session: &mut Session) -> Vec<String> {
    let text = session.text();
    let lines = text.lines().filter(|line| line.contains("line ") && line.ends_with(';'));
    lines.map(|line| line.trim_start_matches('>').trim().to_owned()).collect()
}

#[test]
fn source_on_all_screens() {
    let mut session = opened();
    session.press(&[Action::Enter]);
    insta::assert_snapshot!(session.snapshot());
}

#[test]
fn source_without_text_on_all_screens() {
    insta::assert_snapshot!(Session::new(annotated(), None, Tab::Source).snapshot());
}

#[test]
fn without_text_the_way_out_is_whole() {
    let mut session = Session::new(annotated(), None, Tab::Source);
    for (columns, path) in [(80, "/src/demo.c"), (72, "…/demo.c")] {
        let lines = session.lines((columns, 24), &theme(ColorDepth::None, false));
        let line = lines.iter().find(|line| line.contains("no text of ")).unwrap();
        let whole = format!(" no text of `{path}`: no such file; prof tui --source-dir DIR finds it");
        assert_eq!(*line, whole);
    }
}

#[test]
fn the_hottest_line_of_the_hottest_function_is_selected() {
    let mut session = opened();
    assert_eq!(function(&session.app), "work");
    let text = session.text();
    let selected = text.lines().find(|line| line.starts_with('>')).unwrap();
    assert!(selected.contains("line 10;"), "4 of its samples are in line 10: {text}");
    let costs: Vec<String> = shown(&mut session).into_iter().filter(|line| line.contains('%')).collect();
    // Of the 8 samples in its code 4 are at the push, 3 in what is inlined into line 12, and 1 after the call.
    assert!(costs.iter().any(|line| line.starts_with("50.0%") && line.ends_with("line 10;")), "{costs:?}");
    assert!(costs.iter().any(|line| line.starts_with("12.5%") && line.ends_with("line 13;")), "{costs:?}");
}

#[test]
fn enter_shows_the_instructions_of_a_line_and_hides_them() {
    let mut session = opened();
    assert!(!session.text().contains("push"));
    session.press(&[Action::Enter]);
    assert!(session.text().contains("+0x0  push"), "{}", session.text());
    // The line stays selected.
    assert!(session.text().lines().any(|line| line.starts_with('>') && line.contains("line 10;")));
    session.press(&[Action::Enter]);
    assert!(!session.text().contains("push"));
}

#[test]
fn arrows_follow_calls_and_back_returns() {
    let mut session = opened();
    // From line 10, which calls nothing, to line 11.
    session.press(&[Action::Right]);
    assert_eq!(session.app.context.toast.as_deref(), Some("nothing is called from this line"));
    session.press(&[Action::Down, Action::Right]);
    assert_eq!(function(&session.app), "helper", "{}", session.text());
    session.press(&[Action::Left]);
    assert_eq!(function(&session.app), "work");
    session.press(&[Action::Back, Action::Back]);
    assert_eq!(function(&session.app), "work");
    session.press(&[Action::Left]);
    assert_eq!(function(&session.app), "main");
}

#[test]
fn the_editor_is_asked_for_at_the_selected_line() {
    let mut session = opened();
    session.app.update(&Action::Down);
    session.app.update(&Action::OpenEditor);
    let wanted = Effect::OpenEditor(PathBuf::from("/src/demo.c"), 11);
    assert_eq!(session.app.take_effects(), [wanted]);
}

#[test]
fn source_is_found_in_a_folder_that_is_named_and_edited_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    let path = folder.path().join("src/demo.c");
    let text: String = (1..=14).map(|line| format!("in the folder {line};\n")).collect();
    std::fs::write(&path, text).unwrap();
    let mut session = Session::new(annotated(), None, Tab::Top);
    session.app.context.query.source_dirs = vec![folder.path().to_owned()];
    session.press(&[Action::Open(Tab::Source)]);
    assert!(session.text().contains("in the folder 10;"), "{}", session.text());
    session.app.update(&Action::OpenEditor);
    assert_eq!(session.app.take_effects(), [Effect::OpenEditor(path, 10)]);
}

#[test]
fn a_function_of_another_view_is_opened() {
    let mut session = Session::new(with_text(), None, Tab::Top);
    let name = function(&session.app);
    session.press(&[Action::Down]);
    let chosen = function(&session.app);
    assert_ne!(name, chosen);
    session.press(&[Action::Annotate]);
    assert_eq!((session.app.context.tab, function(&session.app)), (Tab::Source, chosen));
    // Its samples are not counted while another view is open.
    session.press(&[Action::Open(Tab::Flame)]);
    assert_eq!(session.app.context.query.source, None);
}

#[test]
fn a_search_finds_text_of_the_source() {
    let mut session = opened();
    session.press(&[Action::Search]);
    for c in "line 13".chars() {
        session.press(&[Action::Edit(tui_input::InputRequest::InsertChar(c))]);
    }
    session.press(&[Action::Accept]);
    let text = session.text();
    assert!(text.lines().any(|line| line.starts_with('>') && line.contains("line 13;")), "{text}");
}
