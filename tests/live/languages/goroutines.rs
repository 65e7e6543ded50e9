//! Goroutines of Go programs: whose work samples are of, and what all goroutines wait for, against what the program says.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::{Recording, prof};
use crate::harness::running::Running;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Goroutines of the fixture that wait for ever, by the function and what Go calls it, in any version.
const PARKED: [(&str, &[&str], f64); 4] = [
    ("main.parkReceive", &["chan receive"], 40.0),
    ("main.parkSelect", &["select"], 10.0),
    ("main.parkLock", &["sync.Mutex.Lock", "semacquire"], 5.0),
    ("main.parkRead", &["IO wait"], 3.0),
];

/// The fixture, by the Go that is installed and by that of the distribution, with its name.
fn programs() -> Vec<(&'static str, PathBuf)> {
    let own = fixture::build("gowork").map(|program| ("go", program));
    let old =
        fixture::build_by_distribution("gowork", "go").map(|program| ("the distribution's go", program));
    own.into_iter().chain(old).collect()
}

/// Rows of a report by the name of each, with their samples.
fn samples_by(recording: &Recording, options: &[&str]) -> BTreeMap<String, u64> {
    let report = recording.report_with(options);
    let rows = report.0["rows"].as_array().expect("rows");
    let row = |row: &Value| {
        Some((row["function"].as_str()?.to_owned(), row["samples"].as_u64()?))
            .filter(|(_, samples)| *samples > 0)
    };
    rows.iter().filter_map(row).collect()
}

/// All samples, and those in the row of what has no such label.
fn missing(rows: &BTreeMap<String, u64>) -> (u64, u64) {
    let without = rows.iter().filter(|(name, _)| name.starts_with("[no ")).map(|(_, samples)| samples).sum();
    (rows.values().sum(), without)
}

fn check_labels(go: &str, recording: &Recording) {
    let on_cpu = ["--on-cpu", "--focus", r"^main\.(spin|serve)"];
    let all = missing(&samples_by(recording, &[&on_cpu[..], &["--by", "goroutine"]].concat()));
    assert!(all.0 > 500 && 1000 * all.1 <= all.0, "{go}: {} of {} samples have no goroutine", all.1, all.0);
    for tenant in ["alpha", "beta"] {
        let filter = format!("tenant={tenant}");
        let of_tenant = |by: &str| samples_by(recording, &["--on-cpu", "--label", &filter, "--by", by]);
        let (numbers, own) = (of_tenant("goroutine"), of_tenant("label:self"));
        let known: Vec<_> =
            own.iter().map(|(name, samples)| (name.replace("self=", "goroutine="), *samples)).collect();
        let found: Vec<_> = numbers.into_iter().collect();
        // In its first moments it has the first label only.
        let known: Vec<_> = known.into_iter().filter(|(name, _)| !name.starts_with("[no ")).collect();
        assert_eq!((found.len(), known.len()), (1, 1), "{go}: {found:?}, {known:?}");
        assert_eq!(found[0].0, known[0].0, "{go}");
    }
    let served =
        ["--on-cpu", "--focus", r"^main\.serve\.func1\.1$|^main\.serve\.func1\.func", "--by", "label:tenant"];
    let served = missing(&samples_by(recording, &served));
    assert!(served.0 > 100 && 1000 * served.1 <= served.0, "{go}: {served:?} samples without their tenant");
    // A request's two labels are made together: a set of one request's and another's is a wrong one.
    let [requests, twins] =
        ["label:request", "label:twin"].map(|by| samples_by(recording, &["--on-cpu", "--by", by]));
    let of = |rows: &BTreeMap<String, u64>, key: &str| {
        let digits = |(name, samples): (&String, &u64)| Some((name.strip_prefix(key)?.to_owned(), *samples));
        rows.iter().filter_map(digits).collect::<BTreeMap<_, _>>()
    };
    let (requests, twins) = (of(&requests, "request=r"), of(&twins, "twin=t"));
    assert!(requests.len() > 50, "{go}: {} requests", requests.len());
    assert_eq!(requests, twins, "{go}");
}

