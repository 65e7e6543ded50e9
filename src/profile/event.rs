//! Event tables: the samples of one kind, in columns.

use super::kind::EventKind;
use super::merged::Merged;
use super::outcome::Outcome;
use super::rows::{LabelSetId, StackId, TaskId, id};
use super::wait::Wait;
use crate::base::units::Unit;
use std::sync::Arc;

/// Rows of one block of columns. Events that are copies of each other share all blocks but the last.
const BLOCK_ROWS: usize = 1 << 12;

id!(/** An [`Event`] of the profile. */ EventId);

/// Kind of an event, and how it was sampled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventInfo {
    /// Kind of what is observed.
    pub kind: EventKind,
    /// The rule by which samples were taken, for people: `cpu-clock every 1001 us`.
    pub sampling: String,
    /// Weight of one sample when all are equal (the sampling period); else 0.
    pub period: u64,
    /// Length from which on observations are kept, ns, of kinds with a duration; 0 of others, and where it is not known.
    pub min_duration_ns: u64,
}

impl EventInfo {
    /// Whether its weights are those of samples at a rate: each is weighted as about what happened since the one before.
    pub(crate) fn is_estimate(&self) -> bool {
        self.period == 0 && self.kind.unit == Unit::Count
    }
}

/// One observation, or several equal ones that were counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Time since the start of the recording, ns. Stored in files in whole microseconds.
    pub time_ns: u64,
    /// The thread.
    pub task: TaskId,
    /// The stack; `None` when nothing at all is known of it.
    pub stack: Option<StackId>,
    /// Weight, in the event's unit.
    pub weight: u64,
    /// The CPU it was taken on.
    pub cpu: u16,
    /// Outcome of the walk of the user stack.
    pub outcome: Outcome,
    /// Facts about a wait; `time_ns` is its start. `None` for other samples.
    pub wait: Option<Wait>,
    /// Statistics of observations merged into one sample; `time_ns` is the start of their bucket of time.
    pub merged: Option<Merged>,
    /// Facts about a block of memory. `None` for other samples. Where several are one, their mean size and lifetime.
    pub block: Option<HeapBlock>,
    /// Labels that it has; `None` for none. Several observations in one sample have those that all of them had.
    pub labels: Option<LabelSetId>,
}

impl Sample {
    /// Statistics of the observations that it is, of several or of one.
    pub(crate) fn statistics(&self) -> Merged {
        self.merged.unwrap_or_else(|| match self.block {
            Some(block) => block.statistics(self.weight),
            None => Merged::of_one(self.weight, self.wait.as_ref()),
        })
    }
}

/// Fact about a sampled block of memory. The time of its row is that of its allocation, and the weight the bytes that it is
/// weighted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HeapBlock {
    /// Size that was asked for, bytes; at least 1.
    pub size: u64,
    /// Time until it was freed, ns; `None` if it still was there at the end of the recording.
    pub lifetime_ns: Option<u64>,
}

impl HeapBlock {
    /// Number of blocks that it is weighted as, with this weight in bytes.
    pub(crate) fn count(self, weight: u64) -> f64 {
        weight as f64 / self.size.max(1) as f64
    }

    /// Statistics of one with this weight, bytes; thousands of them take the place of microseconds. A weight w of a block of d bytes
    /// was chosen with the chance d / w.
    fn statistics(self, weight: u64) -> Merged {
        let left_out = weight.saturating_sub(self.size) / 1000;
        Merged {
            samples: 1,
            count_thousandths: (self.count(weight) * 1000.0) as u64,
            variance_us2: (weight / 1000).saturating_mul(left_out),
            span_ns: 0,
        }
    }

    /// Whether it is there at `at_ns` if it was allocated at `from_ns`; both from the start of the recording.
    pub(crate) fn is_live(self, from_ns: u64, at_ns: u64) -> bool {
        from_ns <= at_ns && self.lifetime_ns.is_none_or(|lifetime_ns| at_ns - from_ns < lifetime_ns)
    }
}

/// Samples in columns of equal length, each as in [`Sample`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Columns {
    pub(super) time_ns: Vec<u64>,
    pub(super) task: Vec<TaskId>,
    pub(super) stack: Vec<Option<StackId>>,
    pub(super) weight: Vec<u64>,
    pub(super) cpu: Vec<u16>,
    pub(super) outcome: Vec<Outcome>,
    /// Empty, or as long as the others.
    pub(super) wait: Vec<Wait>,
    /// Empty, or as long as the others; of no samples where a row is one observation.
    pub(super) merged: Vec<Merged>,
    /// Empty, or as long as the others.
    pub(super) labels: Vec<Option<LabelSetId>>,
    /// Empty, or as long as the others; of size 0 where a row is no block.
    pub(super) block: Vec<HeapBlock>,
}

