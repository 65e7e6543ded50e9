//! From a growing profile to chunks: each flush appends what is new since the flush before.

use super::bounds::{MAX_ID, MAX_LOCATIONS, MAX_ROWS, MAX_STACK_DEPTH, MAX_STRING};
use super::chunk::{ChunkKind, MAX_SIZE, Packer};
use super::coding::{AddressCoder, NoveltyCoder, PlaceCoder, squeeze};
use super::error::WriteError;
use super::rows::code_rows::{self, BYTES_PER_CHUNK};
use super::rows::module_notes;
use super::{header, schema};
use crate::profile::contents::{End, Meta, Profile};
use crate::profile::event::{Event, EventId, Sample};
use crate::profile::merged::Merged;
use crate::profile::rows::{Frame, FrameId, ModuleId, ModuleNotes, Stack, StackId, StringId, TaskId};
use crate::profile::symbols::{FunctionId, Location, Symbols};
use crate::profile::wait::{Wait, Waker};
use prost::Message;
use std::collections::BTreeMap;
use std::io::Write;

/// The empty string is the first of every profile and file, without being written.
const EMPTY_STRING: usize = 1;
/// Text bytes after which a chunk of strings is closed.
const TEXT_PER_CHUNK: usize = 1 << 20;

/// Appends a growing [`Profile`] to a file.
///
/// It remembers, for each table, how many rows the file has ("written"), and what the coders of the
/// columns know from them; the profile itself is not kept.
pub struct Writer<W: Write> {
    out: WriterSink<W>,
    meta: Meta,
    strings: Rows,
    modules: usize,
    tasks: Rows,
    frames: Rows,
    addresses: AddressCoder,
    stacks: Rows,
    /// Depths of the stacks of the profile as it is.
    depths: Vec<u16>,
    stack_frames: NoveltyCoder,
    functions: Rows,
    function_names: NoveltyCoder,
    named_frames: usize,
    symbols: SymbolCoders,
    events: Vec<WrittenEvent>,
    code: usize,
    sources: usize,
    thread_times: usize,
    module_notes: BTreeMap<ModuleId, ModuleNotes>,
    counters: BTreeMap<String, u64>,
    end: Option<End>,
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("bytes_written", &self.bytes_written()).finish_non_exhaustive()
    }
}

/// A table of the file. The profile may have begun again with its rows: those of before are in the file only.
#[derive(Debug, Clone, Copy, Default)]
struct Rows {
    /// Rows of before.
    before: usize,
    /// Rows of the profile as it is that are in the file.
    written: usize,
}

impl Rows {
    /// The id in the file of the next row.
    fn next_id(self) -> usize {
        self.before + self.written
    }

    /// The id in the file of a row of the profile.
    fn id(self, row: u32) -> u32 {
        row.saturating_add(u32::try_from(self.before).unwrap_or(u32::MAX))
    }

    /// All rows are of before now, of which the profile keeps the first `kept`.
    fn reset(&mut self, kept: usize) {
        *self = Rows { before: self.next_id() - kept, written: kept };
    }
}

/// What the file has of an event.
#[derive(Debug, Default)]
struct WrittenEvent {
    /// Samples of the profile's columns that are in the file.
    samples: usize,
    stacks: NoveltyCoder,
    waker_stacks: NoveltyCoder,
}

