//! A comparison on the screen: the numbers of `prof diff`, boxes, what is gone, ranges of one recording.

mod parts;

use super::screen::{PLAIN, TestScreen};
use super::session::{Session, theme};
use crate::diff::tests::fixture::{BASE, NEW, options, printed, recording, sums};
use crate::report::tests::fixture::{Build, ingest};
use crate::report::tests::fixture_waits::waiting;
use crate::report::{
    BoxOf, CommonOptions, LabelKey, Metric, NameStyle, Page, PathStep, Seen, StackFilter, ThreadFilter,
    TimeRange,
};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::diff_base::DiffBase;
use crate::tui::widgets::theme::ColorDepth;
use ratatui::style::Color;
use std::sync::Arc;

/// The new side, compared with the base.
fn compared(tab: Tab) -> Session {
    let mut session = Session::new(recording(NEW), None, tab);
    let base = Seen(Arc::new(recording(BASE)));
    session.app.context.query.base = Some(DiffBase::Recording(base, "/tmp/old.data".to_owned()));
    session.picture();
    session
}

#[test]
fn a_comparison_on_all_screens() {
    // Lines of source are compared where builds are known: that screen is among the parts. There are no locks.
    for tab in Tab::ALL.iter().copied().filter(|tab| ![Tab::Source, Tab::Locks].contains(tab)) {
        insta::assert_snapshot!(format!("comparison_{}", tab.name()), compared(tab).snapshot());
    }
}

/// Detail 23 of the promises: a comparison tells change from noise in every view, and can fail a build.
#[test]
fn the_table_of_a_comparison_is_that_of_prof_diff() {
    let page = Page { width: 139, cut_names: true, color: false, names: NameStyle::Short, is_ascii: false };
    let common = CommonOptions::default();
    let sides =
        [(BASE, "old"), (NEW, "new")].map(|(paths, file)| vec![sums(&recording(paths), file, &common, true)]);
    let diff = printed(sides, &options(), &page);
    let rows = |text: &str| -> Vec<Vec<String>> {
        let table = text.lines().skip_while(|line| !line.contains("BASE  ")).skip(1);
        let rows = table.take_while(|line| line.contains(" s ") || line.contains(" ms "));
        let words = |line: &str| line.trim_start_matches('>').split_whitespace().map(str::to_owned).collect();
        rows.map(words).collect()
    };
    let mut session = compared(Tab::Top);
    let shown = session.lines((120, 40), &theme(ColorDepth::True, false)).join("\n");
    let (diff, shown) = (rows(&diff), rows(&shown));
    assert!(diff.len() >= 5 && shown.len() == diff.len(), "{diff:#?}\n{shown:#?}");
    for (of_diff, of_screen) in diff.iter().zip(&shown) {
        // There the probability follows the interval.
        let numbers: Vec<&String> = of_diff.iter().take_while(|word| !word.starts_with(['.', '<'])).collect();
        assert!(of_screen.iter().zip(&numbers).all(|(a, b)| a == *b), "{of_diff:?}\n{of_screen:?}");
        assert!(of_screen.contains(of_diff.last().unwrap()), "{of_diff:?}\n{of_screen:?}");
    }
}

#[test]
fn the_help_of_a_comparison_says_what_its_colours_mean() {
    let mut session = compared(Tab::Flame);
    session.press(&[Action::Help]);
    let colours = theme(ColorDepth::True, false);
    let lines = session.lines((80, 24), &colours);
    let buffer = session.buffer((80, 24), &colours);
    for (words, background) in [
        ("twice or more", [0xb2, 0x18, 0x2b]),
        ("a fifth less", [0x67, 0xa9, 0xcf]),
        ("half or less", [0x21, 0x66, 0xac]),
        ("new match", [0x76, 0x2a, 0x83]),
    ] {
        let y = lines.iter().position(|line| line.contains(words)).unwrap_or_else(|| panic!("{lines:#?}"));
        let x = lines[y].split(words).next().unwrap().chars().count();
        let [r, g, b] = background;
        assert_eq!(buffer[(x as u16, y as u16)].bg, Color::Rgb(r, g, b), "{words}");
    }
    let text = lines.join("\n");
    assert!(text.contains("noise or small") && text.contains("+N% = change of the box"), "{text}");
    assert!(!text.contains("library") && !text.contains("JIT"), "{text}");
    session.press(&[Action::CloseOverlay, Action::Open(Tab::Top), Action::Help]);
    let text = session.text();
    assert!(text.contains("colours more less new noise or small match"), "{text}");
}

