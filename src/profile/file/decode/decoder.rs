//! The decoder: adds the rows of one chunk after another to a profile.

use super::budget::{Budget, row_bytes};
use super::checks::{Damage, below, check, column, decode, narrow, row_count};
use super::sample_columns::{blocks, label_sets, merged, times_ns, waits};
use super::wire;
use crate::base::units::Unit;
use crate::profile::code::source_text::SourceText;
use crate::profile::contents::Profile;
use crate::profile::event::{Columns, EventInfo};
use crate::profile::file::bounds::{
    MAX_ID, MAX_LABELS, MAX_LOCATIONS, MAX_ROWS, MAX_STACK_DEPTH, MAX_STRING,
};
use crate::profile::file::chunk::ChunkKind;
use crate::profile::file::rows::code_rows::{self, RowCounts};
use crate::profile::file::rows::coding::{AddressCoder, NoveltyCoder, PlaceCoder};
use crate::profile::file::rows::module_notes;
use crate::profile::file::rows::old_words::limit_in_words;
use crate::profile::file::rows::schema;
use crate::profile::kind::EventKind;
use crate::profile::merged::Merged;
use crate::profile::outcome::Outcome;
use crate::profile::rows::{
    Frame, FrameFlags, FrameId, LabelSet, Module, ModuleId, ModuleKind, Stack, StackId, StringId, Task,
    TaskId,
};
use crate::profile::symbols::{Function, FunctionId, Location};
use crate::profile::wait::{Reason, ShortWaits, ThreadTime};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Most samples that the rows of an event that are several may come to: sums over their frames stay in range.
const MAX_MERGED_SAMPLES: u64 = 1 << 40;

/// Reasons that a thread's short waits may have.
const MAX_SHORT_WAITS: usize = 256;

/// The profile so far, and what the coders know from it.
#[derive(Debug, Default)]
pub(in crate::profile::file) struct Decoder {
    pub(in crate::profile::file) profile: Profile,
    /// First string with the same text, for each string.
    first_of: Vec<StringId>,
    /// Strings by the hashes of their texts, which no one can foresee.
    known_texts: HashMap<u64, StringId>,
    hashes: RandomState,
    addresses: AddressCoder,
    depths: Vec<u16>,
    stack_frames: NoveltyCoder,
    function_names: NoveltyCoder,
    named_frames: NoveltyCoder,
    named_functions: NoveltyCoder,
    places: PlaceCoder,
    events: Vec<EventState>,
    memory: Budget,
    pub(in crate::profile::file) unknown_fields: u64,
}

/// Decoding state of an event, besides its samples.
#[derive(Debug, Default, Clone)]
struct EventState {
    stacks: NoveltyCoder,
    waker_stacks: NoveltyCoder,
    total_weight: u64,
    merged_samples: u64,
}

impl EventState {
    /// Adds the observations of rows that are several to those before.
    fn add_merged(&mut self, merged: &[Merged]) -> Result<(), Damage> {
        let samples = merged.iter().try_fold(self.merged_samples, |sum: u64, merged| {
            sum.checked_add(merged.samples).filter(|sum| *sum <= MAX_MERGED_SAMPLES)
        });
        let too_many = || Damage(format!("it is weighted as more than {MAX_MERGED_SAMPLES} samples"));
        self.merged_samples = samples.ok_or_else(too_many)?;
        Ok(())
    }
}

impl Decoder {
    /// Takes a chunk that ends at byte `end` of the file.
    pub(in crate::profile::file) fn chunk(
        &mut self,
        kind: ChunkKind,
        payload: &[u8],
        end: u64,
    ) -> Result<(), Damage> {
        self.memory.set_bytes_read(end);
        let unknown = wire::unknown_fields(payload, &schema::known_fields(kind));
        self.unknown_fields += unknown.ok_or_else(|| Damage("it is not a valid message".into()))?;
        match kind {
            ChunkKind::Meta => self.profile.meta = decode::<schema::Meta>(payload)?.into(),
            ChunkKind::Strings => self.strings(decode(payload)?)?,
            ChunkKind::Modules => self.modules(decode(payload)?)?,
            ChunkKind::Tasks => self.tasks(decode(payload)?)?,
            ChunkKind::Frames => self.frames(&decode(payload)?)?,
            ChunkKind::Stacks => self.stacks(&decode(payload)?)?,
            ChunkKind::Events => self.events(decode(payload)?)?,
            ChunkKind::Functions => self.functions(&decode(payload)?)?,
            ChunkKind::Symbols => self.symbols(&decode(payload)?)?,
            ChunkKind::Samples => self.samples(&decode(payload)?)?,
            ChunkKind::Code => self.code(decode(payload)?)?,
            ChunkKind::Sources => self.sources(decode(payload)?)?,
            ChunkKind::ThreadTimes => self.thread_times(decode(payload)?)?,
            ChunkKind::Counters => self.counters(decode(payload)?)?,
            ChunkKind::ModuleNotes => self.module_notes(decode(payload)?)?,
            ChunkKind::LabelSets => self.label_sets(&decode(payload)?)?,
            ChunkKind::End => self.profile.end = Some(decode::<schema::End>(payload)?.into()),
        }
        Ok(())
    }

