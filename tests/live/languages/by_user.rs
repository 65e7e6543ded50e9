//! Programs that an ordinary user runs and records: there are no BPF programs that read their functions.

use crate::harness::machine::{copy_for_everyone, tool_or_skip, turn};
use crate::harness::profiler::Recording;
use crate::languages::recorded::{RunSample, RunStacks};
use crate::targets::unprivileged::Ordinary;
use std::path::PathBuf;

/// Share of the samples in an interpreter whose functions are read at the least, where no more threads want to run than there are
/// processors. Of programs of one thread on two CPUs it was 0.72 to 0.99 beside other work.
pub(crate) const LEAST_READ: f64 = 0.5;
/// Of several threads that want to run at a time a part is read: the reader has to wait its turn.
pub(crate) const LEAST_READ_OF_THREADS: f64 = 0.1;

/// A recording of a program by the user who runs it.
pub(crate) struct UserRecording {
    pub(crate) recording: Recording,
    pub(crate) pid: u32,
    /// What the program printed after `ready`.
    pub(crate) printed: String,
}

/// Records the first of some scripts, run with these options of the interpreter and arguments of its own; `None`, after saying
/// why, where that cannot be.
pub(crate) fn recorded_by_user(
    interpreter: &str,
    options: &[&str],
    scripts: &[PathBuf],
    arguments: &[&str],
) -> Option<UserRecording> {
    let _turn = turn()?;
    let (user, program) = (Ordinary::user()?, tool_or_skip(interpreter)?);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let copies: Vec<PathBuf> =
        scripts.iter().map(|script| copy_for_everyone(script, folder.path())).collect();
    let script = copies[0].to_str().expect("temporary paths are text");
    let words: Vec<&str> = options.iter().copied().chain([script]).chain(arguments.iter().copied()).collect();
    let running = user.start(&program, &words);
    let pid = running.pid();
    let recording = user.record(&["-p", &pid.to_string(), "-d", "4s", "-F", "1999"]);
    recording.complete_names();
    assert!(running.is_alive(), "it has ended: {:?}", running.end());
    Some(UserRecording { recording, pid, printed: running.finish() })
}

impl UserRecording {
    /// The samples whose functions were read, after a look at whether these are enough: a part `least` of all.
    pub(crate) fn read<'s>(&self, stacks: &'s RunStacks, least: f64) -> Vec<&'s RunSample> {
        let samples: Vec<&RunSample> =
            stacks.of(self.pid).into_iter().filter(|sample| sample.has_loop()).collect();
        let read: Vec<&RunSample> = samples.iter().copied().filter(|sample| sample.is_read()).collect();
        let share = read.len() as f64 / samples.len().max(1) as f64;
        assert!(samples.len() > 300 || self.recording.was_crowded, "only {} samples", samples.len());
        assert!(share > least || self.recording.was_crowded, "{share:.3}: {}", self.recording.messages);
        read
    }
}
