//! What keys and the pointer do to the state, without a terminal.

use super::screen::{PLAIN, TestScreen, screen};
use crate::base::units::percent;
use crate::profile::{End, Integrity, Profile};
use crate::report::tests::fixture::{Build, ingest};
use crate::report::tests::fixture_waits::waiting;
use crate::report::{
    Analysis, CallTree, CommonOptions, Direction, FunctionTable, Input, Metric, Page, ReportOptions,
    ReportView, SortKey, Space, StackFilter, ThreadFilter, render,
};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::context::Prompt;
use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::Position;
use std::sync::Arc;

#[test]
fn every_number_is_that_of_the_report() {
    for (recording, metric) in
        [(ingest(), Metric::ON_CPU), (waiting(), Metric::OFF_CPU), (waiting(), Metric::WALL)]
    {
        let mut screen = TestScreen::new(recording, 100, 40);
        screen.act(&Action::Open(Tab::Flame));
        screen.app.context.ask(|query| query.common.metric = Some(metric));
        screen.compute();
        let picture = Arc::clone(screen.app.context.picture.as_ref().unwrap());
        let selection = screen.recording.select(&screen.app.context.query.common).unwrap();
        assert_eq!(picture.table, FunctionTable::new(&selection, SortKey::SelfWeight));
        assert_eq!((picture.total, picture.whole), (selection.total, selection.whole));
        assert_eq!(&picture.quality, &selection.quality);
        // The tree of the report, without the threads that are the roots here.
        let tree = CallTree::new(&selection, Direction::TopDown);
        assert_eq!(picture.tree.total(), tree.total());
        let own = |tree: &CallTree| tree.ends().iter().map(|(_, own)| own.weight).sum::<u64>();
        assert_eq!(own(&picture.tree), own(&tree));
    }
}

#[test]
fn the_lines_below_say_what_the_report_says() {
    let mut screen = screen();
    let options = ReportOptions { view: ReportView::Flat, rows: Some(0), ..ReportOptions::default() };
    let report = render(&ingest(), &options, &Page::PLAIN).unwrap();
    screen.keys("↓↓↓↓↓↓");
    let function = screen.selected().pop().unwrap();
    let text = screen.text(&PLAIN);
    let line = report.lines().find(|line| line.contains(&function)).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().take(3).collect();
    let [own, error, total] = numbers[..] else { panic!("{line}") };
    assert!(text.contains("in 1 place"), "{text}");
    assert!(text.contains(&format!("self {own} ±{error} ")), "{line}\n{text}");
    assert!(text.contains(&format!("total {total} ")), "{line}\n{text}");
}

#[test]
fn samples_waits_and_threads_are_counted_as_by_the_report() {
    for (metric, count) in [(Metric::OFF_CPU, "712 waits"), (Metric::ON_CPU, "4,140 samples")] {
        let common = CommonOptions { metric: Some(metric), ..CommonOptions::default() };
        let screen = TestScreen::with(waiting(), common.clone(), 100, 24);
        let options = ReportOptions { common, ..ReportOptions::default() };
        let report = render(&waiting(), &options, &Page::PLAIN).unwrap();
        assert!(report.contains(count), "{report}");
        let text = screen.text(&PLAIN);
        assert!(text.contains(&format!("all · {count} · ")), "{count}: {text}");
        assert!(text.contains("  4 threads  "), "{text}");
    }
    // Nothing is left, and a count of 0 threads would be noise.
    let mut screen = screen();
    screen.keys("dg↓↓d");
    assert!(!screen.text(&PLAIN).contains("0 threads"), "{}", screen.text(&PLAIN));
}

#[test]
fn a_file_without_its_samples_is_not_a_program_that_did_not_run() {
    let mut build = Build::new();
    build.task(1, 1, "t", "t");
    let whole = build.finish();
    let text = TestScreen::new(whole.clone(), 80, 24).text(&PLAIN);
    assert!(text.contains("the target ran for less than"), "{text}");
    // Nor is one that goes on, in whose first picture nothing has come yet.
    let mut profile = whole.profile.clone();
    profile.end = profile.end.map(|end| End { reason: End::STILL_RECORDING.to_owned(), ..end });
    let text = TestScreen::new(Analysis::new(profile, whole.integrity.clone()), 80, 24).text(&PLAIN);
    assert!(text.contains("there are no samples yet: the recording goes on"), "{text}");
    let integrity = Integrity { problem: Some("chunk 3 is cut".into()), ..Integrity::default() };
    let cut = Analysis::new(whole.profile.clone(), integrity.clone());
    let mut screen = TestScreen::new(cut, 80, 24);
    let text = screen.text(&PLAIN);
    assert!(!text.contains("did not run"), "{text}");
    assert!(text.contains("the readable part has no samples: the file is incomplete"), "{text}");
    assert!(text.contains("(chunk 3 is cut)"), "{text}");
    screen.keys("!");
    let note = "the file is incomplete (chunk 3 is cut): this shows what could be read";
    assert!(screen.text(&PLAIN).contains(note), "{}", screen.text(&PLAIN));
    assert_eq!(screen.recording.warning(&Input::Stdin), Some(note.replace("the file", "standard input")));
    // Without any event.
    let profile = Profile { events: Vec::new(), ..whole.profile.clone() };
    let failure = Analysis::new(profile, integrity).shown(None).unwrap_err();
    assert_eq!((failure.status, failure.message.contains("chunk 3 is cut")), (3, true));
}

