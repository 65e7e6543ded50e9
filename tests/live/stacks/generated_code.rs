//! Code that runtimes generate, and what they tell of it: trampolines, jitdumps, stacks of Erlang's processes.

use crate::harness::fixture;
use crate::harness::machine::{skip, tool_or_skip, turn};
use crate::harness::profiler::{Recording, Stack};
use crate::harness::running::{Running, UNTIL_ENDED};
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn code_that_takes_the_place_of_other_code_has_the_name_of_its_time() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("jit_dump") else { return };
    // To its end, which says the rest.
    let program = program.to_str().expect("the target folder is text");
    let recording = Recording::with(["--", program, "4"]);
    recording.report().assert_whole(100);
    let stacks = recording.stacks();
    let share = |path: &[&str]| stacks.percent(|stack| stack.has(path));
    for (right, wrong) in [("odd", "even"), ("even", "odd")] {
        let caller = format!("{right}_code");
        let (inside, other) = (format!("in_{right}"), format!("in_{wrong}"));
        let named = share(&["main", &caller, &inside]);
        let all = share(&["main", &inside]);
        assert!(named > 10.0 && named > all * 0.95, "{named:.1} of {all:.1} % are named {caller}");
        // The few nanoseconds between a record and what it tells of are no sample's.
        let mistaken = share(&["main", &caller, &other]);
        assert!(mistaken < 0.3, "{mistaken:.2} % are called after what was there before or later");
    }
    let late = share(&["main", "late_code", "in_late"]);
    assert!(
        late > 5.0 && late > share(&["main", "in_late"]) * 0.95,
        "{late:.1} % have the name that came late"
    );
    let lines = recording.report_text(&["--by", "line", "-n", "0"]);
    assert!(lines.contains("late_code /generated.js:7") || lines.contains("generated.js:7"), "{lines}");
}

