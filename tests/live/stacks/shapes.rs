//! Stacks of unusual shapes: very deep ones, huge frames, switched stacks, signals at awkward places, exceptions.

use crate::harness::machine::turn;
use crate::harness::profiler::{Recording, Stack};
use crate::harness::running::{Running, UNTIL_ENDED};

/// Samples that every recording has, on a crowded machine too.
const LEAST_SAMPLES: u64 = 20;

/// `prof record -e cpu` of a fixture for a second at a high rate.
fn record(name: &str, arguments: &[&str]) -> Option<Recording> {
    let program = Running::fixture(name, arguments)?;
    let recording =
        Recording::with(["-p", &program.pid().to_string(), "-e", "cpu", "-F", "1999", "-d", "1s"]);
    recording.complete_names();
    Some(recording)
}

/// The stacks in which `function` takes part, which have to be at least `least` percent of the weight.
fn stacks_with(recording: &Recording, function: &str, least: f64) -> Vec<Stack> {
    let stacks = recording.stacks();
    let share = stacks.percent(|stack| stack.has(&[function]));
    assert!(share >= least, "{function} is in {share:.1} % of the stacks only");
    stacks.0.into_iter().filter(|stack| stack.has(&[function])).collect()
}

#[test]
fn every_frame_of_a_recursion_is_there() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = record("depth", &["20", "300"]) else { return };
    let report = recording.report();
    report.assert_whole(LEAST_SAMPLES);
    assert_eq!(report.complete_percent(), 100.0, "the others: {}", report.causes());
    for stack in stacks_with(&recording, "depth_leaf", 98.0) {
        assert_eq!(stack.count_of("recurse"), 300);
        assert!(stack.has(&["_start", "main", "recurse", "depth_leaf"]));
    }
}

#[test]
fn a_stack_that_is_too_deep_keeps_its_two_ends_and_is_marked() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("depth", &[UNTIL_ENDED, "5000"]) else { return };
    let recording = Recording::with(["-p", &program.pid().to_string(), "-e", "cpu", "-d", "1s"]);
    let report = recording.report();
    assert!(report.cause_percent("middle_left_out") > 99.0, "causes: {}", report.causes());
    assert!(report.complete_percent() < 1.0, "a stack with a gap is not complete");
    for stack in stacks_with(&recording, "depth_leaf", 98.0) {
        // 1,024 frames: three of the C library, main, depth_leaf, and here and there one that depth_leaf calls.
        assert!((1015..=1019).contains(&stack.count_of("recurse")), "{} frames", stack.count_of("recurse"));
        assert!(stack.has(&["_start", "main", "recurse", "[frames left out]", "recurse", "depth_leaf"]));
        assert_eq!(stack.count_of("[frames left out]"), 1);
    }
    let counters = recording.info();
    let (cut, left_out) = (counters["stacks_cut"].as_f64(), counters["frames_left_out"].as_f64());
    let left_out_of_each = left_out.unwrap_or(0.0) / cut.unwrap_or(1.0);
    assert!((3980.0..3990.0).contains(&left_out_of_each), "{left_out_of_each} frames left out of each");
    assert!(
        recording.report_text(&[]).contains("too deep to keep all their frames"),
        "the report says nothing"
    );
}

#[test]
fn a_stack_without_end_keeps_its_leaf_end() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("depth", &[UNTIL_ENDED, "100000"]) else { return };
    let recording = Recording::with(["-p", &program.pid().to_string(), "-e", "cpu", "-d", "1s"]);
    let report = recording.report();
    assert!(report.cause_percent("too_deep") > 99.0, "causes: {}", report.causes());
    for stack in stacks_with(&recording, "depth_leaf", 98.0) {
        assert!((505..=511).contains(&stack.count_of("recurse")), "{} frames", stack.count_of("recurse"));
        assert_eq!(stack.count_of("_start") + stack.count_of("[frames left out]"), 0);
    }
}