/// Costs of each box of the picture on both sides, by the name of its function, ms.
fn boxes(session: &Session) -> Vec<(String, [f64; 2])> {
    let picture = session.app.context.picture.as_ref().unwrap();
    let change = picture.change.as_ref().unwrap();
    let of = |(id, node): (_, &crate::report::Node)| {
        (picture.labels.get(node.label).name.clone(), change.of_node(id).unwrap().costs.map(|ns| ns / 1e6))
    };
    picture.tree.nodes().map(of).collect()
}

#[test]
fn each_box_has_the_costs_of_its_own_path_on_both_sides() {
    let mut session = compared(Tab::Flame);
    for threads in 0..3 {
        let boxes = boxes(&session);
        let cost = |name: &str| boxes.iter().find(|(found, _)| found == name).map(|(_, cost)| *cost);
        assert_eq!(cost("compress"), Some([2_000.0, 1_000.0]), "{threads}: {boxes:?}");
        assert_eq!(cost("parse"), Some([2_500.0, 2_800.0]));
        assert_eq!(cost("fast"), Some([0.0, 600.0]), "it is new");
        assert_eq!(cost("tidy"), None, "it is gone");
        session.press(&[Action::SplitThreads]);
    }
    session.press(&[Action::ShowBase]);
    let of_base = boxes(&session);
    assert!(of_base.contains(&("tidy".to_owned(), [500.0, 0.0])), "{of_base:?}");
    assert!(of_base.contains(&("compress".to_owned(), [2_000.0, 1_000.0])), "{of_base:?}");
    let wide = session.lines((120, 24), &theme(ColorDepth::True, false)).join("\n");
    assert!(wide.contains("tidy gone"), "{wide}");
    session.press(&[Action::ShowBase, Action::Invert]);
    let inverted = boxes(&session);
    assert!(inverted.contains(&("number".to_owned(), [1_000.0, 1_300.0])), "{inverted:?}");
}

#[test]
fn callers_of_a_function_have_their_costs_on_both_sides() {
    let mut session = compared(Tab::Top);
    let picture = session.app.context.picture.clone().unwrap();
    let label = picture.labels.ids().find(|id| picture.labels.get(*id).name == "number").unwrap();
    session.app.context.query.pivot = Some(picture.labels.get(label).key());
    session.picture();
    let picture = session.app.context.picture.clone().unwrap();
    let (pivot, change) = (picture.pivot.as_ref().unwrap(), picture.change.as_ref().unwrap());
    let costs = [
        change.of_caller(pivot.sandwich.callers.roots()[0]),
        change.of_callee(pivot.sandwich.callees.roots()[0]),
    ];
    assert_eq!(costs.map(|change| change.unwrap().costs.map(|ns| ns / 1e6)), [[1_000.0, 1_300.0]; 2]);
}

#[test]
fn what_is_gone_is_found_and_said() {
    let mut session = compared(Tab::Top);
    let row =
        |session: &mut Session| session.text().lines().find(|line| line.contains("tidy")).map(str::to_owned);
    assert!(row(&mut session).is_some_and(|row| row.contains("gone")), "{}", session.text());
    for _ in 0..8 {
        if session.text().lines().any(|line| line.starts_with('>') && line.contains("tidy")) {
            break;
        }
        session.press(&[Action::Down]);
    }
    let text = session.text();
    assert!(text.contains("gone: B shows the base") && text.contains("base 0.50 s, new -"), "{text}");
    session.press(&[Action::Enter]);
    assert_eq!(session.app.context.tab, Tab::Top, "it has no callers here");
    assert!(session.app.context.toast.as_ref().is_some_and(|toast| toast.contains("B shows that")));
}

