//! The fixtures, whose profile is known by construction, recorded by process number.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::Recording;
use crate::harness::running::{Running, UNTIL_ENDED};

/// The row of `function` in the text report: total share and the printed margin, both percent.
fn printed_share(report: &str, function: &str) -> (f64, f64) {
    let row = report.lines().find(|line| line.split_whitespace().any(|word| word == function));
    let row = row.unwrap_or_else(|| panic!("no row for {function} in:\n{report}"));
    let numbers: Vec<f64> =
        row.split_whitespace().map_while(|word| word.trim_end_matches('%').parse().ok()).collect();
    match numbers[..] {
        [_self_percent, margin, total, ..] => (total, margin),
        _ => panic!("a row starts with SELF%, ± and TOTAL%: {row}"),
    }
}

fn assert_known_shares(fixture: &str) {
    let Some(shares) = Running::fixture(fixture, &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(shares.pid(), "4s");
    let report = recording.report();
    report.assert_whole(500);
    // The margin is that of the function's own time, so what was inlined into it is counted as its own.
    let printed = recording.report_text(&["-n", "0", "--no-inline"]);
    for (function, share) in [("share_fifty", 50.0), ("share_thirty", 30.0), ("share_twenty", 20.0)] {
        let (total, margin) = printed_share(&printed, function);
        assert!(margin > 0.0 && margin < 5.0, "{function}: a margin of {margin} says nothing");
        assert!((total - share).abs() <= 3.0 * margin, "{function}: {total} ± {margin}, not {share}");
        assert!((report.total_percent(function) - total).abs() < 0.2, "text and JSON differ on {function}");
    }
    recording.stacks().assert_has(&["main", "one_round", "share_fifty"]);
}

/// Detail 6 of the promises: numbers have their error and one unit in a column, and estimates are marked.
#[test]
fn known_shares_are_found_within_the_printed_margin() {
    let Some(_turn) = turn() else { return };
    assert_known_shares("shares");
}

#[test]
fn known_shares_are_found_in_a_static_musl_program() {
    let Some(_turn) = turn() else { return };
    assert_known_shares("static_musl");
}

#[test]
fn threads_born_during_the_recording_are_seen() {
    let Some(_turn) = turn() else { return };
    let Some(threads) = Running::fixture("threads", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(threads.pid(), "3s");
    recording.report().assert_whole(500);
    let stacks = recording.stacks();
    stacks.assert_has(&["early_thread", "early_work"]);
    stacks.assert_has(&["late_thread", "late_work"]);
    // Half as busy as the other by construction, more or less with the load of the machine.
    assert!(stacks.percent(|stack| stack.has(&["late_work"])) > 10.0, "late threads were mostly missed");
    // The name that a thread gave itself after it was born.
    assert!(stacks.0.iter().any(|stack| stack.comm().starts_with("late-")), "no stack is of a late- thread");
}

#[test]
fn new_threads_are_roots_from_their_first_moment_on() {
    let Some(_turn) = turn() else { return };
    for arguments in [&["20"][..], &["20", "clone"]] {
        let Some(threads) = Running::fixture("newthreads", arguments) else { return };
        let recording = Recording::of_pid_with(threads.pid(), "2s", &["-e", "cpu", "-F", "1999"]);
        let report = recording.report();
        report.assert_whole(200);
        // 4 % of the samples are of threads that have not run an instruction yet.
        assert!(report.complete_percent() >= 99.9, "the others: {}", report.causes());
        let maker = if arguments.len() > 1 { "start_process" } else { "start_thread" };
        recording.stacks().assert_has(&["_start", "main", maker]);
    }
}

#[test]
fn children_are_followed_through_fork_and_exec() {
    let Some(_turn) = turn() else { return };
    let Some(forks) = Running::fixture("forks", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(forks.pid(), "3s");
    recording.report().assert_whole(500);
    let stacks = recording.stacks();
    for function in ["parent_work", "forked_child_work", "executed_child_work"] {
        stacks.assert_has(&["main", function]);
        let share = stacks.percent(|stack| stack.has(&[function]));
        assert!(share > 20.0, "{function} has {share:.1} %, a third was due");
    }
}

#[test]
fn no_children_leaves_children_out() {
    let Some(_turn) = turn() else { return };
    let Some(forks) = Running::fixture("forks", &[UNTIL_ENDED]) else { return };
    let recording = Recording::with(["-p", &forks.pid().to_string(), "-d", "2s", "--no-children"]);
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "parent_work"]);
    for function in ["forked_child_work", "executed_child_work"] {
        assert!(!stacks.any_has(&[function]), "{function} runs in a child only");
    }
}

#[test]
fn exec_replaces_the_code_that_addresses_mean() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("exec", &["1.5", UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "4s");
    let report = recording.report();
    report.assert_whole(500);
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "before_exec"]);
    stacks.assert_has(&["main", "after_exec"]);
    assert!(report.module_percent("exec.second") > 30.0, "most of the time is in the second program");
}

#[test]
fn a_library_loaded_during_the_recording_is_named_and_walked_through() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("dlopen") else { return };
    // From its first instruction on: it loads the library while it is recorded, however late that begins.
    let recording = Recording::with(["--", &program.to_string_lossy(), "1.5", "2.5"]);
    let report = recording.report();
    report.assert_whole(300);
    assert!(report.module_percent("dlopen.plugin.so") > 10.0, "top: {}", report.top());
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "before_plugin"]);
    stacks.assert_has(&["main", "plugin_work", "plugin_inner"]);
    stacks.assert_has(&["main", "plugin_work", "host_callback"]);
}

