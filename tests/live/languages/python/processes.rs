//! Processes and programs in which an interpreter is found: forked, spawned, executed, in a virtual environment, under
//! another profiler's option, embedded.

use crate::harness::fixture;
use crate::harness::machine::{skip, turn};
use crate::harness::profiler::Recording;
use crate::harness::running::{Running, UNTIL_ENDED, children};
use crate::languages::python::interpreters::{Python, of_distribution, of_pyenv, script};
use crate::languages::recorded::{RunSample, RunStacks};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The functions that the processes and threads of the program end in.
const WORK: [&str; 5] = ["in_fork", "in_spawn", "in_pool", "in_thread", "after_exec"];

/// What a process whose work is `name` does not have on its stacks.
fn are_strangers(name: &str, sample: &RunSample) -> bool {
    sample.run().iter().any(|step| step.name != name && WORK.contains(&step.name.as_str()))
}

/// A process and all that come of it.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while next < all.len() {
        all.extend(children(all[next]));
        next += 1;
    }
    all
}

fn check_family(program: &Path, version: &str) {
    let running = Running::start_ready(Command::new(program).arg(script("family.py")));
    let recording = Recording::of_pids_with(&family(running.pid()), "3s", &[]);
    let stacks = RunStacks::read(&recording.file());
    let working: Vec<&RunSample> =
        stacks.samples.iter().filter(|sample| sample.run().iter().any(|step| step.name == "burn")).collect();
    for name in WORK {
        let of_it: Vec<&&RunSample> =
            working.iter().filter(|sample| sample.run().iter().any(|step| step.name == name)).collect();
        assert!(of_it.len() > 5, "python {version}: {} samples in {name}", of_it.len());
        let wrong = of_it.iter().find(|sample| are_strangers(name, sample));
        assert!(wrong.is_none(), "python {version}: {:?}", wrong.map(|sample| sample.text()));
    }
    let bare = stacks.samples.iter().filter(|sample| sample.has_loop() && sample.run().is_empty());
    let (bare, all) = (bare.count(), stacks.samples.len());
    assert!(bare <= 1 + all / 100, "python {version}: {bare} of {all} samples have no functions");
}

#[test]
fn children_and_successors_of_an_interpreter_have_their_own_functions() {
    let Some(_turn) = turn() else { return };
    for Python { version, program, .. } in of_distribution().into_iter().chain(of_pyenv(13)) {
        check_family(&program, &version);
    }
}

/// The program that forks is recorded from its start on: all of its processes appear meanwhile.
#[test]
fn processes_that_appear_have_their_functions() {
    let Some(_turn) = turn() else { return };
    let Some(python) = of_distribution() else { return };
    let program = python.program.to_str().expect("a path is text");
    let script = script("family.py");
    let script = script.to_str().expect("a path is text");
    // `timeout` ends all of them, and says so.
    let recording = Recording::ending_with(124, ["--", "timeout", "8", program, script]);
    let stacks = RunStacks::read(&recording.file());
    for name in WORK {
        let found = stacks.samples.iter().any(|sample| sample.run().iter().any(|step| step.name == name));
        // On a crowded machine it may not have come so far.
        assert!(found || recording.was_crowded, "no sample in {name}");
    }
    let mut samples_of: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for sample in stacks.samples.iter().filter(|sample| sample.has_loop()) {
        let (all, bare) = samples_of.entry(sample.pid).or_default();
        *all += 1;
        *bare += u32::from(sample.run().is_empty());
    }
    let nameless = samples_of.iter().find(|(_, (all, bare))| *all > 50 && all == bare);
    assert!(nameless.is_none(), "a process has no functions at all: {nameless:?} of {samples_of:?}");
}

/// Stacks of chains.py with a call of C code between functions.
fn check_chains(command: &mut Command, what: &str) {
    let running = Running::start_ready(command);
    let recording = Recording::of_pid(running.pid(), "2s");
    let stacks = RunStacks::read(&recording.file());
    let path = ["<module>", "run", "round", "by_sort", "sort_key", "sub", "replaced", "burn_once"];
    let has_path = |sample: &&RunSample| sample.run().iter().map(|step| step.name.as_str()).eq(path);
    let found = stacks.samples.iter().filter(has_path).count();
    assert!(found > 0, "{what}: no stack of {} is {path:?}", stacks.samples.len());
    let samples = stacks.samples.iter().filter(|sample| sample.has_loop());
    let bare = samples.clone().filter(|sample| sample.run().is_empty() || sample.is_unplaced()).count();
    let all = samples.count();
    assert!(bare <= 1 + all / 100, "{what}: {bare} of {all} samples have no functions");
}

#[test]
fn a_virtual_environment_has_the_interpreter_that_it_was_made_of() {
    let Some(_turn) = turn() else { return };
    let Some(python) = of_distribution() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let made = Command::new(&python.program)
        .args(["-m", "venv", "--without-pip"])
        .arg(folder.path())
        .output()
        .expect("an interpreter can be run");
    if !made.status.success() {
        skip::<()>("the distribution's python has no venv");
        return;
    }
    check_chains(Command::new(folder.path().join("bin/python")).arg(script("chains.py")), "venv");
}

/// With `-X perf` each function is called through generated code.
#[test]
fn functions_are_the_same_under_the_interpreters_own_support_for_profilers() {
    let Some(_turn) = turn() else { return };
    for minor in [12, 13] {
        let Some(python) = of_pyenv(minor) else { continue };
        let mut command = Command::new(&python.program);
        check_chains(command.args(["-X", "perf"]).arg(script("chains.py")), &format!("3.{minor} -X perf"));
    }
}

#[test]
fn a_program_with_an_interpreter_in_it_has_its_functions() {
    let Some(_turn) = turn() else { return };
    const CONFIG: &str = "/usr/bin/python3.11-config";
    if !Path::new(CONFIG).exists() {
        skip::<()>(&format!("{CONFIG} is not installed"));
        return;
    }
    let flags = Command::new(CONFIG).args(["--embed", "--cflags", "--ldflags"]).output();
    let flags = flags.expect("it can be run").stdout;
    let program = fixture::once("embedded", |program| {
        let status = Command::new("cc")
            .arg("-o")
            .arg(program)
            .arg(fixture::sources().join("python/embedded.c"))
            .args(String::from_utf8_lossy(&flags).split_whitespace())
            .status();
        assert!(status.expect("cc can be run").success(), "the program can be built");
    });
    let running = Running::start_ready(Command::new(program).arg(UNTIL_ENDED));
    assert!(children(running.pid()).is_empty());
    let recording = Recording::of_pid(running.pid(), "2s");
    recording.complete_names();
    let stacks = recording.stacks_with(&["--runtime", "folded"]);
    stacks.assert_has(&["main", "from_c", "<module>", "outer", "inner"]);
}
