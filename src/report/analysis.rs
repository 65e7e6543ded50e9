//! What is decided about a recording once, whatever is shown of it: why threads waited, which waits are idle, which samples
//! are equal. All views of a recording share one analysis.

use super::model::group::{self, Group};
use super::model::metric::{Shown, waits_of};
use super::model::rollup::RollupTime;
use super::query::filter::SampleFilter;
use super::recording::Recording;
use super::waits::idle::IdleWaits;
use super::waits::reasons::Reasons;
use crate::profile::{Integrity, Profile};
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A recording that does not change any more, and what was found out about it; each fact is computed on first use.
#[derive(Debug, Clone, Default)]
pub struct Analysis {
    recording: Recording,
    reasons: OnceLock<Reasons>,
    groups: OnceLock<Arc<Vec<Group>>>,
    idle: OnceLock<IdleWaits>,
    rollup: OnceLock<RollupTime>,
    last_passing: Arc<Mutex<Option<FilteredGroups>>>,
}

/// Groups that pass a filter on samples.
#[derive(Debug)]
struct FilteredGroups {
    filter: SampleFilter,
    groups: Arc<Vec<Group>>,
}

impl Analysis {
    /// Starts an analysis of a profile that was read with this integrity.
    pub fn new(profile: Profile, integrity: Integrity) -> Self {
        Self::of(Recording::new(profile, integrity))
    }

    /// Returns the analysis of `recording`; nothing is computed yet.
    pub(crate) fn of(recording: Recording) -> Self {
        Analysis { recording, ..Analysis::default() }
    }

    /// The recording, without what was found out about it.
    pub(crate) fn into_recording(self) -> Recording {
        self.recording
    }

    /// The same of what `change` makes of the recording; nothing of it is computed yet.
    #[cfg(test)]
    pub(crate) fn changed(mut self, change: impl FnOnce(&mut Recording)) -> Self {
        change(&mut self.recording);
        Self::of(self.recording)
    }

    /// Why threads waited.
    pub(crate) fn reasons(&self) -> &Reasons {
        self.reasons.get_or_init(|| Reasons::of(&self.profile))
    }

    /// Which waits are idle.
    pub(crate) fn idle_waits(&self) -> &IdleWaits {
        self.idle.get_or_init(|| IdleWaits::of(&self.profile, self.groups()))
    }

    /// The part of which only sums for each bucket of time are left.
    pub(crate) fn rollup_time(&self) -> &RollupTime {
        self.rollup.get_or_init(|| RollupTime::of(&self.profile))
    }

    /// Computes everything now that all views of the recording share: worth it for one that is looked at in many ways. Parts
    /// of a picture are computed side by side, and must not wait for each other's facts in a thread that one of them needs.
    pub(crate) fn prepare(&self) {
        let _ = (self.groups(), self.rollup_time());
        if waits_of(&self.profile).is_some() {
            let _ = self.idle_waits();
        }
    }

    /// The groups of equal samples, if they have been computed.
    pub(super) fn known_groups(&self) -> Option<&Arc<Vec<Group>>> {
        self.groups.get()
    }

    /// All running and waiting time, equal samples counted together.
    pub(super) fn groups(&self) -> &Arc<Vec<Group>> {
        self.groups.get_or_init(|| Arc::new(group::all_groups(&self.profile, self.reasons())))
    }

    /// The same of what passes `filter`. That of the last filter is kept: the parts of a view ask for it one after the other.
    pub(super) fn groups_passing(&self, filter: &SampleFilter) -> Arc<Vec<Group>> {
        // Nothing is left half-done by a panic while the lock is held.
        let last = || self.last_passing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last().as_ref().filter(|known| known.filter == *filter) {
            return Arc::clone(&known.groups);
        }
        // Not while the lock is held: while a thread of the pool waits for others, it takes up other work, which may ask, too.
        let shown = Shown::time_of(&self.profile);
        let groups = Arc::new(group::count_equal(&self.profile, self.reasons(), &shown, filter));
        *last() = Some(FilteredGroups { filter: filter.clone(), groups: Arc::clone(&groups) });
        groups
    }
}

impl Deref for Analysis {
    type Target = Recording;

    fn deref(&self) -> &Recording {
        &self.recording
    }
}

/// A recording by identity: a later snapshot of it is another one, even if it holds the same samples.
#[derive(Debug, Clone)]
pub(crate) struct Seen(pub(crate) Arc<Analysis>);

impl PartialEq for Seen {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Seen {}
