//! Snapshot of all goroutines of a process that keeps running: no stop, so each goroutine is looked at twice.

use super::instructions::follows_call;
use super::labels::{GoLabelEntry, GoLabelReader, label_entries};
use super::layout::{GoLayout, MAX_GOROUTINE_ID};
use super::sampling::GoSampling;
use super::stacks::{GoFunctionAround, GoRegisters, GoStack, GoStackEnd};
use super::strings::{half, word};
use crate::runtimes::TargetMemory;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Entries of the list of goroutines that are read at once.
const LIST_PART: u64 = 8192;
/// Most entries of the list that are believed.
const MAX_LISTED: u64 = 1 << 24;
/// Mark of a goroutine whose stack the garbage collector reads: an addition to its status.
const SCAN: u32 = 0x1000;
/// Distance between goroutines that are read together, bytes.
const GROUP_BYTES: u64 = 4096;
const MAX_READ_BYTES: usize = 1 << 14;
/// Readings of a goroutine that runs while it is read. If none were repeated, short waits would be missed most often.
const ATTEMPTS: u32 = 3;

/// State of a goroutine (`_Grunnable` and so on in `src/runtime/runtime2.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum GoState {
    /// Waits for a thread, or has not run yet.
    Runnable,
    /// Runs, or its stack is being moved.
    Running,
    Syscall,
    Waiting,
    /// Waits to be resumed by what stopped it.
    Preempted,
    /// Waits for what cannot happen any more, as the garbage collector found (Go 1.26).
    Leaked,
}

/// One goroutine at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Goroutine {
    pub(crate) id: u64,
    pub(crate) state: GoState,
    /// Number of the reason of waiting, for `GoLayout::wait_reason`; only of one that waits.
    pub(crate) wait_reason: Option<u8>,
    /// Start of the wait, nanoseconds of the monotonic clock; only known after a garbage collection since, and then some
    /// moment before it.
    pub(crate) waits_since_ns: Option<u64>,
    /// Set of labels, for `GoroutineSnapshot::labels`.
    labels: Option<u32>,
    /// Goroutine that created it; `None` for the first one, and in Go older than 1.21.
    pub(crate) parent_id: Option<u64>,
    /// Process address after the `go` statement that created it.
    pub(crate) created_at: u64,
    /// Process address of its first function; that is one of the runtime's own for its helpers.
    pub(crate) start_function: u64,
    /// Kernel's thread id, in the process's own namespace, of one that runs or is in a system call.
    pub(crate) thread_id: Option<u64>,
    /// Addresses of the stack in `GoroutineSnapshot::pcs`.
    stack: Range<usize>,
    pub(crate) stack_end: GoStackEnd,
    /// Tells that a caller may be missing from the stack: that of a function which was interrupted and is not known.
    pub(crate) may_miss_caller: bool,
}

/// Limits of a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GoSnapshotOptions {
    /// Goroutines that are read; of more, so many are chosen at random.
    pub(crate) most_goroutines: usize,
    /// Addresses of a stack.
    pub(crate) most_frames: usize,
    /// Windows of 4 KiB that are read of all stacks together. One is enough for most goroutines.
    pub(crate) most_stack_windows: usize,
    /// Seed of the choice: another one each time.
    pub(crate) seed: u64,
}

impl Default for GoSnapshotOptions {
    fn default() -> Self {
        GoSnapshotOptions { most_goroutines: 10_000, most_frames: 512, most_stack_windows: 40_000, seed: 0 }
    }
}

/// The goroutines of a process.
#[derive(Debug, Default)]
pub(crate) struct GoroutineSnapshot {
    pub(crate) goroutines: Vec<Goroutine>,
    pcs: Vec<u64>,
    label_sets: Vec<Vec<(String, String)>>,
    /// Entries of the runtime's list, those of goroutines that have ended included.
    pub(crate) listed: usize,
    /// Entries of the list that were read.
    pub(crate) chosen: usize,
    /// Entries of goroutines that have ended or not begun.
    pub(crate) ended: usize,
    /// Goroutines that ran while they were read: left out.
    pub(crate) changed: usize,
    /// Goroutines that could not be read: left out.
    pub(crate) unreadable: usize,
    /// Goroutines whose labels were left out, since all together are too many.
    pub(crate) unlabelled: usize,
}

