//! pprof's `profile.proto`, gzipped or plain, from a profiler of any language. Each sample type becomes an event, and a type that
//! is the number of samples of the next one (`samples`, `waits`, `contentions`) its number of samples. The tables come after the
//! samples, so the file is unpacked into memory, up to a limit. Other formats, and the profile that is filled, stay outside.

mod columns;
mod fields;
mod frames;
mod tables;

use super::error::ImportError;
use super::importer::{ImportOptions, Importer};
use super::intake::{Intake, Observation};
use super::source::ImportSource;
use crate::base::safe_text;
use crate::base::units::{bytes, counted};
use crate::profile::{Reason, TaskId};
use crate::report::pprof_messages::PprofSample;
use columns::{ImportColumn, columns};
use fields::{PprofFields, WireValue, field};
use frames::PprofFrames;
use prost::Message;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::io::Read;
use tables::PprofTables;

/// Most bytes that are unpacked.
const MAX_BYTES: u64 = 2 << 30;

/// Most comments of a file that are kept.
const MAX_COMMENTS: usize = 8;

/// Most keys of dropped labels that are listed.
const MAX_KEYS: usize = 8;

/// The import format.
#[derive(Debug)]
pub(super) struct PprofInput;

impl Importer for PprofInput {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn title(&self) -> &'static str {
        "pprof"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        let mut fields = PprofFields::new(head);
        let has_type = fields.by_ref().take(64).any(|(number, _)| number == field::SAMPLE_TYPE);
        has_type && !fields.is_foreign
    }

    fn read(
        &self,
        source: ImportSource,
        intake: &mut Intake<'_>,
        _options: &ImportOptions,
    ) -> Result<(), ImportError> {
        let mut all = Vec::new();
        let read = source.unpacked()?.take(MAX_BYTES).read_to_end(&mut all);
        if let Err(error) = read {
            intake.note(format!("the file ends early: {error}"));
        } else if all.len() as u64 == MAX_BYTES {
            intake.note(format!("only the first {} of it are read", bytes(MAX_BYTES)));
        }
        let tables = PprofTables::of(&all);
        if tables.sample_types.is_empty() {
            return Err(ImportError::Foreign(
                "it is no pprof profile: it has no types of samples".to_owned(),
            ));
        }
        if let Some(at) = tables.cut_at {
            intake.note(format!("the file is cut or damaged after {}", bytes(at as u64)));
        }
        PprofReader::new(intake, tables).read(&all)
    }
}

struct PprofReader<'i, 'w, 'a> {
    intake: &'i mut Intake<'w>,
    tables: PprofTables<'a>,
    columns: Vec<ImportColumn>,
    frames: PprofFrames,
    tasks: FxHashMap<SampleThread, TaskId>,
    /// Name of the profiled program.
    program: String,
    /// Keys of labels that are dropped.
    dropped_keys: BTreeSet<String>,
    negative: u64,
    bad_samples: u64,
}

/// The thread of a sample according to its labels, as string indices and ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct SampleThread {
    thread: i64,
    process: i64,
    tid: u32,
    pid: u32,
}

impl<'i, 'w, 'a> PprofReader<'i, 'w, 'a> {
    fn new(intake: &'i mut Intake<'w>, tables: PprofTables<'a>) -> Self {
        let program = tables.mappings.first().map_or(String::new(), |mapping| {
            let path = tables.text(mapping.file);
            path.rsplit('/').next().unwrap_or_default().to_owned()
        });
        PprofReader {
            intake,
            tables,
            columns: Vec::new(),
            frames: PprofFrames::default(),
            tasks: FxHashMap::default(),
            program,
            dropped_keys: BTreeSet::new(),
            negative: 0,
            bad_samples: 0,
        }
    }

    fn read(mut self, all: &'a [u8]) -> Result<(), ImportError> {
        self.facts();
        self.columns = columns(&self.tables, self.intake);
        for (_, value) in PprofFields::new(all).filter(|(number, _)| *number == field::SAMPLE) {
            let WireValue::Bytes(message) = value else { continue };
            match PprofSample::decode(message) {
                Ok(sample) => self.sample(&sample)?,
                Err(_) => self.bad_samples += 1,
            }
        }
        self.notes();
        Ok(())
    }

