//! From a growing profile to chunks: each flush appends what is new since the flush before.

use super::bounds::{MAX_ROWS, MAX_STACK_DEPTH, cut};
use super::chunk::{ChunkKind, Packer};
use super::error::WriteError;
use super::header;
use super::rows::code_rows;
use super::rows::coding::{AddressCoder, NoveltyCoder, squeeze};
use super::rows::columns::{SymbolCoders, add_merged, add_waits, label_sets_chunk, samples_chunk};
use super::rows::module_notes;
use super::rows::schema;
use super::sink::WriterSink;
use super::written_rows::{WrittenRows, check_id, next_rows, with_ids};
use crate::profile::contents::{End, Meta, Profile};
use crate::profile::event::{Event, EventId};
use crate::profile::rows::{Frame, FrameId, ModuleId, ModuleNotes, Stack, StringId};
use crate::profile::symbols::{FunctionId, Location, Symbols};
use crate::profile::wait::Wait;
use prost::Message;
use std::collections::BTreeMap;
use std::io::Write;

/// The empty string is the first of every profile and file, without being written.
const EMPTY_STRING: usize = 1;
/// Text bytes after which a chunk of strings is closed.
const TEXT_PER_CHUNK: usize = 1 << 20;

/// Appends a growing [`Profile`] to a file.
///
/// The writer remembers, for each table, how many rows the file has ("written"), and what the coders of the columns know
/// from them; the profile itself is not kept.
pub struct Writer<W: Write> {
    out: WriterSink<W>,
    meta: Meta,
    strings: WrittenRows,
    modules: usize,
    tasks: WrittenRows,
    frames: WrittenRows,
    addresses: AddressCoder,
    stacks: WrittenRows,
    /// Depths of the stacks of the profile as it is.
    depths: Vec<u16>,
    stack_frames: NoveltyCoder,
    functions: WrittenRows,
    function_names: NoveltyCoder,
    named_frames: usize,
    symbols: SymbolCoders,
    events: Vec<WrittenEvent>,
    code: usize,
    sources: usize,
    thread_times: usize,
    label_sets: usize,
    module_notes: BTreeMap<ModuleId, ModuleNotes>,
    counters: BTreeMap<String, u64>,
    end: Option<End>,
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("bytes_written", &self.bytes_written()).finish_non_exhaustive()
    }
}

/// State of an event in the file: what was written of it so far.
#[derive(Debug, Default)]
struct WrittenEvent {
    /// Samples of the profile's columns that are in the file.
    samples: usize,
    stacks: NoveltyCoder,
    waker_stacks: NoveltyCoder,
}

impl<W: Write> Writer<W> {
    /// Starts a file: header and meta chunk.
    pub fn new(out: W, meta: &Meta) -> Result<Self, WriteError> {
        let mut out = WriterSink { out, packer: Packer::new()?, bytes: 0, chunks: 0, is_broken: false };
        out.write(&header::encode(meta.start_unix_ns))?;
        out.chunk(ChunkKind::Meta, &schema::Meta::from(meta))?;
        out.flush()?;
        Ok(Writer {
            out,
            meta: meta.clone(),
            strings: WrittenRows { before: 0, written: EMPTY_STRING },
            modules: 0,
            tasks: WrittenRows::default(),
            frames: WrittenRows::default(),
            addresses: AddressCoder::default(),
            stacks: WrittenRows::default(),
            depths: Vec::new(),
            stack_frames: NoveltyCoder::default(),
            functions: WrittenRows::default(),
            function_names: NoveltyCoder::default(),
            named_frames: 0,
            symbols: SymbolCoders::default(),
            events: Vec::new(),
            code: 0,
            sources: 0,
            thread_times: 0,
            label_sets: 0,
            module_notes: BTreeMap::new(),
            counters: BTreeMap::new(),
            end: None,
        })
    }

    /// Appends every row, sample, name, counter and the end record that were not yet written, in chunks, and
    /// flushes `out`. With `forget_samples` the samples are removed from `profile` once written, so that a
    /// recorder's memory does not grow with time.
    ///
    /// `profile` must be the same each time, and always the whole of it: rows and samples are counted, not compared.
    /// Times are stored in whole microseconds, strings up to 1 MiB, 1,024 locations per frame. After an error the file
    /// holds what was written before, and every further flush fails.
    pub fn flush(&mut self, profile: &mut Profile, forget_samples: bool) -> Result<(), WriteError> {
        let result = self.write_new(profile, forget_samples);
        self.out.is_broken |= result.is_err(); // the coders may be ahead of the file
        result
    }

