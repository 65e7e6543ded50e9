//! Labels of processes: what someone else says of a process when it is first sampled, on all of its samples.

use super::mappings::Process;
use super::table::Processes;
use crate::base::safe_text;
use crate::profile::{LabelSetId, Tables};
use crate::record::modules::ModuleFiles;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// A program that a sampled process runs, with what the recording itself knows of it: no more is left once the process has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampledProgram<'p> {
    pub(crate) pid: u32,
    /// Name of the process, or of its sampled thread where that is not known.
    pub(crate) comm: &'p str,
    /// Path of the program's file as its process sees it; `None` where no code of it was seen.
    pub(crate) path: Option<&'p str>,
    /// Whether it was asked for before.
    pub(crate) is_again: bool,
}

/// Says which labels processes have.
pub(crate) trait LabelsProcesses: Send {
    /// The labels of a process that has been sampled. Called for each program that a process runs, and now and then again.
    fn labels_of(&mut self, program: &SampledProgram<'_>) -> ProcessLabels;

    /// Whether it may leave processes out.
    fn may_leave_out(&self) -> bool;

    /// What has happened meanwhile, by names of counters, since the start.
    fn counts(&self) -> Vec<(&'static str, u64)>;
}

/// After so many windows, or so long, all processes are asked for again: what names a container may come later than its processes, and
/// the labeller sees which are in use.
const ASKED_AGAIN: u32 = 4;
const LONGEST_UNASKED: Duration = Duration::from_secs(300);

/// A program that a process runs: its id, how often that was reused, and how often it has called exec.
type ProgramKey = (u32, u32, u32);

/// The labels of all processes that were sampled.
pub(crate) struct Identities {
    /// Who says them; without one, processes have none.
    labeller: Option<Box<dyn LabelsProcesses>>,
    known: FxHashMap<ProgramKey, KnownLabels>,
    /// Windows since all processes were last asked for again, and when that was.
    windows: u32,
    asked_at: Instant,
}

impl Default for Identities {
    fn default() -> Self {
        Identities { labeller: None, known: FxHashMap::default(), windows: 0, asked_at: Instant::now() }
    }
}

struct KnownLabels {
    labels: ProcessLabels,
    /// They are to be asked for again.
    is_old: bool,
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

    /// Whether the time of a thread of a process is left out, as its samples are. Where processes may be, so are those that were never
    /// sampled: of a host with thousands of them, each would have to be asked for.
    pub(crate) fn leaves_out_time_of(&self, pid: u32, time_ns: u64, processes: &Processes) -> bool {
        self.labeller.as_ref().is_some_and(|labeller| labeller.may_leave_out()) && {
            let known = self.known.get(&program_key(pid, processes.at(pid, time_ns)));
            known.is_none_or(|known| known.labels == ProcessLabels::LeftOut)
        }
    }

    /// The labels of what a process did at a time, by a thread called `comm`.
    pub(crate) fn of(
        &mut self,
        (pid, time_ns, comm): (u32, u64, &[u8]),
        (processes, files): (&Processes, &ModuleFiles),
        tables: &mut Tables,
    ) -> LabelsOfSample {
        let Some(labeller) = &mut self.labeller else { return LabelsOfSample::Has(None) };
        let process = processes.at(pid, time_ns);
        let key = program_key(pid, process);
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let mut ask = |is_again| {
            let of_thread = safe_text::from_bytes(comm);
            let of_process = process.map(|process| process.comm.as_str()).filter(|name| !name.is_empty());
            labeller.labels_of(&SampledProgram {
                pid,
                comm: of_process.unwrap_or(&of_thread),
                path: process.and_then(|process| program_path(process, files)),
                is_again,
            })
        };
        let known = self.known.entry(key);
        let known = known.or_insert_with(|| KnownLabels { labels: ask(false), is_old: false, set: None });
        if std::mem::take(&mut known.is_old) {
            *known = KnownLabels { labels: ask(true), is_old: false, set: None };
        }
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
        let is_time = self.windows >= ASKED_AGAIN || self.asked_at.elapsed() >= LONGEST_UNASKED;
        if is_time {
            (self.windows, self.asked_at) = (0, Instant::now());
        }
        self.known.retain(|(pid, generation, execs), known| {
            known.set = None;
            known.is_old |= is_time;
            processes
                .get(*pid)
                .is_some_and(|process| process.generation == *generation && process.exec_seq == *execs)
        });
    }
}

/// The key of the program that a process runs.
fn program_key(pid: u32, process: Option<&Process>) -> ProgramKey {
    process.map_or((pid, 0, 0), |process| (pid, process.generation, process.exec_seq))
}

/// The file of a process's program: it lies below all libraries. What has no file, like generated code, is none.
fn program_path<'f>(process: &Process, files: &'f ModuleFiles) -> Option<&'f str> {
    let mut paths = process.mappings().iter().map(|mapped| files.get(mapped.file).path.as_str());
    paths.find(|path| path.starts_with('/'))
}