    /// Reads what was profiled, when and how.
    fn facts(&mut self) {
        let tables = &self.tables;
        self.intake.duration_ns = u64::try_from(tables.duration_ns).ok().filter(|ns| *ns > 0);
        let meta = &mut self.intake.profile.meta;
        meta.start_unix_ns = u64::try_from(tables.time_ns).unwrap_or(0);
        if !self.program.is_empty() {
            meta.target_name = self.program.clone();
            meta.target = self.program.clone();
        }
        let comments = tables.comments.iter().take(MAX_COMMENTS).map(|comment| tables.text(*comment));
        for comment in comments.collect::<Vec<_>>() {
            if let Some(target) = comment.strip_prefix("recorded: ") {
                self.intake.profile.meta.target = target.to_owned();
            } else if comment.starts_with("prof ") && !comment.contains(['/', '-']) {
                self.intake.profile.meta.source_tool = comment;
            } else if !comment.is_empty() {
                self.intake.note(format!("comment in the file: {comment}"));
            }
        }
    }

    fn sample(&mut self, sample: &PprofSample) -> Result<(), ImportError> {
        let (task, reason) = self.labels(sample);
        let mut stack = None;
        for at in 0..self.columns.len() {
            let column = self.columns[at];
            let Some(value) = sample.values.get(column.value).copied() else { continue };
            let Ok(value) = u64::try_from(value) else {
                self.negative += 1;
                continue;
            };
            let samples = column.samples.and_then(|at| sample.values.get(at).copied());
            let samples = samples.map_or(1, |samples| u64::try_from(samples).unwrap_or(0));
            if value == 0 && (samples == 0 || column.samples.is_none()) {
                continue;
            }
            let stack = *stack.get_or_insert_with(|| self.stack(sample));
            let weight = value.saturating_mul(column.scale);
            // A count of N is N samples.
            let samples = if column.is_samples { value } else { samples };
            let seen = Observation { time_ns: None, task, stack, weight, cpu: 0, samples, reason };
            self.intake.push(column.event, &seen)?;
        }
        Ok(())
    }

    /// The stack of a sample, whose locations are leaf first.
    fn stack(&mut self, sample: &PprofSample) -> Option<crate::profile::StackId> {
        let frames = &mut self.frames;
        let list: Vec<_> = (sample.locations.iter().rev())
            .map(|id| frames.frame(&self.tables, &mut self.intake.profile, *id))
            .collect();
        self.intake.stack(&list)
    }

    fn labels(&mut self, sample: &PprofSample) -> (TaskId, Reason) {
        let (mut thread, mut reason) = (SampleThread::default(), Reason::Other);
        for label in &sample.labels {
            let number = u32::try_from(label.number).unwrap_or(0);
            match self.tables.bytes(label.key) {
                b"thread" | b"thread_name" | b"comm" => thread.thread = label.text,
                b"process" | b"process_name" => thread.process = label.text,
                b"tid" | b"thread_id" => thread.tid = number,
                b"pid" | b"process_id" => thread.pid = number,
                b"reason" => {
                    let word = self.tables.bytes(label.text);
                    let known = Reason::ALL.into_iter().find(|known| known.label().as_bytes() == word);
                    reason = known.unwrap_or(reason);
                }
                // Its name is missing in a file that is cut.
                b"" => {}
                key if self.dropped_keys.len() < MAX_KEYS => {
                    self.dropped_keys.insert(safe_text::from_bytes(key));
                }
                _ => {}
            }
        }
        (self.task(thread), reason)
    }

    fn task(&mut self, thread: SampleThread) -> TaskId {
        if let Some(task) = self.tasks.get(&thread) {
            return *task;
        }
        let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
        let program = or(self.program.clone(), "[thread not known]");
        let comm = or(self.tables.text(thread.thread), &program);
        let process = or(self.tables.text(thread.process), &program);
        let generation = if thread.tid == 0 { self.tasks.len() as u32 } else { 0 };
        let task = self.intake.task((thread.pid, thread.tid), generation, &comm, &process);
        self.tasks.insert(thread, task);
        task
    }

    fn notes(self) {
        let intake = self.intake;
        if self.tables.lacks_strings() {
            intake.note("names are missing: the file is cut or damaged");
        }
        intake.note("pprof has no times and no CPUs of samples");
        if self.bad_samples > 0 {
            let samples = counted(self.bad_samples, "sample");
            intake.note(format!("{samples} could not be read: left out"));
        }
        if self.negative > 0 {
            let values = counted(self.negative, "value");
            intake.note(format!("{values} below zero, as of a comparison: left out"));
        }
        if self.frames.missing > 0 {
            let locations = counted(self.frames.missing, "location");
            intake.note(format!("{locations} of stacks not in the file: shown as [unknown]"));
        }
        if !self.dropped_keys.is_empty() {
            let keys: Vec<String> = self.dropped_keys.into_iter().collect();
            intake.note(format!("labels that are not kept: {}", keys.join(", ")));
        }
    }
}
