//! Writes packets one by one: clocks, tracks, interned data, then slices and samples.

use super::interned::{self, FrameKey};
use super::messages::{
    Callstack, ClockSnapshot, ClockValue, DebugAnnotation, InternedData, Packet, PacketDefaults, PerfSample,
    PerfSampleDefaults, ProcessDescriptor, ThreadDescriptor, Timebase, TrackDescriptor, TrackEvent,
};
use super::states::{StateSlice, ThreadId, ThreadState, slices, thread_id};
use crate::base::safe_text;
use crate::profile::{FrameSpace, Task};
use crate::report::export::tools::in_time::{InTime, TimedSample};
use crate::report::export::tools::stacks::{FrameTexts, Numbered, StackLists, named, waker_words};
use crate::report::model::label::Step;
use crate::report::naming::style::NameStyle;
use crate::report::options::TimeRange;
use crate::report::query::selection::Selection;
use prost::encoding;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// `TYPE_SLICE_BEGIN` and `TYPE_SLICE_END`.
const BEGIN: i32 = 1;
const END: i32 = 2;

/// `BUILTIN_CLOCK_REALTIME`, `_MONOTONIC`, `_BOOTTIME`. Traces use boot time; a recording knows only the monotonic
/// clock, and Perfetto shows only clocks that a snapshot relates to the trace clock.
const REALTIME: u32 = 1;
const MONOTONIC: u32 = 3;
const BOOTTIME: u32 = 6;

