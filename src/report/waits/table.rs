//! The table of waits: one row for each reason and site, with how often, how long, and who ended them.

use super::site::{WaitSite, WaitSites};
use super::waker::{WokenBy, woken_by};
use crate::base::units::percent;
use crate::profile::{Reason, Waker};
use crate::report::model::amount::Amount;
use crate::report::model::group::GroupKey;
use crate::report::model::label::LabelId;
use crate::report::options::SortKey;
use crate::report::query::selection::Selection;
use crate::report::row_limits::RowLimits;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Share of the waits, in thousandths, that are no longer than [`WaitRow::p99_ns`].
const P99_THOUSANDTHS: u64 = 990;

/// Waits for one reason at one site.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WaitRow {
    /// Reason of the waits.
    pub(crate) reason: Reason,
    /// Call that blocks, with its caller in the program.
    pub(crate) site: WaitSite,
    /// The call that blocked, outside of the kernel: that of most of the time.
    pub(crate) call: Option<LabelId>,
    /// Number and time of the waits.
    pub(crate) amount: Amount,
    /// Part of `amount` that is idle, where idle waits are shown.
    pub(crate) idle: Amount,
    /// Mean length, ns.
    pub(crate) mean_ns: u64,
    /// 99th percentile of the length, ns; `None` for waits that are not known one by one.
    pub(crate) p99_ns: Option<u64>,
    /// The longest wait that is in the recording, ns.
    pub(crate) longest_ns: Option<u64>,
    /// Number of threads that waited.
    pub(crate) threads: u64,
    /// Who ended them, commonest first.
    pub(crate) woken_by: Vec<WokenBy>,
}

/// All waits of a selection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WaitTable {
    /// The rows, largest first.
    pub(crate) rows: Vec<WaitRow>,
}

/// Sums collected for a row.
#[derive(Debug, Default)]
struct WaitSums {
    amount: Amount,
    idle: Amount,
    calls: FxHashMap<LabelId, u64>,
    threads: FxHashSet<(u32, u32)>,
    /// Length, and thousandths of how many waits.
    lengths: Vec<(u64, u64)>,
    wakers: FxHashMap<Waker, u64>,
}

impl WaitTable {
    /// The table of the waits of `selection` in the order of `sort`.
    pub(crate) fn new(selection: &Selection<'_>, sort: SortKey) -> Self {
        let sites = WaitSites::new(selection.profile, &selection.labels);
        let mut numbers: FxHashMap<(Reason, WaitSite), usize> = FxHashMap::default();
        let mut sums: Vec<WaitSums> = Vec::new();
        let mut row_of: FxHashMap<GroupKey, usize> = FxHashMap::default();
        selection.for_each_path(|path, groups| {
            for group in groups {
                let Some(reason) = group.activity.reason() else { continue };
                let site = sites.of(path, group.activity);
                let number = *numbers.entry((reason, site)).or_insert_with(|| {
                    sums.push(WaitSums::default());
                    sums.len() - 1
                });
                let sum = &mut sums[number];
                sum.amount.add(group.amount);
                if selection.shown_idle.is_some_and(|idle| idle.contains(group)) {
                    sum.idle.add(group.amount);
                }
                if let Some(call) = sites.call(path).filter(|_| matches!(site, WaitSite::Call { .. })) {
                    let time = sum.calls.entry(call).or_default();
                    *time = time.saturating_add(group.amount.weight);
                }
                let task = selection.profile.tables.task(group.task);
                sum.threads.insert((task.tid, task.generation));
                row_of.insert(group.key(), number);
            }
        });
        selection.for_each_wait(|sample, wait, amount| {
            let Some(number) = row_of.get(&selection.key_of(sample)) else { return };
            let sum = &mut sums[*number];
            sum.lengths.push((wait.duration_ns, amount.count_thousandths));
            let woken = sum.wakers.entry(wait.waker).or_default();
            *woken = woken.saturating_add(amount.count_thousandths);
        });
        let mut rows: Vec<WaitRow> =
            (numbers.into_iter()).map(|(key, number)| row(selection, key, &mut sums[number])).collect();
        rows.sort_by_cached_key(|row| {
            let amounts = match sort {
                SortKey::Count => [row.amount.count_thousandths, row.amount.weight],
                SortKey::SelfWeight | SortKey::TotalWeight => {
                    [row.amount.weight, row.amount.count_thousandths]
                }
            };
            (Reverse(amounts), row.reason, order_key(selection, row.site))
        });
        WaitTable { rows }
    }

