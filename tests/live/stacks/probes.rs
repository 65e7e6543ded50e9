//! Probes, against what programs count themselves.
#![cfg(target_arch = "x86_64")]

use crate::harness::fixture;
use crate::harness::machine::turn_alone;
use crate::harness::profiler::{Recording, messages, prof};
use serde_json::Value;

/// A number that the program prints after its name.
fn printed(recording: &Recording, name: &str) -> f64 {
    let text = String::from_utf8_lossy(&recording.output).into_owned();
    let mut words = text.split_whitespace();
    words.find(|word| *word == name).expect("it prints all numbers");
    words.next().and_then(|word| word.parse().ok()).expect("a number")
}

/// The report of one event, as JSON.
fn report_of(recording: &Recording, event: &str) -> Value {
    serde_json::from_str(&recording.report_text(&["-e", event, "--json", "-n", "0"])).expect("JSON")
}

fn total(report: &Value) -> f64 {
    report["total"].as_f64().expect("a sum")
}

/// The share of a function and of what it calls, percent.
fn share(report: &Value, function: &str) -> f64 {
    let rows = report["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["function"] == function);
    row.and_then(|row| row["total_pct"].as_f64()).unwrap_or(0.0)
}

/// What `prof record` says where it refuses.
fn refused(arguments: &[&str]) -> String {
    let output = prof().arg("record").args(arguments).output().expect("`timeout` can be run");
    assert_ne!(output.status.code(), Some(0), "{arguments:?} was recorded");
    messages(&output)
}

#[test]
fn hits_are_as_many_as_calls_next_to_running_and_waiting_time_and_children_live() {
    let Some(_turn) = turn_alone() else { return };
    let Some(program) = fixture::build("probed") else { return };
    let program = program.to_str().expect("a plain path");
    let (take, patched) = ("uprobe:probed:take", "uprobe:probed:patched");
    let events = format!("cpu,off,{take},{patched}");
    // Children that die at a probe would have the program fail.
    let recording = Recording::with(["-e", &events, "--max-overhead", "0", "--", program, "100"]);
    let report = report_of(&recording, take);
    assert_eq!((&report["event"], &report["unit"]), (&take.into(), &"count".into()));
    assert_eq!(total(&report), printed(&recording, "take"), "{}", recording.messages);
    assert_eq!(report["samples"], report["total"], "one sample for each");
    // The children's calls are the rest.
    let (often, seldom) = (share(&report, "often"), share(&report, "seldom"));
    assert!((73.5..75.5).contains(&often) && (24.5..25.0).contains(&seldom), "{often} and {seldom} %");
    assert!(share(&report, "main") > 95.0 && share(&report, "take") > 99.9, "{report:#}");
    assert_eq!(total(&report_of(&recording, patched)), printed(&recording, "patched"));
    // The first is moved over the mark of a function, the other over a nop that must not be probed.
    assert!(recording.messages.contains("rather than") && recording.messages.contains("endbr64"));
    assert!(recording.messages.contains("a hit costs"), "{}", recording.messages);
    assert!(recording.messages.contains(&format!("{take}: ")), "{}", recording.messages);
    // A thread that has come to a breakpoint is at its instruction, not after it: its caller is known.
    let running = recording.report_with(&["--on-cpu"]);
    let complete = running.number("/quality/complete_pct");
    assert!(
        complete > if recording.was_crowded { 80.0 } else { 90.0 },
        "{complete} % of stacks are complete"
    );
    let waits = recording.report_text(&["--off-cpu"]);
    assert!(waits.contains("sleep") && waits.contains("main"), "{waits}");
    assert!(!waits.contains("a hit costs"), "a view of waits says nothing of probes: {waits}");
    for (format, part) in [("folded", "often;take "), ("svg", "seldom"), ("pb.gz", "")] {
        let out = recording.file().with_file_name(format!("out.{format}"));
        let file = recording.file();
        let arguments =
            ["export", file.to_str().expect("text"), "-e", take, "-o", out.to_str().expect("text")];
        assert!(prof().args(arguments).status().expect("`timeout` can be run").success(), "{format}");
        let text = std::fs::read(&out).expect("it is there");
        assert!(String::from_utf8_lossy(&text).contains(part), "{format}");
    }
}

#[test]
fn arguments_are_weights_and_declared_probes_are_switched_on() {
    let Some(_turn) = turn_alone() else { return };
    let Some(program) = fixture::build("probed") else { return };
    let program = program.to_str().expect("a plain path");
    let (sizes, numbers, sum, switched) = (
        "uprobe:probed:take/arg1",
        "usdt:probed:app:passed/arg2",
        "usdt:probed:app:passed/arg1",
        "usdt:probed:app:switched",
    );
    let events = [sizes, numbers, sum, switched].join(",");
    let recording = Recording::with(["-e", &events, "--max-overhead", "0", "--", program, "50"]);
    assert_eq!(total(&report_of(&recording, sizes)), printed(&recording, "sizes"));
    assert_eq!(total(&report_of(&recording, numbers)), printed(&recording, "numbers"));
    let each: f64 = (0..10).map(|call| 1000.0 + f64::from(call)).sum();
    assert_eq!(total(&report_of(&recording, sum)), 50.0 * each);
    // Off until it is probed: what the program itself did before the recording is not in it. The program counts it in its
    // own process.
    let report = report_of(&recording, switched);
    let of_children = 10.0 * printed(&recording, "forks");
    assert_eq!(total(&report), printed(&recording, "switched") + of_children);
    assert!(share(&report, "pass") > 99.9 || share(&report, "main") > 95.0, "{report:#}");
}

#[test]
fn hits_past_the_budget_are_sampled_and_weighted_up() {
    let Some(_turn) = turn_alone() else { return };
    let Some(program) = fixture::build("probed") else { return };
    let program = program.to_str().expect("a plain path");
    let event = "uprobe:probed:take";
    let recording = Recording::with(["-e", event, "--max-overhead", "0.2%", "--", program, "500"]);
    let report = report_of(&recording, event);
    let (samples, calls) = (report["samples"].as_f64().expect("a number"), printed(&recording, "take"));
    assert!(samples < calls / 2.0, "{samples} of {calls}");
    assert!((total(&report) - calls).abs() < calls * 0.25, "{} of {calls}", total(&report));
    assert!(recording.messages.contains("sampled at random, and weighted up"), "{}", recording.messages);
    assert!(recording.info_text().contains("0.2%"), "{}", recording.info_text());
}

#[test]
fn a_probe_whose_hits_cost_too_much_is_taken_off() {
    let Some(_turn) = turn_alone() else { return };
    let Some(program) = fixture::build("probed") else { return };
    let program = program.to_str().expect("a plain path");
    // The first instruction itself, which is single-stepped.
    let event = "uprobe:probed:take+0";
    let recording = Recording::with(["-e", event, "--max-overhead", "0.1%", "--", program, "2000"]);
    let (hits, calls) = (total(&report_of(&recording, event)), printed(&recording, "take"));
    assert!(hits < calls * 0.9, "{hits} of {calls}");
    assert!(recording.messages.contains("taken off after"), "{}", recording.messages);
    assert!(recording.report_text(&["-e", event]).contains("taken off after"), "a report says it, too");
}

#[test]
fn tracepoints_are_those_of_the_target_with_its_stacks() {
    let Some(_turn) = turn_alone() else { return };
    let Some(program) = fixture::build("probed") else { return };
    let program = program.to_str().expect("a plain path");
    let (forks, exits) = ("tracepoint:sched_process_fork", "tracepoint:sched_process_exit");
    let events = format!("{forks},{exits}");
    let recording = Recording::with(["-e", &events, "--max-overhead", "0", "--", program, "100"]);
    let report = report_of(&recording, forks);
    assert_eq!(total(&report), printed(&recording, "forks"));
    // Before user space has heard of a library, its first hits are not asked where they are: that might be under a lock.
    assert!(share(&report, "main") > 60.0, "{report:#}");
    // The functions that lead to the program itself are not the kernel's.
    assert!(share(&report, "kernel_clone") > 99.9, "{report:#}");
    assert!(!report.to_string().contains("bpf_trace_run"), "{report:#}");
    assert_eq!(total(&report_of(&recording, exits)), printed(&recording, "forks") + 1.0);
}

#[test]
fn what_cannot_be_probed_is_refused_with_the_reason() {
    let Some(_turn) = turn_alone() else { return };
    let Some(program) = fixture::build("probed") else { return };
    let program = program.to_str().expect("a plain path");
    let of = |event: &str| refused(&["-e", event, "--", program, "1"]);
    let skipped = of("usdt:probed:app:skipped");
    assert!(skipped.contains("forked children die"), "{skipped}");
    let inside = of("uprobe:probed:take+1");
    assert!(inside.contains("inside an instruction"), "{inside}");
    assert!(of("uprobe:probed:taken").contains("no function `taken`"));
    assert!(of("uprobe:probed:tak").contains("it has take"), "a name that contains it");
    assert!(of("usdt:probed:app:nothing").contains("app:passed"));
    assert!(of("uprobe:no-such-file-of-prof:f").contains("no file of that name"));
    assert!(of("tracepoint:no_such_tracepoint").contains("no tracepoint"));
    assert!(
        of("uprobe:probed:printf").contains("another file")
            || of("uprobe:probed:nanosleep").contains("another file")
    );
}
