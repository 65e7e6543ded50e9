//! The groups of a selection: equal samples that pass the filters.

use crate::profile::EventKind;
use crate::report::analysis::Analysis;
use crate::report::model::activity::Activity;
use crate::report::model::amount::Amount;
use crate::report::model::group::{Group, SamePath, amount_of, count_equal};
use crate::report::model::metric::{Shown, waits_of};
use crate::report::query::filter::SampleFilter;
use crate::report::waits::idle::IdleWaits;
use std::sync::Arc;

/// The groups of `shown` that pass `filter`. Where the filter is one on threads, or the last one again, the samples are not
/// counted again, nor copied if all of them pass.
pub(crate) fn groups_of(recording: &Analysis, shown: &Shown<'_>, filter: &SampleFilter) -> Arc<Vec<Group>> {
    let profile = &recording.profile;
    // One view of a profile without waits needs its groups once: keeping them would be a copy in vain.
    let is_kept = waits_of(profile).is_some() || recording.known_groups().is_some();
    if !is_kept || !shown.is_time_of(profile) {
        return Arc::new(count_equal(profile, recording.reasons(), shown, filter));
    }
    let shows_all = shown.sampled.is_some() && shown.waits.is_some() == waits_of(profile).is_some();
    let is_shown = |group: &&Group| match group.activity {
        Activity::Running => shown.sampled.is_some(),
        Activity::Waiting(_) | Activity::WaitingShortly(_) => shown.waits.is_some(),
    };
    let groups = match filter.is_by_thread() {
        true => Arc::clone(recording.groups()),
        false => recording.groups_passing(filter),
    };
    if shows_all && (!filter.is_by_thread() || filter.keeps_all()) {
        return groups;
    }
    let shown = groups.iter().filter(|group| filter.keeps_task(group.task)).filter(is_shown);
    Arc::new(shown.copied().collect())
}

/// The `groups` but for idle waits, whose sum is added to `hidden`.
pub(super) fn without_idle(
    idle: &IdleWaits,
    groups: Arc<Vec<Group>>,
    hidden: &mut Amount,
) -> Arc<Vec<Group>> {
    let Some(first) = groups.iter().position(|group| idle.contains(group)) else { return groups };
    let mut kept = Vec::with_capacity(groups.len());
    kept.extend_from_slice(&groups[..first]);
    for group in &groups[first..] {
        if idle.contains(group) {
            hidden.add(group.amount);
        } else {
            kept.push(*group);
        }
    }
    Arc::new(kept)
}

/// The sum of the groups that are no waits.
fn sum_of_running(groups: &[Group], paths: &[SamePath]) -> Amount {
    let mut sum = Amount::default();
    let running = paths.iter().filter(|path| groups[path.range.start].activity == Activity::Running);
    running.for_each(|path| sum.add(path.amount));
    sum
}

/// The sum of all samples that are no waiting time; `groups` are those that pass the filter.
pub(super) fn sum_of_sampled(
    shown: &Shown<'_>,
    filter: &SampleFilter,
    groups: &[Group],
    paths: &[SamePath],
) -> Amount {
    match shown.sampled {
        // Which waits are idle is known of waiting time alone, which is counted by that.
        None => match shown.waits.filter(|event| !event.kind().is(&EventKind::OFF_CPU)) {
            Some(event) => amount_of(event),
            None => Amount::default(),
        },
        // They are counted already.
        Some(_) if filter.keeps_all() => sum_of_running(groups, paths),
        Some(event) => amount_of(event),
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{Integrity, Reason, Waker};
    use crate::report::tests::fixture::Build;
    use crate::report::{Analysis, CommonOptions, FilterOptions, Metric, TimeRange};

    #[test]
    fn what_passed_one_filter_is_not_taken_for_what_passes_another() {
        let mut build = Build::new();
        let task = build.task(1, 1, "app", "app");
        build.add(task, 10, &["/x:main", "/x:work"]);
        for start_ns in [1_000_000, 6_000_000] {
            let wait = [start_ns, 2_000_000, 2_000_000];
            build.thinned_wait(task, Reason::Pipe, wait, &["/x:main", "/x:read"], Waker::default());
        }
        let recording = build.finish();
        let total = |recording: &Analysis, metric, to_ns| {
            let time = TimeRange { from_ns: Some(0), to_ns: Some(to_ns) };
            let filter = FilterOptions { time, idle: true, ..FilterOptions::default() };
            let options = CommonOptions { metric: Some(metric), filter, ..CommonOptions::default() };
            recording.select(&options).unwrap().total
        };
        let mut totals = Vec::new();
        for to_ns in [2_000_000, 7_000_000, 2_000_000] {
            for metric in [Metric::ON_CPU, Metric::OFF_CPU, Metric::WALL] {
                let counted = total(&recording, metric, to_ns);
                let unknown = Analysis::new(recording.profile.clone(), Integrity::default());
                assert_eq!(counted, total(&unknown, metric, to_ns));
                totals.push(counted.weight);
            }
        }
        assert_eq!(totals[..3], totals[6..]);
        assert_eq!((totals[1], totals[4]), (1_000_000, 3_000_000), "the parts of both waits");
    }
}
