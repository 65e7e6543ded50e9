//! `prof push`, with receivers that others wrote: the API of Pyroscope with pprof's own parser, and the collector of
//! OpenTelemetry. What these add up is what `prof report --json` says, to the nanosecond.
//!
//! A made-up recording is written to a file and sent by the program itself; nothing is recorded. A receiver that cannot be built
//! skips its tests.

#![allow(clippy::unwrap_used, reason = "all of it is test code; the lint only spares `#[test]` functions")]

mod agent;
mod certificate;
mod collector;
#[path = "../support/demo_profile.rs"]
mod demo_profile;
mod go;
#[path = "../support/mod.rs"]
mod support;

use prof::internals::profile::Writer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Waits of the recording.
const WAITS: u64 = 2_000;

fn prof(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_prof")).args(arguments).output().unwrap()
}

/// A recording in a folder.
fn recording(folder: &Path) -> PathBuf {
    let mut profile = demo_profile::with_waits(demo_profile::steady(), WAITS);
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    writer.flush(&mut profile, true).unwrap();
    let path = folder.join("demo.data");
    std::fs::write(&path, writer.into_inner()).unwrap();
    path
}

/// The total that `prof report --json` says.
fn total(file: &Path, choice: &[&str]) -> u64 {
    let output = prof(&[&["report", file.to_str().unwrap(), "--json", "--flat"], choice].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["total"].as_u64().unwrap()
}

/// A receiver, which ends with its test, and the lines that it has printed.
struct Receiver {
    child: Child,
    address: String,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Collects lines as they come.
fn collect(from: impl Read + Send + 'static) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&lines);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            seen.lock().unwrap().push(line);
        }
    });
    lines
}

fn wait_until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    // A minute is the longest wait between two tries, and the machine may be crowded.
    let until = Instant::now() + Duration::from_secs(400);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it does not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn pyroscope(arguments: &[&str]) -> Option<Receiver> {
    let program = go::program("push_receiver")?;
    let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = collect(child.stdout.take().unwrap());
    let address = wait_until(|| lines.lock().unwrap().first().cloned());
    Some(Receiver { child, address, lines })
}

impl Receiver {
    /// The profiles that came.
    fn profiles(&self) -> Vec<Value> {
        let lines = self.lines.lock().unwrap();
        lines[1..].iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Sums of values by the name of their series and their type.
fn sums(profiles: &[Value]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for profile in profiles {
        let name = profile["labels"]["__name__"].as_str().unwrap();
        let totals = profile["totals"].as_array().unwrap();
        for (kind, total) in profile["types"].as_array().unwrap().iter().zip(totals) {
            let key = format!("{name} {}", kind.as_str().unwrap());
            *sums.entry(key).or_default() += total.as_u64().unwrap();
        }
    }
    sums
}

#[test]
fn pyroscope_gets_what_the_report_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(folder.path());
    let Some(receiver) = pyroscope(&["-busy", "2", "-partly", "1"]) else { return };
    let (url, token) = (format!("pyroscope+http://{}", receiver.address), folder.path().join("token"));
    std::fs::write(&token, "me:secret\n").unwrap();
    let arguments =
        ["push", file.to_str().unwrap(), "--to", &url, "--label", "env=test", "--tenant", "team-a"];
    let output = prof(&[&arguments[..], &["--basic-auth-file", token.to_str().unwrap()]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("status 429") && !said.contains("secret"), "{said}");
    // What was stored of the first request is not sent again: the sums would be higher.
    let summary = String::from_utf8_lossy(&output.stdout);
    assert!(summary.contains("demo.data") && summary.contains("in 2 requests"), "{summary}");
    let profiles = receiver.profiles();
    let sums = sums(&profiles);
    assert_eq!(sums["process_cpu cpu/nanoseconds"], total(&file, &["--on-cpu"]), "{sums:?}");
    assert_eq!(sums["off_cpu off_cpu/nanoseconds"], total(&file, &["--off-cpu"]), "{sums:?}");
    assert_eq!(sums["page_faults page_faults/count"], total(&file, &["-e", "page-faults"]), "{sums:?}");
    for profile in &profiles {
        let labels = profile["labels"].as_object().unwrap();
        assert_eq!((&labels["env"], &labels["host"]), (&Value::from("test"), &Value::from("example")));
        assert!(!labels["service_name"].as_str().unwrap().is_empty());
        assert!(["pid", "tid", "thread"].iter().all(|key| !labels.contains_key(*key)));
        assert!(profile["sample_labels"].as_object().unwrap().is_empty(), "{profile}");
        assert_eq!((&profile["tenant"], &profile["scheme"]), (&Value::from("team-a"), &Value::from("Basic")));
        let is_cpu = labels["__name__"] == "process_cpu";
        let period = if is_cpu { ("cpu/nanoseconds", demo_profile::PERIOD_NS) } else { continue };
        assert_eq!(
            (profile["period_type"].as_str(), profile["period"].as_u64()),
            (Some(period.0), Some(period.1))
        );
    }
}

#[test]
fn what_the_judge_of_profiles_refuses_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(folder.path());
    // Nothing listens there.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("pyroscope+http://{address}");
    let output = prof(&["push", file.to_str().unwrap(), "--to", &url, "--retry", "1s"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("not delivered") && said.contains("check the host and the port"), "{said}");
    let shown = prof(&["push", file.to_str().unwrap(), "--to", &url, "--dry-run"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(
        shown.status.success() && text.contains("process_cpu {") && text.contains("request 1: "),
        "{text}"
    );
    let empty = prof(&["push", folder.path().join("none").to_str().unwrap(), "--to", &url]);
    assert_eq!(empty.status.code(), Some(1));
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    let nothing = prof(&["push", folder.path().join("folder").to_str().unwrap(), "--to", &url]);
    assert_eq!(nothing.status.code(), Some(3), "{}", String::from_utf8_lossy(&nothing.stderr));
    assert_eq!(prof(&["push", file.to_str().unwrap(), "--to", "http://h"]).status.code(), Some(2));
}