#[test]
fn moving_goes_to_the_widest_below_and_back_up() {
    let mut screen = screen();
    screen.keys("↓↓↓");
    let down = screen.selected();
    assert_eq!(down.len(), 3);
    screen.keys("↑");
    assert_eq!(screen.selected(), down[..2]);
    screen.keys("jjG");
    let deepest = screen.selected();
    screen.keys("G");
    assert_eq!(screen.selected(), deepest);
    screen.keys("g");
    assert!(screen.app.views.flame.selected.is_all());
}

#[test]
fn zoom_goes_back_the_way_it_came_and_escape_never_quits() {
    let mut screen = screen();
    screen.keys("↓↓\n");
    let first = screen.zoom();
    screen.keys("↓\n");
    assert_eq!(screen.zoom().len(), 3);
    screen.keys("\x1b");
    assert_eq!(screen.zoom(), first);
    assert_eq!(screen.selected().len(), 3, "what was zoomed is selected");
    screen.keys("\x1b\x1b\x1b\x1b");
    assert!(screen.zoom().is_empty() && !screen.app.context.is_done);
    screen.keys("↓↓\n↓\n0");
    assert!(screen.zoom().is_empty());
}

/// Detail 16 of the promises: live boxes keep their places, and time can be frozen, cut and followed.
#[test]
fn a_new_picture_keeps_zoom_and_selection_by_name() {
    let recording = |first: u64| -> Analysis {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        build.add(task, first, &["/x:main", "/x:a", "/x:deep"]);
        build.add(task, 10, &["/x:main", "/x:b", "/x:deep"]);
        build.finish()
    };
    let mut screen = TestScreen::new(recording(20), 80, 24);
    screen.keys("↓↓\n↓↓");
    assert_eq!(screen.selected(), ["t", "main", "a", "deep"]);
    // The other branch is wider now.
    screen.recording = Arc::new(recording(3));
    screen.compute();
    assert_eq!(screen.selected(), ["t", "main", "a", "deep"]);
    assert_eq!(screen.zoom(), ["t", "main"]);
    assert!(screen.text(&PLAIN).contains("total 23.1%"), "{}", screen.text(&PLAIN));
}

#[test]
fn filters_are_taken_back_one_by_one_or_all() {
    let mut screen = screen();
    let whole = screen.app.context.picture.as_ref().unwrap().total;
    screen.keys("↓↓↓→d");
    let dropped = screen.app.context.picture.as_ref().unwrap().total;
    assert!(dropped.weight < whole.weight);
    screen.keys("g↓↓↓r");
    assert_eq!(screen.app.context.query.common.filter.stacks.len(), 2);
    screen.keys("u");
    assert!(matches!(screen.app.context.query.common.filter.stacks[..], [StackFilter::Drop(_)]));
    screen.keys("g↓↓↓fU");
    assert_eq!(screen.app.context.picture.as_ref().unwrap().total, whole);
    screen.keys("u");
    assert_eq!(screen.app.context.toast.as_deref(), Some("no filter to undo"));
    // Esc undoes filters, too, when there is nothing else to go back from.
    screen.keys("g↓↓↓f\x1b");
    assert!(screen.app.context.query.common.filter.stacks.is_empty());
}

#[test]
fn focus_on_a_thread_keeps_its_samples() {
    let mut screen = screen();
    screen.keys("↓f");
    let name = screen.selected().pop().unwrap();
    let only = ThreadFilter::named(format!("^{name}$"));
    assert_eq!(screen.app.context.query.common.filter.threads, [only]);
    let picture = screen.app.context.picture.as_ref().unwrap();
    assert_eq!(picture.tree.roots().len(), 1);
    screen.keys("uT↓f");
    let threads = &screen.app.context.query.common.filter.threads;
    assert!(matches!(&threads[..], [ThreadFilter::Ids(tids)] if tids.len() == 1), "{threads:?}");
}