impl Columns {
    fn push(&mut self, sample: Sample) {
        let rows = self.time_ns.len();
        self.time_ns.push(sample.time_ns);
        self.task.push(sample.task);
        self.stack.push(sample.stack);
        self.weight.push(sample.weight);
        self.cpu.push(sample.cpu);
        self.outcome.push(sample.outcome);
        self.wait.extend(sample.wait);
        if sample.merged.is_some() || !self.merged.is_empty() {
            self.merged.resize(rows, Merged::default());
            self.merged.push(sample.merged.unwrap_or_default());
        }
        if sample.labels.is_some() || !self.labels.is_empty() {
            self.labels.resize(rows, None);
            self.labels.push(sample.labels);
        }
        if sample.block.is_some() || !self.block.is_empty() {
            self.block.resize(rows, HeapBlock::default());
            self.block.push(sample.block.unwrap_or_default());
        }
    }

    /// Appends the rows of `other` from `from` up to `to`.
    fn extend(&mut self, other: &Columns, from: usize, to: usize) {
        let rows = self.time_ns.len();
        self.time_ns.extend_from_slice(&other.time_ns[from..to]);
        self.task.extend_from_slice(&other.task[from..to]);
        self.stack.extend_from_slice(&other.stack[from..to]);
        self.weight.extend_from_slice(&other.weight[from..to]);
        self.cpu.extend_from_slice(&other.cpu[from..to]);
        self.outcome.extend_from_slice(&other.outcome[from..to]);
        self.wait.extend_from_slice(other.wait.get(from..to).unwrap_or_default());
        let merged = other.merged.get(from..to).unwrap_or_default();
        if !self.merged.is_empty() || merged.iter().any(|merged| merged.samples > 0) {
            self.merged.resize(rows, Merged::default());
            self.merged.extend_from_slice(merged);
            self.merged.resize(rows + to - from, Merged::default());
        }
        let labels = other.labels.get(from..to).unwrap_or_default();
        if !self.labels.is_empty() || labels.iter().any(Option::is_some) {
            self.labels.resize(rows, None);
            self.labels.extend_from_slice(labels);
            self.labels.resize(rows + to - from, None);
        }
        let blocks = other.block.get(from..to).unwrap_or_default();
        if !self.block.is_empty() || blocks.iter().any(|block| block.size > 0) {
            self.block.resize(rows, HeapBlock::default());
            self.block.extend_from_slice(blocks);
            self.block.resize(rows + to - from, HeapBlock::default());
        }
    }

    fn sample(&self, row: usize) -> Sample {
        Sample {
            time_ns: self.time_ns[row],
            task: self.task[row],
            stack: self.stack[row],
            weight: self.weight[row],
            cpu: self.cpu[row],
            outcome: self.outcome[row],
            wait: self.wait.get(row).copied(),
            merged: self.merged.get(row).copied().filter(|merged| merged.samples > 0),
            block: self.block.get(row).copied().filter(|block| block.size > 0),
            labels: self.labels.get(row).copied().flatten(),
        }
    }
}

/// The samples of one event, in columns of equal length.
///
/// The columns are kept in blocks. A copy of an event costs little, and so does what is added to one of both
/// afterwards: whole blocks are shared, and never change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    info: EventInfo,
    /// All but the last have [`BLOCK_ROWS`] rows.
    blocks: Vec<Arc<Columns>>,
    len: usize,
}

impl Event {
    /// An event without samples.
    pub fn new(info: EventInfo) -> Self {
        Event { info, ..Event::default() }
    }

    /// Kind of the event, and how it was sampled.
    pub(crate) fn info(&self) -> &EventInfo {
        &self.info
    }

    /// Adds a sample, which is a wait if the event's samples are.
    pub fn push(&mut self, sample: Sample) {
        debug_assert_eq!(self.has_waits(), sample.wait.is_some());
        self.last_block().push(sample);
        self.len += 1;
    }

    /// Adds samples column by column. The columns must be of equal length.
    pub(super) fn append(&mut self, columns: &Columns) {
        let rows = columns.time_ns.len();
        debug_assert_eq!(rows, columns.outcome.len());
        let mut from = 0;
        while from < rows {
            let to = rows.min(from + BLOCK_ROWS - self.len % BLOCK_ROWS);
            self.last_block().extend(columns, from, to);
            self.len += to - from;
            from = to;
        }
    }

    /// The block that has room for the next sample.
    fn last_block(&mut self) -> &mut Columns {
        if self.len.is_multiple_of(BLOCK_ROWS) {
            self.blocks.push(Arc::default());
        }
        let last = self.blocks.len() - 1;
        Arc::make_mut(&mut self.blocks[last])
    }