    /// Without the rows that a report with these limits leaves out, by their shares of `whole` in the sort key.
    pub(crate) fn shown(&self, limits: RowLimits, sort: SortKey, whole: Amount) -> &[WaitRow] {
        let share = |row: &WaitRow| match sort {
            SortKey::Count => percent(row.amount.count_thousandths, whole.count_thousandths),
            SortKey::SelfWeight | SortKey::TotalWeight => percent(row.amount.weight, whole.weight),
        };
        limits.of(&self.rows, share)
    }
}

fn row(selection: &Selection<'_>, (reason, site): (Reason, WaitSite), sums: &mut WaitSums) -> WaitRow {
    sums.lengths.sort_unstable();
    let name = |label: LabelId| (&selection.labels.get(label).name, label);
    let call = (sums.calls.iter()).max_by_key(|(label, time)| (**time, Reverse(name(**label))));
    let mut wakers: Vec<(Waker, u64)> = sums.wakers.iter().map(|(waker, count)| (*waker, *count)).collect();
    wakers.sort_unstable_by_key(|(waker, _)| (waker.kind.code(), waker.task, waker.stack));
    let is_kept = !sums.lengths.is_empty();
    WaitRow {
        reason,
        site,
        call: call.map(|(label, _)| *label),
        amount: sums.amount,
        idle: sums.idle,
        mean_ns: if is_kept { mean(&sums.lengths) } else { mean_of_counted(sums.amount) },
        p99_ns: is_kept.then(|| quantile(&sums.lengths)),
        longest_ns: sums.lengths.last().map(|(length, _)| *length),
        threads: sums.threads.len() as u64,
        woken_by: woken_by(selection.profile, reason, &wakers),
    }
}

/// Orders rows of equal weight in the same way whatever the order of the samples was.
fn order_key(selection: &Selection<'_>, site: WaitSite) -> (u8, [String; 2], Option<LabelId>) {
    match site {
        WaitSite::Call { blocked_in, .. } => (0, site.names(&selection.labels), blocked_in),
        WaitSite::NoCpu => (1, Default::default(), None),
        WaitSite::Short => (2, Default::default(), None),
    }
}

/// Mean length of waits, given with thousandths of how many.
pub(crate) fn mean(lengths: &[(u64, u64)]) -> u64 {
    let sum: u128 = lengths.iter().map(|(length, count)| u128::from(*length) * u128::from(*count)).sum();
    let count: u128 = lengths.iter().map(|(_, count)| u128::from(*count)).sum();
    u64::try_from(sum / count.max(1)).unwrap_or(u64::MAX)
}

fn mean_of_counted(amount: Amount) -> u64 {
    amount.weight / amount.count().max(1)
}

/// The length that 99 of 100 waits do not exceed. `lengths` are sorted.
pub(crate) fn quantile(lengths: &[(u64, u64)]) -> u64 {
    let all: u128 = lengths.iter().map(|(_, count)| u128::from(*count)).sum();
    let mut seen = 0u128;
    let at = lengths.iter().find(|(_, count)| {
        seen += u128::from(*count);
        seen * 1000 >= all * u128::from(P99_THOUSANDTHS)
    });
    at.or(lengths.last()).map_or(0, |(length, _)| *length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_stands_for_several_counts_as_several() {
        // 98 waits of 1 us, and two kept ones of 1 ms that are weighted as 1 and 100.
        let mut lengths = vec![(1_000, 1_000); 98];
        assert_eq!(quantile(&lengths), 1_000);
        lengths.push((1_000_000, 1_000));
        lengths.push((1_000_000, 100_000));
        assert_eq!(quantile(&lengths), 1_000_000);
        assert_eq!(mean(&lengths), (98 * 1_000 + 101 * 1_000_000) / 199);
        assert_eq!((mean(&[]), quantile(&[])), (0, 0));
    }

    #[test]
    fn one_of_a_hundred_does_not_move_the_quantile() {
        let mut lengths = vec![(1_000, 1_000); 99];
        lengths.push((1_000_000, 1_000));
        assert_eq!(quantile(&lengths), 1_000);
        lengths.push((1_000_000, 1_000));
        assert_eq!(quantile(&lengths), 1_000_000);
    }
}
