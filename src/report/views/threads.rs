//! Time by thread: threads of one name and process are one row, since pools have many.

use crate::base::units::percent;
use crate::profile::{Reason, StringId};
use crate::report::model::amount::Amount;
use crate::report::model::label::LabelId;
use crate::report::model::totals::{Times, Totals};
use crate::report::options::ReportOptions;
use crate::report::query::selection::Selection;
use crate::report::waits::site::{WaitSite, WaitSites};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// All threads of one name in processes of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadRow {
    /// Name of the threads. Foreign text.
    pub(crate) thread: String,
    /// Name of their process. Foreign text.
    pub(crate) process: String,
    /// The thread, where it has a row for itself.
    pub(crate) tid: Option<u32>,
    /// How many threads.
    pub(crate) threads: u64,
    /// How many processes.
    pub(crate) processes: u64,
    /// What they ran.
    pub(crate) amount: Amount,
    /// Where they were most often, with its own weight.
    pub(crate) hottest: Option<(LabelId, u64)>,
    /// Where their whole time went, when the recording has waits.
    pub(crate) times: Option<Times>,
    /// How many of them have times that are sums of samples and waits, not the scheduler's: kernel threads, for one.
    pub(crate) threads_by_samples: u64,
    /// What they waited for longest, apart from a CPU, when the recording has waits.
    pub(crate) top_wait: Option<TopWait>,
}

impl ThreadRow {
    /// What the row is called: the name of the threads, or where it says more the title of their process, which begins with
    /// that name. Foreign text.
    pub(crate) fn title(&self) -> &str {
        thread_title(&self.thread, &self.process)
    }

    /// The time that they were not idle, ns.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.times.map_or(0, |times| times.sum_ns().saturating_sub(times.idle_ns()))
    }
}

/// What threads of this name in a process of that one are called: see [`ThreadRow::title`].
pub(crate) fn thread_title<'n>(thread: &'n str, process: &'n str) -> &'n str {
    let is_title = process.strip_prefix(thread).is_some_and(|rest| rest.starts_with(": "));
    if is_title { process } else { thread }
}

/// The waits for one reason at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopWait {
    /// Why.
    pub(crate) reason: Reason,
    /// The function. Foreign text.
    pub(crate) place: String,
    /// How long, ns.
    pub(crate) time_ns: u64,
}

#[derive(Debug, Default)]
struct ThreadSums {
    amount: Amount,
    threads: FxHashSet<(u32, u32)>,
    processes: FxHashSet<u32>,
    leaves: FxHashMap<LabelId, u64>,
}

/// What makes threads share a row: their name and that of their process; and the id of the thread, where each has a
/// row. Threads that had one id and name, one after the other, have one row.
type RowKey = (StringId, StringId, Option<u32>);

/// The threads of `selection`, heaviest first, as its options distinguish them.
pub(crate) fn threads(selection: &Selection<'_>) -> Vec<ThreadRow> {
    thread_rows(selection, selection.each_thread())
}

/// The same, with a row for `each` thread.
pub(crate) fn thread_rows(selection: &Selection<'_>, each: bool) -> Vec<ThreadRow> {
    let tables = &selection.profile.tables;
    let mut sums: FxHashMap<RowKey, ThreadSums> = FxHashMap::default();
    selection.for_each_path(|path, groups| {
        for group in groups {
            let task = tables.task(group.task);
            let key = (task.comm, task.process, each.then_some(task.tid));
            let sum = sums.entry(key).or_default();
            sum.amount.add(group.amount);
            sum.threads.insert((task.tid, task.generation));
            sum.processes.insert(task.pid);
            if let Some(leaf) = path.last() {
                let weight = sum.leaves.entry(leaf.label).or_default();
                *weight = weight.saturating_add(group.amount.weight);
            }
        }
    });
    let name = |label: LabelId| &selection.labels.get(label).name;
    let mut rows: Vec<ThreadRow> = (sums.into_iter())
        .map(|((comm, process, tid), sum)| ThreadRow {
            thread: tables.string(comm).to_owned(),
            process: tables.string(process).to_owned(),
            tid,
            threads: sum.threads.len() as u64,
            processes: sum.processes.len() as u64,
            amount: sum.amount,
            hottest: sum
                .leaves
                .into_iter()
                .max_by_key(|(label, weight)| (*weight, Reverse((name(*label), *label)))),
            times: None,
            threads_by_samples: 0,
            top_wait: None,
        })
        .collect();
    rows.sort_by(|a, b| {
        (b.amount.weight.cmp(&a.amount.weight))
            .then_with(|| (&a.thread, &a.process, a.tid).cmp(&(&b.thread, &b.process, b.tid)))
    });
    rows
}

