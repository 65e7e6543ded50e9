//! Tests of the configuration.

use super::settings::HostSettings;
use super::*;
use crate::agent::identity::SeriesLabel;
use crate::agent::sampling::RecordedShare;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The least that a configuration needs.
const LEAST: &str = "[[destinations]]\nurl = \"https://pyroscope.example:4040\"\nprotocol = \"pyroscope\"\n";

fn parsed(text: &str) -> Result<AgentConfig, String> {
    AgentConfig::parse("agent.toml", text).map_err(|failure| failure.to_string())
}

fn refusal(text: &str) -> String {
    parsed(text).expect_err(text)
}

#[test]
fn the_least_has_defaults() {
    let config = parsed(LEAST).unwrap();
    assert_eq!(config.frequency_hz, 19);
    assert_eq!(config.events, [AgentEvent::Cpu]);
    assert_eq!(config.window, Duration::from_secs(15));
    assert_eq!(config.hosts_share, RecordedShare::ALL);
    let labels = [SeriesLabel::Host, SeriesLabel::Container, SeriesLabel::Pod, SeriesLabel::Namespace];
    assert_eq!(config.series_labels, labels);
    assert_eq!(config.buffer.most_age, Duration::from_secs(3000));
    assert_eq!((config.keep, config.metrics, config.kubelet), (None, None, None));
    assert_eq!(config.host.root, Path::new("/"));
    let destination = &config.destinations[0];
    assert_eq!(destination.name, "pyroscope.example:4040");
    assert_eq!(destination.timeout, Duration::from_secs(10));
}

#[test]
fn a_line_that_is_no_text_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    std::fs::write(&path, b"window = \"15s\"\n# caf\xe9\n").unwrap();
    let failure = AgentConfig::read(&path).unwrap_err();
    assert!(failure.message.ends_with("line 2 is not UTF-8"), "{}", failure.message);
}

#[test]
fn the_example_of_the_packages_is_valid_and_says_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/agent.toml");
    let config = AgentConfig::read(&path).unwrap_or_else(|failure| panic!("{failure}"));
    let text = std::fs::read_to_string(&path).unwrap();
    // What is commented out is valid, too: a line `#key = …` or `#[table]`, not `# words`.
    let is_key = |line: &&str| {
        line.strip_prefix('#').is_some_and(|rest| rest.starts_with(|c: char| c.is_alphabetic() || c == '['))
    };
    let all: String = text
        .lines()
        .map(|line| if is_key(&line) { &line[1..] } else { line })
        .map(|line| format!("{line}\n"))
        .collect();
    let full = parsed(&all).unwrap();
    assert_eq!(full.destinations.len(), 2);
    assert_eq!(full.events, [AgentEvent::Cpu, AgentEvent::Off]);
    assert!(full.keep.is_some() && full.metrics.is_some() && full.kubelet.is_some());
    assert!(full.rules.targets().count() >= 1);
    // Each key of the file is in the example.
    for key in KEYS {
        let is_there = all.lines().any(|line| {
            line.trim_start().starts_with(&format!("{key} =")) || line.contains(&format!("[{key}]"))
        });
        assert!(is_there, "packaging/agent.toml has no {key}");
    }
    assert_eq!(config.frequency_hz, 19);
}

#[test]
fn the_configuration_in_the_manifest_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/kubernetes/prof-agent.yaml");
    let manifest = std::fs::read_to_string(path).unwrap();
    let (_, rest) = manifest.split_once("  agent.toml: |\n").unwrap();
    let lines = rest.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    let text: String = lines.map(|line| format!("{}\n", line.trim_start())).collect();
    let config = parsed(&text).unwrap();
    assert_eq!(config.host.root, Path::new("/proc/1/root"));
    assert_eq!(config.metrics, Some(ListenAddress::Tcp("0.0.0.0:9099".parse().unwrap())));
}

#[test]
fn the_rules_of_the_documentation_are_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fleet.md");
    let page = std::fs::read_to_string(path).unwrap();
    let text = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let config = parsed(&format!("{LEAST}{text}")).unwrap();
    assert_eq!(config.rules.targets().collect::<Vec<_>>(), ["service_name", "version"]);
}

/// All keys and tables.
const KEYS: [&str; 44] = [
    "frequency",
    "events",
    "window",
    "hosts_share",
    "windows_share",
    "series_labels",
    "max_series",
    "labels",
    "[rules]",
    "source_labels",
    "separator",
    "regex",
    "target_label",
    "replacement",
    "action",
    "[destinations]",
    "name",
    "url",
    "protocol",
    "tenant",
    "bearer_file",
    "basic",
    "ca_file",
    "headers",
    "timeout",
    "allow_plain_credentials",
    "buffer",
    "folder",
    "max_size",
    "max_age",
    "keep",
    "folder",
    "max_age",
    "max_size",
    "metrics",
    "listen",
    "allow_remote",
    "kubelet",
    "url",
    "bearer_file",
    "ca_file",
    "timeout",
    "host",
    "root",
];

