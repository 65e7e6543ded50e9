//! Where the whole time of threads went: on a CPU, ready without one, blocked, idle; and what is left over.

use super::activity::Activity;
use super::group::Group;
use super::metric::{Shown, waits_of};
use crate::base::failure::Failure;
use crate::profile::{Reason, StringId, TaskId, counter};
use crate::report::analysis::Analysis;
use crate::report::options::{CommonOptions, FilterOptions};
use crate::report::query::filter::SampleFilter;
use crate::report::query::groups::groups_of;
use crate::report::query::selection::Selection;
use crate::report::recording::Recording;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Sums for one thread or several, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Times {
    /// Time from the start of the thread, or of the recording, to its end; 0 when not known.
    pub(crate) lifetime_ns: u64,
    /// On a CPU: by the scheduler, or by samples where that is not known.
    pub(crate) on_cpu_ns: u64,
    /// Ready to run, without a CPU.
    pub(crate) no_cpu_ns: u64,
    /// Blocked, idle or not.
    all_blocked_ns: u64,
    /// Weight of the waits that were found idle: more than all of it, where waits were dropped by sampling.
    idle_weight_ns: u64,
    /// Weight of the other waits that were not for a CPU.
    other_weight_ns: u64,
    /// On a CPU, by samples.
    pub(crate) sampled_ns: u64,
}

impl Times {
    /// Blocked, but not idle.
    pub(crate) fn blocked_ns(&self) -> u64 {
        self.all_blocked_ns - self.idle_ns()
    }

    /// Time of idle waits, ns.
    pub(crate) fn idle_ns(&self) -> u64 {
        self.idle_weight_ns.min(self.all_blocked_ns)
    }

    /// The sum of the four kinds.
    pub(crate) fn sum_ns(&self) -> u64 {
        [self.no_cpu_ns, self.all_blocked_ns].into_iter().fold(self.on_cpu_ns, u64::saturating_add)
    }

    /// Lifetime minus the sum of the kinds of time, ns: negative when they are more; 0 when the lifetime is not known.
    pub(crate) fn unaccounted_ns(&self) -> i64 {
        if self.lifetime_ns == 0 {
            return 0;
        }
        let difference = i128::from(self.lifetime_ns) - i128::from(self.sum_ns());
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }

    /// Whether the kinds of time miss more than a thousandth of the lifetime, or have more.
    pub(crate) fn has_gap(&self) -> bool {
        self.unaccounted_ns().unsigned_abs() > self.lifetime_ns / 1000
    }

    /// Adds other times.
    pub(crate) fn add(&mut self, other: &Times) {
        for (sum, part) in [
            (&mut self.lifetime_ns, other.lifetime_ns),
            (&mut self.on_cpu_ns, other.on_cpu_ns),
            (&mut self.no_cpu_ns, other.no_cpu_ns),
            (&mut self.all_blocked_ns, other.all_blocked_ns),
            (&mut self.idle_weight_ns, other.idle_weight_ns),
            (&mut self.other_weight_ns, other.other_weight_ns),
            (&mut self.sampled_ns, other.sampled_ns),
        ] {
            *sum = sum.saturating_add(part);
        }
    }
}

/// The times of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadTimes {
    /// Thread id.
    pub(crate) tid: u32,
    /// Which of the threads of that id.
    pub(crate) generation: u32,
    /// Process id.
    pub(crate) pid: u32,
    /// Last name of the thread.
    pub(crate) comm: StringId,
    /// Name of the process.
    pub(crate) process: StringId,
    /// Times of the thread.
    pub(crate) times: Times,
    /// The times are the scheduler's; else sums of samples and waits. There is no such account of kernel threads.
    pub(crate) is_by_scheduler: bool,
    /// Whether some of its idle waits were dropped by sampling.
    has_thinned_idle: bool,
}

impl ThreadTimes {
    /// Whether the thread was seen running although the scheduler's account of it, which would have waits, never began.
    fn is_only_sampled(&self) -> bool {
        !self.is_by_scheduler && self.times.no_cpu_ns == 0 && self.times.all_blocked_ns == 0
    }
}

/// The times of all threads that pass the filters on threads and time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    /// Each thread, by its ids.
    pub(crate) threads: Vec<ThreadTimes>,
    /// The sum.
    pub(crate) times: Times,
    /// The times are the scheduler's, of all threads of which it has any; else sums of samples and waits.
    pub(crate) is_by_scheduler: bool,
    /// Threads that were there at the start and of which the scheduler has none, though it should: their whole time is
    /// not accounted for.
    pub(crate) unaccounted_threads: u64,
}

