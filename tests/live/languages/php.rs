//! Functions of PHP against what the program reports of itself, and waits in the lines that wait.

use crate::harness::fixture;
use crate::harness::machine::{skip, tool_or_skip, turn};
use crate::harness::profiler::{Recording, Stack, Stacks, messages, prof, text};
use crate::harness::running::Running;
use crate::languages::by_user::{LEAST_READ, UserRecording, recorded_by_user};
use crate::languages::recorded::{RunSample, RunStacks, UNREAD};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Options by which PHP compiles what it runs.
const WITH_JIT: [&str; 6] =
    ["-d", "opcache.enable_cli=1", "-d", "opcache.jit_buffer_size=64M", "-d", "opcache.jit=tracing"];

/// The place in a stack where a fiber begins; the program does not report it.
const FIBER: &str = "{fiber}";

/// A program that was recorded.
struct Known {
    recording: Recording,
    pid: u32,
    /// What it printed after `ready`.
    printed: Value,
    /// The version and its offsets, as `doctor` says them.
    doctor: String,
}

fn script(name: &str) -> PathBuf {
    fixture::sources().join("php").join(name)
}

fn record(name: &str, options: &[&str], seconds: &str) -> Option<Known> {
    let php = tool_or_skip("php")?;
    let running = Running::start_ready(Command::new(php).args(options).arg(script(name)));
    let recording = Recording::of_pid_with(running.pid(), seconds, &["-F", "1999"]);
    let doctor = prof().args(["doctor", "-p", &running.pid().to_string()]).output().expect("it can be run");
    recording.complete_names();
    assert!(running.is_alive(), "{name} has ended: {:?}", running.end());
    let pid = running.pid();
    let printed = running.finish();
    let printed =
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("no JSON ({error}): {printed}"));
    // Its lines are as wide as a terminal.
    let doctor = (text(&doctor) + &messages(&doctor)).split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Known { recording, pid, printed, doctor })
}

/// One recording for all tests of calls; `None` where it cannot be made.
fn known() -> Option<&'static Known> {
    static MADE: OnceLock<Option<Known>> = OnceLock::new();
    MADE.get_or_init(|| {
        let _turn = turn()?;
        record("chains.php", &["-n"], "4s")
    })
    .as_ref()
}

/// Functions with their lines, leaf first; 0 for those of PHP itself.
type Chain = Vec<(String, u32)>;

/// The stacks that the program has reported, without their leaves.
fn reported(known: &Known) -> Vec<Chain> {
    let chains = known.printed["chains"].as_array().expect("a list");
    let chain = |calls: &Value| {
        let calls = calls.as_array().expect("a list");
        let name = |call: &Value| call["name"].as_str().expect("a text").to_owned();
        let line = |call: &Value| call["line"].as_u64().expect("a line") as u32;
        // The code of the file goes on to another line.
        let main = [("<main>".to_owned(), 0)];
        calls.iter().skip(1).map(name).zip(calls.iter().map(line)).chain(main).collect()
    };
    let chains: Vec<Chain> = chains.iter().map(chain).collect();
    assert!(chains.len() >= 30, "only {} chains", chains.len());
    chains
}

/// The stack of a sample in the same form, without its leaf. Of a file that is included, `include` is reported.
fn callers(sample: &RunSample) -> Chain {
    let run = sample.run();
    let callers = run.iter().rev().skip(1).filter(|step| step.name != FIBER);
    callers
        .map(|step| {
            let name = if step.name.starts_with("include ") { "include" } else { &step.name };
            (name.to_owned(), if name == "<main>" { 0 } else { step.line })
        })
        .collect()
}

/// What is wrong with stacks that end in `burn`, and how many were looked at.
fn faults(known: &Known, samples: &[&RunSample]) -> (Vec<String>, usize) {
    let reported = reported(known);
    let range = known.printed["burn"].as_array().expect("two lines");
    let range = range[0].as_u64().expect("a line") as u32..=range[1].as_u64().expect("a line") as u32;
    let (mut wrong, mut judged) = (Vec::new(), 0);
    for sample in samples {
        let Some(leaf) = sample.run().last().copied().filter(|leaf| leaf.name == "burn") else { continue };
        judged += 1;
        if !range.contains(&leaf.line) || !reported.contains(&callers(sample)) {
            wrong.push(sample.text());
        }
    }
    (wrong, judged)
}