#[test]
fn a_range_of_time_becomes_the_base_and_is_taken_off() {
    let mut screen = TestScreen::new(ingest(), 120, 30);
    screen.keys("4");
    screen.keys("b");
    assert!(screen.text(&PLAIN).contains("choose a range of time first"));
    let range = TimeRange { from_ns: None, to_ns: Some(screen.recording.profile.duration_ns() / 2) };
    screen.app.context.change_filter(|options| options.time = range);
    screen.compute();
    screen.keys("b");
    let text = screen.text(&PLAIN);
    assert!(text.contains("[base ") && text.contains("bbbb"), "{text}");
    let query = &screen.app.context.query;
    assert!(query.common.filter.time.is_everything() && query.base == Some(DiffBase::Range(range)));
    screen.keys("1");
    let change = screen.app.context.picture.clone().unwrap();
    let total = change.change.as_ref().unwrap().functions.total;
    // Divided by the length of each: the base is half as long.
    assert!(total.base > 0.0 && total.new > 0.0);
    screen.keys("B");
    assert!(screen.text(&PLAIN).contains("[shown: base "));
    screen.keys("B4b");
    assert_eq!(screen.app.context.query.base, None);
    assert!(screen.app.context.picture.as_ref().unwrap().change.is_none());
    screen.keys("B");
    assert!(screen.text(&PLAIN).contains("only in a comparison"));
}

/// A recording of two processes.
fn processes(first: u64, second: u64) -> crate::report::Analysis {
    let mut build = Build::new();
    for (pid, name, samples) in [(7, "first", first), (8, "second", second)] {
        for tid in [pid, pid + 10] {
            let task = build.task(pid, tid, "worker", name);
            build.add(task, samples, &["/bin/it:main"]);
        }
    }
    build.finish()
}

#[test]
fn rows_of_processes_and_threads_have_their_own_costs_on_both_sides() {
    let mut session = Session::new(processes(100, 400), None, Tab::Threads);
    let base = Seen(Arc::new(processes(300, 200)));
    session.app.context.query.base = Some(DiffBase::Recording(base, "old.data".to_owned()));
    session.picture();
    let costs = |session: &Session| -> Vec<(String, [f64; 2])> {
        let picture = session.app.context.picture.as_ref().unwrap();
        let change = picture.change.as_ref().unwrap();
        let of = |row: &crate::report::ThreadRow| {
            let difference = change.of_threads(row.into()).unwrap();
            (row.title().to_owned(), [difference.base, difference.new].map(|ns| (ns / 1e6).round()))
        };
        picture.threads.iter().map(of).collect()
    };
    let worker = |cost| ("worker".to_owned(), cost);
    assert_eq!(costs(&session), [worker([400.0, 800.0]), worker([600.0, 200.0])]);
    session.press(&[Action::SplitThreads, Action::SplitThreads]);
    let second = ("second".to_owned(), [400.0, 800.0]);
    assert_eq!(costs(&session), [second, ("first".to_owned(), [600.0, 200.0])]);
    // What limits the comparison is among the notes.
    let picture = session.app.context.picture.as_ref().unwrap();
    assert!(picture.notes.iter().any(|note| note.contains("within-run noise only")), "{:?}", picture.notes);
}

#[test]
fn a_metric_that_the_base_lacks_is_refused() {
    let mut session = Session::new(waiting(), Some(Metric::ON_CPU), Tab::Flame);
    let base = Seen(Arc::new(recording(BASE)));
    session.app.context.query.base = Some(DiffBase::Recording(base, "old.data".to_owned()));
    session.picture();
    session.app.context.query.common.metric = Some(Metric::OFF_CPU);
    let picture = crate::tui::compute::picture::Picture::new(&session.recording, &session.app.context.query);
    session.app.set_problem(&picture.unwrap_err());
    assert_eq!(session.app.context.query.common.metric, Some(Metric::ON_CPU), "the picture stays");
}

