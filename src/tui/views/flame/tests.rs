//! Golden screens of the Flame view.

use crate::report::tests::fixture::{Build, ingest};
use crate::report::tests::fixture_waits::waiting;
use crate::report::{Analysis, CommonOptions, Metric};
use crate::tui::app::action::{Action, Tab};
use crate::tui::tests::screen::{ASCII, COLORS, PLAIN, TestScreen};
use crate::tui::tests::session::{Session, function};
use crate::tui::widgets::theme::{ColorDepth, Theme};
use crossterm::event::{KeyCode, KeyModifiers};
use insta::assert_snapshot;
use ratatui::layout::Position;

fn screen(columns: u16, rows: u16) -> TestScreen {
    let mut screen = TestScreen::new(ingest(), columns, rows);
    // Something below the root is selected.
    screen.keys("↓↓");
    screen
}

#[test]
fn flame_at_80x24() {
    let screen = screen(80, 24);
    assert_snapshot!(screen.looks(&COLORS));
    assert_snapshot!("flame_at_80x24_without_colour", screen.looks(&PLAIN));
    assert_snapshot!("flame_at_80x24_in_ascii", screen.text(&ASCII));
}

#[test]
fn flame_at_120x40() {
    let screen = screen(120, 40);
    assert_snapshot!(screen.text(&COLORS));
    assert_snapshot!("flame_at_120x40_without_colour", screen.looks(&PLAIN));
    assert_snapshot!("flame_at_120x40_in_ascii", screen.text(&ASCII));
}

#[test]
fn a_wide_screen_has_functions_and_callers_at_its_side() {
    let mut screen = screen(170, 40);
    screen.keys("jjjjjj");
    insta::assert_snapshot!(screen.text(&PLAIN));
    // What is zoomed is what the list is of.
    screen.press(KeyCode::Enter, KeyModifiers::NONE);
    let text = screen.text(&PLAIN);
    assert!(text.contains("functions of the zoom by self time"), "{text}");
    // In the inverted tree callers are below, and the same.
    let callers = |text: &str| {
        let lines = text.lines().skip_while(|line| !line.contains("callers of"));
        lines.skip(1).filter_map(|line| line.get(line.len().saturating_sub(50)..)).map(str::to_owned).next()
    };
    let before = callers(&text);
    screen.keys("i");
    assert!(before.is_some() && callers(&screen.text(&PLAIN)) == before, "{}", screen.text(&PLAIN));
}

#[test]
fn flame_at_40x10() {
    let screen = screen(40, 10);
    assert_snapshot!(screen.text(&COLORS));
    assert_snapshot!("flame_at_40x10_without_colour", screen.looks(&PLAIN));
    assert_snapshot!("flame_at_40x10_in_ascii", screen.text(&ASCII));
}

/// Detail 24 of the promises: colours work on every terminal.
#[test]
fn flame_with_fewer_colours() {
    let screen = screen(60, 16);
    let with = |depth| screen.looks(&Theme { depth, ..COLORS });
    assert_snapshot!("flame_with_256_colours", with(ColorDepth::Indexed));
    assert_snapshot!("flame_with_16_colours", with(ColorDepth::Basic));
}

/// Detail 20 of the promises: callers and callees, inverted stacks, and shares of the zoom.
#[test]
fn flame_zoomed_with_its_path() {
    let mut screen = screen(80, 24);
    screen.keys("↓\n↓");
    assert_snapshot!(screen.text(&PLAIN));
}

#[test]
fn flame_inverted() {
    let mut screen = screen(80, 24);
    screen.keys("i↓");
    assert_snapshot!(screen.text(&PLAIN));
}

#[test]
fn flame_with_a_search() {
    let mut screen = screen(80, 24);
    screen.keys("/pars");
    assert_snapshot!(screen.looks(&PLAIN));
    screen.keys("(");
    assert_snapshot!("flame_with_a_bad_search", screen.text(&PLAIN));
}

#[test]
fn a_search_on_all_screens() {
    for (columns, rows) in [(120, 40), (80, 24), (40, 10)] {
        let mut screen = screen(columns, rows);
        screen.keys("/pars");
        for (name, text) in [("", screen.looks(&COLORS)), ("_in_ascii", screen.text(&ASCII))] {
            assert_snapshot!(format!("search_at_{columns}x{rows}{name}"), text);
        }
    }
}

