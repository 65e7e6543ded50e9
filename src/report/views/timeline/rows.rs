//! The rows of a timeline: what the threads of each did, bucket by bucket.

use super::passing::{Passing, interval};
use super::timeline_state::TimelineState;
use crate::profile::{Profile, Reason, Sample, StringId, TaskId, ThreadTime};
use crate::report::model::rollup::RollupTime;
use crate::report::model::spread::Spread;
use crate::report::naming::thread_class::{ThreadClassKey, ThreadClasses, numbered};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Most rows; the threads with the least time share the last one.
pub(crate) const MOST_ROWS: usize = 400;

/// Time of the threads of a row by state, ns.
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
    /// Blocked time by what the threads waited for, ns in each bucket.
    pub(crate) blocked: Vec<(TimelineState, Vec<u64>)>,
    /// If the metric is no time: the weight of its samples in each bucket, in its unit. Empty otherwise.
    pub(crate) weights: Vec<u64>,
    /// Their time in all buckets.
    pub(crate) sum: Busy,
    /// Whether it is the row of all threads without a row of their own.
    pub(crate) is_rest: bool,
}

impl TimelineRow {
    /// The weight of its samples in all buckets, if the metric is no time.
    pub(crate) fn weight(&self) -> u64 {
        self.weights.iter().fold(0, |sum, weight| sum.saturating_add(*weight))
    }
}

/// Identity of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum TimelineRowKey {
    /// A class of threads and the name of their process.
    Class(ThreadClassKey, StringId),
    /// A thread by tid and generation, whatever its names.
    Thread(u32, u32),
}

/// Returns the rank of a state among the blocked ones: those of one colour side by side, idle ones last.
fn rank_of(state: TimelineState) -> (u8, u8) {
    let TimelineState::Blocked(reason) = state else {
        return (3 + u8::from(state == TimelineState::Sampled), 0);
    };
    let colour = match reason {
        Reason::Lock | Reason::Gil => 0,
        reason if reason.is_io() => 1,
        _ => 2,
    };
    (colour, reason.code())
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
    /// Blocked time by what the threads waited for, in the order of [`rank_of`]; or the weight of samples that are no time.
    others: Vec<(TimelineState, Spread)>,
    alive: Spread,
}

impl RowSums {
    fn of(no_time: &Spread) -> Self {
        let none = || no_time.clone();
        RowSums { on_cpu: none(), no_cpu: none(), others: Vec::new(), alive: none() }
    }

    /// The time in one state, which is none at first.
    fn in_state(&mut self, state: TimelineState, no_time: &Spread) -> &mut Spread {
        match state {
            TimelineState::Running => &mut self.on_cpu,
            TimelineState::NoCpu => &mut self.no_cpu,
            TimelineState::Blocked(_) | TimelineState::Idle | TimelineState::Sampled => {
                let at = match self.others.binary_search_by_key(&rank_of(state), |(of, _)| rank_of(*of)) {
                    Ok(at) => at,
                    Err(at) => {
                        self.others.insert(at, (state, no_time.clone()));
                        at
                    }
                };
                &mut self.others[at].1
            }
        }
    }
}

/// All rows under construction.
#[derive(Clone)]
pub(super) struct TimelineRows {
    /// Row of each task.
    of_task: Vec<usize>,
    keys: Vec<Option<TimelineRowKey>>,
    sums: Vec<RowSums>,
    seen: Vec<bool>,
    /// First and last time that each task was seen, ns.
    lives: Vec<Option<(u64, u64)>>,
    /// Buckets without any time.
    no_time: Spread,
}

