//! The tables of locks: one row for each lock, for each place that waited, or for each that let go.

use super::kind::LockKind;
use super::place::{LockKey, LockName, Locks};
use super::releaser::Releaser;
use crate::base::units::percent;
use crate::profile::{Event, EventKind, Reason, Waker, WakerKind};
use crate::report::grouping::Grouping;
use crate::report::model::amount::Amount;
use crate::report::model::group::GroupKey;
use crate::report::model::label::Labels;
use crate::report::naming::name;
use crate::report::naming::style::NameStyle;
use crate::report::query::selection::Selection;
use crate::report::row_limits::RowLimits;
use crate::report::waits::site::{WaitSite, WaitSites};
use crate::report::waits::table::{mean, quantile};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::hash::Hash;

/// What the waits of a row have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum LockRowKey {
    /// One lock.
    Lock(LockKey),
    /// One place that waited.
    Waiter(WaitSite),
    /// One that let go, and whether it held a lock.
    Releaser(Releaser, bool),
}

/// Waits for a lock, at a place, or that one has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LockRow {
    pub(crate) key: LockRowKey,
    /// Kind of the lock; of several that of most of the time.
    pub(crate) kind: LockKind,
    /// Lock of most of the time, and its name.
    pub(crate) lock: LockKey,
    pub(crate) name: LockName,
    /// Number of different locks.
    pub(crate) locks: u64,
    /// Number and time of the waits.
    pub(crate) amount: Amount,
    /// Mean length, ns.
    pub(crate) mean_ns: u64,
    /// 99th percentile of the length, ns.
    pub(crate) p99_ns: u64,
    /// The longest wait that is in the recording, ns.
    pub(crate) longest_ns: u64,
    /// Number of threads that waited.
    pub(crate) threads: u64,
    /// Places that waited, with the time of each, largest first.
    pub(crate) waiters: Vec<(WaitSite, u64)>,
    /// Who ended the waits, with the time of each, largest first.
    pub(crate) releasers: Vec<(Releaser, u64)>,
}

impl LockRow {
    /// Name of the lock of most of the time, in this style. Foreign text.
    pub(crate) fn lock_name(&self, style: NameStyle) -> String {
        let text = self.name.text(self.lock.address);
        match self.name.variable {
            Some(_) => name::in_style(&text, style).into_owned(),
            None => text,
        }
    }

    /// Functions that the row is about, innermost first, in this style; of rows of locks none. Foreign text.
    pub(crate) fn functions(&self, labels: &Labels, style: NameStyle) -> [Option<String>; 2] {
        match &self.key {
            LockRowKey::Lock(_) => [None, None],
            LockRowKey::Waiter(site) => {
                site.labels().map(|label| label.map(|label| labels.get(label).name_in(style).to_owned()))
            }
            LockRowKey::Releaser(releaser, _) => [Some(releaser.name_in(style)), releaser.caller_in(style)],
        }
    }

    /// Whether those who end the waits have held what is waited for; else they signal.
    pub(crate) fn is_held(&self) -> bool {
        match self.key {
            LockRowKey::Releaser(_, is_held) => is_held,
            _ => self.kind.is_held(),
        }
    }

    /// Returns the word for those who end the waits.
    pub(crate) fn role(&self) -> &'static str {
        if self.is_held() { "holder" } else { "signaller" }
    }

    /// The first of `parts` and its share of the row's time, percent.
    pub(crate) fn top<'t, T>(&self, parts: &'t [(T, u64)]) -> Option<(&'t T, f64)> {
        parts.first().map(|(part, time)| (part, self.share(*time)))
    }

    /// The share of the row's time, percent. What holders of locks of goroutines have is counted apart from it.
    pub(crate) fn share(&self, time: u64) -> f64 {
        percent(time, self.amount.weight).min(100.0)
    }
}

/// All waits for locks of a selection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LockTable {
    /// The rows, largest first.
    pub(crate) rows: Vec<LockRow>,
}

#[derive(Debug, Default)]
struct LockSums {
    amount: Amount,
    lengths: Vec<(u64, u64)>,
    threads: FxHashSet<(u32, u32)>,
    kinds: FxHashMap<LockKind, u64>,
    locks: FxHashMap<LockKey, (u64, LockName)>,
    waiters: FxHashMap<WaitSite, u64>,
    releasers: FxHashMap<Releaser, u64>,
}

