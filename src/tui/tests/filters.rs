//! Filters on the screen: each in words, each can be taken off; idle waits are a key away.

use super::screen::{PLAIN, TestScreen};
use crate::report::tests::fixture::ingest;
use crate::report::tests::fixture_waits::waiting;
use crate::report::{ChargedTo, CommonOptions, FilterOptions, Metric, Space, ThreadFilter};
use crate::tui::app::action::Action;
use crate::tui::views::locks::tests::contended;
use ratatui::layout::Position;

/// The line with the filters: its number and its text.
fn rule(screen: &TestScreen) -> (u16, String) {
    let text = screen.text(&PLAIN);
    let found = text.lines().enumerate().filter(|(_, line)| line.starts_with("──")).last();
    let (at, line) = found.expect("there is a line below the view");
    (at as u16, line.to_owned())
}

#[test]
fn filters_of_the_command_line_are_shown_and_can_be_taken_off() {
    let filter = FilterOptions {
        focus: Some("main".into()),
        threads: vec![ThreadFilter::named("ingest")],
        ..FilterOptions::default()
    };
    let common = CommonOptions { filter, ..CommonOptions::default() };
    let mut screen = TestScreen::with(ingest(), common, 80, 24);
    let (y, line) = rule(&screen);
    assert!(line.starts_with("──[focus main ×]─[thread ingest ×]──"), "{line}");

    screen.act(&Action::Click(Position::new(4, y)));
    assert!(rule(&screen).1.starts_with("──[thread ingest ×]──"), "{}", rule(&screen).1);
    screen.keys("u");
    assert!(rule(&screen).1.contains("[focus main ×]"), "what was taken off comes back");
    screen.keys("u");
    assert!(rule(&screen).1.starts_with("──[focus main ×]──"), "the last goes first: {}", rule(&screen).1);
    screen.keys("U");
    assert!(!rule(&screen).1.contains('['), "{}", rule(&screen).1);
    screen.keys("u");
    assert_eq!(screen.app.context.toast.as_deref(), Some("no filter to undo"));
}

#[test]
fn user_code_is_a_filter_like_others() {
    let user = FilterOptions { space: Space::User, ..FilterOptions::default() };
    let common = CommonOptions { filter: user, ..CommonOptions::default() };
    for undo in ["u", "U"] {
        let mut screen = TestScreen::with(ingest(), common.clone(), 80, 24);
        assert!(rule(&screen).1.starts_with("──[user ×]──"), "{}", rule(&screen).1);
        screen.keys(undo);
        assert!(!rule(&screen).1.contains('['), "{}", rule(&screen).1);
        // That of a key, too.
        screen.keys("K");
        assert!(rule(&screen).1.starts_with("──[user ×]──"), "{}", rule(&screen).1);
        screen.keys(undo);
        assert!(!rule(&screen).1.contains('['), "{}", rule(&screen).1);
    }
    // All are all.
    let mut screen = TestScreen::new(ingest(), 80, 24);
    screen.keys("↓↓↓↓fKU");
    assert!(!rule(&screen).1.contains('['), "{}", rule(&screen).1);
}

#[test]
fn what_keys_filter_is_in_words_on_the_screen() {
    let mut screen = TestScreen::new(ingest(), 80, 24);
    screen.keys("↓↓↓↓f");
    let function = screen.selected().pop().unwrap();
    assert!(rule(&screen).1.contains(&format!("[only with {function}")), "{}", rule(&screen).1);
    screen.keys("/read\nF");
    assert!(rule(&screen).1.contains("[only with a match of read ×]"), "{}", rule(&screen).1);
}

#[test]
fn filters_without_room_are_counted_and_named_on_a_click() {
    let filter = FilterOptions {
        focus: Some("main".into()),
        ignore: Some("a_function_that_nobody_has".into()),
        threads: vec![ThreadFilter::named("ingest")],
        ..FilterOptions::default()
    };
    let common = CommonOptions { filter, ..CommonOptions::default() };
    let mut screen = TestScreen::with(ingest(), common, 40, 24);
    let (y, line) = rule(&screen);
    assert!(line.starts_with("──[focus main ×]─[+2 more]──"), "{line}");
    screen.act(&Action::Click(Position::new(19, y)));
    let said = screen.app.context.toast.clone();
    assert_eq!(said.as_deref(), Some("ignore a_function_that_nobody_has; thread ingest"));
    screen.app.context.size.width = 120;
    assert!(!rule(&screen).1.contains("more"), "{}", rule(&screen).1);
}

/// Waits for locks alone were left without idle ones when the program began: a key that showed the rest would do nothing.
#[test]
fn idle_waits_that_were_left_out_from_the_start_are_not_promised() {
    let common = CommonOptions { locks: Some(ChargedTo::Waiter), ..CommonOptions::default() };
    let (locks, common) = common.of_waits(contended()).expect("it has waits for locks");
    assert!(common.idle_is_gone);
    let mut screen = TestScreen::with(locks, common, 120, 24);
    assert!(screen.text(&PLAIN).contains("without idle"), "{}", screen.text(&PLAIN));
    screen.keys("o");
    assert!(screen.app.context.toast.as_deref().is_some_and(|said| said.contains("prof tui --idle")));
    let with_idle = FilterOptions { idle: true, ..FilterOptions::default() };
    let all = CommonOptions { locks: Some(ChargedTo::Waiter), filter: with_idle, ..CommonOptions::default() };
    assert!(!all.of_waits(contended()).expect("it has waits for locks").1.idle_is_gone);
}

/// Detail 25 of the promises: idle time is hidden but counted, and widths are time.
#[test]
fn hidden_idle_time_is_said_and_a_key_shows_it() {
    let common = CommonOptions { metric: Some(Metric::OFF_CPU), ..CommonOptions::default() };
    let mut screen = TestScreen::with(waiting(), common, 120, 24);
    let shown = screen.app.context.picture.as_ref().unwrap().total.weight;
    assert!(screen.text(&PLAIN).contains(" hidden"), "{}", screen.text(&PLAIN));
    screen.keys("o");
    assert!(screen.text(&PLAIN).contains("with idle"), "{}", screen.text(&PLAIN));
    assert!(screen.app.context.picture.as_ref().unwrap().total.weight > shown);
    screen.keys("o");
    assert_eq!(screen.app.context.picture.as_ref().unwrap().total.weight, shown);
    let mut running = TestScreen::new(ingest(), 80, 24);
    running.keys("o");
    assert_eq!(running.app.context.toast.as_deref(), Some("the recording has no waits, idle or not"));
}

#[test]
fn a_filter_without_a_picture_can_be_taken_off() {
    let with = |focus: &str| {
        let filter = FilterOptions { focus: Some(focus.into()), ..FilterOptions::default() };
        TestScreen::with(ingest(), CommonOptions { filter, ..CommonOptions::default() }, 80, 24)
    };
    // It is no regular expression, so no picture was ever computed.
    let mut screen = with("[");
    assert!(screen.app.context.picture.is_none());
    let (y, line) = rule(&screen);
    assert!(line.starts_with("──[focus [ ×]──"), "{line}");
    screen.act(&Action::Click(Position::new(4, y)));
    assert!(screen.app.context.picture.is_some(), "{:?}", screen.app.context.toast);
    let mut screen = with("[");
    screen.keys("u");
    assert!(screen.app.context.picture.is_some(), "{:?}", screen.app.context.toast);
    let mut screen = with("[");
    screen.keys("f");
    assert_eq!(screen.app.context.toast.as_deref(), Some("there is no picture yet"));
}
