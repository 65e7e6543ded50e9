//! What series are made of, as plain values.

use crate::report::model::metric::Metric;
use crate::report::options::CommonOptions;

/// Keys of labels that say which service a sample is of; the first is its name.
const SERVICE_KEYS: [&str; 4] = ["service_name", "namespace", "pod", "container"];
/// Most labels of a series, with its name, its service and its host: servers refuse more.
const MOST_LABELS: usize = 30;
/// Longest key of a label, bytes: what servers take.
const LONGEST_KEY: usize = 1024;
/// Longest value of a label, bytes: what servers take.
pub(super) const LONGEST_VALUE: usize = 2048;
/// Labels that a series may have besides those that are asked for: name, service, host, namespace, pod, container.
const OWN_LABELS: usize = 6;

/// Label that samples of a series can have. Servers make a series of each value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SampleLabel {
    /// Name of the thread.
    Thread,
    /// Process id.
    Pid,
    /// Thread id.
    Tid,
    /// Why the thread waited.
    Reason,
    /// The label of this key that was recorded with the sample.
    Recorded(String),
}

impl SampleLabel {
    /// The label that a word means: `thread`, `pid`, `tid`, `reason`, or any other as it was recorded.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "thread" => SampleLabel::Thread,
            "pid" => SampleLabel::Pid,
            "tid" => SampleLabel::Tid,
            "reason" => SampleLabel::Reason,
            other => SampleLabel::Recorded(other.to_owned()),
        }
    }
}

/// Where the label `host` of a series comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum HostLabel {
    /// The host of the recording.
    #[default]
    OfRecording,
    /// This one.
    Named(String),
    /// The labels that samples were recorded with: a key like others, which a series may lack.
    OfSamples,
}

/// What series are made of.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SeriesOptions {
    /// Service of all series, whatever the recording says.
    pub(crate) service: Option<String>,
    /// Where the name of the host comes from.
    pub(crate) host: HostLabel,
    /// Labels of all series, as (key, value).
    pub(crate) labels: Vec<(String, String)>,
    /// Labels of series whose samples were not recorded with labels of these keys, as (key, value).
    pub(crate) other_labels: Vec<(String, String)>,
    /// Keys of further labels that were recorded with samples, and tell series apart.
    pub(crate) series_labels: Vec<String>,
    /// Labels of samples, besides those of spans.
    pub(crate) sample_labels: Vec<SampleLabel>,
    /// Events that are sent; empty for all that the recording has.
    pub(crate) events: Vec<Metric>,
    /// Samples and frames that are sent. Its metric is not used.
    pub(crate) common: CommonOptions,
    /// Whether code without a name has its addresses, for tools that know more of it. Servers show the function's offset in its module,
    /// which stands for the name; with addresses each place in it is one of its own.
    pub(crate) with_addresses: bool,
    /// Time at which the recording is said to have ended, ns since the Unix epoch; `None` for the time at which it did.
    pub(crate) ended_unix_ns: Option<u64>,
}

impl SeriesOptions {
    /// Keys of recorded labels that tell series apart; the first is the name of the service.
    pub(super) fn service_keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = SERVICE_KEYS.to_vec();
        let further = self.series_labels.iter().map(String::as_str).filter(|key| !SERVICE_KEYS.contains(key));
        keys.extend(further);
        keys
    }
}

/// Says why servers would refuse a label of a series, or these labels together.
pub(crate) fn refuse_label(labels: &[(String, String)]) -> Option<String> {
    for (key, value) in labels {
        let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_name =
            key.starts_with(is_letter) && key.chars().all(|c| is_letter(c) || c.is_ascii_digit() || c == '.');
        if !is_name || key.starts_with("__") || key.len() > LONGEST_KEY {
            return Some(format!("`{key}` cannot be the key of a label: letters, digits, `_` and `.`"));
        }
        if value.is_empty() || value.len() > LONGEST_VALUE || value.chars().any(char::is_control) {
            return Some(format!("the value of the label `{key}` is empty, too long or no text"));
        }
        if labels.iter().filter(|(other, _)| other == key).count() > 1 {
            return Some(format!("the label `{key}` is given twice"));
        }
        if key == "service_name" || key == "host" {
            let option = if key == "host" { "--host" } else { "--service" };
            return Some(format!("the label `{key}` has an option of its own: {option}"));
        }
    }
    let count = labels.len() + OWN_LABELS;
    (count > MOST_LABELS).then(|| {
        format!(
            "{} labels and {OWN_LABELS} of prof are more than the {MOST_LABELS} that servers take",
            labels.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(labels: &[(&str, &str)]) -> bool {
        let labels: Vec<_> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        refuse_label(&labels).is_some()
    }

    #[test]
    fn labels_that_servers_refuse_are_refused_first() {
        assert!(!refused(&[("env", "prod"), ("k8s.node.name", "a b")]));
        for label in [("9a", "x"), ("a-b", "x"), ("__name__", "x"), ("a", ""), ("a", "x\n"), ("host", "h")] {
            assert!(refused(&[label]), "{label:?}");
        }
        assert!(refused(&[("a", "1"), ("a", "2")]));
        let many: Vec<String> = (0..30).map(|number| format!("l{number}")).collect();
        let labels = |count: usize| many[..count].iter().map(|key| (key.as_str(), "x")).collect::<Vec<_>>();
        assert!(!refused(&labels(24)) && refused(&labels(25)));
    }
}