impl Totals {
    /// Returns the number of threads whose times are sums of samples and waits.
    pub(crate) fn threads_by_samples(&self) -> u64 {
        self.threads.iter().filter(|thread| !thread.is_by_scheduler).count() as u64
    }

    /// Returns the number of threads, with those that have no account. Some of the latter may have samples, and are rows.
    pub(crate) fn thread_count(&self) -> u64 {
        let sampled = self.threads.iter().filter(|thread| thread.is_only_sampled()).count() as u64;
        self.threads.len() as u64 + self.unaccounted_threads.saturating_sub(sampled)
    }

    /// The totals of `recording`, as far as the filters leave something of it; `None` when it has no waits, or what is
    /// shown is no time.
    ///
    /// # Errors
    ///
    /// A usage failure for a pattern that is no regular expression.
    pub(crate) fn of(recording: &Analysis, options: &CommonOptions) -> Result<Option<Self>, Failure> {
        let profile = &recording.profile;
        if waits_of(profile).is_none() || options.metric.is_some_and(|metric| !metric.is_time()) {
            return Ok(None);
        }
        if options.filter.drops_by_code() || !options.filter.labels.is_empty() {
            return Self::of_code(recording, options).map(Some);
        }
        // Time is that of threads, whichever CPU they were on.
        let options = FilterOptions { cpus: Vec::new(), ..options.filter.clone() };
        let filter = SampleFilter::new(&options, &profile.tables)?;
        // The scheduler's sums are those of whole lives.
        let is_by_scheduler = !profile.thread_times.is_empty() && filter.is_by_thread();
        let mut threads: BTreeMap<(u32, u32), ThreadTimes> = BTreeMap::new();
        for time in profile.thread_times.iter().filter(|time| filter.keeps_task(time.task)) {
            let Some(lifetime_ns) = filter.time().overlap_ns(time.from_ns, time.to_ns) else { continue };
            let times = if is_by_scheduler {
                Times {
                    lifetime_ns,
                    on_cpu_ns: time.on_cpu_ns,
                    no_cpu_ns: time.no_cpu_ns,
                    all_blocked_ns: time.blocked_ns,
                    ..Times::default()
                }
            } else {
                Times { lifetime_ns, ..Times::default() }
            };
            let thread = entry(&mut threads, recording, time.task);
            // The last row of a thread has its last name.
            let task = profile.tables.task(time.task);
            (thread.comm, thread.process) = (task.comm, task.process);
            thread.times.add(&times);
            thread.is_by_scheduler = is_by_scheduler;
        }
        for group in groups_of(recording, &Shown::time_of(profile), &filter).iter() {
            add_group(&mut threads, recording, group);
        }
        divide_blocked(&mut threads);
        let threads: Vec<ThreadTimes> = threads.into_values().collect();
        let mut times = Times::default();
        threads.iter().for_each(|thread| times.add(&thread.times));
        // Of which threads nothing is known, nothing is known by name.
        let counted = profile.counter(counter::THREADS_UNACCOUNTED);
        let whole_ns = filter.time().overlap_ns(0, profile.duration_ns()).unwrap_or(0);
        let unaccounted_threads = if options.is_on_threads() { 0 } else { counted };
        if unaccounted_threads > 0 || threads.iter().any(|thread| thread.times.lifetime_ns == 0) {
            let lost_ns = whole_ns.saturating_mul(unaccounted_threads);
            times.lifetime_ns = known_lifetime(&threads, lost_ns);
        }
        Ok(Some(Totals { threads, times, is_by_scheduler, unaccounted_threads }))
    }

    /// The totals of what the filters on functions, frames and labels leave, of which the scheduler knows nothing.
    fn of_code(recording: &Analysis, options: &CommonOptions) -> Result<Self, Failure> {
        let filter = FilterOptions { idle: true, ..options.filter.clone() };
        let options = CommonOptions { filter, ..options.clone() };
        let shown = Shown::time_of(&recording.profile);
        let mut threads: BTreeMap<(u32, u32), ThreadTimes> = BTreeMap::new();
        for group in Selection::new(recording, shown, &options)?.groups() {
            add_group(&mut threads, recording, group);
        }
        let threads: Vec<ThreadTimes> = threads.into_values().collect();
        let mut times = Times::default();
        threads.iter().for_each(|thread| times.add(&thread.times));
        Ok(Totals { threads, times, is_by_scheduler: false, unaccounted_threads: 0 })
    }
}

