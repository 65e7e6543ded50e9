//! The collector of OpenTelemetry, as its makers build it: it gets what the report says, although it starts late, asks for a token, has no
//! room for a while, or speaks TLS.

use crate::certificate::Certificate;
use crate::{Receiver, collect, demo_profile, go, prof, recording, total, wait_until};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A program that is built, and where it is to listen.
struct Collector {
    program: PathBuf,
    address: String,
}

/// What it asks of those who send to it.
#[derive(Default)]
struct Demands<'a> {
    certificate: Option<&'a Certificate>,
    token: Option<&'a str>,
    /// Its memory is more than it may have: it takes nothing.
    is_full: bool,
}

impl Collector {
    /// Builds it, which takes minutes; `None`, after saying so, where that cannot be done.
    fn built(host: &str) -> Option<Self> {
        let program = go::program("push_collector")?;
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Some(Collector { program, address: format!("{host}:{port}") })
    }

    fn url(&self, scheme: &str) -> String {
        format!("otlp+{scheme}://{}", self.address)
    }

    fn start(&self, folder: &Path, demands: &Demands<'_>) -> Receiver {
        let mut http = format!("endpoint: '{}'", self.address);
        let (mut extensions, mut names) = (String::new(), Vec::new());
        if let Some(files) = demands.certificate {
            let (certificate, key) = (files.certificate.display(), files.key.display());
            http += &format!(", tls: {{cert_file: '{certificate}', key_file: '{key}'}}");
        }
        if let Some(token) = demands.token {
            http += ", auth: {authenticator: bearertokenauth}";
            extensions += &format!("  bearertokenauth: {{token: '{token}'}}\n");
            names.push("bearertokenauth");
        }
        if demands.is_full {
            http += ", middlewares: [{id: memory_limiter}]";
            extensions += "  memory_limiter: {check_interval: 100ms, limit_mib: 1}\n";
            names.push("memory_limiter");
        }
        let settings = format!(
            "extensions:\n{extensions}\
             receivers: {{otlp: {{protocols: {{http: {{{http}}}}}}}}}\n\
             exporters: {{debug: {{verbosity: detailed}}}}\n\
             service:\n  extensions: [{}]\n  telemetry: {{metrics: {{level: none}}}}\n\
             \x20 pipelines: {{profiles: {{receivers: [otlp], exporters: [debug]}}}}\n",
            names.join(", ")
        );
        let path = folder.join("collector.yaml");
        std::fs::write(&path, settings).unwrap();
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(&path).arg("--feature-gates=service.profilesSupport");
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let lines = collect(child.stderr.take().unwrap());
        wait_until(|| {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "the collector has ended: {:?}", lines.lock().unwrap());
            TcpStream::connect(&self.address).ok()
        });
        if demands.is_full {
            // It listens before it has looked at its memory for the first time.
            wait_until(|| {
                lines.lock().unwrap().iter().any(|line| line.contains("Refusing data")).then_some(())
            });
        }
        Receiver { child, address: self.address.clone(), lines }
    }
}

/// A `prof push` that goes on until the collector takes it, and the lines that it has said.
struct Push {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Push {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_prof"));
        command.arg("push").args(arguments).args(["--sample-label", "thread", "--retry", "4m"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = collect(child.stderr.take().unwrap());
        Push { child, said }
    }

    fn wait_until_said(&mut self, words: &str) {
        let (child, said) = (&mut self.child, &self.said);
        wait_until(|| {
            let has_ended = child.try_wait().unwrap().is_some();
            let is_said = said.lock().unwrap().iter().any(|line| line.contains(words));
            assert!(is_said || !has_ended, "it has ended: {:?}", said.lock().unwrap());
            is_said.then_some(())
        });
    }

    fn assert_delivered(mut self) {
        assert!(self.child.wait().unwrap().success(), "{:?}", self.said.lock().unwrap());
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sum of all values in the collector's dump.
fn dumped(receiver: &Receiver) -> u64 {
    let lines = receiver.lines.lock().unwrap();
    let values = lines.iter().filter_map(|line| line.trim().strip_prefix("Values: [")?.strip_suffix(']'));
    values.map(|value| value.parse::<u64>().unwrap()).sum()
}

/// Waits until the collector has dumped as much as the report says of an event, and no more; with times of threads.
fn assert_dumped(receiver: &Receiver, expected: u64, times: u64) {
    let until = Instant::now() + Duration::from_secs(30);
    while dumped(receiver) * times != expected && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(dumped(receiver) * times, expected);
    let lines = receiver.lines.lock().unwrap();
    let has = |text: &str| lines.iter().any(|line| line.contains(text));
    assert!(has("service.name: Str(") && has("host.name: Str(example)") && has("thread.name: Str("));
}

#[test]
fn the_collector_gets_what_the_report_says_although_it_starts_late() {
    let Some(collector) = Collector::built("127.0.0.1") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = recording(folder.path());
    let mut push = Push::start(&[file.to_str().unwrap(), "--to", &collector.url("http"), "-e", "cpu"]);
    push.wait_until_said("does not take it yet");
    let receiver = collector.start(folder.path(), &Demands::default());
    push.assert_delivered();
    assert_dumped(&receiver, total(&file, &["--on-cpu"]), demo_profile::PERIOD_NS);
}

#[test]
fn the_collector_gets_it_with_a_token_once_it_has_room() {
    let Some(collector) = Collector::built("127.0.0.1") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = recording(folder.path());
    let token = folder.path().join("token");
    let (url, wrong) = (collector.url("http"), folder.path().join("wrong"));
    std::fs::write(&token, "token-of-this-test\n").unwrap();
    std::fs::write(&wrong, "another").unwrap();
    let arguments = [file.to_str().unwrap(), "--to", &url, "-e", "off", "--bearer-file"];
    let mut demands = Demands { token: Some("token-of-this-test"), is_full: true, ..Demands::default() };
    let full = collector.start(folder.path(), &demands);
    let refused = prof(&[&["push"], &arguments[..], &[wrong.to_str().unwrap()]].concat());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("status 401"), "{said}");
    let mut push = Push::start(&[&arguments[..], &[token.to_str().unwrap()]].concat());
    push.wait_until_said("status 429");
    assert_eq!(dumped(&full), 0);
    drop(full);
    demands.is_full = false;
    let receiver = collector.start(folder.path(), &demands);
    push.assert_delivered();
    assert_dumped(&receiver, total(&file, &["--off-cpu"]), 1);
}

#[test]
fn the_collector_is_known_by_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(folder.path());
    let Some(certificate) = Certificate::of_localhost(folder.path()) else { return };
    let Some(collector) = Collector::built("localhost") else { return };
    let demands = Demands { certificate: Some(&certificate), ..Demands::default() };
    let receiver = collector.start(folder.path(), &demands);
    let url = collector.url("https");
    let arguments = ["push", file.to_str().unwrap(), "--to", &url, "-e", "off", "--sample-label", "thread"];
    let unknown = prof(&[&arguments[..], &["--retry", "1s"]].concat());
    assert_eq!(unknown.status.code(), Some(1), "{}", String::from_utf8_lossy(&unknown.stderr));
    assert_eq!(dumped(&receiver), 0);
    let authority = certificate.authority.to_str().unwrap();
    let known = prof(&[&arguments[..], &["--ca-file", authority]].concat());
    assert!(known.status.success(), "{}", String::from_utf8_lossy(&known.stderr));
    assert_dumped(&receiver, total(&file, &["--off-cpu"]), 1);
}
