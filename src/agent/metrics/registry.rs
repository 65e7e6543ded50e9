//! The metrics by name, and their values, which any thread of the agent may change at any time.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most values of the label of one metric. What comes after is summed up as `other`.
const MOST_LABEL_VALUES: usize = 200;

/// Why an agent is not ready whose first window is not complete.
const NOT_BEGUN: &str = "it has not begun to record";

/// Whether a metric only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricKind {
    /// A sum since the start.
    Counter,
    /// A value of this time.
    Gauge,
}

/// What a metric is: its name, its kind, the name of its label if it has one, and what it counts.
pub(super) struct MetricInfo {
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    pub(super) label: Option<&'static str>,
    pub(super) help: &'static str,
}

impl MetricName {
    /// Whether it is one of the agent since its start, and not of what a process sees now.
    fn outlives_a_process(self) -> bool {
        self.info().kind == MetricKind::Counter || self == MetricName::LastPush
    }
}

/// Declares [`MetricName`] and what each is, in one table.
macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident $kind:ident $name:literal $label:expr, $help:literal;)*) => {
        /// A metric of the agent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum MetricName {
            $(#[doc = $help] $variant,)*
        }

        impl MetricName {
            /// All of them, in the order of the page.
            pub(super) const ALL: &'static [MetricName] = &[$(MetricName::$variant,)*];

            /// What it is.
            pub(super) fn info(self) -> MetricInfo {
                match self {
                    $(MetricName::$variant => MetricInfo {
                        name: $name,
                        kind: MetricKind::$kind,
                        label: $label,
                        help: $help,
                    },)*
                }
            }
        }
    };
}

metrics! {
    BuildInfo Gauge "prof_build_info" Some("version"), "Version of prof; the value is 1.";
    StartTime Gauge "prof_start_timestamp_seconds" None, "When the agent was started.";
    Samples Counter "prof_samples_total" Some("event"), "Samples that were recorded.";
    SamplesLost Counter "prof_samples_lost_total" Some("cause"), "Samples that were lost before they were recorded.";
    StacksIncomplete Counter "prof_stacks_incomplete_total" Some("cause"), "Samples whose stack is not whole.";
    Windows Counter "prof_windows_total" None, "Windows that were recorded.";
    WindowsSkipped Counter "prof_windows_skipped_total" Some("reason"), "Windows that were not recorded.";
    WindowSeconds Gauge "prof_window_seconds" None, "Length of a window.";
    RecordingRestarts Counter "prof_recording_restarts_total" Some("reason"), "Recordings that were restarted.";
    Processes Gauge "prof_processes" None, "Processes in the last window.";
    ProcessesLeftOut Counter "prof_processes_left_out_total" None, "Processes that rules leave out.";
    Services Gauge "prof_services" None, "Services in the last window.";
    SeriesMerged Counter "prof_series_merged_total" None, "Processes in the service other, of which there were too many series.";
    IdentityProblems Counter "prof_identity_problems_total" Some("reason"), "Labels of processes that could not be read.";
    PushBytes Counter "prof_push_bytes_total" Some("destination"), "Bytes that were sent and accepted.";
    PushRequests Counter "prof_push_requests_total" Some("code"), "Requests by the status of the answer, or, without one, by the reason: dns, connection, timeout, tls.";
    PushRetries Counter "prof_push_retries_total" Some("destination"), "Requests that were repeats.";
    LastPush Gauge "prof_last_push_timestamp_seconds" Some("destination"), "When a request was accepted last.";
    Dropped Counter "prof_dropped_total" Some("reason"), "Recordings of which something was given up, by the first reason.";
    DroppedProfiles Counter "prof_dropped_profiles_total" Some("reason"), "Profiles that were given up once their recording was being sent, by reason: each a series of it or a part of one.";
    BufferBytes Gauge "prof_buffer_bytes" None, "Bytes that wait to be sent.";
    BufferFiles Gauge "prof_buffer_files" None, "Files that wait to be sent.";
    KeptBytes Gauge "prof_kept_bytes" None, "Bytes of recordings that are kept on this host, at the last look, one every 30 s.";
    CpuSeconds Counter "prof_cpu_seconds_total" Some("part"), "CPU time of the agent: user, all of its processes; bpf, its programs in the kernel.";
    RssBytes Gauge "prof_rss_bytes" None, "Resident memory of the agent.";
    ConfigReloads Counter "prof_config_reloads_total" Some("result"), "Configurations that were read again: ok, refused.";
    ScrapesRefused Counter "prof_scrapes_refused_total" Some("reason"), "Requests to this server that were refused.";
}

/// A value as it was set: sums stay exact.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum MetricValue {
    Whole(u64),
    Real(f64),
}

impl MetricValue {
    fn real(self) -> f64 {
        match self {
            MetricValue::Whole(number) => number as f64,
            MetricValue::Real(number) => number,
        }
    }

    fn plus(self, more: MetricValue) -> Self {
        match (self, more) {
            (MetricValue::Whole(number), MetricValue::Whole(more)) => {
                MetricValue::Whole(number.saturating_add(more))
            }
            (number, more) => MetricValue::Real(number.real() + more.real()),
        }
    }
}

