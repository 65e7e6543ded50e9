//! The groups of a selection: equal samples that pass the filters.

use crate::report::analysis::Analysis;
use crate::report::model::activity::Activity;
use crate::report::model::group::{Group, count_equal};
use crate::report::model::metric::{Shown, waits_of};
use crate::report::query::filter::SampleFilter;

/// The groups of `shown` that pass `filter`. Where the filter is one on threads, the samples are not counted again.
pub(crate) fn groups_of(recording: &Analysis, shown: &Shown<'_>, filter: &SampleFilter) -> Vec<Group> {
    let profile = &recording.profile;
    // One view of a profile without waits needs its groups once: keeping them would be a copy in vain.
    let is_kept = waits_of(profile).is_some() || recording.known_groups().is_some();
    if !is_kept || !shown.is_time_of(profile) || !filter.is_by_thread() {
        return count_equal(profile, recording.reasons(), shown, filter);
    }
    let is_shown = |group: &&Group| match group.activity {
        Activity::Running => shown.sampled.is_some(),
        Activity::Waiting(_) | Activity::WaitingShortly(_) => shown.waits.is_some(),
    };
    let groups = recording.groups().iter().filter(|group| filter.keeps_task(group.task));
    groups.filter(is_shown).copied().collect()
}