/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE`.
const CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;

/// Id of the only packet sequence.
const SEQUENCE: u32 = 1;

/// Number of stacks per packet.
const STACKS_PER_PACKET: usize = 1_000;

/// Size of the buffer before it is written, bytes.
const FLUSH_BYTES: usize = 64 << 10;

/// A selection to write.
pub(super) struct PerfettoTrace<'r> {
    pub(super) selection: Selection<'r>,
    pub(super) names: NameStyle,
    pub(super) time: TimeRange,
    pub(super) in_time: InTime,
    pub(super) has_running: bool,
    pub(super) notes: Vec<String>,
}

/// Tables to whose rows packets refer by index. Ids in the file are these indices plus one.
struct TraceTables {
    frames: Numbered<FrameKey>,
    lists: StackLists,
    texts: Numbered<String>,
    tracks: BTreeMap<ThreadId, u64>,
}

struct TraceWriter<'t, 'r> {
    trace: &'t PerfettoTrace<'r>,
    start_ns: u64,
    buffer: Vec<u8>,
}

/// Writes the whole trace.
///
/// # Errors
///
/// Returns the errors of `out`.
pub(super) fn write(trace: &PerfettoTrace<'_>, out: &mut dyn Write) -> io::Result<()> {
    let selection = &trace.selection;
    let start_ns = selection.profile.meta.start_mono_ns;
    let mut writer = TraceWriter { trace, start_ns, buffer: Vec::with_capacity(2 * FLUSH_BYTES) };
    let texts = FrameTexts::new(selection, trace.names);
    let mut frames: Numbered<FrameKey> = Numbered::default();
    let lists = StackLists::new(selection, |path, list| {
        let path = texts.without_reason(path).iter();
        list.extend(path.map(|step: &Step| frames.number((step.label, step.place, step.frame))));
    });
    let mut tables = TraceTables { frames, lists, texts: Numbered::default(), tracks: BTreeMap::new() };
    let threads = slices(selection, &trace.in_time.moments, trace.time, trace.has_running);
    writer.first();
    writer.tracks(
        threads.iter().map(|(id, thread)| (*id, selection.profile.tables.task(thread.task))),
        &mut tables,
    );
    let wakers = writer.wakers(&mut tables);
    writer.names(&tables, out)?;
    writer.stacks(&tables, out)?;
    for (id, thread) in &threads {
        for slice in &thread.slices {
            writer.slice(tables.tracks[id], slice, &tables, &wakers);
            writer.flush(out, FLUSH_BYTES)?;
        }
    }
    writer.samples(&tables, out)?;
    writer.flush(out, 0)
}

impl TraceWriter<'_, '_> {
    fn flush(&mut self, out: &mut dyn Write, most: usize) -> io::Result<()> {
        if self.buffer.len() > most {
            out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn packet(&mut self, packet: Packet) {
        let sequence_flags = if packet.sequence_flags == 0 { NEEDS_STATE } else { packet.sequence_flags };
        let packet = Packet { sequence_id: SEQUENCE, sequence_flags, ..packet };
        encoding::message::encode(1, &packet, &mut self.buffer);
    }

    /// Writes the clocks, and the defaults of all packets.
    fn first(&mut self) {
        let selection = &self.trace.selection;
        let sampled = selection.shown.sampled;
        let timebase = sampled.map(|event| Timebase {
            period: event.info().period,
            name: safe_text::message(&event.kind().name).into_owned(),
        });
        let perf_sample = timebase.map(|timebase| PerfSampleDefaults { timebase: Some(timebase) });
        self.packet(Packet {
            sequence_flags: CLEARED,
            is_first: true,
            defaults: Some(PacketDefaults { clock: BOOTTIME, perf_sample }),
            ..Packet::default()
        });
        let clock = |clock, timestamp| ClockValue { clock, timestamp };
        let mut clocks = vec![clock(BOOTTIME, self.start_ns), clock(MONOTONIC, self.start_ns)];
        let start_unix_ns = selection.profile.meta.start_unix_ns;
        clocks.extend((start_unix_ns > 0).then(|| clock(REALTIME, start_unix_ns)));
        let clock_snapshot = Some(ClockSnapshot { clocks });
        self.packet(Packet { clock_snapshot, timestamp: Some(self.start_ns), ..Packet::default() });
    }

    /// Writes a track per process, and one per thread.
    fn tracks<'t>(&mut self, threads: impl Iterator<Item = (ThreadId, &'t Task)>, tables: &mut TraceTables) {
        let strings = &self.trace.selection.profile.tables;
        let mut processes: BTreeMap<u32, u64> = BTreeMap::new();
        let pid = |task: &Task| i32::try_from(task.pid).unwrap_or(i32::MAX);
        let mut descriptors: Vec<TrackDescriptor> = Vec::new();
        for (id, task) in threads {
            let parent = *processes.entry(task.pid).or_insert_with(|| {
                let uuid = descriptors.len() as u64 + 1;
                let name = named(strings.string(task.process));
                let process = Some(ProcessDescriptor { pid: pid(task), name });
                descriptors.push(TrackDescriptor { uuid, process, ..TrackDescriptor::default() });
                uuid
            });
            let uuid = descriptors.len() as u64 + 1;
            let name = named(strings.string(task.comm));
            let thread = Some(ThreadDescriptor { pid: pid(task), tid: i64::from(task.tid), name });
            descriptors.push(TrackDescriptor { uuid, parent, thread, process: None });
            tables.tracks.insert(id, uuid);
        }
        for track in descriptors {
            self.packet(Packet { track: Some(track), ..Packet::default() });
        }
    }

    /// The waker of each wait, by index in the moments.
    fn wakers(&self, tables: &mut TraceTables) -> Vec<Option<u64>> {
        let selection = &self.trace.selection;
        let waker = |moment: &TimedSample| {
            let wait = moment.sample(selection).filter(|_| moment.is_wait)?.wait?;
            let words = waker_words(&selection.profile.tables, &wait.waker)?;
            Some(u64::from(tables.texts.number(words)) + 1)
        };
        self.trace.in_time.moments.iter().map(waker).collect()
    }

    /// Writes the names of slices, functions, files and modules.
    fn names(&mut self, tables: &TraceTables, out: &mut dyn Write) -> io::Result<()> {
        let names = [
            interned::of_slices(&tables.texts.items),
            interned::of_frames(&self.trace.selection, self.trace.names, &tables.frames.items),
        ];
        for names in names {
            self.packet(Packet { interned: Some(names), ..Packet::default() });
        }
        self.flush(out, 0)
    }

    fn stacks(&mut self, tables: &TraceTables, out: &mut dyn Write) -> io::Result<()> {
        let numbers: Vec<usize> = (0..tables.lists.len()).collect();
        for part in numbers.chunks(STACKS_PER_PACKET) {
            let stack = |&number: &usize| Callstack {
                id: number as u64 + 1,
                frames: tables.lists.list(number).iter().map(|frame| u64::from(*frame) + 1).collect(),
            };
            let callstacks = part.iter().map(stack).collect();
            let interned = Some(InternedData { callstacks, ..InternedData::default() });
            self.packet(Packet { interned, ..Packet::default() });
            self.flush(out, 0)?;
        }
        Ok(())
    }

    fn slice(&mut self, track: u64, slice: &StateSlice, tables: &TraceTables, wakers: &[Option<u64>]) {
        let mut begin = TrackEvent {
            kind: BEGIN,
            track,
            name: interned::event_name(slice.state),
            categories: vec![interned::category(slice.state)],
            ..TrackEvent::default()
        };
        if let ThreadState::Waiting(reason, at) = slice.state {
            let moment = &self.trace.in_time.moments[at];
            begin.callstack = stack_of(tables, moment);
            let after = tables.texts.items.len() as u64;
            begin.annotations.push(DebugAnnotation {
                name: 1,
                text: Some(interned::reason_text(after, reason)),
                number: None,
            });
            let waker = wakers[at].map(|text| DebugAnnotation { name: 2, text: Some(text), number: None });
            begin.annotations.extend(waker);
            if moment.weight != moment.length_ns {
                begin.annotations.push(DebugAnnotation { name: 3, text: None, number: Some(moment.weight) });
            }
        }
        self.event(slice.from_ns, begin);
        self.event(slice.to_ns, TrackEvent { kind: END, track, ..TrackEvent::default() });
    }

    fn event(&mut self, time_ns: u64, event: TrackEvent) {
        let timestamp = Some(self.start_ns.saturating_add(time_ns));
        self.packet(Packet { timestamp, track_event: Some(event), ..Packet::default() });
    }

    fn samples(&mut self, tables: &TraceTables, out: &mut dyn Write) -> io::Result<()> {
        let selection = &self.trace.selection;
        let mut count = 0u64;
        for moment in self.trace.in_time.moments.iter().filter(|moment| !moment.is_wait) {
            let (pid, tid, _) = thread_id(selection, moment.task(selection));
            // Value of the counter at that time: the differences are the weights.
            count = count.saturating_add(moment.weight);
            let callstack = stack_of(tables, moment);
            let (cpu, mode) = (u32::from(moment.cpu), mode(selection, moment));
            let sample = PerfSample { cpu, pid, tid, callstack, mode, timebase_count: count };
            let timestamp = Some(self.start_ns.saturating_add(moment.time_ns));
            self.packet(Packet { timestamp, perf_sample: Some(sample), ..Packet::default() });
            self.flush(out, FLUSH_BYTES)?;
        }
        Ok(())
    }
}

fn stack_of(tables: &TraceTables, moment: &TimedSample) -> Option<u64> {
    let number = tables.lists.of_group(moment.group as usize);
    (!tables.lists.list(number).is_empty()).then_some(number as u64 + 1)
}

/// `MODE_KERNEL` or `MODE_USER`, according to the innermost frame.
fn mode(selection: &Selection<'_>, moment: &TimedSample) -> i32 {
    let stack = selection.groups()[moment.group as usize].stack;
    let leaf = stack.and_then(|stack| selection.profile.tables.stack_frames(stack).next());
    let space = leaf.map(|frame| selection.profile.tables.frame(frame).flags.space);
    match space {
        Some(FrameSpace::Kernel) => 1,
        Some(FrameSpace::User) => 2,
        None => 0,
    }
}
