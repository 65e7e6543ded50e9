//! From the file as it is written to what the agent does: defaults, and what several keys must agree on.

use super::destination::Address;
use super::file::{ConfigFile, WrittenDestination, WrittenKeep, WrittenKubelet, WrittenMetrics, WrittenRule};
use super::refusal::ConfigRefusal;
use super::settings::{
    AgentConfig, AgentEvent, BUFFER_WAITING, BUFFER_WINDOWS, BufferSettings, HostSettings, KeepSettings,
    KubeletSettings, ListenAddress, PushDestination,
};
use super::values;
use crate::agent::identity::{MOST_LABELS, SeriesLabel};
use crate::agent::rules::{LabelMap, RelabelRule, RelabelRules, RuleText, check_target};
use crate::agent::sampling::RecordedShare;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// Most rules.
const MOST_RULES: usize = 200;

/// Most destinations.
const MOST_DESTINATIONS: usize = 8;

/// Token of the service account of a pod.
const ACCOUNT_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Checks what only the whole file shows.
pub(super) fn checked(file: ConfigFile) -> Result<AgentConfig, ConfigRefusal> {
    let window = file.window.unwrap_or(Duration::from_secs(15));
    let places = label_places(&file);
    let is_default = file.series_labels.is_none();
    let labels = checked_labels(file.labels)?;
    let series_labels = checked_series(file.series_labels)?;
    if let Some(both) = series_labels.iter().find(|label| labels.contains_key(label.name())) {
        return Err(label_twice(both.name(), places.labels.get(both.name()).filter(|_| is_default)));
    }
    let rules = checked_rules(file.rules)?;
    check_count(&places, &series_labels, &rules)?;
    let destinations = checked_destinations(file.destinations)?;
    let buffer = file.buffer.unwrap_or_default();
    let buffer_folder = buffer.folder.unwrap_or_else(|| PathBuf::from("/var/lib/prof/buffer"));
    let keep = file.keep.map(|keep| checked_keep(keep, window, &buffer_folder)).transpose()?;
    if destinations.is_empty() && keep.is_none() {
        return Err(ConfigRefusal::file(
            "what is recorded would go nowhere: it needs [[destinations]] or [keep]",
        ));
    }
    let host = file.host.unwrap_or_default();
    Ok(AgentConfig {
        text: String::new(),
        frequency_hz: file.frequency.unwrap_or(19),
        events: checked_events(file.events)?,
        window,
        hosts_share: file.hosts_share.unwrap_or(RecordedShare::ALL),
        windows_share: file.windows_share.unwrap_or(RecordedShare::ALL),
        labels,
        series_labels,
        most_series: file.max_series.unwrap_or(1000),
        rules,
        destinations,
        buffer: BufferSettings {
            folder: buffer_folder,
            most_bytes: buffer.max_size.unwrap_or(256 << 20),
            most_age: buffer.max_age.unwrap_or(Duration::from_secs(50 * 60)),
        },
        keep,
        metrics: file.metrics.map(checked_metrics).transpose()?,
        kubelet: file.kubelet.map(checked_kubelet).transpose()?,
        host: HostSettings { name: host.name, root: host.root.unwrap_or_else(|| PathBuf::from("/")) },
    })
}

fn checked_events(events: Option<Vec<AgentEvent>>) -> Result<Vec<AgentEvent>, ConfigRefusal> {
    let Some(events) = events else { return Ok(vec![AgentEvent::Cpu]) };
    let unique: BTreeSet<AgentEvent> = events.iter().copied().collect();
    match (unique.len(), events.len()) {
        (0, _) => Err(ConfigRefusal::key("events", "there must be one: cpu, off, faults, lock")),
        (one, all) if one < all => Err(ConfigRefusal::key("events", "an event is in the list twice")),
        _ => Ok(unique.into_iter().collect()),
    }
}

fn checked_labels(labels: BTreeMap<String, Spanned<String>>) -> Result<LabelMap, ConfigRefusal> {
    let mut checked = LabelMap::new();
    for (name, value) in labels {
        let span = value.span();
        check_target(&name).map_err(|why| ConfigRefusal::at(span.clone(), why))?;
        if name == "service_name" || name.starts_with("__") {
            let why = format!("`{name}` is not the same for all: a rule can write it ([[rules]])");
            return Err(ConfigRefusal::at(span, why));
        }
        let value = value.into_inner();
        if !values::is_line(&value) {
            return Err(ConfigRefusal::at(
                span,
                "a label is a text of 1 to 1,024 bytes without control characters",
            ));
        }
        checked.insert(name, value);
    }
    Ok(checked)
}