/// The coders of the columns of names.
#[derive(Debug, Default)]
struct SymbolCoders {
    frames: NoveltyCoder,
    functions: NoveltyCoder,
    places: PlaceCoder,
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
            strings: Rows { before: 0, written: EMPTY_STRING },
            modules: 0,
            tasks: Rows::default(),
            frames: Rows::default(),
            addresses: AddressCoder::default(),
            stacks: Rows::default(),
            depths: Vec::new(),
            stack_frames: NoveltyCoder::default(),
            functions: Rows::default(),
            function_names: NoveltyCoder::default(),
            named_frames: 0,
            symbols: SymbolCoders::default(),
            events: Vec::new(),
            code: 0,
            sources: 0,
            thread_times: 0,
            module_notes: BTreeMap::new(),
            counters: BTreeMap::new(),
            end: None,
        })
    }

    /// Appends every row, sample, name, counter and the end record that were not yet written, in chunks, and
    /// flushes `out`. With `forget_samples` the samples are removed from `profile` once written, so that a
    /// recorder's memory does not grow with time.
    ///
    /// It must be the same profile each time, and always the whole of it: rows and samples are
    /// counted, not compared. Times are stored in whole microseconds, strings up to 1 MiB, 1,024 locations per
    /// frame. After an error the file holds what was written before, and every further flush fails.
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

    /// Notes that the profile begins again with its rows: it has none now but modules, which keep their ids, and what it adds
    /// from here on comes after the rows in the file. All of those were written, samples too.
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
        while let Some(new) = profile.code.get(self.code..).filter(|new| !new.is_empty()) {
            let (mut chunk, mut bytes) = (schema::CodeRows::default(), 0);
            for code in new.iter().take(MAX_ROWS) {
                bytes += code.bytes.len();
                if bytes > BYTES_PER_CHUNK && !chunk.rows.is_empty() {
                    break;
                }
                chunk.rows.push(code_rows::encode(code, |id| self.string(id), |id| self.functions.id(id.0)));
            }
            self.out.chunk(ChunkKind::Code, &chunk)?;
            self.code += chunk.rows.len();
        }
        Ok(())
    }

    fn write_sources(&mut self, profile: &Profile) -> Result<(), WriteError> {
        while let Some(new) = profile.sources.get(self.sources..).filter(|new| !new.is_empty()) {
            let (mut chunk, mut bytes) = (schema::Sources::default(), 0);
            for source in new.iter().take(MAX_ROWS) {
                bytes += source.text.len();
                if bytes > BYTES_PER_CHUNK && !chunk.rows.is_empty() {
                    break;
                }
                chunk.rows.push(code_rows::encode_source(source, |id| self.string(id)));
            }
            self.out.chunk(ChunkKind::Sources, &chunk)?;
            self.sources += chunk.rows.len();
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
            add_folded(&mut chunk, samples);
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

impl SymbolCoders {
    /// As many of the rows as fit into a chunk, at least one, and how many these are. `ids` gives locations the ids of the
    /// file.
    fn chunk(
        &mut self,
        rows: &[(u32, &[Location])],
        ids: impl Fn(&Location) -> Location,
    ) -> (schema::Symbols, usize) {
        let mut chunk = schema::Symbols::default();
        let (mut counts, mut inlined) = (Vec::new(), Vec::new());
        for &(frame, locations) in rows {
            let locations = &locations[locations.len().saturating_sub(MAX_LOCATIONS)..];
            if counts.len() == MAX_ROWS || chunk.function.len() + locations.len() > MAX_ROWS {
                break;
            }
            chunk.frame.push(self.frames.encode(frame));
            counts.push(locations.len() as u32);
            for (place, location) in locations.iter().map(&ids).enumerate() {
                let (file, line) = self.places.encode(&location);
                chunk.function.push(self.functions.encode(location.function.0));
                chunk.file.push(file);
                chunk.line.push(line);
                inlined.push(u32::from(location.is_inlined != (place + 1 < locations.len())));
            }
        }
        chunk.rows = counts.len() as u32;
        chunk.locations = chunk.function.len() as u32;
        chunk.frame = squeeze(chunk.frame, 0);
        chunk.location_count = squeeze(counts, 1);
        chunk.function = squeeze(chunk.function, 0);
        chunk.file = squeeze(chunk.file, 0);
        chunk.line = squeeze(chunk.line, 0);
        chunk.inlined_unlike_place = squeeze(inlined, 0);
        let taken = chunk.rows as usize;
        (chunk, taken)
    }
}

/// A sample with the ids of the file.
fn with_ids(sample: Sample, tasks: Rows, stacks: Rows) -> Sample {
    let stack = |id: StackId| StackId(stacks.id(id.0));
    let task = |id: TaskId| TaskId(tasks.id(id.0));
    let wait = sample.wait.map(|wait| {
        let waker =
            Waker { task: wait.waker.task.map(task), stack: wait.waker.stack.map(stack), ..wait.waker };
        Wait { waker, ..wait }
    });
    Sample { task: task(sample.task), stack: sample.stack.map(stack), wait, ..sample }
}

/// The columns of some samples.
fn samples_chunk(
    event: EventId,
    period: u64,
    stacks: &mut NoveltyCoder,
    samples: impl ExactSizeIterator<Item = Sample> + Clone,
) -> schema::Samples {
    let stack = |sample: Sample| stacks.encode(sample.stack.map_or(0, |stack| stack.0.saturating_add(1)));
    let times_us: Vec<u64> = samples.clone().map(|sample| sample.time_ns / 1000).collect();
    let mut steps: Vec<i64> =
        times_us.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).cast_signed()).collect();
    let step = usual(&steps).max(0);
    steps.iter_mut().for_each(|delta| *delta -= step);
    let time = times_us.first().map(|_| 0).into_iter().chain(steps).collect();
    schema::Samples {
        event: event.0,
        rows: samples.len() as u32,
        time_first_us: times_us.first().copied().unwrap_or(0),
        time_step_us: step.cast_unsigned(),
        time: squeeze(time, 0),
        task: squeeze(samples.clone().map(|sample| sample.task.0).collect(), 0),
        stack: squeeze(samples.clone().map(stack).collect(), 0),
        weight: squeeze(samples.clone().map(|sample| sample.weight).collect(), period),
        cpu: squeeze(samples.clone().map(|sample| u32::from(sample.cpu)).collect(), 0),
        outcome: squeeze(samples.map(|sample| u32::from(sample.outcome.code())).collect(), 0),
        ..schema::Samples::default()
    }
}

