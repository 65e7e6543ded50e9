//! Groups of samples that have the same steps, and what stands before and after their frames.

use crate::profile::Profile;
use crate::report::model::activity::Activity;
use crate::report::model::amount::Amount;
use crate::report::model::group::{Group, SamePath};
use crate::report::model::label::{Labels, Step};
use crate::report::model::metric::Shown;
use crate::report::model::quality::outermost_user_frame;
use crate::report::options::Grouping;
use std::time::Duration;

/// The groups that have one path, at least one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathGroups<'s> {
    /// Index of the first in the list of all groups.
    pub(crate) start: usize,
    /// The groups, one for each thread.
    pub(crate) list: &'s [Group],
    /// The sum of them all.
    pub(crate) amount: Amount,
}

impl<'s> IntoIterator for PathGroups<'s> {
    type Item = &'s Group;
    type IntoIter = std::slice::Iter<'s, Group>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

/// Replaces the stacks of short waits.
pub(super) fn short_waits_name(shown: &Shown<'_>) -> String {
    match min_duration_ns(shown) {
        0 => "short waits".to_owned(),
        limit => format!("waits below {}", humantime::format_duration(Duration::from_nanos(limit))),
    }
}

/// The same for those of one row of a table. Waits whose end or stack was missed are only counted, too.
pub(crate) fn short_waits_name_of(shown: &Shown<'_>, mean_ns: u64) -> String {
    match min_duration_ns(shown) {
        limit if limit > 0 && mean_ns > limit => "waits not kept".to_owned(),
        _ => short_waits_name(shown),
    }
}

fn min_duration_ns(shown: &Shown<'_>) -> u64 {
    shown.waits.map_or(0, |event| event.info().min_duration_ns)
}

/// Names the frames of all groups, and finds those that have the same steps, with what stands before and after them.
pub(super) fn name_groups(
    profile: &Profile,
    labels: &mut Labels,
    groups: &[Group],
    short_name: &str,
) -> Vec<SamePath> {
    // Many stacks share their outer frames, which are named once.
    let mut is_named = vec![false; profile.tables.stacks().len()];
    let is_of_tasks = matches!(labels.grouping(), Grouping::Thread | Grouping::Process);
    let mut paths: Vec<SamePath> = Vec::new();
    let mut start = 0;
    let is_same = |a: &Group, b: &Group| a.path_key() == b.path_key() && (!is_of_tasks || a.task == b.task);
    for same in groups.chunk_by(is_same) {
        let range = start..start + same.len();
        start = range.end;
        let root = name_stack(profile, labels, &same[0], short_name, &mut is_named);
        let tail = same[0].activity.reason().map(|reason| labels.wait_step(reason));
        paths.push(SamePath { range, amount: Amount::of(same), root, tail });
    }
    paths
}

/// Names the frames of a group's stack; returns the step that stands before them or for all of them.
fn name_stack(
    profile: &Profile,
    labels: &mut Labels,
    group: &Group,
    short_name: &str,
    is_named: &mut [bool],
) -> Option<Step> {
    if let Grouping::Label(key) = labels.grouping() {
        return Some(labels.value_step(profile, key, group.value));
    }
    if matches!(labels.grouping(), Grouping::Thread | Grouping::Process) {
        return Some(labels.task_step(profile, profile.tables.task(group.task)));
    }
    if matches!(group.activity, Activity::WaitingShortly(_)) {
        return Some(labels.short_waits_step(short_name));
    }
    let mut at = group.stack;
    while let Some(id) = at.filter(|id| !std::mem::replace(&mut is_named[id.index()], true)) {
        let stack = profile.tables.stack(id);
        labels.resolve(profile, stack.frame);
        at = stack.parent;
    }
    if group.outcome.is_cut() {
        return Some(labels.cut_step(profile, group.outcome, outermost_user_frame(profile, group.stack)));
    }
    group.stack.is_none().then(|| labels.nothing_step(false))
}
