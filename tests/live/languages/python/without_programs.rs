//! Functions of Python where there are no BPF programs that read them: by perf events alone.

use crate::harness::machine::turn;
use crate::languages::by_user::{LEAST_READ, recorded_by_user};
use crate::languages::python::calls::{are_reported, have_shares_of_work};
use crate::languages::python::interpreters::{of_distribution, recorded_by, script};
use crate::languages::recorded::{RunSample, RunStacks};
use crate::targets::unprivileged::{Ordinary, without_types};

/// So many samples are enough to judge what was read. Of seven programs on two CPUs a quarter was: their reader has to wait its turn.
const ENOUGH_READ: usize = 50;
/// Where less is read, what is read is not by chance: a function that has returned until its reader has a turn is not there to be
/// read, and long ones last.
const LEAST_SHARE: f64 = 0.25;

#[test]
fn without_bpf_programs_what_is_read_is_what_the_program_has_reported() {
    let Some(_turn) = turn() else { return };
    let record = |pids: &[u32]| {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        without_types(&["-p", &pids.join(","), "-d", "8s", "-F", "1999"])
    };
    let Some((recording, targets)) = recorded_by("chains.py", record) else { return };
    let stacks = RunStacks::read(&recording.file());
    let mut wrong = Vec::new();
    for target in &targets {
        let version = &target.python.version;
        let all = stacks.of(target.pid);
        let samples: Vec<&RunSample> = all.iter().copied().filter(|sample| sample.has_loop()).collect();
        let read: Vec<&RunSample> = samples.iter().copied().filter(|sample| sample.is_read()).collect();
        let share = read.len() as f64 / samples.len() as f64;
        println!("python {version}: {} samples, {:.1} % read", samples.len(), 100.0 * share);
        assert!(
            samples.len() > 100,
            "{version}: {} samples, {} of the interpreter's loop: {}",
            all.len(),
            samples.len(),
            recording.messages
        );
        wrong.extend((read.len() < ENOUGH_READ).then(|| format!("{version}: {} read", read.len())));
        let mut faults = vec![are_reported(target, &read)];
        match share >= LEAST_SHARE {
            true => faults.push(have_shares_of_work(target, &read)),
            false => println!("python {version}: its shares are not judged"),
        }
        wrong.extend(
            faults.into_iter().filter_map(|fault| Some(format!("python {version}: {}", fault.err()?))),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Burns two seconds of CPU time, hardly any of it in the kernel, which an ordinary user may not sample.
const BURN: &str =
    "import time\ndef burn():\n    while time.thread_time() < 2:\n        sum(range(10000))\nburn()\n";

/// The samples of a command wake no one until it runs an interpreter: from then on they wake who reads its functions.
#[test]
fn what_a_command_of_an_ordinary_user_starts_has_its_functions() {
    let Some(_turn) = turn() else { return };
    let (Some(user), Some(python)) = (Ordinary::user(), of_distribution()) else { return };
    let script = format!("{} -c '{BURN}'; :", python.program.display());
    let recording = user.record(&["--", "sh", "-c", &script]);
    let stacks = RunStacks::read(&recording.file());
    let samples: Vec<&RunSample> = stacks.samples.iter().filter(|sample| sample.has_loop()).collect();
    let read = samples.iter().filter(|sample| sample.is_read()).count();
    println!("{read} of {} samples read", samples.len());
    let is_enough = samples.len() > 1_000 && read * 2 > samples.len();
    assert!(is_enough || recording.was_crowded, "{read} of {}: {}", samples.len(), recording.messages);
    if is_enough {
        recording.stacks().assert_has(&["<module>", "burn"]);
    }
    let report = recording.report();
    assert!(report.complete_percent() > 99.0, "{}", report.causes());
    // An ordinary user has little room for samples: where `prof` has to wait for a CPU, it is full before.
    let taken = report.samples() + report.lost();
    assert!(report.lost() * 20 < taken || recording.was_crowded, "{} of {taken} lost", report.lost());
}

#[test]
fn an_ordinary_user_has_the_functions_of_python() {
    let Some(python) = of_distribution() else { return };
    let program = python.program.to_str().expect("its path is text");
    let Some(made) = recorded_by_user(program, &[], &[script("chains.py")], &[]) else { return };
    let stacks = RunStacks::read(&made.recording.file());
    assert!(!made.read(&stacks, LEAST_READ).is_empty());
    made.recording.stacks().assert_has(&["<module>", "burn_twice"]);
}
