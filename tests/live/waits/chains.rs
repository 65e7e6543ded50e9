//! Chains of waits, against a program whose parts are known.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::Recording;

/// Of the time that `ask` waits for others that run, twice as much is `parse` of the thread that it asks as `load` of the one that that asks.
#[test]
fn a_wait_is_what_the_threads_did_that_ended_it() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("chain") else { return };
    let program = program.to_str().expect("a plain path");
    let recording = Recording::with(["-e", "cpu,off", "--max-overhead", "0", "--", program, "3"]);
    let stacks = recording.stacks_with(&["--chain", "--idle", "--thread", "^chain$"]);
    let percent = |inner: &[&str]| stacks.percent(|stack| stack.has(inner) && !stack.has(&["[no CPU]"]));
    let parse = percent(&["ask", "[woken by server]", "parse"]);
    let load = percent(&["ask", "[woken by server]", "fetch", "[woken by store]", "load"]);
    let no_cpu = stacks.percent(|stack| stack.has(&["[no CPU]"]));
    // The thread that was asked is in the call that wakes, until the one that waits has a CPU: some percent beside others.
    let waking = stacks.percent(|stack| stack.any_contains("sem_post") && !stack.has(&["[no CPU]"]));
    assert!((1.7..2.3).contains(&(parse / load)), "parse {parse} %, load {load} %, no CPU {no_cpu} %");
    let least = if recording.was_crowded { 80.0 } else { 95.0 };
    let said = recording.report_text(&["--chain", "--idle", "--thread", "^chain$", "--tree"]);
    let sum = parse + load + no_cpu + waking;
    assert!(sum > least, "parse {parse} %, load {load} %, no CPU {no_cpu} %, waking {waking} %\n{said}");
    let total =
        |which: &str| recording.report_with(&[which, "--idle", "--thread", "^chain$"]).0["total"].as_f64();
    let [chains, waits] = ["--chain", "--off-cpu"].map(|which| total(which).expect("a number"));
    // But for waits that were only counted.
    assert!((0.98..=1.001).contains(&(chains / waits)), "{chains} of {waits} ns");
}
