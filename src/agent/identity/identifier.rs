//! From the facts of a process to the labels of its series.

use super::cgroup::{self, CgroupPlace};
use super::engine::{self, ContainerNames};
use super::environ;
use super::facts::ProcessFacts;
use super::host_files::HostFiles;
use super::place_cache::{NamedPlace, PlaceCache};
use super::pods::{KubeletPods, PodBook};
use super::program;
use super::series::{OTHER_SERVICE, SeriesLabels, SeriesLimit};
use crate::agent::rules::{LabelMap, RelabelRules};
use serde::Deserialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The service of threads of the kernel, which have countless names.
const KERNEL_SERVICE: &str = "kernel";

/// The service of a process of which nothing could be read.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// How long pods are believed to be those that were listed, once one is looked for that is not among them.
const PODS_AGE: Duration = Duration::from_secs(10);

/// A label that series can have besides the name of their service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SeriesLabel {
    /// Name of the host.
    Host,
    /// Name of the container.
    Container,
    /// Name of the pod.
    Pod,
    /// Namespace of the pod.
    Namespace,
    /// Unit of systemd.
    Unit,
    /// Id of the container.
    ContainerId,
}

impl SeriesLabel {
    /// All of them.
    pub(crate) const ALL: [SeriesLabel; 6] = [
        SeriesLabel::Host,
        SeriesLabel::Container,
        SeriesLabel::Pod,
        SeriesLabel::Namespace,
        SeriesLabel::Unit,
        SeriesLabel::ContainerId,
    ];

    /// The name of the label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SeriesLabel::Host => "host",
            SeriesLabel::Container => "container",
            SeriesLabel::Pod => "pod",
            SeriesLabel::Namespace => "namespace",
            SeriesLabel::Unit => "unit",
            SeriesLabel::ContainerId => "container_id",
        }
    }
}

/// What labels series have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LabelSettings {
    /// Name of this host.
    pub(crate) host: String,
    /// Labels that all series have.
    pub(crate) fixed: LabelMap,
    /// Which of the known labels series have.
    pub(crate) series: Vec<SeriesLabel>,
    /// Rules that change them.
    pub(crate) rules: RelabelRules,
    /// Most series at a time.
    pub(crate) most_series: usize,
}

/// Whether samples of a process are sent, and in which series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// In this one.
    Series(Arc<SeriesLabels>),
    /// A rule leaves the process out.
    LeftOut,
}

/// What happened while processes were identified, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IdentityCounts {
    /// Processes that were identified.
    pub(crate) processes: u64,
    /// Processes that rules leave out.
    pub(crate) left_out: u64,
    /// Processes in the series `other`, since there were too many series.
    pub(crate) merged: u64,
    /// Processes whose `OTEL_RESOURCE_ATTRIBUTES` are malformed.
    pub(crate) malformed_attributes: u64,
    /// Processes of which nothing says where they ran: they had ended before they were looked at.
    pub(crate) ended: u64,
    /// Lists of pods that could not be read.
    pub(crate) failed_pod_lists: u64,
}

/// Identifies processes. Keeps what it has found of cgroups and pods, within limits.
pub(crate) struct Identifier {
    settings: LabelSettings,
    cache: PlaceCache,
    pods: Pods,
    limit: SeriesLimit,
    counts: IdentityCounts,
}

/// Where names of containers come from.
struct Pods {
    files: Box<dyn HostFiles + Send>,
    kubelet: Option<Box<dyn KubeletPods + Send>>,
    book: PodBook,
    read_at: Option<Instant>,
}

/// What a process says of itself by the variables of OpenTelemetry.
#[derive(Default)]
struct OwnWords {
    service: Option<String>,
    names: ContainerNames,
    is_malformed: bool,
}

