//! Parts of a comparison that are tested by themselves: boxes, callers, lines of source, and which rows have no counterpart.

use super::{compared, processes};
use crate::diff::tests::fixture::recording;
use crate::diff::{Difference, RowValue, Tone};
use crate::profile::code::source_text::SourceText;
use crate::profile::{Module, Reason, Sample};
use crate::report::tests::fixture::{Build, PERIOD_NS};
use crate::report::tests::fixture_waits::{MS, waiting};
use crate::report::{Analysis, LabelId, LabelKind, Metric, Seen, TimeRange};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::diff_base::DiffBase;
use crate::tui::compute::boxes::BoxChange;
use crate::tui::tests::session::{Session, theme};
use crate::tui::views::source::tests::with_text;
use crate::tui::widgets::theme::ColorDepth;
use std::sync::Arc;

/// A recording as the base.
fn base_of(recording: Analysis) -> DiffBase {
    DiffBase::Recording(Seen(Arc::new(recording)), "old.data".to_owned())
}

#[test]
fn boxes_are_tested_by_the_samples_in_them() {
    let mut session = compared(Tab::Flame);
    let picture = session.app.context.picture.clone().unwrap();
    let change = picture.change.as_ref().unwrap();
    let mut tested = 0;
    for (id, node) in picture.tree.nodes() {
        let label = picture.labels.get(node.label);
        let of_box = change.of_node(id).unwrap();
        if label.kind == LabelKind::Task {
            continue;
        }
        // Each function has one path here, so its box is as sure as the function.
        let everywhere = change.of_label(node.label, label.kind, RowValue::Total).unwrap();
        let Some(here) = of_box.tested else {
            assert_eq!((label.name.as_str(), everywhere.is_tested()), ("rare", false));
            continue;
        };
        tested += 1;
        assert_eq!(
            ([here.base, here.new], here.outcome),
            (of_box.costs, everywhere.outcome),
            "{}",
            label.name
        );
        assert_eq!([here.base, here.new], [everywhere.base, everywhere.new], "{}", label.name);
        let [low, high] = here.contrast.unwrap().interval();
        let ratio = here.contrast.unwrap().ratio();
        assert!(low <= ratio && ratio <= high, "{}: {low} {ratio} {high}", label.name);
    }
    assert_eq!(tested, 6, "all but `rare`");
    session.press(&[Action::Down, Action::Down, Action::Down]);
    let text = session.lines((160, 24), &theme(ColorDepth::True, false)).join("\n");
    assert!(text.contains("here base 2.50 s, new 2.80 s   +0.30 s   ^ +12% (95%: "), "{text}");
}

#[test]
fn a_box_that_has_not_changed_is_grey_though_its_function_has() {
    // `hash` grew below `load` and stayed as it was below `save`.
    let sides = [400, 1_200].map(|grown| {
        let samples = [
            (&["/x:main", "/x:load", "/x:hash"][..], grown),
            (&["/x:main", "/x:save", "/x:hash"][..], 1_000),
            (&["/x:main", "/x:other"][..], 2_000),
        ];
        recording(&samples)
    });
    let [base, new] = sides;
    let mut session = Session::new(new, None, Tab::Flame);
    session.app.context.query.base = Some(DiffBase::Recording(Seen(Arc::new(base)), "old.data".to_owned()));
    session.picture();
    let picture = session.app.context.picture.clone().unwrap();
    let change = picture.change.as_ref().unwrap();
    let tones: Vec<(String, Tone)> = (picture.tree.nodes())
        .filter(|(_, node)| picture.labels.get(node.label).name == "hash")
        .map(|(id, node)| {
            let caller = picture.tree.node(node.parent.unwrap()).label;
            let label = picture.labels.get(node.label);
            (picture.labels.get(caller).name.clone(), change.tone(change.of_node(id), node.label, label.kind))
        })
        .collect();
    assert!(tones.contains(&("load".to_owned(), Tone::MuchMore)), "{tones:?}");
    assert!(tones.contains(&("save".to_owned(), Tone::Noise)), "{tones:?}");
}

