//! The profile under construction during an import, written piece by piece, so that samples are not kept in memory.

use super::error::ImportError;
use crate::profile::{
    End, EventId, EventInfo, EventKind, FrameId, Merged, Meta, Outcome, Profile, Reason, Sample, StackId,
    Task, TaskId, Unit, Wait, Writer, counter,
};
use rustc_hash::FxHashMap;
use std::io::Write;

/// Number of samples after which a piece is written.
const FLUSH_SAMPLES: u64 = 1 << 16;
/// Most frames of a stack; the middle of a deeper one is left out.
const MAX_FRAMES: usize = 4000;
/// Largest sum of the sample counts of merged rows, since a file can claim any number.
const MAX_MERGED_SAMPLES: u64 = 1 << 40;
/// Most notes that are kept.
const MAX_NOTES: usize = 50;
/// Longest name that is kept, bytes.
const MAX_NAME_BYTES: usize = 4096;

/// Callback that names the frames once all are known. Returns notes for readers.
pub(crate) type NameFrames<'a> = &'a mut dyn FnMut(&mut Profile) -> Vec<String>;

/// Result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Imported {
    /// Name of the format, for people.
    pub(crate) format: &'static str,
    /// Title, number of rows, weight and unit of each event.
    pub(crate) events: Vec<(String, u64, u64, Unit)>,
    /// Notes for readers of the profile. Quotes foreign names.
    pub(crate) notes: Vec<String>,
}

/// An observation to add to the profile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    /// Time on the clock of the source, ns.
    pub(super) time_ns: Option<u64>,
    pub(super) task: TaskId,
    pub(super) stack: Option<StackId>,
    pub(super) weight: u64,
    pub(super) cpu: u16,
    /// Number of samples that are merged in it; 0 or 1 for a single one.
    pub(super) samples: u64,
    /// Reason, for waits.
    pub(super) reason: Reason,
}

/// Sums of an event so far.
#[derive(Debug, Clone, Copy, Default)]
struct EventSums {
    rows: u64,
    weight: u64,
}

/// The profile so far, and where it is written.
pub(super) struct Intake<'w> {
    pub(super) profile: Profile,
    format: &'static str,
    out: Option<&'w mut dyn Write>,
    writer: Option<Writer<&'w mut dyn Write>>,
    /// Sums by event.
    sums: Vec<EventSums>,
    by_name: FxHashMap<String, EventId>,
    pending: u64,
    merged_samples: u64,
    /// Number of samples with impossible weights.
    left_out: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    /// Length of the recording, ns, if the source contains it.
    pub(super) duration_ns: Option<u64>,
    notes: Vec<String>,
}

impl<'w> Intake<'w> {
    /// Starts a profile for a file called `name` in the format called `format`.
    pub(super) fn new(out: &'w mut dyn Write, format: &'static str, name: &str) -> Self {
        let meta = Meta {
            prof_version: env!("CARGO_PKG_VERSION").to_owned(),
            imported_from: format.to_owned(),
            source_file: name.to_owned(),
            target: name.to_owned(),
            ..Meta::default()
        };
        Intake {
            profile: Profile::new(meta),
            format,
            out: Some(out),
            writer: None,
            sums: Vec::new(),
            by_name: FxHashMap::default(),
            pending: 0,
            merged_samples: 0,
            left_out: 0,
            first_ns: None,
            last_ns: 0,
            duration_ns: None,
            notes: Vec::new(),
        }
    }

    /// Adds a note for readers, unless it was added before.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The event of a kind, created on first use with `sampling` and `period`.
    pub(super) fn event(&mut self, kind: EventKind, sampling: &str, period: u64) -> EventId {
        if let Some(event) = self.by_name.get(&*kind.name) {
            return *event;
        }
        let name = kind.name.clone().into_owned();
        let event = self.profile.add_event(EventInfo {
            kind,
            sampling: sampling.to_owned(),
            period,
            ..EventInfo::default()
        });
        self.sums.push(EventSums::default());
        self.by_name.insert(name, event);
        event
    }

    /// The task for a thread under one name.
    pub(super) fn task(&mut self, ids: (u32, u32), generation: u32, comm: &str, process: &str) -> TaskId {
        let comm = self.profile.tables.intern_string(cut_name(comm));
        let process = self.profile.tables.intern_string(cut_name(process));
        self.profile.tables.intern_task(Task { pid: ids.0, tid: ids.1, generation, comm, process })
    }

    /// The stack with these frames, root first.
    pub(super) fn stack(&mut self, frames: &[FrameId]) -> Option<StackId> {
        if frames.len() <= MAX_FRAMES {
            return self.profile.tables.intern_stack_of(frames.iter().copied());
        }
        let half = MAX_FRAMES / 2;
        let left_out = frames.len() - 2 * half;
        let gap = self.profile.frame_left_out(u32::try_from(left_out).unwrap_or(u32::MAX));
        self.profile.count(counter::STACKS_CUT, 1);
        self.profile.count(counter::FRAMES_LEFT_OUT, left_out as u64);
        let (root, rest) = frames.split_at(half);
        let kept = root.iter().copied().chain([gap]).chain(rest[left_out..].iter().copied());
        self.profile.tables.intern_stack_of(kept)
    }