fn checked_series(labels: Option<Vec<SeriesLabel>>) -> Result<Vec<SeriesLabel>, ConfigRefusal> {
    let default =
        || vec![SeriesLabel::Host, SeriesLabel::Container, SeriesLabel::Pod, SeriesLabel::Namespace];
    let labels = labels.unwrap_or_else(default);
    let unique: BTreeSet<SeriesLabel> = labels.iter().copied().collect();
    if unique.len() < labels.len() {
        return Err(ConfigRefusal::key("series_labels", "a label is in the list twice"));
    }
    Ok(unique.into_iter().collect())
}

fn checked_rules(written: Vec<Spanned<WrittenRule>>) -> Result<RelabelRules, ConfigRefusal> {
    if let Some(first) = written.get(MOST_RULES) {
        return Err(ConfigRefusal::at(
            first.span(),
            format!("there are too many rules: at most {MOST_RULES} are allowed"),
        ));
    }
    let mut rules = Vec::with_capacity(written.len());
    for rule in written {
        let span = rule.span();
        let rule = rule.into_inner();
        let text = RuleText {
            source_labels: rule.source_labels,
            separator: rule.separator,
            regex: rule.regex,
            target_label: rule.target_label,
            replacement: rule.replacement,
            action: rule.action.into(),
        };
        rules.push(RelabelRule::compile(text).map_err(|(key, why)| ConfigRefusal::in_table(span, key, why))?);
    }
    Ok(RelabelRules::new(rules))
}

/// Where the file has what names labels of series: bytes of it.
struct LabelPlaces {
    /// The values in `[labels]`, by name.
    labels: BTreeMap<String, Range<usize>>,
    /// The tables of the rules.
    rules: Vec<Range<usize>>,
}

fn label_places(file: &ConfigFile) -> LabelPlaces {
    LabelPlaces {
        labels: file.labels.iter().map(|(name, value)| (name.clone(), value.span())).collect(),
        rules: file.rules.iter().map(Spanned::span).collect(),
    }
}

/// The refusal of a label that is one of `[labels]` and of `series_labels`: where the file has that key, or else at the place of the label.
fn label_twice(name: &str, label: Option<&Range<usize>>) -> ConfigRefusal {
    match label {
        Some(label) => {
            let why = format!("`{name}` is one of series_labels by default: write that key without it");
            ConfigRefusal::at(label.clone(), why)
        }
        None => {
            let why = format!("`{name}` is one of [labels], too: take it from one of them");
            ConfigRefusal::key("series_labels", why)
        }
    }
}