/// Adds what is known of waits to the columns of their samples.
fn add_waits(chunk: &mut schema::Samples, waits: &[Wait], stacks: &mut NoveltyCoder) {
    let stack = |wait: &Wait| stacks.encode(wait.waker.stack.map_or(0, |stack| stack.0.saturating_add(1)));
    let task = |wait: &Wait| wait.waker.task.map_or(0, |task| task.0.saturating_add(1));
    chunk.are_waits = !waits.is_empty();
    chunk.duration = squeeze(waits.iter().map(|wait| wait.duration_ns).collect(), 0);
    chunk.reason = squeeze(waits.iter().map(|wait| u32::from(wait.reason.code())).collect(), 0);
    chunk.waker_kind = squeeze(waits.iter().map(|wait| u32::from(wait.waker.kind.code())).collect(), 0);
    chunk.waker_task = squeeze(waits.iter().map(task).collect(), 0);
    chunk.waker_stack = squeeze(waits.iter().map(stack).collect(), 0);
}

/// Adds what rows that are several observations come to.
fn add_folded(chunk: &mut schema::Samples, samples: impl Iterator<Item = Sample>) {
    let merged: Vec<Merged> = samples.map(|sample| sample.merged.unwrap_or_default()).collect();
    let column = |of: fn(&Merged) -> u64| squeeze(merged.iter().map(of).collect(), 0);
    chunk.folded_samples = column(|merged| merged.samples);
    chunk.folded_count_thousandths = column(|merged| merged.count_thousandths);
    chunk.folded_variance = column(|merged| merged.variance_us2);
    chunk.folded_span = column(|merged| merged.span_ns);
}

/// The median, 0 of nothing.
fn usual(values: &[i64]) -> i64 {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    if values.is_empty() { 0 } else { *values.select_nth_unstable(middle).1 }
}

/// The part of `text` that can be stored.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_STRING);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The rows of the next chunk of a table of which `written` are in the file.
fn next_rows<T>(rows: &[T], written: usize) -> Option<&[T]> {
    let new = rows.get(written..)?;
    (!new.is_empty()).then(|| &new[..new.len().min(MAX_ROWS)])
}

/// An error when a table has more rows than ids can name.
fn check_id(what: &'static str, rows: usize) -> Result<(), WriteError> {
    let limit = u64::from(MAX_ID);
    let found = rows as u64;
    if found > limit { Err(WriteError::Limit { what, found, limit }) } else { Ok(()) }
}

/// The output, in whole chunks.
struct WriterSink<W> {
    out: W,
    packer: Packer,
    bytes: u64,
    /// Whole chunks, of which the format counts this many.
    chunks: u16,
    is_broken: bool,
}

impl<W: Write> WriterSink<W> {
    fn chunk(&mut self, kind: ChunkKind, message: &impl Message) -> Result<(), WriteError> {
        let payload = message.encode_to_vec();
        if payload.len() > MAX_SIZE {
            let (found, limit) = (payload.len() as u64, MAX_SIZE as u64);
            return Err(WriteError::Limit { what: "a chunk's size in bytes", found, limit });
        }
        let chunk = self.packer.pack(kind, &payload)?;
        self.write(&chunk)?;
        self.chunks = self.chunks.wrapping_add(1);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        if self.is_broken {
            return Err(WriteError::Broken);
        }
        self.is_broken = true; // until it has succeeded
        self.out.write_all(bytes)?;
        self.is_broken = false;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        self.out.flush()?;
        Ok(())
    }
}
