//! Firefox Profiler's JSON, checked against what its documentation says of the processed profile format: the application
//! itself is not to be had as a program.

use crate::{CHOICES, export, report, totals};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::io::Read;

/// The columns of each table, and which table their numbers are of. `?` allows null, `-` allows -1.
const TABLES: [(&str, &[(&str, &str)]); 7] = [
    ("samples", &[("stack", "?stackTable"), ("timeDeltas", ""), ("weight", ""), ("threadCPUDelta", "")]),
    (
        "markers",
        &[
            ("name", "stringArray"),
            ("category", "categories"),
            ("startTime", ""),
            ("endTime", ""),
            ("phase", ""),
            ("data", ""),
        ],
    ),
    ("stackTable", &[("prefix", "?stackTable"), ("frame", "frameTable")]),
    (
        "frameTable",
        &[
            ("address", ""),
            ("inlineDepth", ""),
            ("category", "categories"),
            ("subcategory", ""),
            ("func", "funcTable"),
            ("nativeSymbol", "?nativeSymbols"),
            ("innerWindowID", ""),
            ("line", ""),
            ("column", ""),
        ],
    ),
    (
        "funcTable",
        &[
            ("name", "stringArray"),
            ("isJS", ""),
            ("relevantForJS", ""),
            ("resource", "-resourceTable"),
            ("fileName", "?stringArray"),
            ("lineNumber", ""),
            ("columnNumber", ""),
        ],
    ),
    ("resourceTable", &[("lib", "libs"), ("name", "stringArray"), ("host", ""), ("type", "")]),
    (
        "nativeSymbols",
        &[("address", ""), ("functionSize", ""), ("libIndex", "libs"), ("name", "stringArray")],
    ),
];

