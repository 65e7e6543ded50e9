//! Exports from the screen: files and copied text.

use super::screen::{TestScreen, screen};
use crate::report::tests::fixture::{Build, ingest};
use crate::report::tests::fixture_waits::waiting;
use crate::report::{BoxOf, ExportJob};
use crate::tui::app::action::Effect;
use std::sync::Arc;

#[test]
fn an_export_is_of_what_is_on_the_screen() {
    let folder = tempfile::tempdir().unwrap();
    let mut number = 0;
    let mut written = |screen: &mut TestScreen, key: &str| {
        screen.effects.clear();
        screen.keys(&format!("x{key}"));
        let Some(Effect::Export(job, seen, what)) = screen.effects.pop() else { panic!() };
        number += 1;
        let job = ExportJob { stem: folder.path().join(number.to_string()), ..*job };
        assert!(Arc::ptr_eq(&seen.0, &screen.app.context.picture.as_ref().unwrap().recording));
        let (path, _) = job.run(&seen.0).unwrap();
        (std::fs::read_to_string(path).unwrap(), what)
    };
    let sum = |folded: &str| -> u64 {
        folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    let zoomed = |screen: &TestScreen| {
        let picture = screen.app.context.picture.clone().unwrap();
        picture.find(&screen.app.flame.zoom).total(&picture.tree)
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
    assert!(what.starts_with("all functions, ") && what.ends_with(" s"), "{what}");
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
    assert!(matches!(picture.find(&screen.app.flame.zoom), BoxOf::Rest(ids) if ids.len() == 3));
    screen.keys("xf");
    let Some(Effect::Export(job, seen, what)) = screen.effects.pop() else { panic!() };
    assert!(what.starts_with("the zoom on 3 calls"), "{what}");
    let selection = seen.0.select(&job.common).unwrap();
    assert_eq!(selection.total.samples, 3);
}

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
    let folder = tempfile::tempdir().unwrap();
    let mut number = 0;
    let mut written = |screen: &mut TestScreen, keys: &str| {
        screen.effects.clear();
        screen.keys(keys);
        let Some(Effect::Export(job, seen, what)) = screen.effects.pop() else { panic!() };
        number += 1;
        let job = ExportJob { stem: folder.path().join(number.to_string()), ..*job };
        (std::fs::read_to_string(job.run(&seen.0).unwrap().0).unwrap(), what)
    };
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
