//! `prof agent` with a real recording: what it keeps on the host and what its server got are the same, to the nanosecond, although the
//! server was away for minutes at first and busy then.

use crate::support::skip;
use crate::{collect, go, prof, pyroscope, sums, total, wait_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Whether a host can be recorded here; says so if not.
fn may_record() -> bool {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let may = is_root && Path::new("/sys/kernel/btf/vmlinux").exists();
    if !may {
        skip::<()>("live tests need root and a kernel with BTF");
    }
    may
}

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

/// A server that answers each request with what `answer` makes of its head; its address.
fn serve(answer: impl Fn(&str) -> &'static str + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut came = Vec::new();
            let mut piece = [0; 4096];
            // The body is not waited for, but read, so that the answer is not lost with it.
            while !came.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => break,
                    Ok(length) => came.extend_from_slice(&piece[..length]),
                }
                // The hello of TLS, which this does not speak.
                if !came.starts_with(b"POST ") {
                    break;
                }
            }
            let text = String::from_utf8_lossy(&came).into_owned();
            let head = text.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let begun =
                came.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(0, |at| came.len() - at - 4);
            let mut left = length.unwrap_or(0usize).saturating_sub(begun);
            while left > 0 {
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => break,
                    Ok(length) => left = left.saturating_sub(length),
                }
            }
            let status = answer(&head);
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    address
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

/// How long the server of the agent is away: many windows, and waits between two tries as long as they get.
const OUTAGE: Duration = Duration::from_secs(300);

/// How many files wait in the folders of a buffer.
fn files_to_send(buffer: &Path) -> usize {
    let waiting = std::fs::read_dir(buffer).unwrap().flatten().filter(|entry| entry.path().is_dir());
    waiting.map(|entry| std::fs::read_dir(entry.path()).unwrap().count()).sum()
}

