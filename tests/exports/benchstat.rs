//! A comparison as lines of Go benchmarks, in benchstat.

use crate::support::run_well;
use crate::tools::installed;
use crate::{prof, recording};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// The first version that knows `-col` and needs no newer Go than distributions have.
const VERSION: &str = "v0.0.0-20230113213139-801c7ef9e5c5";

fn benchstat() -> Option<PathBuf> {
    let at = "bin/benchstat";
    let folder = installed(&format!("benchstat-{VERSION}"), at, |folder| {
        let mut go = Command::new("go");
        go.args(["install", &format!("golang.org/x/perf/cmd/benchstat@{VERSION}")]);
        go.env("GOBIN", folder.join("bin")).env("GOPATH", folder.join("go")).env("GOTOOLCHAIN", "local");
        // Modules are read-only otherwise, and cannot be removed.
        go.env("GOFLAGS", "-modcacherw").env("GOCACHE", folder.join("cache")).current_dir(folder);
        vec![go]
    })?;
    Some(folder.join(at))
}

/// Seconds of each benchmark on both sides, by its name.
fn rows(csv: &str) -> BTreeMap<String, [f64; 2]> {
    let row = |line: &str| {
        // A name with commas stands in quotes.
        let (name, rest) = match line.strip_prefix('"') {
            Some(quoted) => quoted.split_once("\",")?,
            None => line.split_once(',')?,
        };
        let fields: Vec<&str> = rest.split(',').collect();
        let seconds = |at: usize| fields.get(at)?.parse().ok();
        Some((name.to_owned(), [seconds(0)?, seconds(2)?]))
    };
    csv.lines().filter_map(row).collect()
}

#[test]
fn benchstat_has_the_functions_and_times_of_the_comparison() {
    let Some(benchstat) = benchstat() else { return };
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("lines.txt");
    let file = recording().to_str().unwrap();
    let sides = [file, file, "--on-cpu", "--per", "run"];
    prof(&[&["diff"], &sides[..], &["--format", "gobench", "-o", lines.to_str().unwrap()]].concat());
    let comparison: Value =
        serde_json::from_slice(&prof(&[&["diff"], &sides[..], &["--json"]].concat()).stdout).unwrap();
    let mut command = Command::new(benchstat);
    command
        .args(["-col", "side", "-row", ".fullname", "-format", "csv"])
        .arg(&lines)
        .env("HOME", folder.path());
    let output = run_well(&mut command).unwrap();
    let found = rows(&String::from_utf8(output.stdout).unwrap());
    let is_near = |seconds: f64, ns: &Value| {
        let ns = ns.as_f64().unwrap();
        (seconds * 1e9 - ns).abs() <= 1.0 + 1e-9 * ns
    };
    let mut compared = 0;
    for row in comparison["rows"].as_array().unwrap() {
        // A name is one word there.
        let name = format!("Self/{}", row["function"].as_str().unwrap().replace(' ', "_"));
        let Some(times) = found.get(&name) else { continue };
        let sides = ["base", "new"].map(|side| &row["self"][side]);
        assert!(
            times.iter().zip(sides).all(|(seconds, ns)| is_near(*seconds, ns)),
            "{name}: {times:?}, {row}"
        );
        compared += 1;
    }
    assert!(compared >= 5, "{compared} of {found:?}");
    let total = &found["Total"];
    assert!(is_near(total[0], &comparison["total"]["base"]), "{total:?}");
}
