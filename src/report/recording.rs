//! A recording as it was read, or as it is so far.

use super::model::thread_names;
use crate::base::units::CpuShares;
use crate::profile::{FrameId, Integrity, Profile};

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
}

impl Recording {
    /// A profile and its integrity. From here on every thread has its last name.
    pub(crate) fn new(mut profile: Profile, integrity: Integrity) -> Self {
        thread_names::settle(&mut profile);
        Recording { profile, integrity, ..Recording::default() }
    }
}
