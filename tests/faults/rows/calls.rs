//! Calls of the kernel that fail: the N-th of each kind in each thread, injected by strace.

use super::storage::needs;
use crate::fault::{Fault, How, Outcome};
use crate::harness::profiler::binary;
use crate::recorder::{Recorder, marked};
use crate::target::Target;
use std::fs;
use std::process::Command;

/// Kinds of calls and the error that each gets; all that a recording makes.
const CALLS: [(&str, &str); 14] = [
    ("write", "ENOSPC"),
    ("write", "EIO"),
    ("openat", "EMFILE"),
    ("mmap", "ENOMEM"),
    ("bpf", "EPERM"),
    ("perf_event_open", "EMFILE"),
    ("ioctl", "EINVAL"),
    ("clone3", "EAGAIN"),
    ("pread64", "EIO"),
    ("read", "EIO"),
    ("fstat,statx,newfstatat", "EACCES"),
    ("renameat2,rename,link,linkat", "EACCES"),
    ("openat2", "ENOSYS"),
    ("epoll_ctl,epoll_create1,eventfd2,timerfd_create,pidfd_open", "EMFILE"),
];

/// Where the standard library wants memory for a thread.
const SIGNAL_STACK: &str = "pal/unix/stack_overflow.rs";

/// Most calls of a kind in a thread that are made to fail, one in each recording.
const MOST: u64 = 400;

pub(super) fn rows() -> Vec<Fault> {
    vec![Fault {
        number: "11",
        name: "the N-th call of a kind fails, for each N",
        holds: "no panic, an exit status, a readable file or none with a message",
        tests: &["a_cache_that_cannot_be_written_is_said_once"],
        how: How::Injected { short: Some(10), long: 10_000, run: failing_calls },
    }]
}

/// At most `count` recordings. In the short form, one of each of some kinds, at different places.
fn failing_calls(count: u64) -> Outcome {
    let mut outcome = Outcome::default();
    if !needs("strace", &mut outcome) {
        return outcome;
    }
    let target = Target::start(2);
    let is_short = count < CALLS.len() as u64 * 2;
    let mut survived = 0;
    let mut runs = 0;
    'kinds: for (kind, (calls, error)) in (1..).zip(CALLS) {
        // Near each other first, then ever further apart: most of the late ones are alike.
        let mut number = if is_short { kind * 3 } else { first_of(calls) };
        while number < MOST {
            if runs == count {
                break 'kinds;
            }
            runs += 1;
            let (injected, has_survived) = fails(&target, calls, error, number, &mut outcome);
            outcome.faults += injected;
            survived += u64::from(has_survived);
            // No thread makes so many calls of this kind.
            if injected == 0 || is_short {
                break;
            }
            number += 1 + number / 16;
        }
    }
    target.finish(&mut outcome);
    outcome.note = format!("{runs} recordings, {survived} of them in spite of it");
    outcome
}

/// The first call of a kind that prof itself makes: before that, the dynamic linker maps libraries.
fn first_of(calls: &str) -> u64 {
    if calls == "mmap" { 2 } else { 1 }
}

/// One recording, in which call `number` of a kind fails in each thread. How many did, and whether it went on to the end.
fn fails(target: &Target, calls: &str, error: &str, number: u64, outcome: &mut Outcome) -> (u64, bool) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "--seccomp-bpf", "-o"]).arg(folder.path().join("trace"));
    command.args(["-e", &format!("trace={calls}")]);
    command.args(["-e", &format!("inject={calls}:error={error}:when={number}")]);
    command.arg(binary()).args([
        "record",
        "-F",
        "2000",
        "-d",
        "300ms",
        "-p",
        &target.pid().to_string(),
        "-o",
    ]);
    command.arg(folder.path().join("prof.data"));
    marked(&mut command);
    let before = outcome.problems.len();
    let ended = Recorder::spawn(command, folder).end(outcome);
    // A thread's first memory is for its signal stack, without which the standard library ends the program: no one can be asked
    // what else to do.
    if ended.said.contains(SIGNAL_STACK) {
        outcome.problems.truncate(before);
        return (1, false);
    }
    ended.count(outcome);
    let trace = fs::read_to_string(ended.folder.path().join("trace")).unwrap_or_default();
    for problem in outcome.problems.iter_mut().skip(before) {
        *problem = format!("{calls} {number} {error}: {problem}");
    }
    (trace.matches("(INJECTED)").count() as u64, ended.status.success())
}