impl Identifier {
    /// An identifier that has found nothing yet. `kubelet` may take as long as its own time limit when a pod is not known.
    pub(crate) fn new(
        settings: LabelSettings,
        files: Box<dyn HostFiles + Send>,
        kubelet: Option<Box<dyn KubeletPods + Send>>,
    ) -> Self {
        let limit = SeriesLimit::new(settings.most_series);
        let pods = Pods { files, kubelet, book: PodBook::default(), read_at: None };
        Identifier { settings, cache: PlaceCache::default(), pods, limit, counts: IdentityCounts::default() }
    }

    /// What has happened so far.
    pub(crate) fn counts(&self) -> IdentityCounts {
        self.counts
    }

    /// Number of series at this time.
    #[cfg(test)]
    pub(crate) fn series(&self) -> usize {
        self.limit.len()
    }

    /// Whether rules may leave processes out.
    pub(crate) fn may_leave_out(&self) -> bool {
        self.settings.rules.may_leave_out()
    }

    /// The series of a process, which counts if it is new. Looks at files of the host, and asks the kubelet, if its cgroup is new or has
    /// no name yet.
    pub(crate) fn identify(&mut self, facts: &ProcessFacts, now: Instant, is_new: bool) -> Identity {
        let path = cgroup::path_of(&facts.cgroup);
        let pods = &mut self.pods;
        let failed = &mut self.counts.failed_pod_lists;
        let named = self.cache.get(&path, now, |place| {
            let (names, has_failed) = pods.names_of(place, now);
            *failed += u64::from(has_failed);
            names
        });
        let own = own_words(facts);
        self.counts.processes += u64::from(is_new);
        self.counts.malformed_attributes += u64::from(own.is_malformed && is_new);
        self.counts.ended += u64::from(facts.lacks_place() && is_new);
        let Some(labels) = labels_of(facts, &named, own, &self.settings) else {
            self.counts.left_out += u64::from(is_new);
            return Identity::LeftOut;
        };
        if self.limit.admits(&labels, now) {
            return Identity::Series(Arc::new(labels));
        }
        self.counts.merged += u64::from(is_new);
        let mut map = self.settings.fixed.clone();
        if self.settings.series.contains(&SeriesLabel::Host) {
            map.insert(SeriesLabel::Host.name().to_owned(), self.settings.host.clone());
        }
        map.insert("service_name".to_owned(), OTHER_SERVICE.to_owned());
        Identity::Series(Arc::new(SeriesLabels::of(map)))
    }
}

impl Pods {
    /// The names of a container, and whether lists of pods could not be read.
    fn names_of(&mut self, place: &CgroupPlace, now: Instant) -> (ContainerNames, bool) {
        let own = ContainerNames { container: place.container.clone(), ..ContainerNames::default() };
        let engine = place.container_id.as_ref().and_then(|id| engine::names_of(id, &*self.files));
        let engine = engine.unwrap_or_default();
        let may_be_pod = place.pod_uid.is_some() || (self.kubelet.is_some() && place.container_id.is_some());
        if !may_be_pod || (engine.pod.is_some() && engine.container.is_some()) {
            return (engine.or(own), false);
        }
        let known = engine.or(self.book.names_of(place)).or(own);
        let is_known = known.pod.is_some() && (known.container.is_some() || self.kubelet.is_none());
        let is_old = self.read_at.is_none_or(|at| now.saturating_duration_since(at) >= PODS_AGE);
        if is_known || !is_old {
            return (known, false);
        }
        let has_failed = self.read(now);
        (known.or(self.book.names_of(place)), has_failed)
    }

    /// Lists the pods; true if a list could not be read. Folders alone are no failure where the kubelet answers.
    fn read(&mut self, now: Instant) -> bool {
        self.read_at = Some(now);
        let mut book = PodBook::default();
        let kubelet = self.kubelet.as_mut().map(|kubelet| {
            let json = kubelet.pods()?;
            book.add_kubelet_list(&json)
        });
        let folders = book.add_log_folders(&*self.files);
        let has_failed = kubelet.map_or_else(|| folders.is_err(), |listed| listed.is_err());
        if book.len() > 0 {
            self.book = book;
        }
        has_failed
    }
}