/// A Python that knows `-X perf`: 3.12 or later.
fn python_with_trampolines(option: &str) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = ["python3", "python3.12", "python3.13", "python3.14"]
        .into_iter()
        .filter_map(crate::harness::machine::tool)
        .collect();
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let versions = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    found.extend(versions.map(|entry| entry.path().join("bin/python3")));
    let test = "import sys; sys.exit(not sys.is_stack_trampoline_active())";
    let knows = |python: &PathBuf| {
        let tried = Command::new(python).args(["-X", option, "-c", test]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    found.sort();
    let python = found.into_iter().rev().find(knows);
    python.or_else(|| skip(&format!("no python3 here knows `-X {option}`")))
}

const SCRIPT: &str = "
import time
def innermost(n): return sum(i * i for i in range(n))
def middle(n): return sorted(range(n), key=lambda i: innermost(i % 50))
def outermost(end):
    while time.time() < end: middle(200)
outermost(time.time() + 20)
";

#[test]
fn python_is_whole_through_the_trampolines_of_its_perf_support() {
    let Some(_turn) = turn() else { return };
    for option in ["perf", "perf_jit"] {
        let Some(python) = python_with_trampolines(option) else { continue };
        // To its end: what it says of its code is written when its buffer is full, or at the end.
        let script = SCRIPT.replace("+ 20", "+ 4");
        let python = python.to_str().expect("its path is text").to_owned();
        let arguments = ["--runtime", "full", "--", &python, "-X", option, "-c", &script];
        let recording = Recording::with(arguments);
        let report = recording.report();
        for pid in recording.info_document()["target_pids"].as_array().into_iter().flatten() {
            for name in [format!("perf-{pid}.map"), format!("jit-{pid}.dump")] {
                let _ = std::fs::remove_file(PathBuf::from("/tmp").join(name));
            }
        }
        report.assert_whole_or(100, &["no_user_stack"]);
        let has_all = |stack: &Stack| {
            let functions = ["py::outermost", "py::middle", "lambda", "py::innermost"];
            stack.has(&["_start"]) && functions.iter().all(|function| stack.any_contains(function))
        };
        let share = recording.stacks().percent(has_all);
        assert!(share > 20.0, "{option}: only {share:.1} %; top: {}", report.top());
    }
}

#[test]
fn python_is_whole_from_its_first_trampoline_on() {
    let Some(_turn) = turn() else { return };
    let Some(python) = python_with_trampolines("perf") else { return };
    let script = SCRIPT.replace("+ 20", "+ 3");
    let python = python.to_str().expect("its path is text").to_owned();
    let recording = Recording::with(["--", &python, "-X", "perf", "-c", &script]);
    let report = recording.report();
    report.assert_whole_or(100, &["no_user_stack"]);
}

#[test]
fn erlang_is_whole_from_its_own_stacks_to_those_of_c_where_it_keeps_frame_pointers() {
    let Some(_turn) = turn() else { return };
    let Some(erl) = tool_or_skip("erl") else { return };
    let code = "Fib = fun F(N) when N < 2 -> N; F(N) -> F(N - 1) + F(N - 2) end, \
        Loop = fun L() -> lists:sort(fun(A, B) -> A =< B end, [(I * 7919) rem 200 || I <- lists:seq(1, 200)]), \
        Fib(10), binary:matches(binary:copy(<<\"abc\">>, 1000), <<\"ca\">>), L() end, \
        io:put_chars(\"ready\\n\"), Loop().";
    let mut command = Command::new(erl);
    let program = Running::start_ready(command.args(["+JPperf", "true", "-noshell", "-eval", code]));
    let recording = Recording::with(["--name", "^(beam.smp|erl_child_setup)$", "-d", "2s"]);
    drop(program);
    let report = recording.report();
    // Where generated code goes over to the runtime's stack and back it has no frame for some instructions: those are 0.2 to
    // 1.1 % of the samples of a run.
    report.assert_enough(100);
    assert!(
        report.complete_percent() + report.late_percent() >= 97.0,
        "{:.2} % are whole: {}",
        report.complete_percent(),
        report.causes()
    );
    let stacks = recording.stacks();
    let below = stacks.percent(|stack| stack.any_contains("normal_exit") && stack.any_contains("erl_eval:"));
    assert!(below > 30.0, "only {below:.1} % are of the interpreter; top: {}", report.top());
}

#[test]
fn a_program_of_rust_whose_panics_abort_is_whole() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("aborts") else { return };
    for suffix in ["", "-stripped"] {
        let program = format!("{}{suffix}", program.display());
        let program = Running::start_ready(Command::new(program).arg(UNTIL_ENDED));
        let recording = Recording::of_pid(program.pid(), "2s");
        recording.report().assert_whole(100);
        if suffix.is_empty() {
            recording.stacks().assert_has(&[
                "_start",
                "main",
                "aborts::main",
                "aborts::outer",
                "aborts::inner",
            ]);
        }
    }
}

#[test]
fn a_program_without_tables_and_symbols_that_is_not_optimised_is_whole() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("untabled", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    recording.report().assert_whole(100);
    // The program has no names of its own.
    let has_callback =
        |stack: &Stack| stack.has(&["__libc_start_call_main"]) && stack.any_contains("qsort_r");
    // With debug information the C library's function has the longer name of its two.
    assert!(recording.stacks().0.iter().any(has_callback), "qsort has no caller");
}

/// A dump that someone else has written is not believed, and the recording says so without being asked.
#[test]
fn a_dump_of_another_user_is_refused_in_words() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("jit_dump") else { return };
    let program = Running::start_ready(Command::new(program).arg(UNTIL_ENDED));
    let name = format!("jit-{}.dump", program.pid());
    // The program has removed it from its folder.
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", program.pid())).expect("it runs");
    let range = maps.lines().find(|line| line.contains(&name)).and_then(|line| line.split(' ').next());
    let dump = format!("/proc/{}/map_files/{}", program.pid(), range.expect("it has mapped its dump"));
    chown(dump, Some(1234), Some(1234)).expect("root can give files away");
    let recording = Recording::of_pid(program.pid(), "1s");
    drop(program);
    let report = recording.report_text(&[]);
    let said = report.lines().find(|line| line.contains("no names from") && line.contains(&name));
    assert!(said.is_some(), "{report}");
}
