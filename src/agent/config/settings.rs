//! What the configuration comes to: values within their limits.

use super::values;
use crate::agent::identity::{LabelSettings, SeriesLabel};
use crate::agent::rules::{LabelMap, RelabelRules};
use crate::agent::sampling::RecordedShare;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What the agent does. Every value is within its limits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgentConfig {
    /// What the file said.
    pub(crate) text: String,
    /// Samples of each busy CPU in a second.
    pub(crate) frequency_hz: u32,
    /// What is recorded, each once, in the order of [`AgentEvent`].
    pub(crate) events: Vec<AgentEvent>,
    /// Length of a window: what is sent and written as one.
    pub(crate) window: Duration,
    /// Share of hosts that record on a day.
    pub(crate) hosts_share: RecordedShare,
    /// Share of windows that are recorded.
    pub(crate) windows_share: RecordedShare,
    /// Labels that all series have.
    pub(crate) labels: LabelMap,
    /// Which known labels series have.
    pub(crate) series_labels: Vec<SeriesLabel>,
    /// Most series at a time.
    pub(crate) most_series: usize,
    /// Rules that change labels.
    pub(crate) rules: RelabelRules,
    /// Servers to which windows are sent.
    pub(crate) destinations: Vec<PushDestination>,
    /// Where windows wait until they are sent.
    pub(crate) buffer: BufferSettings,
    /// Where recordings are kept on this host, if they are.
    pub(crate) keep: Option<KeepSettings>,
    /// Where the agent's own metrics are served, if they are.
    pub(crate) metrics: Option<ListenAddress>,
    /// How the kubelet is asked for pods, if it is.
    pub(crate) kubelet: Option<KubeletSettings>,
    /// The host that is recorded.
    pub(crate) host: HostSettings,
}

/// The folder in a buffer into which the recorder writes.
pub(crate) const BUFFER_WINDOWS: &str = "windows";
/// What the names of the folders in a buffer begin with whose files wait for a destination.
pub(crate) const BUFFER_WAITING: &str = "to-";

/// Where windows wait until they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BufferSettings {
    /// Folder of the files.
    pub(crate) folder: PathBuf,
    /// Most bytes of all files.
    pub(crate) most_bytes: u64,
    /// Age at which a window is given up: servers refuse what is older than an hour.
    pub(crate) most_age: Duration,
}

/// Where recordings are kept on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeepSettings {
    /// Folder of the files.
    pub(crate) folder: PathBuf,
    /// Age at which a file is removed.
    pub(crate) most_age: Duration,
    /// Most bytes of all files.
    pub(crate) most_bytes: u64,
}

/// Where metrics are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// A socket in the file system.
    Unix(PathBuf),
    /// An address of TCP: of this host alone unless `allow_remote` is set.
    Tcp(SocketAddr),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            ListenAddress::Tcp(address) => address.fmt(f),
        }
    }
}

/// How the kubelet is asked for pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KubeletSettings {
    /// Address of its list of pods.
    pub(crate) url: String,
    /// File with the token of the service account.
    pub(crate) bearer_file: PathBuf,
    /// File with the authority of its certificate; `None` for those that the machine knows.
    pub(crate) ca_file: Option<PathBuf>,
    /// Longest time of one request.
    pub(crate) timeout: Duration,
}

/// The host that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostSettings {
    /// Its name; `None` for that which the kernel has.
    pub(crate) name: Option<String>,
    /// Where its root folder is mounted.
    pub(crate) root: PathBuf,
}

/// What can be recorded, by the names of `prof record -e`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AgentEvent {
    /// Time on CPUs.
    Cpu,
    /// Time off CPUs: waits.
    Off,
    /// Page faults.
    Faults,
    /// Waits for locks.
    Lock,
}

/// How windows are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DestinationProtocol {
    /// `push.v1` of Pyroscope.
    Pyroscope,
    /// Profiles of OpenTelemetry, over HTTP.
    Otlp,
}

/// A name and a file with its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BasicLogin {
    /// Name of the user.
    pub(crate) user: String,
    /// File with the password, re-read for each request.
    pub(crate) password_file: PathBuf,
}

/// A server to which windows are sent. Secrets are files, never in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PushDestination {
    /// Name in messages and metrics: by default the host and port of the address.
    pub(crate) name: String,
    /// Address of the server, without the path of the protocol and without a slash at its end.
    pub(crate) url: String,
    /// How windows are sent.
    pub(crate) protocol: DestinationProtocol,
    /// Tenant, for servers that have several: the header `X-Scope-OrgID`.
    pub(crate) tenant: Option<String>,
    /// File with a bearer token.
    pub(crate) bearer_file: Option<PathBuf>,
    /// Name and password.
    pub(crate) basic: Option<BasicLogin>,
    /// File with the authority of the server's certificate; `None` for those that the machine knows.
    pub(crate) ca_file: Option<PathBuf>,
    /// Further headers.
    pub(crate) headers: BTreeMap<String, String>,
    /// Longest time of one request.
    pub(crate) timeout: Duration,
}

impl HostSettings {
    /// The name of the host: that of the file, else that of the variable `PROF_HOST_NAME`, as a manifest of Kubernetes sets it, else
    /// that of the kernel, which in a container is another.
    pub(crate) fn shown_name(&self, variable: impl Fn(&str) -> Option<String>) -> String {
        let given =
            self.name.clone().or_else(|| variable("PROF_HOST_NAME")).filter(|name| values::is_line(name));
        given.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
    }
}

impl AgentConfig {
    /// One that only keeps its windows, in this folder, which is its buffer, too.
    #[cfg(test)]
    pub(crate) fn keeping_below(folder: &std::path::Path) -> Self {
        let text = format!("[buffer]\nfolder = \"{0}\"\n[keep]\nfolder = \"{0}/k\"\n", folder.display());
        AgentConfig::parse("agent.toml", &text).expect("it is right")
    }

    /// What series are called by this configuration, on the host of this name.
    pub(crate) fn label_settings(&self, host: String) -> LabelSettings {
        LabelSettings {
            host,
            fixed: self.labels.clone(),
            series: self.series_labels.clone(),
            rules: self.rules.clone(),
            most_series: self.most_series,
        }
    }
}
