//! Code that appears, goes or hides while it is recorded: programs of a few milliseconds, exec, libraries that take
//! each other's place, files without a name, more mappings than a list holds, and addresses that the kernel swaps.

use crate::harness::fixture;
use crate::harness::machine::{skip, turn, turn_alone};
use crate::harness::profiler::{Recording, Report};
use crate::harness::running::{Running, UNTIL_ENDED};
use perf_event_open_sys::bindings::perf_event_attr;
use std::ffi::CString;
use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

/// CPU time that the fixture `brief` uses by its own clock each time it is executed, seconds.
const BRIEF_SECONDS: f64 = 0.03;

/// Rate at which brief programs are recorded, Hz.
const HZ: f64 = 4999.0;

/// No sample of `runs` runs of `brief` is missing, and nearly all have whole stacks.
fn assert_whole_from_the_first(report: &Report, runs: u32) {
    let least_samples = 0.95 * f64::from(runs) * BRIEF_SECONDS * HZ;
    assert_eq!(report.lost(), 0, "samples were lost");
    assert!(report.samples() as f64 >= least_samples, "{} samples, not {least_samples}", report.samples());
    assert!(
        report.complete_percent() + report.late_percent() >= 95.0,
        "{} %: {}",
        report.complete_percent(),
        report.causes()
    );
}

#[test]
fn a_program_of_thirty_milliseconds_has_whole_stacks() {
    let Some(_turn) = turn() else { return };
    let Some(brief) = fixture::build("brief") else { return };
    let recording = Recording::with([Path::new("-F"), Path::new("4999"), Path::new("--"), &brief]);
    assert_whole_from_the_first(&recording.report(), 1);
    recording.stacks().assert_has(&["_start", "main", "brief_work", "inner_work"]);
}

#[test]
fn brief_programs_that_a_shell_starts_have_whole_stacks() {
    let Some(_turn) = turn() else { return };
    let Some(brief) = fixture::build("brief") else { return };
    let brief = brief.to_str().expect("the target folder's path is text");
    let script = format!("'{brief}'; '{brief}'; '{brief}'");
    let recording = Recording::with(["-F", "4999", "--", "sh", "-c", &script]);
    assert_whole_from_the_first(&recording.report(), 3);
    recording.stacks().assert_has(&["main", "brief_work", "inner_work"]);
}

#[test]
fn brief_programs_have_whole_stacks_when_the_whole_machine_is_recorded() {
    let Some(_turn) = turn_alone() else { return };
    let Some(brief) = fixture::build("brief") else { return };
    // A program that no one has seen before: the copy's inode is new.
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let copy = folder.path().join("brief-copy");
    fs::copy(brief, &copy).expect("a program can be copied");
    let script = format!("sleep 1; for i in 1 2 3 4 5; do '{}'; done", copy.display());
    let recording = Recording::with(["-a", "-F", "4999", "--", "sh", "-c", &script]);
    let stacks = recording.stacks();
    let is_brief = |stack: &crate::harness::profiler::Stack| stack.comm() == "brief-copy";
    let seconds = |matches: &dyn Fn(&crate::harness::profiler::Stack) -> bool| {
        let weights_ns = stacks.0.iter().filter(|stack| matches(stack)).map(|stack| stack.weight);
        weights_ns.sum::<u64>() as f64 * 1e-9
    };
    let all = seconds(&is_brief);
    let whole = seconds(&|stack| is_brief(stack) && !stack.is_cut());
    assert_eq!(recording.report().lost(), 0, "samples were lost");
    // Each sample weighs one period.
    assert!(all >= 0.95 * 5.0 * BRIEF_SECONDS, "only {:.0} samples are of the program", all * HZ);
    // Where the CPUs are busy with other programs, theirs may be the tables that are made first. That is said then.
    let is_late = |stack: &crate::harness::profiler::Stack| {
        let late = ["table not loaded", "unknown mapping"];
        is_brief(stack) && late.iter().any(|cause| stack.any_contains(cause))
    };
    let late = if recording.was_crowded { seconds(&is_late) } else { 0.0 };
    assert!(whole + late >= 0.95 * all, "{whole:.4} of {all:.4} s; {}", recording.report().causes());
    stacks.assert_has(&["_start", "main", "brief_work", "inner_work"]);
}