    /// Forgets all samples, keeping the info: what a recorder does once they are in the file.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.len = 0;
    }

    /// Number of rows: of samples, equal ones that were counted together being one.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Kind of what the samples observe.
    pub(crate) fn kind(&self) -> &EventKind {
        &self.info.kind
    }

    /// Whether its samples are waits.
    pub(crate) fn has_waits(&self) -> bool {
        self.info.kind.has_duration
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The sample at `index`, which must be below [`Event::len`].
    pub(crate) fn sample(&self, index: usize) -> Sample {
        self.blocks[index / BLOCK_ROWS].sample(index % BLOCK_ROWS)
    }

    /// All samples in stored order (nearly, not strictly, by time).
    pub fn samples(&self) -> impl ExactSizeIterator<Item = Sample> + '_ {
        (0..self.len()).map(|index| self.sample(index))
    }

    /// Sum of all weights (`u64::MAX` when it is larger, which no file that could be read makes it).
    pub fn total_weight(&self) -> u64 {
        let weights = self.blocks.iter().flat_map(|block| &block.weight);
        weights.fold(0, |sum: u64, weight| sum.saturating_add(*weight))
    }

    /// Number of samples; a row that is several counts as many.
    pub fn observations(&self) -> u64 {
        let merged = self.blocks.iter().flat_map(|block| &block.merged).filter(|merged| merged.samples > 0);
        merged.fold(self.len as u64, |sum, merged| sum.saturating_add(merged.samples - 1))
    }

    /// The buckets of time that rows are in of which each is several samples, start and length, ns; one for each row.
    pub(crate) fn merged_buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.blocks.iter().flat_map(|block| {
            let rows = block.time_ns.iter().zip(&block.merged);
            rows.filter(|(_, merged)| merged.samples > 0).map(|(time_ns, merged)| (*time_ns, merged.span_ns))
        })
    }

    /// The time of the latest sample, ns since the start of the recording.
    pub fn last_time_ns(&self) -> Option<u64> {
        self.blocks.iter().flat_map(|block| &block.time_ns).max().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: usize) -> Sample {
        let merged = Merged { samples: 2, count_thousandths: 2_000, variance_us2: 1, span_ns: 5 };
        Sample {
            time_ns: number as u64,
            weight: 1,
            merged: number.is_multiple_of(5_000).then_some(merged),
            labels: number.is_multiple_of(7_000).then_some(LabelSetId(number as u32)),
            ..Sample::default()
        }
    }

    #[test]
    fn samples_come_back_from_all_blocks() {
        let count = 3 * BLOCK_ROWS + 7;
        let mut event = Event::default();
        (0..count).for_each(|at| event.push(number(at)));
        assert_eq!((event.len(), event.total_weight()), (count, count as u64));
        assert_eq!(event.last_time_ns(), Some(count as u64 - 1));
        assert_eq!(event.observations(), count as u64 + 3, "three rows are two each");
        assert!(event.samples().eq((0..count).map(number)));
    }

    #[test]
    fn rows_appended_by_columns_are_those_pushed_one_by_one() {
        let (mut pushed, mut appended) = (Event::default(), Event::default());
        for (from, rows) in [(0, 10), (10, BLOCK_ROWS), (10 + BLOCK_ROWS, 2 * BLOCK_ROWS + 1)] {
            let mut columns = Columns::default();
            for at in from..from + rows {
                pushed.push(number(at));
                columns.push(number(at));
            }
            appended.append(&columns);
        }
        assert_eq!(appended, pushed);
    }

    #[test]
    fn samples_without_labels_take_no_room_for_them() {
        let sets = |labels: [Option<u32>; 3]| {
            let mut columns = Columns::default();
            labels.map(|set| {
                columns.push(Sample { labels: set.map(LabelSetId), ..Sample::default() });
                columns.labels.len()
            })
        };
        assert_eq!(sets([None; 3]), [0; 3]);
        assert_eq!(sets([None, Some(4), None]), [0, 2, 3]);
    }

    #[test]
    fn a_copy_stays_as_it_was() {
        let mut event = Event::default();
        (0..BLOCK_ROWS + 3).for_each(|at| event.push(number(at)));
        let copy = event.clone();
        assert!(Arc::ptr_eq(&copy.blocks[0], &event.blocks[0]), "whole blocks are shared");
        event.push(number(1));
        assert_eq!((copy.len(), event.len()), (BLOCK_ROWS + 3, BLOCK_ROWS + 4));
        assert!(copy.samples().eq((0..BLOCK_ROWS + 3).map(number)));
        event.clear();
        assert_eq!((event.len(), event.samples().count(), copy.len()), (0, 0, BLOCK_ROWS + 3));
    }

    #[test]
    fn a_block_is_live_from_its_allocation_until_it_is_freed() {
        let block = HeapBlock { size: 8, lifetime_ns: Some(10) };
        assert_eq!([4, 5, 14, 15].map(|at_ns| block.is_live(5, at_ns)), [false, true, true, false]);
        assert!(HeapBlock { lifetime_ns: None, ..block }.is_live(5, u64::MAX));
    }
}
