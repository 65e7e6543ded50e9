//! Applies each record to the profile.

use super::attributes::PerfAttribute;
use super::blocks::RawRecord;
use super::bytes::{ByteCursor, u64_at, until_zero};
use super::copied_stacks::CopiedStacks;
use super::frames::{ChainAddress, addresses, frame};
use super::header::PerfHeader;
use super::kernel::{PERF_KERNEL, PerfKernel};
use super::module_files::MappedFiles;
use super::processes::PerfProcesses;
use super::record::{SideRecord, is_wanted};
use super::sample::{PerfSample, UserCopy};
use super::sorter::{KeptSample, PendingRecord, RecordBatch, RecordSorter};
use crate::base::safe_text;
use crate::base::units::counted;
use crate::import::error::ImportError;
use crate::import::event_kinds::{is_clock, is_timer, of_perf};
use crate::import::intake::{Intake, Observation};
use crate::profile::{EventId, EventKind, FrameId, Reason, StackId, counter};
use perf_event_open_sys::bindings;
use rustc_hash::FxHashMap;
use zstd::stream::raw::{Decoder, Operation};

/// Record types of perf itself.
mod own_record {
    pub(super) const ATTRIBUTE: u32 = 64;
    pub(super) const FINISHED_ROUND: u32 = 68;
    pub(super) const AUX_TRACE: u32 = 71;
    pub(super) const EVENT_UPDATE: u32 = 78;
    pub(super) const FEATURE: u32 = 80;
    pub(super) const PACKED: u32 = 81;
    pub(super) const PACKED_2: u32 = 83;
}

/// Type of an event update that changes the name.
const UPDATE_NAME: u64 = 2;
/// Size of the buffer for decompression, bytes.
const UNPACK_BYTES: usize = 256 << 10;
/// Most stack addresses that are remembered, over all processes.
const MAX_REMEMBERED: usize = 8 << 20;

/// Reads records into a profile.
pub(super) struct PerfReader<'i, 'w> {
    intake: &'i mut Intake<'w>,
    header: PerfHeader,
    by_id: FxHashMap<u64, usize>,
    /// Offset of the event id in samples, if there is more than one event.
    id_place: Option<usize>,
    events: Vec<Option<EventId>>,
    sorter: RecordSorter,
    processes: PerfProcesses,
    files: MappedFiles,
    kernel: PerfKernel,
    unpacker: Option<Decoder<'static>>,
    unpacked: Vec<u8>,
    to_skip: u64,
    remembered: usize,
    chain: Vec<ChainAddress>,
    frames: Vec<FrameId>,
    bad_records: u64,
    copies: CopiedStacks,
    untimed: u64,
}

impl<'i, 'w> PerfReader<'i, 'w> {
    pub(super) fn new(
        intake: &'i mut Intake<'w>,
        header: PerfHeader,
        kernel: PerfKernel,
        files: MappedFiles,
    ) -> Self {
        let mut reader = PerfReader {
            intake,
            header,
            by_id: FxHashMap::default(),
            id_place: None,
            events: Vec::new(),
            sorter: RecordSorter::default(),
            processes: PerfProcesses::default(),
            files,
            kernel,
            unpacker: None,
            unpacked: Vec::new(),
            to_skip: 0,
            remembered: 0,
            chain: Vec::new(),
            frames: Vec::new(),
            bad_records: 0,
            copies: CopiedStacks::default(),
            untimed: 0,
        };
        reader.take_header();
        reader
    }

    /// Applies the header; through a pipe it arrives in pieces.
    fn take_header(&mut self) {
        let header = &self.header;
        self.by_id = (header.attributes.iter().enumerate())
            .flat_map(|(at, attribute)| attribute.ids.iter().map(move |id| (*id, at)))
            .collect();
        self.id_place = match header.attributes.len() {
            0 | 1 => None,
            _ => header.attributes[0].id_place(),
        };
        self.events.resize(header.attributes.len(), None);
        let build_id = header.build_ids.get(PERF_KERNEL).map_or(&[][..], Vec::as_slice);
        self.kernel.identify(&header.release, build_id);
        let meta = &mut self.intake.profile.meta;
        meta.hostname.clone_from(&header.hostname);
        meta.kernel.clone_from(&header.release);
        meta.arch.clone_from(&header.architecture);
        meta.cpus = header.cpus;
        meta.command.clone_from(&header.command);
        meta.losses_known = true;
        if !header.version.is_empty() {
            meta.source_tool = format!("perf {}", header.version);
        }
        if !header.command.is_empty() {
            meta.target = safe_text::shell_line(header.command.iter().map(String::as_str));
        }
    }

