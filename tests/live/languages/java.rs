//! Methods of Java in stacks: whole stacks with the options that a Java machine has by itself, calls against the source.

use crate::harness::fixture;
use crate::harness::machine::{tool_or_skip, turn};
use crate::harness::profiler::{Recording, prof, text};
use crate::harness::running::Running;
use crate::languages::recorded::{RunSample, RunStacks, Step};
use prof::internals::profile::Outcome;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const SOURCE: &str = "Chains.java";

fn source() -> PathBuf {
    fixture::sources().join("java").join(SOURCE)
}

/// Starts the program with options of the Java machine; `None` where there is none.
fn started(folder: &Path, options: &[&str]) -> Option<Running> {
    let (java, javac) = (tool_or_skip("java")?, tool_or_skip("javac")?);
    let compiled = Command::new(javac).arg("-g").arg("-d").arg(folder).arg(source()).status();
    assert!(compiled.expect("javac can be run").success(), "{SOURCE} is not compiled");
    let mut command = Command::new(java);
    command.arg("-Xmx256m").args(options).arg("-cp").arg(folder).arg("Chains");
    Some(Running::start_ready(&mut command))
}

/// A recording of the program.
struct Recorded {
    recording: Recording,
    pid: u32,
}

impl Recorded {
    fn stacks(&self) -> RunStacks {
        RunStacks::read(&self.recording.file())
    }
}

fn recorded(options: &[&str]) -> Option<Recorded> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let running = started(folder.path(), options)?;
    let pid = running.pid();
    // The table of the machine's library is made once, and takes a while.
    drop(Recording::of_pid_with(pid, "1s", &[]));
    let recording = Recording::of_pid_with(pid, "4s", &[]);
    Some(Recorded { recording, pid })
}

fn compiled() -> Option<&'static Recorded> {
    static MADE: OnceLock<Option<Recorded>> = OnceLock::new();
    MADE.get_or_init(|| {
        let _turn = turn()?;
        recorded(&[])
    })
    .as_ref()
}

/// Of all samples, those with methods.
fn with_methods<'r>(recorded: &'r Recorded, samples: &'r [RunSample]) -> Vec<&'r RunSample> {
    let is_it =
        |sample: &&RunSample| sample.pid == recorded.pid && sample.run().iter().any(|step| is_own(step));
    samples.iter().filter(is_it).collect()
}

/// Whether a step is of the program itself.
fn is_own(step: &Step) -> bool {
    step.file == SOURCE && step.name.starts_with("Chains")
}

/// The method's name without its class.
fn method(step: &Step) -> &str {
    step.name.rsplit('.').next().unwrap_or_default()
}

/// What is wrong with the calls between the program's own methods in a sample: the line of a caller names its callee.
fn wrong_call(sample: &RunSample, lines: &[String]) -> Option<String> {
    let is_java = |step: &&Step| step.file.ends_with(".java");
    let steps: Vec<&Step> = sample.steps.iter().filter(is_java).collect();
    let named = |caller: &Step, name: &str| {
        let text = lines.get((caller.line as usize).wrapping_sub(1)).map_or("", String::as_str);
        text.contains(&format!("{name}(")) || text.contains(&format!("::{name}"))
    };
    steps.windows(2).find_map(|pair| {
        let [caller, callee] = pair else { return None };
        let is_plain = is_own(caller) && is_own(callee) && !callee.name.contains("lambda$");
        // The lambda of a thread calls its work through an interface.
        if !is_plain || method(callee).starts_with('<') || method(caller).starts_with("lambda$run") {
            return None;
        }
        (!named(caller, method(callee))).then(|| {
            format!("line {} of {} calls no {}: {}", caller.line, caller.name, callee.name, sample.text())
        })
    })
}