impl TimelineRows {
    pub(super) fn new(
        profile: &Profile,
        passing: &Passing<'_>,
        classes: &ThreadClasses,
        no_time: Spread,
    ) -> Self {
        let tasks = profile.tables.tasks();
        let key = |index: usize| {
            let task = &tasks[index];
            if classes.is_by_thread() {
                TimelineRowKey::Thread(task.tid, task.generation)
            } else {
                TimelineRowKey::Class(classes.key_of(task), task.process)
            }
        };
        let mut seen = vec![false; tasks.len()];
        let is_seen =
            |time: &&ThreadTime| passing.filter.keeps_task(time.task) && time.to_ns > passing.start_ns;
        for time in profile.thread_times.iter().filter(|_| passing.is_time).filter(is_seen) {
            seen[time.task.index()] = true;
        }
        let (mut of_task, keys) = numbered((0..tasks.len()).map(key));
        let mut keys: Vec<Option<TimelineRowKey>> = keys.into_iter().map(Some).collect();
        if keys.len() > MOST_ROWS {
            // Only the threads with the most time, or other weight, have rows of their own.
            let mut weights = vec![0u64; keys.len()];
            for event in passing.of_rows.events() {
                for sample in event.samples().filter(|sample| passing.state_of(sample).is_some()) {
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

    /// The same rows, with no time in them.
    pub(super) fn empty(&self) -> Self {
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
    pub(super) fn merge(&mut self, other: &TimelineRows) {
        for (sums, other) in self.sums.iter_mut().zip(&other.sums) {
            sums.on_cpu.merge(&other.on_cpu);
            sums.no_cpu.merge(&other.no_cpu);
            sums.alive.merge(&other.alive);
            for (state, spread) in &other.others {
                sums.in_state(*state, &self.no_time).merge(spread);
            }
        }
        self.seen.iter_mut().zip(&other.seen).for_each(|(seen, other)| *seen |= other);
        for (life, other) in self.lives.iter_mut().zip(&other.lives) {
            other.iter().for_each(|other| lengthen(life, *other));
        }
    }

    pub(super) fn add(&mut self, sample: &Sample, state: TimelineState, rollup: &RollupTime) {
        let (mut from_ns, to_ns) = interval(sample);
        // A sample of running time that covers more than a bucket is spread over the time before it, too.
        if state == TimelineState::Running
            && sample.merged.is_none()
            && sample.weight > self.no_time.bucket_ns()
        {
            from_ns = from_ns.saturating_sub(sample.weight);
        }
        let Some(seen) = self.seen.get_mut(sample.task.index()) else { return };
        *seen = true;
        let Some(row) = self.sums.get_mut(self.of_task[sample.task.index()]) else { return };
        let spread = row.in_state(state, &self.no_time);
        rollup.spread(spread, from_ns, to_ns - from_ns, sample.weight);
    }

    /// Adds a block that was live until that time: its whole weight to each bucket in between.
    pub(super) fn add_level(&mut self, sample: &Sample, until_ns: u64, rollup: &RollupTime) {
        let Some(seen) = self.seen.get_mut(sample.task.index()) else { return };
        *seen = true;
        let Some(row) = self.sums.get_mut(self.of_task[sample.task.index()]) else { return };
        let length_ns = until_ns.saturating_sub(sample.time_ns);
        let buckets =
            u128::from(sample.weight) * u128::from(length_ns) / u128::from(self.no_time.bucket_ns());
        let weight = u64::try_from(buckets).unwrap_or(u64::MAX);
        let spread = row.in_state(TimelineState::Sampled, &self.no_time);
        rollup.spread(spread, sample.time_ns, length_ns, weight);
    }

    /// Records that the thread of a sample existed.
    pub(super) fn note_alive(&mut self, sample: &Sample) {
        let (mut from_ns, to_ns) = interval(sample);
        if sample.wait.is_none() && sample.merged.is_none() {
            from_ns = from_ns.saturating_sub(sample.weight);
        }
        if let Some(life) = self.lives.get_mut(sample.task.index()) {
            lengthen(life, (from_ns, to_ns));
        }
    }

    /// Adds the lifetimes of the threads of each row.
    pub(super) fn add_lives(&mut self, profile: &Profile, rollup: &RollupTime) {
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

    pub(super) fn finish(self, profile: &Profile, classes: &ThreadClasses) -> Vec<TimelineRow> {
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
            let (on_cpu, no_cpu, alive) = (sums.on_cpu.finish(), sums.no_cpu.finish(), sums.alive.finish());
            let others = sums.others.into_iter().map(|(state, spread)| (state, spread.finish()));
            let (weights, blocked): (Vec<_>, Vec<_>) =
                others.partition(|(state, _)| *state == TimelineState::Sampled);
            let weights = weights.into_iter().next().map_or_else(Vec::new, |(_, weights)| weights);
            let blocked_ns =
                |at: usize| blocked.iter().fold(0u64, |sum, (_, buckets)| sum.saturating_add(buckets[at]));
            let buckets: Vec<Busy> = (on_cpu.into_iter().zip(no_cpu).zip(alive).enumerate())
                .map(|(at, ((on_cpu_ns, no_cpu_ns), alive_ns))| Busy {
                    on_cpu_ns,
                    no_cpu_ns,
                    blocked_ns: blocked_ns(at),
                    alive_ns,
                })
                .collect();
            let mut sum = Busy::default();
            buckets.iter().for_each(|bucket| sum.add(*bucket));
            let thread = match key {
                Some(TimelineRowKey::Thread(..)) => tables.string(task.comm),
                Some(TimelineRowKey::Class(class, _)) => classes.name(class),
                None => "",
            };
            let process = if key.is_some() { tables.string(task.process) } else { "" };
            rows.push(TimelineRow {
                thread: thread.to_owned(),
                process: process.to_owned(),
                tid: matches!(key, Some(TimelineRowKey::Thread(..))).then_some(task.tid),
                pid: (key.is_some() && classes.is_by_process()).then_some(task.pid),
                threads: threads.len() as u64,
                buckets,
                blocked,
                weights,
                sum,
                is_rest: key.is_none(),
            });
        }
        rows.sort_by(|a, b| {
            let key = |row: &TimelineRow| {
                (row.is_rest, Reverse(row.sum.on_cpu_ns), Reverse(row.sum.sum_ns()), Reverse(row.weight()))
            };
            (key(a).cmp(&key(b))).then_with(|| {
                (&a.thread, &a.process, a.tid, a.pid).cmp(&(&b.thread, &b.process, b.tid, b.pid))
            })
        });
        rows
    }
}