/// Walk of a stack: appends addresses, leaf first, and tells how it ended.
type GoUnwind<'a, M> = &'a dyn Fn(&mut GoStack<'_, M>, &mut Vec<u64>) -> GoStackEnd;

impl GoroutineSnapshot {
    /// Takes a snapshot. Functions are needed for goroutines that were interrupted between any two instructions. `None` if the list of goroutines cannot be read, as when the process has ended.
    pub(crate) fn take<M: TargetMemory>(
        memory: &M,
        layout: &GoLayout,
        options: &GoSnapshotOptions,
        function_around: GoFunctionAround<'_>,
    ) -> Option<Self> {
        let unwind = |stack: &mut GoStack<'_, M>, pcs: &mut Vec<u64>| {
            stack.walk_frame_pointers(&layout.code, function_around, options.most_frames, pcs)
        };
        let (list, count) = layout.list(memory)?;
        let count = count.min(MAX_LISTED);
        let mut sampling = GoSampling::new(count as usize, options.most_goroutines, options.seed);
        let mut reader = SnapshotReader::new(memory, layout, &unwind, options.most_stack_windows);
        reader.snapshot.listed = count as usize;
        for first in (0..count).step_by(LIST_PART as usize) {
            let part = (count - first).min(LIST_PART) * 8;
            let entries = memory.range(list.checked_add(first * 8)?, part, (LIST_PART * 8) as usize)?;
            for entry in entries.chunks_exact(8).filter(|_| sampling.takes_next()) {
                reader.choose(word(entry, 0)?);
            }
        }
        reader.read_chosen();
        Some(reader.snapshot)
    }

    /// Addresses of a goroutine's stack, leaf first: where it goes on, then return addresses. Empty for one that runs.
    pub(crate) fn pcs(&self, goroutine: &Goroutine) -> &[u64] {
        self.pcs.get(goroutine.stack.clone()).unwrap_or_default()
    }

    /// Labels of a goroutine, by key.
    pub(crate) fn labels(&self, goroutine: &Goroutine) -> &[(String, String)] {
        let set = goroutine.labels.and_then(|number| self.label_sets.get(number as usize));
        set.map_or(&[], Vec::as_slice)
    }

    /// Number of goroutines that each one represents; 1 if all were read.
    pub(crate) fn weight(&self) -> f64 {
        if self.chosen == 0 { 1.0 } else { self.listed as f64 / self.chosen as f64 }
    }
}

/// What is read of a goroutine at once.
struct Description<'a> {
    layout: &'a GoLayout,
    bytes: &'a [u8],
}

impl<'a> Description<'a> {
    /// The description at an offset of `bytes`, if all of it is there.
    fn new(layout: &'a GoLayout, bytes: &'a [u8], at: u64) -> Option<Self> {
        let at = usize::try_from(at).ok()?;
        let bytes = bytes.get(at..at.checked_add(layout.goroutine.bytes)?)?;
        Some(Description { layout, bytes })
    }

    fn word(&self, offset: usize) -> u64 {
        word(self.bytes, offset).unwrap_or(0)
    }

    fn optional(&self, offset: Option<usize>) -> Option<u64> {
        offset.map(|offset| self.word(offset))
    }

    fn byte(&self, offset: usize) -> u8 {
        self.bytes.get(offset).copied().unwrap_or(0)
    }

    /// Number of the status; `None` is unknown.
    fn state(&self) -> Option<GoStatus> {
        let state = match half(self.bytes, self.layout.goroutine.status)? & !SCAN {
            1 => GoState::Runnable,
            2 | 8 => GoState::Running,
            3 => GoState::Syscall,
            4 => GoState::Waiting,
            9 => GoState::Preempted,
            10 => GoState::Leaked,
            0 | 6 | 11 => return Some(GoStatus::Ended),
            _ => return None,
        };
        Some(GoStatus::Alive(state))
    }

    /// All that changes when the goroutine runs, except the mark of the garbage collector.
    fn moment(&self) -> [u64; 8] {
        let offsets = &self.layout.goroutine;
        let status = half(self.bytes, offsets.status).unwrap_or(0) & !SCAN;
        let stops = offsets.stops.map_or(0, |offset| self.byte(offset));
        [
            self.word(offsets.id),
            self.word(offsets.stack_low),
            self.word(offsets.stack_high),
            self.word(offsets.sched_sp),
            self.word(offsets.sched_pc),
            self.word(offsets.syscall_sp),
            u64::from(status) << 8 | u64::from(stops),
            self.word(offsets.labels),
        ]
    }