/// Lines that are refused, and with which words after the line.
const REFUSED_LINES: &[(&str, &str)] = &[
    ("frequency = 0", "`frequency`: 0 is not allowed: it must be a whole number of hertz, 1 to 999"),
    (
        "frequency = \"19\"",
        "`frequency`: invalid type: string \"19\", expected a whole number of hertz, 1 to 999",
    ),
    (
        "window = \"2s\"",
        "`window`: \"2s\" is not allowed: it must be a duration of 5s to 10m, such as \"20s\"",
    ),
    (
        "window = 15",
        "`window`: invalid type: integer `15`, expected a duration of 5s to 10m, such as \"20s\"",
    ),
    (
        "hosts_share = \"0%\"",
        "`hosts_share`: \"0%\" is not allowed: it must be a percentage above 0% and 100% at most, such as \"5%\"",
    ),
    ("events = [\"gpu\"]", "`events`: unknown variant `gpu`, expected one of `cpu`, `off`, `faults`, `lock`"),
    ("events = []", "`events`: there must be one: cpu, off, faults, lock"),
    ("events = [\"cpu\", \"cpu\"]", "`events`: an event is in the list twice"),
    (
        "series_labels = [\"pid\"]",
        "`series_labels`: unknown variant `pid`, expected one of `host`, `container`, `pod`, `namespace`, `unit`, `container_id`",
    ),
    ("max_series = 0", "`max_series`: 0 is not allowed: it must be a whole number of series, 1 to 100000"),
    ("labels.pid = \"x\"", "`labels.pid`: `pid` would make a series for each process"),
    (
        "labels.service_name = \"x\"",
        "`labels.service_name`: `service_name` is not the same for all: a rule can write it ([[rules]])",
    ),
    (
        "buffer.max_age = \"2h\"",
        "`buffer.max_age`: \"2h\" is not allowed: it must be a duration of 1m to 55m, such as \"20s\"",
    ),
    ("buffer.folder = \"x\"", "`buffer.folder`: \"x\" is not allowed: it must be an absolute path"),
    (
        "buffer.max_size = \"big\"",
        "`buffer.max_size`: \"big\" is not allowed: it must be a size of 1 MiB to 1 PiB, such as \"256MiB\"",
    ),
];

#[test]
fn a_refusal_has_the_line_the_key_and_what_is_allowed() {
    let with = |line: &str| refusal(&format!("# a comment\n{line}\n{LEAST}"));
    let at = "`agent.toml` line 2, key";
    for (line, expected) in REFUSED_LINES.iter().copied() {
        assert_eq!(with(line), format!("{at} {expected}"), "{line}");
    }
    let unknown = with("frequncy = 19");
    assert!(
        unknown.starts_with(&format!(
            "{at} `frequncy`: unknown field `frequncy`, expected one of `frequency`, `events`"
        )),
        "{unknown}"
    );
    assert!(refusal("a = [").starts_with("`agent.toml` line 1, key `a`: "), "{}", refusal("a = ["));
}

/// Where a buffer has its own files, there are none that stay.
const KEPT_IN_BUFFER: &str = "line 5, key `keep.folder`: the buffer has its own files there: take another folder, such as one next to it";

