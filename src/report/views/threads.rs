//! Time by thread: threads of one class and process share a row, since thread pools have many.

use crate::base::units::percent;
use crate::profile::{Reason, StringId, Task};
use crate::report::model::amount::Amount;
use crate::report::model::group::Group;
use crate::report::model::label::LabelId;
use crate::report::model::totals::{Times, Totals};
use crate::report::naming::thread_class::{ThreadClassKey, ThreadClasses, numbered};
use crate::report::options::{ReportOptions, ThreadSplit};
use crate::report::query::selection::Selection;
use crate::report::waits::site::{WaitSite, WaitSites};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Threads with one name, or with names that differ only in numbers, in processes of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadRow {
    /// Name of the threads, `worker-#` for a class of several, empty for all threads of a process. Foreign text.
    pub(crate) thread: String,
    /// Name of their process. Foreign text.
    pub(crate) process: String,
    /// Thread id, if the thread has a row of its own.
    pub(crate) tid: Option<u32>,
    /// Process id, if the process has a row of its own.
    pub(crate) pid: Option<u32>,
    /// Number of threads.
    pub(crate) threads: u64,
    /// Number of processes.
    pub(crate) processes: u64,
    /// Amount of their samples.
    pub(crate) amount: Amount,
    /// The function they were sampled in most, with its self weight.
    pub(crate) hottest: Option<(LabelId, u64)>,
    /// Where their total time went, if the recording has waits.
    pub(crate) times: Option<Times>,
    /// Number of threads whose times are sums of samples and waits rather than the scheduler's, such as kernel threads.
    pub(crate) threads_by_samples: u64,
    /// Their longest wait other than for a CPU, if the recording has waits.
    pub(crate) top_wait: Option<TopWait>,
}

impl ThreadRow {
    /// Title of the row: the name of the threads, or the title of their process where that begins with the name and
    /// says more. Foreign text.
    pub(crate) fn title(&self) -> &str {
        thread_title(&self.thread, &self.process)
    }

    fn new(key: ThreadRowKey, selection: &Selection<'_>, classes: &ThreadClasses) -> Self {
        let (class, process) = key;
        let is_process = classes.is_by_process();
        ThreadRow {
            thread: classes.name(class).to_owned(),
            process: selection.profile.tables.string(process).to_owned(),
            tid: class.id.filter(|_| !is_process),
            pid: class.id.filter(|_| is_process),
            threads: 0,
            processes: 0,
            amount: Amount::default(),
            hottest: None,
            times: None,
            threads_by_samples: 0,
            top_wait: None,
        }
    }

    /// Sort key among rows of equal time.
    fn names(&self) -> (&str, &str, Option<u32>, Option<u32>) {
        (&self.thread, &self.process, self.tid, self.pid)
    }

    /// Time that the threads were not idle, ns.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.times.map_or(0, |times| times.sum_ns().saturating_sub(times.idle_ns()))
    }
}

/// The title of threads of this name in a process of that name; of the process if `thread` is empty. See
/// [`ThreadRow::title`].
pub(crate) fn thread_title<'n>(thread: &'n str, process: &'n str) -> &'n str {
    let is_title = process.strip_prefix(thread).is_some_and(|rest| rest.starts_with(": "));
    if is_title || thread.is_empty() { process } else { thread }
}

/// Waits for one reason in one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopWait {
    /// Reason of the waits.
    pub(crate) reason: Reason,
    /// The function. Foreign text.
    pub(crate) place: String,
    /// Total length, ns.
    pub(crate) time_ns: u64,
}

#[derive(Debug, Default)]
struct ThreadSums {
    amount: Amount,
    threads: FxHashSet<(u32, u32)>,
    processes: FxHashSet<u32>,
    /// The innermost function with most of the time so far, and its weight.
    hottest: Option<(LabelId, u64)>,
    /// Weight of the innermost function that is being added up.
    of_leaf: u64,
}

/// Identity of a row: the class of its threads and the name of their process. Threads that reused a tid and name share
/// a row.
type ThreadRowKey = (ThreadClassKey, StringId);

