//! The Threads view: on screens of several sizes, with the numbers of the report, and what keys do in it.

use crate::profile::Reason;
use crate::report::tests::fixture::{Build, ingest};
use crate::report::tests::fixture_waits::{MS, waiting};
use crate::report::{Analysis, Page, ReportOptions, ReportView, Seen, ThreadFilter, render};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::diff_base::DiffBase;
use crate::tui::app::search::Search;
use crate::tui::tests::session::{Session, theme};
use crate::tui::widgets::theme::ColorDepth;
use std::sync::Arc;

/// Cells of the row with this name, without the selection mark.
fn cells<'l>(lines: &'l [String], name: &str) -> Vec<&'l str> {
    let line = lines.iter().find(|line| line.contains(name));
    line.unwrap_or_else(|| panic!("{name} in {lines:#?}"))
        .trim_start_matches('>')
        .split_whitespace()
        .collect()
}

#[test]
fn threads_on_all_screens() {
    insta::assert_snapshot!(Session::new(waiting(), None, Tab::Threads).snapshot());
}

#[test]
fn threads_of_a_recording_without_waits_on_all_screens() {
    insta::assert_snapshot!(Session::new(ingest(), None, Tab::Threads).snapshot());
}

#[test]
fn threads_have_the_numbers_of_the_report() {
    let mut session = Session::new(waiting(), None, Tab::Threads);
    let shown = session.lines((99, 24), &theme(ColorDepth::True, false));
    let options = ReportOptions { view: ReportView::Threads, ..ReportOptions::default() };
    let report = render(&session.recording, &options, &Page::PLAIN).unwrap();
    let report: Vec<String> = report.lines().map(String::from).collect();
    for name in ["worker", "writer", "ingest"] {
        let rows: Vec<String> =
            report.iter().skip_while(|line| !line.starts_with("THREAD")).cloned().collect();
        let (mut found, expected) = (cells(&shown[2..], name), cells(&rows, name));
        found.retain(|cell| *cell != "×2");
        assert_eq!(found[..11.min(expected.len())], expected[..11.min(expected.len())]);
    }
}

#[test]
fn top_waits_have_the_unit_of_the_longest() {
    let mut build = Build::new();
    for (tid, name, wait_ms) in [(1, "patient", 2_000), (2, "hasty", 3)] {
        let task = build.task(1, tid, name, "p");
        build.add(task, 20, &["/x:main", "/x:work"]);
        build.wait(task, Reason::Disk, 0, wait_ms * MS, &["/x:main", "/x:fetch"]);
        build.thread_time(task, 20 * MS, 0, wait_ms * MS);
    }
    let mut session = Session::new(build.finish(), None, Tab::Threads);
    let lines = session.lines((120, 24), &theme(ColorDepth::True, false));
    for (name, wait) in [("patient", "disk fetch 2.00 s"), ("hasty", "disk fetch 0.003 s")] {
        let row = lines.iter().find(|line| line.contains(name));
        assert!(row.is_some_and(|row| row.ends_with(wait)), "{name}: {lines:#?}");
    }
}

/// A process with a long title of several threads, each of which has waited.
fn titled(title: &str) -> Analysis {
    let mut build = Build::new();
    for tid in [1_048_576, 1_048_577] {
        let task = build.task(7, tid, title, "server");
        build.add(task, 20, &["/x:main", "/x:work"]);
        build.wait(task, Reason::Disk, 0, 2_000 * MS, &["/x:main", "/x:fetch"]);
        build.thread_time(task, 20 * MS, 0, 2_000 * MS);
    }
    build.finish()
}

#[test]
fn of_a_long_name_the_id_stays_and_more_is_shown_where_there_is_room() {
    let title = "postgres: checkpointer of the main cluster";
    let mut session = Session::new(titled(title), None, Tab::Threads);
    session.press(&[Action::SplitThreads]);
    let plain = theme(ColorDepth::None, false);
    for columns in [80, 100, 120] {
        let lines = session.lines((columns, 24), &plain);
        for tid in ["1048576", "1048577"] {
            let row = lines[3..].iter().find(|line| line.contains(&format!("… {tid} ")));
            assert!(row.is_some_and(|row| row[2..].starts_with("postgres: chec")), "{tid}: {lines:#?}");
        }
    }
    let lines = session.lines((200, 24), &plain);
    assert!(lines.iter().any(|line| line.contains(&format!("{title} 1048576 "))), "{lines:#?}");
}

#[test]
fn the_longest_wait_is_narrow_before_it_is_dropped() {
    let plain = theme(ColorDepth::None, false);
    let mut session = Session::new(titled("worker-of-pool-"), None, Tab::Threads);
    let lines = session.lines((80, 24), &plain);
    let row = lines[3..].iter().find(|line| line.contains("worker-of-pool-")).unwrap();
    assert!(lines[2].ends_with("TOP WAIT") && row.ends_with("disk 4.00 s"), "{lines:#?}");
    // In a comparison it is more than the process.
    let base = Seen(Arc::new(titled("worker-of-pool-")));
    session.app.context.query.base = Some(DiffBase::Recording(base, "old.data".to_owned()));
    session.picture();
    let lines = session.lines((120, 24), &plain);
    assert!(lines[2].contains("95% CHANGE") && lines[2].contains("TOP WAIT"), "{lines:#?}");
}