    fn is_plausible(&self) -> bool {
        let offsets = &self.layout.goroutine;
        let is_id = (1..MAX_GOROUTINE_ID).contains(&self.word(offsets.id));
        is_id && self.word(offsets.stack_low) < self.word(offsets.stack_high)
    }

    fn registers(&self, state: GoState) -> GoRegisters {
        let offsets = &self.layout.goroutine;
        if state == GoState::Syscall && self.word(offsets.syscall_sp) != 0 {
            return GoRegisters {
                pc: self.word(offsets.syscall_pc),
                sp: self.word(offsets.syscall_sp),
                bp: self.optional(offsets.syscall_bp).unwrap_or(0),
                may_lack_frame: false,
            };
        }
        GoRegisters {
            pc: self.word(offsets.sched_pc),
            sp: self.word(offsets.sched_sp),
            bp: self.word(offsets.sched_bp),
            may_lack_frame: matches!(state, GoState::Runnable | GoState::Preempted),
        }
    }
}

enum GoStatus {
    Ended,
    Alive(GoState),
}

/// A snapshot being taken.
struct SnapshotReader<'a, M> {
    memory: &'a M,
    layout: &'a GoLayout,
    unwind: GoUnwind<'a, M>,
    snapshot: GoroutineSnapshot,
    label_reader: GoLabelReader,
    /// Sets of labels by pointer: where their strings are, and the number of the set.
    known_labels: FxHashMap<u64, (Vec<GoLabelEntry>, u32)>,
    /// Goroutines to be read together, and what is read of one stack: buffers that are reused.
    group: Vec<u64>,
    window: Vec<u8>,
    windows_left: usize,
}

impl<'a, M: TargetMemory> SnapshotReader<'a, M> {
    fn new(memory: &'a M, layout: &'a GoLayout, unwind: GoUnwind<'a, M>, windows_left: usize) -> Self {
        SnapshotReader {
            memory,
            layout,
            unwind,
            snapshot: GoroutineSnapshot::default(),
            label_reader: GoLabelReader::new(&layout.labels),
            known_labels: FxHashMap::default(),
            group: Vec::new(),
            window: Vec::new(),
            windows_left,
        }
    }

    /// Adds a goroutine to the ones that are read together, or reads those first. Goroutines of about the same age lie
    /// next to each other.
    fn choose(&mut self, address: u64) {
        self.snapshot.chosen += 1;
        let fits = |(first, last): (&u64, &u64)| address > *last && address - first <= GROUP_BYTES;
        if !self.group.first().zip(self.group.last()).is_some_and(fits) {
            self.read_chosen();
        }
        self.group.push(address);
    }

    fn read_chosen(&mut self) {
        let mut group = std::mem::take(&mut self.group);
        self.read_group(&group, ATTEMPTS);
        group.clear();
        self.group = group;
    }

    /// Reads goroutines at ascending addresses; those that run meanwhile again, one by one, as often as `attempts` allow.
    fn read_group(&mut self, group: &[u64], attempts: u32) {
        let (Some(&first), Some(&last)) = (group.first(), group.last()) else { return };
        let size = last.saturating_sub(first).saturating_add(self.layout.goroutine.bytes as u64);
        let read = |memory: &M| memory.range(first, size, MAX_READ_BYTES);
        let Some(bytes) = read(self.memory) else { return self.read_singly(group, attempts) };
        let layout = self.layout;
        let description = |bytes, address: u64| Description::new(layout, bytes, address.checked_sub(first)?);
        let mut found = Vec::with_capacity(group.len());
        for &address in group {
            let Some(description) = description(&bytes, address) else { continue };
            if let Some(goroutine) = self.goroutine(address, &description) {
                found.push((address, description.moment(), goroutine));
            }
        }
        let again = read(self.memory).unwrap_or_default();
        for (address, moment, goroutine) in found {
            let now = description(&again, address).map(|description| description.moment());
            if goroutine.state == GoState::Running || now == Some(moment) && self.is_whole(&goroutine) {
                self.snapshot.goroutines.push(goroutine);
            } else if attempts > 1 {
                self.read_group(&[address], attempts - 1);
            } else {
                self.snapshot.changed += 1;
            }
        }
    }

