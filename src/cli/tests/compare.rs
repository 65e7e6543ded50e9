//! `prof diff` and `prof bench`.

use super::*;
use crate::diff::{DiffFormat, DiffOptions, Per, Sides};
use crate::report::HeapView;

fn compared(line: &str) -> DiffOptions {
    match parsed(line) {
        Ok(Request::Diff(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn diff_takes_sides_in_every_form() {
    let files = |line: &str| match compared(line).sides {
        Sides::Words(sides) => {
            sides.map(|side| side.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" "))
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(files("prof diff"), ["prof.data.old", "prof.data"]);
    assert_eq!(files("prof diff old.data"), ["old.data", "prof.data"]);
    assert_eq!(files("prof diff a,b c*"), ["a,b", "c*"]);
    assert_eq!(files("prof diff --base a b --new c d"), ["a b", "c d"]);
    assert_eq!(refused("prof diff --base a").0, 2);
    assert_eq!(refused("prof diff a b c").0, 2);
}

#[test]
fn diff_knows_formats_by_their_endings() {
    let format = |line: &str| compared(line).format;
    assert_eq!(format("prof diff -o x.svg"), DiffFormat::Svg);
    assert_eq!(format("prof diff -o x.svg --json"), DiffFormat::Json);
    assert_eq!(format("prof diff -o x.txt"), DiffFormat::Text);
    assert_eq!(format("prof diff --format gobench"), DiffFormat::GoBench);
    assert_eq!(compared("prof diff --per 10,12").per, Some(Per::Work([10.0, 12.0])));
    for line in [
        "prof diff --per 0",
        "prof diff --per x",
        "prof diff --single-run-ok",
        "prof diff --fail-on total>-5%",
    ] {
        assert_eq!(refused(line).0, 2, "{line}");
    }
    let gate = compared("prof diff --fail-on total>+5% --fail-on self:^a$ --min 2").gate;
    assert_eq!((gate.rules.len(), gate.least), (2, 0.02));
}

#[test]
fn diff_takes_two_times_of_one_recording() {
    let options = compared("prof diff a.data --heap --times 2s..5s");
    assert_eq!(options.heap_times, Some([2_000_000_000, 5_000_000_000]));
    let Sides::Words([base, new]) = &options.sides else { panic!("{:?}", options.sides) };
    assert_eq!(base, new);
    assert_eq!(compared("prof diff a b --heap --leaks").common.heap, Some(HeapView::Leaks));
    for line in [
        "prof diff a --heap --times 2s..",
        "prof diff a --times 2s..5s",
        "prof diff a --heap --leaks --times 2s..5s",
    ] {
        assert_eq!(refused(line).0, 2, "{line}");
    }
}

#[test]
fn bench_takes_commands_as_one_word_or_as_several() {
    let bench = |arguments: &[&str]| match parse(arguments.iter().map(OsString::from)) {
        Ok(Request::Bench(options)) => *options,
        other => panic!("{other:?}"),
    };
    let options = bench(&["prof", "bench", "-n", "5", "--base", "./old 'a b'", "--new", "./new"]);
    assert_eq!((options.runs, options.event.as_str()), (5, "cpu"));
    assert_eq!(options.commands, [vec!["./old".into(), OsString::from("a b")], words("./new")]);
    let options = bench(&["prof", "bench", "--off-cpu", "--", "a", "-n", "--vs", "b"]);
    assert_eq!(options.commands, [words("a -n"), words("b")]);
    assert_eq!((options.event.as_str(), options.run_as), ("cpu,off", None));
    let options = bench(&["prof", "bench", "--run-as", "root", "--", "a", "--vs", "b"]);
    assert_eq!(options.run_as.as_deref(), Some("root"));
    for line in [
        "prof bench",
        "prof bench --base a",
        "prof bench -- a",
        "prof bench -- a --vs",
        "prof bench -n 0 -- a --vs b",
    ] {
        assert_eq!(refused(line).0, 2, "{line}");
    }
}