    fn string_count(&self) -> usize {
        self.profile.tables.strings().len()
    }

    /// Checks that a chunk of `rows` rows goes on where the table ends, and pays for its memory.
    fn grow(&mut self, first_id: u32, have: usize, rows: usize, bytes_per_row: u64) -> Result<(), Damage> {
        check(first_id as usize == have, || format!("it starts with id {first_id}, but {have} is next"))?;
        check(rows <= MAX_ROWS, || format!("it has {rows} rows"))?;
        check(have + rows <= MAX_ID as usize, || "its table has too many rows".into())?;
        self.memory.spend(rows, bytes_per_row)
    }

    fn strings(&mut self, chunk: schema::Strings) -> Result<(), Damage> {
        self.grow(chunk.first_id, self.string_count(), chunk.length.len(), row_bytes::STRING)?;
        self.memory.spend(chunk.text.len(), 1)?;
        let mut rest = chunk.text.as_str();
        for &length in &chunk.length {
            check(length as usize <= MAX_STRING, || format!("a string of {length} bytes"))?;
            let (text, after) = rest
                .split_at_checked(length as usize)
                .ok_or_else(|| Damage(format!("a string of {length} bytes does not end in its text")))?;
            self.note_text(text);
            self.profile.tables.push_string(text.into());
            rest = after;
        }
        check(rest.is_empty(), || format!("{} bytes of text are in no string", rest.len()))
    }

    /// Notes the text of the next string.
    fn note_text(&mut self, text: &str) {
        if self.first_of.is_empty() {
            // The empty one is there from the start.
            self.first_of.push(StringId::default());
            self.known_texts.insert(self.hashes.hash_one(""), StringId::default());
        }
        let id = StringId(self.first_of.len() as u32);
        let known = *self.known_texts.entry(self.hashes.hash_one(text)).or_insert(id);
        let is_same = known == id || self.profile.tables.string(known) == text;
        self.first_of.push(if is_same { known } else { id });
    }

    /// The string with this number in the file: the first one with its text, since one that begins again with its rows writes
    /// them again, and rows are compared by numbers.
    fn text(&self, id: u32) -> Result<StringId, Damage> {
        let id = below(id, self.string_count(), "string")?;
        Ok(self.first_of.get(id as usize).copied().unwrap_or(StringId(id)))
    }

    fn modules(&mut self, chunk: schema::Modules) -> Result<(), Damage> {
        let have = self.profile.tables.modules().len();
        self.grow(chunk.first_id, have, chunk.rows.len(), row_bytes::MODULE)?;
        for row in chunk.rows {
            self.memory.spend(row.build_id.len(), 1)?;
            let module = Module {
                path: self.text(row.path)?,
                build_id: row.build_id,
                kind: ModuleKind::from_code(narrow(row.kind, "module kind")?),
                instance: row.instance,
            };
            self.profile.tables.push_module(module);
        }
        Ok(())
    }

    fn tasks(&mut self, chunk: schema::Tasks) -> Result<(), Damage> {
        let have = self.profile.tables.tasks().len();
        self.grow(chunk.first_id, have, chunk.rows.len(), row_bytes::TASK)?;
        for row in chunk.rows {
            let task = Task {
                pid: row.pid,
                tid: row.tid,
                generation: row.generation,
                comm: self.text(row.comm)?,
                process: self.text(row.process)?,
            };
            self.profile.tables.push_task(task);
        }
        Ok(())
    }