fn key_of(classes: &ThreadClasses, task: &Task) -> ThreadRowKey {
    (classes.key_of(task), task.process)
}

/// The threads of `selection`, heaviest first, merged as its options say; by class by default.
pub(crate) fn threads(selection: &Selection<'_>) -> Vec<ThreadRow> {
    thread_rows(selection, selection.thread_split().unwrap_or(ThreadSplit::Class))
}

/// The same, merged by `split`.
pub(crate) fn thread_rows(selection: &Selection<'_>, split: ThreadSplit) -> Vec<ThreadRow> {
    let tables = &selection.profile.tables;
    let classes = ThreadClasses::of(tables, split);
    rows_of(selection, &classes).into_iter().map(|(_, row)| row).collect()
}

/// The rows of `classes`, heaviest first.
fn rows_of(selection: &Selection<'_>, classes: &ThreadClasses) -> Vec<(ThreadRowKey, ThreadRow)> {
    let tables = &selection.profile.tables;
    let (row_of, keys) = numbered(tables.tasks().iter().map(|task| key_of(classes, task)));
    let mut sums: Vec<ThreadSums> = Vec::new();
    sums.resize_with(keys.len(), ThreadSums::default);
    for (id, task) in selection.tasks() {
        let sum = &mut sums[row_of[id.index()]];
        sum.threads.insert((task.tid, task.generation));
        sum.processes.insert(task.pid);
    }
    let mut leaves: Vec<(Option<LabelId>, &[Group])> = Vec::new();
    selection.for_each_path(|path, groups| leaves.push((path.last().map(|leaf| leaf.label), groups.list)));
    add_leaves(selection, leaves, &row_of, &mut sums);
    let row_of = |key: ThreadRowKey, sum: &ThreadSums| ThreadRow {
        threads: sum.threads.len() as u64,
        processes: sum.processes.len() as u64,
        amount: sum.amount,
        hottest: sum.hottest,
        ..ThreadRow::new(key, selection, classes)
    };
    let seen = keys.into_iter().zip(&sums).filter(|(_, sum)| !sum.threads.is_empty());
    let mut rows: Vec<(ThreadRowKey, ThreadRow)> = seen.map(|(key, sum)| (key, row_of(key, sum))).collect();
    rows.sort_by(|(_, a), (_, b)| {
        (b.amount.weight.cmp(&a.amount.weight)).then_with(|| a.names().cmp(&b.names()))
    });
    rows
}

/// Adds groups by their innermost functions to the rows of their tasks, whose hottest function is found with that.
fn add_leaves(
    selection: &Selection<'_>,
    mut leaves: Vec<(Option<LabelId>, &[Group])>,
    row_of: &[usize],
    sums: &mut [ThreadSums],
) {
    let name = |label: LabelId| &selection.labels.get(label).name;
    leaves.sort_by_key(|(leaf, _)| *leaf);
    let mut rows: Vec<usize> = Vec::new();
    for same in leaves.chunk_by(|a, b| a.0 == b.0) {
        for group in same.iter().flat_map(|(_, groups)| *groups) {
            let row = row_of[group.task.index()];
            let sum = &mut sums[row];
            sum.amount.add(group.amount);
            if sum.of_leaf == 0 {
                rows.push(row);
            }
            sum.of_leaf = sum.of_leaf.saturating_add(group.amount.weight);
        }
        for row in rows.drain(..) {
            let sum = &mut sums[row];
            let weight = std::mem::take(&mut sum.of_leaf);
            let rank = |(label, weight): (LabelId, u64)| (weight, Reverse((name(label), label)));
            if let Some(found) = same[0].0.map(|label| (label, weight))
                && sum.hottest.is_none_or(|hottest| rank(found) > rank(hottest))
            {
                sum.hottest = Some(found);
            }
        }
    }
}

