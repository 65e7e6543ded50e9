//! The Locks view: on screens of several sizes, with the numbers of the report, and what keys do in it.

use crate::profile::{
    FUTEX_LABEL, LOCK_LABEL, LOCK_OBJECT_LABEL, MEMORY_LABEL, Reason, TaskId, Waker, WakerKind,
};
use crate::report::tests::fixture::Build;
use crate::report::tests::fixture_waits::{MS, slices, stack, waiting};
use crate::report::{
    Analysis, ChargedTo, CommonOptions, Grouping, Metric, Page, ReportOptions, ReportView, render,
};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::search::Search;
use crate::tui::tests::session::{Session, theme};
use crate::tui::widgets::theme::ColorDepth;

const MUTEX: [&str; 2] = ["pthread_mutex_lock", "__lll_lock_wait"];

/// Waits of a thread for one lock: their number and their length.
fn waits(
    build: &mut Build,
    task: TaskId,
    labels: &[(&str, &str)],
    (own, libc): (&[&str], &[&str]),
    (count, length_ms): (u64, u64),
    waker: Waker,
) {
    build.label(labels);
    let path = stack(own, libc, &["futex_wait"]);
    for number in 0..count {
        let length_ns = length_ms * MS;
        let times = [number * 40 * MS, length_ns, length_ns];
        build.thinned_wait(task, Reason::Lock, times, &slices(&path), waker);
    }
    build.label(&[]);
}

/// Two workers that wait for two locks of their program, and one for a lock on the heap; one is idle on a condition variable.
pub(crate) fn contended() -> Analysis {
    let mut build = Build::new();
    let [first, second] = [11, 12].map(|tid| build.task(10, tid, "worker", "ingest"));
    let put = stack(&["worker_main", "pool_put"], &["pthread_mutex_unlock"], &[]);
    let put = build.stack(&slices(&put));
    let by = |task, stack| Waker { kind: WakerKind::Thread, task: Some(task), stack };
    let own = |lock, object| {
        [(FUTEX_LABEL, "wait"), (LOCK_LABEL, lock), (MEMORY_LABEL, "global"), (LOCK_OBJECT_LABEL, object)]
    };
    let heap = [(FUTEX_LABEL, "wait"), (LOCK_LABEL, "0x7f00c0de"), (MEMORY_LABEL, "heap")];
    for (task, other) in [(first, second), (second, first)] {
        build.add(task, 2_000, &["/usr/bin/ingest:worker_main", "/usr/bin/ingest:compress"]);
        let get: (&[&str], &[&str]) = (&["worker_main", "pool_get"], &MUTEX);
        let labels = own("0x55d04060", "/usr/bin/ingest+0x4060");
        waits(&mut build, task, &labels, get, (40, 8), by(other, put));
        let read: (&[&str], &[&str]) = (&["worker_main", "read_config"], &["pthread_rwlock_rdlock"]);
        let labels = own("0x55d04100", "/usr/bin/ingest+0x4100");
        waits(&mut build, task, &labels, read, (15, 2), by(other, put));
        build.thread_time(task, 2_000 * MS, 0, 8_000 * MS);
    }
    let log: (&[&str], &[&str]) = (&["worker_main", "log_line"], &MUTEX);
    waits(&mut build, first, &heap, log, (10, 3), by(second, None));
    let pop: (&[&str], &[&str]) = (&["worker_main", "queue_pop"], &["pthread_cond_wait"]);
    let queue = [(FUTEX_LABEL, "wait"), (LOCK_LABEL, "0x7f00c100"), (MEMORY_LABEL, "heap")];
    waits(&mut build, second, &queue, pop, (20, 12), by(first, put));
    build.finish()
}

fn session() -> Session {
    Session::new(contended(), Some(Metric::ON_CPU), Tab::Locks)
}

fn plain(session: &mut Session, columns: u16) -> Vec<String> {
    session.lines((columns, 24), &theme(ColorDepth::None, false))
}

#[test]
fn locks_on_all_screens() {
    insta::assert_snapshot!(session().snapshot());
}

#[test]
fn waiters_and_holders_on_a_wide_screen() {
    let mut session = session();
    let mut screens = String::new();
    for _ in 0..2 {
        session.press(&[Action::NextRows]);
        screens.push_str(&plain(&mut session, 120)[..8].join("\n"));
        screens.push_str("\n\n");
    }
    insta::assert_snapshot!(screens);
}

#[test]
fn rows_have_the_numbers_of_the_report() {
    let mut session = session();
    for by in [Grouping::Function, Grouping::Waiter, Grouping::Holder] {
        let common = CommonOptions { locks: Some(ChargedTo::Waiter), ..CommonOptions::default() };
        let (locks, common) = common.of_waits(contended()).unwrap();
        let options = ReportOptions { view: ReportView::Locks(by), common, ..ReportOptions::default() };
        let report = render(&locks, &options, &Page::PLAIN).unwrap();
        let table: Vec<&str> =
            report.lines().skip_while(|line| !line.trim_start().starts_with("WAIT ")).skip(1).collect();
        let lines = plain(&mut session, 200);
        let rows: Vec<Vec<&str>> =
            lines[3..].iter().map(|line| line.trim_start_matches('>').split_whitespace().collect()).collect();
        assert!(table.len() >= 2, "{report}");
        for line in table.iter().take_while(|line| !line.contains("...")) {
            // WAIT and its unit, COUNT, MEAN and its unit, P99 and its unit, as on the screen.
            let cells: Vec<&str> = line.split_whitespace().collect();
            let (wait, rest) = (&cells[..2], &cells[2..7]);
            let is_found = |row: &Vec<&str>| {
                row.windows(2).any(|pair| pair == wait) && row.windows(5).any(|five| five == rest)
            };
            assert!(rows.iter().any(is_found), "{by:?}: {line}\n{lines:#?}");
        }
        session.press(&[Action::NextRows]);
    }
}