#[test]
fn flame_of_waits() {
    let common = CommonOptions { metric: Some(Metric::WALL), ..CommonOptions::default() };
    let mut screen = TestScreen::with(waiting(), common, 80, 24);
    screen.keys("↓↓↓");
    assert_snapshot!(screen.looks(&COLORS));
}

#[test]
fn help_and_notes_lie_over_the_view() {
    let mut screen = screen(80, 24);
    screen.keys("?");
    assert_snapshot!("help_at_80x24", screen.text(&PLAIN));
    screen.keys("x!");
    assert_snapshot!("notes_at_80x24", screen.text(&ASCII));
}

#[test]
fn the_help_explains_colours_and_marks() {
    let mut screen = screen(80, 24);
    screen.keys("?");
    let text = screen.text(&PLAIN);
    for words in [
        "colours own library kernel JIT interpreted lock I/O no CPU wait thread match",
        "blank below a box = its own time   [k] = kernel   [i] = inlined",
        "… = cut, or calls too narrow to draw   ×N = N threads",
        "±N = 95% error, in points   in N places = N boxes in Flame",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(!text.contains("nothing but waits"), "{text}");
    let common = CommonOptions { metric: Some(Metric::WALL), ..CommonOptions::default() };
    let mut screen = TestScreen::with(waiting(), common, 80, 24);
    screen.keys("?");
    let text = screen.text(&PLAIN);
    assert!(text.contains("paler   own library kernel JIT interpreted lead to nothing but waits"), "{text}");
}

#[test]
fn what_is_longer_than_a_small_screen_can_be_moved() {
    let mut screen = screen(40, 10);
    screen.keys("?");
    assert_snapshot!("help_at_40x10", screen.text(&PLAIN));
    let first = screen.text(&PLAIN);
    screen.keys("jj");
    assert_ne!(screen.text(&PLAIN), first);
    screen.keys("G");
    assert_snapshot!("end_of_help_at_40x10", screen.text(&PLAIN));
    let last = screen.text(&PLAIN);
    screen.keys("jG");
    assert_eq!(screen.text(&PLAIN), last);
    screen.keys("g");
    assert_eq!(screen.text(&PLAIN), first);
    // Every word of the help can be read in the course of scrolling.
    let mut seen = screen.text(&PLAIN);
    for _ in 0..40 {
        screen.keys("j");
        seen.push_str(&screen.text(&PLAIN));
    }
    for word in [
        "collapse",
        "recursion",
        "free the mouse",
        "redraw",
        "library",
        "no CPU",
        "match",
        "= inlined",
        "places",
    ] {
        assert!(seen.contains(word), "{word} in {seen}");
    }
    screen.keys("x!");
    assert_snapshot!("notes_at_40x10", screen.text(&ASCII));
}

#[test]
fn help_that_is_wholly_on_the_screen_is_closed_by_any_key() {
    let mut screen = screen(80, 24);
    screen.keys("?j");
    assert!(screen.app.context.overlay.is_none());
}

#[test]
fn what_is_asked_and_told_is_whole_at_40_columns() {
    let mut screen = screen(40, 10);
    screen.keys("x");
    assert_snapshot!("export_prompt_at_40x10", screen.text(&PLAIN));
    screen.keys("\x1b/pars");
    assert_snapshot!("search_prompt_at_40x10", screen.text(&PLAIN));
    screen.keys("[");
    assert_snapshot!("bad_search_at_40x10", screen.text(&PLAIN));
    screen.keys("\x1bw");
    let text = screen.text(&PLAIN);
    assert!(text.contains(" w window: only in a live view (prof tui\n -p PID)\n"), "{text}");
}

#[test]
fn tabs_and_details_at_40_columns() {
    let mut screen = screen(40, 24);
    assert_snapshot!("flame_at_40x24", screen.text(&PLAIN));
    screen.keys("2");
    assert!(screen.text(&PLAIN).contains(" 1 [2 Top] 3  4  5"), "{}", screen.text(&PLAIN));
    let tabs = screen.app.context.areas().unwrap().tabs.unwrap();
    screen.act(&Action::Click(Position::new(tabs.x + 12, tabs.y)));
    assert_eq!(screen.app.context.tab, Tab::Callers);
}

#[test]
fn a_filter_that_leaves_nothing_says_how_to_go_back() {
    let mut screen = screen(80, 24);
    screen.keys("dg↓↓d");
    assert_snapshot!(screen.text(&PLAIN));
}

#[test]
fn a_screen_that_is_too_small_says_what_it_needs() {
    for (columns, rows) in [(39, 10), (40, 9), (10, 1), (1, 1), (0, 0)] {
        let text = screen(columns, rows).text(&COLORS);
        assert!("need 40x10".starts_with(text.trim()), "{text}");
    }
}

/// Hostile names: very long, and with characters that terminals interpret.
#[test]
fn hostile_names_stay_in_their_boxes() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t\x1b[2J\u{202e}", "t\n");
    let wide = format!("/x:{}", "漢字".repeat(5_000));
    build.add(task, 50, &["/x:\x1b]52;c;AAAA\x07", &wide, "/x:e\u{301}\u{301}\u{200d}👩\u{200d}👩"]);
    build.add(task, 7, &["/x:\u{9b}31m", "/x:\u{feff}\0"]);
    let recording = build.finish();
    let mut screen = TestScreen::new(recording, 81, 24);
    for keys in ["", "↓↓↓", "v", "v", "\n", "/漢", "\n", "?", "x", "i"] {
        screen.keys(keys);
        for theme in [&COLORS, &ASCII] {
            let text = screen.text(theme);
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
            assert!(text.lines().all(|line| crate::base::safe_text::width(line) <= 81), "{text}");
            if *theme == ASCII {
                assert!(text.is_ascii(), "{text}");
            }
        }
    }
}

/// Enough functions that none has a cell of its own.
fn many(functions: usize) -> TestScreen {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    for number in 0..functions {
        build.add(task, 1, &["/x:main", &format!("/x:f{number:03}")]);
    }
    TestScreen::new(build.finish(), 80, 24)
}

#[test]
fn what_shares_a_box_is_reached_by_zooming_again_and_again() {
    let mut screen = many(400);
    screen.keys("↓↓↓");
    assert!(screen.text(&PLAIN).contains("▏… 400 calls"), "{}", screen.text(&PLAIN));
    screen.keys("\n↓");
    assert_eq!(screen.app.views.flame.selected.rest.len(), 50, "{}", screen.text(&PLAIN));
    // Steps through the shared boxes one by one.
    screen.keys("→");
    assert_eq!(screen.app.views.flame.selected.rest[0].label.name(), "f050");
    screen.keys("\n↓\x1b");
    assert_eq!(screen.app.views.flame.selected.rest.len(), 50);
    screen.keys("\n↓→→");
    assert_eq!(screen.selected(), ["t", "main", "f052"]);
    assert!(screen.text(&PLAIN).contains("in 1 place"), "{}", screen.text(&PLAIN));
    screen.keys("\n");
    assert_eq!(screen.zoom(), ["t", "main", "f052"]);
}

#[test]
fn the_wheel_with_shift_moves_the_zoom_to_what_is_neighbour_it() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    for (name, samples) in [("/x:first", 30), ("/x:second", 20), ("/x:third", 10)] {
        build.add(task, samples, &["/x:main", name]);
    }
    let mut screen = TestScreen::new(build.finish(), 80, 24);
    let pan = |columns| Action::Scroll { at: Position::default(), rows: 0, columns };
    // Without a zoom, only the selection moves.
    screen.keys("↓↓↓");
    screen.act(&pan(3));
    assert_eq!((screen.selected().pop().as_deref(), screen.zoom().len()), (Some("second"), 0));
    screen.keys("\n");
    for (columns, name) in [(3, "third"), (-3, "second"), (-3, "first")] {
        screen.act(&pan(columns));
        assert_eq!(screen.zoom(), ["t", "main", name]);
        assert_eq!(screen.selected(), screen.zoom());
    }
    screen.act(&pan(-3));
    assert_eq!(screen.zoom(), ["t", "main", "first"]);
    assert_eq!(screen.app.context.toast.as_deref(), Some("nothing is next to the zoom"));
    screen.keys("\x1b");
    assert!(screen.zoom().is_empty());
}