#[test]
fn frames_of_many_megabytes_are_crossed() {
    let Some(_turn) = turn() else { return };
    for (depth, frame_bytes) in [(5, "1048576"), (30, "30000000")] {
        let Some(recording) = record("depth", &["20", &depth.to_string(), frame_bytes]) else { return };
        recording.report().assert_whole(LEAST_SAMPLES);
        for stack in stacks_with(&recording, "depth_leaf", 98.0) {
            assert_eq!(stack.count_of("recurse_wide"), depth);
            assert!(stack.has(&["_start", "main", "recurse_wide", "depth_leaf"]));
        }
    }
}

/// The copies of the stack that user space walks here have holes, and end in the middle of a page.
#[test]
fn pages_that_are_not_there_are_left_out_of_stack_copies_alone() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = record("untouched", &["20"]) else { return };
    let report = recording.report();
    report.assert_whole(LEAST_SAMPLES);
    assert_eq!(report.complete_percent(), 100.0, "the others: {}", report.causes());
    for stack in stacks_with(&recording, "odd_leaf", 90.0) {
        assert!(stack.has(&["_start", "main", "with_untouched", "odd_leaf"]));
    }
}

#[test]
fn coroutines_are_walked_on_their_own_stacks() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = record("coroutines", &["20"]) else { return };
    let report = recording.report();
    report.assert_whole(LEAST_SAMPLES);
    assert!(report.complete_percent() >= 99.5, "the others: {}", report.causes());
    for stack in stacks_with(&recording, "coroutine_work", 90.0) {
        assert!(stack.has(&["coroutine_body", "coroutine_work"]));
        // Who resumed it is not on its stack.
        assert!(!stack.has(&["resume_in_turn"]), "a coroutine has no caller");
    }
}

#[test]
fn a_stack_that_changes_its_place_in_the_middle_is_walked_to_the_root() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = record("coroutines", &["20", "borrowed"]) else { return };
    recording.report().assert_whole(LEAST_SAMPLES);
    for stack in stacks_with(&recording, "on_other_stack", 98.0) {
        assert!(stack.has(&["_start", "main", "borrow", "call_on", "on_other_stack"]));
    }
}

#[test]
fn split_stacks_are_walked_from_piece_to_piece() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = record("splitstack", &["20"]) else { return };
    recording.report().assert_whole(LEAST_SAMPLES);
    for stack in stacks_with(&recording, "split_leaf", 98.0) {
        assert_eq!(stack.count_of("split_recurse"), 40);
        assert!(stack.has(&["split_thread", "split_recurse", "split_leaf"]));
    }
}

#[test]
fn exceptions_in_flight_are_walked_to_the_root() {
    let Some(_turn) = turn() else { return };
    for program in ["exceptions", "exceptions_fp"] {
        let Some(recording) = record(program, &["20"]) else { return };
        let report = recording.report();
        // One stack may end where the program is only starting.
        assert!(
            report.samples() > LEAST_SAMPLES && report.complete_percent() >= 99.8,
            "{program}, the others: {}",
            report.causes()
        );
        let stacks = recording.stacks();
        stacks.assert_has(&[
            "_start",
            "main",
            "catch_one(int)",
            "rethrow(int)",
            "throw_deep(int)",
            "_Unwind_RaiseException",
        ]);
        for stack in &stacks.0 {
            // While libgcc writes the registers of the catching frame over its own saved ones, and jumps there.
            assert!(stack.count_of("throw_deep(int)") <= 7, "{program} throws from seven frames: {stack:?}");
            let has = |name: &str| stack.has(&[name]);
            assert!(has("rethrow(int)") || !has("throw_deep(int)"), "{program}, frames left out: {stack:?}");
            assert!(has("catch_one(int)") || !has("rethrow(int)"), "{program}, frames left out: {stack:?}");
        }
    }
}

