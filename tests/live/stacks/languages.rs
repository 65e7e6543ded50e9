//! Languages and their run-time systems: generated code, Go, and what else keeps stacks of its own kind.

use crate::harness::fixture;
use crate::harness::machine::{tool_or_skip, turn};
use crate::harness::profiler::{Recording, Stack};
use crate::harness::running::{Running, UNTIL_ENDED};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;

#[test]
fn a_generated_function_interrupted_at_its_first_or_last_instruction_keeps_its_caller() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("jit_leaf", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    recording.report().assert_whole(300);
    let stacks = recording.stacks();
    let leaves = stacks.percent(|stack| stack.has(&["generated_leaf"]));
    assert!(leaves > 40.0, "only {leaves:.1} % of the samples are in the leaf");
    let whole =
        stacks.percent(|stack| stack.has(&["main", "call_generated", "generated_caller", "generated_leaf"]));
    assert!(leaves - whole < 0.2, "{leaves:.1} % in the leaf, {whole:.1} % with its callers");
}

#[test]
fn names_of_generated_code_are_found_inside_a_container() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("jit_leaf") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut command = Command::new(fixture::sources().join("container.sh"));
    command.arg(folder.path()).arg(program).arg(UNTIL_ENDED);
    // The first process of a PID namespace heeds no other signal.
    let container = Running::start_ready(&mut command).ended_by(Signal::KILL);
    // Its map is called after the number that it has inside, in the /tmp that it sees.
    let recording = Recording::of_pid(container.descendant("jit_leaf"), "1s");
    recording.stacks().assert_has(&["main", "call_generated", "generated_caller", "generated_leaf"]);
}

#[test]
fn stacks_lead_from_go_through_c_and_back_without_symbols() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("gocgo") else { return };
    check_go_and_c(&program);
}

#[test]
fn stacks_lead_from_go_through_c_and_back_in_the_distributions_version_of_go() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build_by_distribution("gocgo", "go") else { return };
    check_go_and_c(&program);
}

#[test]
fn a_shared_library_of_go_has_whole_stacks_while_they_are_moved() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("golibrary", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    // Walks from copies, until all tables are in the kernel, lack the runtime's data.
    let allowed: &[&str] = if recording.was_crowded { &["no_unwind_info"] } else { &[] };
    recording.report().assert_whole_or(300, allowed);
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "into_go", "goClimb", "main.climb", "main.climb"]);
    let moved = stacks.percent(|stack| stack.has(&["runtime.newstack", "runtime.copystack"]));
    let of_somebody =
        stacks.percent(|stack| stack.has(&["main.climb", "runtime.morestack", "runtime.copystack"]));
    assert!(
        moved > 5.0 && moved - of_somebody < 0.2,
        "{moved:.2} % move a stack, {of_somebody:.2} % of whom"
    );
}

fn check_go_and_c(program: &Path) {
    let program = Running::start_ready(Command::new(program).arg(UNTIL_ENDED));
    let recording = Recording::of_pid(program.pid(), "4s");
    // Until all tables are in the kernel, stacks are walked from copies, which lack the runtime's data that lead from C back
    // to Go: for a tenth of a second, and for longer on a crowded machine.
    const AFTER_THE_START: [&str; 2] = ["--time", "1s.."];
    let allowed: &[&str] = if recording.was_crowded { &["no_unwind_info"] } else { &[] };
    recording.report_with(&AFTER_THE_START).assert_whole_or(500, allowed);
    let stacks = recording.stacks_with(&AFTER_THE_START);
    stacks.assert_has(&["runtime.goexit", "main.main", "main.intoC", "main.spinInGo"]);
    stacks.assert_has(&["runtime.goexit", "main.grow", "main.grow", "main.spinInGo"]);
    // A stack is moved to a larger place by the thread's own, from where only the runtime's data lead back. Walks from copies
    // end there.
    let is_late = |stack: &Stack| recording.was_crowded && stack.is_cut();
    let moved =
        stacks.percent(|stack| !is_late(stack) && stack.has(&["runtime.newstack", "runtime.copystack"]));
    let of_somebody = stacks.percent(|stack| {
        stack.has(&[
            "runtime.goexit",
            "main.climb",
            "runtime.morestack",
            "runtime.newstack",
            "runtime.copystack",
        ]) || stack.has(&["runtime.goexit", "main.grow", "runtime.newstack", "runtime.copystack"])
    });
    assert!(
        moved > 0.5 && moved - of_somebody < moved / 20.0,
        "{moved:.2} % move a stack, {of_somebody:.2} % of whom"
    );
    // C code has no names here, and lies between Go's frames and asmcgocall. How many walks end early was asserted above.
    let in_c = stacks.percent(|stack| stack.has(&["runtime.asmcgocall"]) && !stack.is_cut());
    let from_go = stacks.percent(|stack| {
        stack.has(&["main.main", "main.intoC"]) && stack.calls("runtime.cgocall", "runtime.asmcgocall")
    });
    assert!(in_c > 5.0 && in_c - from_go < 0.2, "{in_c:.1} % are in C, {from_go:.1} % with their Go callers");
    // The clock is read on the thread's own stack.
    let clock = stacks.percent(|stack| stack.has(&["main.readClock"]));
    const ROOTS: [&str; 4] = ["runtime.goexit", "runtime.mcall", "runtime.morestack", "runtime.mstart"];
    let is_orphan = |stack: &Stack| {
        stack.has(&["__vdso_clock_gettime"])
            && !is_late(stack)
            && !ROOTS.iter().any(|root| stack.has(&[root, "__vdso_clock_gettime"]))
    };
    let orphans = stacks.percent(is_orphan);
    assert!(clock > 5.0 && orphans < 0.3, "{clock:.1} % read the clock, {orphans:.2} % for nobody");
    // So is memory collected, for functions that `systemstack` was called by, not for theirs.
    let collecting = stacks.percent(|stack| stack.calls("runtime.gcBgMarkWorker", "runtime.systemstack"));
    assert!(collecting > 0.1, "only {collecting:.2} % collect garbage");
    let without_caller = |stack: &Stack| stack.calls("runtime.goexit", "runtime.systemstack");
    assert!(!stacks.0.iter().any(without_caller), "systemstack is called by goexit");
}