fn share(samples: &[&RunSample], is_one: impl Fn(&RunSample) -> bool) -> f64 {
    samples.iter().filter(|sample| is_one(sample)).count() as f64 / samples.len().max(1) as f64
}

#[test]
fn stacks_are_those_that_the_program_reports() {
    let Some(known) = known() else { return };
    let stacks = RunStacks::read(&known.recording.file());
    let samples: Vec<&RunSample> =
        stacks.of(known.pid).into_iter().filter(|sample| sample.has_loop()).collect();
    let (wrong, judged) = faults(known, &samples);
    let of = |is_one: &dyn Fn(&RunSample) -> bool| share(&samples, is_one);
    let complete = of(&|sample| sample.is_complete());
    let placed = of(&|sample| !sample.is_unplaced());
    let named = of(&|sample| sample.run().iter().all(|step| step.name != UNREAD));
    println!(
        "{} samples, {judged} judged, {} wrong; complete {complete:.4}, placed {placed:.4}, named {named:.4}",
        samples.len(),
        wrong.len()
    );
    assert!(judged > 100 || known.recording.was_crowded, "only {judged} of {} samples", samples.len());
    assert!(wrong.is_empty(), "{} of {judged}: {}", wrong.len(), wrong[..wrong.len().min(3)].join("\n"));
    let unread = samples.iter().filter(|sample| sample.run().iter().any(|step| step.name == UNREAD));
    unread.take(3).for_each(|sample| println!("not read: {}", sample.text()));
    assert!(complete > 0.99 && placed > 0.99 && named > 0.999);
    let root = of(&|sample| sample.run().first().is_some_and(|step| step.name == "<main>"));
    assert!(root > 0.99, "{root:.4} begin with the program");
    for name in
        ["usort", "array_map", "Animal::__call", "Closing::__destruct", "counting", "include part.php"]
    {
        assert!(of(&|sample| sample.run().iter().any(|step| step.name == name)) > 0.0, "no {name}");
    }
}

#[test]
fn what_an_ordinary_user_has_of_php_is_what_the_program_reports() {
    let scripts = [script("chains.php"), script("part.php")];
    let Some(made) = recorded_by_user("php", &["-n"], &scripts, &[]) else { return };
    let stacks = RunStacks::read(&made.recording.file());
    let read = made.read(&stacks, LEAST_READ);
    let UserRecording { recording, pid, printed } = made;
    let printed = serde_json::from_str(&printed).expect("it printed JSON");
    let known = Known { recording, pid, printed, doctor: String::new() };
    let (wrong, judged) = faults(&known, &read);
    println!("{} read, {judged} judged, {} wrong", read.len(), wrong.len());
    assert!(wrong.is_empty(), "{} of {judged}: {}", wrong.len(), wrong[..wrong.len().min(3)].join("\n"));
    assert!(judged > 100 || known.recording.was_crowded, "only {judged} of {}", read.len());
    let root = share(&read, |sample| sample.run().first().is_some_and(|step| step.name == "<main>"));
    assert!(root > 0.99, "{root:.4} begin with the program");
}

#[test]
fn work_is_where_it_is_done() {
    let Some(known) = known() else { return };
    let stacks = RunStacks::read(&known.recording.file());
    let leaves = |name: &str| {
        let of = stacks.of(known.pid);
        of.iter().filter(|sample| sample.run().last().is_some_and(|step| step.name == name)).count() as f64
    };
    let (thrice, once) = (leaves("thrice"), leaves("once"));
    let ratio = thrice / (thrice + once);
    // Six standard deviations.
    let error = 6.0 * (0.75 * 0.25 / (thrice + once)).sqrt();
    assert!((ratio - 0.75).abs() < 0.01 + error, "{ratio:.3} of {} samples", thrice + once);
}

