//! What was selected before its name was known, in the first picture that has the name.

use super::screen::TestScreen;
use crate::report::tests::fixture::Build;
use crate::report::{Analysis, BoxOf, LabelKey, PathStep, StackFilter, ThreadFilter};
use crate::tui::app::action::{Action, Effect, Tab};
use crate::tui::compute::picture::{Picture, Side};
use ratatui::layout::Size;
use std::sync::Arc;

/// Function names in the library, by address; the first has a function inlined in it.
const NAMES: [(&str, &str); 4] = [
    ("/l.so:+0x10", "call⇒hidden"),
    ("/l.so:+0x99", "small"),
    ("/l.so:+0x20", "leaf"),
    ("/l.so:+0x30", "above"),
];

/// The same program before and after the names of its library are known. The frames have different ids then.
fn recording(has_names: bool) -> Analysis {
    let mut build = Build::new();
    if has_names {
        build.frame("/x:never");
        for (frame, functions) in NAMES.iter().rev() {
            build.name(frame, functions);
        }
    }
    let task = build.task(1, 1, "t", "t");
    build.add(task, 90, &["/x:main", "/l.so:+0x10", "/x:back", "/x:end"]);
    build.add(task, 20, &["/x:main", "/x:beside"]);
    build.add(task, 10, &["/x:main", "/l.so:+0x99", "/l.so:+0x20"]);
    build.add(task, 5, &["/x:other", "/l.so:+0x30", "/l.so:+0x99", "/l.so:+0x20"]);
    let unnamed = if has_names { Vec::new() } else { NAMES.map(|(frame, _)| build.frame(frame)).to_vec() };
    build.finish().changed(|recording| recording.names_to_come = unnamed)
}

fn screen() -> TestScreen {
    TestScreen::new(recording(false), 80, 24)
}

/// Shows the next picture, and those that are requested because of it.
fn show(screen: &mut TestScreen, recording: Analysis) {
    screen.recording = Arc::new(recording);
    screen.compute();
    while screen.app.take_effects().contains(&Effect::Ask) {
        screen.compute();
    }
}

fn name(screen: &mut TestScreen) {
    show(screen, recording(true));
}

fn picture(screen: &TestScreen) -> Arc<Picture> {
    screen.app.context.picture.clone().unwrap()
}

fn key(screen: &TestScreen, name: &str) -> LabelKey {
    picture(screen).labels.iter().find(|label| label.name == name).unwrap().key()
}

fn names(path: &[PathStep]) -> Vec<String> {
    path.iter().map(|step| step.label.name().into_owned()).collect()
}

/// Name of the pivot function.
fn pivot(screen: &TestScreen) -> String {
    let picture = picture(screen);
    let pivot = picture.pivot.as_ref().expect("a function is in the middle");
    picture.labels.get(pivot.sandwich.label).name.clone()
}

/// Number of samples that pass the filters.
fn samples(screen: &TestScreen) -> u64 {
    picture(screen).total.samples
}

#[test]
fn a_zoom_and_a_selection_stay_where_they_are() {
    let mut screen = screen();
    screen.keys("↓↓↓\n↓↓");
    assert_eq!(screen.selected(), ["t", "main", "l.so+0x10", "back", "end"]);
    assert_eq!(screen.zoom(), ["t", "main", "l.so+0x10"]);
    name(&mut screen);
    assert_eq!(screen.selected(), ["t", "main", "call", "hidden", "back", "end"]);
    assert_eq!(screen.zoom(), ["t", "main", "call"]);
    assert_eq!(screen.app.views.flame.history.len(), 1);
    assert!(matches!(picture(&screen).find(&screen.app.views.flame.selected), BoxOf::Node(_)));
}

#[test]
fn of_several_functions_without_names_each_gets_its_own() {
    let mut screen = screen();
    screen.keys("↓↓↓→→\n");
    assert_eq!(screen.zoom(), ["t", "main", "l.so+0x99"]);
    screen.keys("↓");
    name(&mut screen);
    assert_eq!(screen.zoom(), ["t", "main", "small"]);
    assert_eq!(screen.selected(), ["t", "main", "small", "leaf"]);
    let BoxOf::Node(zoom) = picture(&screen).find(&screen.app.views.flame.zoom) else {
        panic!("{:?}", screen.zoom())
    };
    assert_eq!(picture(&screen).tree.node(zoom).total.samples, 10);
}

#[test]
fn stacks_that_are_turned_round_are_followed_from_their_leaf() {
    let mut screen = screen();
    screen.keys("i");
    let path = ["end", "back", "l.so+0x10", "main"];
    screen.keys("↓↓↓↓");
    assert_eq!(screen.selected(), path);
    name(&mut screen);
    assert_eq!(screen.selected(), ["end", "back", "hidden", "call", "main"]);
    assert!(screen.app.views.flame.selected.path[2].is_inlined);
    // The same when the stacks are inverted in the picture that brings the names.
    let mut screen = self::screen();
    screen.keys("↓↓↓→→↓");
    screen.app.update(&Action::Invert);
    name(&mut screen);
    assert_eq!(screen.selected(), ["leaf"]);
}