#[test]
fn short_system_calls_have_their_whole_user_stack() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = record("mapcalls", &["20"]) else { return };
    let report = recording.report();
    report.assert_whole(LEAST_SAMPLES);
    assert!(report.complete_percent() >= 99.9, "the others: {}", report.causes());
    assert!(report.module_percent("[kernel]") > 60.0, "top: {}", report.top());
    let stacks = recording.stacks();
    let whole = stacks.percent(|stack| stack.has(&["_start", "main", "call_round"]));
    assert!(whole > 97.0, "{whole:.1} % have the caller of the system calls");
    stacks.assert_has(&["main", "call_round", "map_and_unmap"]);
    stacks.assert_has(&["main", "call_round", "ask_parent", "syscall"]);
}

#[test]
fn a_signal_at_the_first_instruction_of_a_function_keeps_its_caller() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = record("sigentry", &["20", "entry"]) else { return };
    let report = recording.report();
    report.assert_whole(LEAST_SAMPLES);
    assert_eq!(report.complete_percent(), 100.0, "the others: {}", report.causes());
    let handled = stacks_with(&recording, "on_timer", 10.0);
    assert!(handled.iter().all(|stack| stack.has(&[
        "_start",
        "main",
        "call_entry",
        "spin_at_entry",
        "on_timer"
    ])));
    // The byte before the function is not where it was.
    assert!(!recording.stacks().any_has(&["before_entry"]));
}

#[test]
fn a_signal_stack_below_the_threads_own_leads_back_up() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = record("sigentry", &["20", "below"]) else { return };
    let report = recording.report();
    report.assert_whole(LEAST_SAMPLES);
    assert!(report.complete_percent() + report.late_percent() > 99.99, "the others: {}", report.causes());
    for stack in stacks_with(&recording, "on_timer", 10.0) {
        assert!(stack.has(&["_start", "main", "interrupted_work", "on_timer"]));
    }
}

#[test]
fn the_return_from_a_signal_handler_has_its_caller() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = record("sigentry", &["20", "return"]) else { return };
    let report = recording.report();
    report.assert_whole(LEAST_SAMPLES);
    let stacks = recording.stacks();
    // The kernel sets the registers one by one, for the handler and back: half of each set leads nowhere.
    let setting = ["restore_sigcontext", "rt_sigreturn_[k]", "setup_rt_frame", "arch_do_signal"];
    let is_half_set = |stack: &Stack| setting.iter().any(|name| stack.any_contains(name));
    let others = stacks.percent(|stack| stack.is_cut() && !is_half_set(stack));
    assert!(others <= 0.1, "{others} % are cut; all that are not complete: {}", report.causes());
    assert!(report.complete_percent() >= 99.0, "the others: {}", report.causes());
    // The kernel is still in the system call that raised the signal when it has set the handler up.
    stacks.assert_has(&["_start", "main", "raise_often", "__restore_rt", "on_raise"]);
    assert!(!stacks.any_has(&["before_handler"]), "a function that never runs");
    // In rt_sigreturn the address is behind the last instruction of its function.
    stacks.assert_has(&["_start", "main", "raise_often", "__restore_rt"]);
    let whole = stacks.percent(|stack| stack.has(&["_start", "main", "raise_often"]));
    assert!(whole > 99.0, "{whole:.1} % have the caller of raise()");
}

/// Without unwind information rbp may hold the frame of a function further up, and must not be believed.
#[test]
fn callers_are_not_left_out_by_a_frame_pointer_of_another_function() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("lost_callers", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    let (report, stacks) = (recording.report(), recording.stacks());
    report.assert_enough(50);
    assert!(report.total_percent("hidden_work") > 80.0, "top: {}", report.top());
    // Its caller is `calls_hidden_work`, or not known.
    for above in ["main", "keeps_a_frame", "between"] {
        assert!(!stacks.0.iter().any(|stack| stack.calls(above, "hidden_work")), "{above} does not call it");
    }
    let whole = stacks.percent(|stack| !stack.is_cut() && stack.any_contains("hidden_work"));
    let right = stacks.percent(|stack| {
        stack.has(&["main", "keeps_a_frame", "between", "calls_hidden_work", "hidden_work"])
    });
    // At its first and last instruction the return address is known.
    assert!(whole <= right + 0.5, "{whole} % claim to be complete, {right} % are");
}
