//! When threads ran and waited: a row of buckets for each thread or thread name, and a map of the whole recording.
//!
//! The filters are those of all views, but for the range of time, which is chosen here. A sample stands for the time
//! before it; a wait lies in all buckets that it touches, each with its part. A kept wait that stands for several counts
//! with its weight, spread evenly over its length.

use super::Recording;
use super::filter::SampleFilter;
use super::group::{Activity, Key, parts_of};
use super::heat_map::HeatMap;
use super::metric::{Metric, Shown};
use super::options::{CommonOptions, FilterOptions, Space, TimeRange};
use super::selection::Selection;
use super::spread::Spread;
use crate::failure::Failure;
use crate::profile::{Profile, Reason, Sample, TaskId};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Most rows; the threads with the least time beyond that share the last one.
pub(super) const MOST_ROWS: usize = 400;
/// Most buckets of a row.
const MOST_BUCKETS: usize = 4_096;

/// Where the time of some threads went, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Busy {
    /// On a CPU, by samples.
    pub on_cpu_ns: u64,
    /// Ready to run, without a CPU.
    pub no_cpu_ns: u64,
    /// Blocked; idle waits only if they are shown.
    pub blocked_ns: u64,
}

impl Busy {
    /// All of it.
    pub fn sum_ns(&self) -> u64 {
        self.on_cpu_ns.saturating_add(self.no_cpu_ns).saturating_add(self.blocked_ns)
    }

    /// Adds other times.
    pub fn add(&mut self, other: Busy) {
        self.on_cpu_ns = self.on_cpu_ns.saturating_add(other.on_cpu_ns);
        self.no_cpu_ns = self.no_cpu_ns.saturating_add(other.no_cpu_ns);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
    }
}

/// One thread, or all threads of one name and process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineRow {
    /// Name of the threads; empty for the row of all threads that have none of their own. Foreign text.
    pub thread: String,
    /// Name of their process. Foreign text.
    pub process: String,
    /// The thread, where it has a row for itself.
    pub tid: Option<u32>,
    /// How many threads.
    pub threads: u64,
    /// Their time in each bucket.
    pub buckets: Vec<Busy>,
    /// Their time in all buckets.
    pub sum: Busy,
    /// It stands for all threads that have no row.
    pub is_rest: bool,
}

/// The whole recording, in buckets of equal length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// Length of the recording, ns.
    pub duration_ns: u64,
    /// Length of a bucket, ns; at least 1. The last one may end after the recording.
    pub bucket_ns: u64,
    /// The rows, busiest first.
    pub rows: Vec<TimelineRow>,
    /// The time that the metric is about, of all rows.
    pub heat: HeatMap,
}

/// What makes threads share a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RowKey {
    Name(u32, u32),
    Thread(u32, u32),
}

impl Timeline {
    /// The timeline of `recording` in `buckets` buckets, with a row for each thread if `is_split`.
    ///
    /// # Errors
    ///
    /// A usage failure for a bad pattern; status 3 when the recording lacks what the metric is about.
    pub fn new(
        recording: &Recording,
        options: &CommonOptions,
        buckets: usize,
        is_split: bool,
    ) -> Result<Self, Failure> {
        let profile = &recording.profile;
        let passing = Passing::new(recording, options)?;
        let duration_ns = profile.duration_ns().max(1);
        let buckets = buckets.clamp(1, MOST_BUCKETS);
        let bucket_ns = duration_ns.div_ceil(buckets as u64).max(1);
        let buckets = duration_ns.div_ceil(bucket_ns) as usize;
        let heat_metric = recording.shown(options.metric)?.metric().unwrap_or(Metric::OnCpu);
        let mut rows = Rows::new(profile, &passing, is_split, buckets, bucket_ns);
        let mut heat = HeatMap::spread(duration_ns);
        let shown = Shown::time_of(profile);
        for event in shown.sampled.into_iter().chain(shown.waits) {
            let (empty, no_heat) = (rows.empty(), HeatMap::spread(duration_ns));
            let parts: Vec<(Rows, Spread)> = (parts_of(event).into_par_iter())
                .map(|part| {
                    let (mut rows, mut heat) = (empty.clone(), no_heat.clone());
                    for sample in part.map(|row| event.sample(row)).filter(|sample| passing.keeps(sample)) {
                        rows.add(&sample);
                        let length_ns = sample.wait.map(|wait| wait.duration_ns);
                        let left_out = if length_ns.is_some() { Metric::OnCpu } else { Metric::OffCpu };
                        if heat_metric != left_out {
                            heat.add(sample.time_ns, length_ns.unwrap_or(0), sample.weight);
                        }
                    }
                    (rows, heat)
                })
                .collect();
            for (part, part_heat) in &parts {
                rows.merge(part);
                heat.merge(part_heat);
            }
        }
        let heat = HeatMap::new(duration_ns, heat);
        Ok(Timeline { duration_ns, bucket_ns, rows: rows.finish(profile), heat })
    }
}