#[test]
fn enter_on_a_thread_keeps_only_its_samples_until_it_is_undone() {
    let mut session = Session::new(waiting(), None, Tab::Threads);
    session.press(&[Action::Sort, Action::Sort, Action::Sort, Action::Sort, Action::Sort, Action::Sort]);
    let names = |session: &Session| -> Vec<String> {
        session.app.context.picture.as_ref().unwrap().threads.iter().map(|row| row.thread.clone()).collect()
    };
    assert_eq!(names(&session).len(), 3);
    // Sorted by name: ingest, worker, writer.
    session.press(&[Action::Down, Action::Enter]);
    assert_eq!(names(&session), ["worker"]);
    session.press(&[Action::SplitThreads]);
    let tids: Vec<_> =
        session.app.context.picture.as_ref().unwrap().threads.iter().map(|row| row.tid).collect();
    assert_eq!(tids, [Some(4313), Some(4314)]);
    session.press(&[Action::Undo]);
    assert_eq!(names(&session).len(), 4);
}

#[test]
fn threads_that_only_idle_are_listed_with_that_time() {
    let mut build = Build::new();
    let task = build.task(7, 7, "sleeper", "sleeper");
    build.wait(task, Reason::Sleep, 0, 10_000 * MS, &["/x:main", "/usr/lib/libc.so.6:nanosleep"]);
    build.thread_time(task, 0, 0, 10_000 * MS);
    let mut session = Session::new(build.finish(), None, Tab::Flame);
    assert!(session.text().contains("all waits are idle"), "{}", session.text());
    session.press(&[Action::Open(Tab::Threads)]);
    let lines = session.lines((80, 24), &theme(ColorDepth::True, false));
    assert_eq!(
        cells(&lines[2..], "sleeper")[..9],
        ["sleeper", "1", "0.00", "s", "0.00", "s", "0.00", "s", "10.00"]
    );
}

#[test]
fn only_this_means_threads_that_are_still_to_come() {
    let recording = |workers: u32| {
        let mut build = Build::new();
        for number in 0..workers {
            let task = build.task(1, 10 + number, "worker", "pool");
            build.add(task, 5, &["/x:main", "/x:work"]);
        }
        let other = build.task(2, 2, "worker", "other");
        build.add(other, 100, &["/x:main", "/x:work"]);
        let idle = build.task(1, 1, "main", "pool");
        build.add(idle, 1, &["/x:main"]);
        build.finish()
    };
    let mut session = Session::new(recording(2), None, Tab::Threads);
    session.press(&[Action::Down, Action::Enter]);
    let rows = |session: &Session| -> Vec<(String, u64)> {
        let rows = &session.app.context.picture.as_ref().unwrap().threads;
        rows.iter().map(|row| (row.process.clone(), row.threads)).collect()
    };
    assert_eq!(rows(&session), [("pool".to_owned(), 2)]);
    assert!(session.text().contains("1 filter"), "{}", session.text());
    session.recording = Arc::new(recording(5));
    session.picture();
    assert_eq!(rows(&session), [("pool".to_owned(), 5)]);
    // A filter by a row of one thread keeps that thread only.
    session.press(&[Action::SplitThreads, Action::Enter, Action::SplitThreads, Action::SplitThreads]);
    assert_eq!(rows(&session), [("pool".to_owned(), 1)]);
    // Filters that exclude each other keep nothing, rather than everything.
    session.app.context.query.common.filter.threads.push(ThreadFilter::Ids(vec![2]));
    session.picture();
    assert!(session.app.context.picture.as_ref().unwrap().total.is_empty());
}

#[test]
fn threads_can_be_searched() {
    let mut session = Session::new(waiting(), None, Tab::Threads);
    session.app.context.search = Some(Search::new("^w").unwrap());
    session.picture();
    let selected = |session: &mut Session| {
        let lines = session.lines((80, 24), &theme(ColorDepth::True, false));
        let line = lines.iter().find(|line| line.starts_with('>')).unwrap().clone();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let first = selected(&mut session);
    session.press(&[Action::NextMatch]);
    let second = selected(&mut session);
    session.press(&[Action::NextMatch]);
    let third = selected(&mut session);
    for name in [&second, &third] {
        assert!(name.starts_with('w'), "{first} {second} {third}");
    }
    assert_ne!(second, third);
    session.press(&[Action::PreviousMatch]);
    assert_eq!(selected(&mut session), second);
    // Both matches are marked, and the other row is not.
    let buffer = session.buffer((80, 24), &theme(ColorDepth::None, false));
    let area = session.app.context.areas().unwrap().body;
    let marked = (area.y + 1..area.y + 4)
        .filter(|y| buffer[(2, *y)].modifier.contains(ratatui::style::Modifier::UNDERLINED));
    assert_eq!(marked.count(), 2, "{}", session.text());
    session.press(&[Action::KeepMatches]);
    let names: Vec<&str> = {
        let picture = session.app.context.picture.as_ref().unwrap();
        picture.threads.iter().map(|row| row.thread.as_str()).collect()
    };
    assert!(names.len() == 2 && names.iter().all(|name| name.starts_with('w')), "{names:?}");
    session.app.context.search = Some(Search::new("nobody").unwrap());
    session.press(&[Action::NextMatch]);
    assert_eq!(session.app.context.toast.as_deref(), Some("no thread matches"));
}

#[test]
fn time_that_is_not_accounted_is_said_of_the_selected_row() {
    let says_so = |more_ns: u64| {
        let recording = waiting().changed(|recording| {
            recording.profile.end.as_mut().unwrap().duration_ns += more_ns;
            recording.profile.thread_times.iter_mut().for_each(|time| time.to_ns += more_ns);
        });
        let lines =
            Session::new(recording, None, Tab::Threads).lines((140, 30), &theme(ColorDepth::True, false));
        lines.join("\n").contains("not accounted ")
    };
    assert!(!says_so(0) && says_so(200 * MS));
}