#[test]
fn a_box_too_narrow_for_what_is_below_says_how_that_is_shown() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 1_000, &["/x:main", "/x:wide"]);
    build.add(task, 1, &["/x:main", "/x:narrow", "/x:below"]);
    let mut screen = TestScreen::new(build.finish(), 80, 24);
    screen.keys("↓↓↓→");
    assert_eq!(screen.selected(), ["t", "main", "narrow"]);
    screen.keys("↓");
    assert_eq!(screen.app.context.toast.as_deref(), Some("too narrow for what is below: Enter shows it"));
    screen.keys("\n↓");
    assert_eq!(screen.selected(), ["t", "main", "narrow", "below"]);
    screen.keys("↓");
    assert_eq!(screen.app.context.toast.as_deref(), Some("nothing is below this"));
}

/// Of a compiler 20 of 23 rows were one chain that every sample has.
#[test]
fn what_all_samples_have_in_common_is_one_row_until_it_is_opened() {
    let mut build = Build::new();
    let task = build.task(1, 1, "cc", "cc");
    let trunk: Vec<String> = (0..10).map(|depth| format!("/x:trunk{depth}")).collect();
    for (leaf, samples) in [("parse", 6), ("emit", 4)] {
        let mut path: Vec<&str> = trunk.iter().map(String::as_str).collect();
        let leaf = format!("/x:{leaf}");
        path.push(&leaf);
        build.add(task, samples, &path);
    }
    let mut session = Session::new(build.finish(), None, Tab::Flame);
    let text = session.text();
    assert!(text.contains("… 9 frames to trunk9  (t opens)"), "{text}");
    assert!(!text.contains("trunk8") && text.contains("▏parse"), "{text}");
    // From all over the thread and the trunk to what differs, and back.
    session.press(&[Action::Down, Action::Down]);
    assert_eq!(function(&session.app), "trunk9");
    session.press(&[Action::Down]);
    assert_eq!(function(&session.app), "parse");
    session.press(&[Action::Up, Action::Up, Action::Trunk]);
    let text = session.text();
    assert!(text.contains("▏trunk0") && text.contains("▏trunk8") && !text.contains("t opens"), "{text}");
    session.press(&[Action::Trunk]);
    assert!(session.text().contains("9 frames to trunk9"));
}

