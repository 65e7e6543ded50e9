//! Keys and the pointer: what each does in which state, and that every key gives feedback.

use super::screen::{PLAIN, TestScreen, screen};
use crate::report::tests::fixture::ingest;
use crate::report::tests::fixture_waits::waiting;
use crate::report::{Analysis, Seen};
use crate::tui::app::action::{Action, Effect, LiveCommand, Tab};
use crate::tui::app::context::{LiveState, Overlay};
use crate::tui::app::key;
use crate::tui::app::query::Window;
use crate::tui::terminal::translator::Translator;
use crate::tui::views::callers::tests::with_gifts;
use crate::tui::views::locks::tests::contended;
use crate::tui::views::source::tests::with_text;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Text of all that an action can change: the state and the side effects, but not the message.
fn trace(screen: &TestScreen) -> String {
    let app = &screen.app;
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        app.context.query,
        app.context.tab,
        app.context.overlay,
        app.context.prompt,
        app.context.search,
        app.context.names,
        app.views,
        app.context.has_mouse,
        (app.context.is_done, &app.context.live),
        screen.effects
    )
}

#[test]
fn keys_of_a_live_recording_work_only_while_it_lives() {
    let mut screen = screen();
    screen.keys(" w+-");
    assert_eq!(
        screen.app.context.toast.as_deref(),
        Some("+ - refresh: only in a live view (prof tui -p PID)")
    );
    screen.press(KeyCode::Char('s'), KeyModifiers::CONTROL);
    assert!(screen.effects.is_empty() && screen.app.context.live.is_none());
    screen.app.context.live = Some(LiveState::default());
    screen.keys(" w+");
    screen.press(KeyCode::Char('s'), KeyModifiers::CONTROL);
    screen.press(KeyCode::Char('r'), KeyModifiers::CONTROL);
    assert_eq!(
        screen.app.context.toast.as_deref(),
        Some("cleared; Space shows what is recorded from now on")
    );
    assert!(screen.app.context.live.as_ref().unwrap().is_frozen);
    let half = Duration::from_millis(500);
    let seen = Seen(screen.app.context.picture.as_ref().unwrap().recording.clone());
    let commands =
        [LiveCommand::Refresh(half), LiveCommand::Save(seen.clone()), LiveCommand::Clear].map(Effect::Live);
    assert_eq!(screen.effects.remove(0), Effect::Hold(seen));
    assert_eq!(screen.effects, commands);
    screen.app.context.live.as_mut().unwrap().ended = Some("it ended".into());
    screen.effects.clear();
    for key in [" ", "+", "-"] {
        screen.keys(key);
        let said = screen.app.context.toast.clone().unwrap();
        assert!(said.ends_with(": the recording has ended"), "{said}");
    }
    assert!(screen.effects.is_empty());
}

#[test]
fn the_refresh_has_two_ends_and_says_so() {
    let mut screen = screen();
    screen.app.context.live = Some(LiveState::default());
    screen.keys("++");
    assert_eq!(screen.app.context.toast.as_deref(), Some("a new picture every 0.25 s"));
    screen.effects.clear();
    screen.keys("+");
    assert_eq!(screen.app.context.toast.as_deref(), Some("a new picture every 0.25 s is the fastest"));
    screen.keys("-----");
    assert_eq!(screen.app.context.toast.as_deref(), Some("a new picture every 5.00 s is the slowest"));
}

#[test]
fn a_window_means_nothing_next_to_a_chosen_range() {
    let mut screen = screen();
    screen.app.context.live = Some(LiveState::default());
    screen.keys("w");
    assert_eq!(screen.app.context.toast.as_deref(), Some("window: last 60 s"));
    screen.app.context.query.common.filter.time.from_ns = Some(1);
    let before = screen.app.context.query.clone();
    screen.keys("w");
    assert_eq!(screen.app.context.query, before);
    assert!(screen.app.context.toast.as_ref().unwrap().contains("clear it with 0 in Time"));
}