/// What is refused after the table of a destination.
const REFUSED_TABLES: &[(&str, &str)] = &[
    (
        "basic = { user = \"u\", password = \"x\" }",
        "line 4, key `destinations 1.basic`: unknown field `password`, expected `user` or `password_file`",
    ),
    (
        "bearer_file = \"/t\"\nbasic = { user = \"u\", password_file = \"/p\" }",
        "line 4, key `destinations 1.bearer_file`: a destination has bearer_file or basic, not both",
    ),
    (
        "headers = { Authorization = \"x\" }",
        "line 4, key `destinations 1.headers`: `Authorization` is not allowed here: prof sets it (see bearer_file, basic and tenant)",
    ),
    (
        "headers = { a = \"secret\\n\" }",
        "line 4, key `destinations 1.headers`: the value of `a` must be 1 to 1,024 characters of ASCII without control characters",
    ),
    ("[[rules]]\nregex = \"(\"", "line 5, key `rules 1.regex`: unclosed group"),
    (
        "[[rules]]\nregex = \"a\"\n[[rules]]\ntarget_label = \"__exe\"",
        "line 7, key `rules 2.target_label`: `__exe` cannot be written: names with `__` are facts, but those that begin with `__tmp`",
    ),
    (
        "[[rules]]\naction = \"hashmod\"",
        "line 5, key `rules 1.action`: unknown variant `hashmod`, expected one of `replace`, `keep`, `drop`, `labeldrop`",
    ),
    (
        "[metrics]\nlisten = \"0.0.0.0:9099\"",
        "line 5, key `metrics.listen`: 0.0.0.0:9099 can be reached from other hosts: take 127.0.0.1 or a unix socket, or set allow_remote = true",
    ),
    (
        "[metrics]\nlisten = \"localhost\"",
        "line 5, key `metrics.listen`: \"localhost\" is not allowed: it must be \"127.0.0.1:PORT\", \"[::1]:PORT\" or \"unix:PATH\"",
    ),
    (
        "[metrics]\nlisten = \"unix:metrics\"",
        "line 5, key `metrics.listen`: \"metrics\" is no absolute path of at most 107 bytes",
    ),
    (
        "[kubelet]\nurl = \"http://node:10255/pods\"",
        "line 5, key `kubelet.url`: the token would be sent over plain http: use https",
    ),
    (
        "[kubelet]\nurl = \"https://${PROF_NO_SUCH_VARIABLE}:10250/pods\"",
        "line 5, key `kubelet.url`: the variable `PROF_NO_SUCH_VARIABLE` is not set",
    ),
    ("[keep]\nmax_age = \"5m\"", "line 4, key `keep`: missing field `folder`"),
    ("[keep]\nfolder = \"/var/lib/prof/buffer\"", KEPT_IN_BUFFER),
    ("[keep]\nfolder = \"/var/lib/prof/./buffer/windows/\"", KEPT_IN_BUFFER),
    ("[keep]\nfolder = \"/var/lib/prof/buffer/to-0-a/b\"", KEPT_IN_BUFFER),
    (
        "[[destinations]]\nurl = \"https://pyroscope.example:4040\"\nprotocol = \"otlp\"",
        "line 4, key `destinations 2.name`: another destination is called `pyroscope.example:4040`: give each a name of its own",
    ),
    (
        "[[destinations]]\nurl = \"https://x\"\nprotocol = \"grpc\"",
        "line 6, key `destinations 2.protocol`: unknown variant `grpc`, expected `pyroscope` or `otlp`",
    ),
];

#[test]
fn a_refusal_in_a_table_names_the_table() {
    let after = |text: &str| refusal(&format!("{LEAST}{text}\n"));
    for (text, expected) in REFUSED_TABLES.iter().copied() {
        assert_eq!(after(text), format!("`agent.toml` {expected}"), "{text}");
    }
}

#[test]
fn addresses_are_checked_and_secrets_stay_encrypted() {
    let of = |url: &str, more: &str| {
        parsed(&format!("[[destinations]]\nurl = \"{url}\"\nprotocol = \"otlp\"\n{more}\n"))
    };
    for url in
        ["https://h", "http://h:4040/", "https://h.example/a/b", "http://[::1]:4040", "http://127.0.0.1:1"]
    {
        assert!(of(url, "").is_ok(), "{url}");
    }
    for url in [
        "h:4040",
        "ftp://h",
        "https://",
        "https://u:p@h",
        "https://h:0",
        "https://h:x",
        "https://h/?a",
        "https://h h",
        "https://[x]",
    ] {
        let why = of(url, "").unwrap_err();
        assert!(why.starts_with("`agent.toml` line 2, key `destinations 1.url`: "), "{why}");
        assert!(!why.contains("u:p"), "{why}");
    }
    let token = "bearer_file = \"/t\"";
    assert!(of("https://h", token).is_ok());
    assert!(of("http://127.0.0.1:4040", token).is_ok());
    assert!(of("http://h", token).unwrap_err().contains("over plain http"));
    assert!(of("http://h", &format!("{token}\nallow_plain_credentials = true")).is_ok());
    assert_eq!(of("http://h:4040/", "").unwrap().destinations[0].url, "http://h:4040");
}

#[test]
fn a_host_has_the_first_name_that_there_is() {
    let host = |name: Option<&str>, variable: Option<&str>| {
        let host = HostSettings { name: name.map(str::to_owned), root: PathBuf::from("/") };
        host.shown_name(|name| variable.filter(|_| name == "PROF_HOST_NAME").map(str::to_owned))
    };
    assert_eq!(host(Some("a"), Some("b")), "a");
    assert_eq!(host(None, Some("b")), "b");
    assert_eq!(host(None, Some(" ")), host(None, None));
    assert!(!host(None, None).is_empty());
    let config = parsed(&format!("labels.region = \"eu\"\n{LEAST}")).unwrap();
    assert_eq!(config.label_settings("n".to_owned()).fixed.len(), 1);
}

