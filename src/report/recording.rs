//! A recording as it was read, or as it is so far.

use super::clock_part::ClockPart;
use super::model::thread_names;
use crate::base::units::CpuShares;
use crate::profile::{End, FrameId, Integrity, Profile};

/// A profile, and what is known of it that is not in its file.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// Profile that was recorded.
    pub profile: Profile,
    /// Part of the file that could be read.
    pub(crate) integrity: Integrity,
    /// Frames whose names are still being read.
    pub(crate) names_to_come: Vec<FrameId>,
    /// Shares of one CPU that `prof` used in the last seconds, of a recording that goes on.
    pub(crate) late_cost: Option<CpuShares>,
    /// What it is by the clock, of a folder or a part of a file.
    pub(crate) clock_part: Option<ClockPart>,
}

impl Recording {
    /// A profile and its integrity. From here on every thread has its last name.
    pub(crate) fn new(mut profile: Profile, integrity: Integrity) -> Self {
        thread_names::settle(&mut profile);
        Recording { profile, integrity, ..Recording::default() }
    }

    /// What the recorder used, and in which length: of a folder, that of the windows that say so.
    pub(crate) fn cost_end(&self) -> Option<&End> {
        let of_windows = self.clock_part.as_ref().and_then(|part| part.known_cost.as_ref());
        of_windows.or(self.profile.end.as_ref())
    }

    /// How many windows of a folder say what the recorder used, if some do not, and how many there are.
    pub(crate) fn windows_with_cost(&self) -> Option<[u64; 2]> {
        let part = self.clock_part.as_ref()?;
        Some([part.windows_with_cost()?, part.window_count()?])
    }
}
