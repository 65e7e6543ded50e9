//! Speedscope's JSON in Speedscope itself, in headless Chromium, and against the schema that it ships.

use crate::support::{run_well, skip};
use crate::tools::installed;
use crate::{CHOICES, export, report, totals};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = "1.25.0";

fn application() -> Option<PathBuf> {
    let at = "node_modules/speedscope/dist/release";
    let folder = installed(&format!("speedscope-{VERSION}"), at, |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--prefix"])
            .arg(folder);
        npm.arg(format!("speedscope@{VERSION}"));
        vec![npm]
    })?;
    Some(folder.join(at))
}

/// Whether `value` is as `schema` says, as far as schemas are used there: types, what is required, one of several.
fn is_valid(schema: &Value, root: &Value, value: &Value) -> bool {
    if let Some(name) = schema["$ref"].as_str() {
        return is_valid(&root["definitions"][name.strip_prefix("#/definitions/").unwrap()], root, value);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return choices.iter().any(|choice| is_valid(choice, root, value));
    }
    if schema["const"].is_string() && schema["const"] != *value {
        return false;
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return false;
    }
    let empty = Vec::new();
    match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("array") => value
            .as_array()
            .is_some_and(|items| items.iter().all(|item| is_valid(&schema["items"], root, item))),
        Some("object") => value.as_object().is_some_and(|object| {
            let required = schema["required"].as_array().unwrap_or(&empty);
            let is_there = required.iter().all(|key| object.contains_key(key.as_str().unwrap()));
            is_there
                && object.iter().all(|(key, value)| {
                    schema["properties"].get(key).is_none_or(|schema| is_valid(schema, root, value))
                })
        }),
        _ => true,
    }
}

#[test]
fn the_file_is_as_the_schema_says_and_adds_up() {
    let Some(application) = application() else { return };
    let schema = fs::read_to_string(application.join("file-format-schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (arguments, choices) in CHOICES {
        let (file, _) = export(folder.path(), "app.speedscope.json", &[arguments, &["-f"]].concat());
        let value: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        assert!(is_valid(&schema, &schema, &value), "{arguments:?}");
        // What the schema does not say: that numbers are in range, and columns as long as each other.
        let frames = value["shared"]["frames"].as_array().unwrap().len() as u64;
        let mut sum = 0;
        for profile in value["profiles"].as_array().unwrap() {
            let [samples, weights] = ["samples", "weights"].map(|key| profile[key].as_array().unwrap());
            assert_eq!(samples.len(), weights.len());
            let mut all = samples.iter().flat_map(|sample| sample.as_array().unwrap());
            assert!(all.all(|frame| frame.as_u64().unwrap() < frames));
            let own: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
            assert_eq!(profile["endValue"].as_u64(), Some(own));
            sum += own;
        }
        assert_eq!(sum, totals(choices), "{arguments:?}");
        let mut broken = value.clone();
        broken["profiles"][0]["unit"] = "parsecs".into();
        assert!(!is_valid(&schema, &schema, &broken), "the check finds something");
    }
}

fn chromium(state: &Path) -> Option<Command> {
    let found = ["chromium", "chromium-browser"].into_iter().find(|program| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    let Some(program) = found else { return skip("chromium is not installed") };
    let mut command = Command::new("timeout");
    command.args([
        "--kill-after=5",
        "600",
        program,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
    ]);
    command.args([
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-sync",
    ]);
    command.args([
        "--disable-component-update",
        "--allow-file-access-from-files",
        "--virtual-time-budget=8000",
    ]);
    command.args(["--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1200,700"]);
    command.arg(format!("--user-data-dir={}", state.display()));
    Some(command)
}

/// The bytes as base64, as the application takes a file.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let digit = char::from(DIGITS[(word >> (18 - 6 * at)) as usize & 63]);
            out.push(if at <= chunk.len() { digit } else { '=' });
        }
    }
    out
}

#[test]
fn the_application_shows_it() {
    let Some(application) = application() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = export(folder.path(), "app.speedscope.json", &[]);
    let script = folder.path().join("load.js");
    let name = "app.speedscope.json";
    let call = format!("speedscope.loadFileFromBase64({name:?}, {:?})", base64(&fs::read(file).unwrap()));
    fs::write(&script, call).unwrap();
    let Some(mut command) = chromium(&folder.path().join("state")) else { return };
    let page = format!(
        "file://{}/index.html#view=sandwich&localProfilePath={}",
        application.display(),
        script.display()
    );
    let Some(output) = run_well(command.args(["--dump-dom", &page])) else { return };
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(!dom.contains("Something went wrong"), "{dom}");
    // The table of functions: the one with the most own time, and how much of it.
    let said = report("--on-cpu");
    let row = &said["rows"][0];
    let function =
        row["function"].as_str().unwrap().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    assert!(dom.contains(&function), "{function}: {}", &dom[..dom.len().min(4_000)]);
    let ms = row["self"].as_f64().unwrap() / 1e6;
    let shown = if ms < 1e3 { format!("{ms:.2}ms (") } else { format!("{:.2}s (", ms / 1e3) };
    assert!(dom.contains("ingest on-CPU"), "the first profile is the one that is shown");
    assert!(dom.contains(&shown), "{shown}");
}