#[test]
fn generated_code_is_walked_by_its_frame_pointers() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("mmap_code", &[UNTIL_ENDED, "map"]) else { return };
    let recording = Recording::of_pid(program.pid(), "3s");
    let report = recording.report();
    report.assert_whole_or(500, &["jit_end"]);
    // Only a leaf before its frame is built may lack the rest.
    assert!(report.complete_percent() >= 97.0, "{} %: {}", report.complete_percent(), report.causes());
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "call_generated", "called_from_generated"]);
    assert!(
        recording.report().self_percent_containing("generated_") > 5.0,
        "the names in /tmp/perf-PID.map were not used; top: {}",
        recording.report().top()
    );
}

#[test]
fn generated_code_without_a_map_is_no_neighbours_function() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("mmap_code", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    let report = recording.report();
    report.assert_whole_or(300, &["jit_end"]);
    assert!(report.complete_percent() >= 97.0, "{} %: {}", report.complete_percent(), report.causes());
    recording.stacks().assert_has(&["main", "call_generated", "called_from_generated"]);
    let self_shares: f64 =
        ["main", "call_generated"].iter().map(|name| recording.report().self_percent_containing(name)).sum();
    // The loop in the generated page has no name; no one else may be charged with it.
    assert!(self_shares < 5.0, "{self_shares:.1} % of self time went to callers");
}

#[test]
fn a_stripped_program_without_frame_pointers_is_walked_to_the_root() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("stripped", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "3s");
    let report = recording.report();
    report.assert_whole(500);
    assert!(report.module_percent("stripped") > 50.0, "top: {}", report.top());
    // A module without symbols is shown as what it is, with an offset.
    assert!(report.self_percent_containing("stripped+0x") > 50.0, "top: {}", report.top());
    // main, 60 branches, a leaf.
    let deep = recording.stacks().percent(|stack| stack.depth() > 60);
    assert!(deep > 60.0, "only {deep:.1} % of the stacks show the recursion");
}

#[test]
fn go_is_walked_through_its_growing_stacks() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("goburn", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "4s");
    let report = recording.report();
    report.assert_whole(500);
    // How much of its time is the collector's depends on how crowded the machine is. Nothing else calls what counts primes.
    let [recursion, primes] = ["main.recurse", "main.countPrimes"].map(|name| report.total_percent(name));
    let said = format!("recursion {recursion:.1} %, primes {primes:.1} %, top: {}", report.top());
    assert!(recursion > 5.0 && primes > 1.0 && recursion >= 0.97 * primes, "{said}");
    let stacks = recording.stacks();
    stacks.assert_has(&["main.worker", "main.recurse", "main.recurse", "main.countPrimes"]);
    stacks.assert_has(&["main.worker", "main.fillMap"]);
}

#[test]
fn stacks_lead_through_signal_handlers() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("signal", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    recording.report().assert_whole(300);
    recording.stacks().assert_has(&["main", "interrupted_work", "on_timer", "handler_work"]);
}

#[test]
fn stacks_lead_from_an_alternate_signal_stack_back_to_the_threads_own() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("signal", &[UNTIL_ENDED, "alt"]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    recording.report().assert_whole(300);
    recording.stacks().assert_has(&["main", "interrupted_work", "on_timer", "handler_work"]);
}

#[test]
fn time_in_the_kernel_belongs_to_its_user_space_caller() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("syscalls", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    let report = recording.report();
    report.assert_whole(300);
    assert!(report.total_percent("read_zeroes") > 80.0, "top: {}", report.top());
    assert!(report.module_percent("[kernel]") > 50.0, "top: {}", report.top());
}

#[test]
fn user_only_leaves_the_kernel_out() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("syscalls", &[UNTIL_ENDED]) else { return };
    let recording = Recording::with(["-p", &program.pid().to_string(), "-d", "2s", "--user-only"]);
    let kernel = recording.report().module_percent("[kernel]");
    assert!(kernel == 0.0, "{kernel:.1} % of self time is in the kernel");
}

#[test]
fn processes_of_a_few_milliseconds_keep_their_names() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("shortlived", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "3s");
    let stacks = recording.stacks();
    // Half the time is fork, exec, the loader and exit.
    let named = stacks.percent(|stack| stack.has(&["main", "short_work"]));
    assert!(named > 25.0, "only {named:.1} % is seen in short_work");
}

/// Detail 4 of the promises: what share of the stacks is complete, what breaks the others, and what mends them.
#[test]
fn a_module_that_breaks_stacks_is_named() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("noinfo", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    let report = recording.report();
    report.assert_enough(50);
    assert!(report.complete_percent() < 3.0, "no walk can be complete here, {}", report.complete_percent());
    // What lies below the break is right all the same.
    assert!(report.total_percent("below_the_break") > 80.0, "top: {}", report.top());
    assert!(!recording.stacks().any_has(&["below_the_break", "below_the_break"]), "a caller was made up");
    let printed = recording.report_text(&[]);
    assert!(printed.contains("noinfo.broken.so"), "the report does not name the module:\n{printed}");
}
