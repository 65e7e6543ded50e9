//! What the process that the user starts has done, for the one that shows it: a small file between the two.

use super::folders::{read_json, write_json};
use crate::agent::config::AgentConfig;
use crate::agent::metrics::{AgentMetrics, MetricName};
use crate::base::units;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

/// Why a recording begins again that has ended by itself.
pub(super) const RECORDER_ENDED: &str = "ended";
/// It has some words and numbers.
const MOST_BYTES: u64 = 64 << 10;

/// What the recorder does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum RecorderState {
    /// It is being started, or has ended and will be.
    #[default]
    Waits,
    /// It runs.
    Runs,
    /// It is not to run: this host does not record today.
    IsOff,
}

/// Numbers since the agent was started, and how it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AgentTally {
    /// When that was, s since the Unix epoch.
    pub(super) started_s: u64,
    /// Readings of the configuration, by what came of them.
    pub(super) reloads: BTreeMap<String, u64>,
    /// Recordings that were begun again, by reason.
    pub(super) restarts: BTreeMap<String, u64>,
    /// What the recorder does.
    pub(super) recorder: RecorderState,
}

impl AgentTally {
    /// That of an agent that starts now.
    pub(super) fn begin() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        AgentTally { started_s: now.as_secs(), ..AgentTally::default() }
    }

    /// What was written last; nothing if it cannot be read.
    pub(super) fn read(config: &AgentConfig) -> Self {
        read_json(&place(config), MOST_BYTES)
    }

    /// Writes it. Returns false where that fails, as on a full disk: then the old one stays.
    pub(super) fn write(&self, config: &AgentConfig) -> bool {
        write_json(&place(config), self).is_ok()
    }

    /// Counts in one of them.
    pub(super) fn count(counts: &mut BTreeMap<String, u64>, what: &str) {
        *counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Puts it into the metrics, and into what the agent says of its health.
    pub(super) fn show(&self, metrics: &AgentMetrics) {
        match self.recorder {
            // Its windows say that it does what it is there for.
            RecorderState::Runs => metrics.set_begun(),
            RecorderState::Waits => {
                let ended = self.restarts.get(RECORDER_ENDED).copied().unwrap_or(0);
                metrics.set_not_ready(&match ended {
                    0 => "its recorder is being started".to_owned(),
                    ended => format!(
                        "its recorder has ended {}, and is started again soon; its messages say why",
                        units::counted(ended, "time")
                    ),
                });
            }
            RecorderState::IsOff => {
                metrics.set_not_ready("this host does not record today (hosts_share)");
                metrics.beat();
            }
        }
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
    use std::time::Duration;

    #[test]
    fn the_state_of_the_recorder_is_that_of_the_agent() {
        let metrics = AgentMetrics::new("1", Duration::from_secs(3600));
        let mut tally = AgentTally::begin();
        tally.show(&metrics);
        assert_eq!(metrics.readiness(), Err("its recorder is being started".to_owned()));
        (0..2).for_each(|_| AgentTally::count(&mut tally.restarts, RECORDER_ENDED));
        tally.show(&metrics);
        assert!(metrics.readiness().unwrap_err().contains("has ended 2 times"));
        tally.recorder = RecorderState::Runs;
        tally.show(&metrics);
        assert!(metrics.readiness().unwrap_err().contains("not begun"), "{:?}", metrics.readiness());
        metrics.set_ready();
        tally.show(&metrics);
        assert_eq!(metrics.readiness(), Ok(()));
        metrics.set_silence(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(5));
        assert!(metrics.health().is_err(), "a recorder that does not come up is not healthy");
        metrics.set_silence(Duration::from_secs(3600));
        tally.recorder = RecorderState::IsOff;
        tally.show(&metrics);
        assert!(metrics.health().is_ok() && metrics.readiness().unwrap_err().contains("hosts_share"));
    }

    #[test]
    fn what_one_process_counts_another_one_shows() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = AgentConfig::keeping_below(folder.path());
        assert_eq!(AgentTally::read(&config), AgentTally::default());
        let mut tally = AgentTally::begin();
        AgentTally::count(&mut tally.reloads, "refused");
        AgentTally::count(&mut tally.restarts, RECORDER_ENDED);
        AgentTally::count(&mut tally.restarts, RECORDER_ENDED);
        assert!(tally.write(&config));
        let read = AgentTally::read(&config);
        assert_eq!((&read, read.restarts["ended"]), (&tally, 2));
        assert!(read.started_s > 1_700_000_000);
        std::fs::write(folder.path().join("agent.json"), "{").expect("it can be written");
        assert_eq!(AgentTally::read(&config), AgentTally::default());
    }
}
