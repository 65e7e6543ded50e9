//! The file as it is written: all keys, none of them needed but those of a table that is there.

use super::settings::{AgentEvent, DestinationProtocol};
use super::values;
use crate::agent::identity::SeriesLabel;
use crate::agent::rules::RelabelAction;
use crate::agent::sampling::RecordedShare;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigFile {
    #[serde(default, deserialize_with = "values::frequency")]
    pub(super) frequency: Option<u32>,
    pub(super) events: Option<Vec<AgentEvent>>,
    #[serde(default, deserialize_with = "values::window")]
    pub(super) window: Option<Duration>,
    #[serde(default, deserialize_with = "values::share")]
    pub(super) hosts_share: Option<RecordedShare>,
    #[serde(default, deserialize_with = "values::share")]
    pub(super) windows_share: Option<RecordedShare>,
    pub(super) series_labels: Option<Vec<SeriesLabel>>,
    #[serde(default, deserialize_with = "values::series")]
    pub(super) max_series: Option<usize>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub(super) rules: Vec<Spanned<WrittenRule>>,
    #[serde(default)]
    pub(super) destinations: Vec<Spanned<WrittenDestination>>,
    pub(super) buffer: Option<WrittenBuffer>,
    pub(super) keep: Option<Spanned<WrittenKeep>>,
    pub(super) metrics: Option<Spanned<WrittenMetrics>>,
    pub(super) kubelet: Option<Spanned<WrittenKubelet>>,
    pub(super) host: Option<WrittenHost>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenRule {
    #[serde(default)]
    pub(super) source_labels: Vec<String>,
    pub(super) separator: Option<String>,
    pub(super) regex: Option<String>,
    pub(super) target_label: Option<String>,
    pub(super) replacement: Option<String>,
    #[serde(default)]
    pub(super) action: WrittenAction,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "lowercase")]
pub(super) enum WrittenAction {
    #[default]
    Replace,
    Keep,
    Drop,
    LabelDrop,
}

impl From<WrittenAction> for RelabelAction {
    fn from(action: WrittenAction) -> Self {
        match action {
            WrittenAction::Replace => RelabelAction::Replace,
            WrittenAction::Keep => RelabelAction::Keep,
            WrittenAction::Drop => RelabelAction::Drop,
            WrittenAction::LabelDrop => RelabelAction::LabelDrop,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenDestination {
    #[serde(default, deserialize_with = "values::line")]
    pub(super) name: Option<String>,
    pub(super) url: String,
    pub(super) protocol: DestinationProtocol,
    #[serde(default, deserialize_with = "values::line")]
    pub(super) tenant: Option<String>,
    #[serde(default, deserialize_with = "values::path")]
    pub(super) bearer_file: Option<PathBuf>,
    pub(super) basic: Option<WrittenLogin>,
    #[serde(default, deserialize_with = "values::path")]
    pub(super) ca_file: Option<PathBuf>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "values::timeout")]
    pub(super) timeout: Option<Duration>,
    #[serde(default)]
    pub(super) allow_plain_credentials: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenLogin {
    pub(super) user: String,
    #[serde(deserialize_with = "values::needed_path")]
    pub(super) password_file: PathBuf,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenBuffer {
    #[serde(default, deserialize_with = "values::path")]
    pub(super) folder: Option<PathBuf>,
    #[serde(default, deserialize_with = "values::room")]
    pub(super) max_size: Option<u64>,
    #[serde(default, deserialize_with = "values::buffer_age")]
    pub(super) max_age: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenKeep {
    #[serde(deserialize_with = "values::needed_path")]
    pub(super) folder: PathBuf,
    #[serde(default, deserialize_with = "values::kept_age")]
    pub(super) max_age: Option<Duration>,
    #[serde(default, deserialize_with = "values::room")]
    pub(super) max_size: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenMetrics {
    pub(super) listen: String,
    #[serde(default)]
    pub(super) allow_remote: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenKubelet {
    pub(super) url: String,
    #[serde(default, deserialize_with = "values::path")]
    pub(super) bearer_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "values::path")]
    pub(super) ca_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "values::timeout")]
    pub(super) timeout: Option<Duration>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenHost {
    #[serde(default, deserialize_with = "values::line")]
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "values::path")]
    pub(super) root: Option<PathBuf>,
}
