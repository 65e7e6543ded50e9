//! Kernels that lack a feature of those that the programs use: what is recorded there, and what is said.

use crate::harness::lacking::{can_mount, command_with, prof_without_helper, types_without};
use crate::harness::machine::turn;
use crate::harness::profiler::{Recording, binary, messages, prof_at};
use crate::harness::running::{Running, UNTIL_ENDED};
use prof::internals::profile::{EventKind, read_path};
use std::process::Command;

#[derive(Clone, Copy, PartialEq, Eq)]
enum NeededBy {
    Samples,
    Waits,
    /// Which are recorded apart.
    Probes,
}

/// Helpers of the kernel by their numbers in linux/bpf.h, the newest first, and what needs them.
const HELPERS: [(u32, &str, NeededBy); 10] = [
    (191, "bpf_copy_from_user_task (5.18)", NeededBy::Waits),
    (181, "bpf_loop (5.17)", NeededBy::Samples),
    (180, "bpf_find_vma (5.17)", NeededBy::Samples),
    (175, "bpf_task_pt_regs (5.15)", NeededBy::Samples),
    (174, "bpf_get_attach_cookie (5.15)", NeededBy::Probes),
    (158, "bpf_get_current_task_btf (5.11)", NeededBy::Samples),
    (156, "bpf_task_storage_get (5.11)", NeededBy::Waits),
    (141, "bpf_get_task_stack (5.9)", NeededBy::Waits),
    (130, "bpf_ringbuf_output (5.8)", NeededBy::Samples),
    (127, "bpf_seq_write (5.7)", NeededBy::Waits),
];

/// Records the program with this id by a command of `prof`, and asserts that its running time is there with whole stacks, and
/// its waits if these can be.
#[track_caller]
fn record(lack: &str, pid: u32, has_waits: bool, command: impl FnOnce() -> Command) -> Recording {
    let pid = pid.to_string();
    let recording = Recording::made_by(0, |file| {
        let mut command = command();
        command.args(["record", "-p", &pid, "-d", "500ms", "-o"]).arg(file);
        command
    });
    let report = recording.report();
    report.assert_enough(20);
    assert!(report.complete_percent() > 95.0, "{lack}: {}", report.causes());
    let (profile, _) = read_path(&recording.file()).expect("prof wrote a file that can be read");
    assert_eq!(profile.event_of(&EventKind::OFF_CPU).is_some(), has_waits, "{lack}: waits");
    recording
}

#[test]
fn a_kernel_that_lacks_any_one_helper_is_sampled_and_says_what_it_lacks() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (number, helper, needed_by) in HELPERS {
        let prof = prof_without_helper(number, folder.path());
        let recording = record(helper, program.pid(), needed_by != NeededBy::Waits, || prof_at(&prof));
        let why = "this kernel lacks helper 16777200, which the BPF programs call";
        let note = match needed_by {
            NeededBy::Waits => {
                format!("note: off-CPU time is not recorded: cannot load the samplers: {why}; ")
            }
            NeededBy::Samples => format!("note: {why}: sampling by perf events"),
            NeededBy::Probes => String::new(),
        };
        let said = &recording.messages;
        assert!(said.contains(&note), "{helper}: {said}");
        assert_eq!(
            said.matches("this kernel lacks helper").count(),
            usize::from(!note.is_empty()),
            "{helper}: {said}"
        );
        if needed_by == NeededBy::Probes {
            let pid = program.pid().to_string();
            let mut probing = prof_at(&prof);
            probing.args(["record", "-e", "uprobe:shares:share_fifty", "-d", "500ms", "-p", &pid, "-o"]);
            let output = probing.arg(folder.path().join("probes")).output().expect("`timeout` can be run");
            let said = messages(&output);
            assert!(said.contains(why) && !output.status.success(), "{helper}: {said}");
        }
        std::fs::remove_file(&prof).expect("own file");
    }
}

/// Types of the kernel: its iterator of threads (5.8), and the event of a thread that leaves (6.16); and what is said where there is
/// a loss.
const TYPES: [(&str, Option<&str>); 2] = [
    (
        "bpf_iter_task",
        Some(
            "note: off-CPU time is not recorded: cannot load the samplers: this kernel lacks `task`, to which one of",
        ),
    ),
    ("btf_trace_sched_exit_tp", None),
];

#[test]
fn a_kernel_that_lacks_an_iterator_or_an_event_records_what_it_can() {
    let Some(_turn) = turn() else { return };
    if !can_mount() {
        return;
    }
    let Some(program) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (lack, loss) in TYPES {
        let types = types_without(lack, folder.path());
        let recording = record(lack, program.pid(), loss.is_none(), || command_with(&types));
        let said = &recording.messages;
        match loss {
            Some(loss) => assert!(said.contains(loss), "{lack}: {said}"),
            None => assert!(!said.contains("lacks") && !said.contains("not recorded"), "{lack}: {said}"),
        }
    }
}

#[test]
fn a_kernel_that_programs_can_lock_up_is_sampled_by_perf_events_and_named() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    for (kernel, can_lock_up) in [("6.1.35", true), ("6.1.36", false)] {
        let recording = record(kernel, program.pid(), true, || {
            let mut command = prof_at(binary());
            command.env("PROF_TEST_KERNEL", kernel);
            command
        });
        let said = &recording.messages;
        let note = format!("note: Linux {kernel} can lock up when BPF programs read the memory of programs");
        assert_eq!(said.contains(&note), can_lock_up, "{said}");
        assert_eq!(said.contains("sampling by perf events"), can_lock_up, "{said}");
    }
}
