//! Waits in functions that interpreters run: their lines, and the lock that one thread at a time has.

use crate::harness::machine::turn;
use crate::harness::profiler::Recording;
use crate::languages::python::interpreters::{Target, recorded_in_all};
use crate::languages::recorded::{RunSample, RunStacks};
use prof::internals::profile::Reason;
use serde_json::Value;
use std::sync::OnceLock;

/// Waits of known calls, recorded in all versions.
struct Waiting {
    recording: Recording,
    targets: Vec<Target>,
}

fn waiting() -> Option<&'static Waiting> {
    static MADE: OnceLock<Option<Waiting>> = OnceLock::new();
    MADE.get_or_init(|| {
        let _turn = turn()?;
        let (recording, targets) = recorded_in_all("waits.py", "3s", &[])?;
        Some(Waiting { recording, targets })
    })
    .as_ref()
}

/// Functions of the program, and what their waits are for.
const WAITS: [(&str, &[&str]); 7] = [
    // Up to 3.10 by a call that waits for files, of which it is given none.
    ("wait_in_sleep", &["sleep", "poll"]),
    ("wait_in_queue", &["futex", "lock"]),
    ("wait_in_lock", &["futex", "lock"]),
    ("wait_in_event", &["futex", "lock"]),
    ("wait_in_recv", &["pipe", "network"]),
    ("wait_in_select", &["poll"]),
    ("wait_in_child", &["child"]),
];

/// A wait that goes on when the recording ends.
fn is_open(stacks: &RunStacks, wait: &RunSample) -> bool {
    const NEAR_NS: u64 = 1_000_000;
    let end_ns = wait.sample.time_ns + wait.sample.wait.expect("it is a wait").duration_ns;
    end_ns + NEAR_NS > stacks.profile.duration_ns()
}

fn is_blocked(wait: &RunSample) -> bool {
    wait.sample.wait.is_some_and(|wait| wait.reason != Reason::NoCpu)
}

/// What is wrong with the waits of a thread, which are all in `place`.
fn fault(stacks: &RunStacks, place: &Value, version: &str) -> Option<String> {
    let tid = place["thread"].as_u64().expect("a number") as u32;
    let waits = stacks.waits_of(tid);
    let judged: Vec<&&RunSample> = waits.iter().filter(|wait| is_blocked(wait)).collect();
    let is_there = |wait: &RunSample, is_line: bool| {
        wait.run().iter().any(|step| {
            place["function"] == step.name.as_str()
                && place["file"] == step.file.as_str()
                && (!is_line || place["line"] == step.line)
        })
    };
    let lost = judged.iter().find(|wait| !is_there(wait, false));
    if let Some(wait) = lost {
        return Some(format!("python {version}: {place} is not in {}", wait.text()));
    }
    let weight =
        |waits: &mut dyn Iterator<Item = &&&RunSample>| -> u64 { waits.map(|wait| wait.sample.weight).sum() };
    // A thread may lose the lock at any line.
    let (all_ns, there_ns) =
        (weight(&mut judged.iter()), weight(&mut judged.iter().filter(|wait| is_there(wait, true))));
    let is_well = judged.len() > 3 && there_ns * 20 > all_ns * 19;
    (!is_well).then(|| {
        format!("python {version}: {place}: {} waits, {there_ns} of {all_ns} ns in the line", judged.len())
    })
}

#[test]
fn every_wait_is_in_the_line_that_waits() {
    let Some(waiting) = waiting() else { return };
    let stacks = RunStacks::read(&waiting.recording.file());
    let mut wrong = Vec::new();
    for target in &waiting.targets {
        let places = target.said();
        let places = places.as_array().expect("a list");
        assert_eq!(places.len(), WAITS.len());
        wrong.extend(places.iter().filter_map(|place| fault(&stacks, place, &target.python.version)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_report_says_which_function_blocks_and_why() {
    let Some(waiting) = waiting() else { return };
    let mut wrong = Vec::new();
    for target in &waiting.targets {
        let pid = target.pid.to_string();
        let report = waiting.recording.report_with(&["--off-cpu", "--idle", "--pid", &pid]);
        let rows = report.0["rows"].as_array().expect("rows");
        for (function, reasons) in WAITS {
            let is_it = |row: &&Value| {
                row["function"] == function && reasons.iter().any(|reason| row["reason"] == *reason)
            };
            let row = rows.iter().find(is_it);
            let caller = row.map_or("no row", |row| row["called_by"].as_str().unwrap_or("no caller"));
            if caller != "noted" {
                wrong.push(format!("python {}: {function} for {reasons:?}: {caller}", target.python.version));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// No thread takes part in these: they are looked at from outside.
#[test]
fn waits_that_go_on_at_the_end_have_their_functions() {
    let Some(waiting) = waiting() else { return };
    let stacks = RunStacks::read(&waiting.recording.file());
    let mut open = 0;
    for target in &waiting.targets {
        let places = target.said();
        for place in places.as_array().expect("a list") {
            let tid = place["thread"].as_u64().expect("a number") as u32;
            for wait in stacks.waits_of(tid).into_iter().filter(|wait| is_open(&stacks, wait)) {
                open += 1;
                let is_there = wait.run().iter().any(|step| place["function"] == step.name.as_str());
                assert!(is_there, "python {}: {place} is not in {}", target.python.version, wait.text());
            }
        }
    }
    assert!(open >= waiting.targets.len(), "only {open} waits went on");
}

/// Four threads want to run all the time, and one at a time may.
#[test]
fn threads_that_wait_for_the_lock_of_their_interpreter_are_said_to() {
    let Some(_turn) = turn() else { return };
    let Some((recording, targets)) = recorded_in_all("gil.py", "3s", &[]) else { return };
    let mut wrong = Vec::new();
    for target in &targets {
        let threads = target.said();
        let tids: Vec<String> =
            threads.as_array().expect("a list").iter().map(|tid| tid.to_string()).collect();
        let report = recording.report_with(&["--off-cpu", "--idle", "--tid", &tids.join(",")]);
        let rows = report.0["rows"].as_array().expect("rows");
        let sum = |is_wanted: &dyn Fn(&Value) -> bool| -> f64 {
            let waits = rows.iter().filter(|row| row["reason"] != "no CPU" && is_wanted(row));
            waits.filter_map(|row| row["count"].as_f64()).sum()
        };
        let all = sum(&|_| true);
        let gil = sum(&|row| row["reason"] == "GIL");
        let in_function = sum(&|row| row["reason"] == "GIL" && row["function"] == "spin");
        let is_enough = all > 20.0 || recording.was_crowded;
        // Where the recorder has to wait for a CPU, it comes to know the interpreter later.
        let least = if recording.was_crowded { 0.8 } else { 0.95 };
        let is_named = in_function >= 0.95 * gil - 4.0 || recording.was_crowded;
        if !is_enough || gil < least * all || !is_named {
            wrong.push(format!(
                "python {}: {gil} of {all} waits, {in_function} of them in `spin`",
                target.python.version
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
