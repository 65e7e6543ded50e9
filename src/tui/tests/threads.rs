//! How threads are merged: by class, not at all, or all of a process, in every view, its filters and its files.

use super::screen::TestScreen;
use super::session::{Session, theme};
use crate::profile::{Integrity, Reason, demo_profile};
use crate::report::tests::fixture::Build;
use crate::report::tests::fixture_waits::MS;
use crate::report::{Analysis, CommonOptions, NodeId, ThreadSplit};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::search::Search;
use crate::tui::widgets::theme::ColorDepth;

/// A pool of `workers` in one process, kinds of threads of a runtime, and another process.
pub(super) fn pool(workers: u32) -> Analysis {
    let mut build = Build::new();
    for number in 0..workers {
        let task = build.task(1, 10 + number, &format!("worker-{number}"), "pool");
        build.add(task, 10, &["/x:main", "/x:work"]);
        build.wait(task, Reason::Lock, 500 * MS, 20 * MS, &["/x:main", "/x:pool_get"]);
    }
    let other = build.task(2, 2, "helper", "other");
    build.add(other, 5, &["/x:main", "/x:help"]);
    for (tid, name) in [(3, "C1 CompilerThre"), (4, "C2 CompilerThre")] {
        let task = build.task(1, tid, name, "pool");
        build.add(task, 2, &["/x:main", "/x:compile"]);
    }
    build.finish()
}

/// Names of the roots of the flame graph, sorted.
fn roots(session: &Session) -> Vec<String> {
    let picture = session.app.context.picture.as_ref().unwrap();
    let name = |id| picture.labels.get(picture.tree.node(id).label).name.clone();
    let mut names: Vec<String> = picture.tree.roots().iter().map(|id| name(*id)).collect();
    names.sort();
    names
}

/// Rows of the Threads view, sorted: name and number of threads.
fn rows(session: &Session) -> Vec<(String, u64)> {
    let picture = session.app.context.picture.as_ref().unwrap();
    let mut rows: Vec<_> = picture.threads.iter().map(|row| (row.title().to_owned(), row.threads)).collect();
    rows.sort();
    rows
}

fn line_of(session: &mut Session, name: &str) -> String {
    let lines = session.lines((120, 24), &theme(ColorDepth::True, false));
    lines.iter().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name} in {lines:#?}")).clone()
}

/// Detail 21 of the promises: a pool is one row, and one key shows each thread.
#[test]
fn threads_are_classes_then_each_then_merged_in_all_views() {
    let mut session = Session::new(pool(3), None, Tab::Flame);
    let classes = ["C1 CompilerThre", "C2 CompilerThre", "helper", "worker-#"];
    assert_eq!(roots(&session), classes);
    assert!(line_of(&mut session, "worker-#").contains("worker-# ×3"));
    assert_eq!(rows(&session).iter().map(|row| row.1).collect::<Vec<_>>(), [1, 1, 1, 3]);
    session.press(&[Action::Open(Tab::Time)]);
    assert!(line_of(&mut session, "worker-#").contains("worker-# ×3"));

    session.press(&[Action::Open(Tab::Flame), Action::SplitThreads]);
    let toast = session.app.context.toast.clone().unwrap();
    assert!(toast.starts_with("each thread separately"), "{toast}");
    assert_eq!(roots(&session).len(), 6);
    assert!(roots(&session).contains(&"worker-1 (tid 11)".to_owned()));
    line_of(&mut session, "each thread");
    assert_eq!(rows(&session).len(), 6);
    session.press(&[Action::Open(Tab::Time)]);
    line_of(&mut session, "worker-1 11");

    session.press(&[Action::Open(Tab::Flame), Action::SplitThreads]);
    assert_eq!(roots(&session), ["main"], "no threads stand in front");
    line_of(&mut session, "threads merged");
    assert_eq!(rows(&session), [("other".to_owned(), 1), ("pool".to_owned(), 5)]);
    session.press(&[Action::Open(Tab::Threads)]);
    assert!(line_of(&mut session, "PROCESS").trim_start().starts_with("PROCESS"));
    line_of(&mut session, "pool 1 ");
    session.press(&[Action::Open(Tab::Time)]);
    line_of(&mut session, "pool 1 ");

    session.press(&[Action::Open(Tab::Flame), Action::SplitThreads]);
    assert_eq!(roots(&session), classes);
}

