//! Locks: which they are, who waited and who let go, against what the program prints and measures itself.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::{Recording, messages, prof};
use crate::harness::running::Running;
use serde_json::Value;
use std::process::Command;

/// What the program says of a lock: its address, and the number and time of the waits for it, ns.
fn printed(recording: &Recording, lock: &str) -> (String, f64, f64) {
    let text = String::from_utf8_lossy(&recording.output).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(lock)).expect("it prints all locks");
    let words: Vec<&str> = line.split_whitespace().collect();
    (words[0].to_owned(), words[1].parse().expect("a number"), words[2].parse().expect("a number"))
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().expect("a table")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// Row of the lock at an address, in hexadecimal.
fn at<'r>(report: &'r Value, address: &str) -> &'r Value {
    let row = rows(report).iter().find(|row| row["lock"]["address"] == address);
    row.unwrap_or_else(|| panic!("no {address} in {report:#}"))
}

/// Time that the thread of a name was ready without a CPU, ns.
fn no_cpu(threads: &Value, name: &str) -> f64 {
    let all = threads["thread_rows"].as_array().expect("rows of threads");
    let row = all.iter().find(|row| row["thread"].as_str().is_some_and(|thread| thread.starts_with(name)));
    number(&row.unwrap_or_else(|| panic!("no {name} in {all:#?}"))["times"]["no_cpu_ns"])
}

/// By holder, the same delay is charged to those who let go; by waiter, one place waits for three locks.
fn check_sides(recording: &Recording, report: &Value) {
    let by_holder = recording.report_with(&["--locks", "--by", "holder"]).0;
    let slow = rows(&by_holder).iter().find(|row| row["called_by"] == "hold_slow").expect("it lets go");
    let (address, ..) = printed(recording, "slow_lock");
    let share = number(&slow["wait_ns"]) / number(&at(report, &address)["wait_ns"]);
    assert!((0.95..=1.0).contains(&share), "{share} of the delay at slow_lock");
    let by_waiter = recording.report_with(&["--locks", "--by", "waiter"]).0;
    assert!(
        rows(&by_waiter).iter().any(|row| row["function"] == "want" && row["locks"] == 3),
        "{by_waiter:#}"
    );
}

#[test]
fn locks_have_their_addresses_holders_and_delays() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("locks") else { return };
    let program = program.to_str().expect("a plain path");
    let recording = Recording::with(["-e", "cpu,off,lock", "--max-overhead", "0", "--", program, "3"]);
    let report = recording.report_with(&["--locks", "--idle"]).0;
    let threads = recording.report_with(&["--threads=each"]).0;
    for (lock, holder, waiter) in [
        ("slow_lock", "hold_slow", "wants-slow"),
        ("quick_lock", "hold_quick", "wants-quick"),
        ("heap_lock", "hold_heap", "wants-heap"),
    ] {
        let (address, count, time_ns) = printed(&recording, lock);
        let row = at(&report, &address);
        let memory = if lock == "heap_lock" { "heap" } else { "global" };
        assert_eq!((&row["kind"], &row["role"]), (&"mutex".into(), &"holder".into()), "{row:#}");
        assert_eq!(row["lock"]["memory"], memory, "{row:#}");
        let name = if lock == "heap_lock" { format!("lock {address} in heap") } else { lock.to_owned() };
        assert_eq!(row["function"], name, "{row:#}");
        let released = &row["released_by"][0];
        assert_eq!(
            (&released["function"], &released["called_by"]),
            (&"hold".into(), &holder.into()),
            "{row:#}"
        );
        assert!(number(&released["share_pct"]) > 95.0, "{row:#}");
        assert_eq!(row["waiters"][0]["function"], "want", "{row:#}");
        // The program measures from before the lock is asked for until it runs again: what it waits for a CPU is in no wait.
        let (wait, scheduler) = (number(&row["wait_ns"]), no_cpu(&threads, waiter));
        assert!(wait <= time_ns * 1.01, "{lock}: {wait} ns of {time_ns}");
        assert!(
            wait >= time_ns * 0.99 - scheduler,
            "{lock}: {wait} ns of {time_ns}, {scheduler} without a CPU"
        );
        assert!(number(&row["count"]) >= count * 0.98, "{lock}: {} waits of {count}", row["count"]);
    }
    let (address, ..) = printed(&recording, "slots");
    let semaphore = at(&report, &address);
    assert_eq!((&semaphore["kind"], &semaphore["role"]), (&"semaphore".into(), &"signaller".into()));
    assert_eq!(semaphore["released_by"][0]["function"], "produce", "{semaphore:#}");
    let condition = rows(&report).iter().find(|row| row["kind"] == "condvar").expect("it waits for one");
    assert!(
        condition["function"].as_str().is_some_and(|name| name.starts_with("queue_ready")),
        "{condition:#}"
    );
    assert_eq!(condition["role"], "signaller");
    // What ends by its timeout is a sleep.
    let given_up = rows(&report).iter().filter(|row| row["waiters"][0]["function"] == "give_up");
    let given_up: f64 = given_up.map(|row| number(&row["wait_ns"])).sum();
    assert!(given_up < 0.15e9, "{given_up} ns of 3 s");
    check_sides(&recording, &report);
}

