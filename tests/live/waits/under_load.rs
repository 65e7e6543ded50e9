//! Waits at the highest rates there are, and of programs of the distribution.

use crate::harness::counter;
use crate::harness::machine::{Crowd, now_ns, skip, tool_or_skip, turn, turn_alone};
use crate::harness::postgres::Postgres;
use crate::harness::profiler::{Recording, RunningFor, binary};
use crate::harness::running::{Running, UNTIL_ENDED};
use crate::waits::recorded::{Sum, Waits};
use prof::internals::profile::Outcome;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What `--max-overhead` is by default, of each CPU's time.
const SHARE: f64 = 0.02;

/// Detail 2 of the promises: running and waiting time add up to the time that passed.
#[test]
fn every_nanosecond_of_threads_that_only_wake_each_other_is_accounted_for() {
    let Some(_turn) = turn_alone() else { return };
    let cases =
        [("pipe", "one", "10", 100_000.0), ("futex", "one", "1.5", 100_000.0), ("futex", "two", "1.5", 0.0)];
    for (how, cpus, seconds, least_per_second) in cases {
        let Some(program) = Running::fixture("pingpong", &[how, cpus, UNTIL_ENDED]) else { return };
        let pid = program.pid().to_string();
        // A line before and one after.
        std::thread::sleep(Duration::from_millis(300));
        let recording = Recording::with(["-p", &pid, "-d", &format!("{seconds}s"), "-e", "off"]);
        std::thread::sleep(Duration::from_millis(300));
        let lines = lines(&program.finish());
        let case = format!("{how}, {cpus} CPU");
        let waits = Waits::read(&recording.file());
        waits.assert_totals();
        // How fast it is beside others says nothing.
        let least_per_second = if recording.was_crowded { 0.0 } else { least_per_second };
        assert_switches(&case, &waits, &lines, least_per_second);
        assert_budget(&case, &recording, &waits, if cpus == "one" { 1.0 } else { 2.0 });
        let named = waits.sums(|sample| waits.has(sample.stack, &["play", &format!("pass_{how}")]));
        let all = waits.sums(|_| true);
        let weight = |sums: &BTreeMap<_, Sum>| sums.values().map(|sum| sum.weight_ns).sum::<u64>();
        // The rest is that of the thread that sleeps in main.
        let rest = weight(&all).saturating_sub(weight(&named));
        let expected = waits.profile.duration_ns();
        assert!(rest < expected * 11 / 10, "{case}: {rest} ns are not below {how}: {all:?} {named:?}");
    }
}

/// A line of the fixture `pingpong`, which is about the time since the one before.
struct Line {
    /// CLOCK_MONOTONIC, s.
    time: f64,
    /// Rounds a second.
    rounds: f64,
    /// Switches a second, by the kernel's own books.
    switches: f64,
}

fn lines(printed: &str) -> Vec<Line> {
    let line = |line: &str| {
        let mut numbers = line.split(' ').map_while(|word| word.parse().ok());
        Some(Line { time: numbers.next()?, rounds: numbers.next()?, switches: numbers.next()? })
    };
    printed.lines().filter_map(line).collect()
}

/// Asserts that the account has every switch that the kernel has in its own books, and that nothing of the waits was lost.
fn assert_switches(case: &str, waits: &Waits, lines: &[Line], least_per_second: f64) {
    for lost in
        [counter::LOST_WAITS, counter::LOST_WAIT_NS, counter::LOST_BAD_RECORD, counter::WAITS_UNMATCHED]
    {
        assert_eq!(waits.counter(lost), 0, "{case}: {lost}");
    }
    let span = waits.span_ns();
    let (from, to) = (span.start as f64 * 1e-9, span.end as f64 * 1e-9);
    let in_span = lines.windows(2).map(|pair| {
        let [before, line] = pair else { return 0.0 };
        line.switches * (line.time.min(to) - before.time.max(from)).max(0.0)
    });
    let truth: f64 = in_span.sum();
    // At both ends a line is in part about the time outside, in which the program is faster.
    let is_across = |pair: &&[Line]| [from, to].iter().any(|end| pair[0].time < *end && *end < pair[1].time);
    let across =
        lines.windows(2).filter(is_across).map(|pair| pair[1].switches * (pair[1].time - pair[0].time));
    let across: f64 = across.sum();
    let found = waits.profile.thread_times.iter().map(|time| time.switches).sum::<u64>() as f64;
    let allowed = truth * 0.01 + across.max(0.1 * (truth / (to - from)));
    assert!((found - truth).abs() < allowed, "{case}: {found} switches, {truth:.0} by the kernel");
    let per_second = found / (to - from);
    if per_second < least_per_second {
        let before: Vec<f64> =
            lines.iter().filter(|line| line.time <= from).map(|line| line.switches).collect();
        let without = before.iter().copied().fold(0.0, f64::max);
        assert!(without < least_per_second, "{case}: {per_second:.0} switches a second of {without:.0}");
        let what = format!("{case}: {least_per_second} switches a second");
        let _: Option<()> = skip(&format!("{what}: this machine makes {without:.0}"));
    }
}

