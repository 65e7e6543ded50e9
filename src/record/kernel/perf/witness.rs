//! Whether what was read for a sample is what the sampled thread had at that time: the kernel's records of its switches say it.
//!
//! ```text
//! sample ──▶ the thread leaves its CPU, and would have gone on ──▶ begin … end of the read ──▶ it is back
//!        └── at once: it has not run since ──┘                     └── nor meanwhile ──┘
//! ```

use super::functions::FunctionRead;
use super::record::{RecordOf, TimedRecord};
use rustc_hash::FxHashMap;

/// A thread that leaves its CPU so soon after a sample has not run since, ns: the kernel takes most of that time to copy its
/// stack and to switch.
const MOST_DELAY_NS: u64 = 100_000;

/// What was read for samples, by thread and time.
pub(super) type ReadsOfSamples = FxHashMap<(u32, u64), FunctionRead>;

/// A read that is being judged.
#[derive(Debug)]
struct JudgedRead {
    /// Number of the sample's record.
    sample: usize,
    read: FunctionRead,
    /// The thread has left its CPU, in time.
    has_left: bool,
}

impl JudgedRead {
    /// Notes a later record of the thread. Returns whether what was read is the sample's, once that is known.
    fn note(&mut self, record: &TimedRecord) -> Option<bool> {
        let is_over = self.read.end_ns <= record.time_ns;
        match record.what {
            RecordOf::SwitchOut { is_preempted } if !self.has_left => {
                let is_at_once = record.time_ns.saturating_sub(self.read.time_ns) <= MOST_DELAY_NS;
                self.has_left = is_preempted && is_at_once && record.time_ns <= self.read.begin_ns;
                (!self.has_left).then_some(false)
            }
            RecordOf::SwitchIn => Some(self.has_left && is_over),
            // It runs, and there is no word of its coming.
            RecordOf::Sample(_) if self.has_left => Some(is_over),
            _ => None,
        }
    }
}

/// Gives the samples among the first `known` records what was read for them, where the thread has not run from the sample to the
/// end of the read. Records are by time, and all of those before `until_ns` are there. Takes out of `reads` what it has judged.
pub(super) fn give_functions(
    records: &mut [TimedRecord],
    known: usize,
    reads: &mut ReadsOfSamples,
    until_ns: u64,
) {
    let mut judged: FxHashMap<u32, JudgedRead> = FxHashMap::default();
    let mut held: Vec<JudgedRead> = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let tid = record.tid;
        if let Some(is_its) = judged.get_mut(&tid).and_then(|judged| judged.note(record)) {
            held.extend(judged.remove(&tid).filter(|_| is_its));
        }
        let is_known_sample = index < known && matches!(record.what, RecordOf::Sample(_));
        if is_known_sample && let Some(read) = reads.remove(&(tid, record.time_ns)) {
            judged.insert(tid, JudgedRead { sample: index, read, has_left: false });
        }
    }
    held.extend(judged.into_values().filter(|judged| judged.has_left && judged.read.end_ns < until_ns));
    for JudgedRead { sample, read, .. } in held {
        if let Some(RecordOf::Sample(sample)) = records.get_mut(sample).map(|record| &mut record.what) {
            sample.functions = Some(read.functions);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kernel::perf::functions::ReadFunctions;
    use crate::record::kernel::perf::record::{CopiedSample, CopiedUser};

    fn record(time_ns: u64, what: RecordOf) -> TimedRecord {
        TimedRecord { time_ns, tgid: 7, tid: 8, cpu: 0, what }
    }

    fn sample(time_ns: u64) -> TimedRecord {
        let sample =
            CopiedSample { id: 1, period: 1, kernel: Vec::new(), user: CopiedUser::None, functions: None };
        record(time_ns, RecordOf::Sample(Box::new(sample)))
    }

    fn left(time_ns: u64, is_preempted: bool) -> TimedRecord {
        record(time_ns, RecordOf::SwitchOut { is_preempted })
    }

    fn came(time_ns: u64) -> TimedRecord {
        record(time_ns, RecordOf::SwitchIn)
    }

    /// Whether the first record, a sample of 1,000 ns, has what was read `from_ns` for 10,000 ns.
    fn is_given_of(from_ns: u64, mut records: Vec<TimedRecord>, until_ns: u64) -> bool {
        let functions = ReadFunctions::default();
        let read =
            FunctionRead { tid: 8, time_ns: 1_000, begin_ns: from_ns, end_ns: from_ns + 10_000, functions };
        let mut reads = ReadsOfSamples::from_iter([((8, 1_000), read)]);
        give_functions(&mut records, 1, &mut reads, until_ns);
        assert!(reads.is_empty());
        matches!(&records[0].what, RecordOf::Sample(sample) if sample.functions.is_some())
    }

    fn is_given(records: Vec<TimedRecord>) -> bool {
        is_given_of(50_000, records, 1_000_000)
    }

    #[test]
    fn what_was_read_while_the_thread_could_not_go_on_is_the_samples() {
        assert!(is_given(vec![sample(1_000), left(30_000, true), came(60_000)]));
        assert!(is_given_of(50_000, vec![sample(1_000), left(30_000, true)], 60_001), "it is not back yet");
        let others = TimedRecord { tid: 9, ..came(40_000) };
        assert!(is_given(vec![sample(1_000), left(30_000, true), others, came(70_000)]));
        assert!(
            is_given(vec![sample(1_000), sample(1_000), left(30_000, true), came(70_000)]),
            "a counter's"
        );
    }

    #[test]
    fn what_may_be_of_later_is_not() {
        for (records, why) in [
            (vec![sample(1_000)], "it has never left"),
            (vec![sample(1_000), left(30_000, false), came(70_000)], "it has done something, and waits"),
            (vec![sample(1_000), left(50_001, true), came(70_000)], "it ran when the read began"),
            (vec![sample(1_000), left(30_000, true), came(59_999)], "it came back too early"),
            (vec![sample(1_000), came(20_000), left(30_000, true)], "nobody knows"),
            (vec![sample(1_000), left(30_000, true), sample(55_000)], "it runs"),
        ] {
            assert!(!is_given(records), "{why}");
        }
        assert!(!is_given_of(50_000, vec![sample(1_000), left(30_000, true)], 60_000), "there may be more");
        let left_late = vec![sample(1_000), left(1_001 + MOST_DELAY_NS, true)];
        assert!(!is_given_of(500_000, left_late, 1_000_000), "it has run for a while");
    }

    #[test]
    fn what_was_read_for_a_sample_that_is_not_known_yet_is_kept() {
        let functions = ReadFunctions::default();
        let read = FunctionRead { tid: 8, time_ns: 1_000, begin_ns: 50_000, end_ns: 60_000, functions };
        let mut reads = ReadsOfSamples::from_iter([((8, 1_000), read)]);
        give_functions(&mut [sample(1_000), left(30_000, true)], 0, &mut reads, 1_000_000);
        assert_eq!(reads.len(), 1);
    }
}