#[test]
fn a_recording_is_noise_against_itself() {
    let mut session = Session::new(waiting(), Some(Metric::WALL), Tab::Top);
    let base = Seen(Arc::clone(&session.recording));
    session.app.context.query.base = Some(DiffBase::Recording(base, "same.data".to_owned()));
    session.picture();
    let picture = session.app.context.picture.clone().unwrap();
    let change = picture.change.as_ref().unwrap();
    assert!(!change.rows.is_empty());
    assert!(
        change.functions.rows.iter().all(|row| !row.own.outcome.is_real() && !row.total.outcome.is_real())
    );
    for (id, node) in picture.tree.nodes() {
        let [base, new] = change.of_node(id).unwrap().costs;
        assert!(
            (base - new).abs() < 1e-6 && new > 0.0,
            "{}: {base} {new}",
            picture.labels.get(node.label).name
        );
    }
}

/// Total costs of the picture on both sides, ms.
fn totals(session: &Session) -> [f64; 2] {
    let picture = session.app.context.picture.as_ref().unwrap();
    let total = &picture.change.as_ref().unwrap().functions.total;
    [total.base, total.new].map(|ns| ns / 1e6)
}

#[test]
fn filters_mean_a_function_of_both_builds() {
    let function = |name: &str| LabelKey::function(name, "/new/ingest");
    let step = |name: &str| PathStep { label: function(name), is_inlined: false };
    for (filter, expected) in [
        (StackFilter::Focus(function("parse")), [2_500.0, 2_800.0]),
        (StackFilter::Drop(function("parse")), [2_520.0, 1_030.0]),
        (StackFilter::Under(vec![vec![step("main"), step("parse")]]), [2_500.0, 2_800.0]),
        (StackFilter::EndingIn(vec![vec![step("number"), step("parse")]]), [1_000.0, 1_300.0]),
        // Chosen while the base was shown.
        (StackFilter::Focus(LabelKey::function("tidy", "/old/ingest")), [500.0, 0.0]),
    ] {
        let mut session = compared(Tab::Flame);
        session.app.context.change_filter(|options| options.stacks.push(filter.clone()));
        session.picture();
        assert_eq!(totals(&session), expected, "{filter:?}");
        session.press(&[Action::ShowBase]);
        assert_eq!(totals(&session), expected, "{filter:?}");
        let shown = session.app.context.picture.as_ref().unwrap().total.weight as f64 / 1e6;
        assert_eq!(shown, expected[0], "{filter:?}");
    }
    let mut session = compared(Tab::Flame);
    let collapse = StackFilter::CollapseModule("/new/ingest".to_owned());
    session.app.context.change_filter(|options| options.stacks.push(collapse));
    session.picture();
    let boxes = boxes(&session);
    // The thread and the module.
    let folded: Vec<_> = boxes.iter().filter(|(name, _)| name == "ingest").map(|(_, costs)| *costs).collect();
    assert_eq!(folded, [[5_020.0, 3_830.0]; 2], "{boxes:?}");
}