/// Ten seconds, in each of which `keep` keeps so many bytes and `use` frees what it has allocated.
fn heap(kept: u64) -> Analysis {
    let mut build = Build::new();
    let task = build.task(7, 7, "app", "app");
    for second in 0..10 {
        let time_ns = second * 1_000_000_000;
        // What it keeps grows from second to second.
        build.block(task, time_ns, [100, kept * (second + 1)], None, &["/app:main", "/app:keep"]);
        build.block(task, time_ns, [100, 500], Some(900_000_000), &["/app:main", "/app:use"]);
    }
    build.finish()
}

/// What the two sides have of a function, bytes; and of all.
fn heap_sums(session: &Session, function: &str) -> ([f64; 2], [f64; 2]) {
    let picture = session.app.context.picture.clone().unwrap();
    let functions = Arc::clone(&picture.change.as_ref().unwrap().functions);
    let of = |difference: &Difference| [difference.base, difference.new];
    let number = functions.labels.iter().position(|label| label.key.name == function);
    let row = functions.rows.iter().find(|row| Some(row.number as usize) == number);
    (row.map_or([0.0; 2], |row| of(&row.total)), of(&functions.total))
}

#[test]
fn two_heaps_are_compared_by_what_is_live() {
    let mut session = Session::new(heap(30), None, Tab::Top);
    let base = Seen(Arc::new(heap(10)));
    session.app.context.query.base = Some(DiffBase::Recording(base, "old.data".to_owned()));
    session.picture();
    assert_eq!(heap_sums(&session, "keep"), ([550.0, 1_650.0], [550.0, 1_650.0]));
    assert!(session.text().contains("heap, live at the end"), "{}", session.text());
    // Of two ranges of one recording, what it has grown by in each.
    let range = |from: u64, to: u64| TimeRange {
        from_ns: Some(from * 1_000_000_000),
        to_ns: Some(to * 1_000_000_000 - 1),
    };
    session.app.context.query.base = Some(DiffBase::Range(range(0, 5)));
    session.app.context.query.common.filter.time = range(5, 10);
    session.picture();
    let (keep, total) = heap_sums(&session, "keep");
    assert_eq!((keep, total), ([450.0, 1_200.0], [450.0, 1_200.0]), "all else is freed by then");
}

