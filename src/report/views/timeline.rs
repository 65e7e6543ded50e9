//! When threads ran and waited: a row of buckets per thread or class of threads, and a heat map of the whole recording.
//!
//! The filters are those of all views, except for the time range, which is selected here. A sample covers the time
//! before it; a wait is spread over all buckets that it overlaps. A wait that is weighted as several counts with its
//! weight, spread evenly over its length. Rolled-up sums ([`crate::report::model::rollup`]) are spread evenly over
//! their time step.

use super::heat_map::HeatMap;
use crate::base::failure::Failure;
use crate::profile::{Event, Profile, Reason, Sample, StringId, TaskId, ThreadTime};
use crate::report::analysis::Analysis;
use crate::report::model::group::{Key, parts_of};
use crate::report::model::metric::Shown;
use crate::report::model::rollup::RollupTime;
use crate::report::model::spread::Spread;
use crate::report::naming::thread_class::{ThreadClassKey, ThreadClasses};
use crate::report::options::{CommonOptions, FilterOptions, ThreadSplit, TimeRange};
use crate::report::query::filter::SampleFilter;
use crate::report::query::selection::Selection;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Most rows; the threads with the least time share the last one.
pub(crate) const MOST_ROWS: usize = 400;
/// Most buckets of a row.
const MOST_BUCKETS: usize = 4_096;

/// Where the time of the threads of a row went, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Busy {
    /// On a CPU, by samples.
    pub(crate) on_cpu_ns: u64,
    /// Ready to run, without a CPU.
    pub(crate) no_cpu_ns: u64,
    /// Blocked; idle waits only if they are shown.
    pub(crate) blocked_ns: u64,
    /// Total lifetime of the threads: as far as known, or else from the first to the last time each was seen.
    pub(crate) alive_ns: u64,
}

impl Busy {
    /// Sum of all states.
    pub(crate) fn sum_ns(&self) -> u64 {
        self.on_cpu_ns.saturating_add(self.no_cpu_ns).saturating_add(self.blocked_ns)
    }

    /// Adds the times of `other`.
    pub(crate) fn add(&mut self, other: Busy) {
        self.on_cpu_ns = self.on_cpu_ns.saturating_add(other.on_cpu_ns);
        self.no_cpu_ns = self.no_cpu_ns.saturating_add(other.no_cpu_ns);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
        self.alive_ns = self.alive_ns.saturating_add(other.alive_ns);
    }
}

/// One thread, all threads of a class or name in a process, or a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimelineRow {
    /// Name of the threads; empty for a process, and for the row of all threads without a row of their own. Foreign
    /// text.
    pub(crate) thread: String,
    /// Name of their process. Foreign text.
    pub(crate) process: String,
    /// Thread id, if the thread has a row of its own.
    pub(crate) tid: Option<u32>,
    /// Process id, if the process has a row of its own.
    pub(crate) pid: Option<u32>,
    /// Number of threads.
    pub(crate) threads: u64,
    /// Their time in each bucket.
    pub(crate) buckets: Vec<Busy>,
    /// Their time in all buckets.
    pub(crate) sum: Busy,
    /// Whether it is the row of all threads without a row of their own.
    pub(crate) is_rest: bool,
}

/// The recording, or its last part, in buckets of equal length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// Start of the first bucket, ns since the start of the recording.
    pub(crate) start_ns: u64,
    /// Length of the recording, ns.
    pub(crate) duration_ns: u64,
    /// Length of a bucket, ns; at least 1. The last one may end after the recording.
    pub(crate) bucket_ns: u64,
    /// The rows, busiest first.
    pub(crate) rows: Vec<TimelineRow>,
    /// Heat map of the metric, over all rows.
    pub(crate) heat: HeatMap,
}

/// Identity of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RowKey {
    /// A class of threads and the name of their process.
    Class(ThreadClassKey, StringId),
    /// A thread by tid and generation, whatever its names.
    Thread(u32, u32),
}