#[test]
fn what_is_recorded_goes_somewhere_and_labels_are_few() {
    assert!(refusal("").contains("[[destinations]] or [keep]"));
    assert!(parsed("[keep]\nfolder = \"/k\"\n").is_ok());
    assert!(parsed("[keep]\nfolder = \"/var/lib/prof/buffer/kept\"\n").is_ok());
    let labels = |count: usize| {
        let lines: String = (0..count).map(|n| format!("l{n} = \"x\"\n")).collect();
        parsed(&format!("{LEAST}[labels]\n{lines}"))
    };
    // Two that are always there, and four of series_labels.
    assert!(labels(24).is_ok());
    let line = LEAST.lines().count() + 1 + 25;
    let why = labels(25).unwrap_err();
    let expected = format!("`agent.toml` line {line}, key `labels.l24`: series can have 31 labels (");
    assert!(why.starts_with(&expected), "{why}");
    let rules: String = (0..26)
        .map(|n| format!("[[rules]]\nsource_labels = [\"__comm\"]\ntarget_label = \"r{n}\"\n"))
        .collect();
    let why = refusal(&format!("{LEAST}{rules}"));
    let line = LEAST.lines().count() + 25 * 3;
    let expected =
        format!("`agent.toml` line {line}, key `rules 25.target_label`: series can have 32 labels (");
    assert!(why.starts_with(&expected), "{why}");
    let both = format!("{LEAST}[labels]\na = \"x\"\nhost = \"x\"\n");
    let line = both.lines().count();
    let expected = format!("`agent.toml` line {line}, key `labels.host`: `host` is one of series_labels by");
    assert!(refusal(&both).starts_with(&expected), "{}", refusal(&both));
    let both = format!("window = \"15s\"\nseries_labels = [\"host\"]\n{both}");
    let expected = "`agent.toml` line 2, key `series_labels`: `host` is one of [labels], too";
    assert!(refusal(&both).starts_with(expected), "{}", refusal(&both));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.toml");
    let failure = AgentConfig::read(&missing).unwrap_err().to_string();
    assert!(failure.contains("none.toml") && failure.contains("No such file"), "{failure}");
    for (bytes, why) in
        [(vec![0xff], "line 1 is not UTF-8"), (vec![b'#'; 2 << 20], "it has more than 1048576 bytes")]
    {
        let path = folder.path().join("odd.toml");
        std::fs::write(&path, bytes).unwrap();
        assert!(AgentConfig::read(&path).unwrap_err().to_string().ends_with(why));
    }
}

#[test]
fn a_change_says_what_has_to_be_started_again() {
    let old = parsed(LEAST).unwrap();
    assert!(change_between(&old, &old).is_empty());
    let changed =
        |head: &str, tail: &str| change_between(&old, &parsed(&format!("{head}\n{LEAST}{tail}\n")).unwrap());
    let change = changed("window = \"30s\"\nlabels.a = \"b\"", "timeout = \"5s\"");
    assert_eq!(change.at_once, ["window", "labels", "destinations"]);
    assert!(change.recording.is_empty() && change.agent.is_empty());
    assert_eq!(changed("frequency = 99\nevents = [\"cpu\", \"off\"]", "").recording, ["frequency", "events"]);
    let change = changed(
        "buffer.folder = \"/b\"",
        "bearer_file = \"/t\"\n[metrics]\nlisten = \"127.0.0.1:9099\"\n[host]\nroot = \"/host\"",
    );
    assert_eq!(change.agent, ["destinations", "buffer", "metrics", "host"]);
    assert_eq!(
        changed("buffer.max_size = \"9MiB\"", "[[rules]]\nregex = \"x\"").at_once,
        ["rules", "buffer"]
    );
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "[a-z\\[\\]={}\"' .0-9\\n_%#-]{0,200}") {
        let _ = parsed(&text);
        let _ = parsed(&format!("{LEAST}{text}"));
    }

    #[test]
    fn damaged_files_are_parsed_or_refused(at in 0usize..2000, byte in any::<u8>()) {
        let mut bytes = format!("window = \"15s\"\n{LEAST}[labels]\na = \"b\"\n[[rules]]\nregex = \"a\"\n").into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = parsed(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn the_address_of_a_node_is_that_of_a_variable() {
    let value = |name: &str| (name == "HOST_IP").then(|| "10.0.0.7".to_owned());
    let url = |text| super::check::with_variables(text, value);
    assert_eq!(url("https://${HOST_IP}:10250/pods").as_deref(), Ok("https://10.0.0.7:10250/pods"));
    assert_eq!(url("https://node/pods").as_deref(), Ok("https://node/pods"));
    assert!(url("https://${HOST_IP").is_err() && url("https://${OTHER}/").is_err());
}
