//! Imports, compared with what the tools themselves say of the files, and with what was exported.
//!
//! A tool that is not there skips its test.

#![allow(clippy::unwrap_used, reason = "all of it is test code; the lint only spares `#[test]` functions")]

#[path = "../support/demo_profile.rs"]
mod demo_profile;
mod exported;
mod go;
mod perf;
#[path = "../support/mod.rs"]
mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_prof")).args(arguments).output().unwrap()
}

fn prof(arguments: &[&str]) -> Output {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Imports `file` to a file of its own; returns that and what was said.
fn import(file: &Path, arguments: &[&str]) -> (PathBuf, String) {
    let mut path = file.as_os_str().to_owned();
    path.push(".prof");
    let path = PathBuf::from(path);
    let mut all = vec!["import", file.to_str().unwrap(), "-f", "-o", path.to_str().unwrap()];
    all.extend(arguments);
    let output = prof(&all);
    assert!(output.stdout.is_empty());
    (path, String::from_utf8(output.stderr).unwrap())
}

/// What `prof report --json` says of a profile.
fn report(file: &Path, choice: &[&str]) -> Value {
    let mut all = vec!["report", file.to_str().unwrap(), "--json", "--idle", "--flat"];
    all.extend(choice);
    serde_json::from_slice(&prof(&all).stdout).unwrap()
}

/// Own weight and total of each function, by name: the same name in two modules is one.
fn functions(report: &Value) -> BTreeMap<String, (u64, u64)> {
    let mut sums = BTreeMap::new();
    for row in report["rows"].as_array().unwrap() {
        let number = |key: &str| row[key].as_u64().unwrap();
        let sum: &mut (u64, u64) = sums.entry(row["function"].as_str().unwrap().to_owned()).or_default();
        *sum = (sum.0 + number("self"), sum.1 + number("total"));
    }
    sums
}

#[test]
fn an_existing_file_is_replaced_only_by_force_and_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (folder.path().join("a.folded"), folder.path().join("out.prof"));
    std::fs::write(&source, "main;work 3\n").unwrap();
    let arguments = ["import", source.to_str().unwrap(), "-o", out.to_str().unwrap()];
    prof(&arguments);
    assert_eq!(out.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let refused = run(&arguments);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("it exists"), "{said}");
    prof(&[&arguments[..], &["-f"]].concat());
    let own = run(&["import", source.to_str().unwrap(), "-f", "-o", source.to_str().unwrap()]);
    assert_eq!((own.status.code(), std::fs::read(&source).unwrap()), (Some(1), b"main;work 3\n".to_vec()));
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 2, "nothing half-written stays");
}

#[test]
fn what_cannot_be_imported_is_said_with_the_status() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.prof");
    let try_import = |name: &str, bytes: &[u8], arguments: &[&str]| {
        let source = folder.path().join(name);
        std::fs::write(&source, bytes).unwrap();
        let fixed = ["import", source.to_str().unwrap(), "-o", out.to_str().unwrap()];
        let output = run(&[&fixed[..], arguments].concat());
        assert!(!out.exists());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, said) = try_import("a.json", b"{\"a\": 1}", &[]);
    assert!(status == Some(1) && said.contains("it is JSON") && said.contains("--format"), "{said}");
    let (status, said) = try_import("none.folded", b"# nothing\n", &["--format", "folded"]);
    assert!(status == Some(3) && said.contains("has no samples"), "{said}");
    let (status, said) = try_import("a.folded", b"a;b 1\n", &["--format", "pprof"]);
    assert!(status == Some(1) && said.contains("no pprof profile"), "{said}");
    let (status, said) = try_import("b.folded", b"a;b 1\n", &["--format", "pprof", "--unit", "us"]);
    assert!(status == Some(2) && said.contains("folded"), "{said}");
}

#[test]
fn reports_say_what_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("a.folded");
    std::fs::write(&source, "main;work 30\nmain 10\n").unwrap();
    let (file, said) = import(&source, &[]);
    assert!(said.starts_with("imported folded stacks to `"), "{said}");
    assert!(said.contains("samples: 40 samples = 40"), "{said}");
    let json = report(&file, &[]);
    for unknown in ["/duration_ns", "/quality/complete_pct", "/quality/truncated_pct", "/quality/lost"] {
        assert_eq!(json.pointer(unknown), Some(&Value::Null), "{unknown}");
    }
    assert_eq!((json["total"].as_u64(), json["samples"].as_u64()), (Some(40), Some(40)));
    let text = String::from_utf8(prof(&["report", file.to_str().unwrap()]).stdout).unwrap();
    for words in
        ["length not known", "stacks complete: not known", "lost: not known", "imported from folded stacks"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("end early"), "{text}");
    let info = String::from_utf8(prof(&["info", file.to_str().unwrap()]).stdout).unwrap();
    assert!(
        info.contains("source    folded stacks, file ") && info.contains("length    not known"),
        "{info}"
    );
}