#[test]
fn lines_of_source_have_their_costs_on_both_sides() {
    let recording = with_text();
    let mut session = Session::new(recording, None, Tab::Source);
    let base = Seen(Arc::clone(&session.recording));
    session.app.context.query.base = Some(DiffBase::Recording(base, "same.data".to_owned()));
    session.picture();
    let text = session.lines((120, 30), &theme(ColorDepth::True, false)).join("\n");
    let line = text.lines().find(|line| line.contains("line 10;")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    // Of 8 samples in the code of the function 4 are in this line, on both sides.
    assert!(
        words.windows(4).any(|four| four[0] == four[2] && four[1] == four[3] && four[1] == "ms"),
        "{text}"
    );
    assert!(
        text.contains("BASE") && text.contains("CHANGE") && text.contains("in this line base "),
        "{text}"
    );
}

/// `work` with so many more samples at line 10 and in what is inlined into line 12, by turns; of a known build.
fn lines(at_push: u64, at_step: u64, build: u8) -> Analysis {
    with_text().changed(|recording| {
        let profile = &mut recording.profile;
        let module = profile.tables.modules()[0].clone();
        let path = profile.tables.intern_string("/usr/bin/demo");
        profile.tables.intern_module(Module { path, build_id: vec![build], ..module });
        profile.meta.effective_hz = 1_000;
        let event = &mut profile.events[0];
        let (push, step) = (event.sample(1), event.sample(5));
        let all = at_push + at_step;
        for number in 0..all {
            let is_push = number * at_push / all != (number + 1) * at_push / all;
            event.push(Sample { time_ns: number * PERIOD_NS, ..if is_push { push } else { step } });
        }
        profile.end.as_mut().unwrap().duration_ns = all * PERIOD_NS;
    })
}

#[test]
fn lines_of_source_are_tested_if_both_sides_have_one_build() {
    let mut session = Session::new(lines(3_000, 2_000, 7), None, Tab::Source);
    session.app.context.query.base = Some(base_of(lines(3_000, 1_000, 7)));
    session.picture();
    for shows_base in [false, true] {
        let picture = session.app.context.picture.clone().unwrap();
        let lines = picture.change.as_ref().unwrap().lines().unwrap();
        let of = |number| lines.of(&("/src/demo.c".to_owned(), number)).unwrap();
        // Per second, since the runs are not equally long.
        for (number, base, new) in [(10, 0.75, 0.6), (12, 0.25, 0.4)] {
            let BoxChange { costs, tested } = of(number);
            let tested = tested.unwrap();
            assert!((costs[0] / 1e9 - base).abs() < 0.01 && (costs[1] / 1e9 - new).abs() < 0.01, "{costs:?}");
            assert_eq!([tested.base, tested.new], costs, "line {number}, base shown: {shows_base}");
            assert!(tested.outcome.is_real(), "line {number}: {tested:?}");
        }
        session.press(&[Action::ShowBase]);
    }
}

/// Two builds of a program were never compared by line, and only the notes said why.
/// Detail 23 of the promises: a comparison tells change from noise in every view, and can fail a build.
#[test]
fn lines_of_two_builds_are_compared_by_their_text_or_the_screen_says_why_not() {
    let with = |build, change: fn(&mut Vec<SourceText>)| {
        lines(3_000, 1_000, build).changed(|recording| change(&mut recording.profile.sources))
    };
    let builds = "the sides have different builds of demo, and";
    let cases: [(Analysis, String); 5] = [
        (with(7, |_| {}), String::new()),
        (with(8, |_| {}), String::new()),
        (
            with(8, |texts| texts[0].text = texts[0].text.replace("line 11", "line 12")),
            format!("{builds} demo.c differs in line 11"),
        ),
        (with(8, Vec::clear), format!("{builds} the text of demo.c is not known")),
        (with(8, |texts| texts[0].first_line = 100), format!("{builds} no line of demo.c is known on both")),
    ];
    let mut session = Session::new(lines(3_000, 2_000, 7), None, Tab::Source);
    for (base, why) in cases {
        session.app.context.query.base = Some(base_of(base));
        session.picture();
        let picture = session.app.context.picture.clone().unwrap();
        let note = picture.notes.iter().find(|note| note.contains("lines of source are not compared"));
        assert_eq!(note.map_or("", |note| note.rsplit(": ").next().unwrap()), why);
        let text = session.lines((160, 30), &theme(ColorDepth::None, false)).join("\n");
        assert_eq!(text.contains("BASE"), why.is_empty(), "{text}");
        assert!(text.contains(&why), "{text}");
        if why.is_empty() {
            let changes = picture.change.as_ref().unwrap().lines().unwrap();
            let of_line = changes.of(&("/src/demo.c".to_owned(), 10)).unwrap();
            assert!(of_line.tested.is_some_and(|tested| tested.outcome.is_real()), "{:?}", of_line.costs);
        }
        // What stands above the table moves the pointer's rows with it.
        let rows = text.lines().skip_while(|line| !line.contains("SELF%")).count();
        assert!(rows > 10, "{text}");
    }
    // Without build IDs the text decides, too.
    session.app.context.query.base = Some(base_of(with_text()));
    session.picture();
    assert!(session.text().contains("BASE"), "{}", session.text());
}

/// Without the text in the recordings it is that of a folder of sources, if that is as old as they are.
#[test]
fn lines_of_two_builds_are_compared_by_the_text_in_a_folder_of_sources() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    let path = folder.path().join("src/demo.c");
    std::fs::write(&path, "a line;\n".repeat(20)).unwrap();
    let without = |build| {
        lines(3_000, 1_000, build).changed(|recording| {
            recording.profile.sources.clear();
            recording.profile.meta.start_unix_ns = 1_500_000_000_000_000_000;
        })
    };
    let mut session = Session::new(without(7), None, Tab::Top);
    session.app.context.query.source_dirs = vec![folder.path().to_owned()];
    session.app.context.query.base = Some(base_of(without(8)));
    session.press(&[Action::Open(Tab::Source)]);
    assert!(session.text().contains("demo.c was changed since"), "{}", session.text());
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    session.press(&[Action::Open(Tab::Flame), Action::Open(Tab::Source)]);
    assert!(session.text().contains("BASE"), "{}", session.text());
}

#[test]
fn a_comparison_of_lines_on_all_screens() {
    let mut session = Session::new(lines(3_000, 2_000, 7), None, Tab::Source);
    session.app.context.query.base = Some(base_of(lines(3_000, 1_000, 7)));
    session.picture();
    insta::assert_snapshot!("comparison_Source", session.snapshot());
}