#[test]
fn functions_that_share_a_box_share_it_with_their_names() {
    let many = |has_names: bool| {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        build.add(task, 9_000, &["/x:main", "/x:wide"]);
        let mut unnamed = Vec::new();
        for number in 0..40 {
            let frame = format!("/l.so:+0x{:x}", 0x1000 + number);
            if has_names {
                // Two consecutive addresses are in one function.
                build.name(&frame, &format!("f{}", number / 2));
            } else {
                unnamed.push(build.frame(&frame));
            }
            build.add(task, 1, &["/x:main", &frame]);
        }
        build.finish().changed(|recording| recording.names_to_come = unnamed)
    };
    let mut screen = TestScreen::new(many(false), 80, 24);
    screen.keys("↓↓↓→");
    assert_eq!(screen.app.views.flame.selected.rest.len(), 40);
    show(&mut screen, many(true));
    let BoxOf::Rest(ids) = picture(&screen).find(&screen.app.views.flame.selected) else {
        panic!("no shared box")
    };
    assert_eq!(ids.len(), 20);
    assert_eq!(screen.app.views.flame.selected.rest.len(), 20);
}

#[test]
fn a_filter_by_a_function_means_the_same_samples_when_its_name_comes() {
    for (action, left) in [
        (Action::Focus, 15),
        (Action::Drop, 110),
        (Action::CollapseFunction, 125),
        (Action::CollapseRecursion, 125),
    ] {
        let mut screen = screen();
        screen.keys("↓↓↓→→");
        assert_eq!(screen.selected(), ["t", "main", "l.so+0x99"]);
        screen.act(&action);
        assert_eq!(samples(&screen), left, "{action:?}");
        name(&mut screen);
        assert_eq!(samples(&screen), left, "{action:?}");
        assert_eq!(picture(&screen).query, screen.app.context.query);
    }
}

#[test]
fn what_undo_brings_back_has_the_names_too() {
    let mut screen = screen();
    screen.keys("↓↓↓→→");
    screen.act(&Action::Focus);
    let path = vec![key(&screen, "t"), key(&screen, "main"), key(&screen, "l.so+0x99")];
    let path: Vec<PathStep> =
        path.into_iter().skip(1).map(|label| PathStep { label, is_inlined: false }).collect();
    screen.app.context.change_filter(|filter| filter.stacks.push(StackFilter::Under(vec![path])));
    screen.app.context.change_filter(|filter| filter.threads.push(ThreadFilter::named("^t$")));
    screen.compute();
    assert_eq!(samples(&screen), 10);
    screen.app.take_effects();
    name(&mut screen);
    assert_eq!(screen.app.context.query.common.filter.threads, [ThreadFilter::named("^t$")]);
    assert_eq!(samples(&screen), 10);
    screen.keys("uu");
    assert_eq!(samples(&screen), 15);
    screen.keys("u");
    assert_eq!(samples(&screen), 125);
}

#[test]
fn the_function_in_the_middle_stays_there_with_all_that_is_selected_round_it() {
    let mut screen = screen();
    screen.keys("↓↓↓→→3");
    assert_eq!(pivot(&screen), "l.so+0x99");
    screen.keys("↓");
    assert_eq!(names(&screen.app.views.callers.selected.path), ["l.so+0x99", "l.so+0x20"]);
    let zoom = screen.app.views.callers.selected.clone();
    screen.app.views.callers.zooms.push((Side::Callees, zoom));
    name(&mut screen);
    assert_eq!(pivot(&screen), "small");
    assert!(picture(&screen).pivot.is_some());
    assert_eq!(screen.app.views.callers.side, Side::Callees);
    assert_eq!(names(&screen.app.views.callers.selected.path), ["small", "leaf"]);
    assert_eq!(names(&screen.app.views.callers.zooms[0].1.path), ["small", "leaf"]);
}

#[test]
fn callers_and_callees_are_followed_through_inlined_functions() {
    let mut screen = screen();
    screen.keys("↓↓↓3↓↓");
    assert_eq!(names(&screen.app.views.callers.selected.path), ["l.so+0x10", "back", "end"]);
    name(&mut screen);
    assert_eq!(pivot(&screen), "call");
    assert_eq!(names(&screen.app.views.callers.selected.path), ["call", "hidden", "back", "end"]);
    // On the callers' side, the pivot is `call`, without what is inlined in it.
    let mut screen = self::screen();
    screen.keys("↓↓↓3↑");
    assert_eq!(names(&screen.app.views.callers.selected.path), ["l.so+0x10", "main"]);
    name(&mut screen);
    assert_eq!(names(&screen.app.views.callers.selected.path), ["call", "main"]);
    // On the way up, `call` comes after what is inlined in it.
    let mut screen = self::screen();
    let end = key(&screen, "end");
    screen.app.views.callers.set_pivot(&mut screen.app.context, end);
    screen.app.open(Tab::Callers);
    screen.compute();
    screen.keys("↑↑↑");
    assert_eq!(names(&screen.app.views.callers.selected.path), ["end", "back", "l.so+0x10", "main"]);
    name(&mut screen);
    assert_eq!(names(&screen.app.views.callers.selected.path), ["end", "back", "hidden", "call", "main"]);
}

