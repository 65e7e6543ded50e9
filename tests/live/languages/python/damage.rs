//! Interpreters that damage what they keep of their functions: nothing hangs, and native stacks are as whole as ever.

use crate::harness::machine::turn;
use crate::languages::python::interpreters::recorded_in_all;
use crate::languages::recorded::{RunStacks, Step};

/// Names are as the program gave them, and no longer than prof reads any.
fn is_sane(step: &Step) -> bool {
    step.name.len() <= 4096 && step.file.len() <= 4096
}

#[test]
fn damaged_frames_and_functions_harm_nothing_else() {
    let Some(_turn) = turn() else { return };
    let Some((recording, targets)) = recorded_in_all("hostile.py", "6s", &["-F", "1999"]) else { return };
    let stacks = RunStacks::read(&recording.file());
    let counters = &stacks.profile.counters;
    let unread = stacks.profile.counter("interpreter_frames_unread");
    let mismatches = stacks.profile.counter("interpreter_mismatches");
    println!("{counters:?}");
    assert!(unread > 0 && mismatches > 0, "what is damaged is counted: {counters:?}");
    for target in &targets {
        let version = &target.python.version;
        let samples = stacks.of(target.pid);
        let whole = samples.iter().filter(|sample| sample.is_complete()).count();
        assert!(samples.len() > 50, "python {version}: {} samples", samples.len());
        assert!(
            whole * 100 >= samples.len() * 99,
            "python {version}: {whole} of {} are whole",
            samples.len()
        );
        // The innermost functions are never damaged, and what they do with others' frames is seen for what it is.
        let burns = |step: &&Step| step.name == "burn";
        let burning = samples.iter().filter(|sample| sample.run().iter().any(burns)).count();
        assert!(burning * 2 > samples.len(), "python {version}: {burning} of {} burn", samples.len());
        for sample in &samples {
            assert!(sample.run().into_iter().all(is_sane), "python {version}: {}", sample.text());
            // What does not fit stands apart, and the native stack is whole all the same.
            let is_rooted =
                sample.steps.first().is_some_and(|step| !step.is_run && !step.name.starts_with('['));
            assert!(is_rooted || !sample.is_complete(), "python {version}: {}", sample.text());
            assert!(sample.run().len() <= 1024, "python {version}: {} functions", sample.run().len());
        }
    }
    let native = recording.stacks_with(&["--runtime", "off"]);
    assert!(
        !native.0.iter().any(|stack| stack.any_contains("frames of an interpreter")),
        "only native frames"
    );
}