#[test]
fn a_program_that_executes_itself_again_and_again_has_whole_stacks() {
    let Some(_turn) = turn() else { return };
    let Some(brief) = fixture::build("brief") else { return };
    let recording =
        Recording::with([Path::new("-F"), Path::new("4999"), Path::new("--"), &brief, Path::new("20")]);
    assert_whole_from_the_first(&recording.report(), 21);
    let stacks = recording.stacks();
    assert!(!stacks.any_has(&["inner_work", "inner_work"]), "two programs in one stack");
    stacks.assert_has(&["_start", "main", "brief_work", "inner_work"]);
}

#[test]
fn libraries_that_take_each_others_place_are_never_confused() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("reload", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid_with(program.pid(), "3s", &["-F", "1999"]);
    let report = recording.report();
    report.assert_enough(500);
    assert!(report.complete_percent() + report.late_percent() >= 95.0, "{}", report.causes());
    let stacks = recording.stacks();
    stacks.assert_has(&["main", "in_first", "plugin_work", "first_work", "host_callback"]);
    stacks.assert_has(&["main", "in_second", "plugin_work", "second_work", "host_callback"]);
    for stack in &stacks.0 {
        for (host, other) in [("in_first", "second_work"), ("in_second", "first_work")] {
            assert!(!stack.has(&[host, other]), "{other} is not called by {host}");
        }
        // No wrong rule may lead past a caller: who is in a library was called by main, if the stack is whole.
        let is_in_library = stack.has(&["first_work"]) || stack.has(&["second_work"]);
        assert!(
            stack.is_cut() || !is_in_library || stack.has(&["main", "plugin_work"]),
            "a caller is missing"
        );
    }
}

#[test]
fn more_mappings_than_the_list_holds_are_walked_through() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("many_mappings", &[UNTIL_ENDED]) else { return };
    let maps = fs::read_to_string(format!("/proc/{}/maps", program.pid())).expect("the program runs");
    let code = maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|flags| flags.contains('x')));
    assert!(code.count() > 400, "the program did not map what it should");
    let recording = Recording::of_pid(program.pid(), "2s");
    let report = recording.report();
    report.assert_whole(300);
    recording.stacks().assert_has(&["_start", "main", "through_copy", "called_back"]);
    // A walk may ask for one mapping; here it needs two that the list has no room for.
    let rescued = recording.info()["rescued"].as_u64().unwrap_or(0);
    assert!(rescued as f64 >= 0.95 * report.samples() as f64, "{rescued} of {} rescued", report.samples());
}

/// Number of the first CPU that this process may run on.
fn first_allowed_cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").expect("own status");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.expect("the status names the CPUs").trim();
    list.split([',', '-']).next().expect("there is a CPU").to_owned()
}

#[test]
fn stack_copies_beyond_the_cap_are_refused_and_counted() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("many_mappings") else { return };
    // Stacks of more than 16 KiB are copied with 64 KiB: of 4,999 a second on one CPU, 128 MiB have room for 2,048. A
    // recording begins and ends within such a second.
    let most_in = |seconds: u64| (seconds + 2) * (128 << 20) / (64 << 10);
    let mut command = Command::new("nice");
    command
        .args(["-n", "-10", "taskset", "-c", &first_allowed_cpu()])
        .arg(program)
        .args([UNTIL_ENDED, "24000"]);
    let program = Running::start_ready(&mut command);
    let recording =
        Recording::with(["-p", &program.pid().to_string(), "-e", "cpu", "-F", "4999", "-d", "2s"]);
    let (report, counters) = (recording.report(), recording.info());
    let [rescued, refused] =
        ["rescued", "rescue_refused"].map(|counter| counters[counter].as_u64().unwrap_or(0));
    let samples = report.samples();
    assert!(refused > 0, "none refused of {samples}: {counters}");
    let most = most_in(report.duration_seconds() as u64);
    assert!(rescued > 1000 && rescued <= most, "{rescued} of {samples} rescued, not {most}: {counters}");
    let judged = rescued + refused;
    assert!(judged as f64 >= 0.99 * samples as f64, "{judged} of {samples} rescued or refused: {counters}");
    // What is refused says so; what is rescued is whole.
    let cut = report.cause_samples("unknown_mapping");
    // The recorder may hear late of a mapping, and finishes some stacks by itself.
    assert!(cut.abs_diff(refused) <= samples / 20, "{refused} refused, {cut} cut: {}", report.causes());
    let whole = report.complete_percent() + report.cause_percent("unknown_mapping");
    assert!(whole >= 99.0, "{whole:.2} %: {}", report.causes());
}