fn own_words(facts: &ProcessFacts) -> OwnWords {
    let text = |value: &[u8]| {
        let value = String::from_utf8_lossy(value).trim().to_owned();
        Some(value).filter(|value| !value.is_empty())
    };
    let mut words = OwnWords {
        service: environ::variable(&facts.environment, "OTEL_SERVICE_NAME").and_then(text),
        ..OwnWords::default()
    };
    let attributes = environ::variable(&facts.environment, "OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let Ok(attributes) = environ::resource_attributes(attributes) else {
        words.is_malformed = true;
        return words;
    };
    for (key, value) in attributes {
        let place = match key.as_str() {
            "service.name" => &mut words.service,
            "k8s.pod.name" => &mut words.names.pod,
            "k8s.namespace.name" => &mut words.names.namespace,
            "k8s.container.name" | "container.name" => &mut words.names.container,
            _ => continue,
        };
        if place.is_none() && !value.trim().is_empty() {
            *place = Some(value);
        }
    }
    words
}

/// The labels of a process; `None` if a rule leaves it out.
fn labels_of(
    facts: &ProcessFacts,
    named: &NamedPlace,
    own: OwnWords,
    settings: &LabelSettings,
) -> Option<SeriesLabels> {
    let names = named.names.clone().or(own.names);
    let program = default_name(facts, &named.place, &names);
    let mut labels = facts.labels(&named.place, settings.rules.variables());
    let known = |label| match label {
        SeriesLabel::Host => Some(&settings.host),
        SeriesLabel::Container => names.container.as_ref(),
        SeriesLabel::Pod => names.pod.as_ref(),
        SeriesLabel::Namespace => names.namespace.as_ref(),
        SeriesLabel::Unit => named.place.unit.as_ref(),
        SeriesLabel::ContainerId => named.place.container_id.as_ref(),
    };
    for label in SeriesLabel::ALL {
        let Some(value) = known(label) else { continue };
        // Rules see all that is known as facts, and as labels what series have.
        labels.insert(format!("__{}", label.name()), value.clone());
        if settings.series.contains(&label) {
            labels.insert(label.name().to_owned(), value.clone());
        }
    }
    labels.insert("__service".to_owned(), own.service.clone().unwrap_or_else(|| program.clone()));
    labels.extend(settings.fixed.clone());
    if let Some(service) = &own.service {
        labels.insert("service_name".to_owned(), service.clone());
    }
    if !settings.rules.apply(&mut labels) {
        return None;
    }
    let ruled = labels.remove("service_name");
    let mut is_named = false;
    for service in [own.service, ruled, Some(program), Some(UNKNOWN_SERVICE.to_owned())].into_iter().flatten()
    {
        if !is_named && !service.trim().is_empty() {
            labels.insert("service_name".to_owned(), service);
            is_named = true;
        }
    }
    Some(SeriesLabels::of(labels))
}

/// The name of a service of which neither its program nor a rule says one.
fn default_name(facts: &ProcessFacts, place: &CgroupPlace, names: &ContainerNames) -> String {
    if facts.is_kernel {
        return KERNEL_SERVICE.to_owned();
    }
    let unit = place.unit.as_deref().map(|unit| {
        let name = unit.strip_suffix(".service").unwrap_or(unit);
        name.strip_suffix('@').unwrap_or(name).to_owned()
    });
    let container = names.service.clone().or_else(|| names.container.clone());
    let comm = || Some(String::from_utf8_lossy(&facts.comm).into_owned()).filter(|name| !name.is_empty());
    let found = unit.or(container).or_else(|| program::name(&facts.exe, &facts.command_line)).or_else(comm);
    found.unwrap_or_else(|| UNKNOWN_SERVICE.to_owned())
}

#[cfg(test)]
mod tests;