impl Timeline {
    /// The timeline of `recording` from `start_ns` on in `buckets` buckets. Threads are merged into rows as the options
    /// say, by class by default.
    ///
    /// # Errors
    ///
    /// Returns a usage error for a bad pattern; status 3 when the recording lacks the metric's data.
    pub fn new(
        recording: &Analysis,
        options: &CommonOptions,
        buckets: usize,
        start_ns: u64,
    ) -> Result<Self, Failure> {
        let profile = &recording.profile;
        let duration_ns = profile.duration_ns().max(1);
        let start_ns = start_ns.min(duration_ns - 1);
        let passing = Passing::new(recording, options, start_ns)?;
        let buckets = buckets.clamp(1, MOST_BUCKETS);
        let length_ns = duration_ns - start_ns;
        let bucket_ns = length_ns.div_ceil(buckets as u64).max(1);
        let buckets = length_ns.div_ceil(bucket_ns) as usize;
        let shown = recording.shown(options.metric)?;
        let rollup = recording.rollup_time();
        let no_time = Spread::new(buckets, bucket_ns).since(start_ns, start_ns);
        let classes = ThreadClasses::of(&profile.tables, options.threads.unwrap_or(ThreadSplit::Class));
        let mut rows = TimelineRows::new(profile, &passing, &classes, no_time);
        let mut heat = HeatMap::spread(start_ns, duration_ns);
        for (event, is_time, is_hot) in events_of(profile, &shown) {
            let empty = (rows.empty(), HeatMap::spread(start_ns, duration_ns));
            let parts: Vec<(TimelineRows, Spread)> = (parts_of(event).into_par_iter())
                .map(|part| {
                    let (mut rows, mut heat) = empty.clone();
                    for sample in part.map(|row| event.sample(row)) {
                        if is_time && passing.filter.keeps_task(sample.task) {
                            rows.note_alive(&sample);
                        }
                        if !passing.keeps(&sample) {
                            continue;
                        }
                        if is_time {
                            rows.add(&sample, rollup);
                        }
                        if is_hot {
                            add_heat(&mut heat, &sample, rollup);
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
        let heat = HeatMap::new(start_ns, duration_ns, heat);
        rows.add_lives(profile, rollup);
        Ok(Timeline { start_ns, duration_ns, bucket_ns, rows: rows.finish(profile, &classes), heat })
    }
}

/// The events of a timeline, with whether each measures time, and whether it is in the heat map. Rows always show time.
fn events_of<'p>(profile: &'p Profile, shown: &Shown<'p>) -> Vec<(&'p Event, bool, bool)> {
    let is_of = |of: &Shown<'p>, event| of.events().any(|other| std::ptr::eq(other, event));
    let time = Shown::time_of(profile);
    let others = shown.events().filter(|event| !is_of(&time, *event)).map(|event| (event, false, true));
    time.events().map(|event| (event, true, is_of(shown, event))).chain(others).collect()
}

fn add_heat(heat: &mut Spread, sample: &Sample, rollup: &RollupTime) {
    let (from_ns, to_ns) = interval(sample);
    rollup.spread(heat, from_ns, to_ns - from_ns, sample.weight);
}

/// Start and end of a sample or wait, ns: a sample has length 0, merged samples that of their time step.
fn interval(sample: &Sample) -> (u64, u64) {
    let length_ns = match (&sample.merged, &sample.wait) {
        (Some(folded), _) => folded.span_ns,
        (None, Some(wait)) => wait.duration_ns,
        (None, None) => 0,
    };
    (sample.time_ns, sample.time_ns.saturating_add(length_ns))
}

/// Which samples pass the filters, whatever their time.
struct Passing<'r> {
    recording: &'r Analysis,
    filter: SampleFilter,
    cpus: bool,
    shows_idle: bool,
    /// Samples that ended before this time are left out, ns.
    start_ns: u64,
    /// Keys of the samples whose functions pass; `None` if no filter is on functions.
    keys: Option<FxHashSet<Key>>,
}

impl<'r> Passing<'r> {
    fn new(recording: &'r Analysis, options: &CommonOptions, start_ns: u64) -> Result<Self, Failure> {
        let filter =
            FilterOptions { time: TimeRange::default(), hide: None, show: None, ..options.filter.clone() };
        let is_on_names = filter.drops_by_code();
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
        Ok(Passing { recording, filter: sample_filter, cpus, shows_idle, start_ns, keys })
    }

    fn keeps(&self, sample: &Sample) -> bool {
        if !self.filter.keeps_task(sample.task) || (self.cpus && self.filter.amount(sample).is_none()) {
            return false;
        }
        if interval(sample).1 < self.start_ns {
            return false;
        }
        if let Some(keys) = &self.keys
            && !keys.contains(&(
                sample.task,
                sample.stack,
                sample.outcome,
                self.recording.reasons().activity(sample),
            ))
        {
            return false;
        }
        match &sample.wait {
            Some(wait) if !self.shows_idle => {
                let reason = self.recording.reasons().reason(wait, sample.stack);
                !self.recording.idle_waits().is_idle(sample.task, sample.stack, reason)
            }
            _ => true,
        }
    }
}

/// Extends a lifetime to include a part in which the thread was seen.
fn lengthen(life: &mut Option<(u64, u64)>, part: (u64, u64)) {
    *life = Some(life.map_or(part, |life| (life.0.min(part.0), life.1.max(part.1))));
}

/// One row under construction.
#[derive(Clone)]
struct RowSums {
    on_cpu: Spread,
    no_cpu: Spread,
    blocked: Spread,
    alive: Spread,
}

impl RowSums {
    fn of(no_time: &Spread) -> Self {
        let none = || no_time.clone();
        RowSums { on_cpu: none(), no_cpu: none(), blocked: none(), alive: none() }
    }
}

/// All rows under construction.
#[derive(Clone)]
struct TimelineRows {
    /// Row of each task.
    of_task: Vec<usize>,
    keys: Vec<Option<RowKey>>,
    sums: Vec<RowSums>,
    seen: Vec<bool>,
    /// First and last time that each task was seen, ns.
    lives: Vec<Option<(u64, u64)>>,
    /// Buckets without any time.
    no_time: Spread,
}

impl TimelineRows {
    fn new(profile: &Profile, passing: &Passing<'_>, classes: &ThreadClasses, no_time: Spread) -> Self {
        let tasks = profile.tables.tasks();
        let key = |index: usize| {
            let task = &tasks[index];
            if classes.is_by_thread() {
                RowKey::Thread(task.tid, task.generation)
            } else {
                RowKey::Class(classes.key_of(task), task.process)
            }
        };
        let mut seen = vec![false; tasks.len()];
        let is_seen =
            |time: &&ThreadTime| passing.filter.keeps_task(time.task) && time.to_ns > passing.start_ns;
        for time in profile.thread_times.iter().filter(is_seen) {
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
            // Only the threads with the most time have rows of their own.
            let mut weights = vec![0u64; keys.len()];
            for event in Shown::time_of(profile).events() {
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
        let sums = keys.iter().map(|_| RowSums::of(&no_time)).collect();
        TimelineRows { of_task, keys, sums, seen, lives: vec![None; tasks.len()], no_time }
    }

    fn row(&mut self, task: TaskId) -> Option<&mut RowSums> {
        *self.seen.get_mut(task.index())? = true;
        self.sums.get_mut(self.of_task[task.index()])
    }

    /// The same rows, with no time in them.
    fn empty(&self) -> Self {
        TimelineRows {
            of_task: self.of_task.clone(),
            keys: self.keys.clone(),
            sums: self.keys.iter().map(|_| RowSums::of(&self.no_time)).collect(),
            seen: vec![false; self.seen.len()],
            lives: vec![None; self.lives.len()],
            no_time: self.no_time.clone(),
        }
    }

    /// Adds the sums of another part of the recording.
    fn merge(&mut self, other: &TimelineRows) {
        for (sums, other) in self.sums.iter_mut().zip(&other.sums) {
            sums.on_cpu.merge(&other.on_cpu);
            sums.no_cpu.merge(&other.no_cpu);
            sums.blocked.merge(&other.blocked);
            sums.alive.merge(&other.alive);
        }
        self.seen.iter_mut().zip(&other.seen).for_each(|(seen, other)| *seen |= other);
        for (life, other) in self.lives.iter_mut().zip(&other.lives) {
            other.iter().for_each(|other| lengthen(life, *other));
        }
    }

    fn add(&mut self, sample: &Sample, rollup: &RollupTime) {
        let (mut from_ns, to_ns) = interval(sample);
        // A sample that covers more than a bucket is spread over the time before it, too.
        if sample.wait.is_none() && sample.merged.is_none() && sample.weight > self.no_time.bucket_ns() {
            from_ns = from_ns.saturating_sub(sample.weight);
        }
        let Some(row) = self.row(sample.task) else { return };
        let spread = match sample.wait.map(|wait| wait.reason) {
            None => &mut row.on_cpu,
            Some(Reason::NoCpu) => &mut row.no_cpu,
            Some(_) => &mut row.blocked,
        };
        rollup.spread(spread, from_ns, to_ns - from_ns, sample.weight);
    }

    /// Records that the thread of a sample existed.
    fn note_alive(&mut self, sample: &Sample) {
        let (mut from_ns, to_ns) = interval(sample);
        if sample.wait.is_none() && sample.merged.is_none() {
            from_ns = from_ns.saturating_sub(sample.weight);
        }
        if let Some(life) = self.lives.get_mut(sample.task.index()) {
            lengthen(life, (from_ns, to_ns));
        }
    }

    /// Adds the lifetimes of the threads of each row.
    fn add_lives(&mut self, profile: &Profile, rollup: &RollupTime) {
        let mut names: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        for task in profile.tables.tasks() {
            *names.entry((task.tid, task.generation)).or_default() += 1;
        }
        for time in &profile.thread_times {
            let task = profile.tables.task(time.task);
            // If a thread had several names, it is not known when it had which.
            if names.get(&(task.tid, task.generation)) == Some(&1)
                && let Some(life) = self.lives.get_mut(time.task.index())
            {
                lengthen(life, (time.from_ns, time.to_ns));
            }
        }
        for (task, life) in self.lives.iter().enumerate() {
            let Some((from_ns, to_ns)) = life else { continue };
            let length_ns = to_ns - from_ns;
            if let Some(row) = self.sums.get_mut(self.of_task[task]) {
                rollup.spread(&mut row.alive, *from_ns, length_ns, length_ns);
            }
        }
    }

    fn finish(self, profile: &Profile, classes: &ThreadClasses) -> Vec<TimelineRow> {
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
            let (blocked, alive) = (sums.blocked.finish(), sums.alive.finish());
            let buckets: Vec<Busy> = (on_cpu.into_iter().zip(no_cpu).zip(blocked.into_iter().zip(alive)))
                .map(|((on_cpu_ns, no_cpu_ns), (blocked_ns, alive_ns))| Busy {
                    on_cpu_ns,
                    no_cpu_ns,
                    blocked_ns,
                    alive_ns,
                })
                .collect();
            let mut sum = Busy::default();
            buckets.iter().for_each(|bucket| sum.add(*bucket));
            let thread = match key {
                Some(RowKey::Thread(..)) => tables.string(task.comm),
                Some(RowKey::Class(class, _)) => classes.name(class),
                None => "",
            };
            let process = if key.is_some() { tables.string(task.process) } else { "" };
            rows.push(TimelineRow {
                thread: thread.to_owned(),
                process: process.to_owned(),
                tid: matches!(key, Some(RowKey::Thread(..))).then_some(task.tid),
                pid: (key.is_some() && classes.is_by_process()).then_some(task.pid),
                threads: threads.len() as u64,
                buckets,
                sum,
                is_rest: key.is_none(),
            });
        }
        rows.sort_by(|a, b| {
            let key =
                |row: &TimelineRow| (row.is_rest, Reverse(row.sum.on_cpu_ns), Reverse(row.sum.sum_ns()));
            (key(a).cmp(&key(b))).then_with(|| {
                (&a.thread, &a.process, a.tid, a.pid).cmp(&(&b.thread, &b.process, b.tid, b.pid))
            })
        });
        rows
    }
}