#[test]
fn a_window_can_be_left_after_the_end() {
    let mut screen = screen();
    screen.app.context.live = Some(LiveState::default());
    screen.keys("w");
    screen.app.context.live.as_mut().unwrap().ended = Some("it ended".into());
    assert!(screen.text(&PLAIN).contains("window last 60 s"), "{}", screen.text(&PLAIN));
    screen.keys("w");
    assert_eq!(screen.app.context.query.window, Window::TenSeconds);
    screen.keys("w");
    assert_eq!(screen.app.context.query.window, Window::All);
    assert!(screen.text(&PLAIN).contains("window all"), "{}", screen.text(&PLAIN));
    screen.keys("?");
    assert!(screen.text(&PLAIN).contains("w window"), "{}", screen.text(&PLAIN));
}

/// A recording, and the keys that lead from its start to a state.
type Start = (fn() -> Analysis, &'static str);

#[test]
fn every_key_of_the_help_does_something_in_its_view() {
    // Something is selected and has neighbours; zoomed, searched and filtered.
    for tab in Tab::ALL {
        let usual: fn() -> Analysis = if *tab == Tab::Locks { contended } else { waiting };
        let starts = ["↓", "↓→", "↓↓↓↓", "↓\n↓↓", "/e\n", "↓↓↓f"].map(|keys| -> Start { (usual, keys) });
        let more: &[Start] = match tab {
            // The first and the last of two callees, and one that is zoomed.
            Tab::Callers => &[(with_gifts, "↑\n↓"), (with_gifts, "↑\n↓→"), (with_gifts, "↑\n↓→\n")],
            // A range; a search in the list of samples; a stack.
            Tab::Time => &[(waiting, "[→→]"), (waiting, "\n/e\n"), (waiting, "\n\n")],
            Tab::Source => {
                &[(with_text, ""), (with_text, "↓"), (with_text, "/line\n"), (with_text, "/work\nF")]
            }
            // A filter that leaves locks.
            Tab::Locks => &[(contended, "/e\n&")],
            Tab::Flame | Tab::Top | Tab::Threads => &[],
        };
        for is_live in [false, true] {
            let fresh = |recording: fn() -> Analysis, keys: &str| {
                let mut screen = TestScreen::new(recording(), 80, 24);
                screen.act(&Action::Open(*tab));
                screen.app.context.live = is_live.then(LiveState::default);
                screen.keys(keys);
                screen
            };
            let all = fresh(usual, "");
            let chords =
                key::entries(&all.app.context).flat_map(|entry| entry.bindings).map(|(chord, _)| *chord);
            let chords: Vec<key::Chord> = chords.collect();
            assert!(chords.len() > 30);
            for (code, held) in chords {
                let does_something = starts.iter().chain(more).any(|(recording, keys)| {
                    let mut screen = fresh(*recording, keys);
                    let before = trace(&screen);
                    let is_here = screen.app.context.tab == *tab;
                    screen.press(code, held);
                    is_here && trace(&screen) != before
                });
                // A message that says why not does not count; only the key of the open view has nothing to do.
                let is_open = code == KeyCode::Char(tab.digit());
                let is_refused = code == KeyCode::Char(Tab::Locks.digit()) && *tab != Tab::Locks;
                assert!(does_something || is_open || is_refused, "{code:?} in {tab:?}, live: {is_live}");
            }
        }
    }
}

#[test]
fn a_key_does_something_or_says_why_not() {
    let more = [KeyCode::Char('9'), KeyCode::F(9), KeyCode::Insert];
    let known = key::TABLE.iter().flat_map(|entry| entry.bindings).map(|(chord, _)| *chord);
    let chords: Vec<key::Chord> = known.chain(more.map(|code| (code, KeyModifiers::NONE))).collect();
    let ended = LiveState { ended: Some("it ended".into()), ..LiveState::default() };
    let frozen = LiveState { is_frozen: true, ..LiveState::default() };
    for (recording, live) in [
        (ingest(), None),
        (waiting(), Some(LiveState::default())),
        (waiting(), Some(frozen)),
        (waiting(), Some(ended)),
    ] {
        let recording = Arc::new(recording);
        for tab in Tab::ALL {
            // At the start, in the middle, at the end; in the list of samples and in a stack.
            for keys in ["", "↓", "↓↓\n", "↓\n\n", "/e\n", "↓↓↓f", "G", "GG"] {
                let mut start = TestScreen::new(Analysis::clone(&recording), 80, 24);
                start.act(&Action::Open(*tab));
                start.app.context.live = live.clone();
                start.keys(keys);
                start.app.context.toast = None;
                for (code, held) in &chords {
                    let mut screen = TestScreen {
                        app: start.app.clone(),
                        recording: Arc::clone(&start.recording),
                        effects: Vec::new(),
                    };
                    let before = trace(&screen);
                    screen.press(*code, *held);
                    let is_seen = screen.app.context.toast.is_some() || trace(&screen) != before;
                    assert!(is_seen, "{code:?} in {tab:?} after {keys:?}: no word");
                }
            }
        }
    }
}

#[test]
fn a_key_of_another_view_says_which() {
    let mut screen = screen();
    screen.keys("2i");
    assert_eq!(screen.app.context.toast.as_deref(), Some("i invert: only in 1 Flame"));
    screen.keys("5y");
    assert_eq!(
        screen.app.context.toast.as_deref(),
        Some("y name: only in 1 Flame, 2 Top, 3 Callers, 4 Time, 7 Locks")
    );
    screen.keys("B");
    let only = "B base or new side: only in a comparison (b, or prof tui BASE NEW)";
    assert_eq!(screen.app.context.toast.as_deref(), Some(only));
    screen.keys("7");
    let none = "no wait of the recording says for which lock it was";
    assert_eq!(screen.app.context.toast.as_deref(), Some(none));
    screen.keys("9");
    assert_eq!(screen.app.context.toast.as_deref(), Some("unbound key; ? lists the keys"));
    for (key, said) in [
        ("a", "a source: only in 1 Flame, 2 Top, 3 Callers"),
        ("e", "e edit: only in 6 Source"),
        ("b", "b range as base of a comparison: only in 4 Time"),
    ] {
        screen.keys(key);
        assert_eq!(screen.app.context.toast.as_deref(), Some(said));
    }
    screen.keys("1g\u{1b}");
    assert_eq!(screen.app.context.toast.as_deref(), Some("nothing to go back to; q quits"));
}

#[test]
fn the_help_shows_no_key_of_a_view_that_is_not_there() {
    let mut screen = screen();
    screen.keys("?");
    assert_eq!(screen.app.context.overlay, Some(Overlay::Help));
    let text = screen.text(&PLAIN);
    assert!(text.contains("f focus") && text.contains("i invert"), "{text}");
    assert!(!text.contains("freeze") && !text.contains("heat map") && !text.contains("metric"), "{text}");
    screen.keys("z");
    assert!(screen.app.context.overlay.is_none());
}

#[test]
fn a_late_answer_of_the_terminal_is_not_typed() {
    let screen = screen();
    let now = Instant::now();
    let mut translator = Translator::after_a_question(now);
    let mut send = |code, held| {
        let event = Event::Key(KeyEvent::new(code, held));
        translator.action(&screen.app.context, &event, now)
    };
    for end in [(KeyCode::Char('g'), KeyModifiers::CONTROL), (KeyCode::Char('\\'), KeyModifiers::ALT)] {
        assert_eq!(send(KeyCode::Char(']'), KeyModifiers::ALT), None);
        for c in "11;rgb:0000/qqqq/0000".chars() {
            assert_eq!(send(KeyCode::Char(c), KeyModifiers::NONE), None, "{c}");
        }
        assert_eq!(send(end.0, end.1), None);
        assert_eq!(send(KeyCode::Char('q'), KeyModifiers::NONE), Some(Action::Quit));
    }
}

/// A busy machine reads both at once, and then it looks like a key with Alt.
#[test]
fn a_key_right_after_escape_does_what_it_does_alone() {
    let screen = screen();
    let mut translator = Translator::default();
    let key = Event::Key(KeyEvent::new(KeyCode::Char('0'), KeyModifiers::ALT));
    assert_eq!(translator.action(&screen.app.context, &key, Instant::now()), Some(Action::Back));
    assert_eq!(translator.next_action(&screen.app.context), Some(Action::Whole));
    assert_eq!(translator.next_action(&screen.app.context), None);
}

#[test]
fn only_what_comes_at_once_after_a_question_is_an_answer() {
    let screen = screen();
    let asked = Instant::now();
    let bracket = (KeyCode::Char(']'), KeyModifiers::ALT);
    let send = |translator: &mut Translator, (code, held), after_ms| {
        let event = Event::Key(KeyEvent::new(code, held));
        translator.action(&screen.app.context, &event, asked + Duration::from_millis(after_ms))
    };
    let quit = (KeyCode::Char('q'), KeyModifiers::NONE);
    // No query, or one long ago: it is a key.
    for (mut translator, after_ms) in
        [(Translator::default(), 0), (Translator::after_a_question(asked), 60_000)]
    {
        assert_eq!(send(&mut translator, bracket, after_ms), Some(Action::Back));
        assert_eq!(send(&mut translator, quit, after_ms), Some(Action::Quit));
    }
    // A pause ends the answer.
    let mut translator = Translator::after_a_question(asked);
    assert_eq!(send(&mut translator, bracket, 500), None);
    assert_eq!(send(&mut translator, (KeyCode::Char('1'), KeyModifiers::NONE), 510), None);
    assert_eq!(send(&mut translator, quit, 700), Some(Action::Quit));
    // Quit and suspend are never part of an answer.
    for (key, action) in [('c', Action::Quit), ('z', Action::Suspend)] {
        let mut translator = Translator::after_a_question(asked);
        assert_eq!(send(&mut translator, bracket, 0), None);
        assert_eq!(send(&mut translator, (KeyCode::Char(key), KeyModifiers::CONTROL), 1), Some(action));
        assert_eq!(send(&mut translator, quit, 2), Some(Action::Quit));
    }
}

#[test]
fn two_clicks_at_one_place_are_one_double_click() {
    let screen = screen();
    let mut translator = Translator::default();
    let now = Instant::now();
    let mut click = |column, after_ms| {
        let kind = MouseEventKind::Down(MouseButton::Left);
        let event = Event::Mouse(MouseEvent { kind, column, row: 5, modifiers: KeyModifiers::NONE });
        translator.action(&screen.app.context, &event, now + Duration::from_millis(after_ms)).unwrap()
    };
    let at = Position::new(3, 5);
    assert_eq!(click(3, 0), Action::Click(at));
    assert_eq!(click(3, 200), Action::DoubleClick(at));
    assert_eq!(click(3, 300), Action::Click(at));
    assert_eq!(click(3, 900), Action::Click(at));
    assert_eq!(click(4, 950), Action::Click(Position::new(4, 5)));
}

#[test]
fn the_help_names_the_digits_of_all_views() {
    let digits: Vec<char> = Tab::ALL.iter().map(|tab| tab.digit()).collect();
    let opening = key::TABLE.iter().rfind(|entry| entry.keys.starts_with("Tab ")).unwrap();
    assert_eq!(opening.keys, format!("Tab {}-{}", digits[0], digits[digits.len() - 1]));
    assert!(digits.is_sorted());
}
