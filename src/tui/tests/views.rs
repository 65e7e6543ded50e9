//! All views except Flame: hostile names, and actions in any order.

use super::screen::{PLAIN, TestScreen};
use super::session::{SIZES, Session, theme};
use crate::report::tests::fixture::ingest;
use crate::report::tests::fixture_waits::waiting;
use crate::report::{CommonOptions, Metric};
use crate::tui::app::action::{Action, Tab};
use crate::tui::widgets::theme::ColorDepth;
use ratatui::layout::{Position, Size};

#[test]
fn hostile_names_reach_no_terminal() {
    use crate::profile::Reason;
    use crate::report::tests::fixture::Build;
    let mut build = Build::new();
    let wide = "漢".repeat(3_000);
    for (number, name) in ["\x1b[2J\u{202e}x", &wide, ""].into_iter().enumerate() {
        let task = build.task(1, 1 + number as u32, name, name);
        build.add(task, 3, &["/x:main", &format!("/{name}y:{name}z"), "/x:leaf"]);
        build.wait(task, Reason::Lock, 5_000_000, 9_000_000, &["/x:main", &format!("/x:{name}w")]);
    }
    let recording = build.finish();
    let mut session = Session::new(recording, Some(Metric::Wall), Tab::Top);
    for tab in [Tab::Top, Tab::Callers, Tab::Time, Tab::Threads] {
        for actions in [
            &[][..],
            &[Action::Down, Action::Names],
            &[Action::Enter],
            &[Action::Enter],
            &[Action::SplitThreads],
        ] {
            session.press(&[Action::Open(tab)]).press(actions);
            for size in SIZES {
                for is_ascii in [false, true] {
                    for line in session.lines(size, &theme(ColorDepth::True, is_ascii)) {
                        assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_action_is_harmless_in_every_view() {
    let at = Position::new(3, 3);
    let actions = [
        Action::Up,
        Action::Down,
        Action::Left,
        Action::Right,
        Action::PageUp,
        Action::PageDown,
        Action::HalfUp,
        Action::HalfDown,
        Action::First,
        Action::Last,
        Action::Enter,
        Action::Back,
        Action::Whole,
        Action::NextMatch,
        Action::PreviousMatch,
        Action::RangeStart,
        Action::RangeEnd,
        Action::HeatMap,
        Action::Sort,
        Action::ReverseSort,
        Action::Click(at),
        Action::DoubleClick(at),
        Action::Drag(at),
        Action::Release(at),
        Action::Scroll { at, rows: 3, columns: 0 },
        Action::Scroll { at, rows: -3, columns: 0 },
        Action::CopyStack,
        Action::SplitThreads,
        Action::NextMetric,
        Action::SearchSelected,
    ];
    for recording in [ingest(), waiting()] {
        let mut session = Session::new(recording, None, Tab::Top);
        for size in [(40, 10), (80, 24), (200, 11), (10_000, 12)] {
            for tab in [Tab::Callers, Tab::Time, Tab::Threads, Tab::Top] {
                session.app.context.size = Size::new(size.0, size.1);
                for action in &actions {
                    session.press(&[Action::Open(tab), action.clone()]);
                }
                if size.0 < 1_000 {
                    session.buffer(size, &theme(ColorDepth::True, false));
                }
            }
        }
    }
}

#[test]
fn without_a_picture_the_screen_says_why_and_keys_are_answered() {
    let common = CommonOptions { metric: Some(Metric::OffCpu), ..CommonOptions::default() };
    let mut screen = TestScreen::with(ingest(), common, 80, 24);
    assert!(screen.app.context.picture.is_none());
    let text = screen.text(&PLAIN);
    assert!(!text.contains("reading the profile"), "{text}");
    let body: String = text.lines().skip(1).take(20).collect::<Vec<_>>().join("\n");
    assert!(body.contains("the recording has no waits") && body.contains("-e cpu,off"), "{text}");
    // The next key has another message, but the reason stays on the screen.
    screen.keys("i");
    let text = screen.text(&PLAIN);
    assert!(text.contains("there is no picture yet") && text.contains("has no waits"), "{text}");
    screen.keys("?");
    assert!(screen.text(&PLAIN).contains("Help: Flame"), "{}", screen.text(&PLAIN));
    screen.keys("?5");
    let text = screen.text(&PLAIN);
    assert!(text.contains("q quit") && text.contains("? help"), "{text}");
    // The first picture takes its place.
    screen.app.context.query.common.metric = None;
    screen.compute();
    assert!(screen.app.context.problem.is_none() && !screen.text(&PLAIN).contains("no waits"));
}
