//! Event tables: the samples of one kind, in columns.

use super::table::id;
use super::{Outcome, StackId, TaskId};

id!(/** An [`Event`] of the profile. */ EventId);

/// The unit of an event's weights. Numbers are stored: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unit {
    /// Plain number.
    #[default]
    Count,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// A unit that this version does not know.
    Other(u8),
}

impl Unit {
    /// The stored number.
    pub fn code(self) -> u8 {
        match self {
            Unit::Count => 0,
            Unit::Nanoseconds => 1,
            Unit::Bytes => 2,
            Unit::Other(code) => code,
        }
    }

    /// The unit of a stored number.
    pub fn from_code(code: u8) -> Self {
        match code {
            0 => Unit::Count,
            1 => Unit::Nanoseconds,
            2 => Unit::Bytes,
            other => Unit::Other(other),
        }
    }
}

/// What an event is and how it was sampled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventInfo {
    /// Stable name: `on-cpu`, later `off-cpu`, `heap`, …
    pub name: String,
    /// Unit of the weights.
    pub unit: Unit,
    /// The rule by which samples were taken, for people: `cpu-clock every 1001 us`.
    pub sampling: String,
    /// Weight that one sample stands for when all are equal (the sampling period); else 0.
    pub period: u64,
}

/// One observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Time since the start of the recording, ns. Stored in files in whole microseconds.
    pub time_ns: u64,
    /// The thread.
    pub task: TaskId,
    /// The stack; `None` when nothing at all is known of it.
    pub stack: Option<StackId>,
    /// What it stands for, in the event's unit.
    pub weight: u64,
    /// The CPU it was taken on.
    pub cpu: u16,
    /// How the walk of the user stack ended.
    pub outcome: Outcome,
}

/// Samples in columns of equal length, each as in [`Sample`].
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) time_ns: Vec<u64>,
    pub(super) task: Vec<TaskId>,
    pub(super) stack: Vec<Option<StackId>>,
    pub(super) weight: Vec<u64>,
    pub(super) cpu: Vec<u16>,
    pub(super) outcome: Vec<Outcome>,
}

/// The samples of one event, in columns of equal length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    info: EventInfo,
    time_ns: Vec<u64>,
    task: Vec<TaskId>,
    stack: Vec<Option<StackId>>,
    weight: Vec<u64>,
    cpu: Vec<u16>,
    outcome: Vec<Outcome>,
}

impl Event {
    /// An event without samples.
    pub fn new(info: EventInfo) -> Self {
        Event { info, ..Event::default() }
    }

    /// What the event is.
    pub fn info(&self) -> &EventInfo {
        &self.info
    }

    /// Adds a sample.
    pub fn push(&mut self, sample: Sample) {
        self.time_ns.push(sample.time_ns);
        self.task.push(sample.task);
        self.stack.push(sample.stack);
        self.weight.push(sample.weight);
        self.cpu.push(sample.cpu);
        self.outcome.push(sample.outcome);
    }

    /// Adds samples column by column. The columns must be of equal length.
    pub(super) fn append(&mut self, columns: Columns) {
        debug_assert_eq!(columns.time_ns.len(), columns.outcome.len());
        self.time_ns.extend(columns.time_ns);
        self.task.extend(columns.task);
        self.stack.extend(columns.stack);
        self.weight.extend(columns.weight);
        self.cpu.extend(columns.cpu);
        self.outcome.extend(columns.outcome);
    }

    /// Forgets all samples, keeping the info: what a recorder does once they are in the file.
    pub fn clear(&mut self) {
        self.time_ns.clear();
        self.task.clear();
        self.stack.clear();
        self.weight.clear();
        self.cpu.clear();
        self.outcome.clear();
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.time_ns.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.time_ns.is_empty()
    }

    /// The sample at `index`, which must be below [`Event::len`].
    pub fn sample(&self, index: usize) -> Sample {
        Sample {
            time_ns: self.time_ns[index],
            task: self.task[index],
            stack: self.stack[index],
            weight: self.weight[index],
            cpu: self.cpu[index],
            outcome: self.outcome[index],
        }
    }

    /// All samples in stored order (nearly, not strictly, by time).
    pub fn samples(&self) -> impl ExactSizeIterator<Item = Sample> + '_ {
        (0..self.len()).map(|index| self.sample(index))
    }

    /// Sum of all weights (`u64::MAX` when it is larger, which no file that could be read makes it).
    pub fn total_weight(&self) -> u64 {
        self.weight.iter().fold(0, |sum: u64, weight| sum.saturating_add(*weight))
    }

    /// Times since the start of the recording, ns.
    pub fn time_ns(&self) -> &[u64] {
        &self.time_ns
    }

    /// Threads.
    pub fn tasks(&self) -> &[TaskId] {
        &self.task
    }

    /// Stacks.
    pub fn stacks(&self) -> &[Option<StackId>] {
        &self.stack
    }

    /// Weights, in the event's unit.
    pub fn weights(&self) -> &[u64] {
        &self.weight
    }

    /// CPUs.
    pub fn cpus(&self) -> &[u16] {
        &self.cpu
    }

    /// How the walks ended.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcome
    }
}