    pub(super) fn note(&mut self, note: &str) {
        self.intake.note(note);
    }

    /// Takes the number of bytes to skip after the record, which hold no records.
    pub(super) fn bytes_to_skip(&mut self) -> u64 {
        std::mem::take(&mut self.to_skip)
    }

    /// Processes the next record of the file.
    pub(super) fn record(&mut self, record: RawRecord<'_>) -> Result<(), ImportError> {
        match record.kind {
            own_record::PACKED => self.unpack(record.body),
            own_record::PACKED_2 => {
                let length = u64_at(record.body, 0).and_then(|length| usize::try_from(length).ok());
                match length.and_then(|length| record.body.get(8..)?.get(..length)) {
                    Some(packed) => self.unpack(packed),
                    None => self.bad(),
                }
            }
            own_record::AUX_TRACE => {
                self.to_skip = u64_at(record.body, 0).unwrap_or(0);
                self.intake.note("traces of the processor (AUX) are left out");
                Ok(())
            }
            _ => self.plain_record(record),
        }
    }

    fn bad(&mut self) -> Result<(), ImportError> {
        self.bad_records += 1;
        Ok(())
    }

    /// Processes the records in a compressed one; the last of them may continue in the next.
    fn unpack(&mut self, packed: &[u8]) -> Result<(), ImportError> {
        let mut unpacker = match self.unpacker.take() {
            Some(unpacker) => unpacker,
            None => Decoder::new()?,
        };
        let mut part = vec![0; UNPACK_BYTES];
        let mut rest = packed;
        loop {
            let Ok(status) = unpacker.run_on_buffers(rest, &mut part) else {
                self.intake.note("packed records are damaged: those after that are missing");
                self.unpacked.clear();
                // Later data depend on these bytes, so they cannot be decompressed any more.
                return self.bad();
            };
            rest = &rest[status.bytes_read..];
            self.unpacked.extend_from_slice(&part[..status.bytes_written]);
            self.unpacked_records()?;
            let is_done = rest.is_empty() && status.bytes_written < UNPACK_BYTES;
            if is_done || (status.bytes_read == 0 && status.bytes_written == 0) {
                break;
            }
        }
        self.unpacker = Some(unpacker);
        Ok(())
    }

    fn unpacked_records(&mut self) -> Result<(), ImportError> {
        let bytes = std::mem::take(&mut self.unpacked);
        let mut at = 0;
        loop {
            match RawRecord::first(&bytes[at..]) {
                Ok(Some((record, length))) => {
                    at += length;
                    self.plain_record(record)?;
                }
                Ok(None) => break,
                Err(()) => {
                    self.bad_records += 1;
                    at = bytes.len();
                    break;
                }
            }
        }
        self.unpacked = bytes;
        self.unpacked.drain(..at);
        Ok(())
    }

    fn plain_record(&mut self, record: RawRecord<'_>) -> Result<(), ImportError> {
        match record.kind {
            own_record::FINISHED_ROUND => {
                let batch = self.sorter.end_round();
                return self.take(batch);
            }
            own_record::ATTRIBUTE => self.attribute(record.body),
            own_record::FEATURE => {
                if let Some(number) = u64_at(record.body, 0) {
                    self.header.feature(u32::try_from(number).unwrap_or(u32::MAX), &record.body[8..]);
                    self.take_header();
                }
            }
            own_record::EVENT_UPDATE => self.update_event(record.body),
            bindings::PERF_RECORD_SAMPLE => self.sample(record.misc, record.body),
            kind if is_wanted(kind) => {
                let attribute = self.header.attributes.first();
                let time = attribute.and_then(|attribute| attribute.time_at_end(record.body));
                self.sorter.add_other(time, kind, record.misc, record.body);
            }
            _ => {}
        }
        if self.sorter.is_full() {
            let batch = self.sorter.take_half();
            self.take(batch)?;
        }
        Ok(())
    }

