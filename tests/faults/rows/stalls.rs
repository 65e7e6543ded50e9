//! Something does not answer: the recorder itself, its disk, a file server.

use super::storage::needs;
use crate::fault::{Fault, How, Outcome};
use crate::fuse::{FILE, Stalled, StallingFiles};
use crate::harness::fixture;
use crate::harness::profiler::binary;
use crate::recorder::{Recorder, counter, marked, samples};
use crate::support::skip;
use crate::target::Target;
use rustix::process::Signal;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

pub(super) fn rows() -> Vec<Fault> {
    vec![
        Fault {
            number: "14",
            name: "the recorder is stopped for seconds",
            holds: "what the rings could not hold is counted",
            tests: &["a_stopped_recorder_does_not_slow_the_program_and_what_is_lost_is_counted"],
            how: How::Injected { short: Some(1), long: 5, run: stopped },
        },
        Fault {
            number: "46",
            name: "the disk stalls for seconds in each write",
            holds: "the rings are read all the same, what is lost is counted",
            tests: &[],
            how: How::Injected { short: None, long: 4, run: slow_disk },
        },
        Fault {
            number: "47",
            name: "a FUSE server stops answering",
            holds: "the target is recorded, the file saved, and prof ends while the server still does not answer",
            tests: &["no_one_waits_for_a_thread_that_reads_slowly"],
            how: How::Injected { short: Some(2), long: 6, run: stalling_files },
        },
    ]
}

fn stopped(count: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let target = Target::start(2);
    let mut lost = 0;
    for _ in 0..count {
        let mut recorder = Recorder::start(&["-F", "20000", "-p", &target.pid().to_string(), "-d", "6s"]);
        recorder.wait_until_it_records();
        std::thread::sleep(Duration::from_millis(300));
        recorder.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(4000));
        recorder.signal(Signal::CONT);
        outcome.faults += 1;
        let facts = recorder.end(&mut outcome).count(&mut outcome).unwrap_or_default();
        lost += counter(&facts, "lost_ring_full");
        outcome.expect(samples(&facts) > 0, || "nothing was recorded".to_owned());
    }
    target.finish(&mut outcome);
    outcome.note = format!("{lost} samples lost, and counted");
    outcome
}

fn slow_disk(count: u64) -> Outcome {
    let mut outcome = Outcome::default();
    if !needs("strace", &mut outcome) {
        return outcome;
    }
    let target = Target::start(2);
    let mut lost = 0;
    for number in 0..count {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "--seccomp-bpf", "-o"]).arg(folder.path().join("trace"));
        let inject = format!("inject=write:delay_enter=5000000:when={}", 4 + number);
        command.args(["-e", "trace=write", "-e", &inject]).arg(binary());
        command.args(["record", "-F", "20000", "-d", "8s", "-p", &target.pid().to_string(), "-o"]);
        command.arg(folder.path().join("prof.data"));
        marked(&mut command);
        let ended = Recorder::spawn(command, folder).end(&mut outcome);
        let trace = fs::read_to_string(ended.folder.path().join("trace")).unwrap_or_default();
        outcome.faults += trace.matches("(DELAYED)").count() as u64;
        let facts = ended.count(&mut outcome).unwrap_or_default();
        lost += counter(&facts, "lost_ring_full");
    }
    target.finish(&mut outcome);
    outcome.note = format!("{lost} samples lost, and counted");
    outcome
}

/// The target runs from a file whose server stops answering before the recorder opens the file, or reads it.
fn stalling_files(count: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let program = fixture::build("unharmed").expect("a C compiler is there");
    for number in 0..count {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let contents = fs::read(&program).expect("it was built");
        let files = match StallingFiles::mount(folder.path(), contents) {
            Ok(files) => files,
            Err(why) => {
                outcome.note = format!("skipped: {why}");
                let _: Option<()> = skip(&outcome.note);
                return outcome;
            }
        };
        let target = Target::ready(Command::new(folder.path().join(FILE)).arg("2"));
        std::thread::sleep(Duration::from_millis(200));
        files.stall(if number % 2 == 0 { Stalled::All } else { Stalled::Reads });
        let begun = Instant::now();
        let mut recorder = Recorder::start(&["-p", &target.pid().to_string(), "-d", "2s"]);
        let is_saved = recorder.wait_until_it_says("saved ");
        let took = begun.elapsed();
        outcome.expect(is_saved, || format!("nothing is saved: `{}`", recorder.said().trim()));
        let ended = recorder.end(&mut outcome);
        outcome.faults += files.held();
        // The kernel lets no process go whose request the server has taken and not answered: others than prof itself.
        files.go_on();
        let facts = ended.count(&mut outcome).unwrap_or_default();
        outcome.expect(samples(&facts) > 0, || format!("nothing was recorded: `{}`", ended.said.trim()));
        outcome.note = format!(
            "{} samples of 2 s at 999 Hz, saved after {:.1} s, {} requests without an answer",
            samples(&facts),
            took.as_secs_f64(),
            files.held()
        );
        target.finish(&mut outcome);
    }
    outcome
}
