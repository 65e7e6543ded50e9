//! Sorts records by time.
//!
//! perf writes the records of each CPU in order, one CPU after the other, in rounds. At the end of a round, no record
//! still to come can be older than the latest one of the round before.

use super::record::MISC_MODE;
use super::sample::UserCopy;

/// Most bytes that are kept before some records are passed on, which happens in a file without rounds.
const MAX_PENDING_BYTES: usize = 64 << 20;
/// Bytes of copied stacks that may be pending: more than two rounds of a large machine have, since records that are passed on
/// too early are out of order.
const MAX_COPIED_BYTES: usize = 512 << 20;

/// The part of a sample that is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptSample {
    pub(super) attribute: u32,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) cpu: u16,
    pub(super) is_timed: bool,
    /// The bits of [`MISC_MODE`].
    pub(super) mode: u16,
    pub(super) period: u64,
    pub(super) ip: u64,
    pub(super) user_ip: Option<u64>,
    /// Range of the addresses.
    chain: (usize, usize),
    copy: Option<KeptCopy>,
}

/// Place of the copied registers and stack of a sample.
#[derive(Debug, Clone, Copy)]
struct KeptCopy {
    /// As in [`UserCopy`].
    register_mask: u64,
    /// As in [`UserCopy`].
    is_whole: bool,
    range: (usize, usize),
}

/// A record that is waiting to be sorted.
#[derive(Debug, Clone, Copy)]
pub(super) enum PendingRecord {
    Sample(KeptSample),
    Other { kind: u32, misc: u16, body: (usize, usize) },
}

/// Records with the data they refer to.
#[derive(Debug, Default)]
pub(super) struct RecordBatch {
    /// Time, order of arrival, and record.
    pub(super) entries: Vec<(u64, u64, PendingRecord)>,
    words: Vec<u64>,
    bytes: Vec<u8>,
    /// Registers and stacks.
    copies: Vec<u8>,
}

impl RecordBatch {
    /// The callchain of a sample.
    pub(super) fn chain(&self, sample: &KeptSample) -> &[u64] {
        &self.words[sample.chain.0..sample.chain.1]
    }

    /// Registers and stack of a sample, where they were copied.
    pub(super) fn copy(&self, sample: &KeptSample) -> Option<UserCopy<'_>> {
        let KeptCopy { register_mask, is_whole, range } = sample.copy?;
        let bytes = &self.copies[range.0..range.1];
        let (registers, stack) = bytes.split_at_checked(8 * register_mask.count_ones() as usize)?;
        Some(UserCopy { register_mask, registers, stack, is_whole })
    }

    /// The bytes of another record.
    pub(super) fn body(&self, range: (usize, usize)) -> &[u8] {
        &self.bytes[range.0..range.1]
    }

    fn held_bytes(&self) -> usize {
        let entry = std::mem::size_of::<(u64, u64, PendingRecord)>();
        self.entries.len() * entry + self.words.len() * 8 + self.bytes.len()
    }

    fn add_sample(
        &mut self,
        (time, order): (u64, u64),
        sample: KeptSample,
        chain: impl Iterator<Item = u64>,
        copy: Option<UserCopy<'_>>,
    ) {
        let start = self.words.len();
        self.words.extend(chain);
        let copy = copy.map(|copy| {
            let from = self.copies.len();
            self.copies.extend_from_slice(copy.registers);
            self.copies.extend_from_slice(copy.stack);
            let range = (from, self.copies.len());
            KeptCopy { register_mask: copy.register_mask, is_whole: copy.is_whole, range }
        });
        let sample = KeptSample { chain: (start, self.words.len()), copy, ..sample };
        self.entries.push((time, order, PendingRecord::Sample(sample)));
    }

    fn add_other(&mut self, time: u64, order: u64, kind: u32, misc: u16, body: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(body);
        let body = (start, self.bytes.len());
        self.entries.push((time, order, PendingRecord::Other { kind, misc, body }));
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.words.clear();
        self.bytes.clear();
        self.copies.clear();
    }
}

/// Sorts records.
#[derive(Debug, Default)]
pub(super) struct RecordSorter {
    pending: RecordBatch,
    /// An empty batch that is reused for its capacity.
    spare: RecordBatch,
    order: u64,
    /// The latest time so far, and at the end of the round before.
    latest: u64,
    latest_before: u64,
}

impl RecordSorter {
    /// Adds a sample with the addresses of its stack.
    pub(super) fn add_sample(
        &mut self,
        time: Option<u64>,
        mut sample: KeptSample,
        chain: &[u8],
        copy: Option<UserCopy<'_>>,
    ) {
        let time = self.noted(time);
        sample.mode &= MISC_MODE;
        let words = chain.chunks_exact(8).filter_map(|word| super::bytes::u64_at(word, 0));
        self.pending.add_sample((time, self.order), sample, words, copy);
    }