/// Adds the samples or waits of a group to the times of their thread, unless the scheduler accounted for them.
fn add_group(threads: &mut BTreeMap<(u32, u32), ThreadTimes>, recording: &Analysis, group: &Group) {
    let weight = group.amount.weight;
    let is_idle = recording.idle_waits().contains(group);
    let thread = entry(threads, recording, group.task);
    thread.has_thinned_idle |= is_idle && group.amount.variance_us2 > 0;
    let (times, is_known) = (&mut thread.times, thread.is_by_scheduler);
    let add = |sum: &mut u64| *sum = sum.saturating_add(weight);
    match group.activity {
        Activity::Running => {
            add(&mut times.sampled_ns);
            if !is_known {
                add(&mut times.on_cpu_ns);
            }
        }
        Activity::Waiting(_) if is_idle => {
            add(&mut times.idle_weight_ns);
            // The scheduler's blocked time has it already.
            if !is_known {
                add(&mut times.all_blocked_ns);
            }
        }
        Activity::Waiting(Reason::NoCpu) | Activity::WaitingShortly(Reason::NoCpu) => {
            if !is_known {
                add(&mut times.no_cpu_ns);
            }
        }
        Activity::Waiting(_) | Activity::WaitingShortly(_) => {
            add(&mut times.other_weight_ns);
            if !is_known {
                add(&mut times.all_blocked_ns);
            }
        }
    }
}

/// Divides the blocked time, which the scheduler knows, of each thread whose idle waits were thinned as the kept waits of the
/// thread are divided into idle and other ones: their weights estimate the sum over many threads well, and that of one badly.
/// A thread of which no wait was kept is taken for one like the others of its process.
fn divide_blocked(threads: &mut BTreeMap<(u32, u32), ThreadTimes>) {
    let mut of_process: FxHashMap<u32, [u64; 2]> = FxHashMap::default();
    for thread in threads.values().filter(|thread| thread.has_thinned_idle) {
        let [idle, other] = of_process.entry(thread.pid).or_default();
        *idle = idle.saturating_add(thread.times.idle_weight_ns);
        *other = other.saturating_add(thread.times.other_weight_ns);
    }
    for thread in threads.values_mut().filter(|thread| thread.is_by_scheduler) {
        let times = &mut thread.times;
        let weights = match [times.idle_weight_ns, times.other_weight_ns] {
            [0, 0] => of_process.get(&thread.pid).copied(),
            own => Some(own).filter(|_| thread.has_thinned_idle),
        };
        let Some([idle, other]) = weights.map(|weights| weights.map(u128::from)) else { continue };
        // At most all of it.
        times.idle_weight_ns = (u128::from(times.all_blocked_ns) * idle / (idle + other).max(1)) as u64;
    }
}

/// The lifetime of all threads, where that of some is not known: what is known of those is all their time. `lost_ns` is
/// that of threads without an account.
fn known_lifetime(threads: &[ThreadTimes], lost_ns: u64) -> u64 {
    if lost_ns == 0 && threads.iter().all(|thread| thread.times.lifetime_ns == 0) {
        return 0;
    }
    (threads.iter()).fold(lost_ns, |sum: u64, thread| {
        let own = match thread.times.lifetime_ns {
            // It is one of those.
            0 if lost_ns > 0 && thread.is_only_sampled() => 0,
            0 => thread.times.sum_ns(),
            known => known,
        };
        sum.saturating_add(own)
    })
}

fn entry<'t>(
    threads: &'t mut BTreeMap<(u32, u32), ThreadTimes>,
    recording: &Recording,
    task: TaskId,
) -> &'t mut ThreadTimes {
    let task = recording.profile.tables.task(task);
    threads.entry((task.tid, task.generation)).or_insert(ThreadTimes {
        tid: task.tid,
        generation: task.generation,
        pid: task.pid,
        comm: task.comm,
        process: task.process,
        times: Times::default(),
        is_by_scheduler: false,
        has_thinned_idle: false,
    })
}

impl Selection<'_> {
    /// Returns the number of threads that the view is about: with the `totals` of their time all that lived, else those that ran.
    pub(crate) fn thread_count(&self, totals: Option<&Totals>) -> u64 {
        if let Some(totals) = totals {
            return totals.thread_count();
        }
        self.tasks().map(|(_, task)| (task.tid, task.generation)).collect::<FxHashSet<_>>().len() as u64
    }
}
