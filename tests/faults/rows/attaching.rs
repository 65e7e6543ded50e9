//! The target ends, is killed or executes another program at every point of attaching.

use super::Random;
use crate::fault::{Fault, How, Outcome};
use crate::recorder::Recorder;
use crate::target::Target;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The start of a recorder takes some tenths of a second, of a crowded machine longer.
const LATEST_MS: u64 = 900;

pub(super) fn rows() -> Vec<Fault> {
    vec![
        Fault {
            number: "38",
            name: "the target is killed while prof attaches",
            holds: "a recording, or a message that it is gone; nothing is left",
            tests: &["a_process_that_does_not_exist"],
            how: How::Injected { short: Some(8), long: 120, run: killed },
        },
        Fault {
            number: "39",
            name: "the target executes a program while prof attaches",
            holds: "a recording that accounts for its samples",
            tests: &["exec_replaces_the_code_that_addresses_mean"],
            how: How::Injected { short: Some(6), long: 120, run: replaced },
        },
    ]
}

fn killed(count: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let mut recorded = 0;
    for number in 0..count {
        let mut victim = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()
            .expect("sh can be run");
        let recorder = Recorder::start(&["-p", &victim.id().to_string(), "-d", "5s"]);
        std::thread::sleep(Duration::from_millis(number * LATEST_MS / count));
        // It is there until somebody waits for it.
        victim.kill().expect("own child");
        victim.wait().expect("own child");
        outcome.faults += 1;
        let ended = recorder.end(&mut outcome);
        let facts = ended.count(&mut outcome);
        recorded += u64::from(facts.is_some());
        outcome.expect(ended.status.success() || !ended.said.trim().is_empty(), || {
            format!("prof ends with {} and says nothing", ended.status)
        });
    }
    outcome.note = format!("{recorded} were recorded, the others said to be gone");
    outcome
}

/// A shell that becomes another one after a while, and that one after a moment more, and so on.
fn replaced(count: u64) -> Outcome {
    let (mut outcome, mut random) = (Outcome::default(), Random::new(39));
    let watched = Target::start(1);
    for _ in 0..count {
        let pause = random.below(LATEST_MS);
        let script = format!(
            "sleep 0.{pause:03}; n=0; while [ $n -lt 3 ]; do exec sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; exec sleep 0.3'; done"
        );
        let mut target =
            Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().expect("sh can be run");
        let recorder = Recorder::start(&["-p", &target.id().to_string(), "-d", "1500ms"]);
        let status = target.wait().expect("own child");
        outcome.faults += 2;
        outcome.harmed += u64::from(!status.success());
        let ended = recorder.end(&mut outcome);
        ended.count(&mut outcome);
    }
    watched.finish(&mut outcome);
    outcome
}
