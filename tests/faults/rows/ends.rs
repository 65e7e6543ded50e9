//! The recorder is asked to end, or is killed, at any time.

use super::Random;
use crate::fault::{Fault, How, Outcome};
use crate::recorder::{Recorder, samples};
use crate::target::Target;
use rustix::process::Signal;
use std::fs;
use std::time::Duration;

/// The latest moment of a signal, after the start of the recorder: one has begun to record by then, also on a busy machine.
const LATEST_MS: u64 = 3_000;

pub(super) fn rows() -> Vec<Fault> {
    vec![
        Fault {
            number: "7",
            name: "SIGINT, SIGTERM, SIGHUP at any time",
            holds: "the file is whole or there is none with a message; exit status 0, 143, 129",
            tests: &[
                "an_interrupt_ends_the_recording_and_keeps_it",
                "a_signal_reaches_the_command_once",
                "a_command_ignores_the_signals_that_it_was_to_ignore",
            ],
            how: How::Injected { short: Some(6), long: 150, run: signals },
        },
        Fault {
            number: "8",
            name: "SIGKILL at any time",
            holds: "the file is readable up to its last block, nothing is left in the kernel or on disk",
            tests: &[
                "a_recorder_that_is_killed_leaves_nothing_behind",
                "a_recorder_that_is_killed_leaves_a_file_with_names",
                "what_a_killed_start_leaves_is_named_and_restored",
            ],
            how: How::Injected { short: Some(6), long: 200, run: kills },
        },
        Fault {
            number: "45",
            name: "a second SIGINT while the first one is obeyed",
            holds: "the recorder ends and the file is readable",
            tests: &["a_stop_flag_ends_every_step"],
            how: How::Injected { short: Some(2), long: 30, run: second_signals },
        },
    ]
}

fn recorder_of(target: &Target) -> Recorder {
    Recorder::start(&["-F", "4999", "-p", &target.pid().to_string(), "-d", "60s"])
}

fn signals(count: u64) -> Outcome {
    const SIGNALS: [(Signal, i32); 3] = [(Signal::INT, 0), (Signal::TERM, 143), (Signal::HUP, 129)];
    let (mut outcome, mut random) = (Outcome::default(), Random::new(7));
    let target = Target::start(4);
    let mut whole = 0;
    for number in 0..count {
        let recorder = recorder_of(&target);
        std::thread::sleep(Duration::from_millis(random.below(LATEST_MS)));
        let (signal, status) = SIGNALS[(number % 3) as usize];
        recorder.signal(signal);
        outcome.faults += 1;
        let ended = recorder.end(&mut outcome);
        let facts = ended.count(&mut outcome);
        // Before it has handlers, the signal itself ends it; before it records, it says that there is nothing.
        if facts.as_ref().is_some_and(|facts| samples(facts) > 0) {
            whole += 1;
            outcome.expect(ended.status.code() == Some(status), || {
                format!("{signal:?} ends a recording with {}: `{}`", ended.status, ended.said.trim())
            });
        }
    }
    target.finish(&mut outcome);
    outcome.note = format!("{whole} had begun to record");
    outcome
}

fn kills(count: u64) -> Outcome {
    let (mut outcome, mut random) = (Outcome::default(), Random::new(8));
    let target = Target::start(4);
    let mut begun = 0;
    for _ in 0..count {
        let recorder = recorder_of(&target);
        std::thread::sleep(Duration::from_millis(random.below(LATEST_MS)));
        recorder.signal(Signal::KILL);
        outcome.faults += 1;
        let ended = recorder.end(&mut outcome);
        let facts = ended.count_killed(&mut outcome);
        begun += u64::from(facts.is_some_and(|facts| samples(&facts) > 0));
        cleaned(&target, ended.folder.path(), &mut outcome);
    }
    target.finish(&mut outcome);
    outcome.note = format!("{begun} had written samples");
    outcome
}

/// What a killed start leaves on disk, the next recording of that name takes away. One in eight is made, to save time.
fn cleaned(target: &Target, folder: &std::path::Path, outcome: &mut Outcome) {
    let names = || -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".tmp") || name.ends_with(".old")).collect()
    };
    if names().is_empty() || outcome.faults % 8 != 1 {
        return;
    }
    let file = folder.join("prof.data");
    let pid = target.pid().to_string();
    let mut next = crate::recorder::prof(&["record", "-q", "-f", "-p", &pid, "-d", "100ms", "-o"]);
    let ended = next.arg(&file).output().expect("prof can be run");
    outcome.expect(ended.status.success(), || "the recording after a killed one fails".to_owned());
    outcome.leftovers += names().len() as u64;
}

fn second_signals(count: u64) -> Outcome {
    let (mut outcome, mut random) = (Outcome::default(), Random::new(45));
    let target = Target::start(4);
    for _ in 0..count {
        let mut recorder = recorder_of(&target);
        recorder.wait_until_it_records();
        std::thread::sleep(Duration::from_millis(300 + random.below(300)));
        recorder.signal(Signal::INT);
        std::thread::sleep(Duration::from_millis(random.below(60)));
        recorder.signal(Signal::INT);
        outcome.faults += 2;
        recorder.end(&mut outcome).count(&mut outcome);
    }
    target.finish(&mut outcome);
    outcome
}
