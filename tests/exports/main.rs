//! Exports, opened by the readers that they are made for. What these add up is what `prof report --json` says.
//!
//! A made-up recording is written to a file and exported by the program itself; nothing is recorded. A reader that is not
//! there, or that cannot be had, skips its test.

#![allow(clippy::unwrap_used, reason = "all of it is test code; the lint only spares `#[test]` functions")]

mod benchstat;
#[path = "../support/demo_profile.rs"]
mod demo_profile;
mod firefox;
mod go;
mod perfetto;
mod speedscope;
#[path = "../support/mod.rs"]
mod support;
mod text;
mod tools;

use prof::internals::profile::Writer;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Waits of the recording.
const WAITS: u64 = 2_000;

/// What is asked of a recording, in the words of the command line, and the names of the events that are exported then.
const CHOICES: [(&[&str], &[&str]); 5] = [
    (&[], &["--on-cpu", "--off-cpu"]),
    (&["--on-cpu"], &["--on-cpu"]),
    (&["--off-cpu"], &["--off-cpu"]),
    (&["--wall"], &["--on-cpu", "--off-cpu"]),
    (&["-e", "page-faults"], &["-e page-faults"]),
];

fn prof(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_prof")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The recording's file.
fn recording() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let mut profile = demo_profile::with_waits(demo_profile::steady(), WAITS);
        let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
        writer.flush(&mut profile, false).unwrap();
        // The same bytes in each run; a run that goes on meanwhile keeps the file that it has opened.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let mut file = tempfile::NamedTempFile::new_in(folder).unwrap();
        file.write_all(&writer.into_inner()).unwrap();
        let path = folder.join("exports.data");
        file.persist(&path).unwrap();
        path
    })
}

/// Exports to a file called `name` in `folder`; returns its path, and what was said.
fn export(folder: &Path, name: &str, arguments: &[&str]) -> (PathBuf, String) {
    let path = folder.join(name);
    let mut all = vec!["export", recording().to_str().unwrap(), "-o", path.to_str().unwrap(), "--idle"];
    all.extend(arguments);
    let output = prof(&all);
    assert!(output.stdout.is_empty());
    (path, String::from_utf8(output.stderr).unwrap())
}

/// What `prof report --json` says of a choice of time.
fn report(choice: &str) -> Value {
    let mut all = vec!["report", recording().to_str().unwrap(), "--json", "--idle", "--flat"];
    all.extend(choice.split(' '));
    serde_json::from_slice(&prof(&all).stdout).unwrap()
}

/// The total that it says.
fn total(choice: &str) -> u64 {
    report(choice)["total"].as_u64().unwrap()
}

/// The total of several.
fn totals(choices: &[&str]) -> u64 {
    choices.iter().map(|choice| total(choice)).sum()
}

#[test]
fn what_a_file_cannot_hold_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    for (name, note) in [
        ("a.pb.gz", "note: pprof cannot store times, CPUs or wakers: equal stacks are merged"),
        (
            "a.firefox.json",
            "note: 7 short waits, 4.32 us in all, were only counted: they have no times and are left out",
        ),
        ("a.json", "note: page-faults samples are not included: export them separately with -e page-faults"),
    ] {
        let (_, said) = export(folder.path(), name, &[]);
        assert_eq!(said.matches(note).count(), 1, "{said}");
    }
    let (_, said) = export(folder.path(), "a.svg", &[]);
    assert_eq!(said, "");
}
