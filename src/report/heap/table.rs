//! The table of the heap: one row for each place in the program that allocated.

use super::heap_blocks::{all_blocks, is_from_before};
use crate::base::failure::Failure;
use crate::base::units::percent;
use crate::profile::Sample;
use crate::report::analysis::Analysis;
use crate::report::model::activity::Activity;
use crate::report::model::amount::Amount;
use crate::report::model::metric::Shown;
use crate::report::naming::style::NameStyle;
use crate::report::options::CommonOptions;
use crate::report::query::selection::Selection;
use crate::report::row_limits::RowLimits;
use crate::report::waits::site::{WaitSite, WaitSites};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// A place that allocated: the program's own function that called the allocator, if only in a library, and its caller. Foreign
/// text.
pub(crate) type HeapPlace = [Option<String>; 2];

/// Blocks that one place allocated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeapRow {
    pub(crate) place: HeapPlace,
    /// Blocks that count: bytes, number, error.
    pub(crate) amount: Amount,
    /// All blocks that the place allocated.
    pub(crate) allocated: Amount,
    /// Median of the lifetimes of those that were freed, ns; `None` if none was.
    pub(crate) lifetime_ns: Option<u64>,
}

impl HeapRow {
    /// Mean size of the blocks that count, bytes.
    pub(crate) fn mean_bytes(&self) -> u64 {
        self.amount.weight.saturating_mul(1000).checked_div(self.amount.count_thousandths).unwrap_or(0)
    }

    /// Half the width of the 95 % interval around the bytes that count.
    pub(crate) fn error_bytes(&self) -> u64 {
        // Amounts have their variance in the same parts of any unit.
        self.amount.error_ns()
    }
}

/// All rows, largest first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeapTable {
    pub(crate) rows: Vec<HeapRow>,
}

#[derive(Debug, Default)]
struct PlaceSums {
    amount: Amount,
    /// Lifetimes with the number of blocks, thousandths.
    lifetimes: Vec<(u64, u64)>,
}

impl HeapTable {
    /// The table of the blocks of `selection`, which is of `recording`, in names of this style.
    ///
    /// # Errors
    ///
    /// A usage failure for a bad pattern.
    pub(crate) fn new(
        recording: &Analysis,
        selection: &Selection<'_>,
        options: &CommonOptions,
        names: NameStyle,
    ) -> Result<Self, Failure> {
        let counted = sums(selection, names, |_| true);
        // What it has allocated in the recording.
        let is_from_before = is_from_before(&recording.profile);
        let is_new = |sample: &Sample| !is_from_before(sample);
        let all = all_blocks(&recording.profile).map(Shown::one);
        let all = all.map(|all| Selection::new(recording, all, options)).transpose()?;
        let mut all = all.map(|all| sums(&all, names, is_new)).unwrap_or_default();
        let row = |(place, counted): (HeapPlace, PlaceSums)| {
            let PlaceSums { amount: allocated, lifetimes } = all.remove(&place).unwrap_or_default();
            HeapRow { place, amount: counted.amount, allocated, lifetime_ns: median(lifetimes) }
        };
        let mut rows: Vec<HeapRow> = counted.into_iter().map(row).collect();
        rows.sort_by(|a, b| (Reverse(a.amount.weight), &a.place).cmp(&(Reverse(b.amount.weight), &b.place)));
        Ok(HeapTable { rows })
    }

    /// The rows that are shown within these limits.
    pub(crate) fn shown(&self, limits: RowLimits, whole: Amount) -> &[HeapRow] {
        limits.of(&self.rows, |row| percent(row.amount.weight, whole.weight))
    }
}

/// Sums by place of the blocks of a selection that are counted.
fn sums(
    selection: &Selection<'_>,
    names: NameStyle,
    is_counted: impl Fn(&Sample) -> bool,
) -> FxHashMap<HeapPlace, PlaceSums> {
    let sites = WaitSites::new(selection.profile, &selection.labels);
    let mut places = FxHashMap::default();
    selection.for_each_path(|path, groups| {
        for group in groups {
            places.insert(group.key(), sites.of(path, Activity::Running));
        }
    });
    let mut by_site: FxHashMap<WaitSite, PlaceSums> = FxHashMap::default();
    selection.for_each_sample(|_, sample, amount| {
        let (Some(site), Some(block)) = (places.get(&selection.key_of(sample)), sample.block) else { return };
        if !is_counted(sample) {
            return;
        }
        let sum = by_site.entry(*site).or_default();
        sum.amount.add(amount);
        sum.lifetimes.extend(block.lifetime_ns.map(|lifetime_ns| (lifetime_ns, amount.count_thousandths)));
    });
    let name = |label| selection.labels.get(label).name_in(names).to_owned();
    let mut by_place: FxHashMap<HeapPlace, PlaceSums> = FxHashMap::default();
    for (site, sums) in by_site {
        let of_place = by_place.entry(site.labels().map(|label| label.map(name))).or_default();
        of_place.amount.add(sums.amount);
        of_place.lifetimes.extend(sums.lifetimes);
    }
    by_place
}

/// The median of values with the number of times that each counts.
fn median(mut values: Vec<(u64, u64)>) -> Option<u64> {
    values.sort_unstable();
    let whole: u64 = values.iter().fold(0, |sum, (_, times)| sum.saturating_add(*times));
    let mut before = 0u64;
    values.iter().find_map(|(value, times)| {
        before = before.saturating_add(*times);
        (before.saturating_mul(2) >= whole).then_some(*value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_each_value_so_many_times() {
        assert_eq!(median(vec![(9, 1000), (1, 1000), (5, 3000)]), Some(5));
        assert_eq!(median(vec![(1, 9000), (100, 1000)]), Some(1));
        assert_eq!(median(Vec::new()), None);
    }
}
