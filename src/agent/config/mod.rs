//! The file that says what `prof agent` does: TOML, in which every key is known, every value has limits, and what is wrong is refused
//! with its line, its key and what is allowed.

mod change;
mod check;
mod destination;
mod file;
mod refusal;
mod values;

pub(crate) use change::{ConfigChange, change_between};
pub(crate) use destination::{BasicLogin, Destination, PushProtocol};
pub(crate) use file::AgentEvent;

use super::identity::{LabelSettings, SeriesLabel};
use super::rules::{LabelMap, RelabelRules};
use super::sampling::RecordedShare;
use crate::base::failure::{Failure, io_words, status};
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most bytes of the file.
const MOST_BYTES: u64 = 1 << 20;

/// What the agent does. Every value is within its limits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgentConfig {
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
    pub(crate) destinations: Vec<Destination>,
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
    /// Length of one file.
    pub(crate) rotate: Duration,
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

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or any line of it is not valid: the message names the file, the line and the key.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let unreadable = |why: String| {
            Failure::new(status::FAILED, format!("cannot read the configuration `{shown}`: {why}"))
                .hint("docs/fleet.md has an example, as has /usr/share/doc/prof/agent.toml of the packages")
        };
        let mut text = Vec::new();
        let file = File::open(path).map_err(|error| unreadable(io_words(&error)))?;
        file.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(|error| unreadable(io_words(&error)))?;
        if text.len() as u64 > MOST_BYTES {
            return Err(unreadable(format!("it has more than {MOST_BYTES} bytes")));
        }
        let text = String::from_utf8(text).map_err(|_| unreadable("it is not UTF-8".to_owned()))?;
        Self::parse(&shown, &text)
    }

    /// Parses the text of the file that is shown as `path`.
    ///
    /// # Errors
    ///
    /// As of [`AgentConfig::read`].
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, Failure> {
        let raw: file::ConfigFile =
            toml::from_str(text).map_err(|error| refusal::Refusal::of(&error).failure(path, text))?;
        check::checked(raw).map_err(|refusal| refusal.failure(path, text))
    }
}

#[cfg(test)]
mod tests;