#[test]
fn enter_shows_the_waits_for_one_lock_until_it_is_undone() {
    let mut session = session();
    session.press(&[Action::Enter]);
    assert_eq!(session.app.context.tab, Tab::Flame);
    let picture = session.app.context.picture.clone().unwrap();
    assert_eq!(picture.total.weight, 2 * 40 * 8 * MS, "waits for the lock of the program");
    assert!(session.text().contains("lock=^0x55d04060$"), "{}", session.text());
    session.press(&[Action::Undo, Action::Open(Tab::Locks)]);
    assert_eq!(session.app.context.picture.as_ref().unwrap().locks.as_ref().unwrap().rows.len(), 3);
    // A place that waited, too.
    session.press(&[Action::NextRows, Action::Down, Action::Enter]);
    let picture = session.app.context.picture.clone().unwrap();
    assert_eq!((session.app.context.tab, picture.total.weight), (Tab::Flame, 2 * 15 * 2 * MS));
    // Another label is not taken away.
    session.press(&[Action::Open(Tab::Locks), Action::Enter]);
    assert!(session.text().contains("take that off first"), "{}", session.text());
    // Of holders there are no stacks here.
    session.press(&[Action::Undo, Action::Open(Tab::Locks), Action::NextRows, Action::Enter]);
    assert_eq!(session.app.context.tab, Tab::Locks);
    assert!(session.text().contains("--locks --by holder"), "{}", session.text());
}

#[test]
fn rows_are_sorted_and_the_selected_one_is_kept() {
    let mut session = session();
    session.press(&[Action::Down]);
    let selected = |session: &mut Session| {
        let lines = plain(session, 120);
        lines.iter().find(|line| line.starts_with('>')).cloned().unwrap_or_default()
    };
    let before = selected(&mut session);
    assert!(before.contains("0x4100"), "{before}");
    session.picture();
    assert_eq!(selected(&mut session), before);
    session.press(&[Action::Sort, Action::Sort]);
    assert!(selected(&mut session).contains("ingest+0x4060"), "the largest mean");
    session.press(&[Action::ReverseSort]);
    assert!(selected(&mut session).contains("0x4100"), "the least mean");
    session.app.context.search = Some(Search::new("4060").unwrap());
    session.press(&[Action::NextMatch]);
    assert!(selected(&mut session).contains("0x4060"));
}

#[test]
fn there_is_no_such_view_where_no_wait_says_for_which_lock_it_was() {
    let mut session = Session::new(waiting(), None, Tab::Flame);
    assert!(!session.text().contains("7 Locks"), "{}", session.text());
    session.press(&[Action::Open(Tab::Locks)]);
    assert_eq!(session.app.context.tab, Tab::Flame);
    assert!(session.text().contains("no wait of the recording says for which lock it was"));
    // The next view after the last is the first.
    session.press(&[Action::Open(Tab::Source), Action::NextTab]);
    assert_eq!(session.app.context.tab, Tab::Flame);
    session.press(&[Action::PreviousTab]);
    assert_eq!(session.app.context.tab, Tab::Source);
    let mut locks = self::session();
    locks.press(&[Action::Open(Tab::Source), Action::NextTab]);
    assert_eq!(locks.app.context.tab, Tab::Locks);
}

#[test]
fn enter_keeps_to_the_process_and_leaves_sleeps_out() {
    let mut build = Build::new();
    let labels = [(FUTEX_LABEL, "wait"), (LOCK_LABEL, "0x55d04060"), (MEMORY_LABEL, "heap")];
    for (pid, length_ms) in [(10, 8), (20, 3)] {
        let [task, other] = [pid, pid + 1].map(|tid| build.task(pid, tid, "worker", "ingest"));
        let waker = Waker { kind: WakerKind::Thread, task: Some(other), stack: None };
        let get: (&[&str], &[&str]) = (&["worker_main", "pool_get"], &MUTEX);
        waits(&mut build, task, &labels, get, (10, length_ms), waker);
        build.label(&labels);
        let path = stack(&["worker_main", "pool_get"], &["pthread_mutex_timedlock"], &["futex_wait"]);
        for number in 0..20 {
            let times = [(number * 40 + 20) * MS, 10 * MS, 10 * MS];
            build.thinned_wait(task, Reason::Sleep, times, &slices(&path), Waker::default());
        }
        build.label(&[]);
        build.add(task, 2_000, &["/usr/bin/ingest:worker_main", "/usr/bin/ingest:compress"]);
        build.thread_time(task, 2_000 * MS, 0, 8_000 * MS);
    }
    let mut session = Session::new(build.finish(), Some(Metric::ON_CPU), Tab::Locks);
    let lines = plain(&mut session, 120);
    let rows: Vec<&String> = lines[3..5].iter().collect();
    assert!(rows[0].contains(" 10  ") && rows[1].contains(" 20  "), "{lines:#?}");
    // Rows of one name are told apart.
    session.press(&[Action::Down]);
    session.picture();
    assert!(plain(&mut session, 120)[4].starts_with('>'));
    session.press(&[Action::Enter]);
    let picture = session.app.context.picture.clone().unwrap();
    assert_eq!(picture.total.weight, 10 * 3 * MS, "{}", session.text());
}
