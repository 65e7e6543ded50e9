//! A live recording without a target, fed with synthetic samples: days pass in seconds. For benches and tests.

use super::archive::Archive;
use super::control::Control;
use super::delta::Delta;
use super::events::Snapshot;
use super::keeper::Keeper;
use super::names_for::names_for;
use crate::base::mailbox::mailbox;
use crate::profile::{
    End, EventInfo, EventKind, Frame, FrameId, Meta, Module, ModuleKind, Reason, Sample, Stack, StackId,
    StringId, Task, Wait,
};
use crate::record::live::message::Message;
use crate::record::names::symbolize::kernel_location;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Weight of one on-CPU sample, ns.
const PERIOD_NS: u64 = 1_001_001;
/// Number of frames of a stack.
const DEPTH: u32 = 30;
/// Number of table rows at which a recorder starts over with new rows.
const MANY_ROWS: usize = 1 << 20;

/// A simulated live recording, to measure what it keeps and what that costs.
#[derive(Debug)]
pub struct Simulation {
    keeper: Keeper,
    inbox: Receiver<Message>,
    /// Number of stacks so far, by the ids of the recorder.
    stacks: u32,
    /// Number of all stacks ever made.
    made: u32,
    threads: u32,
    now_ns: u64,
}

impl Simulation {
    /// Makes a simulation of this many threads, without any samples yet.
    pub fn new(threads: u32) -> Self {
        let (sender, inbox) = channel();
        let event = |kind, period| EventInfo {
            kind,
            sampling: "synthetic".to_owned(),
            period,
            ..EventInfo::default()
        };
        let events = vec![event(EventKind::ON_CPU, PERIOD_NS), event(EventKind::OFF_CPU, 0)];
        let archive = Archive::new(Meta::default(), events, names_for(&sender));
        let keeper = Keeper::new(archive, mailbox().0, Arc::new(Control::default()), sender, 999);
        Simulation { keeper, inbox, stacks: 0, made: 0, threads: threads.max(1), now_ns: 0 }
    }

    /// Lets `length` pass with this many samples and waits, spread evenly; their stacks are `new_stacks` new ones and
    /// the last 10,000.
    pub fn pass(&mut self, length: Duration, samples: u32, waits: u32, new_stacks: u32) {
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let mut delta = self.rows(new_stacks);
        let (stacks, threads, begun_ns) = (self.stacks, self.threads, self.now_ns);
        let sample = |number: u32, of: u32| {
            let mixed = number.wrapping_mul(2_654_435_761).rotate_left(15);
            Sample {
                time_ns: begun_ns + length_ns * u64::from(number) / u64::from(of.max(1)),
                task: crate::profile::TaskId(mixed % threads),
                stack: Some(StackId((stacks - 1 - mixed % stacks.min(10_000) / DEPTH) * DEPTH + DEPTH - 1)),
                weight: PERIOD_NS,
                ..Sample::default()
            }
        };
        let wait = |number: u32| {
            let duration_ns = 1_000 + u64::from(number.wrapping_mul(2_654_435_761) >> 8);
            let wait = Wait { duration_ns, reason: Reason::Lock, ..Wait::default() };
            Sample { wait: Some(wait), weight: duration_ns, ..sample(number, waits) }
        };
        delta.samples = vec![
            (0..samples).map(|number| sample(number, samples)).collect(),
            (0..waits).map(wait).collect(),
        ];
        self.now_ns += length_ns;
        delta.end = End { duration_ns: self.now_ns, threads: self.threads, ..End::default() };
        delta.was_reset = (self.stacks * DEPTH) as usize > MANY_ROWS;
        if delta.was_reset {
            self.stacks = 0;
        }
        self.keeper.archive.apply(delta);
    }

    /// An update of rows only.
    fn rows(&mut self, new_stacks: u32) -> Delta {
        let mut delta = Delta::default();
        let is_new = self.stacks == 0;
        if is_new {
            delta.strings = vec!["".into(), "[kernel]".into(), "worker".into()];
            let path = StringId(1);
            delta.modules = vec![Module { path, kind: ModuleKind::Kernel, ..Module::default() }];
            delta.tasks = (0..self.threads)
                .map(|tid| Task { pid: 7, tid, comm: StringId(2), process: StringId(2), ..Task::default() })
                .collect();
        }
        let new_stacks = if is_new { new_stacks.max(1) } else { new_stacks };
        for number in 0..new_stacks {
            for depth in 0..DEPTH {
                let row = (self.stacks + number) * DEPTH + depth;
                let address = u64::from(self.made) * u64::from(DEPTH) + u64::from(depth);
                delta.frames.push(Frame { address, ..Frame::default() });
                let parent = (depth > 0).then(|| StackId(row - 1));
                delta.stacks.push(Stack { parent, frame: FrameId(row) });
                delta.named.push((FrameId(row), vec![kernel_location(&format!("function_{address}"))]));
            }
            self.made += 1;
        }
        self.stacks += new_stacks;
        delta
    }

    /// Merges the past, on this thread; returns the time for all of it, and for the part that would delay a snapshot.
    pub fn downsample(&mut self) -> (Duration, Duration) {
        let begun = Instant::now();
        let Some(mut downsampling) = self.keeper.archive.begin_downsampling() else {
            return Default::default();
        };
        let began = begun.elapsed();
        downsampling.run();
        let done = Instant::now();
        self.keeper.archive.end_downsampling(downsampling);
        (begun.elapsed(), began + done.elapsed())
    }

    /// Makes a snapshot of everything so far; returns it and the time that it took.
    pub fn snapshot(&mut self) -> (Snapshot, Duration) {
        // Nothing here looks up names.
        self.inbox.try_iter().for_each(drop);
        let begun = Instant::now();
        let snapshot = self.keeper.snapshot();
        (snapshot, begun.elapsed())
    }

    /// Numbers of sample rows and of table rows that are kept.
    pub fn rows_kept(&self) -> (usize, usize) {
        (self.keeper.archive.rows(), self.keeper.archive.table_rows())
    }
}

/// Memory of this process, kB: now, and the peak.
pub fn own_memory_kb() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
    };
    (value("VmRSS:"), value("VmHWM:"))
}