    /// Adds an event from a stream through a pipe.
    fn attribute(&mut self, body: &[u8]) {
        const MAX_EVENTS: usize = 1 << 12;
        let Some((mut attribute, length)) = PerfAttribute::parse(body) else {
            self.bad_records += 1;
            return;
        };
        if self.header.attributes.len() < MAX_EVENTS {
            attribute.ids = body[length..].chunks_exact(8).filter_map(|id| u64_at(id, 0)).collect();
            self.header.attributes.push(attribute);
            self.take_header();
        }
    }

    fn update_event(&mut self, body: &[u8]) {
        let mut cursor = ByteCursor(body);
        let (Some(UPDATE_NAME), Some(id)) = (cursor.u64(), cursor.u64()) else { return };
        let at = self.by_id.get(&id).copied();
        if let Some(attribute) = at.and_then(|at| self.header.attributes.get_mut(at)) {
            attribute.name = safe_text::from_bytes(until_zero(cursor.0));
        }
    }

    fn sample(&mut self, misc: u16, body: &[u8]) {
        let id = self.id_place.and_then(|place| u64_at(body, place));
        let at = id.and_then(|id| self.by_id.get(&id).copied()).unwrap_or(0);
        let parsed = self.header.attributes.get(at).and_then(|attribute| {
            let sample = PerfSample::parse(body, attribute, &self.header.architecture)?;
            let fixed = if attribute.is_frequency { 1 } else { attribute.rate.max(1) };
            Some((sample, sample.period.unwrap_or(fixed)))
        });
        let Some((sample, period)) = parsed else {
            self.bad_records += 1;
            return;
        };
        let kept = KeptSample::of(&sample, at, period, misc);
        self.sorter.add_sample(sample.time_ns, kept, sample.chain.unwrap_or_default(), sample.copy);
    }

    /// Processes sorted records.
    fn take(&mut self, batch: RecordBatch) -> Result<(), ImportError> {
        for &(time_ns, _, record) in &batch.entries {
            match record {
                PendingRecord::Sample(sample) => {
                    self.add_sample(time_ns, &sample, batch.chain(&sample), batch.copy(&sample))?;
                }
                PendingRecord::Other { kind, misc, body } => self.other(kind, misc, batch.body(body)),
            }
        }
        self.sorter.recycle(batch);
        Ok(())
    }

    fn other(&mut self, kind: u32, misc: u16, body: &[u8]) {
        match SideRecord::parse(kind, misc, body) {
            Some(SideRecord::Mmap(record)) if record.is_kernel => self.kernel.map(&record),
            Some(SideRecord::Mmap(record)) => {
                let file = self.files.number(&record, &self.header.build_ids);
                self.processes.map(&record, file);
            }
            Some(SideRecord::Comm { pid, tid, name, is_exec }) => {
                self.processes.name(pid, tid, name, is_exec)
            }
            Some(SideRecord::Fork { pid, parent, tid, parent_tid }) => {
                self.processes.fork(pid, parent, tid, parent_tid);
            }
            Some(SideRecord::Exit { tid }) => self.processes.exit(tid),
            Some(SideRecord::Lost { id, count }) => {
                let at = id.and_then(|id| self.by_id.get(&id).copied()).unwrap_or(0);
                let is_time = self.header.attributes.get(at).is_some_and(|known| is_clock(&known.name));
                let name = if is_time { counter::LOST_RING_FULL } else { counter::LOST_COUNTS };
                self.intake.profile.count(name, count);
            }
            None => {}
        }
    }

