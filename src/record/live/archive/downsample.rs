//! Keeps a recording that is watched for days bounded, by merging equal samples of its past into one.
//!
//! Samples of the last minute stay as they are. Older ones are put into time buckets, which are longer the older they
//! are; in a bucket all samples with the same thread, stack, CPU, outcome and reason are one row, which keeps labels that all
//! of them have. Where that is not
//! enough, buckets grow sooner; then the oldest samples lose their stacks, so that those of a thread are
//! equal; in the end the oldest are dropped, and counted.

use crate::profile::{Event, Merged, Outcome, Reason, Sample, StackId, TaskId, Wait, Waker};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

const SECOND_NS: u64 = 1_000_000_000;

/// Levels as (age, length of buckets), ns: samples older than that age are in buckets of that length. All but the first
/// begin at a lower age when memory is short; the first does when there are too many recent samples.
const LEVELS: [(u64, u64); 8] = [
    (60 * SECOND_NS, SECOND_NS),
    (600 * SECOND_NS, 10 * SECOND_NS),
    (7_200 * SECOND_NS, 60 * SECOND_NS),
    (86_400 * SECOND_NS, 600 * SECOND_NS),
    (4 * 86_400 * SECOND_NS, 2_400 * SECOND_NS),
    (16 * 86_400 * SECOND_NS, 9_600 * SECOND_NS),
    (64 * 86_400 * SECOND_NS, 38_400 * SECOND_NS),
    (256 * 86_400 * SECOND_NS, 153_600 * SECOND_NS),
];
/// Factor by which the ages of levels shrink when memory is short.
const GROWTH: u64 = 4;
/// Number of times that the ages shrink before the oldest samples lose their stacks. By then each level has few buckets, however
/// long the recording is.
const MOST_GROWTH: u32 = 4;
/// Most buckets of samples without stacks; each bucket is at least as long as those of its level.
const MOST_STACKLESS_BUCKETS: u64 = 64;
/// The lowest age that is merged even when memory is short, ns.
const LEAST_AGE_NS: u64 = SECOND_NS;

/// Limits on what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DownsampleLimits {
    /// Most rows of all events.
    pub(crate) rows: usize,
    /// Most rows younger than the first level.
    pub(crate) recent_rows: usize,
}

impl Default for DownsampleLimits {
    fn default() -> Self {
        // A row is up to 100 bytes.
        DownsampleLimits { rows: 200_000, recent_rows: 100_000 }
    }
}

impl DownsampleLimits {
    /// Limits for when stacks hardly ever repeat: such a row takes as long to draw as many rows with stacks that
    /// repeat.
    pub(super) const TIGHT: DownsampleLimits = DownsampleLimits { rows: 30_000, recent_rows: 20_000 };
}

/// Bucket length of the samples older than a given age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rollup {
    /// Age above which samples are in these buckets, ns.
    pub(crate) before_ns: u64,
    /// Length of a bucket, ns.
    pub(crate) bucket_ns: u64,
}

/// Merges the past of events.
#[derive(Debug, Clone, Default)]
pub(crate) struct Downsampler {
    pub(crate) limits: DownsampleLimits,
    /// The stack given to samples that have lost theirs.
    pub(crate) left_out: Option<StackId>,
    growth: u32,
    /// Number of dropped observations, and their weight.
    pub(crate) dropped: u64,
    pub(crate) dropped_weight: u64,
    /// Time before which everything was dropped, ns.
    pub(crate) begins_ns: u64,
    rollup: Vec<Rollup>,
}

impl Downsampler {
    /// Makes a downsampler that has merged nothing yet.
    pub(crate) fn new(limits: DownsampleLimits) -> Self {
        Downsampler { limits, ..Downsampler::default() }
    }

    /// Bucket lengths by age, youngest first.
    #[cfg(test)]
    pub(crate) fn rollup(&self) -> &[Rollup] {
        &self.rollup
    }

