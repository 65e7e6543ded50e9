//! The groups of a selection, divided by the labels of their samples.

use super::in_time::GroupIndex;
use crate::profile::LabelSetId;
use crate::report::model::amount::Amount;
use crate::report::model::group::Group;
use crate::report::query::selection::Selection;
use std::collections::BTreeMap;

/// Amounts by group and set of labels. Empty where no sample has labels.
#[derive(Debug, Default)]
pub(super) struct LabelParts(BTreeMap<(u32, Option<LabelSetId>), Amount>);

impl LabelParts {
    pub(super) fn of(selection: &Selection<'_>) -> Self {
        let mut parts = LabelParts::default();
        if selection.profile.tables.label_sets().is_empty() {
            return parts;
        }
        let groups = GroupIndex::of(selection);
        selection.for_each_sample(|_, sample, amount| {
            if let Some(group) = groups.group_of(sample) {
                parts.0.entry((group, sample.labels)).or_default().add(amount);
            }
        });
        parts
    }

    /// The parts of `group`, which has this index: those of no labels first. A group of waits that were only counted is one part.
    pub(super) fn of_group(&self, index: usize, group: &Group) -> Vec<(Option<LabelSetId>, Group)> {
        let index = index as u32;
        let parts = self.0.range((index, None)..=(index, Some(LabelSetId(u32::MAX))));
        let mut parts: Vec<(Option<LabelSetId>, Group)> =
            parts.map(|((_, labels), amount)| (*labels, Group { amount: *amount, ..*group })).collect();
        if parts.is_empty() {
            parts.push((None, *group));
        }
        parts
    }
}
