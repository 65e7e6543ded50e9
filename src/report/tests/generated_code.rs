//! Code that was generated while the program ran, and has no names.

use super::fixture::Build;
use crate::profile::{Outcome, Reason};
use crate::report::*;

/// A Java machine whose code has no names: each sample is at another address.
fn without_names() -> Analysis {
    let mut build = Build::new();
    let task = build.task(7, 7, "java", "java");
    for number in 0..40u32 {
        let addresses = [format!("[jit]:+0x7f00{number:02x}00"), format!("[jit]:+0x7f01{number:02x}00")];
        let frames = ["/usr/lib/jvm/libjvm.so:JavaMain", &addresses[0], &addresses[1]];
        build.add(task, 1, &frames);
        build.add_ended(task, 1, &frames[1..], Outcome::JitEnd);
    }
    build.wait(task, Reason::Sleep, 0, 5_000_000, &["/usr/lib/jvm/libjvm.so:JavaMain", "[jit]:+0x7f0201"]);
    build.finish()
}

#[test]
fn code_without_names_is_one_row_in_every_view() {
    const NAME: &str = "[jit] (no names)";
    let recording = without_names();
    let shown = |view: ReportView, names: NameStyle| {
        let page = Page { names, ..Page::PLAIN };
        render(&recording, &ReportOptions { view, ..ReportOptions::default() }, &page).unwrap()
    };
    for names in [NameStyle::Short, NameStyle::Full, NameStyle::Raw] {
        for view in
            [ReportView::Flat, ReportView::Tree, ReportView::BottomUp, ReportView::Peek("jit".to_owned())]
        {
            let text = shown(view.clone(), names);
            assert!(text.contains(NAME) && !text.contains("+0x7f"), "{view:?}: {text}");
        }
        // Two calls inside of such code are one step of a path.
        let text = shown(ReportView::Flat, names);
        let caller = if names == NameStyle::Raw { "_ZJavaMain" } else { "JavaMain" };
        assert!(text.contains(&format!("[jit] (no names) < {caller}\n")), "{text}");
        assert!(text.contains("100.0%   0.0  100.0%   80.0 ms  [jit] (no names)"), "{text}");
    }
    let selection = recording.select(&CommonOptions::default()).unwrap();
    let stacks = folded(&selection, NameStyle::Full, true);
    assert!(stacks.contains("java;JavaMain;[jit] (no names) 40\n"), "{stacks}");
    assert!(!stacks.contains("0x7f"), "{stacks}");
    let by_line = CommonOptions { grouping: Grouping::Line, ..CommonOptions::default() };
    let rows = FunctionTable::new(&recording.select(&by_line).unwrap(), SortKey::SelfWeight).rows;
    assert_eq!(rows.iter().filter(|row| !row.own.is_empty()).count(), 1);
}

#[test]
fn the_notes_know_whose_code_has_no_names() {
    let recording = without_names();
    let selection = recording.select(&CommonOptions::default()).unwrap();
    let notes = recording.notes(&selection, &CommonOptions::default()).join("\n");
    assert!(notes.contains("java: run `jcmd PID Compiler.perfmap`"), "{notes}");
    assert!(notes.contains("java: start it with -XX:+PreserveFramePointer"), "{notes}");
    for (file, cure) in [
        ("/usr/bin/node:main", "--perf-basic-prof"),
        ("/usr/bin/python3.12:main", "-X perf"),
        ("/usr/share/dotnet/libcoreclr.so:main", "DOTNET_PerfMapEnabled"),
        ("/usr/bin/something:main", "/tmp/perf-PID.map"),
    ] {
        let mut build = Build::new();
        let task = build.task(7, 7, "app", "app");
        build.add(task, 20, &[file, "[jit]:+0x7f000100"]);
        let recording = build.finish();
        let selection = recording.select(&CommonOptions::default()).unwrap();
        let notes = recording.notes(&selection, &CommonOptions::default()).join("\n");
        assert!(notes.contains(cure), "{file}: {notes}");
    }
}

#[test]
fn a_map_of_names_that_was_refused_is_said_instead_of_advice_to_write_one() {
    let mut build = Build::new();
    let task = build.task(7, 7, "node", "node");
    build.add(task, 20, &["/usr/bin/node:main", "[jit]:+0x7f000100"]);
    build.count("perf_maps_refused", 1);
    let refused = "`/tmp/perf-7.map` was not read for names: it belongs to user 1234, the process to user 0";
    let recording = build.finish().changed(|recording| {
        recording.profile.end.as_mut().unwrap().notices.push(refused.to_owned());
    });
    let selection = recording.select(&CommonOptions::default()).unwrap();
    let notes = recording.notes(&selection, &CommonOptions::default()).join("\n");
    assert!(notes.contains(refused) && !notes.contains("--perf-basic-prof"), "{notes}");
}