/// Refuses more labels than servers take: they would refuse every profile. The refusal is at the first that is too many.
fn check_count(
    places: &LabelPlaces,
    series: &[SeriesLabel],
    rules: &RelabelRules,
) -> Result<(), ConfigRefusal> {
    let mut names: BTreeSet<&str> = ["__name__", "service_name"].into();
    names.extend(series.iter().map(|label| label.name()));
    let labels = places.labels.iter().map(|(name, place)| (place, name.as_str(), None));
    let written = places.rules.iter().zip(rules.all());
    let written = written.filter_map(|(place, rule)| Some((place, rule.target()?, Some("target_label"))));
    let mut written: Vec<(&Range<usize>, &str, Option<&'static str>)> = labels.chain(written).collect();
    // As they follow each other in the file.
    written.sort_by_key(|(place, ..)| place.start);
    let mut first = None;
    for (place, name, key) in written {
        if names.insert(name) && names.len() > MOST_LABELS {
            first = first.or(Some((place, key)));
        }
    }
    let Some((place, key)) = first else { return Ok(()) };
    let why = format!(
        "series can have {} labels (__name__ and service_name, [labels], series_labels, and what rules write), \
         and servers take {MOST_LABELS}",
        names.len()
    );
    Err(match key {
        Some(key) => ConfigRefusal::in_table(place.clone(), key, why),
        None => ConfigRefusal::at(place.clone(), why),
    })
}

fn checked_destinations(
    written: Vec<Spanned<WrittenDestination>>,
) -> Result<Vec<PushDestination>, ConfigRefusal> {
    if let Some(first) = written.get(MOST_DESTINATIONS) {
        let why = format!("there are too many destinations: at most {MOST_DESTINATIONS} are allowed");
        return Err(ConfigRefusal::at(first.span(), why));
    }
    let mut destinations: Vec<PushDestination> = Vec::with_capacity(written.len());
    for destination in written {
        let span = destination.span();
        let destination = PushDestination::checked(destination.into_inner(), span.clone())?;
        if destinations.iter().any(|other| other.name == destination.name) {
            let why =
                format!("another destination is called `{}`: give each a name of its own", destination.name);
            return Err(ConfigRefusal::in_table(span, "name", why));
        }
        destinations.push(destination);
    }
    Ok(destinations)
}

fn checked_keep(
    keep: Spanned<WrittenKeep>,
    window: Duration,
    buffer: &Path,
) -> Result<KeepSettings, ConfigRefusal> {
    let span = keep.span();
    let keep = keep.into_inner();
    if is_of_buffer(&keep.folder, buffer) {
        let why = "the buffer has its own files there: take another folder, such as one next to it";
        return Err(ConfigRefusal::in_table(span, "folder", why));
    }
    let most_age = keep.max_age.unwrap_or(Duration::from_secs(24 * 3600));
    if most_age < window {
        let why = "files must be kept for longer than one takes (window)";
        return Err(ConfigRefusal::in_table(span, "max_age", why));
    }
    Ok(KeepSettings { folder: keep.folder, most_age, most_bytes: keep.max_size.unwrap_or(2_000_000_000) })
}

/// Whether a folder is that of a buffer, or one of those that the agent makes in it.
fn is_of_buffer(folder: &Path, buffer: &Path) -> bool {
    let Ok(inside) = folder.strip_prefix(buffer) else { return false };
    let first = inside.components().next().map(|first| first.as_os_str().as_encoded_bytes());
    first.is_none_or(|name| name == BUFFER_WINDOWS.as_bytes() || name.starts_with(BUFFER_WAITING.as_bytes()))
}

fn checked_metrics(metrics: Spanned<WrittenMetrics>) -> Result<ListenAddress, ConfigRefusal> {
    let span = metrics.span();
    let metrics = metrics.into_inner();
    listen_address(&metrics.listen, metrics.allow_remote, span)
}

fn listen_address(
    text: &str,
    allow_remote: bool,
    span: Range<usize>,
) -> Result<ListenAddress, ConfigRefusal> {
    let refuse = |why: String| Err(ConfigRefusal::in_table(span.clone(), "listen", why));
    if let Some(path) = text.strip_prefix("unix:") {
        // The kernel's limit, with a NUL at the end.
        return match values::absolute(path).filter(|_| path.len() < 108) {
            Some(path) => Ok(ListenAddress::Unix(path)),
            None => refuse(format!("{path:?} is no absolute path of at most 107 bytes")),
        };
    }
    let Ok(address) = text.parse::<std::net::SocketAddr>() else {
        return refuse(format!(
            "{text:?} is not allowed: it must be \"127.0.0.1:PORT\", \"[::1]:PORT\" or \"unix:PATH\""
        ));
    };
    if !address.ip().is_loopback() && !allow_remote {
        return refuse(format!(
            "{address} can be reached from other hosts: take 127.0.0.1 or a unix socket, or set allow_remote = true"
        ));
    }
    Ok(ListenAddress::Tcp(address))
}

/// A URL with the values of the variables that it names as `${NAME}`: one configuration is for all nodes, and a node's address is its own.
pub(super) fn with_variables(url: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut parts = url.split("${");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').ok_or("`${` has no `}`")?;
        whole += &value(name).ok_or_else(|| format!("the variable `{name}` is not set"))?;
        whole += rest;
    }
    Ok(whole)
}

fn checked_kubelet(kubelet: Spanned<WrittenKubelet>) -> Result<KubeletSettings, ConfigRefusal> {
    let span = kubelet.span();
    let kubelet = kubelet.into_inner();
    let refused = |why| ConfigRefusal::in_table(span.clone(), "url", why);
    let url = with_variables(&kubelet.url, |name| std::env::var(name).ok()).map_err(refused)?;
    let address = Address::of(&url).map_err(|why| ConfigRefusal::in_table(span.clone(), "url", why))?;
    if address.is_plain && !address.is_loopback {
        let why = "the token would be sent over plain http: use https";
        return Err(ConfigRefusal::in_table(span, "url", why));
    }
    Ok(KubeletSettings {
        url,
        bearer_file: kubelet.bearer_file.unwrap_or_else(|| PathBuf::from(ACCOUNT_TOKEN)),
        ca_file: kubelet.ca_file,
        timeout: kubelet.timeout.unwrap_or(Duration::from_secs(5)),
    })
}