    /// Whether the stack of a goroutine can be that of one moment. One that was in the same system call both times that it was
    /// looked at may have left it in between, and what its stack then had in the place of return addresses is anything.
    fn is_whole(&self, goroutine: &Goroutine) -> bool {
        let callers = self.snapshot.pcs(goroutine).iter().skip(1);
        goroutine.state != GoState::Syscall
            || callers
                .filter(|caller| !self.layout.code.goexit.contains(caller))
                .all(|caller| follows_call(self.memory, *caller))
    }

    fn read_singly(&mut self, group: &[u64], attempts: u32) {
        match group {
            [_] => self.snapshot.unreadable += 1,
            _ => group.iter().for_each(|&address| self.read_group(&[address], attempts)),
        }
    }

    /// The goroutine of a description, or `None` and the reason counted.
    fn goroutine(&mut self, address: u64, description: &Description<'_>) -> Option<Goroutine> {
        let state = match description.state() {
            Some(GoStatus::Alive(state)) if description.is_plausible() => state,
            Some(GoStatus::Ended) => {
                self.snapshot.ended += 1;
                return None;
            }
            _ => {
                self.snapshot.unreadable += 1;
                return None;
            }
        };
        let first = self.snapshot.pcs.len();
        let (stack_end, may_miss_caller) = self.walk(description, state);
        let offsets = &self.layout.goroutine;
        let waits = matches!(state, GoState::Waiting | GoState::Leaked);
        let since = Some(description.word(offsets.wait_since)).filter(|&since| since != 0 && waits);
        let on_thread = matches!(state, GoState::Running | GoState::Syscall);
        Some(Goroutine {
            id: description.word(offsets.id),
            state,
            wait_reason: waits.then(|| description.byte(offsets.wait_reason)),
            waits_since_ns: since,
            may_miss_caller,
            labels: self.labels(description.word(offsets.labels)),
            parent_id: description.optional(offsets.parent_id).filter(|&parent| parent != 0),
            created_at: description.word(offsets.created_at),
            start_function: description.word(offsets.start_function),
            thread_id: on_thread.then(|| self.thread_id(description.word(offsets.m), address)).flatten(),
            stack: first..self.snapshot.pcs.len(),
            stack_end,
        })
    }

    /// Walks the stack of a goroutine that does not run: its end, and whether a caller may be missing.
    fn walk(&mut self, description: &Description<'_>, state: GoState) -> (GoStackEnd, bool) {
        if state == GoState::Running {
            return (GoStackEnd::Running, false);
        }
        let offsets = &self.layout.goroutine;
        let registers = description.registers(state);
        let (low, high) = (description.word(offsets.stack_low), description.word(offsets.stack_high));
        if !(low..high).contains(&registers.sp) {
            return (GoStackEnd::Broken, false);
        }
        let buffer = std::mem::take(&mut self.window);
        let mut stack = GoStack::new(self.memory, registers, high, self.windows_left, buffer);
        let end = (self.unwind)(&mut stack, &mut self.snapshot.pcs);
        let may_miss_caller = stack.may_miss_caller;
        (self.window, self.windows_left) = stack.into_buffer();
        (end, may_miss_caller)
    }

    /// Number of the set of labels at a pointer; goroutines that share labels share the set.
    fn labels(&mut self, pointer: u64) -> Option<u32> {
        let entries = label_entries(self.memory, self.layout.labels.form, pointer)?;
        if let Some((known, number)) = self.known_labels.get(&pointer)
            && *known == entries
        {
            return Some(*number);
        }
        let number = u32::try_from(self.snapshot.label_sets.len()).ok()?;
        let Some(texts) = self.label_reader.texts(self.memory, &entries) else {
            self.snapshot.unlabelled += 1;
            return None;
        };
        self.snapshot.label_sets.push(texts);
        self.known_labels.insert(pointer, (entries, number));
        Some(number)
    }

    /// Id of a thread, if it still runs the goroutine.
    fn thread_id(&self, machine: u64, goroutine: u64) -> Option<u64> {
        let offsets = &self.layout.machine;
        let field = |offset: usize| self.memory.u64(machine.checked_add(offset as u64)?);
        let runs = machine != 0 && field(offsets.current_goroutine) == Some(goroutine);
        runs.then(|| field(offsets.thread_id)).flatten().filter(|&id| id != 0 && id < 1 << 31)
    }
}