/// Those of the rows that a report with these `options` shows, and the sum of all, of which they have a share, ns.
/// `has_times`: they are those of [`threads_with_times`].
pub(crate) fn shown<'r>(
    rows: &'r [ThreadRow],
    has_times: bool,
    options: &ReportOptions,
) -> (&'r [ThreadRow], u64) {
    let weight = |row: &ThreadRow| if has_times { row.busy_ns() } else { row.amount.weight };
    let whole = rows.iter().fold(0u64, |sum, row| sum.saturating_add(weight(row)));
    // Rows are sorted by that very share.
    let heavy = rows.partition_point(|row| percent(weight(row), whole) >= options.least_percent());
    (&rows[..heavy.min(options.most_rows())], whole)
}

/// The threads of `totals`, with what `selection` says of them, busiest first.
pub(crate) fn threads_with_times(selection: &Selection<'_>, totals: &Totals) -> Vec<ThreadRow> {
    thread_rows_with_times(selection, totals, selection.each_thread())
}

/// The same, with a row for `each` thread.
pub(crate) fn thread_rows_with_times(
    selection: &Selection<'_>,
    totals: &Totals,
    each: bool,
) -> Vec<ThreadRow> {
    let tables = &selection.profile.tables;
    let mut rows: BTreeMap<(String, String, Option<u32>), ThreadRow> = (thread_rows(selection, each)
        .into_iter())
    .map(|row| ((row.thread.clone(), row.process.clone(), row.tid), row))
    .collect();
    let mut counted: FxHashMap<RowKey, (u64, FxHashSet<u32>)> = FxHashMap::default();
    for thread in &totals.threads {
        let tid = each.then_some(thread.tid);
        let (name, process) =
            (tables.string(thread.comm).to_owned(), tables.string(thread.process).to_owned());
        let row = rows.entry((name.clone(), process.clone(), tid)).or_insert_with(|| ThreadRow {
            thread: name,
            process,
            tid,
            threads: 0,
            processes: 0,
            amount: Amount::default(),
            hottest: None,
            times: None,
            threads_by_samples: 0,
            top_wait: None,
        });
        row.times.get_or_insert_default().add(&thread.times);
        row.threads_by_samples += u64::from(!thread.is_by_scheduler);
        let (threads, processes) = counted.entry((thread.comm, thread.process, tid)).or_default();
        *threads += 1;
        processes.insert(thread.pid);
        (row.threads, row.processes) = (*threads, processes.len() as u64);
    }
    let top_waits = selection.waits().map(|waits| top_waits(waits, each)).unwrap_or_default();
    for ((comm, process, tid), top) in top_waits {
        let key = (tables.string(comm).to_owned(), tables.string(process).to_owned(), tid);
        if let Some(row) = rows.get_mut(&key) {
            row.top_wait = Some(top);
        }
    }
    let mut rows: Vec<ThreadRow> = rows.into_values().collect();
    // Those of equal time stay in the order of their names.
    rows.sort_by_key(|row| Reverse((row.busy_ns(), row.times.map_or(0, |times| times.idle_ns()))));
    rows
}

/// For each thread name which of `waits` its threads spent longest in, apart from those for a CPU.
fn top_waits(waits: &Selection<'_>, each: bool) -> FxHashMap<RowKey, TopWait> {
    let sites = WaitSites::new(waits.profile, &waits.labels);
    let mut sums: FxHashMap<RowKey, FxHashMap<(Reason, LabelId), u64>> = FxHashMap::default();
    waits.for_each_path(|path, groups| {
        for group in groups {
            let Some(reason) = group.activity.reason() else { continue };
            let WaitSite::Call { blocked_in, called_by } = sites.of(path, group.activity) else { continue };
            let Some(place) = blocked_in.or(called_by) else { continue };
            let task = waits.profile.tables.task(group.task);
            let key = (task.comm, task.process, each.then_some(task.tid));
            let time = sums.entry(key).or_default().entry((reason, place)).or_default();
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