    /// The event of an attribute, created at its first sample.
    fn event(&mut self, at: usize) -> EventId {
        if let Some(event) = self.events[at] {
            return event;
        }
        let attribute = &self.header.attributes[at];
        let kind = of_perf(&attribute.name, true);
        // perf's off-CPU events are samples whose period is the time waited; they have no reason.
        let period = if attribute.is_frequency { 0 } else { attribute.rate };
        if kind == EventKind::ON_CPU {
            let rate =
                if attribute.is_frequency { attribute.rate } else { 1_000_000_000 / attribute.rate.max(1) };
            let meta = &mut self.intake.profile.meta;
            meta.effective_hz = u32::try_from(rate).unwrap_or(0);
            meta.requested_hz = meta.effective_hz;
            meta.clock = attribute.name.split(':').next().unwrap_or_default().to_owned();
            meta.clock_is_timer = is_timer(&meta.clock);
        }
        let sampling = attribute.sampling();
        let event = self.intake.event(kind, &sampling, period);
        self.events[at] = Some(event);
        event
    }

    fn add_sample(
        &mut self,
        time_ns: u64,
        sample: &KeptSample,
        chain: &[u64],
        copy: Option<UserCopy<'_>>,
    ) -> Result<(), ImportError> {
        let event = self.event(sample.attribute as usize);
        let task = self.processes.task(self.intake, sample.pid, sample.tid);
        let stack = self.stack(sample, chain, copy);
        self.untimed += u64::from(!sample.is_timed);
        let seen = Observation {
            time_ns: sample.is_timed.then_some(time_ns),
            task,
            stack,
            weight: sample.period,
            cpu: sample.cpu,
            samples: 1,
            reason: Reason::Other,
        };
        self.intake.push(event, &seen)
    }

    fn stack(&mut self, sample: &KeptSample, chain: &[u64], copy: Option<UserCopy<'_>>) -> Option<StackId> {
        // What has no chain is known by its address.
        let alone = [sample.ip, u64::from(sample.mode)];
        let key = if chain.is_empty() { &alone[..] } else { chain };
        let space = self.processes.space(sample.pid);
        let is_whole = sample.user_ip.is_none() && copy.is_none();
        if let Some(stack) = space.stacks.get(key).filter(|_| is_whole) {
            return *stack;
        }
        addresses(sample, chain, &mut self.chain);
        if let Some(copy) = copy {
            let architecture = &self.header.architecture;
            self.copies.unwind(copy, architecture, space, &mut self.files, &mut self.chain);
        }
        self.frames.clear();
        for at in self.chain.iter().rev() {
            let profile = &mut self.intake.profile;
            self.frames.push(frame(profile, &mut self.files, &mut self.kernel, space, sample.pid, *at));
        }
        let stack = self.intake.stack(&self.frames);
        if is_whole {
            space.stacks.insert(key.into(), stack);
            self.remembered += key.len();
            if self.remembered > MAX_REMEMBERED {
                self.processes.forget_stacks();
                self.remembered = 0;
            }
        }
        stack
    }

    /// Processes the remaining records, and adds notes on what is missing.
    pub(super) fn finish(mut self) -> Result<(), ImportError> {
        let batch = self.sorter.take_all();
        self.take(batch)?;
        let intake = self.intake;
        if intake.profile.meta.target_name.is_empty() {
            let pids = intake.profile.tables.tasks().iter().map(|task| task.pid).find(|pid| *pid > 0);
            let name = pids.and_then(|pid| self.processes.process_name(pid)).unwrap_or_default();
            intake.profile.meta.target_name = name.to_owned();
        }
        intake.profile.meta.start_mono_ns = intake.first_ns().unwrap_or(0);
        if intake.first_ns().is_some() {
            intake.note("the length is the time from the first sample to the last");
        }
        self.copies.notes().into_iter().for_each(|note| intake.note(note));
        if self.untimed > 0 {
            intake.note("samples have no times");
        }
        if self.bad_records > 0 {
            let records = counted(self.bad_records, "record");
            intake.note(format!("{records} damaged: left out"));
        }
        if self.processes.dropped > 0 {
            let mappings = counted(self.processes.dropped, "mapping");
            intake.note(format!("{mappings} too many for the limits: left out"));
        }
        if !self.files.elsewhere.is_empty() {
            let files = counted(self.files.elsewhere.len() as u64, "file");
            intake.note(format!(
                "the code of {files} is not on this machine, or of another build: addresses in it are places in the file"
            ));
        }
        Ok(())
    }
}