fn check_states(go: &str, recording: &Recording, printed: &str) {
    let report = recording.report_with(&["--goroutines"]);
    let rows = report.0["rows"].as_array().expect("rows");
    let of = |function: &str| rows.iter().filter(|row| row["function"] == function).collect::<Vec<_>>();
    for (function, states, count) in PARKED {
        let [row] = of(function)[..] else { panic!("{go}: {function}: {:?}", of(function)) };
        assert!(states.contains(&row["state"].as_str().unwrap_or_default()), "{go}: {row}");
        let found = row["goroutines"].as_f64().expect("a number");
        assert!((found / count - 1.0).abs() < 0.05, "{go}: {found} goroutines in {function}, not {count}");
    }
    // What the program has measured itself.
    let last = printed.lines().rev().find_map(|line| {
        let (napped, paused) = line.split_once(' ')?;
        Some((napped.parse::<f64>().ok()?, paused.parse::<f64>().ok()?))
    });
    let (napped, paused) = last.expect("the program says how long its goroutines waited");
    let time = |function: &str| of(function).iter().filter_map(|row| row["self"].as_f64()).sum::<f64>();
    let found = time("main.nap") / (time("main.nap") + time("main.pause"));
    let known = napped / (napped + paused);
    let was_crowded = recording.was_crowded;
    assert!(
        (found / known - 1.0).abs() < 0.05 || was_crowded,
        "{go}: naps are {found} of the waits, not {known}"
    );
}

/// One recording for all: goroutines of samples, of snapshots, and what they wait for.
#[test]
fn goroutines_have_their_numbers_labels_and_states() {
    let Some(_turn) = turn() else { return };
    for (go, program) in programs() {
        let running = Running::start_ready(Command::new(program).args(["120"]));
        let options = ["-F", "999", "--goroutines", "--max-overhead", "0"];
        let recording = Recording::of_pid_with(running.pid(), "10s", &options);
        check_labels(go, &recording);
        check_states(go, &recording, &running.finish());
    }
}

#[test]
fn snapshots_of_ten_thousand_goroutines_are_cheap_and_keep_to_their_budget() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("gowork") else { return };
    let running = Running::start_ready(Command::new(program).args(["120", "10000"]));
    let mean_ms = |recording: &Recording| {
        let counters = recording.info();
        let number = |name: &str| counters[name].as_f64().unwrap_or(0.0);
        number("goroutine_snapshots_cpu_ns") / number("goroutine_snapshots") / 1e6
    };
    let all = Recording::of_pid_with(running.pid(), "3s", &["--goroutines", "--max-overhead", "0"]);
    assert!(mean_ms(&all) <= 50.0 || all.was_crowded, "a snapshot takes {} ms", mean_ms(&all));
    assert_eq!(all.info()["goroutines_skipped"].as_u64().unwrap_or(0), 0);
    let thinned = Recording::of_pid_with(running.pid(), "5s", &["--goroutines"]);
    assert!(mean_ms(&thinned) <= 2.0 || thinned.was_crowded, "a snapshot takes {} ms", mean_ms(&thinned));
    assert!(thinned.info()["goroutines_skipped"].as_u64().unwrap_or(0) > 0);
    let report = thinned.report_with(&["--goroutines"]);
    let receive = report.0["rows"]
        .as_array()
        .and_then(|rows| rows.iter().find(|row| row["function"] == "main.parkReceive"));
    let count = receive.and_then(|row| row["goroutines"].as_f64()).expect("most of them are there");
    assert!((9_000.0..11_000.0).contains(&count), "{count} goroutines");
}

/// A program that is started has its goroutines, and one that is no Go program says that it has none.
#[test]
fn goroutines_are_recorded_from_the_start_of_a_program_that_has_some() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("gowork") else { return };
    let program = program.to_str().expect("a path is text");
    let recording = Recording::with(["--goroutines", "--", "sh", "-c", &format!("{program} 2; exit 0")]);
    let report = recording.report_with(&["--goroutines"]);
    let rows = report.0["rows"].as_array().expect("rows");
    assert!(rows.iter().any(|row| row["function"] == "main.parkSelect"), "{rows:?}");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let own = std::process::id().to_string();
    let mut record = prof();
    record.args(["record", "--goroutines", "-d", "1s", "-p", &own, "-o"]).arg(folder.path().join("none"));
    let output = record.output();
    let said = String::from_utf8_lossy(&output.expect("`timeout` can be run").stderr).into_owned();
    assert!(said.contains("no target is a Go program"), "{said}");
}