    /// Merges what has become old by `now_ns`, and keeps to the limits.
    pub(crate) fn downsample(&mut self, events: &mut [Event], now_ns: u64) {
        let youngest_ns = self.youngest(events, now_ns);
        loop {
            let levels = self.levels(youngest_ns, now_ns);
            events.iter_mut().for_each(|event| merge_event(event, &levels));
            self.note(&levels, now_ns);
            let rows: usize = events.iter().map(Event::len).sum();
            if rows <= self.limits.rows {
                return;
            }
            if self.growth == MOST_GROWTH {
                self.forget_oldest_stacks(events, levels.first().map_or(SECOND_NS, |level| level.1));
                if events.iter().map(Event::len).sum::<usize>() > self.limits.rows {
                    self.drop_oldest(events);
                }
                return;
            }
            self.growth += 1;
        }
    }

    /// The age from which samples are merged: lower than usual if too many are younger.
    fn youngest(&self, events: &[Event], now_ns: u64) -> u64 {
        let mut age_ns = LEVELS[0].0;
        while age_ns > LEAST_AGE_NS {
            let since_ns = now_ns.saturating_sub(age_ns);
            let samples = events.iter().flat_map(Event::samples);
            let recent = samples.filter(|sample| sample.merged.is_none() && sample.time_ns >= since_ns);
            if recent.count() <= self.limits.recent_rows {
                break;
            }
            age_ns /= 2;
        }
        age_ns
    }

    /// The time before which each level applies, and the length of its buckets, longest buckets first.
    fn levels(&self, youngest_ns: u64, now_ns: u64) -> Vec<(u64, u64)> {
        let factor = GROWTH.pow(self.growth);
        let mut levels = Vec::new();
        let mut last_age_ns = youngest_ns;
        for (index, (age_ns, bucket_ns)) in LEVELS.into_iter().enumerate() {
            let age_ns = match index {
                0 => youngest_ns,
                _ => (age_ns / factor).max(bucket_ns).max(last_age_ns),
            };
            last_age_ns = age_ns;
            // Only whole buckets are merged, so that each is merged once.
            let before_ns = now_ns.saturating_sub(age_ns) / bucket_ns * bucket_ns;
            if before_ns > 0 {
                levels.push((before_ns, bucket_ns));
            }
        }
        levels.reverse();
        levels
    }

    fn note(&mut self, levels: &[(u64, u64)], now_ns: u64) {
        self.rollup.clear();
        for &(before_ns, bucket_ns) in
            levels.iter().rev().filter(|(before_ns, _)| *before_ns > self.begins_ns)
        {
            let before_ns = now_ns.saturating_sub(before_ns);
            match self.rollup.last_mut() {
                // A level with longer buckets that begins no later replaces this one.
                Some(last) if last.before_ns >= before_ns => last.bucket_ns = bucket_ns,
                _ => self.rollup.push(Rollup { before_ns, bucket_ns }),
            }
        }
    }

    /// The time that splits off the oldest rows, so that the rest fit with some room to spare. `None` if all rows fit.
    fn end_of_oldest(&self, events: &[Event]) -> Option<u64> {
        let mut times: Vec<u64> =
            events.iter().flat_map(Event::samples).map(|sample| sample.time_ns).collect();
        let keep = self.limits.rows / 4 * 3;
        let last = times.len().saturating_sub(keep).checked_sub(1)?;
        let (_, &mut newest, _) = times.select_nth_unstable(last);
        Some(newest.saturating_add(1))
    }

    /// Removes the stacks of the oldest samples, and everything else that makes samples of one thread differ: sums stay
    /// right even where stacks never repeat. Buckets are at least `bucket_ns` long.
    fn forget_oldest_stacks(&self, events: &mut [Event], bucket_ns: u64) {
        let (Some(end_ns), Some(left_out)) = (self.end_of_oldest(events), self.left_out) else { return };
        let mut bucket_ns = bucket_ns.max(1);
        while end_ns / bucket_ns > MOST_STACKLESS_BUCKETS {
            bucket_ns *= 2;
        }
        for event in events {
            let mut all = Event::new(event.info().clone());
            for sample in event.samples() {
                let is_old = sample.time_ns < end_ns && sample.stack != Some(left_out);
                all.push(if is_old { without_stack(sample, left_out) } else { sample });
            }
            merge_event(&mut all, &[(end_ns, bucket_ns)]);
            *event = all;
        }
    }