    /// Adds a sample, and writes a piece when enough are pending. A sample that makes the sum of its event overflow
    /// must come from a damaged file: it is left out, and counted in a note.
    ///
    /// # Errors
    ///
    /// Fails when the profile cannot be written.
    pub(super) fn push(&mut self, event: EventId, seen: &Observation) -> Result<(), ImportError> {
        let sums = &mut self.sums[event.index()];
        let Some(weight) = sums.weight.checked_add(seen.weight) else {
            self.left_out += 1;
            return Ok(());
        };
        sums.weight = weight;
        sums.rows += seen.samples.max(1);
        let time_ns = match seen.time_ns {
            Some(time_ns) => {
                let first_ns = *self.first_ns.get_or_insert(time_ns);
                time_ns.saturating_sub(first_ns)
            }
            None => 0,
        };
        self.last_ns = self.last_ns.max(time_ns);
        let has_waits = self.profile.events[event.index()].has_waits();
        let wait = has_waits.then(|| Wait {
            duration_ns: seen.weight / seen.samples.max(1),
            reason: seen.reason,
            ..Wait::default()
        });
        let sample = Sample {
            time_ns,
            task: seen.task,
            stack: seen.stack,
            weight: seen.weight,
            cpu: seen.cpu,
            outcome: Outcome::NotKnown,
            wait,
            merged: self.merged(seen, has_waits),
            block: None,
            labels: None,
        };
        self.profile.events[event.index()].push(sample);
        self.pending += 1;
        if self.pending >= FLUSH_SAMPLES {
            self.flush()?;
        }
        Ok(())
    }

    /// The facts of a row that merges several samples. Their times are unknown, so the row spans the whole recording.
    fn merged(&mut self, seen: &Observation, is_wait: bool) -> Option<Merged> {
        let samples = seen.samples.min(MAX_MERGED_SAMPLES.saturating_sub(self.merged_samples));
        if samples < 2 {
            return None;
        }
        self.merged_samples += samples;
        let weight_us = seen.weight / samples / 1000;
        let variance_us2 = weight_us.saturating_mul(weight_us).saturating_mul(samples);
        Some(Merged {
            samples,
            count_thousandths: samples.saturating_mul(1000),
            variance_us2: if is_wait { 0 } else { variance_us2 },
            span_ns: self.duration_ns.unwrap_or(0),
        })
    }

    fn flush(&mut self) -> Result<(), ImportError> {
        self.pending = 0;
        if let Some(out) = self.out.take() {
            self.writer = Some(Writer::new(out, &self.profile.meta)?);
        }
        if let Some(writer) = &mut self.writer {
            writer.flush(&mut self.profile, true)?;
        }
        Ok(())
    }

    /// Time of the first sample on the clock of the source, ns.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.first_ns
    }

    /// Names the frames and finishes the profile.
    ///
    /// # Errors
    ///
    /// Fails when there are no samples, or the profile cannot be written.
    pub(super) fn finish(mut self, name_frames: NameFrames<'_>) -> Result<Imported, ImportError> {
        if self.sums.iter().all(|sums| sums.rows == 0) {
            let why = self.notes.first().map_or(String::new(), |note| format!(": {note}"));
            return Err(ImportError::NoSamples(why));
        }
        if self.left_out > 0 {
            let samples = crate::base::units::counted(self.left_out, "sample");
            self.note(format!("{samples} with impossibly large weights left out: the file is damaged"));
        }
        for note in name_frames(&mut self.profile) {
            self.note(note);
        }
        let tasks = self.profile.tables.tasks();
        let threads: std::collections::HashSet<(u32, u32)> =
            tasks.iter().map(|task| (task.tid, task.generation)).collect();
        self.profile.end = Some(End {
            duration_ns: self.duration_ns.unwrap_or(self.last_ns).max(self.last_ns),
            reason: format!("imported from {}", self.format),
            threads: threads.len() as u32,
            notices: self.notes.clone(),
            ..End::default()
        });
        self.flush()?;
        let events = self.profile.events.iter().zip(&self.sums).filter(|(_, sums)| sums.rows > 0);
        let events = events.map(|(event, sums)| {
            let kind = event.kind();
            (kind.title.clone().into_owned(), sums.rows, sums.weight, kind.unit)
        });
        Ok(Imported { format: self.format, events: events.collect(), notes: self.notes })
    }
}

/// `name`, cut to the length that is kept.
pub(super) fn cut_name(name: &str) -> &str {
    if name.len() <= MAX_NAME_BYTES {
        return name;
    }
    let end = (0..=MAX_NAME_BYTES).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    &name[..end]
}
