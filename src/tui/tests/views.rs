//! All views except Flame: hostile names, actions in any order, and rows that are not on the screen.

use super::screen::{PLAIN, TestScreen};
use super::session::{SIZES, Session, theme};
use crate::report::tests::fixture::{Build, ingest};
use crate::report::tests::fixture_waits::waiting;
use crate::report::{Analysis, CommonOptions, Metric};
use crate::tui::app::action::{Action, Tab};
use crate::tui::views::source::tests::with_text;
use crate::tui::widgets::theme::ColorDepth;
use ratatui::layout::{Position, Size};

#[test]
fn hostile_names_reach_no_terminal() {
    use crate::profile::Reason;
    let mut build = Build::new();
    let wide = "漢".repeat(3_000);
    for (number, name) in ["\x1b[2J\u{202e}x", &wide, ""].into_iter().enumerate() {
        let task = build.task(1, 1 + number as u32, name, name);
        build.add(task, 3, &["/x:main", &format!("/{name}y:{name}z"), "/x:leaf"]);
        build.wait(task, Reason::Lock, 5_000_000, 9_000_000, &["/x:main", &format!("/x:{name}w")]);
    }
    let recording = build.finish();
    let mut session = Session::new(recording, Some(Metric::WALL), Tab::Top);
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

/// Of a value and its unit in a row, as of `0.003 s`, the unit.
fn units(row: &str) -> Vec<String> {
    let words: Vec<&str> = row.split_whitespace().collect();
    let is_number = |word: &str| word.trim_start_matches('<').parse::<f64>().is_ok();
    let pairs =
        words.windows(2).filter(|pair| is_number(pair[0]) && ["s", "ms", "us", "ns"].contains(&pair[1]));
    pairs.map(|pair| pair[1].to_owned()).collect()
}

/// Detail 6 of the promises: numbers have their error and one unit in a column, and estimates are marked.
#[test]
fn no_column_of_a_screen_mixes_units_and_only_nothing_is_zero() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 2_860, &["/x:main", "/x:busy"]);
    build.add(task, 10, &["/x:main", "/x:little"]);
    build.add(task, 3, &["/x:main", "/x:rare"]);
    let hot = with_text().changed(|recording| {
        let event = &mut recording.profile.events[0];
        let sample = event.sample(1);
        (0..3_000).for_each(|_| event.push(sample));
    });
    for (recording, tab, least) in [(build.finish(), Tab::Top, "0.003 s"), (hot, Tab::Source, "0.001 s")] {
        let mut session = Session::new(recording, None, tab);
        let lines = session.lines((120, 30), &theme(ColorDepth::None, false));
        let table = lines.iter().skip(3).take_while(|line| !line.starts_with('─'));
        let rows: Vec<&String> = table.filter(|line| line.contains('%')).collect();
        let units: Vec<String> = rows.iter().flat_map(|row| units(row)).collect();
        assert!(units.len() > 2 && units.iter().all(|unit| unit == "s"), "{tab:?}: {lines:#?}");
        assert!(rows.iter().any(|row| row.contains(least)), "{tab:?}: {lines:#?}");
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

/// Forty threads, each of a class of its own, with a stack of forty functions.
fn long() -> Analysis {
    let mut build = Build::new();
    let path: Vec<String> = (0..40).map(|depth| format!("/x:f{depth}")).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    for number in 0..40u8 {
        // Names that differ in numbers would be one class.
        let name = String::from_iter([b'a' + number / 26, b'a' + number % 26].map(char::from));
        let task = build.task(1, 1 + u32::from(number), &name, "long");
        build.add(task, 5, &path);
    }
    build.finish()
}

/// Text in the line below the view on rows that are not on a screen of this size.
fn hidden(session: &mut Session, size: (u16, u16)) -> String {
    let lines = session.lines(size, &theme(ColorDepth::True, false));
    let rule = lines.iter().find(|line| line.starts_with("──")).unwrap();
    rule.trim_matches('─').trim().to_owned()
}

#[test]
fn rows_that_are_not_on_the_screen_are_counted_in_every_table() {
    for (recording, tab, size, rows) in [
        (long(), Tab::Top, (80, 24), 23),
        (long(), Tab::Threads, (80, 24), 23),
        // A line is that of the CPUs.
        (long(), Tab::Time, (80, 24), 24),
        (with_text(), Tab::Source, (40, 10), 3),
    ] {
        let mut session = Session::new(recording, None, tab);
        assert_eq!(hidden(&mut session, size), format!("{rows} rows below"), "{tab:?}");
        session.press(&[Action::Last]);
        assert_eq!(hidden(&mut session, size), format!("{rows} rows above"), "{tab:?}");
        let at = Position::new(3, 3);
        session.press(&[Action::Scroll { at, rows: -1, columns: 0 }]);
        let both = format!("{} rows above, 1 below", rows - 1);
        assert_eq!(hidden(&mut session, size), both, "{tab:?}");
    }
    // All is on the screen.
    for tab in Tab::ALL {
        assert_eq!(hidden(&mut Session::new(ingest(), None, *tab), (120, 40)), "", "{tab:?}");
    }
}

#[test]
fn rows_of_callers_of_samples_and_of_a_stack_are_counted() {
    let size = (80, 24);
    let mut session = Session::new(long(), None, Tab::Callers);
    // The last function is in the middle, and all others are above it.
    assert_eq!(hidden(&mut session, size), "22 rows above");
    // Now rows next to the middle are not seen.
    session.press(&[Action::First]);
    assert_eq!(hidden(&mut session, size), "22 rows above");
    let picture = session.app.context.picture.clone().unwrap();
    let middle = picture.labels.iter().find(|label| label.name == "f20").unwrap().key();
    session.app.views.callers.set_pivot(&mut session.app.context, middle);
    session.picture();
    assert_eq!(hidden(&mut session, size), "12 rows above, 10 below");

    let mut session = Session::new(long(), None, Tab::Time);
    session.press(&[Action::HeatMap]);
    assert_eq!(hidden(&mut session, size), "");
    session.press(&[Action::Enter]);
    let listed = hidden(&mut session, size);
    assert!(listed.ends_with(" rows below"), "{listed}");
    session.press(&[Action::Enter]);
    assert_eq!(hidden(&mut session, size), "24 rows below");
    session.press(&[Action::Last]);
    assert_eq!(hidden(&mut session, size), "24 rows above");
}

#[test]
fn without_a_picture_the_screen_says_why_and_keys_are_answered() {
    let common = CommonOptions { metric: Some(Metric::OFF_CPU), ..CommonOptions::default() };
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