    /// Drops the oldest rows until there is some room again.
    fn drop_oldest(&mut self, events: &mut [Event]) {
        let Some(begins_ns) = self.end_of_oldest(events) else { return };
        for event in events {
            let mut kept = Event::new(event.info().clone());
            for sample in event.samples() {
                if sample.time_ns >= begins_ns {
                    kept.push(sample);
                } else {
                    let merged = sample.statistics();
                    self.dropped = self.dropped.saturating_add(merged.samples);
                    self.dropped_weight = self.dropped_weight.saturating_add(sample.weight);
                }
            }
            *event = kept;
        }
        self.begins_ns = self.begins_ns.max(begins_ns);
    }
}

/// The sample without its stack, and without the details that go with it.
fn without_stack(sample: Sample, left_out: StackId) -> Sample {
    let outcome = if sample.outcome.is_complete() { Outcome::MiddleLeftOut } else { sample.outcome };
    let wait =
        sample.wait.map(|wait| Wait { waker: Waker { kind: wait.waker.kind, ..Waker::default() }, ..wait });
    Sample { stack: Some(left_out), cpu: 0, outcome, wait, ..sample }
}

/// Key by which samples of one bucket are merged. Merged waits differ in length by an eighth at most, and blocks in how long they
/// were there; those that still are there are others.
type MergeKey = (TaskId, Option<StackId>, Outcome, u16, Option<(Reason, Waker, u32)>, Option<Option<u32>>);
/// Key of the longest waits, which are kept as they are.
type LongestKey = (TaskId, Option<StackId>, Reason);

fn key(sample: &Sample) -> MergeKey {
    let wait = sample.wait.map(|wait| (wait.reason, wait.waker, length_class(wait.duration_ns)));
    let block = sample.block.map(|block| block.lifetime_ns.map(length_class));
    (sample.task, sample.stack, sample.outcome, sample.cpu, wait, block)
}

/// Class of a wait's length: eight classes for each power of two.
fn length_class(duration_ns: u64) -> u32 {
    let power = 63 - duration_ns.max(8).leading_zeros();
    power * 8 + (duration_ns.max(8) >> (power - 3) & 7) as u32
}

/// Merges the samples that are before the times of `levels`, longest buckets first. Younger samples stay as they are, at the
/// end of the event.
fn merge_event(event: &mut Event, levels: &[(u64, u64)]) {
    // One bucket after the other: all at once would take several times the memory of the samples.
    let mut old: Vec<(u64, u32)> = Vec::new();
    let mut recent: Vec<u32> = Vec::new();
    for (row, sample) in (0..).zip(event.samples()) {
        match levels.iter().find(|(before_ns, _)| sample.time_ns < *before_ns) {
            // A bucket of the next level begins exactly where a level ends, so no two buckets have the same start.
            Some((_, bucket_ns)) => old.push((sample.time_ns / bucket_ns * bucket_ns, row)),
            None => recent.push(row),
        }
    }
    if old.is_empty() {
        return;
    }
    old.sort_unstable();
    let mut all = Event::new(event.info().clone());
    let mut bucket = Bucket::default();
    for same in old.chunk_by(|a, b| a.0 == b.0) {
        let start_ns = same[0].0;
        // The level with the longest buckets whose end is after the start: a level ends where the one with shorter buckets begins.
        let length_ns = levels.iter().find(|(before_ns, _)| start_ns < *before_ns).map_or(0, |level| level.1);
        bucket.span = start_ns..start_ns.saturating_add(length_ns);
        same.iter().for_each(|(_, row)| bucket.add(event.sample(*row as usize)));
        bucket.empty_into(&mut all);
    }
    recent.into_iter().for_each(|row| all.push(event.sample(row as usize)));
    *event = all;
}

