//! Lists that are chosen from by typing: actions, marked places, searches.

use super::list::{Chosen, rows};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::context::{ListOf, Prompt};
use crate::tui::app::key;
use crate::tui::tests::screen::{PLAIN, TestScreen, screen};
use crate::tui::tests::session::function;
use crate::tui::views::source::tests::with_text;
use crossterm::event::{KeyCode, KeyModifiers};

fn press(screen: &mut TestScreen, code: KeyCode) {
    screen.press(code, KeyModifiers::NONE);
}

#[test]
fn every_key_is_in_the_list_of_actions_with_its_words() {
    let screen = screen();
    let rows = rows(&screen.app.context, ListOf::Actions, "");
    // There are no locks.
    let locks = Action::Open(Tab::Locks);
    assert!(rows.iter().all(|row| row.choice != Chosen::Act(locks.clone())));
    let bindings = key::entries(&screen.app.context).flat_map(|entry| entry.bindings);
    for (chord, action) in bindings.filter(|(_, action)| *action != locks) {
        let row = rows.iter().find(|row| row.choice == Chosen::Act(action.clone()));
        let row = row.unwrap_or_else(|| panic!("{action:?} is not listed"));
        let text = key::chord_text(*chord);
        assert!(row.aside.split(' ').any(|key| key == text), "{text} is not in {row:?}");
    }
    let mut words: Vec<&str> = rows.iter().map(|row| &*row.words).collect();
    let count = words.len();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), count, "two actions have the same words");
}

#[test]
fn an_action_is_found_by_each_word_of_the_help_and_of_the_line_of_hints() {
    let mut screen = screen();
    let found = |screen: &TestScreen, typed: &str| -> Vec<Chosen> {
        rows(&screen.app.context, ListOf::Actions, typed).into_iter().map(|row| row.choice).collect()
    };
    for tab in Tab::ALL {
        screen.app.open(*tab);
        for entry in key::entries(&screen.app.context) {
            let texts = format!("{} {} {}", entry.group, entry.words, entry.hint);
            for word in
                texts.split(|c: char| !c.is_alphanumeric() && c != '-').filter(|word| !word.is_empty())
            {
                let rows = found(&screen, word);
                let is_there =
                    entry.bindings.iter().any(|(_, action)| rows.contains(&Chosen::Act(action.clone())));
                assert!(is_there, "`{word}` of {} finds {rows:?} in {tab:?}", entry.keys);
            }
        }
        // What the help explains besides keys, and what other tools call this.
        for word in ["legend", "colours", "marks", "mouse", "help"] {
            assert!(found(&screen, word).contains(&Chosen::Act(Action::Help)), "{word}");
        }
        assert!(found(&screen, "annotate").iter().any(|choice| match choice {
            Chosen::Act(action) => matches!(action, Action::Annotate | Action::Open(Tab::Source)),
            _ => false,
        }));
    }
    screen.app.open(Tab::Flame);
    assert_eq!(found(&screen, "foc")[0], Chosen::Act(Action::Focus));
}

#[test]
fn an_action_is_found_by_its_words_and_done() {
    let mut screen = screen();
    screen.keys(":view top");
    let text = screen.text(&PLAIN);
    assert!(text.contains("open the view Top") && text.contains(":view top_"), "{text}");
    press(&mut screen, KeyCode::Enter);
    assert!(screen.app.context.tab == Tab::Top && screen.app.context.prompt.is_none());
    // Tab completes, the arrows move, Esc does nothing.
    screen.keys(":inv");
    press(&mut screen, KeyCode::Tab);
    let typed = |screen: &TestScreen| match &screen.app.context.prompt {
        Some(Prompt::List { input, cursor, .. }) => (input.value().to_owned(), *cursor),
        other => panic!("no list: {other:?}"),
    };
    // Inverting is an action of Flame only: here the first that has these letters.
    assert!(!typed(&screen).0.is_empty());
    press(&mut screen, KeyCode::Esc);
    screen.keys(":open");
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Up);
    assert_eq!(typed(&screen), ("open".to_owned(), 1));
    press(&mut screen, KeyCode::Esc);
    assert!(screen.app.context.prompt.is_none() && screen.app.context.tab == Tab::Top);
    screen.keys(":no such action");
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.app.context.toast.as_deref(), Some("nothing in the list has these words"));
}

