//! Exports from the screen: files and copied text.

use super::screen::{TestScreen, screen};
use crate::diff::tests::fixture::{BASE, NEW, options, printed, recording, sums};
use crate::diff::{DiffFormat, DiffOptions};
use crate::report::tests::fixture::{Build, ingest};
use crate::report::tests::fixture_waits::waiting;
use crate::report::{BoxOf, CommonOptions, Page, Seen, TimeRange};
use crate::tui::app::action::Effect;
use crate::tui::app::diff_base::DiffBase;
use crate::tui::compute::export::ExportOf;
use std::sync::Arc;

#[test]
fn an_export_is_of_what_is_on_the_screen() {
    let written = |screen: &mut TestScreen, key: &str| screen.exported(&format!("x{key}"));
    let sum = |folded: &str| -> u64 {
        folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    let zoomed = |screen: &TestScreen| {
        let picture = screen.app.context.picture.clone().unwrap();
        picture.find(&screen.app.views.flame.zoom).total(&picture.tree)
    };
    let mut screen = screen();
    let (all, what) = written(&mut screen, "f");
    assert_eq!((sum(&all), what.as_str()), (zoomed(&screen), "all stacks"));
    screen.keys("↓↓↓↓\n");
    let (part, what) = written(&mut screen, "f");
    assert_eq!(sum(&part), zoomed(&screen));
    assert!(sum(&part) < sum(&all));
    let name = screen.zoom().pop().unwrap();
    assert!(what.starts_with(&format!("the zoom on {name}, ")) && what.ends_with('%'), "{what}");
    assert!(part.lines().all(|line| line.contains(&name)), "{part}");
    // A box that several small ones share, then a thread.
    screen.keys("0g↓\n");
    let (thread, _) = written(&mut screen, "f");
    assert_eq!(sum(&thread), zoomed(&screen));
    screen.keys("0gT↓\n");
    let (thread, _) = written(&mut screen, "f");
    assert_eq!(sum(&thread), zoomed(&screen));
    screen.keys("TT0gi↓↓\n");
    let (turned, _) = written(&mut screen, "f");
    assert_eq!(sum(&turned), zoomed(&screen));
    let (text, _) = written(&mut screen, "t");
    assert!(text.contains("callees above callers") && text.contains("(only ending in "), "{text}");
    screen.keys("0g3");
    let pivot = screen.app.context.query.pivot.clone().unwrap().name().into_owned();
    let (text, what) = written(&mut screen, "t");
    assert!(text.contains("called by") && what == format!("callers and callees of {pivot}"), "{what} {text}");
    screen.keys("4");
    screen.keys("][");
    let (_, what) = written(&mut screen, "f");
    assert!(what.starts_with("all stacks, ") && what.ends_with(" s"), "{what}");
}

#[test]
fn a_file_is_said_to_be_what_it_is() {
    let mut screen = screen();
    for (view, rows) in [
        ("1", "all stacks"),
        ("2", "all functions"),
        ("4", "all functions"),
        ("5", "all threads"),
        ("6", "all functions"),
    ] {
        let (svg, what) = screen.exported(&format!("{view}xs"));
        assert!(svg.contains("<svg") && what == "flame graph of all stacks", "{view}: {what}");
        assert_eq!(screen.exported("xf").1, "all stacks", "{view}");
        assert_eq!(screen.exported("xh").1, "page of all stacks", "{view}");
        assert_eq!(screen.exported("xt").1, rows, "{view}");
    }
    screen.keys("2\n");
    let pivot = screen.app.context.query.pivot.clone().unwrap().name().into_owned();
    assert_eq!(screen.exported("xs").1, format!("flame graph of stacks with {pivot}"));
    assert_eq!(screen.exported("xt").1, format!("callers and callees of {pivot}"));
}

#[test]
fn boxes_that_share_one_are_exported_together() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 300, &["/x:main", "/x:big"]);
    for name in ["/x:a", "/x:b", "/x:c"] {
        build.add(task, 1, &["/x:main", name]);
    }
    let mut screen = TestScreen::new(build.finish(), 80, 24);
    screen.keys("↓↓↓→\n");
    let picture = screen.app.context.picture.clone().unwrap();
    assert!(matches!(picture.find(&screen.app.views.flame.zoom), BoxOf::Rest(ids) if ids.len() == 3));
    screen.keys("xf");
    let Some(Effect::Export(job, what)) = screen.effects.pop() else { panic!() };
    let ExportOf::Recording(job, seen) = job.of else { panic!() };
    assert!(what.starts_with("the zoom on 3 calls"), "{what}");
    let selection = seen.0.select(&job.common).unwrap();
    assert_eq!(selection.total.samples, 3);
}

