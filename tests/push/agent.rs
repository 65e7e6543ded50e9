//! `prof agent` with a real recording: what it keeps on the host and what its server got are the same, to the nanosecond, although the
//! server was away at first and busy then.

use crate::support::skip;
use crate::{collect, prof, pyroscope, sums, total, wait_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process that is killed with its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address at which nothing listens.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The page of an agent; empty while it does not answer.
fn page(address: &str, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(address) else { return String::new() };
    let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

/// The value of a metric.
fn metric(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn signal(process: &Child, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(process.id().to_string()).status();
    assert!(sent.unwrap().success());
}

fn configuration(folder: &Path, server: &str, metrics: &str) -> String {
    let folder = folder.display();
    format!(
        "frequency = 99\nwindow = \"5s\"\nseries_labels = [\"host\"]\n\
         [labels]\nteam = \"a\"\n\
         [buffer]\nfolder = \"{folder}/buffer\"\n\
         [keep]\nfolder = \"{folder}/kept\"\n\
         [metrics]\nlisten = \"{metrics}\"\n\
         [[rules]]\nsource_labels = [\"__env_TIER\"]\nregex = \"(.+)\"\ntarget_label = \"tier\"\n\
         [[destinations]]\nname = \"store\"\nurl = \"http://{server}\"\nprotocol = \"pyroscope\"\n"
    )
}

#[test]
fn an_agent_loses_nothing_while_its_server_is_away() {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        skip::<()>("live tests need root and a kernel with BTF");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (server, metrics) = (free_address(), free_address());
    let config = folder.path().join("agent.toml");
    std::fs::write(&config, configuration(folder.path(), &server, &metrics)).unwrap();
    let checked = prof(&["agent", "--config", config.to_str().unwrap(), "--check"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    let mut burn = Command::new("sh");
    burn.args(["-c", "while :; do :; done"]).env("OTEL_SERVICE_NAME", "checkout").env("TIER", "gold");
    let burn = Killed(burn.spawn().unwrap());
    let mut agent = Command::new(env!("CARGO_BIN_EXE_prof"));
    agent.args(["agent", "--config"]).arg(&config).stderr(Stdio::piped());
    // All parts of the agent write there: a pipe that they keep open would hold up who reads this test's own output.
    agent.stdout(Stdio::null()).stdin(Stdio::null());
    let mut agent = Killed(agent.spawn().unwrap());
    let said = collect(agent.0.stderr.take().unwrap());
    let heard = |words: &str| said.lock().unwrap().iter().any(|line| line.contains(words)).then_some(());

    // The server is away: windows wait, and it is said.
    wait_until(|| metric(&page(&metrics, "/metrics"), "prof_buffer_files").filter(|files| *files >= 2.0));
    wait_until(|| heard("store: "));
    assert!(page(&metrics, "/healthz").starts_with("HTTP/1.1 200"), "{}", page(&metrics, "/healthz"));
    // A configuration that is wrong changes nothing.
    std::fs::write(&config, "frequency = 19\nwidow = \"5s\"\n").unwrap();
    signal(&agent.0, "HUP");
    wait_until(|| heard("widow"));
    wait_until(|| heard("goes on as it is"));

    let Some(receiver) = pyroscope(&["-listen", &server, "-busy", "2"]) else { return };
    wait_until(|| {
        let profiles = receiver.profiles();
        profiles.iter().any(|profile| profile["labels"]["service_name"] == "checkout").then_some(())
    });
    wait_until(|| metric(&page(&metrics, "/metrics"), "prof_buffer_files").filter(|files| *files < 2.0));
    drop(burn);
    signal(&agent.0, "TERM");
    let ended = wait_until(|| agent.0.try_wait().unwrap());
    assert!(ended.success(), "{ended} {:?}", said.lock().unwrap());

    let profiles = receiver.profiles();
    let kept = folder.path().join("kept");
    assert_eq!(sums(&profiles)["process_cpu cpu/nanoseconds"], total(&kept, &["--on-cpu"]));
    let checkout = profiles.iter().find(|profile| profile["labels"]["service_name"] == "checkout").unwrap();
    let labels = checkout["labels"].as_object().unwrap();
    assert_eq!((&labels["team"], &labels["tier"]), (&"a".into(), &"gold".into()), "{labels:?}");
    assert!(labels.contains_key("host") && !labels.contains_key("pid"), "{labels:?}");
    // Nothing is left to send.
    let waiting = std::fs::read_dir(folder.path().join("buffer")).unwrap().flatten();
    let left: usize = waiting.map(|entry| std::fs::read_dir(entry.path()).unwrap().count()).sum();
    assert_eq!(left, 0, "{:?}", said.lock().unwrap());
}
