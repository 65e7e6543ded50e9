//! Labels of processes: what someone else says of a process when it is first sampled, on all of its samples.

use super::table::Processes;
use crate::profile::{LabelSetId, Tables};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Most processes whose labels are remembered: those that have ended are forgotten first.
const MOST_KNOWN: usize = 1 << 16;

/// Labels that samples of a process have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProcessLabels {
    /// Keys and values.
    Labels(Arc<Vec<(String, String)>>),
    /// Its samples are left out of the recording, and counted.
    LeftOut,
}

/// Says which labels processes have.
pub(crate) trait LabelsProcesses: Send {
    /// The labels of a process that has been sampled, whose id this is. Called for each program that a process runs, and now and then again.
    fn labels_of(&mut self, pid: u32) -> ProcessLabels;

    /// What has happened meanwhile, by names of counters, since the start.
    fn counts(&self) -> Vec<(&'static str, u64)>;
}

/// After so many windows all processes are asked for again: what names a container may come later than its processes, and the labeller
/// sees which are in use.
const ASKED_AGAIN: u32 = 4;

/// A program that a process runs: its id, how often that was reused, and how often it has called exec.
type ProgramKey = (u32, u32, u32);

/// The labels of all processes that were sampled.
#[derive(Default)]
pub(crate) struct Identities {
    /// Who says them; without one, processes have none.
    labeller: Option<Box<dyn LabelsProcesses>>,
    known: FxHashMap<ProgramKey, KnownLabels>,
    /// Windows since all processes were last asked for again.
    windows: u32,
}

struct KnownLabels {
    labels: ProcessLabels,
    /// The set in the tables as they are.
    set: Option<LabelSetId>,
}

impl std::fmt::Debug for Identities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identities").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

/// What becomes of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelsOfSample {
    /// It has these labels, if any.
    Has(Option<LabelSetId>),
    /// It is left out.
    LeftOut,
}

impl Identities {
    /// Has `labeller` say the labels of processes.
    pub(crate) fn set_labeller(&mut self, labeller: Box<dyn LabelsProcesses>) {
        self.labeller = Some(labeller);
        self.known.clear();
    }

    /// The labels of a sample of a process at a time.
    pub(crate) fn of(
        &mut self,
        pid: u32,
        time_ns: u64,
        processes: &Processes,
        tables: &mut Tables,
    ) -> LabelsOfSample {
        let Some(labeller) = &mut self.labeller else { return LabelsOfSample::Has(None) };
        let (generation, execs) =
            processes.at(pid, time_ns).map_or((0, 0), |process| (process.generation, process.exec_seq));
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let known = self
            .known
            .entry((pid, generation, execs))
            .or_insert_with(|| KnownLabels { labels: labeller.labels_of(pid), set: None });
        match &known.labels {
            ProcessLabels::LeftOut => LabelsOfSample::LeftOut,
            ProcessLabels::Labels(labels) => {
                let set = *known.set.get_or_insert_with(|| {
                    let texts: Vec<_> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
                    tables.intern_labels(&texts)
                });
                LabelsOfSample::Has(Some(set))
            }
        }
    }

    /// What the labeller has counted since the start, by names of counters.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.labeller.as_ref().map_or(Vec::new(), |labeller| labeller.counts())
    }

    /// Sets of labels get new numbers. What is known of processes that have ended is forgotten.
    pub(in crate::record) fn begin_window(&mut self, processes: &Processes) {
        self.windows += 1;
        if self.windows >= ASKED_AGAIN {
            self.windows = 0;
            self.known.clear();
        }
        self.known.retain(|(pid, generation, execs), known| {
            known.set = None;
            processes
                .get(*pid)
                .is_some_and(|process| process.generation == *generation && process.exec_seq == *execs)
        });
    }
}
