//! A recording as it was read, and what is decided about it once: why threads waited, which waits are idle, which samples
//! are equal.

use super::model::group::{self, Group};
use super::model::quality::Quality;
use super::model::rollup::RollupTime;
use super::model::thread_names;
use super::waits::idle::IdleWaits;
use super::waits::reasons::Reasons;
use crate::base::units;
use crate::profile::{CpuShares, FrameId, Integrity, Profile};
use std::sync::OnceLock;

/// A profile as it was read.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// What was recorded.
    pub profile: Profile,
    /// How much of the file could be read.
    pub(crate) integrity: Integrity,
    /// Why threads waited; computed on first use.
    reasons: OnceLock<Reasons>,
    /// All running and waiting time; computed on first use.
    groups: OnceLock<Vec<Group>>,
    /// Which waits are idle; computed on first use.
    idle: OnceLock<IdleWaits>,
    /// What it cost in the last seconds, of a recording that goes on.
    late_cost: Option<CpuShares>,
    /// Of which part only sums are left; computed on first use.
    rollup: OnceLock<RollupTime>,
    /// Frames whose names are still being read.
    names_to_come: Vec<FrameId>,
}

impl Recording {
    /// A profile and how much of it could be read. Each thread has its last name from here on.
    pub fn new(mut profile: Profile, integrity: Integrity) -> Self {
        thread_names::settle(&mut profile);
        Recording {
            profile,
            integrity,
            reasons: OnceLock::new(),
            groups: OnceLock::new(),
            idle: OnceLock::new(),
            late_cost: None,
            rollup: OnceLock::new(),
            names_to_come: Vec::new(),
        }
    }

    /// The same, of a recording that goes on and some of whose frames get their names later.
    pub(crate) fn with_names_to_come(self, frames: Vec<FrameId>) -> Self {
        Recording { names_to_come: frames, ..self }
    }

    /// The same, of a recording that goes on: with what it cost in the last seconds.
    pub(crate) fn with_late_cost(self, late_cost: Option<CpuShares>) -> Self {
        Recording { late_cost, ..self }
    }

    /// Of the frames of all samples those whose names are still being read.
    pub(crate) fn frames_to_name(&self, quality: &Quality) -> u64 {
        let samples = |frame: &FrameId| quality.samples_of_frame.get(frame.index()).copied().unwrap_or(0);
        self.names_to_come.iter().map(samples).fold(0, u64::saturating_add)
    }

    /// What recording cost, for one line: what `prof` used of a CPU while it recorded, and the CPU time that it took before
    /// and after. Of a recording that goes on it is that of the last seconds. `None` when it is not known.
    pub(crate) fn cost_words(&self) -> Option<String> {
        if let Some(late) = self.late_cost {
            return Some(units::cpu_shares(late));
        }
        let end = self.profile.end.as_ref()?;
        let Some(shares) = end.while_recording() else {
            let all_ns = end.cpu_ns.saturating_add(end.bpf_ns);
            return (all_ns > 0).then(|| format!("prof {} CPU in all", units::duration(all_ns)));
        };
        let around = end
            .before_after_ns()
            .map_or(String::new(), |ns| format!(", {} before and after", units::duration(ns)));
        Some(format!("{}{around}", units::cpu_shares(shares)))
    }

    /// The same in several lines, with what belongs to no share.
    pub(crate) fn cost_lines(&self) -> Vec<String> {
        let Some(end) = &self.profile.end else { return Vec::new() };
        let mut lines = Vec::new();
        lines.extend(self.late_cost.map(|late| format!("{} in the last 10 s", units::cpu_shares(late))));
        lines.extend(end.while_recording().map(|all| format!("{} while recording", units::cpu_shares(all))));
        lines.extend(end.before_after_ns().map(|ns| match self.late_cost {
            Some(_) => format!("{} of CPU time for setting up", units::duration(ns)),
            None => format!("{} of CPU time before and after", units::duration(ns)),
        }));
        if end.max_rss_bytes > 0 {
            lines.push(format!("{} of memory at most", units::bytes(end.max_rss_bytes)));
        }
        lines
    }

    /// Why threads waited. Decided when asked for the first time; the profile must not change afterwards.
    pub(crate) fn reasons(&self) -> &Reasons {
        self.reasons.get_or_init(|| Reasons::of(&self.profile))
    }

    /// Which waits are idle. Decided when asked for the first time; the profile must not change afterwards.
    pub(crate) fn idle_waits(&self) -> &IdleWaits {
        self.idle.get_or_init(|| IdleWaits::of(&self.profile, self.groups()))
    }

    /// The part of which only sums for each step of time are left.
    pub(crate) fn rollup_time(&self) -> &RollupTime {
        self.rollup.get_or_init(|| RollupTime::of(&self.profile))
    }

    /// Counts equal samples now, for all selections that follow: worth it for a profile that is looked at in many ways.
    pub(crate) fn count_once(&self) {
        let _ = self.groups();
    }

    /// The counted samples, if they have been computed.
    pub(super) fn known_groups(&self) -> Option<&[Group]> {
        self.groups.get().map(Vec::as_slice)
    }

    /// All running and waiting time, equal samples counted together.
    pub(super) fn groups(&self) -> &[Group] {
        self.groups.get_or_init(|| group::all_groups(&self.profile, self.reasons()))
    }
}