/// Three threads of two classes: all begin alike, and those of a class alike for longer.
fn two_classes() -> Analysis {
    let mut build = Build::new();
    for (tid, name, batch, leaves) in [
        (1, "indexer-0", "/x:run_batch", ["/x:parse", "/x:sort"]),
        (2, "indexer-1", "/x:run_batch", ["/x:parse", "/x:sort"]),
        (3, "writer", "/x:write_all", ["/x:pack", "/x:flush"]),
    ] {
        let task = build.task(1, tid, name, "demo");
        let start = ["/libc.so:clone3", "/libc.so:start_thread", "/x:worker_main", "/x:run_loop", batch];
        for leaf in leaves {
            build.add(task, 150, &[&start[..], &[leaf]].concat());
        }
    }
    build.finish()
}

#[test]
fn each_class_of_threads_in_front_has_a_trunk_of_its_own() {
    let mut screen = TestScreen::new(two_classes(), 80, 24);
    let shown = |screen: &TestScreen, words: &str| screen.text(&PLAIN).matches(words).count();
    let text = screen.text(&PLAIN);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[3].contains("▏indexer-# ×2") && lines[3].contains("▏writer"), "{text}");
    // Where there is no room for more, the key is left out.
    assert!(lines[4].starts_with("▏… 4 frames to run_batch  (t opens) "), "{text}");
    assert!(lines[4].ends_with("▏… 4 frames to write_all"), "{text}");
    for leaf in ["▏parse", "▏sort", "▏pack", "▏flush"] {
        assert!(lines[5].contains(leaf), "{leaf} in {text}");
    }
    assert!(lines[6].is_empty(), "{text}");
    // To what differs and back, and into a class.
    screen.keys("↓↓");
    assert_eq!(screen.selected().last().unwrap(), "run_batch");
    screen.keys("↓");
    assert_eq!(screen.selected().len(), 7);
    screen.keys("↑↑\n");
    assert_eq!(screen.zoom(), ["indexer-#"]);
    assert_eq!((shown(&screen, "4 frames to run_batch"), shown(&screen, "write_all")), (1, 0));
    screen.keys("↓\n");
    assert_eq!(screen.zoom().last().unwrap(), "run_batch");
    screen.keys("0t");
    for frame in ["▏clone3", "▏start_thread", "▏worker_main", "▏run_loop"] {
        assert_eq!(shown(&screen, frame), 2, "{frame} in {}", screen.text(&PLAIN));
    }
    assert_eq!(shown(&screen, " frames to "), 0);
    screen.keys("t");
    assert_eq!(shown(&screen, " frames to "), 2);
}

