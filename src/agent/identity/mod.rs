//! What a process is called: the labels of the series that its samples are sent in.
//!
//! The name of the service is the first that there is of: what the program says of itself by the variables of OpenTelemetry, what
//! the rules of the configuration write, the unit of systemd, the container (of Compose and Swarm the service), the program or its
//! script, the name of the process. Nothing is asked of a server but, if configured, the kubelet of this node.

pub(crate) mod cgroup;
pub(crate) mod engine;
pub(crate) mod environ;
pub(crate) mod facts;
pub(crate) mod host_files;
mod identifier;
pub(crate) mod place_cache;
pub(crate) mod pods;
pub(crate) mod program;
pub(crate) mod series;

pub(crate) use facts::ProcessFacts;
pub(crate) use host_files::{HostFiles, RootedFiles};
pub(crate) use identifier::{Identifier, Identity, LabelSettings, SeriesLabel};
pub(crate) use pods::{KubeletPods, MOST_LIST_BYTES};
pub(crate) use series::MOST_LABELS;