#[test]
fn a_parent_is_whole_inside_vfork_and_posix_spawn() {
    check_vfork("spawner");
}

#[test]
fn a_parent_is_whole_inside_vfork_of_musl() {
    check_vfork("spawner_musl");
}

fn check_vfork(fixture: &str) {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture(fixture, &[UNTIL_ENDED]) else { return };
    let recording = Recording::with(["-p", &program.pid().to_string(), "-d", "2s", "--no-children"]);
    recording.report().assert_whole(50);
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "by_vfork"]);
    stacks.assert_has(&["main", "by_posix_spawn"]);
    let in_vfork = |name: &str| stacks.percent(|stack| stack.has(&["main", "by_vfork", name]));
    let inside = ["vfork", "__vfork", "__libc_vfork"].map(in_vfork).into_iter().fold(0.0, f64::max);
    assert!(inside > 1.0, "only {inside:.1} % were seen inside vfork");
}

#[test]
fn go_without_symbols_keeps_its_caller_while_it_starts_programs() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("gospawner") else { return };
    check_go_vfork(&program);
}

#[test]
fn go_of_the_distribution_keeps_its_caller_while_it_starts_programs() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build_by_distribution("gospawner", "go") else { return };
    check_go_vfork(&program);
}

fn check_go_vfork(program: &Path) {
    const INSIDE: &str = "syscall.rawVforkSyscall";
    let program = Running::start_ready(Command::new(program).arg(UNTIL_ENDED));
    let recording = Recording::with(["-p", &program.pid().to_string(), "-d", "2s", "--no-children"]);
    recording.report().assert_whole(50);
    let stacks = recording.stacks();
    let inside = stacks.percent(|stack| stack.has(&[INSIDE]));
    let of_caller = stacks.percent(|stack| {
        stack.has(&["runtime.goexit", "main.main"]) && stack.calls("syscall.forkAndExecInChild1", INSIDE)
    });
    assert!(
        inside > 1.0 && inside - of_caller < 0.2,
        "{inside:.1} % are inside, {of_caller:.1} % with the caller"
    );
}

#[test]
fn a_static_program_under_another_name_is_whole_in_every_thread() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("disguised", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    recording.report().assert_whole(300);
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "in_thread", "work"]);
    stacks.assert_has(&["start_thread", "in_thread", "work"]);
    assert!(stacks.0.iter().all(|stack| !stack.comm().contains([';', '\n'])), "a name is data, not syntax");
}

#[test]
fn a_32_bit_program_is_named_as_such_and_not_walked() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("loop32") else { return };
    let program = Running::start(&mut Command::new(program));
    let recording = Recording::of_pid(program.pid(), "1s");
    let report = recording.report();
    report.assert_enough(100);
    assert!(report.cause_percent("compat_32") > 99.0, "the causes are {}", report.causes());
    let deepest = recording.stacks().0.iter().map(|stack| stack.depth()).max();
    // The command's name, the mark, the leaf, and the kernel's frames of an interrupt.
    let has_caller = recording.stacks().any_has(&["_start"]) || recording.stacks().any_has(&["outer"]);
    assert!(!has_caller, "a caller was made up; the deepest stack has {deepest:?} frames");
}