/// Asserts that stacks took no more than their share of the CPUs' time, and that the recording says how many it left out for
/// that and what it makes of the sums.
fn assert_budget(case: &str, recording: &Recording, waits: &Waits, cpus: f64) {
    let stacks_s = waits.counter("kernel_wait_stacks_ns") as f64 * 1e-9;
    let duration_s = waits.profile.duration_ns() as f64 * 1e-9;
    // What was saved up before, for a second, is used up in a burst.
    let most_s = SHARE * (duration_s + 1.0) * cpus * 1.1;
    assert!(stacks_s <= most_s, "{case}: stacks took {stacks_s:.3} of {most_s:.3} s");
    if waits.counter(counter::WAITS_THINNED) == 0 {
        let _: Option<()> =
            skip(&format!("{case}: this machine makes too few switches for some to be left out"));
        return;
    }
    let table = recording.report_text(&["--off-cpu"]);
    let said = table.lines().find(|line| line.contains(" waits kept, ± "));
    assert!(said.is_some(), "{case}: the report does not say what was left out:\n{table}");
    let info = recording.info_text();
    assert!(
        info.contains("as many as 2% of each CPU's time allow"),
        "{case}: the share is not said:\n{info}"
    );
}

/// Rounds a second in the lines between two times.
fn rate(lines: &[Line], from: f64, to: f64) -> f64 {
    let is_between = |line: &&Line| from + 0.25 <= line.time && line.time <= to;
    let mut rates: Vec<f64> = lines.iter().filter(is_between).map(|line| line.rounds).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_else(|| panic!("no line from {from} to {to}"))
}

/// Detail 5 of the promises: what was lost and what recording cost is on every screen.
#[test]
fn a_stopped_recorder_does_not_slow_the_program_and_what_is_lost_is_counted() {
    let Some(_turn) = turn_alone() else { return };
    let Some(program) = Running::fixture("pingpong", &["pipe", "one", UNTIL_ENDED]) else { return };
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
    let crowd = Crowd::watch();
    let times: [f64; 3] = std::array::from_fn(|step| {
        if step > 0 {
            let signal = if step == 1 { Signal::STOP } else { Signal::CONT };
            kill_process(pid, signal).expect("prof still records");
        }
        let began = now_ns() as f64 * 1e-9;
        let wanted = Duration::from_millis(if step == 1 { 1500 } else { 800 });
        RunningFor::begin(&[program.pid()], wanted).wait();
        began
    });
    kill_process(pid, Signal::INT).expect("prof still records");
    assert_eq!(recorder.wait().expect("prof is our child").code(), Some(0));
    let lines = lines(&program.finish());
    let (recording, stopped) = (rate(&lines, times[0], times[1]), rate(&lines, times[1], times[2]));
    // Beside others both are what these leave.
    assert!(
        crowd.is_busy() || stopped > recording * 0.6,
        "{recording:.0} rounds a second, {stopped:.0} while prof is stopped"
    );
    let waits = Waits::read(&file);
    assert!(
        waits.counter(counter::LOST_WAITS) > 0,
        "a ring holds all waits of 1.5 s: {:?}",
        waits.profile.counters
    );
    waits.assert_totals();
}

/// Recordings go on being closed for a while after their end, and the program goes on switching.
#[test]
fn switches_after_the_end_are_no_cost_of_the_recording() {
    let Some(_turn) = turn() else { return };
    for option in [None, Some("--wait-stacks-when-leaving")] {
        let Some(program) = Running::fixture("pingpong", &["pipe", "one", UNTIL_ENDED]) else { return };
        let pid = program.pid().to_string();
        let common = ["-e", "off", "--max-overhead", "0", "-d", "500ms", "-p", &pid];
        let waits = Waits::read(&Recording::with(common.into_iter().chain(option)).file());
        let bpf_ns = waits.profile.end.as_ref().map_or(0, |end| end.bpf_ns);
        let most_ns = waits.profile.duration_ns() * u64::from(waits.profile.meta.cpus);
        assert!(bpf_ns <= most_ns, "{option:?}: {bpf_ns} ns in BPF programs of {most_ns} that there were");
    }
}

/// Records `pid` with all that is to be recorded by default, and asserts that its waits have whole stacks.
fn assert_whole_stacks(what: &str, targets: &str, seconds: &str) {
    // Sampling begins before the tables of large files are there, where they have to be read from a disk: then they are kept.
    drop(Recording::with(["-p", targets, "-d", "200ms"]));
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
    // The end of a recording waits for tables, but not for as long as they take there.
    let without_table = if recording.was_crowded {
        causes.get(&Outcome::TableNotLoaded).copied().unwrap_or(0).min(all / 20)
    } else {
        0
    };
    assert!(
        (whole + without_copy.max(without_table)) * 100 >= all * 99 || all - whole <= 2,
        "{what}: {whole} of {all} are whole, {without_copy} lack a copy: {causes:?}"
    );
}

#[test]
fn waits_of_a_database_under_load_have_whole_stacks_and_add_up() {
    let Some(_turn) = turn() else { return };
    let Some(postgres) = Postgres::start() else { return };
    let _clients = postgres.load();
    let backends: Vec<String> = postgres.backends().iter().map(u32::to_string).collect();
    assert_whole_stacks("postgres", &backends.join(","), "2s");
}

#[test]
fn waits_of_a_go_program_have_whole_stacks_and_add_up() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("goburn", &[UNTIL_ENDED]) else { return };
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
print('ready', flush=True)
while True:
    q.put(1); time.sleep(0.003)";
    if let Some(python) = tool_or_skip("python3") {
        let program = Running::start_ready(Command::new(python).args(["-c", code]));
        assert_whole_stacks("python", &program.pid().to_string(), "1500ms");
    }
    let code = "const fs = require('fs'); const again = () => fs.readFile('/proc/self/stat', () => setTimeout(again, 2)); \
        console.log('ready'); again();";
    if let Some(node) = tool_or_skip("node") {
        let program = Running::start_ready(Command::new(node).args(["-e", code]));
        assert_whole_stacks("node", &program.pid().to_string(), "1500ms");
    }
}
