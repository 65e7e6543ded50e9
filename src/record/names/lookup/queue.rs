//! The frames of one source that wait for names, and when they are looked up.

use super::super::look::KeptNames;
use super::super::symbolize::{Addresses, Named};
use crate::profile::FrameId;
use crate::record::modules::{FileId, ModuleFile};
use crate::symbols::{PerfMapSource, ResolvedLocation};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait before the next lookup, as a multiple of the time that the last one took.
pub(super) const PATIENCE: u32 = 50;
/// Shortest wait between two lookups in one file, after the first few.
pub(super) const SHORTEST_WAIT: Duration = Duration::from_millis(500);

/// The source of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// A file.
    File(FileId),
    /// The map of a process that generates code.
    Process(u32),
}

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
    pub(super) look: u64,
    pub(super) in_background_since: Option<Instant>,
    pub(super) due: Instant,
    /// Consecutive lookups that found nothing, at most 6; counted for generated code only.
    pub(super) vain: u32,
    /// Number of lookups so far.
    pub(super) looks: u32,
    /// What is looked up has the file open since an earlier lookup.
    pub(super) was_kept: bool,
    /// How long the last lookup took that had to open the file.
    opening: Duration,
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
            was_kept: false,
            opening: Duration::ZERO,
        }
    }
}

impl Queue {
    pub(super) fn is_ready(&self) -> bool {
        !self.waiting.is_empty() && self.asked.is_empty() && self.source.is_some()
    }

    /// What waits is looked up from now on, by the lookup with this number.
    pub(super) fn ask(&mut self, look: u64) {
        self.waiting.sort_unstable();
        self.waiting.dedup();
        self.asked = self.waiting.drain(..).map(|(address, frame)| (address, Some(frame))).collect();
        self.look = look;
    }

    /// Whether the answer of this lookup is still to come.
    pub(super) fn awaits(&self, look: u64) -> bool {
        self.look == look && !self.asked.is_empty()
    }

    /// Whether frames are looked up, or will be once what is looked up has an answer.
    pub(super) fn is_awaited(&self) -> bool {
        let is_needed = !self.waiting.is_empty() || self.asked.iter().any(|(_, frame)| frame.is_some());
        !self.asked.is_empty() && is_needed
    }

    /// A lookup has taken so long.
    pub(super) fn note_opening(&mut self, took: Duration) {
        if !self.was_kept {
            self.opening = took;
        }
    }

    /// Time that opening the file again takes, or, if it has just been opened, took, for each byte that it takes while it is open; 10⁻¹⁵ s.
    pub(super) fn cost_per_byte(&self, bytes: u64, took: Duration) -> u128 {
        let opening = if self.was_kept || took.is_zero() { self.opening } else { took };
        opening.as_nanos() * 1_000_000 / u128::from(bytes.max(1))
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

/// A file that is open for the next lookup.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenFile {
    pub(super) of: Origin,
    /// Memory that it takes.
    pub(super) bytes: u64,
    /// Time that opening it again takes for each of these bytes.
    pub(super) cost: u128,
}

/// Which of the files that are open are to be closed for a new one, so that all take no more than `most` bytes: those that are opened
/// again for less. `None` where that is not enough: then none is.
pub(super) fn to_close(mut open: Vec<OpenFile>, new: &OpenFile, most: u64) -> Option<Vec<Origin>> {
    open.sort_unstable_by_key(|file| file.cost);
    // What they take is what workers say, which have read foreign files.
    let all = open.iter().fold(new.bytes, |all, file| all.saturating_add(file.bytes));
    let mut lacking = all.saturating_sub(most);
    // By a good part: two of about the same cost would close each other all the time.
    let cheaper = open.iter().take_while(|file| file.cost.saturating_add(file.cost / 4) < new.cost);
    let closed = cheaper.take_while(|file| {
        let is_needed = lacking > 0;
        lacking = lacking.saturating_sub(file.bytes);
        is_needed
    });
    let closed: Vec<Origin> = closed.map(|file| file.of).collect();
    (lacking == 0).then_some(closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_closed_for_one_that_costs_more_to_open_again() {
        let file = |number, bytes, cost| OpenFile { of: Origin::File(FileId(number)), bytes, cost };
        let open = vec![file(1, 10, 5), file(2, 10, 1), file(3, 10, 9)];
        let closed = |new: OpenFile| {
            let closed = to_close(open.clone(), &new, 32)?;
            Some(closed.into_iter().map(|of| matches!(of, Origin::File(FileId(2)))).collect::<Vec<_>>())
        };
        assert_eq!(closed(file(4, 2, 0)), Some(vec![]), "there is room");
        assert_eq!(closed(file(4, 12, 3)), Some(vec![true]));
        assert_eq!(closed(file(4, 13, 3)), None, "the others cost more");
        assert_eq!(closed(file(4, 22, 7)), Some(vec![true, false]));
        assert_eq!(closed(file(4, 33, 20)), None, "it is too large for all of it");
    }
}