#[test]
fn a_program_without_a_name_in_any_folder_is_named_and_walked() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("memfd", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    recording.report().assert_whole(300);
    recording.stacks().assert_has(&["_start", "main", "nameless_work"]);
}

#[test]
fn a_program_that_was_deleted_or_replaced_is_named_by_the_file_that_runs() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = fixture::build("shares") else { return };
    let Some(other) = fixture::build("syscalls") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for is_replaced in [false, true] {
        let path = folder.path().join(format!("gone-{is_replaced}"));
        fs::copy(&shares, &path).expect("a program can be copied");
        let program = Running::start_ready(Command::new(&path).arg(UNTIL_ENDED));
        fs::remove_file(&path).expect("a running program can be deleted");
        if is_replaced {
            fs::copy(&other, &path).expect("a program can be copied");
        }
        let recording = Recording::of_pid(program.pid(), "1s");
        recording.report().assert_whole(150);
        recording.stacks().assert_has(&["_start", "main", "one_round", "share_fifty"]);
        assert!(
            !recording.stacks().any_has(&["read_zeroes"]),
            "names come from the file that lies there now"
        );
    }
}

/// Runs a script in a folder of programs and records it.
fn record_script(folder: &Path, script: &str) -> Recording {
    let script = format!("cd '{}'; {script}", folder.display());
    Recording::with(["-F", "1999", "--", "sh", "-ec", &script])
}

#[test]
fn a_program_that_is_rewritten_in_place_is_walked_and_named_by_its_new_build() {
    let Some(_turn) = turn() else { return };
    let Some(old) = fixture::build("mapcalls") else { return };
    let Some(new) = fixture::build("shares") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (name, program) in [("old", old), ("new", new)] {
        fs::copy(program, folder.path().join(name)).expect("a program can be copied");
    }
    // The kernel's name of a program is that of the link it was started by.
    let script = "cp old here; ln -s here first; ln -s here second; ./first 1; cat new > here; ./second 1";
    let recording = record_script(folder.path(), script);
    let report = recording.report();
    report.assert_enough(500);
    assert!(report.complete_percent() + report.late_anywhere_percent() >= 95.0, "{}", report.causes());
    let stacks = recording.stacks();
    assert!(stacks.any_has(&["_start", "main", "one_round", "share_fifty"]));
    let of = |name: &str| stacks.0.iter().filter(|stack| stack.comm() == name).collect::<Vec<_>>();
    assert!(!of("first").is_empty() && !of("second").is_empty(), "a program is missing");
    for stack in of("first") {
        assert!(!stack.any_contains("one_round"), "the old build is named by the new one");
    }
    for stack in of("second") {
        // At its end a process has no user stack any more.
        let is_in_program = ["share_", "burn_ns", "here+"].iter().any(|part| stack.any_contains(part));
        assert!(
            stack.is_cut() || !is_in_program || stack.has(&["_start", "main"]),
            "a stack without its root is called complete"
        );
    }
}

#[test]
fn a_library_that_is_rewritten_in_place_is_walked_and_named_by_its_new_build() {
    let Some(_turn) = turn() else { return };
    let Some(reload) = fixture::build("reload") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let plugin = |which: &str| reload.with_file_name(format!("reload.plugin{which}.so"));
    for which in ["1", "2"] {
        fs::copy(plugin(which), folder.path().join(format!("build{which}"))).expect("it can be copied");
    }
    for name in ["before", "after"] {
        fs::copy(&reload, folder.path().join(name)).expect("a program can be copied");
    }
    let script = "cp build1 lib1.so; cp build2 lib2.so; \
                  for name in before after; do for i in 1 2; do ln -s lib$i.so $name.plugin$i.so; done; done; \
                  ./before 1; cat build2 > lib1.so; cat build1 > lib2.so; ./after 1";
    let recording = record_script(folder.path(), script);
    let report = recording.report();
    report.assert_enough(500);
    assert!(report.complete_percent() + report.late_anywhere_percent() >= 95.0, "{}", report.causes());
    let stacks = recording.stacks();
    // Each of the two libraries holds now what the other held.
    stacks.assert_has(&["main", "in_first", "plugin_work", "second_work", "host_callback"]);
    stacks.assert_has(&["main", "in_second", "plugin_work", "first_work", "host_callback"]);
    let of = |name: &str| stacks.0.iter().filter(|stack| stack.comm() == name).collect::<Vec<_>>();
    assert!(of("before").iter().any(|stack| stack.has(&["main", "in_first"])), "nothing ran before");
    for stack in of("before") {
        // The bytes that ran are gone by the end: they have the names that were read in time, or none, but never those
        // of the bytes that are there now.
        for (host, other) in [("in_first", "second_work"), ("in_second", "first_work")] {
            assert!(!stack.has(&[host, other]), "{other} is not called by {host}");
        }
        let is_past_library = stack.has(&["host_callback"]);
        assert!(stack.is_cut() || !is_past_library || stack.has(&["main"]), "a caller is missing");
    }
    for stack in of("after") {
        for (host, other) in [("in_first", "first_work"), ("in_second", "second_work")] {
            assert!(!stack.has(&[host, other]), "{other} is not called by {host}");
        }
    }
}