#[test]
fn waits_for_locks_alone_are_recorded_and_exported() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("locks") else { return };
    let recording = Recording::with(["-e", "lock", "--", program.to_str().expect("a plain path"), "1"]);
    let report = recording.report_with(&[]).0;
    assert_eq!(report["event"], "lock");
    let (address, ..) = printed(&recording, "slow_lock");
    assert_eq!(at(&report, &address)["function"], "slow_lock");
    let text = recording.report_text(&[]);
    assert!(text.contains("HOLDER") && text.contains("hold < hold_slow"), "{text}");
    let whole = prof().args(["report", "--off-cpu"]).arg(recording.file()).output().expect("prof runs");
    assert_eq!(whole.status.code(), Some(3), "{}", messages(&whole));
    // Nothing else is in it: no naps of the holders.
    let reasons = recording.report_with(&["-e", "lock", "--idle"]).0;
    let of_futex = ["lock", "condvar", "futex", "sleep"].map(Value::from);
    assert!(rows(&reasons).iter().all(|row| of_futex.contains(&row["reason"])), "{reasons:#}");
    assert!(rows(&reasons).iter().all(|row| row["function"] != "nap"), "{reasons:#}");
    let folded = ["export", "--locks", "--by", "holder", "--format", "folded", "-o", "-"];
    let out = prof().args(folded).arg(recording.file()).output().expect("prof runs");
    let stacks = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(stacks.lines().any(|line| line.contains(";hold_slow;hold;")), "{stacks} {}", messages(&out));
    assert!(!stacks.contains("_[k]") && !stacks.contains(";want;"), "{stacks}");
}

#[test]
fn locks_of_rust_are_told_apart() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("rustwaits") else { return };
    let running = Running::start_ready(&mut Command::new(&program));
    let recording = Recording::with(["-p", &running.pid().to_string(), "-d", "1500ms"]);
    let report = recording.report_with(&["--locks", "--idle"]).0;
    let has = |kind: &str, role: &str, waiter: &str, releaser: &str| {
        let is_in = |parts: &Value, name: &str| {
            parts.as_array().is_some_and(|parts| {
                parts.iter().any(|part| part["function"].as_str().is_some_and(|text| text.contains(name)))
            })
        };
        let found = rows(&report).iter().any(|row| {
            row["kind"] == kind
                && row["role"] == role
                && is_in(&row["waiters"], waiter)
                && is_in(&row["released_by"], releaser)
        });
        assert!(found, "no {kind} of {waiter} and {releaser} in {report:#}");
    };
    // `add_slowly` and `fill` let go at their ends, by a jump: then their caller is what is on the stack.
    has("mutex", "holder", "add_slowly", "closure");
    has("condvar", "signaller", "take_job", "closure");
    has("park", "signaller", "receive", "");
}
