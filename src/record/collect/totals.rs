//! Sums of what was collected, kept since the samples themselves go to the file.

use crate::profile::{EventId, Frame, FrameId, Outcome, StackId};
use crate::record::names::code_weights::CodeWeights;
use rustc_hash::{FxHashMap, FxHashSet};

/// Sums for the end of the recording, kept since the samples themselves go to the file.
#[derive(Debug, Default)]
pub(crate) struct CollectedTotals {
    /// Samples and their weight of each event of the profile, by its number.
    pub(crate) events: Vec<EventTotals>,
    /// Samples by outcome.
    pub(crate) outcomes: FxHashMap<Outcome, u64>,
    /// Samples whose stack holds a frame found by frame pointers.
    pub(crate) by_frame_pointer: u64,
    /// Weight by leaf frame, in the first event.
    pub(crate) leaves: FxHashMap<FrameId, u64>,
    /// The same by name, of frames that were forgotten.
    pub(crate) former_leaves: FxHashMap<String, u64>,
    /// Samples by stack.
    pub(crate) stacks: FxHashMap<StackId, u64>,
    /// Waits by stack.
    pub(crate) wait_stacks: FxHashMap<StackId, u64>,
    /// How often addresses were sampled whose rows were forgotten.
    pub(crate) former_code: CodeWeights,
    /// Frames of all samples whose stacks were dropped: named ones, and all.
    pub(crate) former_frames: (u64, u64),
    /// Frames that were forgotten before they had a name: weight as leaves, ns, and how often they were in a sample.
    pub(crate) former_unnamed: FxHashMap<Frame, (u64, u64)>,
    /// Threads seen.
    pub(crate) threads: FxHashSet<(u32, u32)>,
}

/// Sums of one event.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EventTotals {
    /// Samples, or waits.
    pub(crate) samples: u64,
    /// Their weight, in the event's unit.
    pub(crate) weight: u64,
}

impl CollectedTotals {
    /// Counts a sample or wait of `event`.
    pub(crate) fn add(&mut self, event: EventId, weight: u64) {
        if self.events.len() <= event.index() {
            self.events.resize_with(event.index() + 1, EventTotals::default);
        }
        let totals = &mut self.events[event.index()];
        totals.samples += 1;
        totals.weight = totals.weight.saturating_add(weight);
    }

    /// Totals of the event with this number.
    pub(crate) fn of_event(&self, number: usize) -> EventTotals {
        self.events.get(number).copied().unwrap_or_default()
    }

    /// Samples and waits of all events.
    pub(crate) fn observations(&self) -> u64 {
        self.events.iter().map(|event| event.samples).sum()
    }

    /// Samples that are no waits: those of which the outcome was counted.
    pub(crate) fn samples(&self) -> u64 {
        self.outcomes.values().sum()
    }
}