    fn frames(&mut self, chunk: &schema::Frames) -> Result<(), Damage> {
        let rows = row_count(chunk.rows)?;
        self.grow(chunk.first_id, self.profile.tables.frames().len(), rows, row_bytes::FRAME)?;
        let modules = column(&chunk.module, rows, 0, "module")?;
        let flags = column(&chunk.flags, rows, 0, "flags")?;
        let module_count = self.profile.tables.modules().len();
        check(chunk.address.len() == rows, || format!("{} addresses for {rows} rows", chunk.address.len()))?;
        for (row, &delta) in chunk.address.iter().enumerate() {
            let module = ModuleId(below(modules.get(row), module_count, "module")?);
            let flags = FrameFlags::from_bits(narrow(flags.get(row), "frame flags")?);
            let address = self.addresses.decode(module, delta);
            self.profile.tables.push_frame(Frame { module, address, flags });
        }
        Ok(())
    }

    fn stacks(&mut self, chunk: &schema::Stacks) -> Result<(), Damage> {
        let have = self.profile.tables.stacks().len();
        self.grow(chunk.first_id, have, chunk.frame.len(), row_bytes::STACK)?;
        check(chunk.run_parent.len() == chunk.run_length.len(), || {
            "the columns of its runs differ in length".into()
        })?;
        let frame_count = self.profile.tables.frames().len();
        let mut frames = chunk.frame.iter();
        for (&parent, &length) in chunk.run_parent.iter().zip(&chunk.run_length) {
            let first = self.depths.len();
            let mut parent = match parent {
                0 => None,
                parent => Some(StackId(below(parent - 1, first, "the parent's stack")?)),
            };
            let depth = parent.map_or(0, |parent| u32::from(self.depths[parent.index()]));
            let rows = length as usize;
            check(rows > 0 && rows <= frames.len(), || format!("a run of {rows} stacks"))?;
            for (place, &code) in (1..=length).zip(frames.by_ref().take(rows)) {
                let depth: u16 = narrow(depth.saturating_add(place), "the depth of a stack")?;
                check(depth <= MAX_STACK_DEPTH, || format!("the depth of a stack {depth} is out of range"))?;
                let frame = FrameId(below(self.stack_frames.decode(code), frame_count, "frame")?);
                self.profile.tables.push_stack(Stack { parent, frame });
                parent = Some(StackId(self.depths.len() as u32));
                self.depths.push(depth);
            }
        }
        check(frames.len() == 0, || format!("{} frames are in no run", frames.len()))
    }

    fn events(&mut self, chunk: schema::Events) -> Result<(), Damage> {
        self.grow(chunk.first_id, self.profile.events.len(), chunk.rows.len(), row_bytes::EVENT)?;
        for row in chunk.rows {
            let texts = [&row.title, &row.noun].into_iter().flatten().map(String::len).sum::<usize>();
            self.memory.spend(2 * row.name.len() + row.sampling.len() + texts, 1)?;
            let unit = Unit::from_code(narrow(row.unit, "unit")?);
            let kind = EventKind::known(&row.name).unwrap_or_else(|| {
                let kind = EventKind::counted(row.name.clone(), row.title.unwrap_or(row.name));
                let noun = row.noun.map_or(kind.noun.clone(), Into::into);
                let (has_duration, skids) = (row.has_duration.unwrap_or(false), row.skids.unwrap_or(false));
                EventKind { unit, noun, has_duration, skids, ..kind }
            });
            let min_duration_ns = row.min_duration_ns.unwrap_or_else(|| limit_in_words(&row.sampling));
            let info = EventInfo { kind, sampling: row.sampling, period: row.period, min_duration_ns };
            self.profile.add_event(info);
            self.events.push(EventState::default());
        }
        Ok(())
    }

    fn functions(&mut self, chunk: &schema::Functions) -> Result<(), Damage> {
        let rows = row_count(chunk.rows)?;
        self.grow(chunk.first_id, self.profile.symbols.functions().len(), rows, row_bytes::FUNCTION)?;
        let names = column(&chunk.name, rows, 0, "name")?.iter(rows);
        let raw_names = column(&chunk.raw_name, rows, 0, "raw_name")?.iter(rows);
        for (code, raw_delta) in names.zip(raw_names) {
            let name = self.function_names.decode(code);
            let raw_name = name.wrapping_add(raw_delta.cast_unsigned());
            let function = Function { name: self.text(name)?, raw_name: self.text(raw_name)? };
            self.profile.symbols.push_function(function);
        }
        Ok(())
    }