/// A counter by the name of its metric, the value of its label, and its own.
pub(crate) type CounterValue = (String, String, MetricValue);

/// Values by metric and value of the label, which is empty if there is none.
pub(super) type MetricValues = BTreeMap<(MetricName, String), MetricValue>;

/// The metrics of the agent, its health among them. Changing a value takes a lock for less than a microsecond; a reader copies all
/// values before it formats them.
#[derive(Debug)]
pub(crate) struct AgentMetrics {
    values: Mutex<MetricValues>,
    /// Counters of a process before this one, which this one goes on with.
    before: Mutex<MetricValues>,
    started: Instant,
    /// Milliseconds from the start to the last beat, plus 1; 0 before the first.
    beat_ms: AtomicU64,
    /// Longest silence of the recorder before it counts as stuck, milliseconds.
    silence_ms: AtomicU64,
    /// Why the agent is not ready; empty if it is.
    not_ready: Mutex<String>,
}

impl AgentMetrics {
    /// Metrics of an agent of this version, which is not ready yet. Its recorder counts as stuck if it does not [beat] for `silence`.
    ///
    /// [beat]: AgentMetrics::beat
    pub(crate) fn new(version: &str, silence: Duration) -> Self {
        let metrics = AgentMetrics {
            values: Mutex::default(),
            before: Mutex::default(),
            started: Instant::now(),
            beat_ms: AtomicU64::new(0),
            silence_ms: AtomicU64::new(0),
            not_ready: Mutex::new(NOT_BEGUN.to_owned()),
        };
        metrics.set_silence(silence);
        metrics.set(MetricName::BuildInfo, version, 1);
        metrics
    }

    /// Adds to a counter. The label is empty for a metric without one.
    pub(crate) fn add(&self, name: MetricName, label: &str, more: u64) {
        self.change(name, label, |value| *value = value.plus(MetricValue::Whole(more)));
    }

    /// Adds to a counter of what is no whole number.
    pub(crate) fn add_real(&self, name: MetricName, label: &str, more: f64) {
        self.change(name, label, |value| *value = value.plus(MetricValue::Real(more)));
    }

    /// Sets a counter that this process sums up elsewhere, on top of what one before has counted.
    pub(crate) fn set_own(&self, name: MetricName, label: &str, number: u64) {
        let before = locked(&self.before).get(&(name, label.to_owned())).copied();
        let before = before.unwrap_or(MetricValue::Whole(0));
        // One that falls back is that of another label in the same sum.
        self.change(name, label, |value| {
            let new = before.plus(MetricValue::Whole(number));
            if new.real() >= value.real() {
                *value = new;
            }
        });
    }

    /// The counters, and when was sent last, for a process after this one.
    pub(crate) fn counters(&self) -> Vec<CounterValue> {
        let counters = self.values().into_iter().filter(|((name, _), _)| name.outlives_a_process());
        counters.map(|((name, label), value)| (name.info().name.to_owned(), label, value)).collect()
    }

    /// Goes on with the counters of a process before this one. To be called before anything is counted.
    pub(crate) fn go_on_from(&self, counters: Vec<CounterValue>) {
        let counter_of = |name: &str| {
            let known = |metric: &&MetricName| metric.info().name == name;
            MetricName::ALL.iter().find(known).filter(|metric| metric.outlives_a_process())
        };
        for (name, label, before) in counters {
            if let Some(&name) = counter_of(&name) {
                self.change(name, &label, |value| *value = before);
                locked(&self.before).insert((name, label), before);
            }
        }
    }

    /// Sets a value: of a gauge, or of a counter that is summed up elsewhere.
    pub(crate) fn set(&self, name: MetricName, label: &str, number: u64) {
        self.change(name, label, |value| *value = MetricValue::Whole(number));
    }

    /// Sets a value that is no whole number.
    pub(crate) fn set_real(&self, name: MetricName, label: &str, number: f64) {
        self.change(name, label, |value| *value = MetricValue::Real(number));
    }

    /// Sets a counter that is summed up elsewhere, unless that gives less than before: then something is not seen any more.
    pub(crate) fn set_most(&self, name: MetricName, label: &str, number: f64) {
        self.change(name, label, |value| *value = MetricValue::Real(number.max(value.real())));
    }

    fn change(&self, name: MetricName, label: &str, change: impl FnOnce(&mut MetricValue)) {
        let label = if name.info().label.is_some() { label } else { "" };
        let mut values = locked(&self.values);
        let key = (name, label.to_owned());
        if values.contains_key(&key) {
            values.entry(key).and_modify(change);
            return;
        }
        let count = values.range((name, String::new())..).take_while(|((own, _), _)| *own == name).count();
        let label = if count < MOST_LABEL_VALUES { key.1 } else { "other".to_owned() };
        change(values.entry((name, label)).or_insert(MetricValue::Whole(0)));
    }

    /// All values of this time.
    pub(super) fn values(&self) -> MetricValues {
        locked(&self.values).clone()
    }

    /// Says that the recorder is alive. To be called at least once in each window.
    pub(crate) fn beat(&self) {
        self.beat_ms.store(self.since_start_ms() + 1, Ordering::Relaxed);
    }