impl LockTable {
    /// The table of the waits of `selection`, which has nothing but waits for locks; `by` says what a row is.
    pub(crate) fn new(selection: &Selection<'_>, by: Grouping) -> Self {
        let profile = selection.profile;
        let locks = Locks::of(profile);
        let sites = WaitSites::new(profile, &selection.labels);
        let mut facts: FxHashMap<GroupKey, (WaitSite, LockKind, LockKind)> = FxHashMap::default();
        selection.for_each_path(|path, groups| {
            for group in groups {
                let Some(reason) = group.activity.reason() else { continue };
                let code =
                    path.iter().rev().filter(|step| selection.labels.get(step.label).kind.is_user_code());
                let names = code.map(|step| selection.labels.get(step.label).name.as_str());
                let site = sites.of(path, group.activity);
                let as_held = LockKind::of(Reason::Lock, names.clone());
                facts.insert(group.key(), (site, LockKind::of(reason, names), as_held));
            }
        });
        let mut sums: FxHashMap<LockRowKey, LockSums> = FxHashMap::default();
        selection.for_each_wait(|sample, wait, amount| {
            let Some(&(site, kind, as_held)) = facts.get(&selection.key_of(sample)) else { return };
            // Of goroutines only one side is known: where it is that of the holder, the stack is, too.
            let is_of_goroutines = locks.is_of_goroutines(sample);
            let is_held_by_one = is_of_goroutines && wait.waker.stack.is_some();
            let kind = if is_held_by_one { as_held } else { kind };
            let Some(lock) = locks.key(sample.labels, sample.task) else { return };
            let releaser = Releaser::of(profile, &wait.waker);
            let key = match by {
                Grouping::Holder => LockRowKey::Releaser(releaser.clone(), kind.is_held()),
                Grouping::Waiter => LockRowKey::Waiter(site),
                _ => LockRowKey::Lock(lock),
            };
            let sum = sums.entry(key).or_default();
            sum.amount.add(amount);
            sum.lengths.push((wait.duration_ns, amount.count_thousandths));
            let task = profile.tables.task(sample.task);
            sum.threads.insert((task.tid, task.generation));
            add(&mut sum.kinds, kind, amount.weight);
            if !is_held_by_one {
                add(&mut sum.waiters, site, amount.weight);
            }
            if !is_of_goroutines || is_held_by_one {
                add(&mut sum.releasers, releaser, amount.weight);
            }
            let of_lock = sum.locks.entry(lock).or_insert_with(|| (0, locks.name(sample.labels)));
            of_lock.0 = of_lock.0.saturating_add(amount.weight);
            // The first wait may have been stored before it was known where the lock is.
            if of_lock.1 == LockName::default() {
                of_lock.1 = locks.name(sample.labels);
            }
        });
        if by != Grouping::Waiter {
            add_holders(selection, &locks, &mut sums);
        }
        let mut rows: Vec<LockRow> = sums.into_iter().map(|(key, sums)| row(selection, key, sums)).collect();
        rows.sort_by_cached_key(|row| (Reverse(row.amount.weight), row_order(selection, row)));
        LockTable { rows }
    }

    /// Without the rows that a report with these limits leaves out, by their shares of `whole`.
    pub(crate) fn shown(&self, limits: RowLimits, whole: Amount) -> &[LockRow] {
        limits.of(&self.rows, |row| percent(row.amount.weight, whole.weight))
    }
}

/// Adds who held the locks of goroutines to the rows of these locks, without their time, which is that of who waited.
fn add_holders(selection: &Selection<'_>, locks: &Locks<'_>, sums: &mut FxHashMap<LockRowKey, LockSums>) {
    let profile = selection.profile;
    let holders = profile.event_of(&EventKind::GOROUTINE_HOLDERS);
    for sample in holders.into_iter().flat_map(Event::samples) {
        let row = locks.key(sample.labels, sample.task).map(LockRowKey::Lock);
        let sum = row.and_then(|row| sums.get_mut(&row));
        let Some((sum, amount)) = sum.zip(selection.sample_filter().amount(&sample)) else { continue };
        let waker = Waker { kind: WakerKind::Thread, task: Some(sample.task), stack: sample.stack };
        add(&mut sum.releasers, Releaser::of(profile, &waker), amount.weight);
    }
}

fn add<K: Eq + Hash>(sums: &mut FxHashMap<K, u64>, key: K, weight: u64) {
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(weight);
}

fn row(selection: &Selection<'_>, key: LockRowKey, mut sums: LockSums) -> LockRow {
    sums.lengths.sort_unstable();
    let kind = sums.kinds.iter().max_by_key(|(kind, time)| (**time, Reverse(**kind)));
    let mut locks: Vec<(LockKey, (u64, LockName))> = sums.locks.into_iter().collect();
    let count = locks.len() as u64;
    locks.sort_by_key(|(key, (time, _))| (Reverse(*time), key.pid, key.process, key.address));
    // A row has a wait at least.
    let (lock, (_, name)) = locks.swap_remove(0);
    let mut waiters: Vec<(WaitSite, u64)> = sums.waiters.into_iter().collect();
    waiters.sort_by_cached_key(|(site, time)| (Reverse(*time), site.names(&selection.labels)));
    let mut releasers: Vec<(Releaser, u64)> = sums.releasers.into_iter().collect();
    releasers.sort_by(|(one, time), (other, others)| (Reverse(time), one).cmp(&(Reverse(others), other)));
    LockRow {
        key,
        kind: kind.map_or(LockKind::Futex, |(kind, _)| *kind),
        lock,
        name,
        locks: count,
        amount: sums.amount,
        mean_ns: mean(&sums.lengths),
        p99_ns: quantile(&sums.lengths),
        longest_ns: sums.lengths.last().map_or(0, |(length, _)| *length),
        threads: sums.threads.len() as u64,
        waiters,
        releasers,
    }
}

/// Orders rows of equal weight in the same way whatever the order of the samples was.
fn row_order(
    selection: &Selection<'_>,
    row: &LockRow,
) -> (String, [String; 2], Option<u32>, Option<u64>, bool) {
    let (name, site, is_held) = match &row.key {
        LockRowKey::Lock(_) => (row.name.text(row.lock.address), Default::default(), false),
        LockRowKey::Waiter(site) => (String::new(), site.names(&selection.labels), false),
        LockRowKey::Releaser(releaser, is_held) => (format!("{releaser:?}"), Default::default(), *is_held),
    };
    (name, site, row.lock.pid, row.lock.address, is_held)
}