    fn symbols(&mut self, chunk: &schema::Symbols) -> Result<(), Damage> {
        let (rows, total) = (row_count(chunk.rows)?, row_count(chunk.locations)?);
        self.memory.spend(rows, row_bytes::NAMED_FRAME)?;
        self.memory.spend(total, row_bytes::LOCATION)?;
        let frames = column(&chunk.frame, rows, 0, "frame")?.iter(rows);
        let counts = column(&chunk.location_count, rows, 1, "location_count")?.iter(rows);
        let unlike_place = column(&chunk.inlined_unlike_place, total, 0, "inlined_unlike_place")?;
        let functions = column(&chunk.function, total, 0, "function")?;
        let files = column(&chunk.file, total, 0, "file")?;
        let lines = column(&chunk.line, total, 0, "line")?;
        let frame_count = self.profile.tables.frames().len();
        let function_count = self.profile.symbols.functions().len();
        let mut at = 0;
        let mut locations = Vec::new();
        for (code, count) in frames.zip(counts) {
            let frame = FrameId(below(self.named_frames.decode(code), frame_count, "frame")?);
            let count = count as usize;
            let is_sound = (1..=MAX_LOCATIONS).contains(&count) && count <= total - at;
            check(is_sound, || format!("a frame with {count} locations"))?;
            locations.clear();
            for place in 0..count {
                let function = self.named_functions.decode(functions.get(at));
                let function = FunctionId(below(function, function_count, "function")?);
                let (file, line) = self.places.decode(function, files.get(at), lines.get(at));
                let file = self.text(file.0)?;
                let is_inlined = (place + 1 < count) != (unlike_place.get(at) != 0);
                locations.push(Location { function, file, line, is_inlined });
                at += 1;
            }
            self.profile.symbols.set_location_slice(frame, &locations);
        }
        check(at == total, || format!("{} locations belong to no frame", total - at))
    }

    fn samples(&mut self, chunk: &schema::Samples) -> Result<(), Damage> {
        let rows = row_count(chunk.rows)?;
        self.memory.spend(rows, row_bytes::SAMPLE)?;
        let index = below(chunk.event, self.events.len(), "event")? as usize;
        let state = &mut self.events[index];
        let event = &mut self.profile.events[index];
        let period = event.info().period;
        let tables = &self.profile.tables;

        let times = column(&chunk.time, rows, 0, "time")?.iter(rows);
        let time_ns = times_ns(chunk.time_first_us, chunk.time_step_us, times)?;

        let task_count = tables.tasks().len();
        let tasks = column(&chunk.task, rows, 0, "task")?.iter(rows);
        let task = tasks.map(|id| below(id, task_count, "task").map(TaskId)).collect::<Result<_, _>>()?;

        let stack_count = tables.stacks().len();
        let codes = column(&chunk.stack, rows, 0, "stack")?.iter(rows);
        let stack = |code| match state.stacks.decode(code) {
            0 => Ok(None),
            id => below(id - 1, stack_count, "stack").map(|id| Some(StackId(id))),
        };
        let stack = codes.map(stack).collect::<Result<_, _>>()?;

        let weight: Vec<u64> = column(&chunk.weight, rows, period, "weight")?.iter(rows).collect();
        let total = weight.iter().try_fold(state.total_weight, |total, &weight| total.checked_add(weight));
        state.total_weight = total.ok_or_else(|| Damage("the sum of its weights overflows".into()))?;

        let cpus = column(&chunk.cpu, rows, 0, "cpu")?.iter(rows);
        let cpu = cpus.map(|cpu| narrow(cpu, "cpu")).collect::<Result<_, _>>()?;

        let outcomes = column(&chunk.outcome, rows, 0, "outcome")?.iter(rows);
        let outcome = |code| narrow(code, "outcome").map(Outcome::from_code);
        let outcome = outcomes.map(outcome).collect::<Result<_, _>>()?;

        let wait = if chunk.are_waits {
            self.memory.spend(rows, row_bytes::WAIT)?;
            waits(chunk, rows, task_count, stack_count, &mut state.waker_stacks)?
        } else {
            Vec::new()
        };
        check(rows == 0 || event.has_waits() == chunk.are_waits, || {
            "one event has both waits and other samples".into()
        })?;

        let merged = if chunk.merged_samples.is_empty() {
            Vec::new()
        } else {
            self.memory.spend(rows, row_bytes::MERGED)?;
            let merged = merged(chunk, rows)?;
            state.add_merged(&merged)?;
            merged
        };

        let labels = label_sets(chunk, rows, tables.label_sets().len(), &mut self.memory)?;
        let block = blocks(chunk, rows, &mut self.memory)?;
        event.append(&Columns { time_ns, task, stack, weight, cpu, outcome, wait, merged, labels, block });
        Ok(())
    }

