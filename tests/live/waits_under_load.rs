//! Waits at the highest rates there are, and of programs of the distribution.

use super::machine::{tool_or_skip, turn};
use super::postgres::Postgres;
use super::profiler::{Recording, binary};
use super::running::Running;
use super::waits_recorded::Waits;
use prof::profile::{Outcome, counter};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What `--max-overhead` is by default, of each CPU's time.
const SHARE: f64 = 0.02;

#[test]
fn every_nanosecond_of_threads_that_only_wake_each_other_is_accounted_for() {
    let Some(_turn) = turn() else { return };
    for (how, cpus, time) in [("pipe", "one", "10s"), ("futex", "one", "1500ms"), ("futex", "two", "1500ms")]
    {
        let Some(program) = Running::fixture("pingpong", &[how, cpus, "20"]) else { return };
        let recording = Recording::with(["-p", &program.pid().to_string(), "-d", time, "-e", "off"]);
        let waits = Waits::read(&recording.file());
        waits.assert_totals();
        let switches: u64 = waits.profile.thread_times.iter().map(|time| time.switches).sum();
        assert!(switches > 3000, "{how}, {cpus}: only {switches} switches");
        let cpu_ns = waits.profile.duration_ns() as f64 * f64::from(waits.profile.meta.cpus);
        let stacks = waits.counter("kernel_wait_stacks_ns") as f64 / cpu_ns;
        // What was saved up before is used up in a burst.
        assert!(stacks <= 1.5 * SHARE, "{how}, {cpus}: stacks took {:.1} % of the CPUs", 100.0 * stacks);
        let named = waits.sums(|sample| waits.has(sample.stack, &["play", &format!("pass_{how}")]));
        let all = waits.sums(|_| true);
        let weight = |sums: &std::collections::BTreeMap<_, super::waits_recorded::Sum>| {
            sums.values().map(|sum| sum.weight_ns).sum::<u64>()
        };
        // The rest is that of the thread that sleeps in main.
        let rest = weight(&all).saturating_sub(weight(&named));
        let expected = waits.profile.duration_ns();
        assert!(rest < expected * 11 / 10, "{how}, {cpus}: {rest} ns are not below {how}: {all:?} {named:?}");
    }
}

/// Rounds a second in the lines that the fixture `pingpong` printed between two times.
fn rate(lines: &str, from: f64, to: f64) -> f64 {
    let mut rates: Vec<f64> = (lines.lines())
        .filter_map(|line| {
            let (time, rate) = line.split_once(' ')?;
            let time: f64 = time.parse().ok()?;
            // A line is about the quarter of a second before it.
            (from + 0.25 <= time && time <= to).then(|| rate.parse().ok())?
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_else(|| panic!("no line from {from} to {to} in:\n{lines}"))
}

/// CLOCK_MONOTONIC, s.
fn now() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

#[test]
fn a_stopped_recorder_does_not_slow_the_program_and_what_is_lost_is_counted() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("pingpong", &["pipe", "one", "20"]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("prof.data");
    let mut recorder = Command::new(binary())
        // Without a limit, so that the ring is soon full.
        .args([
            "record",
            "-q",
            "-e",
            "off",
            "--max-overhead",
            "0",
            "-d",
            "30s",
            "-p",
            &program.pid().to_string(),
            "-o",
        ])
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .expect("prof can be run");
    let pid = Pid::from_child(&recorder);
    std::thread::sleep(Duration::from_millis(1000));
    let times: [f64; 3] = std::array::from_fn(|step| {
        if step > 0 {
            let signal = if step == 1 { Signal::STOP } else { Signal::CONT };
            kill_process(pid, signal).expect("prof still records");
        }
        let began = now();
        std::thread::sleep(Duration::from_millis(if step == 1 { 1500 } else { 800 }));
        began
    });
    kill_process(pid, Signal::INT).expect("prof still records");
    assert_eq!(recorder.wait().expect("prof is our child").code(), Some(0));
    let lines = program.finish();
    let (recording, stopped) = (rate(&lines, times[0], times[1]), rate(&lines, times[1], times[2]));
    assert!(stopped > recording * 0.6, "{recording:.0} rounds a second, {stopped:.0} while prof is stopped");
    let waits = Waits::read(&file);
    assert!(
        waits.counter(counter::LOST_WAITS) > 0,
        "a ring holds all waits of 1.5 s: {:?}",
        waits.profile.counters
    );
    waits.assert_totals();
}

/// Records `pid` with all that is to be recorded by default, and asserts that its waits have whole stacks.
fn assert_whole_stacks(what: &str, targets: &str, seconds: &str) {
    let recording = Recording::with(["-p", targets, "-d", seconds]);
    let waits = Waits::read(&recording.file());
    waits.assert_totals();
    let (mut whole, mut all) = (0u64, 0u64);
    let mut causes = std::collections::BTreeMap::<Outcome, u64>::new();
    for sample in waits.event().samples() {
        all += 1;
        let is_whole = matches!(sample.outcome, Outcome::Complete | Outcome::MiddleLeftOut);
        whole += u64::from(is_whole);
        if !is_whole {
            *causes.entry(sample.outcome).or_default() += 1;
        }
    }
    assert!(all > 20, "{what}: only {all} waits");
    // While tables are still being made, more stacks are copied than a crowded machine has room for. That is counted.
    let without_copy = waits.counter(counter::RESCUE_REFUSED).min(all / 20);
    assert!(
        (whole + without_copy) * 100 >= all * 99 || all - whole <= 2,
        "{what}: {whole} of {all} are whole, {without_copy} lack a copy: {causes:?}"
    );
}

#[test]
fn waits_of_a_database_under_load_have_whole_stacks_and_add_up() {
    let Some(_turn) = turn() else { return };
    let Some(postgres) = Postgres::start() else { return };
    let _clients = postgres.load();
    // pgbench asks for the version on a connection of its own first.
    std::thread::sleep(Duration::from_millis(700));
    let backends: Vec<String> = postgres.backends().iter().map(u32::to_string).collect();
    assert_whole_stacks("postgres", &backends.join(","), "2s");
}

#[test]
fn waits_of_a_go_program_have_whole_stacks_and_add_up() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("goburn", &["20"]) else { return };
    assert_whole_stacks("go", &program.pid().to_string(), "2s");
}

#[test]
fn waits_of_python_and_node_have_whole_stacks_and_add_up() {
    let Some(_turn) = turn() else { return };
    let code = "import threading, time, queue
q = queue.Queue()
def work():
    while True:
        q.get(); sum(range(2000))
for i in range(3): threading.Thread(target=work, daemon=True).start()
while True:
    q.put(1); time.sleep(0.003)";
    if let Some(python) = tool_or_skip("python3") {
        let program = Running::start(Command::new(python).args(["-c", code]));
        std::thread::sleep(Duration::from_millis(500));
        assert_whole_stacks("python", &program.pid().to_string(), "1500ms");
    }
    let code = "const fs = require('fs'); const again = () => fs.readFile('/proc/self/stat', () => setTimeout(again, 2)); again();";
    if let Some(node) = tool_or_skip("node") {
        let program = Running::start(Command::new(node).args(["-e", code]));
        std::thread::sleep(Duration::from_millis(700));
        assert_whole_stacks("node", &program.pid().to_string(), "1500ms");
    }
}