/// Detail 19 of the promises: a name or a whole stack can be copied.
#[test]
fn names_and_stacks_are_copied_from_the_list_of_samples() {
    let mut screen = TestScreen::new(waiting(), 80, 24);
    screen.keys("m4y");
    assert!(screen.effects.is_empty());
    assert!(screen.app.context.toast.as_ref().unwrap().starts_with("Enter lists the samples"));
    screen.keys("\nyY");
    let [Effect::Copy(name), Effect::Copy(stack)] = &screen.effects[..] else {
        panic!("{:?}", screen.effects)
    };
    assert_eq!(stack.lines().next(), Some(name.as_str()));
    assert!(stack.lines().count() > 3, "{stack}");
    let whole = stack.clone();
    screen.effects.clear();
    // From the selected line of the stack on.
    screen.keys("\n↓↓yY");
    let [Effect::Copy(name), Effect::Copy(stack)] = &screen.effects[..] else {
        panic!("{:?}", screen.effects)
    };
    let rest: Vec<&str> = whole.lines().skip(2).collect();
    assert_eq!((rest[0], rest.join("\n")), (name.as_str(), stack.clone()));
}

/// Detail 19 of the promises: a name or a whole stack can be copied.
#[test]
fn names_and_stacks_are_copied_as_they_are_called() {
    let mut screen = screen();
    screen.keys("↓↓↓yY");
    let [Effect::Copy(name), Effect::Copy(stack)] = &screen.effects[..] else {
        panic!("{:?}", screen.effects)
    };
    let mut names = screen.selected();
    assert_eq!(Some(name), names.last());
    names.reverse();
    assert_eq!(stack.lines().collect::<Vec<_>>(), names);
}

#[test]
fn threads_that_are_apart_on_the_screen_are_apart_in_files() {
    let written = TestScreen::exported;
    // With waits and without: two tables.
    for recording in [waiting(), ingest()] {
        let mut screen = TestScreen::new(recording, 80, 24);
        let (together, _) = written(&mut screen, "xf");
        assert!(together.contains("worker;") && !together.contains("(tid "), "{together}");
        screen.keys("T");
        let (folded, what) = written(&mut screen, "xf");
        assert!(what.ends_with("each thread"), "{what}");
        for tid in ["4313", "4314"] {
            assert!(folded.contains(&format!("worker (tid {tid});")), "{folded}");
            let (svg, _) = written(&mut screen, "xs");
            assert!(svg.contains(&format!("worker (tid {tid}) (")), "{tid}");
            let (text, _) = written(&mut screen, "5xt");
            assert!(text.contains(&format!("worker {tid}")), "{text}");
            screen.keys("1");
        }
        screen.keys("TT");
        let (text, _) = written(&mut screen, "5xt");
        assert!(text.contains("worker  ") && !text.contains("4313"), "{text}");
    }
}

/// The new side on the screen, compared with the base.
fn compared() -> TestScreen {
    let mut screen = TestScreen::new(recording(NEW), 120, 30);
    let base = Seen(Arc::new(recording(BASE)));
    screen.app.context.query.base = Some(DiffBase::Recording(base, "/tmp/old.data".to_owned()));
    screen.compute();
    screen
}