    fn write_new(&mut self, profile: &mut Profile, forget_samples: bool) -> Result<(), WriteError> {
        let before = self.out.bytes;
        self.write_meta(&profile.meta)?;
        self.write_strings(profile)?;
        self.write_modules(profile)?;
        self.write_tasks(profile)?;
        self.write_frames(profile)?;
        self.write_stacks(profile)?;
        self.write_functions(profile)?;
        self.write_symbols(&profile.symbols)?;
        self.write_code(profile)?;
        self.write_sources(profile)?;
        self.write_label_sets(profile)?;
        self.write_events(profile)?;
        for (index, event) in profile.events.iter_mut().enumerate() {
            self.write_samples(EventId(index as u32), event)?;
            if forget_samples {
                event.clear();
                self.events[index].samples = 0;
            }
        }
        self.write_thread_times(profile)?;
        self.write_module_notes(&profile.module_notes)?;
        self.write_counters(&profile.counters)?;
        self.write_end(profile, self.out.bytes > before)?;
        self.out.flush()
    }

    /// Notes that the profile begins again with its rows: it has none now but modules and sets of labels, which keep their
    /// ids, and what it adds from here on comes after the rows in the file. All of those were written, samples too.
    pub(crate) fn reset(&mut self) {
        self.strings.reset(EMPTY_STRING);
        for rows in [&mut self.tasks, &mut self.frames, &mut self.stacks, &mut self.functions] {
            rows.reset(0);
        }
        self.depths = Vec::new();
        self.symbols.places.forget_before(FunctionId(self.functions.id(0)));
        self.named_frames = 0;
        (self.code, self.sources) = (0, 0);
        self.thread_times = 0;
        self.events.iter_mut().for_each(|event| event.samples = 0);
    }

    /// The id in the file of a frame of the profile as it is: it stays its own when the profile begins again.
    pub(crate) fn frame_id(&self, frame: FrameId) -> FrameId {
        FrameId(self.frames.id(frame.0))
    }

    /// The frame of the profile as it is that has the id `id` in the file; `None` for one of before.
    pub(crate) fn frame_of(&self, id: FrameId) -> Option<FrameId> {
        id.0.checked_sub(self.frames.id(0)).map(FrameId)
    }