    /// Sets how long the recorder may be silent: a few windows.
    pub(crate) fn set_silence(&self, silence: Duration) {
        self.silence_ms.store(u64::try_from(silence.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Says that the agent records.
    pub(crate) fn set_ready(&self) {
        locked(&self.not_ready).clear();
    }

    /// Says that the recorder runs: if the agent is not ready, that is since no window is complete yet.
    pub(crate) fn set_begun(&self) {
        let mut not_ready = locked(&self.not_ready);
        if !not_ready.is_empty() {
            NOT_BEGUN.clone_into(&mut not_ready);
        }
    }

    /// Says why the agent does not record.
    pub(crate) fn set_not_ready(&self, why: &str) {
        *locked(&self.not_ready) = why.to_owned();
    }

    /// Whether the recorder has been heard of lately.
    pub(crate) fn health(&self) -> Result<(), String> {
        let now = self.since_start_ms();
        let last = self.beat_ms.load(Ordering::Relaxed).saturating_sub(1);
        let silent_ms = now.saturating_sub(last);
        if silent_ms <= self.silence_ms.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(format!(
            "no window has been complete for {} s: the messages of the agent say why, such as a disk that is nearly full",
            silent_ms / 1000
        ))
    }

    /// Whether the agent records.
    pub(crate) fn readiness(&self) -> Result<(), String> {
        let why = locked(&self.not_ready).clone();
        if why.is_empty() { self.health() } else { Err(why) }
    }

    fn since_start_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }
}

/// The values, also after a thread has panicked with them: each change is whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn countless_labels_are_summed_up() {
        let metrics = AgentMetrics::new("1", Duration::from_secs(60));
        for n in 0..1000 {
            metrics.add(MetricName::PushRequests, &n.to_string(), 1);
        }
        let text = metrics.text();
        assert!(text.contains("prof_push_requests_total{code=\"other\"} 800\n"), "{text}");
        metrics.add(MetricName::PushRequests, "7", 1);
        assert!(metrics.text().contains("prof_push_requests_total{code=\"7\"} 2\n"));
    }

    #[test]
    fn counters_go_on_in_another_process() {
        let one = AgentMetrics::new("1", Duration::from_secs(60));
        one.add(MetricName::Samples, "on_cpu", 40);
        one.add_real(MetricName::CpuSeconds, "bpf", 0.5);
        one.set(MetricName::ConfigReloads, "ok", 2);
        one.set_own(MetricName::PushBytes, "a", 1_000);
        one.set(MetricName::BufferFiles, "", 7);
        let written = serde_json::to_string(&one.counters()).unwrap();
        let two = AgentMetrics::new("1", Duration::from_secs(60));
        let mut counters: Vec<CounterValue> = serde_json::from_str(&written).unwrap();
        counters.push(("prof_of_another_version_total".to_owned(), String::new(), MetricValue::Whole(1)));
        two.go_on_from(counters);
        // What it has not counted yet has not fallen back.
        assert!(two.text().contains("prof_push_bytes_total{destination=\"a\"} 1000\n"));
        two.add(MetricName::Samples, "on_cpu", 2);
        two.add_real(MetricName::CpuSeconds, "bpf", 0.25);
        two.set(MetricName::ConfigReloads, "ok", 3);
        two.set_own(MetricName::PushBytes, "a", 10);
        two.set_own(MetricName::PushBytes, "a", 20);
        let text = two.text();
        for line in [
            "prof_samples_total{event=\"on_cpu\"} 42",
            "prof_cpu_seconds_total{part=\"bpf\"} 0.75",
            "prof_config_reloads_total{result=\"ok\"} 3",
            "prof_push_bytes_total{destination=\"a\"} 1020",
            "prof_buffer_files 0",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn names_are_those_that_prometheus_advises() {
        for metric in MetricName::ALL {
            let MetricInfo { name, kind, label, help } = metric.info();
            assert!(name.starts_with("prof_"), "{name}");
            assert_eq!(name.ends_with("_total"), kind == MetricKind::Counter, "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert!(label.is_none_or(|label| label.bytes().all(|byte| byte.is_ascii_lowercase())), "{name}");
            assert!(help.ends_with('.'), "{name}");
            assert_eq!(MetricName::ALL.iter().filter(|other| other.info().name == name).count(), 1);
        }
    }

    #[test]
    fn a_silent_recorder_is_not_healthy() {
        let metrics = AgentMetrics::new("1", Duration::from_millis(200));
        assert_eq!(metrics.health(), Ok(()), "it has just been started");
        assert!(metrics.readiness().unwrap_err().contains("not begun"));
        metrics.set_ready();
        assert_eq!(metrics.readiness(), Ok(()));
        std::thread::sleep(Duration::from_millis(300));
        assert!(metrics.health().is_err() && metrics.readiness().is_err());
        metrics.beat();
        assert_eq!((metrics.health(), metrics.readiness()), (Ok(()), Ok(())));
        metrics.set_not_ready("this host is not recorded today");
        assert_eq!(metrics.readiness(), Err("this host is not recorded today".to_owned()));
    }
}