/// The samples of one time bucket, with equal ones in one row.
#[derive(Debug, Default)]
struct Bucket {
    /// Start and end of the bucket, ns.
    span: Range<u64>,
    rows: FxHashMap<MergeKey, Sample>,
    longest: FxHashMap<LongestKey, Sample>,
    /// Waits that end after the bucket. They stay apart because merged rows lie in the bucket with all their time.
    beyond: Vec<Sample>,
}

impl Bucket {
    fn add(&mut self, mut sample: Sample) {
        if let Some(wait) = sample.wait
            && sample.merged.is_none()
        {
            if sample.time_ns.saturating_add(wait.duration_ns) > self.span.end {
                self.beyond.push(sample);
                return;
            }
            match self.longest.entry((sample.task, sample.stack, wait.reason)) {
                Entry::Vacant(none) => {
                    none.insert(sample);
                    return;
                }
                Entry::Occupied(mut known) => {
                    let known_ns = known.get().wait.map_or(0, |wait| wait.duration_ns);
                    if wait.duration_ns > known_ns {
                        sample = known.insert(sample);
                    }
                }
            }
        }
        self.rows.entry(key(&sample)).and_modify(|row| merge(row, &sample)).or_insert(sample);
    }

    /// Moves all rows to the end of `event`, by time. A merged row takes the start and length of the bucket, because
    /// the times of its samples are forgotten.
    fn empty_into(&mut self, event: &mut Event) {
        let (start_ns, span_ns) = (self.span.start, self.span.end - self.span.start);
        let rows = self.rows.drain().map(|(_, row)| match row.merged {
            // A row that was merged before and is alone in this bucket, too, keeps its span.
            Some(merged) if merged.span_ns == 0 => {
                Sample { time_ns: start_ns, merged: Some(Merged { span_ns, ..merged }), ..row }
            }
            _ => row,
        });
        let rows = rows.chain(self.longest.drain().map(|(_, row)| row)).chain(self.beyond.drain(..));
        let mut rows: Vec<Sample> = rows.collect();
        rows.sort_unstable_by_key(|sample| {
            (sample.time_ns, sample.task, sample.stack, sample.cpu, sample.outcome, sample.weight)
        });
        rows.into_iter().for_each(|row| event.push(row));
    }
}

/// Adds `other` to `row`, whose time is then that of the bucket.
fn merge(row: &mut Sample, other: &Sample) {
    let (one, two) = (row.statistics(), other.statistics());
    let (count, other_count) = (u128::from(one.count_thousandths), u128::from(two.count_thousandths));
    let mean = |ours: u64, theirs: u64| {
        let sum = u128::from(ours) * count + u128::from(theirs) * other_count;
        u64::try_from(sum / (count + other_count).max(1)).unwrap_or(u64::MAX)
    };
    if let (Some(wait), Some(other)) = (&mut row.wait, &other.wait) {
        wait.duration_ns = mean(wait.duration_ns, other.duration_ns);
    }
    if let (Some(block), Some(other)) = (&mut row.block, &other.block) {
        block.size = mean(block.size, other.size);
        block.lifetime_ns = block.lifetime_ns.zip(other.lifetime_ns).map(|(ours, theirs)| mean(ours, theirs));
    }
    row.weight = row.weight.saturating_add(other.weight);
    row.labels = row.labels.filter(|labels| other.labels == Some(*labels));
    row.merged = Some(Merged {
        samples: one.samples.saturating_add(two.samples),
        count_thousandths: one.count_thousandths.saturating_add(two.count_thousandths),
        variance_us2: one.variance_us2.saturating_add(two.variance_us2),
        // Set to the span of the bucket when it is emptied.
        span_ns: 0,
    });
}
