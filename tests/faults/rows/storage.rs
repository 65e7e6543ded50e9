//! Files and disks: full, small, slow to answer, gone.

use crate::fault::{Fault, How, Outcome};
use crate::harness::machine::tool;
use crate::harness::profiler::binary;
use crate::recorder::{Recorder, marked, samples};
use crate::support::skip;
use crate::target::Target;
use std::fs;
use std::process::Command;
use std::time::Duration;

pub(super) fn rows() -> Vec<Fault> {
    vec![
        Fault {
            number: "9",
            name: "the disk is full, or becomes so",
            holds: "a message, an exit status, a readable file or none, the target runs on",
            tests: &[
                "a_full_disk_leaves_a_readable_file_and_no_second_try",
                "a_full_disk_is_reported_and_leaves_nothing_half_written",
                "a_recording_of_waits_alone_is_kept_when_the_disk_fills_up",
                "a_disk_that_fills_up_does_not_change_the_commands_status",
            ],
            how: How::Injected { short: Some(2), long: 12, run: full_disks },
        },
        Fault {
            number: "10",
            name: "RLIMIT_FSIZE",
            holds: "as a full disk; no death by SIGXFSZ",
            tests: &[],
            how: How::Injected { short: Some(2), long: 10, run: limited_files },
        },
        Fault {
            number: "43",
            name: "the file or its folder is removed meanwhile",
            holds: "the recording is saved elsewhere, and the message says where",
            tests: &[
                "a_recording_whose_folder_is_removed_goes_where_temporary_files_are",
                "a_recording_whose_file_is_moved_or_replaced_is_found",
                "a_recording_whose_file_is_overwritten_is_lost_and_that_is_said",
                "of_two_recorders_with_one_name_one_gets_it_and_the_other_says_where_its_recording_is",
                "an_output_that_exists_is_kept_unless_forced",
            ],
            how: How::Injected { short: Some(1), long: 10, run: removed_files },
        },
    ]
}

/// Sizes in KiB of the disk: from one that holds nothing to one that holds some seconds.
const DISKS_KIB: [u64; 6] = [4, 16, 64, 256, 512, 1024];

fn full_disks(count: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let target = Target::start(4);
    for number in 0..count {
        let size = DISKS_KIB[(number * 2 % 6 + number / 3 % 2) as usize];
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        // The file is copied out of the disk, which goes away with the mounts.
        let script = "mkdir \"$3/disk\" && mount -t tmpfs -o size=\"$2k\" none \"$3/disk\" && \
            \"$0\" record -F 20000 --call-graph dwarf -p \"$1\" -d 3s -o \"$3/disk/prof.data\"; status=$?; \
            [ ! -e \"$3/disk/prof.data\" ] || cp \"$3/disk/prof.data\" \"$3/prof.data\"; exit $status";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(binary());
        command.args([target.pid().to_string(), size.to_string()]).arg(folder.path());
        marked(&mut command);
        outcome.faults += 1;
        let ended = Recorder::spawn(command, folder).end(&mut outcome);
        ended.count(&mut outcome);
        let is_told = ended.status.success() || ended.said.contains("space");
        outcome.expect(is_told, || format!("a full disk is not named: `{}`", ended.said.trim()));
    }
    target.finish(&mut outcome);
    outcome
}

fn limited_files(count: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let target = Target::start(4);
    for number in 0..count {
        let blocks = [1, 64, 16, 256, 4][(number % 5) as usize];
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let script = "ulimit -f \"$2\"; exec \"$0\" record -F 20000 -p \"$1\" -d 2s -o \"$3/prof.data\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(binary());
        command.args([target.pid().to_string(), blocks.to_string()]).arg(folder.path());
        marked(&mut command);
        outcome.faults += 1;
        let ended = Recorder::spawn(command, folder).end(&mut outcome);
        // A file of messages is limited, too: what was said may be cut.
        ended.count(&mut outcome);
        outcome.expect(ended.status.code().is_some(), || format!("prof ends with {}", ended.status));
    }
    target.finish(&mut outcome);
    outcome
}

fn removed_files(count: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let target = Target::start(4);
    for _ in 0..count {
        let mut recorder = Recorder::start(&["-p", &target.pid().to_string(), "-d", "1200ms"]);
        recorder.wait_until_it_records();
        std::thread::sleep(Duration::from_millis(900));
        let file = recorder.folder.path().join("prof.data");
        outcome.faults += u64::from(fs::remove_file(&file).is_ok());
        let ended = recorder.end(&mut outcome);
        let names = fs::read_dir(ended.folder.path()).expect("own folder").flatten();
        let saved = names.map(|entry| entry.path()).find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("prof.data"))
        });
        outcome.recordings += 1;
        match saved {
            Some(path) if matches!(crate::recorder::kept(&path), crate::recorder::Kept::Readable(_)) => {
                outcome.readable += 1;
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                outcome.expect(ended.said.contains(&name), || format!("`{name}` is not named"));
            }
            _ => outcome.problems.push(format!("no file was saved again: `{}`", ended.said.trim())),
        }
    }
    target.finish(&mut outcome);
    outcome
}

/// Whether a program is there that a row needs; says so if not.
pub(super) fn needs(name: &str, outcome: &mut Outcome) -> bool {
    let found = tool(name).is_some();
    if !found {
        outcome.note = format!("skipped: {name} is not installed");
        let _: Option<()> = skip(&outcome.note);
    }
    found
}

/// A recording of half a second that has to work.
pub(super) fn works(target: &Target, outcome: &mut Outcome) -> u64 {
    let ended = Recorder::start(&["-p", &target.pid().to_string(), "-d", "500ms"]).end(outcome);
    outcome.expect(ended.status.success(), || format!("a recording fails: `{}`", ended.said.trim()));
    ended.count(outcome).map_or(0, |facts| samples(&facts))
}