/// The rows that a report with these `options` shows, and the sum that shares are relative to, ns: that of all rows if
/// they have times (`has_times`, from [`threads_with_times`]), else `base`.
pub(crate) fn shown<'r>(
    rows: &'r [ThreadRow],
    has_times: bool,
    base: Amount,
    options: &ReportOptions,
) -> (&'r [ThreadRow], u64) {
    let weight = |row: &ThreadRow| if has_times { row.busy_ns() } else { row.amount.weight };
    let whole = match has_times {
        true => rows.iter().fold(0u64, |sum, row| sum.saturating_add(weight(row))),
        false => base.weight,
    };
    (options.limits_for_programs().of(rows, |row| percent(weight(row), whole)), whole)
}

/// The threads of `totals`, with their shares of `selection`, busiest first.
pub(crate) fn threads_with_times(selection: &Selection<'_>, totals: &Totals) -> Vec<ThreadRow> {
    let split = selection.thread_split().unwrap_or(ThreadSplit::Class);
    thread_rows_with_times(selection, totals, split)
}

/// The same, merged by `split`.
pub(crate) fn thread_rows_with_times(
    selection: &Selection<'_>,
    totals: &Totals,
    split: ThreadSplit,
) -> Vec<ThreadRow> {
    let classes = ThreadClasses::of(&selection.profile.tables, split);
    let mut rows: FxHashMap<ThreadRowKey, ThreadRow> = rows_of(selection, &classes).into_iter().collect();
    let mut counted: FxHashMap<ThreadRowKey, (u64, FxHashSet<u32>)> = FxHashMap::default();
    for thread in &totals.threads {
        let key = (classes.key(thread.tid, thread.pid, thread.comm), thread.process);
        let row = rows.entry(key).or_insert_with(|| ThreadRow::new(key, selection, &classes));
        row.times.get_or_insert_default().add(&thread.times);
        row.threads_by_samples += u64::from(!thread.is_by_scheduler);
        let (threads, processes) = counted.entry(key).or_default();
        *threads += 1;
        processes.insert(thread.pid);
        (row.threads, row.processes) = (*threads, processes.len() as u64);
    }
    let top_waits = selection.waits().map(|waits| top_waits(waits, &classes)).unwrap_or_default();
    for (key, top) in top_waits {
        if let Some(row) = rows.get_mut(&key) {
            row.top_wait = Some(top);
        }
    }
    let mut rows: Vec<ThreadRow> = rows.into_values().collect();
    let times = |row: &ThreadRow| (row.busy_ns(), row.times.map_or(0, |times| times.idle_ns()));
    // Rows of equal time are sorted by name.
    rows.sort_by(|a, b| times(b).cmp(&times(a)).then_with(|| a.names().cmp(&b.names())));
    rows
}

/// The longest wait of each row's threads, other than for a CPU.
fn top_waits(waits: &Selection<'_>, classes: &ThreadClasses) -> FxHashMap<ThreadRowKey, TopWait> {
    let sites = WaitSites::new(waits.profile, &waits.labels);
    let mut sums: FxHashMap<ThreadRowKey, FxHashMap<(Reason, LabelId), u64>> = FxHashMap::default();
    waits.for_each_path(|path, groups| {
        for group in groups {
            let Some(reason) = group.activity.reason() else { continue };
            let WaitSite::Call { blocked_in, called_by } = sites.of(path, group.activity) else { continue };
            let Some(place) = blocked_in.or(called_by) else { continue };
            let task = waits.profile.tables.task(group.task);
            let time = sums.entry(key_of(classes, task)).or_default().entry((reason, place)).or_default();
            *time = time.saturating_add(group.amount.weight);
        }
    });
    let name = |label: LabelId| &waits.labels.get(label).name;
    let top = |sums: FxHashMap<(Reason, LabelId), u64>| {
        (sums.into_iter())
            .max_by_key(|((reason, label), time)| (*time, Reverse((*reason, name(*label), *label))))
            .map(|((reason, label), time_ns)| TopWait { reason, place: name(label).clone(), time_ns })
    };
    sums.into_iter().filter_map(|(names, sums)| Some((names, top(sums)?))).collect()
}
