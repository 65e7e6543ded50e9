//! System calls, against a program that counts and times its own.

use crate::harness::fixture;
use crate::harness::machine::turn_alone;
use crate::harness::profiler::Recording;
use serde_json::Value;
use std::collections::BTreeMap;

/// What the program prints of each kind: calls, and their time, ns.
fn printed(recording: &Recording) -> BTreeMap<String, (f64, f64)> {
    let text = String::from_utf8_lossy(&recording.output).into_owned();
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().expect("a number");
        (words[0].to_owned(), (number(1), number(2)))
    });
    lines.collect()
}

fn report(recording: &Recording, arguments: &[&str]) -> Value {
    let arguments = [&["-e", "syscalls", "--json", "-n", "0"], arguments].concat();
    serde_json::from_str(&recording.report_text(&arguments)).expect("JSON")
}

/// The time in a system call, and how many there were, as the report of it has them.
fn recorded(recording: &Recording, call: &str) -> (f64, f64) {
    let label = format!("syscall={call}");
    let report = report(recording, &["--label", &label]);
    (report["total"].as_f64().expect("a sum"), report["samples"].as_f64().expect("a count"))
}

#[test]
fn each_call_has_its_name_its_time_and_the_stack_that_made_it() {
    let Some(_turn) = turn_alone() else { return };
    let Some(program) = fixture::build("calls") else { return };
    let program = program.to_str().expect("a plain path");
    let command = ["-e", "cpu,syscalls", "--max-overhead", "0", "--", program, "3000", "5000", "20"];
    let recording = Recording::with(command);
    let said = &recording.messages;
    assert!(said.contains("syscalls: each system call of every process takes"), "{said}");
    for (call, (count, own_ns)) in printed(&recording) {
        let (time_ns, calls) = recorded(&recording, &call);
        // What starts the program reads its libraries.
        assert!((count..count + 20.0).contains(&calls), "{call}: {calls} of {count}: {said}");
        // The program's own clock starts a little before, and stops a little after; for a short call that is most of it.
        let least = if call == "getppid" { 0.05 } else { 0.8 };
        assert!((least..1.01).contains(&(time_ns / own_ns)), "{call}: {time_ns} of {own_ns} ns: {said}");
    }
    let by_call = recording.report_text(&["-e", "syscalls", "--by", "label:syscall"]);
    assert!(["read", "getppid", "clock_nanosleep"].iter().all(|call| by_call.contains(call)), "{by_call}");
    let stacks = recording.stacks_with(&["-e", "syscalls"]);
    for function in ["read_much", "ask_parent", "rest"] {
        stacks.assert_has(&["main", function]);
    }
}

#[test]
fn within_the_budget_some_stand_for_all() {
    let Some(_turn) = turn_alone() else { return };
    let Some(program) = fixture::build("calls") else { return };
    let program = program.to_str().expect("a plain path");
    // Long calls are all kept, and are most of the time. What short ones cost is not to take the probe off.
    let command = ["-e", "syscalls", "--max-overhead", "50%", "--", program, "2000", "300000", "20"];
    let recording = Recording::with(command);
    let (said, printed) = (&recording.messages, printed(&recording));
    let (time_ns, _) = recorded(&recording, "clock_nanosleep");
    let share = time_ns / printed["clock_nanosleep"].1;
    assert!((0.8..1.01).contains(&share), "{share}: {said}");
    let (time_ns, calls) = recorded(&recording, "read");
    let share = time_ns / printed["read"].1;
    assert!((0.6..=1.3).contains(&share), "{share} by {calls} calls: {said}");
    // Whatever the budget leaves of the stacks, all are counted.
    let report = recording.report_text(&["-e", "syscalls"]);
    let words: Vec<&str> = report.split_whitespace().collect();
    let report = words.join(" ");
    assert!(report.contains("300,000 getppid in ") && report.contains("20 clock_nanosleep in "), "{report}");
}