#[test]
fn the_zoom_and_the_function_in_the_middle_are_found_on_the_other_side() {
    let mut session = compared(Tab::Flame);
    session.press(&[Action::Down, Action::Down, Action::Down, Action::Enter]);
    let zoomed = |session: &Session| {
        let picture = session.app.context.picture.as_ref().unwrap();
        match picture.find(&session.app.views.flame.zoom) {
            BoxOf::Node(id) => picture.labels.get(picture.tree.node(id).label).key(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(zoomed(&session), LabelKey::function("parse", "/new/ingest"));
    session.press(&[Action::ShowBase]);
    assert_eq!(zoomed(&session), LabelKey::function("parse", "/old/ingest"));
    session.press(&[Action::ShowBase]);
    assert_eq!(zoomed(&session), LabelKey::function("parse", "/new/ingest"));
    session.app.context.query.pivot = Some(LabelKey::function("parse", "/new/ingest"));
    session.press(&[Action::ShowBase]);
    let picture = session.app.context.picture.clone().unwrap();
    assert_eq!(picture.pivot.as_ref().unwrap().sandwich.total.weight, 2_500_000_000);
}

#[test]
fn functions_at_the_side_of_a_wide_screen_have_their_change() {
    let mut session = compared(Tab::Flame);
    session.press(&[Action::Down, Action::Down, Action::Down]);
    let theme = theme(ColorDepth::True, false);
    let lines = session.lines((200, 50), &theme);
    let side: Vec<String> = lines.iter().map(|line| line.chars().skip(135).collect()).collect();
    let row = |name: &str| side.iter().find(|line| line.split_whitespace().any(|word| word == name)).unwrap();
    assert!(row("ZSTD_insertBt1").contains("v   -80%"), "{side:#?}");
    assert!(row("fast").contains("^    new"), "{side:#?}");
    assert!(row("rare").contains("small"), "{side:#?}");
    // Callers have the change of all with them on the stack.
    let callers = side.iter().position(|line| line.starts_with("callers of ")).unwrap();
    assert!(side[callers + 1].contains("v   -24%") && side[callers + 1].contains("main"), "{side:#?}");
    let buffer = session.buffer((200, 50), &theme);
    let style = |row: &str| {
        let y = lines.iter().position(|line| line.contains(row)).unwrap();
        let before = lines[y].split_once(row).unwrap().0;
        buffer[(before.chars().count() as u16, y as u16)].fg
    };
    assert_eq!(style("v   -80%  ZSTD_insertBt1"), ratatui::style::Color::LightBlue);
    assert_eq!(style("^    new  fast"), ratatui::style::Color::Magenta);
}

#[test]
fn one_of_several_threads_of_a_name_is_not_compared() {
    let threads = |first: u64, second: u64, tids: [u32; 3]| {
        let mut build = Build::new();
        for (tid, name, samples) in
            [(tids[0], "worker", first), (tids[1], "worker", second), (tids[2], "main", 300)]
        {
            let task = build.task(7, tid, name, "pool");
            build.add(task, samples, &["/bin/it:work"]);
        }
        build.finish()
    };
    let mut session = Session::new(threads(100, 400, [8, 9, 7]), None, Tab::Threads);
    let base = Seen(Arc::new(threads(300, 200, [18, 19, 17])));
    session.app.context.query.base = Some(DiffBase::Recording(base, "old.data".to_owned()));
    session.picture();
    let compared_rows = |session: &Session| -> Vec<(String, bool)> {
        let picture = session.app.context.picture.as_ref().unwrap();
        let change = picture.change.as_ref().unwrap();
        picture
            .threads
            .iter()
            .map(|row| (row.thread.clone(), change.of_threads(row.into()).is_some()))
            .collect()
    };
    assert!(compared_rows(&session).iter().all(|(_, is_compared)| *is_compared), "together they are");
    session.press(&[Action::SplitThreads]);
    assert!(session.app.context.toast.as_ref().unwrap().contains("are not compared"));
    for (name, is_compared) in compared_rows(&session) {
        assert_eq!(is_compared, name == "main", "{name}");
    }
    let text = session.text();
    assert!(text.contains("not compared: several threads have its name"), "{text}");
    let picture = session.app.context.picture.clone().unwrap();
    let change = picture.change.as_ref().unwrap();
    for (id, _) in picture.tree.nodes() {
        let root = picture.tree.path(id).last().unwrap().label;
        let is_alone = picture.labels.get(root).name.starts_with("worker");
        assert_eq!(change.of_node(id).is_none(), is_alone);
    }
    session.app.context.change_filter(|options| options.threads.push(ThreadFilter::Ids(vec![8])));
    session.picture();
    let picture = session.app.context.picture.as_ref().unwrap();
    assert!(
        picture.notes.iter().any(|note| note.contains("keeps nothing of the other run")),
        "{:?}",
        picture.notes
    );
}