#[test]
fn a_marked_place_is_come_back_to_with_its_filters() {
    let mut screen = screen();
    screen.keys("'");
    let said = screen.app.context.toast.clone().unwrap();
    assert!(said.starts_with("no place is marked"), "{said}");
    screen.keys("jjjf");
    let (there, filter) = (function(&screen.app), screen.app.context.query.common.filter.clone());
    assert!(!filter.stacks.is_empty());
    screen.keys("\"");
    assert!(
        screen.text(&PLAIN).contains(&format!("name of this place: {there}_")),
        "{}",
        screen.text(&PLAIN)
    );
    screen.keys(" hot");
    press(&mut screen, KeyCode::Enter);
    screen.keys("U2");
    assert!(screen.app.context.query.common.filter.stacks.is_empty());
    screen.keys("'hot");
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.app.context.tab, Tab::Flame);
    assert_eq!((function(&screen.app), screen.app.context.query.common.filter.clone()), (there, filter));
    // It is undone like any filter.
    screen.keys("u");
    assert!(screen.app.context.query.common.filter.stacks.is_empty());
}

#[test]
fn a_place_in_the_source_is_come_back_to_with_its_line_its_code_and_the_way_there() {
    let mut screen = TestScreen::new(with_text(), 80, 24);
    let selected = |screen: &TestScreen| {
        let text = screen.text(&PLAIN);
        text.lines().find(|line| line.starts_with('>')).unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    // From a function to one that it calls, and back to its caller; there code is expanded and selected.
    screen.keys("6");
    let first = function(&screen.app);
    screen.keys("↓→");
    let second = function(&screen.app);
    assert_ne!(first, second);
    screen.keys("←\n↓");
    assert_eq!(function(&screen.app), first);
    let line = selected(&screen);
    assert!(line.contains("push"), "{line}");
    screen.keys("\"\n");
    // Elsewhere: another function, whose line is another, then another view.
    screen.keys("←");
    assert_ne!(function(&screen.app), first);
    screen.keys("1'\n");
    assert_eq!((screen.app.context.tab, function(&screen.app)), (Tab::Source, first.clone()));
    assert_eq!(selected(&screen), line);
    // The same from the view itself, where the function is the same and only the line is another.
    screen.keys("\x1b\x1b\n");
    assert_eq!(function(&screen.app), first);
    screen.keys("'\n");
    assert_eq!(selected(&screen), line);
    screen.keys("\x1b");
    assert_eq!(function(&screen.app), second);
    screen.keys("\x1b");
    assert_eq!(function(&screen.app), first);
}

#[test]
fn a_place_is_come_back_to_from_inverted_stacks() {
    let mut screen = screen();
    screen.keys("jjj");
    press(&mut screen, KeyCode::Enter);
    let (zoom, selected) = (screen.zoom(), screen.selected());
    assert!(!zoom.is_empty());
    screen.keys("\"");
    press(&mut screen, KeyCode::Enter);
    screen.keys("ijj'");
    press(&mut screen, KeyCode::Enter);
    assert_eq!((screen.zoom(), screen.selected()), (zoom, selected));
}

#[test]
fn earlier_searches_are_listed_and_come_back_with_the_arrows() {
    let mut screen = screen();
    for text in ["/main", "/decode"] {
        screen.keys(text);
        press(&mut screen, KeyCode::Enter);
        press(&mut screen, KeyCode::Esc);
    }
    assert!(screen.app.context.search.is_none());
    screen.keys("/");
    press(&mut screen, KeyCode::Up);
    press(&mut screen, KeyCode::Up);
    assert_eq!(screen.app.context.search.as_ref().unwrap().text, "main");
    press(&mut screen, KeyCode::Down);
    assert_eq!(screen.app.context.search.as_ref().unwrap().text, "decode");
    press(&mut screen, KeyCode::Esc);
    screen.keys("'");
    let text = screen.text(&PLAIN);
    assert!(text.contains("/decode") && text.contains("/main"), "{text}");
    screen.keys("main");
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.app.context.search.as_ref().unwrap().text, "main");
}