#[test]
fn an_agent_loses_nothing_while_its_server_is_away() {
    // It is built before the agent starts: that takes as long as the network and the machine make it.
    if !may_record() || go::program("push_receiver").is_none() {
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
    let (mut agent, said) = started(&config);
    let started_at = Instant::now();
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
    let refused = "prof_config_reloads_total{result=\"refused\"}";
    wait_until(|| metric(&page(&metrics, "/metrics"), refused).filter(|reloads| *reloads == 1.0));
    let used = page(&metrics, "/metrics");
    assert!(metric(&used, "prof_rss_bytes") > Some(1e7), "{used}");
    assert!(metric(&used, "prof_cpu_seconds_total{part=\"user\"}") > Some(0.0), "{used}");

    std::thread::sleep(OUTAGE.saturating_sub(started_at.elapsed()));
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
    let left = files_to_send(&folder.path().join("buffer"));
    assert_eq!(left, 0, "{:?}", said.lock().unwrap());
}

/// Mounts a file system of `kilobytes` at a folder of its own for as long as the value lives.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(kilobytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "prof-test"]).arg(folder.path());
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

/// A configuration with a server that there is not, one that does not speak TLS, one that wants a token, and one that refuses all.
fn troubled(buffer: &Path, metrics: &str, token: &Path, [guarded, strict]: [&str; 2]) -> String {
    let to = |name: &str, url: &str, more: &str| {
        format!(
            "[[destinations]]\nname = \"{name}\"\nurl = \"{url}\"\nprotocol = \"pyroscope\"\ntimeout = \"2s\"\n{more}"
        )
    };
    [
        format!("frequency = 99\nwindow = \"5s\"\n[buffer]\nfolder = \"{}/buffer\"\n", buffer.display()),
        format!("[metrics]\nlisten = \"{metrics}\"\n"),
        to("nowhere", "http://no-such-host.invalid:4040", ""),
        to("untrusted", &format!("https://{strict}"), ""),
        to("guarded", &format!("http://{guarded}"), &format!("bearer_file = \"{}\"\n", token.display())),
        to("strict", &format!("http://{strict}"), ""),
    ]
    .concat()
}

/// Starts the agent; returns it, and what it says.
fn started(config: &Path) -> (Killed, Arc<Mutex<Vec<String>>>) {
    let mut agent = Command::new(env!("CARGO_BIN_EXE_prof"));
    agent.args(["agent", "--config"]).arg(config).stderr(Stdio::piped());
    // All parts of the agent write there: a pipe that they keep open would hold up who reads this test's own output.
    agent.stdout(Stdio::null()).stdin(Stdio::null());
    let mut agent = Killed(agent.spawn().unwrap());
    let said = collect(agent.0.stderr.take().unwrap());
    (agent, said)
}

/// One recording, sent to servers with all kinds of trouble from a disk that is nearly full.
#[test]
fn an_agent_says_what_stops_it_and_goes_on() {
    if !may_record() {
        return;
    }
    let Some(disk) = SmallDisk::new(2_000) else {
        skip::<()>("a small file system cannot be mounted here");
        return;
    };
    std::fs::write(disk.0.path().join("filler"), vec![1; 1_500_000]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (metrics, token) = (free_address(), folder.path().join("token"));
    std::fs::write(&token, "old").unwrap();
    let guarded = serve(|head| match head.contains("authorization: bearer new") {
        true => "200 OK",
        false => "401 Unauthorized",
    });
    let strict = serve(|_| "400 Bad Request");
    let config = folder.path().join("agent.toml");
    std::fs::write(&config, troubled(disk.0.path(), &metrics, &token, [&guarded, &strict])).unwrap();
    let burn = Killed(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    let (mut agent, said) = started(&config);
    let heard = |words: &str| said.lock().unwrap().iter().any(|line| line.contains(words)).then_some(());
    let grows = |name: &str| {
        wait_until(|| metric(&page(&metrics, "/metrics"), name).filter(|value| *value > 0.0));
    };

    // Where there is no network, no name can be asked for.
    let problems = [
        ("nowhere", &["dns", "connection", "timeout"][..]),
        ("untrusted", &["tls"]),
        ("guarded", &["unauthorized"]),
    ];
    for (name, problems) in problems {
        grows(&format!("prof_push_retries_total{{destination=\"{name}\"}}"));
        wait_until(|| problems.iter().find_map(|problem| heard(&format!("{name}: {problem}"))));
    }
    grows("prof_dropped_total{reason=\"rejected\"}");
    grows("prof_dropped_profiles_total{reason=\"rejected\"}");
    let codes = ["400", "401", "tls"].map(|code| format!("prof_push_requests_total{{code=\"{code}\"}}"));
    codes.iter().for_each(|name| grows(name));
    wait_until(|| heard("strict: "));
    // The token is renewed, and what has waited arrives.
    std::fs::write(&token, "new").unwrap();
    grows("prof_last_push_timestamp_seconds{destination=\"guarded\"}");
    // What waits for the others fills the disk: the oldest goes, and the recording goes on.
    grows("prof_dropped_total{reason=\"buffer_full\"}");
    let samples = metric(&page(&metrics, "/metrics"), "prof_samples_total{event=\"on_cpu\"}").unwrap();
    wait_until(|| {
        let now = metric(&page(&metrics, "/metrics"), "prof_samples_total{event=\"on_cpu\"}");
        now.filter(|now| *now > samples)
    });
    let health = page(&metrics, "/healthz");
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    drop(burn);
    signal(&agent.0, "TERM");
    let ended = wait_until(|| agent.0.try_wait().unwrap());
    assert!(ended.success(), "{ended} {:?}", said.lock().unwrap());
}

#[test]
fn an_agent_whose_address_of_metrics_is_taken_sends_all_the_same() {
    if !may_record() {
        return;
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = taken.local_addr().unwrap().to_string();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let server = serve(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        "200 OK"
    });
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("agent.toml");
    std::fs::write(&config, configuration(folder.path(), &server, &metrics)).unwrap();
    let _burn = Killed(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    let (mut agent, said) = started(&config);
    wait_until(|| (requests.load(Ordering::Relaxed) > 0).then_some(()));
    drop(taken);
    let page_200 = |path: &str| Some(page(&metrics, path)).filter(|page| page.starts_with("HTTP/1.1 200"));
    wait_until(|| page_200("/readyz"));
    // The page has it once the numbers are taken together the next time.
    let sent = || metric(&page(&metrics, "/metrics"), "prof_push_requests_total{code=\"200\"}");
    wait_until(|| sent().filter(|sent| *sent > 0.0));
    signal(&agent.0, "TERM");
    let ended = wait_until(|| agent.0.try_wait().unwrap());
    let said = said.lock().unwrap().join("\n");
    assert!(ended.success(), "{ended} {said}");
    assert_eq!(said.matches("cannot serve metrics at").count(), 1, "{said}");
    assert_eq!(said.matches("metrics are served at").count(), 1, "{said}");
    assert!(!said.contains("has ended"), "{said}");
}

/// Writes the configuration of an agent that only keeps its recordings. Returns it, and the folder of its buffer.
fn keeping(folder: &Path) -> (PathBuf, PathBuf) {
    let (config, buffer) = (folder.join("agent.toml"), folder.join("b"));
    let text = format!("[buffer]\nfolder = \"{0}\"\n[keep]\nfolder = \"{0}/k\"\n", buffer.display());
    std::fs::write(&config, text).unwrap();
    (config, buffer)
}

#[test]
fn an_agent_without_rights_says_so_once_and_ends() {
    use std::os::unix::process::CommandExt;
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (config, _) = keeping(folder.path());
    // Users without rights may not go into the folder of this build.
    let program = folder.path().join("prof");
    std::fs::copy(env!("CARGO_BIN_EXE_prof"), &program).unwrap();
    let nobody = 65534;
    std::os::unix::fs::chown(folder.path(), Some(nobody), Some(nobody)).unwrap();
    std::os::unix::fs::chown(&config, Some(nobody), Some(nobody)).unwrap();
    let mut agent = Command::new(program);
    agent.args(["agent", "--config"]).arg(&config).uid(nobody).gid(nobody);
    let ended = agent.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(5), "{said}");
    assert_eq!(said.matches("CAP_BPF and CAP_PERFMON missing").count(), 1, "{said}");
    assert!(said.contains("the agent ends"), "{said}");
}

#[test]
fn a_second_agent_in_the_same_folder_is_refused() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (config, buffer) = keeping(folder.path());
    let (mut first, said) = started(&config);
    wait_until(|| buffer.join("accepted.toml").exists().then_some(()));
    let second = prof(&["agent", "--config", config.to_str().unwrap()]);
    let refused = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{refused}");
    assert!(refused.contains("another agent uses the folder"), "{refused}");
    // Nor one that removes the recordings that the first one keeps.
    let (other, kept) = (folder.path().join("other.toml"), folder.path().join("other"));
    let text =
        format!("[buffer]\nfolder = \"{}\"\n[keep]\nfolder = \"{}/k\"\n", kept.display(), buffer.display());
    std::fs::write(&other, text).unwrap();
    let second = prof(&["agent", "--config", other.to_str().unwrap()]);
    let refused = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{refused}");
    assert!(refused.contains("another agent uses the folder") && refused.contains("[keep]"), "{refused}");
    // The first one goes on, and the folder is free once it has ended, however it ends.
    assert!(first.0.try_wait().unwrap().is_none(), "{:?}", said.lock().unwrap());
    drop(first);
    // Its parts end with it, also those that had just begun when it was killed.
    let accepted = buffer.join("accepted.toml");
    wait_until(|| (!is_running_with(accepted.to_str().unwrap())).then_some(()));
    let (mut third, said) = started(&config);
    std::thread::sleep(Duration::from_secs(2));
    signal(&third.0, "TERM");
    let ended = wait_until(|| third.0.try_wait().unwrap());
    assert!(ended.success(), "{:?}", said.lock().unwrap());
}

/// Whether a process has an argument.
fn is_running_with(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command_lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    command_lines.into_iter().any(|line| line.split(|byte| *byte == 0).any(|own| own == argument.as_bytes()))
}

/// The process that has a name among those that `ancestor` has started, and these have.
fn descendant(ancestor: u32, name: &str) -> Option<u32> {
    let mut family = vec![ancestor];
    while let Some(pid) = family.pop() {
        if std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim() == name {
            return Some(pid);
        }
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        family.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    None
}

#[test]
fn an_agent_whose_parts_are_killed_goes_on_and_counts_all() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (config, root, metrics) = (folder.path().join("agent.toml"), folder.path().display(), free_address());
    let text = format!(
        "frequency = 99\nwindow = \"5s\"\n[buffer]\nfolder = \"{root}/b\"\n[keep]\nfolder = \"{root}/k\"\n\
         [metrics]\nlisten = \"{metrics}\"\n"
    );
    std::fs::write(&config, text).unwrap();
    let _burn = Killed(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    let (mut agent, said) = started(&config);
    let counted = |name: &str| metric(&page(&metrics, "/metrics"), name);
    let windows =
        |least: f64| wait_until(|| counted("prof_windows_total").filter(|windows| *windows >= least));
    let kill = |signal: &str, pid: u32| {
        assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
    };
    windows(1.0);
    // The recorder cannot go on without the processes that open and read files, and is started again.
    for (number, needed) in ["prof-opener", "prof-workers"].into_iter().enumerate() {
        kill("-KILL", wait_until(|| descendant(agent.0.id(), needed)));
        let restarts = || counted("prof_recording_restarts_total{reason=\"ended\"}");
        wait_until(|| restarts().filter(|restarts| *restarts > number as f64));
        let before = counted("prof_windows_total").unwrap_or_default();
        windows(before + 2.0);
    }
    // What the sender has counted is not lost with it.
    let sender = wait_until(|| descendant(agent.0.id(), "prof-sender"));
    let before = windows(1.0);
    kill("-TERM", sender);
    wait_until(|| descendant(agent.0.id(), "prof-sender").filter(|pid| *pid != sender));
    assert!(windows(1.0) >= before, "{before} windows before");
    windows(before + 1.0);
    signal(&agent.0, "TERM");
    let ended = wait_until(|| agent.0.try_wait().unwrap());
    assert!(ended.success(), "{ended} {:?}", said.lock().unwrap());
    // The last page is that of no one; the counters are what it would have been.
    let counters = std::fs::read_to_string(folder.path().join("b/counters.json")).unwrap();
    let counters: serde_json::Value = serde_json::from_str(&counters).unwrap();
    let of = |name: &str| {
        let own = counters["counters"].as_array().unwrap().iter().filter(|counter| counter[0] == name);
        own.map(|counter| counter[2].as_u64().unwrap()).sum::<u64>()
    };
    let kept = folder.path().join("k");
    let report = prof(&["report", "--json", "--flat", "--on-cpu", kept.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(of("prof_samples_total"), report["recorded_samples"].as_u64().unwrap(), "{counters}");
    assert_eq!(of("prof_windows_total"), std::fs::read_dir(&kept).unwrap().count() as u64, "{counters}");
}