#[test]
fn each_thread_has_a_trunk_of_its_own_and_merged_threads_have_one() {
    let mut screen = TestScreen::new(two_classes(), 80, 24);
    screen.keys("T");
    let text = screen.text(&PLAIN);
    assert_eq!(text.matches("… 4 frames to ").count(), 3, "{text}");
    screen.keys("T");
    let text = screen.text(&PLAIN);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[3].starts_with("▏… 3 frames to run_loop  (t opens)"), "{text}");
    assert!(lines[4].contains("▏run_batch") && lines[4].contains("▏write_all"), "{text}");
    // Nothing is common to what ends in different functions.
    screen.keys("i");
    assert!(!screen.text(&PLAIN).contains(" frames to "), "{}", screen.text(&PLAIN));
    screen.keys("t");
    let said = screen.app.context.toast.clone().unwrap();
    assert!(said.starts_with("no long row of frames is common to all samples here"), "{said}");
    // What ends alike has its threads at the far end, where they stay.
    let mut build = Build::new();
    for (tid, name) in [(1, "first"), (2, "second")] {
        let task = build.task(1, tid, name, "demo");
        build.add(task, 100, &["/x:main", "/x:serve", "/x:read", "/x:decode"]);
    }
    let mut screen = TestScreen::new(build.finish(), 80, 24);
    let text = screen.text(&PLAIN);
    assert_eq!(text.matches("… 3 frames to decode").count(), 2, "{text}");
    screen.keys("i");
    let text = screen.text(&PLAIN);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[3].starts_with("▏… 3 frames to main  (t opens)"), "{text}");
    assert!(lines[4].contains("▏first") && lines[4].contains("▏second"), "{text}");
}

/// Start-up code at the right edge, of less than a column, kept eight rows of a database apart, and of a program in C all.
#[test]
fn what_nearly_all_samples_have_in_common_is_one_row_that_says_what_is_not_in_it() {
    let mut build = Build::new();
    let task = build.task(1, 1, "postgres", "postgres");
    let trunk = ["_start", "__libc_start_main_impl", "main", "ServerLoop", "BackendStartup", "PostgresMain"]
        .map(|name| format!("/x:{name}"));
    let from_start = |depth: usize, last: &'static str| -> Vec<&str> {
        trunk[..depth].iter().map(String::as_str).chain([last]).collect()
    };
    build.add(task, 600, &from_start(6, "/x:exec_simple_query"));
    build.add(task, 390, &from_start(6, "/x:ReadCommand"));
    // Two slivers, the second, on a wide screen by name, in front of what stays.
    build.add(task, 2, &["/ld.so:_dl_start", "/ld.so:_dl_relocate"]);
    build.add(task, 8, &from_start(3, "/x:AaStartup"));
    let mut screen = TestScreen::new(build.finish(), 80, 24);
    for columns in [80, 200, 80] {
        screen.app.context.size.width = columns;
        let text = screen.text(&PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        let folded = "▏… 5 frames to PostgresMain  1.0% not in it  (t opens)";
        assert!(lines[4].trim_start().starts_with(folded), "{text}");
        assert!(lines[5].contains("▏exec_simple_query") && lines[5].contains("▏ReadCommand"), "{text}");
        assert!(!text.contains("▏AaStartup") && !text.contains("▏_dl_start"), "{text}");
        screen.keys("s");
    }
    screen.keys("st");
    let text = screen.text(&PLAIN);
    assert!(text.contains("▏_start") && !text.contains("not in it"), "{text}");
    // The slivers can be selected then.
    screen.keys("↓↓→");
    assert_eq!(screen.selected().last().unwrap(), "_dl_start");
    // What would fill a column is none.
    let mut build = Build::new();
    let task = build.task(1, 1, "postgres", "postgres");
    build.add(task, 980, &from_start(6, "/x:exec_simple_query"));
    build.add(task, 20, &["/ld.so:_dl_start", "/ld.so:_dl_relocate"]);
    let text = TestScreen::new(build.finish(), 80, 24).text(&PLAIN);
    assert!(text.contains("▏_start") && !text.contains("not in it"), "{text}");
}

#[test]
fn rows_that_are_not_on_the_screen_are_counted() {
    let mut build = Build::new();
    let task = build.task(1, 1, "deep", "deep");
    // Each frame has samples of its own: no trunk.
    let path: Vec<String> = (0..30).map(|depth| format!("/x:f{depth}")).collect();
    for depth in 1..=path.len() {
        let path: Vec<&str> = path[..depth].iter().map(String::as_str).collect();
        build.add(task, 50, &path);
    }
    let mut session = Session::new(build.finish(), None, Tab::Flame);
    assert!(session.text().contains(" rows below "), "{}", session.text());
    session.press(&[Action::Last]);
    let text = session.text();
    assert!(text.contains(" rows above "), "{text}");
}