    /// Adds another record. Without a time it sorts before everything else.
    pub(super) fn add_other(&mut self, time: Option<u64>, kind: u32, misc: u16, body: &[u8]) {
        let time = self.noted(time);
        self.pending.add_other(time, self.order, kind, misc, body);
    }

    fn noted(&mut self, time: Option<u64>) -> u64 {
        self.order += 1;
        let time = time.unwrap_or(0);
        self.latest = self.latest.max(time);
        time
    }

    /// Whether so much is pending that some has to be passed on.
    pub(super) fn is_full(&self) -> bool {
        self.pending.held_bytes() > MAX_PENDING_BYTES || self.pending.copies.len() > MAX_COPIED_BYTES
    }

    /// Ends a round; returns the records that nothing can precede any more.
    pub(super) fn end_round(&mut self) -> RecordBatch {
        let until = std::mem::replace(&mut self.latest_before, self.latest);
        self.take(|time| time <= until)
    }

    /// Takes the older half, whatever may still come.
    pub(super) fn take_half(&mut self) -> RecordBatch {
        let entries = &mut self.pending.entries;
        let middle = entries.len() / 2;
        if entries.is_empty() {
            return RecordBatch::default();
        }
        let (_, &mut (until, ..), _) = entries.select_nth_unstable_by_key(middle, |entry| (entry.0, entry.1));
        self.take(|time| time <= until)
    }

    /// Takes everything that is left.
    pub(super) fn take_all(&mut self) -> RecordBatch {
        self.take(|_| true)
    }

    fn take(&mut self, is_due: impl Fn(u64) -> bool) -> RecordBatch {
        let mut batch = std::mem::take(&mut self.pending);
        batch.entries.sort_unstable_by_key(|entry| (entry.0, entry.1));
        let due = batch.entries.partition_point(|entry| is_due(entry.0));
        let mut rest = std::mem::take(&mut self.spare);
        for &(time, order, record) in &batch.entries[due..] {
            match record {
                PendingRecord::Sample(sample) => {
                    let chain = batch.chain(&sample).iter().copied();
                    rest.add_sample((time, order), sample, chain, batch.copy(&sample));
                }
                PendingRecord::Other { kind, misc, body } => {
                    rest.add_other(time, order, kind, misc, batch.body(body));
                }
            }
        }
        batch.entries.truncate(due);
        self.pending = rest;
        batch
    }

    /// Takes back a batch after it was processed.
    pub(super) fn recycle(&mut self, mut batch: RecordBatch) {
        batch.clear();
        self.spare = batch;
    }
}

impl KeptSample {
    /// A sample without its callchain.
    pub(super) fn of(
        sample: &super::sample::PerfSample<'_>,
        attribute: usize,
        period: u64,
        misc: u16,
    ) -> Self {
        KeptSample {
            attribute: attribute as u32,
            pid: sample.pid,
            tid: sample.tid,
            cpu: u16::try_from(sample.cpu).unwrap_or(u16::MAX),
            is_timed: sample.time_ns.is_some(),
            mode: misc,
            period,
            ip: sample.ip,
            user_ip: sample.user_ip,
            chain: (0, 0),
            copy: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(batch: &RecordBatch) -> Vec<u64> {
        batch.entries.iter().map(|entry| entry.0).collect()
    }

    #[test]
    fn records_come_in_order_of_time_round_by_round() {
        let mut sorter = RecordSorter::default();
        // The rounds in perf's own example.
        for (round, due) in [
            (vec![1, 2, 2, 3, 4], vec![]),
            (vec![3, 4, 5, 5, 6, 7], vec![1, 2, 2, 3, 3, 4, 4]),
            (vec![6, 7, 8, 8, 9, 10], vec![5, 5, 6, 6, 7, 7]),
        ] {
            for time in round {
                sorter.add_other(Some(time), 1, 0, &time.to_le_bytes());
            }
            let batch = sorter.end_round();
            assert_eq!(times(&batch), due);
            for entry in &batch.entries {
                let PendingRecord::Other { body, .. } = entry.2 else { panic!("no samples were added") };
                assert_eq!(batch.body(body), entry.0.to_le_bytes());
            }
            sorter.recycle(batch);
        }
        assert_eq!(times(&sorter.take_half()), [8, 8, 9]);
        assert_eq!(times(&sorter.take_all()), [10]);
        assert_eq!(times(&sorter.take_half()), [0u64; 0]);
    }
}
