//! Reports and exports of functions that interpreters run: with the interpreter's own frames, without them, and only those.

use crate::harness::machine::{tool_or_skip, turn};
use crate::harness::profiler::{Recording, Stack, Stacks, messages, prof, text};
use crate::harness::running::Running;
use crate::languages::python::interpreters::{of_distribution, script};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Two recordings of one program by the distribution's interpreter.
fn recordings() -> Option<&'static [Recording; 2]> {
    static MADE: OnceLock<Option<[Recording; 2]>> = OnceLock::new();
    MADE.get_or_init(|| {
        let _turn = turn()?;
        let python = of_distribution()?;
        let running = Running::start_ready(Command::new(python.program).arg(script("chains.py")));
        Some([(), ()].map(|()| {
            let recording = Recording::of_pid_with(running.pid(), "2s", &["--embed-source"]);
            recording.complete_names();
            recording
        }))
    })
    .as_ref()
}

/// The interpreter's loop, which every build exports.
const LOOP: &str = "_PyEval_EvalFrameDefault";

/// Functions of which one is on each stack: the roots of threads.
const RUN: [&str; 3] = ["<module>", "Thread._bootstrap", "burn_once"];

fn is_run(stack: &Stack) -> bool {
    RUN.iter().any(|name| stack.count_of(name) > 0)
}

#[test]
fn frames_of_the_interpreter_are_shown_as_wanted() {
    let Some([recording, _]) = recordings() else { return };
    let stacks = |mode: &str| recording.stacks_with(&["--runtime", mode]);
    let (folded, full, off) = (stacks("folded"), stacks("full"), stacks("off"));
    let weight = |stacks: &Stacks| -> u64 { stacks.0.iter().map(|stack| stack.weight).sum() };
    assert_eq!((weight(&folded), weight(&full)), (weight(&off), weight(&off)));
    let has_loop = |stack: &Stack| stack.any_contains(LOOP);
    let has_both = |stack: &Stack| has_loop(stack) && is_run(stack);
    assert!(folded.percent(is_run) > 99.0, "{:.1} %", folded.percent(is_run));
    // Where the loop was just entered or is being left, it can have one call more than there are functions: that call stays.
    assert!(folded.percent(has_both) < 0.5, "{:.2} % have machinery, too", folded.percent(has_both));
    assert!(full.percent(has_both) > 99.0, "{:.1} % have both", full.percent(has_both));
    assert!(off.percent(is_run) == 0.0 && off.percent(has_loop) > 99.0, "{:.1} %", off.percent(is_run));
    folded.assert_has(&["by_libc", "compare", "burn_twice"]);
    let native = |stacks: &Stacks| stacks.percent(|stack| stack.any_contains("ffi_call"));
    assert!(native(&folded) > 0.0 && native(&folded) == native(&off), "other files' functions stay");
}

#[test]
fn totals_are_the_same_however_stacks_are_shown() {
    let Some([recording, _]) = recordings() else { return };
    let totals = |mode: &str| {
        let report = recording.report_with(&["--runtime", mode]);
        ["total", "samples", "recorded_total", "totals"].map(|field| report.0[field].clone())
    };
    assert_eq!(totals("folded"), totals("off"));
    assert_eq!(totals("full"), totals("off"));
}

fn exported(recording: &Recording, name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join(name);
    recording.export(&file);
    (folder, file)
}

fn json(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).expect("prof has written it");
    serde_json::from_str(&text).expect("it is JSON")
}

/// `sort_key` has one line that calls.
const LINE: u64 = 66;

fn source() -> String {
    script("chains.py").to_str().expect("a path is text").to_owned()
}

#[test]
fn exports_have_functions_files_and_lines() {
    let Some([recording, _]) = recordings() else { return };
    let (_folder, file) = exported(recording, "out.speedscope.json");
    let frames = json(&file)["shared"]["frames"].clone();
    let is_it = |frame: &&Value| frame["name"] == "sort_key" && frame["file"] == source().as_str();
    let frame = frames.as_array().expect("frames").iter().find(is_it);
    let frame = frame.unwrap_or_else(|| panic!("speedscope has no such frame of {}", source()));
    // A frame has the line of its first sample: that of the definition, where the function has just been entered.
    assert!(frame["line"] == LINE || frame["line"] == LINE - 1, "{frame}");

    let (_folder, file) = exported(recording, "out.firefox.json");
    let profile = json(&file);
    let has_frame = |thread: &Value| {
        // Texts are in one place for all threads, or in one for each.
        let texts = [&thread["stringArray"], &profile["shared"]["stringArray"]];
        let text = |index: &Value| texts.iter().find_map(|texts| texts[index.as_u64()? as usize].as_str());
        let functions = &thread["funcTable"];
        (0..functions["length"].as_u64().unwrap_or(0) as usize).any(|index| {
            text(&functions["name"][index]) == Some("sort_key")
                && text(&functions["fileName"][index]).is_some_and(|name| name.contains("chains.py"))
        })
    };
    assert!(
        profile["threads"].as_array().expect("threads").iter().any(has_frame),
        "firefox has no such frame"
    );

    let (folder, file) = exported(recording, "out.pb.gz");
    let Some(go) = tool_or_skip("go") else { return };
    let raw = Command::new(go)
        .args(["tool", "pprof", "-raw"])
        .arg(&file)
        .env("PPROF_TMPDIR", folder.path())
        .output()
        .expect("go can be run");
    let wanted = format!("sort_key {}:{LINE}:0", source());
    assert!(text(&raw).contains(&wanted), "pprof has no `{wanted}`: {}", messages(&raw));
}

#[test]
fn annotate_shows_the_lines_of_the_source() {
    let Some([recording, _]) = recordings() else { return };
    let output = prof()
        .args(["annotate", "burn_once", "--json", "-i"])
        .arg(recording.file())
        .output()
        .expect("`timeout` can be run");
    assert!(output.status.success(), "{}", messages(&output));
    let annotated: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert!(annotated.to_string().contains("total += number * number % 7"), "{annotated}");
}

#[test]
fn functions_are_the_same_in_two_recordings() {
    let Some([base, new]) = recordings() else { return };
    let output = prof().args(["diff", "--json"]).args([base.file(), new.file()]).output();
    let output = output.expect("`timeout` can be run");
    assert!(output.status.success(), "{}", messages(&output));
    let compared: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let rows = compared["rows"].as_array().expect("rows");
    for function in ["burn_once", "burn_twice"] {
        let of_it: Vec<&Value> = rows.iter().filter(|row| row["function"] == function).collect();
        let on_both_sides = |row: &Value| {
            ["base", "new"].iter().all(|side| row["self"][side].as_f64().is_some_and(|value| value > 0.0))
        };
        assert!(of_it.len() == 1 && on_both_sides(of_it[0]), "{function}: {of_it:?}");
    }
}
