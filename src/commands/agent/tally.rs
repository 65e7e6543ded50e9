//! What the process that the user starts has done, for the one that shows it: a small file between the two.

use crate::agent::config::AgentConfig;
use crate::agent::metrics::{AgentMetrics, MetricName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::time::SystemTime;

/// It has some words and numbers.
const MOST_BYTES: u64 = 64 << 10;

/// Numbers since the agent was started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AgentTally {
    /// When that was, s since the Unix epoch.
    pub(super) started_s: u64,
    /// Readings of the configuration, by what came of them.
    pub(super) reloads: BTreeMap<String, u64>,
    /// Recordings that were begun again, by reason.
    pub(super) restarts: BTreeMap<String, u64>,
}

impl AgentTally {
    /// That of an agent that starts now.
    pub(super) fn begin() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        AgentTally { started_s: now.as_secs(), ..AgentTally::default() }
    }

    /// What was written last; nothing if it cannot be read.
    pub(super) fn read(config: &AgentConfig) -> Self {
        let mut bytes = Vec::new();
        // A part of one that is longer is nothing, too.
        let _ = File::open(place(config)).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Writes it. The old one stays where that fails: then numbers are late.
    pub(super) fn write(&self, config: &AgentConfig) {
        let (place, bytes) = (place(config), serde_json::to_vec(self).unwrap_or_default());
        let unfinished = place.with_extension("part");
        let _ = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, &place));
    }

    /// Counts in one of them.
    pub(super) fn count(counts: &mut BTreeMap<String, u64>, what: &str) {
        *counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Puts it into the metrics.
    pub(super) fn show(&self, metrics: &AgentMetrics) {
        if self.started_s > 0 {
            metrics.set(MetricName::StartTime, "", self.started_s);
        }
        for (metric, counts) in
            [(MetricName::ConfigReloads, &self.reloads), (MetricName::RecordingRestarts, &self.restarts)]
        {
            counts.iter().for_each(|(what, count)| metrics.set(metric, what, *count));
        }
    }
}

fn place(config: &AgentConfig) -> PathBuf {
    config.buffer.folder.join("agent.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_counts_another_one_shows() {
        let folder = tempfile::tempdir().expect("a folder");
        let text =
            format!("[buffer]\nfolder = \"{0}\"\n[keep]\nfolder = \"{0}/k\"\n", folder.path().display());
        let config = AgentConfig::parse("agent.toml", &text).expect("it is right");
        assert_eq!(AgentTally::read(&config), AgentTally::default());
        let mut tally = AgentTally::begin();
        AgentTally::count(&mut tally.reloads, "refused");
        AgentTally::count(&mut tally.restarts, "ended");
        AgentTally::count(&mut tally.restarts, "ended");
        tally.write(&config);
        let read = AgentTally::read(&config);
        assert_eq!((&read, read.restarts["ended"]), (&tally, 2));
        assert!(read.started_s > 1_700_000_000);
        fs::write(folder.path().join("agent.json"), "{").expect("it can be written");
        assert_eq!(AgentTally::read(&config), AgentTally::default());
    }
}
