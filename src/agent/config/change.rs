//! What another configuration changes, and what has to be started again for it.

use super::settings::{AgentConfig, KeepSettings, PushDestination};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Keys that two configurations differ in, by what they need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConfigChange {
    /// Keys that are taken at once.
    pub(crate) at_once: Vec<&'static str>,
    /// Keys for which the recording is restarted.
    pub(crate) recording: Vec<&'static str>,
    /// Keys for which the agent has to be started again: it has opened these before it gave up its rights.
    pub(crate) agent: Vec<&'static str>,
}

impl ConfigChange {
    /// Whether nothing differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.at_once.is_empty() && self.recording.is_empty() && self.agent.is_empty()
    }
}

/// What `new` changes of `old`.
pub(crate) fn change_between(old: &AgentConfig, new: &AgentConfig) -> ConfigChange {
    let differing = |keys: &[(&'static str, bool)]| {
        keys.iter().filter(|(_, differs)| *differs).map(|(key, _)| *key).collect()
    };
    // Each field once: a new one that is forgotten here does not compile.
    let AgentConfig {
        text: _,
        frequency_hz,
        events,
        window,
        hosts_share,
        windows_share,
        labels,
        series_labels,
        most_series,
        rules,
        destinations,
        buffer,
        keep,
        metrics,
        kubelet,
        host,
    } = old;
    let folder = |keep: &Option<KeepSettings>| keep.as_ref().map(|keep| keep.folder.clone());
    let has_moved = folder(keep) != folder(&new.keep);
    // Their files are opened with the rights of the start.
    let has_new_files = secrets(destinations) != secrets(&new.destinations);
    ConfigChange {
        at_once: differing(&[
            ("window", *window != new.window),
            ("hosts_share", *hosts_share != new.hosts_share),
            ("windows_share", *windows_share != new.windows_share),
            ("labels", *labels != new.labels),
            ("series_labels", *series_labels != new.series_labels),
            ("max_series", *most_series != new.most_series),
            ("rules", *rules != new.rules),
            ("destinations", *destinations != new.destinations && !has_new_files),
            ("buffer", *buffer != new.buffer && buffer.folder == new.buffer.folder),
            ("keep", *keep != new.keep && !has_moved),
        ]),
        recording: differing(&[
            ("frequency", *frequency_hz != new.frequency_hz),
            ("events", *events != new.events),
        ]),
        agent: differing(&[
            ("destinations", has_new_files),
            ("buffer", buffer.folder != new.buffer.folder),
            ("keep", has_moved),
            ("metrics", *metrics != new.metrics),
            ("kubelet", *kubelet != new.kubelet),
            ("host", *host != new.host),
        ]),
    }
}

/// Files that destinations name.
fn secrets(destinations: &[PushDestination]) -> BTreeSet<&Path> {
    let files = destinations.iter().flat_map(|destination| {
        let password = destination.basic.as_ref().map(|basic| &basic.password_file);
        [destination.bearer_file.as_ref(), destination.ca_file.as_ref(), password]
    });
    files.flatten().map(PathBuf::as_path).collect()
}