fn items(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn length_of(profile: &Value, thread: &Value, table: &str) -> u64 {
    match table {
        "libs" => items(&profile["libs"]).len() as u64,
        "categories" => items(&profile["meta"]["categories"]).len() as u64,
        "stringArray" => items(&thread["stringArray"]).len() as u64,
        table => thread[table]["length"].as_u64().unwrap(),
    }
}

/// Tables of equal length, numbers in range, parents before children.
fn check_tables(profile: &Value, thread: &Value) {
    for (table, columns) in TABLES {
        let length = length_of(profile, thread, table);
        for (column, of) in columns {
            let values = items(&thread[table][column]);
            assert_eq!(values.len() as u64, length, "{table}.{column}");
            let (of, may_be_null) = (of.trim_start_matches(['?', '-']), of.starts_with('?'));
            if of.is_empty() {
                continue;
            }
            let limit = length_of(profile, thread, of);
            for value in values {
                let is_none = (may_be_null && value.is_null()) || (column == &"resource" && *value == -1);
                assert!(
                    is_none || value.as_u64().is_some_and(|value| value < limit),
                    "{table}.{column}: {value}"
                );
            }
        }
    }
    for (row, prefix) in items(&thread["stackTable"]["prefix"]).iter().enumerate() {
        assert!(prefix.as_u64().is_none_or(|prefix| prefix < row as u64), "a parent comes first");
    }
}

/// Times that do not go back, CPU time that is there, markers with what their schema says.
fn check_rows(profile: &Value, thread: &Value) {
    let numbers =
        |value: &Value| -> Vec<f64> { items(value).iter().map(|value| value.as_f64().unwrap()).collect() };
    assert!(numbers(&thread["samples"]["timeDeltas"]).iter().all(|delta| *delta >= 0.0));
    let (starts, ends) = (numbers(&thread["markers"]["startTime"]), numbers(&thread["markers"]["endTime"]));
    assert!(starts.is_sorted() && starts.iter().zip(&ends).all(|(start, end)| start <= end));
    let schema = &profile["meta"]["markerSchema"][0];
    let fields: Vec<(&str, &str)> = items(&schema["fields"])
        .iter()
        .map(|field| (field["key"].as_str().unwrap(), field["format"].as_str().unwrap()))
        .collect();
    let strings = items(&thread["stringArray"]).len() as u64;
    let stacks = thread["stackTable"]["length"].as_u64().unwrap();
    for data in items(&thread["markers"]["data"]) {
        assert_eq!(data["type"], schema["name"]);
        for (key, value) in data.as_object().unwrap() {
            match fields.iter().find(|(field, _)| field == key) {
                Some((_, "unique-string")) => assert!(value.as_u64().unwrap() < strings),
                Some(_) => assert!(value.is_number()),
                None if key == "cause" => assert!(value["stack"].as_u64().unwrap() < stacks),
                None => assert_eq!(key, "type"),
            }
        }
    }
}

fn read(path: &std::path::Path) -> Value {
    let bytes = std::fs::read(path).unwrap();
    let mut text = Vec::new();
    match path.extension().unwrap().to_str() {
        Some("gz") => GzDecoder::new(&*bytes).read_to_end(&mut text).map(drop).unwrap(),
        _ => text = bytes,
    }
    serde_json::from_slice(&text).unwrap()
}

/// A number of milliseconds in nanoseconds.
fn ns(value: &Value) -> u64 {
    (value.as_f64().unwrap() * 1e6).round() as u64
}

#[test]
fn the_profile_is_as_its_documentation_says() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, choices) in CHOICES {
        let (file, _) = export(folder.path(), "app.firefox.json", &[arguments, &["-f"]].concat());
        let profile = read(&file);
        for thread in items(&profile["threads"]) {
            check_tables(&profile, thread);
            check_rows(&profile, thread);
        }
        let rows = |table: &str, column: &str| -> Vec<Value> {
            items(&profile["threads"])
                .iter()
                .flat_map(|thread| items(&thread[table][column]).to_vec())
                .collect()
        };
        let unit = &profile["threads"][0]["samples"]["weightType"];
        let weight: u64 = match unit.as_str().unwrap() {
            "tracing-ms" => rows("samples", "weight").iter().map(ns).sum(),
            _ => rows("samples", "weight").iter().map(|weight| weight.as_u64().unwrap()).sum(),
        };
        // Beside samples waits are markers; waits that were only counted have no time.
        let sampled: &[&str] = if arguments.is_empty() { &choices[..1] } else { choices };
        let counted_ns = if sampled.contains(&"--off-cpu") { 4_321 } else { 0 };
        assert_eq!(weight, totals(sampled) - counted_ns, "{arguments:?}");
        let (starts, ends) = (rows("markers", "startTime"), rows("markers", "endTime"));
        let length_ns: u64 = starts.iter().zip(&ends).map(|(start, end)| ns(end) - ns(start)).sum();
        let waits = if choices.contains(&"--off-cpu") { totals(&["--off-cpu"]) - 4_321 } else { 0 };
        assert_eq!(length_ns, waits, "{arguments:?}");
    }
}

#[test]
fn threads_lines_and_inlined_functions_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = export(folder.path(), "app.profile.json.gz", &[]);
    let profile = read(&file);
    let meta = &profile["meta"];
    assert_eq!((&meta["preprocessedProfileVersion"], &meta["product"]), (&55.into(), &"ingest".into()));
    assert_eq!(meta["startTime"].as_f64(), Some(1_700_000_000_000.0));
    assert_eq!(profile["libs"][0]["codeId"], "000102030405060708090a0b0c0d0e0f10111213");
    assert_eq!(profile["libs"][0]["breakpadId"], "030201000504070608090A0B0C0D0E0F0");
    let threads = items(&profile["threads"]);
    let names: Vec<(&Value, &Value, &Value)> =
        threads.iter().map(|thread| (&thread["name"], &thread["pid"], &thread["tid"])).collect();
    assert_eq!(
        names,
        [
            (&"ingest".into(), &"4312".into(), &"4312".into()),
            (&"worker".into(), &"4312".into(), &"4313".into())
        ]
    );
    let frames = &threads[0]["frameTable"];
    assert!(items(&frames["inlineDepth"]).iter().any(|depth| *depth == 2));
    assert!(items(&frames["line"]).iter().all(|line| line.as_u64().is_some_and(|line| line > 0)));
    let cpu_us: u64 =
        items(&threads[0]["samples"]["threadCPUDelta"]).iter().map(|delta| delta.as_u64().unwrap()).sum();
    let samples = report("--on-cpu")["samples"].as_u64().unwrap();
    // Whole microseconds of each.
    assert_eq!(cpu_us, samples * 1_001);
}