#[test]
fn a_vsyscall_is_a_frame_of_its_own() {
    let Some(_turn) = turn() else { return };
    let maps = fs::read_to_string("/proc/self/maps").expect("own maps");
    if !maps.contains("[vsyscall]") {
        skip::<()>("this kernel has no vsyscall page");
        return;
    }
    let Some(program) = Running::fixture("vsyscall", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "2s");
    let report = recording.report();
    report.assert_whole(50);
    recording.stacks().assert_has(&["_start", "main", "ask_for_the_time", "[vsyscall]+0x400"]);
    assert!(report.total_percent("ask_for_the_time") > 95.0, "top: {}", report.top());
}

/// Sets a uprobe, or a uretprobe, on a function of a running program, as other tools do; it stays as long as the
/// descriptor. The function's address has to be its offset in the file.
fn set_probe(program: &Path, pid: u32, function: &str, is_return: bool) -> OwnedFd {
    let output = Command::new("readelf").args(["-sW"]).arg(program).stderr(Stdio::null()).output();
    let symbols = String::from_utf8(output.expect("readelf can be run").stdout).expect("readelf prints text");
    let line = symbols.lines().find(|line| line.split_whitespace().last() == Some(function));
    let address = line.and_then(|line| line.split_whitespace().nth(1)).expect("the function has a symbol");
    let kind = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").expect("uprobes exist");
    let path = CString::new(program.to_str().expect("a path of text")).expect("a path has no NUL");
    let mut attr = perf_event_attr {
        type_: kind.trim().parse().expect("a type is a number"),
        size: size_of::<perf_event_attr>() as u32,
        config: u64::from(is_return),
        ..perf_event_attr::default()
    };
    attr.__bindgen_anon_3.config1 = path.as_ptr() as u64;
    attr.__bindgen_anon_4.config2 = u64::from_str_radix(address, 16).expect("an address is a number");
    // SAFETY: `attr` and the path it points to live until the call returns; on success it gives a new descriptor.
    unsafe {
        let fd = perf_event_open_sys::perf_event_open(&raw mut attr, pid as i32, -1, -1, 0);
        assert!(fd >= 0, "no probe on {function}: {}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

#[test]
fn return_addresses_that_uretprobes_replaced_are_put_back() {
    let Some(_turn) = turn() else { return };
    if !Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        skip::<()>("this kernel has no uprobes");
        return;
    }
    let Some(program) = fixture::build("shares") else { return };
    let shares = Running::start_ready(Command::new(&program).arg(UNTIL_ENDED));
    let _probes = [("one_round", true), ("share_fifty", true), ("share_thirty", false)]
        .map(|(function, is_return)| set_probe(&program, shares.pid(), function, is_return));
    let recording = Recording::of_pid(shares.pid(), "2s");
    recording.report().assert_whole(300);
    let stacks = recording.stacks();
    stacks.assert_has(&["_start", "main", "one_round", "share_fifty"]);
    let share = stacks.percent(|stack| stack.has(&["main", "one_round"]));
    assert!(share > 95.0, "only {share:.1} % of the stacks lead through the probed function");
    assert!(!stacks.0.iter().any(|stack| stack.any_contains("uprobes")), "the trampoline is shown");
}