/// How far the stacks of a recording are whole, and their calls right.
fn assert_right(recorded: &Recorded, what: &str) {
    let text = std::fs::read_to_string(source()).expect("the program's source is there");
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let stacks = recorded.stacks();
    let samples = with_methods(recorded, &stacks.samples);
    assert!(samples.len() > 300 || recorded.recording.was_crowded, "{what}: only {} samples", samples.len());
    // Those of the first moments may lack the table of the machine's library, which is large, and copies for want of it leave
    // no room for others; a thread that ends has no stack.
    let of_process = stacks.of(recorded.pid);
    let lacks_table = |sample: &&&RunSample| sample.sample.outcome == Outcome::TableNotLoaded;
    let last_ns =
        of_process.iter().filter(lacks_table).map(|sample| sample.sample.time_ns).max().unwrap_or(0);
    let is_ready = |sample: &&RunSample| {
        sample.sample.time_ns > last_ns && sample.sample.outcome != Outcome::NoUserStack
    };
    let of_process: Vec<&RunSample> = of_process.into_iter().filter(is_ready).collect();
    let whole = of_process.iter().filter(|sample| sample.is_complete()).count();
    let cut = of_process.iter().find(|sample| !sample.is_complete());
    let cut = cut.map_or_else(String::new, |sample| format!("{:?} {}", sample.sample.outcome, sample.text()));
    assert!(
        whole * 1000 >= of_process.len() * 995,
        "{what}: {whole} of {} stacks are complete: {cut}\n{}",
        of_process.len(),
        recorded.recording.info_text()
    );
    let wrong: Vec<String> = samples.iter().filter_map(|sample| wrong_call(sample, &lines)).collect();
    assert!(wrong.is_empty(), "{what}: {} calls: {}", wrong.len(), wrong[..wrong.len().min(5)].join("\n"));
    let unread = |sample: &&&RunSample| sample.steps.iter().any(|step| step.name == "[function not read]");
    let unread = samples.iter().filter(unread).count();
    assert!(
        unread * 100 <= samples.len(),
        "{what}: {unread} of {} have a method without a name",
        samples.len()
    );
}

#[test]
fn stacks_are_whole_and_their_calls_are_in_the_source() {
    let Some(recorded) = compiled() else { return };
    assert_right(recorded, "java");
}

#[test]
fn interpreted_methods_are_whole_and_right() {
    let Some(_turn) = turn() else { return };
    let Some(recorded) = recorded(&["-Xint"]) else { return };
    assert_right(&recorded, "java -Xint");
}

#[test]
fn each_kind_of_code_has_its_methods() {
    let Some(recorded) = compiled() else { return };
    let stacks = recorded.stacks();
    let samples = with_methods(recorded, &stacks.samples);
    for (root, leaf) in [
        ("Chains.compiled", "Chains.inlined"),
        ("Chains.shapes", "Chains$Circle.area"),
        ("Chains.throwing", "Chains.unwind"),
        ("Chains.sorting", "java.util.TimSort.sort"),
        ("Chains.deoptimized", "java.lang.reflect.Proxy.newProxyInstance"),
        ("Chains.copied", "Chains.copied"),
        ("Chains.reflected", "Chains.reflected"),
        ("Chains.garbage", "Chains.garbage"),
    ] {
        let has = |sample: &&&RunSample| {
            [root, leaf].iter().all(|name| sample.steps.iter().any(|step| step.name == *name))
        };
        let count = samples.iter().filter(has).count();
        assert!(count > 0 || recorded.recording.was_crowded, "no sample has {root} and {leaf}");
    }
}

#[test]
fn waits_are_in_the_method_that_waits() {
    let Some(recorded) = compiled() else { return };
    let report = recorded.recording.report_with(&["--off-cpu", "--idle"]);
    let rows = report.0["rows"].as_array().expect("rows");
    for (function, reasons) in [
        ("Chains.waitInSleep", &["sleep", "condvar", "futex"][..]),
        ("Chains.waitInTake", &["condvar", "futex"]),
        ("Chains.waitInPark", &["sleep", "condvar", "futex"]),
        ("Chains.waitInMonitor", &["lock"]),
        ("Chains.waitInObject", &["sleep", "condvar", "futex"]),
    ] {
        let is_it = |row: &&Value| {
            row["function"] == function && reasons.iter().any(|reason| row["reason"] == *reason)
        };
        assert!(rows.iter().any(|row| is_it(&row)), "no wait of {function} for {reasons:?}: {rows:?}");
    }
}

#[test]
fn doctor_knows_the_machine() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let Some(running) = started(folder.path(), &[]) else { return };
    let output = prof().args(["doctor", "-p", &running.pid().to_string()]).output().expect("it can be run");
    let said = text(&output);
    assert!(said.contains("java ") && said.contains("vmStructs"), "{said}");
}