#[test]
fn luajit_is_whole_in_its_interpreter_and_honest_in_generated_code() {
    let Some(_turn) = turn() else { return };
    let Some(luajit) = tool_or_skip("luajit") else { return };
    let code = "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
        while true do
            local t = {}
            for i = 1, 2000 do t[i] = tostring(i * 7919 % 10007) end
            table.sort(t)
            table.concat(t, ' '):gsub('1', '2')
            fib(18)
        end";
    // The one entry for the whole interpreter is wrong in its few helper routines: one stack in fifty.
    const WRONG_ENTRY: [&str; 2] = ["unknown_mapping", "bad_unwind_info"];
    for (mode, least_complete) in [("-joff", 95.0), ("-jon", 10.0)] {
        let program = Running::start(Command::new(&luajit).args([mode, "-e", code]));
        let recording = Recording::of_pid(program.pid(), "2s");
        let report = recording.report();
        report.assert_whole_or(300, &["jit_end", WRONG_ENTRY[0], WRONG_ENTRY[1]]);
        assert!(report.complete_percent() > least_complete, "{mode}: {}", report.causes());
        assert!(mode == "-jon" || report.cause_percent("jit_end") == 0.0, "{mode}: {}", report.causes());
    }
}

#[test]
fn node_is_whole_through_its_generated_code_with_the_names_of_its_map() {
    let Some(_turn) = turn() else { return };
    let Some(node) = tool_or_skip("node") else { return };
    let code = "function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
        function innermost(s) { return fibonacci(15) + s.replace(/a+/g, m => m.length).length; }
        function* numbers() { for (let i = 0; i < 500; i++) yield i; }
        while (true) {
            const list = [...numbers()].map(i => ({ key: 'k' + i, text: 'a'.repeat(i % 9) }));
            JSON.parse(JSON.stringify(list)).sort((a, b) => a.key < b.key ? -1 : 1).forEach(o => innermost(o.text));
        }";
    // It writes a log into the folder it is in.
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut command = Command::new(node);
    command.args(["--perf-basic-prof", "-e", code]).current_dir(folder.path());
    let program = Running::start(&mut command);
    program.let_it_start();
    let recording = Recording::of_pid(program.pid(), "3s");
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", program.pid()));
    let report = recording.report();
    // Built-in functions without a frame that cannot be followed (V8's `Copy`) end stacks, and say so.
    report.assert_whole_or(500, &["no_unwind_info"]);
    assert!(
        report.complete_percent() + report.late_percent() >= 97.0,
        "{} %, the rest: {}",
        report.complete_percent(),
        report.causes()
    );
    // Without the functions that V8 itself tells of: they stand for its machinery, and for the map.
    let below = recording
        .stacks_with(&["--runtime", "off"])
        .percent(|stack| stack.has(&["_start", "Builtins_JSEntry"]) && stack.any_contains("fibonacci"));
    assert!(below > 5.0, "only {below:.1} % show the function above node's own; top: {}", report.top());
}

#[test]
fn java_is_whole_with_frame_pointers_and_claims_nothing_without() {
    let Some(_turn) = turn() else { return };
    let (Some(java), Some(_)) = (tool_or_skip("java"), tool_or_skip("javac")) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let source = folder.path().join("Busy.java");
    let code = "public class Busy {
        static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
        static long inner(int n) { long s = 0; for (int i = 0; i < n; i++) s += fib(i % 20); return s; }
        public static void main(String[] a) { long s = 0; while (true) s += inner(50 + (int) (s & 1)); } }";
    std::fs::write(&source, code).expect("a temporary file can be written");
    for (flag, is_framed) in [("+", true), ("-", false)] {
        let flag = format!("-XX:{flag}PreserveFramePointer");
        let program = Running::start(Command::new(&java).arg(flag).arg(&source));
        std::thread::sleep(std::time::Duration::from_secs(3));
        // Without what the machine says of its code.
        let recording = Recording::of_pid_with(program.pid(), "2s", &["--runtime", "off"]);
        if is_framed {
            recording.report().assert_whole(300);
        } else {
            recording.report().assert_whole_or(300, &["jit_end"]);
            let claimed = recording.report().complete_percent();
            // The JVM's own threads compile and collect.
            assert!(
                claimed < 50.0,
                "{claimed:.1} % claim to be complete through frames without frame pointers"
            );
        }
    }
}