#[test]
fn doctor_says_where_its_offsets_are_from() {
    let Some(known) = known() else { return };
    let said = "offsets from the instructions of its functions, confirmed by its stack";
    assert!(known.doctor.contains("php ") && known.doctor.contains(said), "{}", known.doctor);
}

#[test]
fn frames_of_the_interpreter_are_shown_as_wanted() {
    let Some(known) = known() else { return };
    let stacks = |mode: &str| known.recording.stacks_with(&["--runtime", mode]);
    let (folded, full, off) = (stacks("folded"), stacks("full"), stacks("off"));
    let weight = |stacks: &Stacks| -> u64 { stacks.0.iter().map(|stack| stack.weight).sum() };
    assert_eq!((weight(&folded), weight(&full)), (weight(&off), weight(&off)));
    let is_run = |stack: &Stack| stack.count_of("<main>") > 0;
    let has_loop = |stack: &Stack| stack.any_contains("execute_ex");
    assert!(folded.percent(is_run) > 95.0 && full.percent(is_run) > 95.0);
    assert!(folded.percent(|stack| is_run(stack) && has_loop(stack)) < 1.0);
    assert!(full.percent(has_loop) > 95.0 && off.percent(has_loop) > 95.0 && off.percent(is_run) == 0.0);
}

#[test]
fn code_that_php_compiles_is_on_whole_stacks() {
    let Some(_turn) = turn() else { return };
    let Some(known) = record("chains.php", &WITH_JIT, "4s") else { return };
    let stacks = RunStacks::read(&known.recording.file());
    let samples: Vec<&RunSample> =
        stacks.of(known.pid).into_iter().filter(|sample| !sample.run().is_empty()).collect();
    let is_generated =
        |sample: &RunSample| sample.steps.iter().any(|step| step.is_loop && step.name.is_empty());
    if share(&samples, is_generated) == 0.0 {
        return skip("php has no JIT compiler here").unwrap_or_default();
    }
    let complete = share(&samples, |sample| sample.is_complete());
    let placed = share(&samples, |sample| !sample.is_unplaced());
    println!("{} samples: complete {complete:.4}, placed {placed:.4}", samples.len());
    assert!(complete > 0.97 && placed > 0.97, "complete {complete:.4}, placed {placed:.4}");
}

/// Functions of the program, and what their waits are for.
const WAITS: [(&str, &[&str]); 4] = [
    ("wait_in_sleep", &["sleep"]),
    ("wait_in_select", &["poll"]),
    ("wait_in_child", &["pipe", "child"]),
    ("wait_in_lock", &["lock", "file lock", "file"]),
];

#[test]
fn every_wait_is_in_the_line_that_waits() {
    let Some(_turn) = turn() else { return };
    let Some(known) = record("waits.php", &["-n"], "4s") else { return };
    let stacks = RunStacks::read(&known.recording.file());
    let waits = stacks.waits_of(known.pid);
    for (function, _) in WAITS {
        let line = known.printed[function].as_u64().expect("a line") as u32;
        let is_there =
            |wait: &&&RunSample| wait.run().iter().any(|step| step.name == function && step.line == line);
        let there: Vec<&&RunSample> = waits.iter().filter(is_there).collect();
        let longest = there.iter().map(|wait| wait.sample.weight).max().unwrap_or(0);
        assert!(there.len() > 3 && longest > 5_000_000, "{function}: {} waits, {longest} ns", there.len());
    }
    let report = known.recording.report_with(&["--off-cpu", "--idle"]);
    let rows = report.0["rows"].as_array().expect("rows");
    for (function, reasons) in WAITS {
        let is_it = |row: &Value| {
            row["function"] == function && reasons.iter().any(|reason| row["reason"] == *reason)
        };
        assert!(rows.iter().any(is_it), "no row of {function} for {reasons:?}: {rows:#?}");
    }
}
