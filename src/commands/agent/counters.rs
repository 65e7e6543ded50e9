//! Counters that outlive the sender: one that is started again goes on with them, in a small file.

use super::folders::{read_json, write_json};
use crate::agent::config::AgentConfig;
use crate::agent::metrics::{AgentMetrics, CounterValue};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// There are some hundred counters at the most, of a line each.
const MOST_BYTES: u64 = 1 << 20;

/// What is in the file.
#[derive(Default, Serialize, Deserialize)]
struct KeptCounters {
    /// When the agent was started, s since the Unix epoch: another one begins with 0.
    started_s: u64,
    counters: Vec<CounterValue>,
}

/// Goes on with the counters of a sender before this one, of the agent that was started then. Returns whether there was one.
pub(super) fn go_on(config: &AgentConfig, started_s: u64, metrics: &AgentMetrics) -> bool {
    // Without them, counters begin with 0.
    let kept: KeptCounters = read_json(&place(config), MOST_BYTES);
    let is_of_this_agent = started_s > 0 && kept.started_s == started_s;
    if is_of_this_agent {
        metrics.go_on_from(kept.counters);
    }
    is_of_this_agent
}

/// Keeps the counters, for a sender after this one of the agent that was started then.
pub(super) fn keep(config: &AgentConfig, started_s: u64, metrics: &AgentMetrics) {
    let kept = KeptCounters { started_s, counters: metrics.counters() };
    // Those of before stay where that fails.
    let _ = write_json(&place(config), &kept);
}

/// Takes the counters along to the folder of another configuration.
pub(super) fn hand_over(before: &AgentConfig, config: &AgentConfig) {
    // Without them, counters begin with 0.
    let _ = std::fs::copy(place(before), place(config));
}

fn place(config: &AgentConfig) -> PathBuf {
    config.buffer.folder.join("counters.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::metrics::MetricName;
    use std::time::Duration;

    #[test]
    fn only_senders_of_the_same_agent_go_on_with_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = AgentConfig::keeping_below(folder.path());
        let metrics = || AgentMetrics::new("1", Duration::from_secs(1));
        let (one, same, other) = (metrics(), metrics(), metrics());
        one.add(MetricName::Windows, "", 3);
        keep(&config, 17, &one);
        assert!(go_on(&config, 17, &same) && !go_on(&config, 18, &other));
        assert!(same.text().contains("prof_windows_total 3\n"));
        assert!(other.text().contains("prof_windows_total 0\n"));
        std::fs::write(place(&config), "{").expect("it can be written");
        assert!(!go_on(&config, 17, &other));
        assert!(other.text().contains("prof_windows_total 0\n"));
    }
}