#[test]
fn esc_in_callers_leads_back_to_a_function_that_has_its_name_since() {
    let mut screen = screen();
    screen.keys("↓↓↓→→3↓\n");
    assert_eq!(pivot(&screen), "l.so+0x20");
    assert_eq!(screen.app.views.callers.history.len(), 1);
    name(&mut screen);
    assert_eq!(pivot(&screen), "leaf");
    screen.keys("\x1b");
    assert_eq!(pivot(&screen), "small");
    assert_eq!(picture(&screen).pivot.as_ref().unwrap().sandwich.total.samples, 15);
}

#[test]
fn the_row_that_is_selected_in_top_is_followed() {
    let mut screen = screen();
    screen.keys("2↓↓");
    let selected = |screen: &TestScreen| {
        let label = *screen.app.selected().last().unwrap();
        picture(screen).labels.get(label).name.clone()
    };
    assert_eq!(selected(&screen), "l.so+0x20");
    // The rows above have changed, so the selected row has moved.
    let mut build = Build::new();
    for (frame, functions) in NAMES {
        build.name(frame, functions);
    }
    let task = build.task(1, 1, "t", "t");
    build.add(task, 90, &["/x:main", "/l.so:+0x99", "/l.so:+0x20"]);
    build.add(task, 20, &["/x:main", "/x:beside"]);
    build.add(task, 10, &["/x:main", "/x:end"]);
    show(&mut screen, build.finish());
    assert_eq!(selected(&screen), "leaf");
}

#[test]
fn what_is_still_without_a_name_and_what_had_one_stays() {
    let mut screen = screen();
    screen.keys("↓↓↓→→");
    let mut build = Build::new();
    build.name("/l.so:+0x10", "call⇒hidden");
    build.name("/other.so:+0x99", "wrong");
    let task = build.task(1, 1, "t", "t");
    build.add(task, 90, &["/x:main", "/l.so:+0x10"]);
    build.add(task, 10, &["/x:main", "/l.so:+0x99", "/l.so:+0x20"]);
    build.add(task, 99, &["/x:main", "/other.so:+0x99"]);
    let unnamed = vec![build.frame("/l.so:+0x99")];
    show(&mut screen, build.finish().changed(|recording| recording.names_to_come = unnamed));
    assert_eq!(screen.selected(), ["t", "main", "l.so+0x99"]);
    name(&mut screen);
    assert_eq!(screen.selected(), ["t", "main", "small"]);
    screen.app.context.size = Size::new(100, 30);
    name(&mut screen);
    assert_eq!(screen.selected(), ["t", "main", "small"]);
}

#[test]
fn of_two_files_of_one_path_the_one_that_ran_most_gives_the_name() {
    use crate::profile::{Function, Location, Module, Profile, Sample};
    // The same address in a file that replaced the first one.
    let replace = |profile: &mut Profile, has_names: bool| {
        let first = *profile.tables.frame(crate::profile::FrameId(0));
        let module = Module { instance: 1, ..profile.tables.module(first.module).clone() };
        let module = profile.tables.intern_module(module);
        let frame = profile.tables.intern_frame(crate::profile::Frame { module, ..first });
        let stack = profile.tables.intern_stack_of([frame]);
        let sample = profile.events[0].samples().next().unwrap();
        for time_ns in 0..20 {
            profile.events[0].push(Sample { time_ns, stack, ..sample });
        }
        if has_names {
            let name = profile.tables.intern_string("new");
            let function = profile.symbols.intern_function(Function { name, raw_name: name });
            profile.symbols.set_locations(frame, vec![Location { function, ..Location::default() }]);
        }
    };
    let replaced = |has_names: bool| {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        build.add(task, 5, &["/l.so:+0x10"]);
        if has_names {
            build.name("/l.so:+0x10", "old");
        }
        build.finish().changed(|recording| replace(&mut recording.profile, has_names))
    };
    let mut screen = TestScreen::new(replaced(false), 80, 24);
    screen.keys("↓↓");
    assert_eq!((screen.selected().join(" "), samples(&screen)), ("t l.so+0x10".to_owned(), 25));
    show(&mut screen, replaced(true));
    assert_eq!(screen.selected(), ["t", "new"]);
}
