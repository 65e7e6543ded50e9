//! Programs that are over soon.

use crate::harness::machine::turn;
use crate::harness::profiler::Recording;
use crate::languages::python::interpreters::{Python, pythons, script};
use crate::languages::recorded::{RunSample, RunStacks, UNREAD};

/// So many runs of each: one has too few samples for a share.
const RUNS: usize = 3;

/// Samples in an interpreter.
#[derive(Debug, Default)]
struct Counts {
    /// Before the first that has functions: the recorder has yet to find the interpreter.
    early: usize,
    later: usize,
    /// Of the later ones those whose functions all have names.
    named: usize,
}

/// Counts the samples of one run. Returns whether more programs wanted to run than could.
fn record_once(python: &Python, counts: &mut Counts) -> bool {
    let program = python.program.to_str().expect("a path is text");
    let script = script("short.py");
    let script = script.to_str().expect("a path is text");
    let recording = Recording::with(["-F", "1999", "-e", "cpu", "--", program, script]);
    let stacks = RunStacks::read(&recording.file());
    let mut in_loop: Vec<&RunSample> = stacks.samples.iter().filter(|sample| sample.has_loop()).collect();
    in_loop.sort_by_key(|sample| sample.sample.time_ns);
    let early = in_loop.iter().take_while(|sample| sample.run().is_empty()).count();
    let is_named = |sample: &&&RunSample| {
        !sample.run().is_empty() && sample.run().iter().all(|step| step.name != UNREAD)
    };
    counts.early += early;
    counts.later += in_loop.len() - early;
    counts.named += in_loop[early..].iter().filter(is_named).count();
    recording.was_crowded
}

#[test]
fn a_program_of_200_ms_has_its_functions() {
    let Some(_turn) = turn() else { return };
    let mut wrong = Vec::new();
    for python in pythons() {
        let mut counts = Counts::default();
        let was_crowded = (0..RUNS).fold(false, |was, _| record_once(&python, &mut counts) || was);
        println!("python {}: {counts:?}", python.version);
        // The code of modules is freed when it has run, and a recorder that waits for a CPU reads it too late.
        let least = if was_crowded { 0.5 } else { 0.99 };
        let is_named = counts.named as f64 >= least * counts.later as f64;
        let is_soon = was_crowded || counts.early * 20 <= counts.later;
        if counts.later == 0 || !is_named || !is_soon {
            wrong.push(format!("python {}: {counts:?}", python.version));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
