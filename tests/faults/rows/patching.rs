//! What happens while a target's allocator is patched and given back: again and again, and with the recorder killed in the middle.

use crate::fault::{Fault, How, Outcome};
use crate::harness::heap_storm::HeapStorm;
use crate::recorder::{Recorder, prof};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

/// Until then a recorder has patched its target, also on a busy machine.
const LATEST_MS: u64 = 700;
/// Longest time until the process that keeps the rights has noticed that the recorder is gone.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn rows() -> Vec<Fault> {
    vec![
        Fault {
            number: "50",
            name: "an allocator is patched again and again",
            holds: "the target works on, and each byte is as it was",
            tests: &["a_program_in_a_storm_is_as_it_was_after_it_was_recorded"],
            how: How::Injected { short: Some(3), long: 1_000, run: cycles },
        },
        Fault {
            number: "51",
            name: "prof is killed while it patches",
            holds: "the target works on; each byte is as it was once prof has recorded it again",
            tests: &["a_recorder_that_is_killed_leaves_the_program_well"],
            how: How::Injected { short: Some(4), long: 50, run: killed },
        },
    ]
}

/// `prof record -e heap` of a process, for so long.
fn record(storm: &HeapStorm, length: &str, outcome: &mut Outcome) {
    let recorder = Recorder::start(&["-e", "heap", "-p", &storm.pid().to_string(), "-d", length]);
    let ended = recorder.end(outcome);
    outcome.expect(ended.status.success(), || format!("the recording fails: `{}`", ended.said.trim()));
    ended.count(outcome);
}

/// Ends the program, which was harmed if it has noticed anything.
fn end(storm: HeapStorm, outcome: &mut Outcome) {
    if let Err(why) = storm.end() {
        outcome.harmed += 1;
        outcome.problems.push(why);
    }
}

fn cycles(count: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let storm = HeapStorm::start().expect("a C compiler is there");
    let before = storm.code();
    for number in 0..count {
        record(&storm, "100ms", &mut outcome);
        outcome.faults += 1;
        outcome.expect(storm.code() == before, || format!("bytes are others after cycle {number}"));
    }
    end(storm, &mut outcome);
    outcome
}

/// Every other time all its processes are killed at once, so that nobody is left who could give the functions back.
fn killed(count: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let storm = HeapStorm::start().expect("a C compiler is there");
    let (before, pid) = (storm.code(), storm.pid().to_string());
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for number in 0..count {
        let file = folder.path().join("prof.data");
        let mut command = prof(&["record", "-q", "-f", "-e", "heap", "-p", &pid, "-o"]);
        let mut recorder = command.arg(file).process_group(0).spawn().expect("prof can be run");
        std::thread::sleep(Duration::from_millis(number * LATEST_MS / count));
        outcome.faults += 1;
        if number % 2 == 0 {
            recorder.kill().expect("own child");
        } else {
            // It may have ended.
            let _ = kill_process_group(Pid::from_child(&recorder), Signal::KILL);
        }
        recorder.wait().expect("own child");
        if number % 2 == 0 {
            let deadline = Instant::now() + PATIENCE;
            while storm.code() != before && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
            outcome.expect(storm.code() == before, || format!("bytes are others after kill {number}"));
        }
    }
    record(&storm, "100ms", &mut outcome);
    outcome.expect(storm.code() == before, || "bytes are others after a recording".to_owned());
    end(storm, &mut outcome);
    outcome
}
