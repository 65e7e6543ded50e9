//! The frames of one source that wait for names, and when they are looked up.

use super::super::look::KeptNames;
use super::super::symbolize::{Addresses, Named};
use crate::profile::FrameId;
use crate::record::modules::ModuleFile;
use crate::symbols::{PerfMapSource, ResolvedLocation};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait before the next lookup, as a multiple of the time that the last one took.
pub(super) const PATIENCE: u32 = 50;
/// Shortest wait between two lookups in one file, after the first few.
pub(super) const SHORTEST_WAIT: Duration = Duration::from_millis(500);

/// What is looked into.
#[derive(Debug, Clone)]
pub(super) enum LookupSource {
    File(Box<ModuleFile>),
    Map(Arc<PerfMapSource>),
}

/// Frames of one source.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) source: Option<LookupSource>,
    /// Size of the file, bytes; 0 for generated code.
    pub(super) bytes: u64,
    /// The file as opened by the last lookup, and when that was.
    pub(super) kept: Option<(KeptNames, Instant)>,
    pub(super) waiting: Addresses,
    /// Frames being looked up; `None` for those no longer needed.
    pub(super) asked: Vec<(u64, Option<FrameId>)>,
    /// Number of the current lookup. `in_background_since` is set while it runs in the background, where it may starve.
    pub(super) look: u32,
    pub(super) in_background_since: Option<Instant>,
    pub(super) due: Instant,
    /// Consecutive lookups that found nothing, at most 6; counted for generated code only.
    pub(super) vain: u32,
    /// Number of lookups so far.
    pub(super) looks: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            source: None,
            bytes: 0,
            kept: None,
            waiting: Vec::new(),
            asked: Vec::new(),
            look: 0,
            in_background_since: None,
            due: Instant::now(),
            vain: 0,
            looks: 0,
        }
    }
}

impl Queue {
    pub(super) fn is_ready(&self) -> bool {
        !self.waiting.is_empty() && self.asked.is_empty() && self.source.is_some()
    }

    /// Something waits, is looked up, or is open.
    pub(super) fn is_of_use(&self) -> bool {
        !self.waiting.is_empty() || !self.asked.is_empty() || self.kept.is_some()
    }

    /// Forgets the frames that wait; of what is looked up, only the addresses stay.
    pub(super) fn forget_frames(&mut self) {
        self.waiting.clear();
        self.asked.iter_mut().for_each(|(_, frame)| *frame = None);
    }

    /// Takes the names of what was asked for, by their places in that. Returns those of frames, and the frames that have none.
    pub(super) fn take_names(&mut self, answered: Named) -> (Named, Addresses) {
        let mut asked = std::mem::take(&mut self.asked);
        // Names that have come too late for the frames which they were asked for, but not for others of the same code.
        let mut late: FxHashMap<u64, Vec<ResolvedLocation>> = FxHashMap::default();
        let mut named = Named::new();
        for (place, locations) in answered {
            match asked.get_mut(place.index()) {
                Some((_, frame @ Some(_))) => named.extend(frame.take().map(|frame| (frame, locations))),
                Some((address, None)) => drop(late.insert(*address, locations)),
                None => {}
            }
        }
        self.waiting.retain(|(address, frame)| {
            let locations = late.get(address);
            named.extend(locations.map(|locations| (*frame, locations.clone())));
            locations.is_none()
        });
        let unnamed = asked.into_iter().filter_map(|(address, frame)| Some((address, frame?)));
        (named, unnamed.collect())
    }
}

/// Returns the time to wait after this many lookups, when the last `vain` of them found nothing and the last one took `took`.
pub(super) fn wait_after(looks: u32, vain: u32, took: Duration) -> Duration {
    let times = 2u32.checked_pow(looks).map_or(PATIENCE, |times| times.min(PATIENCE));
    let least = if vain == 0 { SHORTEST_WAIT / (16 >> looks.min(4)) } else { SHORTEST_WAIT * (1 << vain) };
    took.saturating_mul(times).max(least)
}