    /// Appends names of frames that the profile has no more; those by their ids in the file.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub(crate) fn name_former(
        &mut self,
        profile: &mut Profile,
        named: &[(FrameId, Vec<Location>)],
    ) -> Result<(), WriteError> {
        self.write_strings(profile)?;
        self.write_functions(profile)?;
        let known = u32::try_from(self.frames.next_id()).unwrap_or(u32::MAX);
        let named = named.iter().filter(|(frame, locations)| frame.0 < known && !locations.is_empty());
        let mut rows: Vec<(u32, &[Location])> =
            named.map(|(frame, locations)| (frame.0, locations.as_slice())).collect();
        rows.sort_unstable_by_key(|(frame, _)| *frame);
        rows.dedup_by_key(|(frame, _)| *frame);
        self.write_locations(&rows)
    }

    /// The chunk that ends the file after its last whole chunk, [`Writer::bytes_written`], though writing has failed.
    ///
    /// # Errors
    ///
    /// When there is no memory for it.
    pub(crate) fn closing_chunk(&self, end: &End) -> Result<Vec<u8>, WriteError> {
        let payload = schema::End::from(end).encode_to_vec();
        Ok(Packer::from_number(self.out.chunks)?.pack(ChunkKind::End, &payload)?)
    }

    /// Bytes written so far.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.out.bytes
    }

    /// The output, after a last flush.
    pub fn into_inner(self) -> W {
        self.out.out
    }

    fn write_meta(&mut self, meta: &Meta) -> Result<(), WriteError> {
        if self.meta != *meta {
            self.out.chunk(ChunkKind::Meta, &schema::Meta::from(meta))?;
            self.meta = meta.clone();
        }
        Ok(())
    }

    fn write_strings(&mut self, profile: &Profile) -> Result<(), WriteError> {
        let mut new = profile.tables.strings().skip(self.strings.written).peekable();
        while new.peek().is_some() {
            let mut chunk = schema::Strings { first_id: self.strings.next_id() as u32, ..Default::default() };
            while chunk.length.len() < MAX_ROWS && chunk.text.len() < TEXT_PER_CHUNK {
                let Some(text) = new.next() else { break };
                let text = cut(text);
                chunk.length.push(text.len() as u32);
                chunk.text.push_str(text);
            }
            self.out.chunk(ChunkKind::Strings, &chunk)?;
            self.strings.written += chunk.length.len();
            check_id("a table of strings", self.strings.next_id())?;
        }
        Ok(())
    }

    fn write_modules(&mut self, profile: &Profile) -> Result<(), WriteError> {
        while let Some(new) = next_rows(profile.tables.modules(), self.modules) {
            let rows = new.iter().map(|module| schema::ModuleRow {
                path: self.string(module.path),
                build_id: module.build_id.clone(),
                kind: u32::from(module.kind.code()),
                instance: module.instance,
            });
            let chunk = schema::Modules { first_id: self.modules as u32, rows: rows.collect() };
            self.out.chunk(ChunkKind::Modules, &chunk)?;
            self.modules += new.len();
        }
        Ok(())
    }

    fn write_tasks(&mut self, profile: &Profile) -> Result<(), WriteError> {
        while let Some(new) = next_rows(profile.tables.tasks(), self.tasks.written) {
            let rows = new.iter().map(|task| schema::TaskRow {
                pid: task.pid,
                tid: task.tid,
                generation: task.generation,
                comm: self.string(task.comm),
                process: self.string(task.process),
            });
            let chunk = schema::Tasks { first_id: self.tasks.next_id() as u32, rows: rows.collect() };
            self.out.chunk(ChunkKind::Tasks, &chunk)?;
            self.tasks.written += new.len();
        }
        Ok(())
    }

    fn write_frames(&mut self, profile: &Profile) -> Result<(), WriteError> {
        while let Some(new) = next_rows(profile.tables.frames(), self.frames.written) {
            let address = |frame: &Frame| self.addresses.encode(frame.module, frame.address);
            let chunk = schema::Frames {
                first_id: self.frames.next_id() as u32,
                rows: new.len() as u32,
                address: new.iter().map(address).collect(),
                module: squeeze(new.iter().map(|frame| frame.module.0).collect(), 0),
                flags: squeeze(new.iter().map(|frame| u32::from(frame.flags.bits())).collect(), 0),
            };
            self.out.chunk(ChunkKind::Frames, &chunk)?;
            self.frames.written += new.len();
            check_id("a table of frames", self.frames.next_id())?;
        }
        Ok(())
    }

    fn write_stacks(&mut self, profile: &Profile) -> Result<(), WriteError> {
        while let Some(new) = next_rows(profile.tables.stacks(), self.stacks.written) {
            let chunk = self.stacks_chunk(new)?;
            self.out.chunk(ChunkKind::Stacks, &chunk)?;
            self.stacks.written += new.len();
            check_id("a table of stacks", self.stacks.next_id())?;
        }
        Ok(())
    }

    /// Stacks as runs: in a run each stack's parent is the stack before it, the first one's is given.
    fn stacks_chunk(&mut self, new: &[Stack]) -> Result<schema::Stacks, WriteError> {
        let mut chunk = schema::Stacks { first_id: self.stacks.next_id() as u32, ..Default::default() };
        for (row, stack) in (self.stacks.written..).zip(new) {
            let parent = stack.parent.map(|parent| parent.index());
            let depth = match parent {
                None => 1,
                Some(parent) if self.depths[parent] < MAX_STACK_DEPTH => self.depths[parent] + 1,
                Some(_) => {
                    return Err(WriteError::Limit {
                        what: "a stack's depth in frames",
                        found: u64::from(MAX_STACK_DEPTH) + 1,
                        limit: u64::from(MAX_STACK_DEPTH),
                    });
                }
            };
            self.depths.push(depth);
            match chunk.run_length.last_mut() {
                Some(length) if parent == row.checked_sub(1) => *length += 1,
                _ => {
                    chunk.run_parent.push(parent.map_or(0, |parent| self.stacks.id(parent as u32) + 1));
                    chunk.run_length.push(1);
                }
            }
            chunk.frame.push(self.stack_frames.encode(self.frames.id(stack.frame.0)));
        }
        Ok(chunk)
    }

    fn write_functions(&mut self, profile: &Profile) -> Result<(), WriteError> {
        while let Some(new) = next_rows(profile.symbols.functions(), self.functions.written) {
            let names: Vec<(u32, u32)> = (new.iter())
                .map(|function| (self.string(function.name), self.string(function.raw_name)))
                .collect();
            let name = |&(name, _): &(u32, u32)| self.function_names.encode(name);
            let raw_name = |&(name, raw_name): &(u32, u32)| raw_name.wrapping_sub(name).cast_signed();
            let chunk = schema::Functions {
                first_id: self.functions.next_id() as u32,
                rows: new.len() as u32,
                name: squeeze(names.iter().map(name).collect(), 0),
                raw_name: squeeze(names.iter().map(raw_name).collect(), 0),
            };
            self.out.chunk(ChunkKind::Functions, &chunk)?;
            self.functions.written += new.len();
            check_id("a table of functions", self.functions.next_id())?;
        }
        Ok(())
    }

    /// The id in the file of a string of the profile.
    fn string(&self, id: StringId) -> u32 {
        if id == StringId::default() { 0 } else { self.strings.id(id.0) }
    }

    fn write_symbols(&mut self, symbols: &Symbols) -> Result<(), WriteError> {
        let order = symbols.naming_order();
        let mut frames: Vec<FrameId> = order.get(self.named_frames..).unwrap_or_default().to_vec();
        frames.sort_unstable();
        frames.dedup();
        let rows: Vec<(u32, &[Location])> =
            frames.iter().map(|frame| (self.frames.id(frame.0), symbols.locations(*frame))).collect();
        self.write_locations(&rows)?;
        self.named_frames = order.len();
        Ok(())
    }

    /// Writes what frames are called, by their ids in the file.
    fn write_locations(&mut self, mut rows: &[(u32, &[Location])]) -> Result<(), WriteError> {
        while !rows.is_empty() {
            let ids = |location: &Location| Location {
                function: FunctionId(self.functions.id(location.function.0)),
                file: StringId(if location.file == StringId::default() {
                    0
                } else {
                    self.strings.id(location.file.0)
                }),
                ..*location
            };
            let (chunk, taken) = self.symbols.chunk(rows, ids);
            self.out.chunk(ChunkKind::Symbols, &chunk)?;
            rows = &rows[taken..];
        }
        Ok(())
    }

    fn write_code(&mut self, profile: &Profile) -> Result<(), WriteError> {
        while let Some(new) = next_rows(&profile.code, self.code) {
            let new = &new[..code_rows::fitting(new.iter().map(|code| code.bytes.len()))];
            let row = |code| code_rows::encode(code, |id| self.string(id), |id| self.functions.id(id.0));
            let chunk = schema::CodeRows { rows: new.iter().map(row).collect() };
            self.out.chunk(ChunkKind::Code, &chunk)?;
            self.code += new.len();
        }
        Ok(())
    }

    fn write_sources(&mut self, profile: &Profile) -> Result<(), WriteError> {
        while let Some(new) = next_rows(&profile.sources, self.sources) {
            let new = &new[..code_rows::fitting(new.iter().map(|source| source.text.len()))];
            let row = |source| code_rows::encode_source(source, |id| self.string(id));
            let chunk = schema::Sources { rows: new.iter().map(row).collect() };
            self.out.chunk(ChunkKind::Sources, &chunk)?;
            self.sources += new.len();
        }
        Ok(())
    }

    fn write_label_sets(&mut self, profile: &Profile) -> Result<(), WriteError> {
        while let Some(new) = next_rows(profile.tables.label_sets(), self.label_sets) {
            let (chunk, taken) = label_sets_chunk(self.label_sets, new, |id| self.string(id));
            self.out.chunk(ChunkKind::LabelSets, &chunk)?;
            self.label_sets += taken;
            check_id("a table of sets of labels", self.label_sets)?;
        }
        Ok(())
    }

    fn write_events(&mut self, profile: &Profile) -> Result<(), WriteError> {
        while let Some(new) = next_rows(&profile.events, self.events.len()) {
            let rows = new.iter().map(Event::info).map(|info| schema::EventRow {
                name: info.kind.name.clone().into_owned(),
                unit: u32::from(info.kind.unit.code()),
                sampling: info.sampling.clone(),
                period: info.period,
                title: Some(info.kind.title.clone().into_owned()),
                noun: Some(info.kind.noun.clone().into_owned()),
                has_duration: Some(info.kind.has_duration),
                min_duration_ns: Some(info.min_duration_ns),
                skids: Some(info.kind.skids),
            });
            let chunk = schema::Events { first_id: self.events.len() as u32, rows: rows.collect() };
            self.out.chunk(ChunkKind::Events, &chunk)?;
            self.events.extend(new.iter().map(|_| WrittenEvent::default()));
        }
        Ok(())
    }

    fn write_samples(&mut self, id: EventId, event: &Event) -> Result<(), WriteError> {
        let written = &mut self.events[id.index()];
        if written.samples > event.len() {
            written.samples = 0; // the caller has cleared the event
        }
        while written.samples < event.len() {
            let rows = (event.len() - written.samples).min(MAX_ROWS);
            let (tasks, stacks) = (self.tasks, self.stacks);
            let in_file = |sample| with_ids(sample, tasks, stacks);
            let samples = (written.samples..written.samples + rows).map(|index| in_file(event.sample(index)));
            let mut chunk = samples_chunk(id, event.info().period, &mut written.stacks, samples.clone());
            if event.has_waits() {
                let waits: Vec<Wait> = samples.clone().filter_map(|sample| sample.wait).collect();
                add_waits(&mut chunk, &waits, &mut written.waker_stacks);
            }
            add_merged(&mut chunk, samples);
            self.out.chunk(ChunkKind::Samples, &chunk)?;
            written.samples += rows;
        }
        Ok(())
    }

    fn write_thread_times(&mut self, profile: &Profile) -> Result<(), WriteError> {
        while let Some(new) = next_rows(&profile.thread_times, self.thread_times) {
            let rows = (new.iter())
                .map(|time| schema::ThreadTimeRow { task: self.tasks.id(time.task.0), ..time.into() })
                .collect();
            self.out.chunk(ChunkKind::ThreadTimes, &schema::ThreadTimes { rows })?;
            self.thread_times += new.len();
        }
        Ok(())
    }

    fn write_module_notes(&mut self, notes: &BTreeMap<ModuleId, ModuleNotes>) -> Result<(), WriteError> {
        let changed: Vec<(ModuleId, &ModuleNotes)> = (notes.iter().map(|(module, notes)| (*module, notes)))
            .filter(|(module, notes)| self.module_notes.get(module) != Some(*notes))
            .collect();
        for rows in changed.chunks(module_notes::ROWS_PER_CHUNK) {
            let chunk = rows.iter().map(|(module, notes)| module_notes::row(*module, notes)).collect();
            self.out.chunk(ChunkKind::ModuleNotes, &schema::NotesOfModules { rows: chunk })?;
            self.module_notes.extend(rows.iter().map(|(module, notes)| (*module, (*notes).clone())));
        }
        Ok(())
    }

    fn write_counters(&mut self, counters: &BTreeMap<String, u64>) -> Result<(), WriteError> {
        let changed = counters.iter().filter(|(name, value)| self.counters.get(*name) != Some(value));
        let rows: Vec<schema::CounterRow> =
            changed.map(|(name, &value)| schema::CounterRow { name: name.clone(), value }).collect();
        for rows in rows.chunks(MAX_ROWS) {
            self.out.chunk(ChunkKind::Counters, &schema::Counters { rows: rows.to_vec() })?;
            self.counters.extend(rows.iter().map(|row| (row.name.clone(), row.value)));
        }
        Ok(())
    }

    /// The end record is the last chunk, so it is repeated when anything came after it.
    fn write_end(&mut self, profile: &Profile, has_grown: bool) -> Result<(), WriteError> {
        if let Some(end) = &profile.end
            && (has_grown || self.end.as_ref() != Some(end))
        {
            self.out.chunk(ChunkKind::End, &schema::End::from(end))?;
            self.end = Some(end.clone());
        }
        Ok(())
    }
}
