//! Targets with more of everything than usual, and the highest rate for minutes.

use crate::fault::{Fault, How, Outcome};
use crate::harness::fixture;
use crate::recorder::{Recorder, counter, samples};
use crate::target::{Storm, Target};
use rustix::process::Signal;
use std::fs;
use std::time::{Duration, Instant};

pub(super) fn rows() -> Vec<Fault> {
    vec![
        Fault {
            number: "3",
            name: "2,000 new processes each second",
            holds: "each sample accounted for, the target unharmed",
            tests: &[
                "children_are_followed_through_fork_and_exec",
                "processes_of_a_few_milliseconds_keep_their_names",
            ],
            how: How::Injected {
                short: None,
                long: 10,
                run: |seconds| storm(&["processes", "2000"], seconds),
            },
        },
        Fault {
            number: "2",
            name: "the target executes a program all the time",
            holds: "each sample accounted for, the target unharmed",
            tests: &[
                "exec_replaces_the_code_that_addresses_mean",
                "a_program_that_executes_itself_again_and_again_has_whole_stacks",
            ],
            how: How::Injected { short: Some(1), long: 10, run: |seconds| storm(&["exec"], seconds) },
        },
        Fault {
            number: "4",
            name: "200 libraries loaded and unloaded in a loop",
            holds: "each sample accounted for, memory bounded",
            tests: &[
                "a_library_loaded_during_the_recording_is_named_and_walked_through",
                "many_files_are_closed_sooner",
            ],
            how: How::Injected { short: None, long: 15, run: libraries },
        },
        Fault {
            number: "5",
            name: "10,000 threads",
            holds: "all are known, and SIGINT ends it",
            tests: &["threads_born_during_the_recording_are_seen"],
            how: How::Injected { short: None, long: 10_000, run: many_threads },
        },
        Fault {
            number: "53",
            name: "code mapped and unmapped, threads renamed, stacks that overflow, and that never repeat",
            holds: "each sample accounted for, memory bounded",
            tests: &[],
            how: How::Injected { short: None, long: 8, run: odd_targets },
        },
        Fault {
            number: "34",
            name: "20,000 Hz for minutes",
            holds: "each sample accounted for, memory does not grow with time",
            tests: &["a_rate_above_the_kernels_limit_is_clamped_and_said"],
            how: How::Injected { short: None, long: 600, run: fast_and_long },
        },
    ]
}

/// Most memory of a recorder of such a program, MB: it takes some 50.
const MOST_MB: u64 = 400;

fn storm(arguments: &[&str], seconds: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let storm = Storm::start(arguments);
    let length = format!("{seconds}s");
    let ended = Recorder::start(&["-p", &storm.pid().to_string(), "-d", &length]).end(&mut outcome);
    outcome.expect(ended.status.success(), || format!("the recording fails: `{}`", ended.said.trim()));
    let facts = ended.count(&mut outcome);
    outcome.faults = storm.finish(&mut outcome);
    let facts = facts.unwrap_or_default();
    outcome.expect(samples(&facts) > 0, || "nothing was recorded".to_owned());
    let memory_mb = facts["cost"]["max_rss_bytes"].as_u64().unwrap_or(0) / 1_000_000;
    outcome.expect(memory_mb < MOST_MB, || format!("the recorder took {memory_mb} MB"));
    outcome.note = format!(
        "{} samples, {:.1} % complete, {} MB",
        samples(&facts),
        facts["events"][0]["quality"]["complete_pct"].as_f64().unwrap_or(0.0),
        memory_mb
    );
    outcome
}

fn odd_targets(seconds: u64) -> Outcome {
    let mut outcome = Outcome::default();
    for kind in ["mappings", "names", "overflows", "recursion"] {
        let one = storm(&[kind], seconds);
        outcome.add(&one);
        outcome.problems.extend(one.problems.iter().map(|problem| format!("{kind}: {problem}")));
        let sep = if outcome.note.is_empty() { "" } else { "; " };
        outcome.note += &format!("{sep}{kind} {}", one.note);
    }
    outcome
}

fn libraries(seconds: u64) -> Outcome {
    const LIBRARIES: usize = 200;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = fixture::build("storm").expect("a C compiler is there");
    let library = program.with_extension("plugin.so");
    for number in 0..LIBRARIES {
        fs::copy(&library, folder.path().join(format!("lib{number}.so"))).expect("there is room");
    }
    storm(&["libraries", folder.path().to_str().expect("a temporary path is text")], seconds)
}

fn many_threads(threads: u64) -> Outcome {
    let mut outcome = Outcome { faults: threads, ..Outcome::default() };
    let target = Target::start(threads as u32);
    let begun = Instant::now();
    let mut recorder = Recorder::start(&["-p", &target.pid().to_string(), "-d", "60s"]);
    recorder.wait_until_it_records();
    let start = begun.elapsed();
    std::thread::sleep(Duration::from_secs(3));
    recorder.signal(Signal::INT);
    let begun = Instant::now();
    let ended = recorder.end(&mut outcome);
    let stop = begun.elapsed();
    let facts = ended.count(&mut outcome).unwrap_or_default();
    let at_start = facts["threads_at_start"].as_u64().unwrap_or(0);
    outcome.expect(at_start >= threads, || format!("{at_start} threads were found of {threads}"));
    // Those that a crowded machine has let run, or that have waited, since.
    let seen = facts["threads"].as_u64().unwrap_or(0);
    outcome.note = format!(
        "{at_start} threads, {seen} of them recorded in 3 s, start {:.1} s, stop {:.1} s, {} MB",
        start.as_secs_f64(),
        stop.as_secs_f64(),
        facts["cost"]["max_rss_bytes"].as_u64().unwrap_or(0) / 1_000_000
    );
    target.finish(&mut outcome);
    outcome
}

/// Resident memory of a process, kB.
fn resident_kb(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn fast_and_long(seconds: u64) -> Outcome {
    let mut outcome = Outcome { faults: 1, ..Outcome::default() };
    let target = Target::start(4);
    let length = format!("{seconds}s");
    let recorder = Recorder::start(&["-F", "20000", "-p", &target.pid().to_string(), "-d", &length]);
    let pid = recorder.pid().as_raw_nonzero().get().cast_unsigned();
    let part = Duration::from_secs(seconds / 10);
    std::thread::sleep(part * 2);
    let early = resident_kb(pid);
    std::thread::sleep(part * 7);
    let late = resident_kb(pid);
    let ended = recorder.end(&mut outcome);
    outcome.expect(ended.status.success(), || format!("the recording fails: `{}`", ended.said.trim()));
    let facts = ended.count(&mut outcome).unwrap_or_default();
    outcome.expect(late <= early + early / 2, || format!("memory grows from {early} to {late} kB"));
    outcome.note = format!(
        "{} hits, {} written, {} lost, memory {} MB after a fifth and {} MB near the end",
        counter(&facts, "kernel_hits"),
        samples(&facts),
        counter(&facts, "lost_ring_full"),
        early / 1000,
        late / 1000
    );
    target.finish(&mut outcome);
    outcome
}