/// Which samples pass the filters, whatever their time.
struct Passing<'r> {
    recording: &'r Recording,
    filter: SampleFilter,
    cpus: bool,
    shows_idle: bool,
    /// Samples whose names pass; `None` when no filter is on names.
    keys: Option<FxHashSet<Key>>,
}

impl<'r> Passing<'r> {
    fn new(recording: &'r Recording, options: &CommonOptions) -> Result<Self, Failure> {
        let filter = FilterOptions { time: TimeRange::default(), hide: None, ..options.filter.clone() };
        let is_on_names = filter.focus.is_some()
            || filter.ignore.is_some()
            || filter.space != Space::All
            || !filter.stacks.is_empty();
        let shows_idle = filter.idle;
        let sample_filter = SampleFilter::new(&filter, &recording.profile.tables)?;
        let cpus = !filter.cpus.is_empty();
        let keys = if is_on_names {
            let options = CommonOptions { filter: FilterOptions { idle: true, ..filter }, ..options.clone() };
            let selection = Selection::new(recording, Shown::time_of(&recording.profile), &options)?;
            Some(
                selection
                    .groups()
                    .iter()
                    .map(|group| (group.task, group.stack, group.outcome, group.activity))
                    .collect(),
            )
        } else {
            None
        };
        Ok(Passing { recording, filter: sample_filter, cpus, shows_idle, keys })
    }

    fn keeps(&self, sample: &Sample) -> bool {
        if !self.filter.keeps_task(sample.task) || (self.cpus && self.filter.amount(sample).is_none()) {
            return false;
        }
        if let Some(keys) = &self.keys
            && !keys.contains(&(sample.task, sample.stack, sample.outcome, Activity::of(sample)))
        {
            return false;
        }
        match &sample.wait {
            Some(wait) if !self.shows_idle => {
                !self.recording.idle_waits().is_idle(sample.task, sample.stack, wait.reason)
            }
            _ => true,
        }
    }
}

/// One row under construction.
#[derive(Clone)]
struct RowSums {
    on_cpu: Spread,
    no_cpu: Spread,
    blocked: Spread,
}

/// All rows under construction.
#[derive(Clone)]
struct Rows {
    /// The row of each task.
    of_task: Vec<usize>,
    keys: Vec<Option<RowKey>>,
    sums: Vec<RowSums>,
    seen: Vec<bool>,
    buckets: usize,
    bucket_ns: u64,
}

impl Rows {
    fn new(profile: &Profile, passing: &Passing<'_>, is_split: bool, buckets: usize, bucket_ns: u64) -> Self {
        let tasks = profile.tables.tasks();
        let key = |index: usize| {
            let task = &tasks[index];
            if is_split {
                RowKey::Thread(task.tid, task.generation)
            } else {
                RowKey::Name(task.comm.0, task.process.0)
            }
        };
        let mut seen = vec![false; tasks.len()];
        for time in profile.thread_times.iter().filter(|time| passing.filter.keeps_task(time.task)) {
            seen[time.task.index()] = true;
        }
        let mut numbers: FxHashMap<RowKey, usize> = FxHashMap::default();
        for index in 0..tasks.len() {
            let next = numbers.len();
            numbers.entry(key(index)).or_insert(next);
        }
        let mut of_task: Vec<usize> = (0..tasks.len()).map(|index| numbers[&key(index)]).collect();
        let mut keys: Vec<Option<RowKey>> = vec![None; numbers.len()];
        numbers.iter().for_each(|(key, at)| keys[*at] = Some(*key));
        if keys.len() > MOST_ROWS {
            // Few have rows of their own: those with most time.
            let mut weights = vec![0u64; keys.len()];
            let shown = Shown::time_of(profile);
            for event in shown.sampled.into_iter().chain(shown.waits) {
                for sample in event.samples().filter(|sample| passing.keeps(sample)) {
                    let weight = &mut weights[of_task[sample.task.index()]];
                    *weight = weight.saturating_add(sample.weight);
                }
            }
            let mut order: Vec<usize> = (0..keys.len()).collect();
            order.sort_by_key(|row| (Reverse(weights[*row]), *row));
            let mut renumbered = vec![MOST_ROWS - 1; keys.len()];
            let mut kept = Vec::with_capacity(MOST_ROWS);
            for (number, row) in order.into_iter().take(MOST_ROWS - 1).enumerate() {
                renumbered[row] = number;
                kept.push(keys[row]);
            }
            kept.push(None);
            keys = kept;
            of_task.iter_mut().for_each(|row| *row = renumbered[*row]);
        }
        let spread = || Spread::new(buckets, bucket_ns);
        let sums =
            keys.iter().map(|_| RowSums { on_cpu: spread(), no_cpu: spread(), blocked: spread() }).collect();
        Rows { of_task, keys, sums, seen, buckets, bucket_ns }
    }

