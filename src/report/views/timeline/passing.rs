//! Which samples a timeline has, and what their threads did.

use super::timeline_state::TimelineState;
use crate::base::failure::Failure;
use crate::profile::{Reason, Sample};
use crate::report::analysis::Analysis;
use crate::report::heap::heap_blocks::all_blocks;
use crate::report::model::group::{Group, GroupKey, key_of};
use crate::report::model::metric::Shown;
use crate::report::options::{CommonOptions, FilterOptions, TimeRange};
use crate::report::query::filter::SampleFilter;
use crate::report::query::selection::Selection;
use rustc_hash::FxHashSet;

/// Start and end of a sample or wait, ns: a sample has length 0, merged samples that of their bucket of time.
pub(super) fn interval(sample: &Sample) -> (u64, u64) {
    let length_ns = match (&sample.merged, &sample.wait) {
        (Some(merged), _) => merged.span_ns,
        (None, Some(wait)) => wait.duration_ns,
        (None, None) => 0,
    };
    (sample.time_ns, sample.time_ns.saturating_add(length_ns))
}

/// Which samples pass the filters, whatever their time.
pub(super) struct Passing<'r> {
    recording: &'r Analysis,
    /// The events that the rows show: all running and waiting time, or the event of a metric that is no time.
    pub(super) of_rows: Shown<'r>,
    /// Whether the rows show time.
    pub(super) is_time: bool,
    /// Whether they show what was live: all blocks of the heap, whichever count.
    pub(super) is_level: bool,
    pub(super) filter: SampleFilter,
    /// Whether samples of one thread may have different fates.
    asks_samples: bool,
    shows_idle: bool,
    /// Samples that ended before this time are left out, ns.
    pub(super) start_ns: u64,
    /// Keys of the samples whose functions pass; `None` if no filter is on functions.
    keys: Option<FxHashSet<GroupKey>>,
}

impl<'r> Passing<'r> {
    pub(super) fn new(
        recording: &'r Analysis,
        shown: &Shown<'r>,
        options: &CommonOptions,
        start_ns: u64,
    ) -> Result<Self, Failure> {
        let is_time = shown.metric().is_time();
        let all_blocks = all_blocks(&recording.profile).filter(|_| !is_time).map(Shown::one);
        let is_level = all_blocks.is_some();
        let of_rows = match all_blocks {
            Some(all_blocks) => all_blocks,
            None if is_time => Shown::time_of(&recording.profile),
            None => shown.clone(),
        };
        let filter =
            FilterOptions { time: TimeRange::default(), hide: None, show: None, ..options.filter.clone() };
        let is_on_names = filter.drops_by_code();
        let shows_idle = filter.idle;
        let sample_filter = SampleFilter::new(&filter, &recording.profile.tables)?;
        let asks_samples = filter.drops_single_samples();
        let keys = if is_on_names {
            let options = CommonOptions { filter: FilterOptions { idle: true, ..filter }, ..options.clone() };
            let selection = Selection::new(recording, of_rows.clone(), &options)?;
            Some(selection.groups().iter().map(Group::key).collect())
        } else {
            None
        };
        let filter = sample_filter;
        Ok(Passing {
            recording,
            of_rows,
            is_time,
            is_level,
            filter,
            asks_samples,
            shows_idle,
            start_ns,
            keys,
        })
    }

    /// When a block that was live is gone, ns; `None` for what is no block.
    pub(super) fn live_until_ns(&self, sample: &Sample) -> Option<u64> {
        let block = sample.block.filter(|_| self.is_level)?;
        let end_ns = self.recording.profile.duration_ns();
        Some(
            block
                .lifetime_ns
                .map_or(end_ns, |lifetime_ns| sample.time_ns.saturating_add(lifetime_ns))
                .min(end_ns),
        )
    }

    /// State of the thread of a sample; `None` if the sample does not pass.
    pub(super) fn state_of(&self, sample: &Sample) -> Option<TimelineState> {
        if !self.filter.keeps_task(sample.task) || (self.asks_samples && self.filter.amount(sample).is_none())
        {
            return None;
        }
        if self.live_until_ns(sample).unwrap_or(interval(sample).1) < self.start_ns {
            return None;
        }
        if let Some(keys) = &self.keys
            && !keys.contains(&key_of(sample, self.recording.reasons(), &self.filter))
        {
            return None;
        }
        let state = self.state_by_wait(sample)?;
        Some(if self.is_time { state } else { TimelineState::Sampled })
    }

    /// State of a thread that is in a wait, or runs; `None` for an idle wait that is not shown.
    fn state_by_wait(&self, sample: &Sample) -> Option<TimelineState> {
        let Some(wait) = &sample.wait else { return Some(TimelineState::Running) };
        if wait.reason == Reason::NoCpu {
            return Some(TimelineState::NoCpu);
        }
        let reason = self.recording.reasons().reason(wait, sample.stack);
        if self.recording.idle_waits().is_idle(sample.task, sample.stack, reason) {
            return self.shows_idle.then_some(TimelineState::Idle);
        }
        Some(TimelineState::Blocked(reason))
    }
}
