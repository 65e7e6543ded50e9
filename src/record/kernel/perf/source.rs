//! The rings of events of tasks: what is in them, as samples, waits and times of threads.

use super::exchange::SharedRings;
use super::functions::ReadFunctions;
use super::open::{Inherits, SWITCHES};
use super::reader::FunctionReads;
use super::record::{self, CopiedSample, CopiedUser, RecordOf, TimedRecord};
use super::threads::{EndedWait, KnownThreads};
use super::witness::{ReadsOfSamples, give_functions};
use crate::bpf::{REGISTERS, RescueEvent, SampleEvent, StackCopyEvent};
use crate::elf::Architecture;
use crate::profile::Outcome;
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::kernel::drain::{Batch, RingSource, Wakes};
use crate::record::kernel::perf_event::SidebandRing;
use crate::record::kernel::sideband::Sideband;
use rustc_hash::{FxHashMap, FxHashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Reads that take longer are not waited for.
const LONGEST_READ: Duration = Duration::from_micros(300);
/// Where an interpreter is looked for, the rings are emptied this often for so long.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
pub(super) const LOOK_PATIENCE: Duration = Duration::from_secs(1);
/// Part of a ring that may be full where nothing is missing.
const MOST_FULLNESS: f64 = 0.8;
/// Bytes that a record without a stack takes, about.
const RECORD_BYTES: usize = 256;

/// What was counted of records.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecordCounts {
    /// Samples that were taken and are known here.
    pub(super) taken: u64,
    /// Those of the clock that are recorded.
    pub(super) clock: u64,
    /// Those of processes that are not recorded.
    pub(super) filtered: u64,
    /// Records that did not fit into a ring: nearly all of them are samples.
    pub(super) lost: u64,
    /// Samples that the kernel left out since the event came too often.
    pub(super) throttled: u64,
}

/// What the thread that empties the rings and the one that records both see.
#[derive(Debug, Default)]
pub(super) struct RecordState {
    pub(super) threads: KnownThreads,
    pub(super) counts: RecordCounts,
    /// Samples count from now on, CLOCK_MONOTONIC, ns.
    pub(super) start_ns: Option<u64>,
    /// Up to this time; what is known of the threads then is to be told.
    pub(super) stop_ns: Option<u64>,
    is_closed: bool,
    /// Events of counters, by their numbers: which counter it is, from 1. All others are clocks.
    pub(super) counters: FxHashMap<u64, u8>,
    /// Processes that are recorded, where their children are not; `None`: all that the events are of.
    pub(super) only: Option<FxHashSet<u32>>,
    inherits: Inherits,
    /// Switches are for the times and waits of threads, not only to tell whether a thread has run.
    follows_switches: bool,
    /// Length of a sampling period, ns.
    pub(super) period_ns: u64,
    /// When the kernel stopped the events of a CPU, ns.
    throttled_ns: FxHashMap<u32, u64>,
}

/// The state, as both threads hold it.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedRecordState(Arc<Mutex<RecordState>>);