#[test]
fn a_bad_search_keeps_the_last_good_one() {
    let mut screen = screen();
    screen.keys("/parse");
    let good = screen.app.context.search.as_ref().unwrap().functions;
    assert!(good > 0);
    screen.keys("(");
    let Some(Prompt::Search { problem: Some(problem), .. }) = &screen.app.context.prompt else { panic!() };
    assert_eq!(problem, "unclosed group");
    assert_eq!(screen.app.context.search.as_ref().unwrap().text, "parse");
    // Enter keeps a bad pattern in the prompt, so that it can be fixed.
    screen.keys("\n");
    assert!(screen.text(&PLAIN).contains("/parse(_   unclosed group"), "{}", screen.text(&PLAIN));
    screen.keys(")\n");
    assert!(screen.app.context.prompt.is_none());
    assert_eq!(screen.app.context.search.as_ref().unwrap().text, "parse()");
    screen.keys("\x1b");
    assert!(screen.app.context.search.is_none());
}

#[test]
fn keys_that_are_typed_into_a_search_do_nothing_else() {
    let mut screen = screen();
    screen.keys("/qi?m1");
    assert!(!screen.app.context.is_done && screen.app.context.overlay.is_none());
    assert_eq!(screen.app.context.search.as_ref().unwrap().text, "qi?m1");
    screen.press(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(screen.app.context.is_done);
}

#[test]
fn next_goes_round_all_matches() {
    let mut screen = screen();
    screen.keys("/parse\n");
    let first = screen.selected();
    assert!(first.last().unwrap().contains("parse"), "{first:?}");
    screen.keys("n");
    let second = screen.selected();
    screen.keys("N");
    assert_eq!(screen.selected(), first);
    assert_ne!(first, second);
    screen.keys("&");
    let picture = screen.app.context.picture.as_ref().unwrap();
    assert!(picture.total.weight < picture.whole.weight);
}

#[test]
fn the_metric_changes_only_to_one_that_the_recording_has() {
    let mut running = screen();
    running.act(&Action::NextMetric);
    assert_eq!(running.app.context.toast.as_deref(), Some("the recording has running time only"));
    let mut both = TestScreen::new(waiting(), 80, 24);
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(both.app.context.picture.as_ref().unwrap().event.metric);
        both.keys("m");
    }
    assert_eq!(seen, [Metric::ON_CPU, Metric::OFF_CPU, Metric::WALL, Metric::ON_CPU]);
}

#[test]
fn memory_is_what_is_live_until_another_part_of_it_is_asked_for() {
    let mut build = Build::new();
    let task = build.task(7, 7, "app", "app");
    for second in 0..10 {
        let time_ns = second * 1_000_000_000;
        build.block(task, time_ns, [100, 3_000], None, &["/app:main", "/app:keep"]);
        build.block(task, time_ns, [100, 500], Some(900_000_000), &["/app:main", "/app:use"]);
    }
    let mut memory = TestScreen::new(build.finish(), 80, 24);
    let mut seen = Vec::new();
    for _ in 0..5 {
        let picture = memory.app.context.picture.as_ref().unwrap();
        seen.push((picture.event.title.clone(), picture.total.weight));
        memory.keys("L");
    }
    let seen: Vec<(&str, u64)> = seen.iter().map(|(title, weight)| (title.as_str(), *weight)).collect();
    let live = ("heap, live at the end", 30_000);
    let peak = ("heap, live at its peak", 30_500);
    assert_eq!(seen, [live, peak, ("heap, allocated", 35_000), ("heap, not freed", 15_000), live]);
    let text = memory.text(&PLAIN);
    assert!(text.contains("heap, live at its peak"), "{text}");
    let mut running = screen();
    running.keys("L");
    let said = running.app.context.toast.clone().unwrap_or_default();
    assert!(said.contains("only of memory"), "{said}");
}

#[test]
fn kernel_and_inlined_frames_go_and_come_back() {
    let mut screen = screen();
    let nodes = |screen: &TestScreen| screen.app.context.picture.as_ref().unwrap().tree.nodes().len();
    let all = nodes(&screen);
    screen.keys("K");
    assert_eq!(screen.app.context.query.common.filter.space, Space::User);
    let without_kernel = nodes(&screen);
    screen.keys("I");
    assert!(nodes(&screen) < without_kernel && without_kernel < all);
    screen.keys("KI");
    assert_eq!(nodes(&screen), all);
}