#[test]
fn boxes_are_tested_alike_inverted_from_the_middle_and_from_the_base() {
    let mut session = compared(Tab::Flame);
    let tested = |session: &Session, name: &str| -> Vec<[f64; 2]> {
        let picture = session.app.context.picture.as_ref().unwrap();
        let change = picture.change.as_ref().unwrap();
        let is_it = |label: LabelId| picture.labels.get(label).name == name;
        let nodes = picture.tree.nodes().filter(|(_, node)| is_it(node.label));
        nodes
            .filter_map(|(id, _)| change.of_node(id)?.tested)
            .map(|tested| [tested.base, tested.new])
            .collect()
    };
    let number = [[1_000e6, 1_300e6]];
    assert_eq!(tested(&session, "number"), number);
    session.press(&[Action::ShowBase]);
    assert_eq!(tested(&session, "number"), number);
    assert_eq!(tested(&session, "tidy"), [[500e6, 0.0]]);
    session.press(&[Action::ShowBase, Action::Invert]);
    assert_eq!(tested(&session, "number"), number);
    // Below `number`, and by itself.
    assert_eq!(tested(&session, "parse"), [[1_500e6, 1_500e6], number[0]]);
    let picture = session.app.context.picture.clone().unwrap();
    let label = picture.labels.ids().find(|id| picture.labels.get(*id).name == "parse").unwrap();
    session.app.context.query.pivot = Some(picture.labels.get(label).key());
    session.picture();
    let picture = session.app.context.picture.clone().unwrap();
    let (pivot, change) = (picture.pivot.as_ref().unwrap(), picture.change.as_ref().unwrap());
    let values = |of_box: Option<BoxChange<'_>>| {
        let tested = of_box.unwrap().tested.unwrap();
        [tested.base, tested.new]
    };
    let (callers, callees) = (&pivot.sandwich.callers, &pivot.sandwich.callees);
    for (id, _) in callers.nodes() {
        assert_eq!(values(change.of_caller(id)), [2_500e6, 2_800e6]);
    }
    let number_below = callees.children(callees.roots()[0])[0];
    assert_eq!(values(change.of_callee(number_below)), number[0]);
}

#[test]
fn waits_of_a_box_are_tested_and_the_longest_is_cut() {
    let mut session = Session::new(waiting(), Some(Metric::OFF_CPU), Tab::Flame);
    session.app.context.query.base = Some(base_of(waiting()));
    session.picture();
    let picture = session.app.context.picture.clone().unwrap();
    let change = picture.change.as_ref().unwrap();
    for (id, node) in picture.tree.nodes() {
        let of_box = change.of_node(id).unwrap();
        let name = &picture.labels.get(node.label).name;
        assert_eq!(of_box.costs[0], of_box.costs[1], "{name}");
        assert!(of_box.tested.is_none_or(|tested| !tested.outcome.is_real()), "{name}");
        if let Some(tested) = of_box.tested {
            assert_eq!([tested.base, tested.new], of_box.costs, "{name}");
        }
    }
    assert!(picture.tree.nodes().any(|(id, _)| change.of_node(id).unwrap().tested.is_some()));
}

/// So many waits of a lock, of a length, and one of another.
fn locked(waits: u64, length_us: u64, longest_ms: u64) -> Analysis {
    const LOCK: [&str; 3] = ["/x:main", "/x:pool_get", "[kernel]:futex_wait"];
    let mut build = Build::new();
    build.meta().effective_hz = 1_000;
    let task = build.task(1, 1, "x", "x");
    build.add(task, 1, &LOCK[..2]);
    for wait in 0..waits {
        let length_us = length_us + wait * 7 % 40;
        build.wait(task, Reason::Lock, wait * 2 * MS, length_us * 1_000, &LOCK);
    }
    build.wait(task, Reason::Lock, waits * MS, longest_ms * MS, &LOCK);
    build.finish().changed(|recording| {
        recording.profile.end.as_mut().unwrap().duration_ns = waits * 2 * MS;
    })
}