    fn label_sets(&mut self, chunk: &schema::LabelSets) -> Result<(), Damage> {
        let (rows, total) = (row_count(chunk.rows)?, row_count(chunk.labels)?);
        let have = self.profile.tables.label_sets().len();
        self.grow(chunk.first_id, have, rows, row_bytes::LABEL_SET)?;
        self.memory.spend(total, row_bytes::LABEL)?;
        let counts = column(&chunk.label_count, rows, 1, "label_count")?.iter(rows);
        let keys = column(&chunk.key, total, 0, "key")?;
        let values = column(&chunk.value, total, 0, "value")?;
        let mut at = 0;
        for count in counts {
            let count = count as usize;
            check(count <= MAX_LABELS && count <= total - at, || format!("a set of {count} labels"))?;
            let label = |at| Ok((self.text(keys.get(at))?, self.text(values.get(at))?));
            let set = (at..at + count).map(label).collect::<Result<LabelSet, Damage>>()?;
            self.profile.tables.push_label_set(set);
            at += count;
        }
        check(at == total, || format!("{} labels are in no set", total - at))
    }

    fn thread_times(&mut self, chunk: schema::ThreadTimes) -> Result<(), Damage> {
        self.memory.spend(chunk.rows.len(), row_bytes::THREAD_TIME)?;
        let task_count = self.profile.tables.tasks().len();
        for row in chunk.rows {
            let short = row.short_reason.len();
            check(
                short <= MAX_SHORT_WAITS && row.short_count.len() == short && row.short_ns.len() == short,
                || "the columns of a thread's short waits differ in length".into(),
            )?;
            self.memory.spend(short, size_of::<ShortWaits>() as u64)?;
            let to_ns = row.from_ns.checked_add(row.length_ns);
            let short_waits = (row.short_reason.iter().zip(row.short_count).zip(row.short_ns))
                .map(|((&reason, count), time_ns)| {
                    let reason = Reason::from_code(narrow(reason, "reason")?);
                    Ok(ShortWaits { reason, count, time_ns })
                })
                .collect::<Result<_, Damage>>()?;
            self.profile.thread_times.push(ThreadTime {
                task: TaskId(below(row.task, task_count, "task")?),
                from_ns: row.from_ns,
                to_ns: to_ns.ok_or_else(|| Damage("a time is out of range".into()))?,
                on_cpu_ns: row.on_cpu_ns,
                no_cpu_ns: row.no_cpu_ns,
                blocked_ns: row.blocked_ns,
                switches: row.switches,
                has_ended: row.has_ended,
                short_waits,
            });
        }
        Ok(())
    }

    fn code(&mut self, chunk: schema::CodeRows) -> Result<(), Damage> {
        let counts = RowCounts {
            modules: self.profile.tables.modules().len(),
            functions: self.profile.symbols.functions().len(),
        };
        for row in chunk.rows {
            self.memory.spend(code_rows::memory_bytes(&row), 1)?;
            let code = code_rows::decode(row, counts, |id| self.text(id))?;
            self.profile.code.push(code);
        }
        Ok(())
    }

    fn sources(&mut self, chunk: schema::Sources) -> Result<(), Damage> {
        for row in chunk.rows {
            self.memory.spend(size_of::<SourceText>() + row.text.len(), 1)?;
            let file = self.text(row.file)?;
            self.profile.sources.push(SourceText { file, first_line: row.first_line, text: row.text });
        }
        Ok(())
    }

    fn module_notes(&mut self, chunk: schema::NotesOfModules) -> Result<(), Damage> {
        let modules = self.profile.tables.modules().len();
        for row in chunk.rows {
            self.memory.spend(module_notes::row_bytes(&row), 1)?;
            let module = ModuleId(below(row.module, modules, "module")?);
            self.profile.module_notes.insert(module, module_notes::notes(row));
        }
        Ok(())
    }

    fn counters(&mut self, chunk: schema::Counters) -> Result<(), Damage> {
        self.memory.spend(chunk.rows.len(), row_bytes::COUNTER)?;
        for row in chunk.rows {
            self.memory.spend(row.name.len(), 1)?;
            self.profile.counters.insert(row.name, row.value);
        }
        Ok(())
    }
}