/// Detail 20 of the promises: callers and callees, inverted stacks, and shares of the zoom.
#[test]
fn inverting_keeps_the_selected_function() {
    let mut screen = screen();
    screen.keys("G");
    let function = screen.selected().pop().unwrap();
    screen.keys("i");
    assert_eq!(screen.selected(), [function]);
}

#[test]
fn inverting_twice_leads_back_to_where_it_was() {
    let mut screen = screen();
    // A function that is not a leaf, in a zoom.
    screen.keys("↓↓\n↓");
    let (zoom, selected) = (screen.zoom(), screen.selected());
    assert!(selected.len() > 2 && !zoom.is_empty());
    screen.keys("i");
    assert_eq!(screen.selected().last(), selected.last(), "the function stays selected");
    screen.keys("i");
    assert_eq!((screen.zoom(), screen.selected()), (zoom, selected));
}

/// Detail 18 of the promises: the mouse works, and can be given back.
#[test]
fn the_pointer_selects_and_zooms() {
    let mut screen = screen();
    let body = screen.app.context.areas().unwrap().body;
    let at = Position::new(body.x + 1, body.y + 3);
    screen.act(&Action::Click(at));
    assert_eq!(screen.selected().len(), 3);
    screen.act(&Action::DoubleClick(at));
    assert_eq!(screen.zoom().len(), 3);
    // A click on the path leads back.
    screen.act(&Action::Click(Position::new(body.x + 1, body.y)));
    assert!(screen.zoom().is_empty());
    screen.act(&Action::Scroll { at, rows: 3, columns: 0 });
    screen.act(&Action::Scroll { at, rows: -100, columns: 0 });
    assert_eq!(screen.app.views.flame.scroll, 0);
    screen.act(&Action::Click(Position::new(500, 500)));
}

#[test]
fn escape_leaves_the_search_before_the_zoom() {
    let mut screen = screen();
    screen.keys("↓↓\n/parse\n");
    let zoom = screen.zoom();
    assert!(screen.text(&PLAIN).contains("Esc clear"), "{}", screen.text(&PLAIN));
    screen.keys("\x1b");
    assert!(screen.app.context.search.is_none());
    assert_eq!(screen.zoom(), zoom);
    screen.keys("\x1b");
    assert!(screen.zoom().is_empty());
    // The same for the pivot, for a time range and for the list of samples in Time.
    screen.keys("G3↑\n/parse\n");
    let pivot = screen.app.context.query.pivot.clone();
    screen.keys("\x1b");
    assert_eq!((screen.app.context.search.is_none(), &screen.app.context.query.pivot), (true, &pivot));
    screen.keys("\x1b");
    assert_ne!(screen.app.context.query.pivot, pivot);
    screen.keys("4→[/parse\n\x1b");
    assert!(
        screen.app.context.search.is_none() && screen.app.context.query.common.filter.time.from_ns.is_some()
    );
    screen.keys("\n/parse\n\x1b");
    assert!(screen.app.context.search.is_none() && screen.app.context.query.samples_at.is_some());
    screen.keys("\x1b\x1b");
    assert!(
        screen.app.context.query.samples_at.is_none()
            && screen.app.context.query.common.filter.time.is_everything()
    );
}

#[test]
fn a_searched_thread_is_kept_with_all_it_did() {
    let mut screen = TestScreen::new(waiting(), 80, 24);
    let weight = |screen: &TestScreen| screen.app.context.picture.as_ref().unwrap().total.weight;
    let whole = weight(&screen);
    screen.keys("/^writer$\n");
    assert!(screen.text(&PLAIN).contains("1 thread  "), "{}", screen.text(&PLAIN));
    let share = screen.app.context.search.as_ref().unwrap().share_percent;
    screen.keys("&");
    assert!(screen.app.context.picture.as_ref().unwrap().empty.is_none(), "{}", screen.text(&PLAIN));
    assert!((percent(weight(&screen), whole) - share).abs() < 0.01);
    let names: Vec<&str> = {
        let picture = screen.app.context.picture.as_ref().unwrap();
        picture.threads.iter().map(|row| row.thread.as_str()).collect()
    };
    assert_eq!(names, ["writer"]);
    // A search that matches threads and functions: what it counts is what is kept.
    screen.keys("u/writ\n");
    let search = screen.app.context.search.clone().unwrap();
    assert!(search.functions > 0 && search.share_percent > 0.0);
    screen.keys("&");
    assert!((percent(weight(&screen), whole) - search.share_percent).abs() < 0.01);
    // One thread of several with the same name, by its id.
    screen.keys("uT/4314\n&");
    let picture = screen.app.context.picture.as_ref().unwrap();
    assert_eq!(picture.threads.iter().map(|row| row.tid).collect::<Vec<_>>(), [Some(4314)]);
}