#[test]
fn one_long_wait_does_not_colour_a_box_and_many_longer_ones_do() {
    // Costs, the costs that are named, and the tone.
    let of_lock = |new: Analysis, base: Analysis| {
        let mut session = Session::new(new, Some(Metric::OFF_CPU), Tab::Flame);
        session.app.context.query.base = Some(base_of(base));
        session.picture();
        let picture = session.app.context.picture.clone().unwrap();
        let change = picture.change.as_ref().unwrap();
        let mut nodes = picture.tree.nodes();
        let (id, node) = nodes.find(|(_, node)| picture.labels.get(node.label).name == "pool_get").unwrap();
        let of_box = change.of_node(id).unwrap();
        let tone = change.tone(Some(of_box), node.label, picture.labels.get(node.label).kind);
        (of_box.costs, of_box.costs_to_name(), tone)
    };
    let ([base, new], [_, named], tone) = of_lock(locked(2_000, 500, 10_000), locked(2_000, 500, 1));
    assert!(new > 5.0 * base && named < 1.1 * base, "{base} {new} {named}");
    assert_eq!(tone, Tone::Noise);
    let ([base, _], [_, named], tone) = of_lock(locked(2_000, 500, 1), locked(2_000, 300, 1));
    assert!(named > 1.4 * base, "{base} {named}");
    assert_eq!(tone, Tone::More);
}

#[test]
fn a_row_of_the_time_view_says_how_its_threads_have_changed() {
    let mut session = Session::new(processes(100, 400), None, Tab::Time);
    session.app.context.query.base = Some(base_of(processes(300, 200)));
    session.picture();
    let text = session.lines((120, 30), &theme(ColorDepth::True, false)).join("\n");
    assert!(text.contains("base 400 ms, new 800 ms") || text.contains("base 0.40 s, new 0.80 s"), "{text}");
}

#[test]
fn one_of_several_processes_of_a_name_is_not_compared() {
    let twins = |samples: [u64; 2], pids: [u32; 2]| {
        let mut build = Build::new();
        for (pid, samples) in pids.into_iter().zip(samples) {
            let task = build.task(pid, pid, "server", "server");
            build.add(task, samples, &["/bin/it:work"]);
        }
        build.finish()
    };
    let mut session = Session::new(twins([100, 400], [7, 8]), None, Tab::Threads);
    session.app.context.query.base = Some(base_of(twins([300, 200], [17, 18])));
    session.picture();
    session.press(&[Action::SplitThreads, Action::SplitThreads]);
    let picture = session.app.context.picture.clone().unwrap();
    let change = picture.change.as_ref().unwrap();
    assert_eq!(picture.threads.len(), 2);
    assert!(picture.threads.iter().all(|row| change.of_threads(row.into()).is_none()));
    assert!(session.text().contains("several processes have its name"), "{}", session.text());
}

#[test]
fn callers_are_not_compared_where_the_other_side_has_several_functions_of_that_name() {
    let libraries = |folders: &[&str]| {
        let mut build = Build::new();
        let task = build.task(1, 1, "x", "x");
        for folder in folders {
            build.add(task, 1_000, &["/bin/x:main", &format!("/opt/{folder}/libwork.so:work")]);
        }
        build.finish()
    };
    let of_callers = |folders: &[&str]| {
        let mut session = Session::new(libraries(&["new"]), None, Tab::Callers);
        session.app.context.query.base = Some(base_of(libraries(folders)));
        session.picture();
        let picture = session.app.context.picture.clone().unwrap();
        let label = picture.labels.ids().find(|id| picture.labels.get(*id).name == "work").unwrap();
        session.app.context.query.pivot = Some(picture.labels.get(label).key());
        session.picture();
        let picture = session.app.context.picture.clone().unwrap();
        let (pivot, change) = (picture.pivot.as_ref().unwrap(), picture.change.as_ref().unwrap());
        let costs =
            pivot.sandwich.callers.nodes().map(|(id, _)| change.of_caller(id).map(|of_box| of_box.costs));
        costs.collect::<Vec<_>>()
    };
    let [of_one, of_two] = [&["old"][..], &["old", "older"]].map(of_callers);
    assert!(
        !of_one.is_empty() && of_one.iter().all(|costs| costs.is_some_and(|[base, new]| base == new)),
        "{of_one:?}"
    );
    assert!(!of_two.is_empty() && of_two.iter().all(Option::is_none), "{of_two:?}");
}
