//! What is to be seen at the first look, one screen for each: a pool, time as states, an old picture, a trunk, filters. The
//! wide screen and the legend are among the screens of the flame graph.

use super::screen::{PLAIN, TestScreen};
use super::session::Session;
use super::threads::pool;
use crate::report::tests::fixture::{Build, ingest};
use crate::report::{CommonOptions, FilterOptions, Metric, ThreadFilter};
use crate::tui::app::action::Tab;
use crate::tui::app::context::LiveState;
use std::time::Duration;

#[test]
fn a_pool_is_one_box_for_all_its_threads() {
    insta::assert_snapshot!(Session::new(pool(200), None, Tab::Flame).text());
}

#[test]
fn time_is_a_stack_of_what_the_threads_of_a_pool_did() {
    insta::assert_snapshot!(Session::new(pool(8), Some(Metric::Wall), Tab::Time).text());
}

#[test]
fn a_picture_that_is_not_renewed_says_how_old_it_is() {
    let mut session = Session::new(ingest(), None, Tab::Flame);
    let length = session.app.context.picture.as_ref().unwrap().duration_ns;
    let mut live = LiveState::default();
    live.status.elapsed = Duration::from_nanos(length) + Duration::from_secs(7);
    session.app.context.live = Some(live);
    let text = session.text();
    insta::assert_snapshot!(text.lines().next().unwrap());
    assert!(text.contains("LIVE 7 s ago"), "{text}");
}

#[test]
fn a_trunk_is_one_row_and_what_differs_begins_below_it() {
    let mut build = Build::new();
    let task = build.task(1, 1, "clang", "clang");
    let trunk: Vec<String> = (0..17).map(|depth| format!("/usr/lib/libclang.so:step{depth}")).collect();
    let leaves = [("ParseAST", 6), ("EmitBackendOutput", 4)].map(|(name, n)| (format!("/x:{name}"), n));
    for (leaf, samples) in &leaves {
        let path: Vec<&str> = trunk.iter().chain([leaf]).map(String::as_str).collect();
        build.add(task, *samples, &path);
    }
    insta::assert_snapshot!(Session::new(build.finish(), None, Tab::Flame).text());
}

#[test]
fn filters_are_chips_below_the_view() {
    let filter = FilterOptions {
        focus: Some("main".into()),
        threads: vec![ThreadFilter::named("ingest")],
        ..FilterOptions::default()
    };
    let common = CommonOptions { filter, ..CommonOptions::default() };
    insta::assert_snapshot!(TestScreen::with(ingest(), common, 80, 24).text(&PLAIN));
}