impl SharedRecordState {
    pub(super) fn new(state: RecordState) -> Self {
        SharedRecordState(Arc::new(Mutex::new(state)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RecordState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rings.
#[derive(Debug)]
pub(super) struct EventRings {
    pub(super) rings: SharedRings,
    pub(super) state: SharedRecordState,
    /// Samples have kernel addresses.
    pub(super) has_chains: bool,
    /// A copy of every stack is wanted.
    pub(super) copies_stacks: bool,
    /// Records that are newer than others that may still come, and those that were read before the thread began.
    pub(super) held: Vec<TimedRecord>,
    /// Functions that were read for samples, where that is done.
    pub(super) reads: Option<FunctionReads>,
    /// What was read for samples that are still to come.
    pub(super) reads_of_samples: ReadsOfSamples,
    /// How often the rings are emptied where they wake no one who does.
    pub(super) emptied_every: Duration,
    /// Whether it may come to that, and until when it is looked for often: what a command begins with it does soon.
    pub(super) looked_for_until: Option<Instant>,
}

impl EventRings {
    /// Reads what is there. Returns how full the fullest ring was, and the number of records that were none.
    pub(super) fn read(&mut self) -> (f64, u64) {
        let EventRings { rings, held, has_chains, .. } = self;
        let (mut fullness, mut bad) = (0.0f64, 0);
        rings.lock().empty(|ring| {
            let bytes = ring.drain(|kind, misc, bytes| {
                let record = record::decode(kind, misc, bytes, *has_chains);
                bad += u64::from(record.is_none() && record::is_sample(kind));
                held.extend(record);
            });
            fullness = fullness.max(bytes as f64 / ring.data_bytes() as f64);
        });
        (fullness, bad)
    }
}

impl RingSource for EventRings {
    fn watch(&self, add: &mut dyn FnMut(BorrowedFd<'_>, Wakes) -> io::Result<()>) -> io::Result<()> {
        if self.rings.is_read() {
            // They wake those who read functions.
            return Ok(());
        }
        add(self.rings.bell(), Wakes::Filling)?;
        self.rings.lock().rings.iter().try_for_each(|ring| add(ring.as_fd(), Wakes::Filling))
    }

    fn longest_interval(&self) -> Option<Duration> {
        if self.rings.is_read() {
            return Some(self.emptied_every);
        }
        self.looked_for_until.filter(|until| Instant::now() < *until).map(|_| LOOK_INTERVAL)
    }

    fn take_sideband(&mut self, _: &mut Batch) {
        // It lies between the samples.
    }

    fn exchange(&mut self, _: u32, _: Option<SidebandRing>, _: &mut Batch) {
        // They are those of events of a thread, which come back with their CPU.
    }

    fn take_all(&mut self, batch: &mut Batch) -> io::Result<f64> {
        self.rings.silence();
        if self.rings.is_read() {
            // What is being read for a sample from before now is there then.
            std::thread::sleep(LONGEST_READ);
        }
        let complete_until_ns = monotonic_ns();
        let (fullness, bad) = self.read();
        batch.bad_records += bad;
        let until_ns = batch.known_until_ns.unwrap_or(0);
        // Where a ring may have been full, a switch may be missing.
        let reads = self.reads.as_ref().map(FunctionReads::take).unwrap_or_default().into_iter();
        self.reads_of_samples.extend(reads.map(|read| ((read.tid, read.time_ns), read)));
        if fullness > MOST_FULLNESS {
            self.reads_of_samples.clear();
        }
        let mut records = std::mem::take(&mut self.held);
        records.sort_by_key(|record| record.time_ns);
        // What another CPU did before these may not have been in its ring when that was read.
        let known = records.partition_point(|record| record.time_ns < until_ns);
        give_functions(&mut records, known, &mut self.reads_of_samples, complete_until_ns);
        self.reads_of_samples.retain(|_, read| read.time_ns >= until_ns);
        self.held = records.split_off(known);
        let mut state = self.state.lock();
        for record in records {
            batch.bytes += RECORD_BYTES;
            state.take(record, batch, self.copies_stacks);
        }
        state.close(until_ns, batch);
        Ok(fullness)
    }
}

impl RecordState {
    /// The state before sampling, by `threads`; samples are `period_ns` apart, and only those of `only` count.
    pub(super) fn new(
        threads: KnownThreads,
        inherits: Inherits,
        period_ns: u64,
        (follows_switches, only): (bool, Option<FxHashSet<u32>>),
    ) -> Self {
        RecordState { threads, inherits, follows_switches, period_ns, only, ..RecordState::default() }
    }

    /// Whether a new thread of this process has the events of its maker.
    fn inherits(&self, tgid: u32) -> bool {
        match self.inherits {
            Inherits::Nothing => false,
            Inherits::Threads => self.only.as_ref().is_none_or(|only| only.contains(&tgid)),
            Inherits::All => true,
        }
    }

    /// Whether samples of this time count.
    fn is_in_time(&self, time_ns: u64) -> bool {
        self.start_ns.is_some_and(|start_ns| time_ns >= start_ns)
            && self.stop_ns.is_none_or(|stop_ns| time_ns < stop_ns)
    }

    /// Puts what a record tells into `batch`.
    fn take(&mut self, record: TimedRecord, batch: &mut Batch, copies_stacks: bool) {
        let TimedRecord { time_ns, tgid, tid, cpu, what } = record;
        let is_in_time = self.is_in_time(time_ns);
        match what {
            RecordOf::Sample(sample) => {
                if is_in_time {
                    self.sample((time_ns, tgid, tid, cpu), *sample, batch, copies_stacks);
                }
            }
            RecordOf::SwitchIn | RecordOf::SwitchOut { .. } if !self.follows_switches => {}
            RecordOf::SwitchIn => {
                let wait = self.threads.came((tgid, tid), time_ns);
                if let Some(wait) = wait {
                    take_wait((tid, cpu), wait, batch);
                }
            }
            RecordOf::SwitchOut { is_preempted } => self.threads.left((tgid, tid), time_ns, is_preempted),
            RecordOf::Born { child, parent_tid, record } => {
                if self.inherits(child.0) {
                    self.threads.born(child, parent_tid, time_ns);
                }
                batch.sideband.push((time_ns, record));
            }
            RecordOf::Ended { thread: (tgid, tid) } => {
                batch.thread_times.extend(self.threads.ended(tid, time_ns));
                batch.sideband.push((time_ns, Sideband::Exited { pid: tgid }));
            }
            RecordOf::Named { comm, record } => {
                self.threads.named((tgid, tid), &comm, time_ns);
                batch.sideband.push((time_ns, record));
            }
            RecordOf::Side(record) => batch.sideband.push((time_ns, record)),
            RecordOf::Lost(records) => {
                self.counts.lost += if is_in_time { records } else { 0 };
                // They are counted as samples; that mappings may be among them is told without a number.
                batch.sideband.push((time_ns, Sideband::Lost(0)));
            }
            RecordOf::Throttled => {
                self.throttled_ns.insert(cpu, time_ns);
            }
            RecordOf::Unthrottled => {
                let since_ns = self.throttled_ns.remove(&cpu).filter(|_| is_in_time);
                let length_ns = since_ns.map_or(0, |since_ns| time_ns.saturating_sub(since_ns));
                self.counts.throttled += length_ns / self.period_ns.max(1);
            }
        }
    }

    fn sample(
        &mut self,
        (time_ns, tgid, tid, cpu): (u64, u32, u32, u32),
        sample: CopiedSample,
        batch: &mut Batch,
        copies_stacks: bool,
    ) {
        let counter = self.counters.get(&sample.id).copied().unwrap_or(0);
        if counter == SWITCHES {
            self.threads.leaves(tid, time_ns, sample);
            return;
        }
        self.counts.taken += 1;
        if self.only.as_ref().is_some_and(|only| !only.contains(&tgid)) {
            self.counts.filtered += 1;
            return;
        }
        if counter == 0 {
            self.counts.clock += 1;
            self.threads.ran(tid, time_ns);
        }
        let event = SampleEvent {
            time_ns,
            tid,
            cpu,
            event: counter,
            weight: sample.period,
            comm: self.threads.comm(tid),
            ..SampleEvent::of_process(tgid, time_ns)
        };
        take_stack(event, sample, batch, copies_stacks);
    }

    /// Once everything up to the end is known: what is to be said of the threads that are still there.
    fn close(&mut self, known_until_ns: u64, batch: &mut Batch) {
        let Some(stop_ns) = self.stop_ns.filter(|stop_ns| *stop_ns <= known_until_ns && !self.is_closed)
        else {
            return;
        };
        self.is_closed = true;
        for (tid, time, wait) in self.threads.close(stop_ns) {
            batch.thread_times.push(time);
            if let Some(wait) = wait {
                take_wait((tid, 0), wait, batch);
            }
        }
    }
}

/// Puts a wait into `batch`.
fn take_wait((tid, cpu): (u32, u32), ended: EndedWait, batch: &mut Batch) {
    let EndedWait { tgid, comm, wait, stack } = ended;
    let event = SampleEvent {
        tid,
        cpu,
        comm,
        outcome: Outcome::NotKnown.code(),
        ..SampleEvent::of_process(tgid, wait.end_ns)
    };
    let event = SampleEvent { wait: Some(Box::new(wait)), ..event };
    match stack {
        Some(stack) => take_stack(event, *stack, batch, false),
        None => batch.samples.push(event),
    }
}

/// Puts a sample with its stack into `batch`.
fn take_stack(mut event: SampleEvent, sample: CopiedSample, batch: &mut Batch, copies_stacks: bool) {
    let (time_ns, cpu, tgid) = (event.time_ns, event.cpu, event.tgid);
    event.kernel = sample.kernel;
    let ReadFunctions { frames, codes, root } = sample.functions.unwrap_or_default();
    event.interpreter = frames;
    batch.new_codes.extend(codes);
    match sample.user {
        CopiedUser::None => event.outcome = Outcome::NoUserStack.code(),
        CopiedUser::Narrow => event.outcome = Outcome::Compat32.code(),
        CopiedUser::Copy { registers, all_registers, stack, is_cut } => {
            event.outcome = Outcome::TableNotLoaded.code();
            event.has_rescue = true;
            event.user = vec![registers[REGISTERS - 1]];
            let start = registers[usize::from(Architecture::HOST.stack_pointer())];
            batch.bytes += stack.len();
            if copies_stacks {
                batch.copies.push(StackCopyEvent {
                    time_ns,
                    cpu,
                    is_return: false,
                    registers,
                    start,
                    missing_blocks: [0; 4],
                    stack: stack.clone(),
                });
            }
            batch.rescues.push(RescueEvent {
                time_ns,
                cpu,
                tgid,
                frames_before: 0,
                all_registers,
                is_return: false,
                registers,
                start,
                stack,
                is_cut,
                missing_blocks: [0; 4],
                root,
            });
        }
    }
    batch.samples.push(event);
}
