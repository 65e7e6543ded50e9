//! Our own exports, imported again: the same totals and functions.

use crate::{demo_profile, functions, import, prof, report};
use prof::internals::profile::Writer;
use std::path::{Path, PathBuf};

/// A made-up recording with waits, exported to a file called `name`; returns both.
fn exported(folder: &Path, name: &str, arguments: &[&str]) -> (PathBuf, PathBuf) {
    let recording = folder.join("prof.data");
    let mut profile = demo_profile::with_waits(demo_profile::steady(), 500);
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    writer.flush(&mut profile, false).unwrap();
    std::fs::write(&recording, writer.into_inner()).unwrap();
    let file = folder.join(name);
    let fixed = ["export", recording.to_str().unwrap(), "-f", "-o", file.to_str().unwrap(), "--idle"];
    prof(&[&fixed[..], arguments].concat());
    (recording, file)
}

#[test]
fn folded_stacks_come_back() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, unit, is_count) in [(&[][..], "ns", false), (&["--count"][..], "samples", true)] {
        let (recording, file) = exported(folder.path(), "app.folded", arguments);
        let (imported, _) = import(&file, &["--unit", unit]);
        let (before, after) = (report(&recording, &["--on-cpu"]), report(&imported, &[]));
        let total = if is_count { &before["samples"] } else { &before["total"] };
        assert_eq!(&after["total"], total, "{unit}");
        if !is_count {
            assert_eq!(functions(&after), functions(&before));
        }
    }
}

#[test]
fn pprof_comes_back() {
    assert_comes_back("app.pb.gz");
}

#[test]
fn perf_script_text_comes_back() {
    assert_comes_back("app.perf-script");
}

/// Asserts that a recording that is exported as `name` and imported again has the same totals, samples and functions.
fn assert_comes_back(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (recording, file) = exported(folder.path(), name, &[]);
    let (imported, _) = import(&file, &[]);
    for choice in ["--on-cpu", "--off-cpu"] {
        let (before, after) = (report(&recording, &[choice]), report(&imported, &[choice]));
        assert_eq!(after["total"], before["total"], "{choice}");
    }
    let (before, after) = (report(&recording, &["--on-cpu"]), report(&imported, &["--on-cpu"]));
    assert_eq!(after["samples"], before["samples"]);
    assert_eq!(functions(&after), functions(&before));
}