#[test]
fn a_comparison_is_exported_as_prof_diff_writes_it() {
    let mut screen = compared();
    // All threads merged, as in `prof diff`.
    screen.keys("TT");
    let common = CommonOptions::default();
    let new = screen.app.context.query.common.input.words();
    let written = |format: DiffFormat, rows: Option<usize>| {
        let sides = [(BASE, "/tmp/old.data"), (NEW, new.as_str())]
            .map(|(paths, file)| vec![sums(&recording(paths), file, &common, true)]);
        printed(sides, &DiffOptions { format, rows, ..options() }, &Page::PLAIN)
    };
    let (svg, what) = screen.exported("xs");
    assert_eq!(svg, written(DiffFormat::Svg, None));
    assert_eq!(what, format!("flame graph of all stacks, threads merged, base old.data and new {new}"));
    screen.keys("2");
    let (text, what) = screen.exported("xt");
    assert_eq!(text, written(DiffFormat::Text, Some(0)));
    assert!(what.starts_with("all functions, ") && text.contains("HEAVIEST CHANGED PATHS"), "{what}");
    // With the base in front the sides stay what they are.
    screen.keys("B");
    assert_eq!(screen.exported("xt").0, text);
}

#[test]
fn files_of_a_comparison_have_the_zoom_and_the_filters_of_both_sides() {
    let mut screen = compared();
    screen.keys("↓↓↓\n");
    assert_eq!(screen.zoom(), ["ingest", "main", "parse"]);
    let (text, what) = screen.exported("xt");
    assert!(text.contains("base old.data 2.50 s") && text.contains("2.80 s"), "{text}");
    assert!(what.starts_with("the zoom on parse, 73") && what.contains("base old.data"), "{what}");
    let (svg, _) = screen.exported("xs");
    // Threads are in front, as on the screen.
    assert!(svg.contains("<title>ingest (2,8") && !svg.contains("<title>compress"), "{svg}");
    screen.keys("0g↓↓↓f");
    let (text, what) = screen.exported("xt");
    assert!(text.contains("base old.data 2.50 s") && text.contains("filter  (only with parse)"), "{text}");
    assert!(what.contains(", 1 filter, "), "{what}");
    screen.keys("U5");
    let (text, what) = screen.exported("xt");
    assert!(text.contains("THREAD (self)") && what.starts_with("all threads, "), "{what}: {text}");
}

#[test]
fn a_file_of_one_side_says_which() {
    let mut screen = compared();
    let sum = |folded: &str| -> u64 {
        folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    let (folded, what) = screen.exported("xf");
    assert_eq!(
        (sum(&folded), what.as_str()),
        (3_830_000_000, "all stacks, the new side alone: B shows the base")
    );
    screen.keys("B");
    let (folded, what) = screen.exported("xf");
    assert_eq!(
        (sum(&folded), what.as_str()),
        (5_020_000_000, "all stacks, the base alone: B shows the new side")
    );
    assert!(folded.contains("tidy"));
}

#[test]
fn ranges_of_a_recording_are_exported_as_the_sides_that_they_are() {
    let mut screen = TestScreen::new(ingest(), 120, 30);
    let half = screen.recording.profile.duration_ns() / 2;
    let base = TimeRange { from_ns: None, to_ns: Some(half) };
    screen.app.context.query.base = Some(DiffBase::Range(base));
    screen.app.context.query.common.filter.time = TimeRange { from_ns: Some(half), to_ns: None };
    screen.compute();
    let total = screen.app.context.picture.as_ref().unwrap().change.as_ref().unwrap().functions.total;
    let (text, what) = screen.exported("xt");
    let line = text.lines().next().unwrap();
    assert!(line.starts_with("diff   base 0.0") && line.contains("   new from "), "{line}");
    assert!(what.contains(", base 0.0") && !text.contains("filter"), "{what}: {text}");
    assert!(total.base > 0.0 && total.new > 0.0);
    screen.keys("B");
    let (folded, _) = screen.exported("xf");
    let weight = screen.app.context.picture.as_ref().unwrap().total.weight;
    let sum: u64 = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, weight, "only the base");
}
