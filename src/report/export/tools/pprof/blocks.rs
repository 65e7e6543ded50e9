//! Blocks of the heap that count, by what samples of all blocks have in common: both stand side by side in one profile.

use crate::profile::LabelSetId;
use crate::report::model::amount::Amount;
use crate::report::model::group::{Group, GroupKey};
use crate::report::query::selection::Selection;
use rustc_hash::FxHashMap;

/// Sums of the blocks that count. Empty where no heap is exported.
#[derive(Debug, Default)]
pub(super) struct CountedBlocks(FxHashMap<(GroupKey, Option<LabelSetId>), Amount>);

impl CountedBlocks {
    /// The blocks of a selection.
    pub(super) fn of_selection(counted: &Selection<'_>) -> Self {
        let mut sums: FxHashMap<_, Amount> = FxHashMap::default();
        counted.for_each_sample(|_, sample, amount| {
            sums.entry((counted.key_of(sample), sample.labels)).or_default().add(amount);
        });
        CountedBlocks(sums)
    }

    /// Those of a part of a group, which has these labels.
    pub(super) fn of(&self, part: &Group, labels: Option<LabelSetId>) -> Amount {
        self.0.get(&(part.key(), labels)).copied().unwrap_or_default()
    }
}