#[test]
fn the_demonstration_has_one_flame_for_all_its_numbered_workers() {
    let integrity = Integrity { is_complete: true, ..Integrity::default() };
    let recording = Analysis::new(demo_profile::indexers(8), integrity);
    let mut session = Session::new(recording, None, Tab::Flame);
    assert_eq!(roots(&session), ["indexer-#", "ingest"]);
    let text = session.text();
    let classes = text.lines().nth(3).unwrap();
    assert!(classes.starts_with("▏indexer-# ×8 ") && classes.matches('▏').count() == 2, "{text}");
    let picture = session.app.context.picture.clone().unwrap();
    let samples = |name: &str| {
        let is_it = |id: &&NodeId| picture.labels.get(picture.tree.node(**id).label).name == name;
        let found = picture.tree.roots().iter().find(is_it).unwrap();
        picture.tree.node(*found).total.samples
    };
    assert_eq!((samples("indexer-#"), samples("ingest")), (1_900, 100));
    // They are apart only when that is asked for.
    session.press(&[Action::SplitThreads]);
    assert_eq!(roots(&session).len(), 9);
    session.press(&[Action::SplitThreads, Action::SplitThreads]);
    assert_eq!(session.text().lines().nth(3), Some(classes));
}

#[test]
fn the_command_line_says_how_they_begin() {
    for (split, first) in [
        (ThreadSplit::Each, "worker-0 (tid 10)"),
        (ThreadSplit::None, "main"),
        (ThreadSplit::Class, "worker-#"),
    ] {
        let common = CommonOptions { threads: Some(split), ..CommonOptions::default() };
        let screen = TestScreen::with(pool(2), common, 80, 24);
        let picture = screen.app.context.picture.clone().unwrap();
        let names: Vec<_> = picture
            .tree
            .roots()
            .iter()
            .map(|id| &*picture.labels.get(picture.tree.node(*id).label).name)
            .collect();
        assert!(names.contains(&first), "{split:?}: {names:?}");
    }
}

#[test]
fn what_is_kept_of_a_class_is_all_of_it_and_what_is_still_to_come() {
    // In the flame graph.
    let mut session = Session::new(pool(3), None, Tab::Flame);
    session.press(&[Action::Down, Action::Focus]);
    assert_eq!(roots(&session), ["worker-#"]);
    let kept = |session: &Session| session.app.context.picture.as_ref().unwrap().total.samples;
    assert_eq!(kept(&session), 30);
    session.recording = std::sync::Arc::new(pool(5));
    session.picture();
    assert_eq!(kept(&session), 50);
    assert!(session.text().contains("1 filter"), "{}", session.text());
    // In the table, by a class and by a process.
    let mut session = Session::new(pool(3), None, Tab::Threads);
    session.press(&[Action::First, Action::Enter]);
    assert_eq!(rows(&session), [("worker-#".to_owned(), 3)]);
    assert_eq!(session.app.context.toast.as_deref(), Some("only worker-#; u undoes that"));
    session.press(&[Action::Undo, Action::SplitThreads, Action::SplitThreads, Action::First, Action::Enter]);
    assert_eq!(session.app.context.toast.as_deref(), Some("only pool 1; u undoes that"));
    assert_eq!(rows(&session), [("pool".to_owned(), 5)]);
    // By a search: what matches is what is kept.
    for (pattern, presses, expected) in
        [("worker-#", 0, 30), (r"^worker-1 \(tid 11\)$", 1, 10), ("^other$", 2, 5)]
    {
        let mut session = Session::new(pool(3), None, Tab::Threads);
        (0..presses).for_each(|_| {
            session.press(&[Action::SplitThreads]);
        });
        session.app.context.search = Some(Search::new(pattern).unwrap());
        session.picture();
        session.press(&[Action::KeepMatches]);
        assert_eq!(kept(&session), expected, "{pattern}");
    }
}

/// Detail 21 of the promises: a pool is one row, and one key shows each thread.
#[test]
fn files_have_threads_as_the_screen_has_them() {
    let mut screen = TestScreen::new(pool(3), 80, 24);
    let (classes, what) = screen.exported("xf");
    assert!(classes.contains("worker-#;main;work ") && what == "all stacks", "{what}: {classes}");
    screen.keys("T");
    let (each, what) = screen.exported("xf");
    assert!(
        each.contains("worker-2 (tid 12);main;work ") && what.ends_with(", each thread"),
        "{what}: {each}"
    );
    screen.keys("T");
    let (merged, what) = screen.exported("xf");
    assert!(merged.starts_with("main;") && what.ends_with(", threads merged"), "{what}: {merged}");
    // The zoom on a class includes all of its threads.
    screen.keys("T0g↓\n");
    let (zoomed, _) = screen.exported("xf");
    assert_eq!(zoomed.lines().count(), 1, "{zoomed}");
    assert!(zoomed.starts_with("worker-#;main;work "), "{zoomed}");
}