    fn row(&mut self, task: TaskId) -> Option<&mut RowSums> {
        *self.seen.get_mut(task.index())? = true;
        self.sums.get_mut(self.of_task[task.index()])
    }

    /// The same rows without any time in them.
    fn empty(&self) -> Self {
        let buckets = self.buckets;
        let spread = || Spread::new(buckets, self.bucket_ns);
        let sums =
            self.keys.iter().map(|_| RowSums { on_cpu: spread(), no_cpu: spread(), blocked: spread() });
        Rows {
            of_task: self.of_task.clone(),
            keys: self.keys.clone(),
            sums: sums.collect(),
            seen: vec![false; self.seen.len()],
            ..*self
        }
    }

    /// Adds what was found in another part of the recording.
    fn merge(&mut self, other: &Rows) {
        for (sums, other) in self.sums.iter_mut().zip(&other.sums) {
            sums.on_cpu.merge(&other.on_cpu);
            sums.no_cpu.merge(&other.no_cpu);
            sums.blocked.merge(&other.blocked);
        }
        self.seen.iter_mut().zip(&other.seen).for_each(|(seen, other)| *seen |= other);
    }

    fn add(&mut self, sample: &Sample) {
        match sample.wait {
            Some(wait) => self.waited(sample, wait.duration_ns, wait.reason),
            None => self.ran(sample),
        }
    }

    fn ran(&mut self, sample: &Sample) {
        // One that stands for more than a bucket stands for those before it, too.
        let before_ns = if sample.weight > self.bucket_ns { sample.weight.min(sample.time_ns) } else { 0 };
        if let Some(row) = self.row(sample.task) {
            row.on_cpu.add(sample.time_ns - before_ns, before_ns, sample.weight);
        }
    }

    fn waited(&mut self, sample: &Sample, duration_ns: u64, reason: Reason) {
        let Some(row) = self.row(sample.task) else { return };
        let spread = if reason == Reason::NoCpu { &mut row.no_cpu } else { &mut row.blocked };
        spread.add(sample.time_ns, duration_ns, sample.weight);
    }

    fn finish(self, profile: &Profile) -> Vec<TimelineRow> {
        let tables = &profile.tables;
        let mut threads: Vec<FxHashSet<(u32, u32)>> = vec![FxHashSet::default(); self.keys.len()];
        let mut last: Vec<Option<TaskId>> = vec![None; self.keys.len()];
        for (index, task) in tables.tasks().iter().enumerate().filter(|(index, _)| self.seen[*index]) {
            threads[self.of_task[index]].insert((task.tid, task.generation));
            last[self.of_task[index]] = Some(TaskId(index as u32));
        }
        let mut rows: Vec<TimelineRow> = Vec::new();
        for (((key, sums), threads), last) in self.keys.into_iter().zip(self.sums).zip(threads).zip(last) {
            let Some(task) = last.map(|task| tables.task(task)) else { continue };
            let (on_cpu, no_cpu) = (sums.on_cpu.finish(), sums.no_cpu.finish());
            let buckets: Vec<Busy> = (on_cpu.into_iter().zip(no_cpu).zip(sums.blocked.finish()))
                .map(|((on_cpu_ns, no_cpu_ns), blocked_ns)| Busy { on_cpu_ns, no_cpu_ns, blocked_ns })
                .collect();
            let mut sum = Busy::default();
            buckets.iter().for_each(|bucket| sum.add(*bucket));
            let name = |id| if key.is_some() { tables.string(id).to_owned() } else { String::new() };
            rows.push(TimelineRow {
                thread: name(task.comm),
                process: name(task.process),
                tid: matches!(key, Some(RowKey::Thread(..))).then_some(task.tid),
                threads: threads.len() as u64,
                buckets,
                sum,
                is_rest: key.is_none(),
            });
        }
        rows.sort_by(|a, b| {
            let key =
                |row: &TimelineRow| (row.is_rest, Reverse(row.sum.on_cpu_ns), Reverse(row.sum.sum_ns()));
            (key(a).cmp(&key(b)))
                .then_with(|| (&a.thread, &a.process, a.tid).cmp(&(&b.thread, &b.process, b.tid)))
        });
        rows
    }
}
