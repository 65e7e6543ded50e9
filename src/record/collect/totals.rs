//! Sums of what was collected, kept since the samples themselves go to the file.

use crate::profile::{EventId, Frame, FrameId, ModuleKind, Outcome, Profile, StackId, UNNAMED_CODE};
use crate::record::names::code::weights::CodeWeights;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Most names of forgotten frames that are kept.
const MOST_FORMER: usize = 4096;
/// Most forgotten frames without names that are kept.
const MOST_UNNAMED: usize = 1 << 16;

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
    former_leaves: FxHashMap<String, u64>,
    /// Samples by stack.
    pub(crate) stacks: FxHashMap<StackId, u64>,
    /// Waits by stack.
    pub(crate) wait_stacks: FxHashMap<StackId, u64>,
    /// Weights of sampled addresses whose rows were forgotten.
    pub(crate) former_code: CodeWeights,
    /// Frames of all samples whose stacks were dropped: named ones, and all.
    former_frames: (u64, u64),
    /// Frames that were forgotten before they had a name: weight as leaves, ns, and how often they were in a sample.
    former_unnamed: FxHashMap<Frame, (u64, u64)>,
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
        self.add_many(event, 1, weight);
    }

    /// Counts so many samples or waits of `event`, with the weight of all of them.
    pub(crate) fn add_many(&mut self, event: EventId, samples: u64, weight: u64) {
        if self.events.len() <= event.index() {
            self.events.resize_with(event.index() + 1, EventTotals::default);
        }
        let totals = &mut self.events[event.index()];
        totals.samples += samples;
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

    /// Returns the number of frames of all samples that have a name, and of all frames: as the report counts them.
    pub(crate) fn named_frames(&self, profile: &Profile) -> (u64, u64) {
        let (mut named, mut frames) = self.former_frames;
        for (frame, samples) in self.samples_by_frame(profile) {
            frames += samples;
            // Functions of a runtime stand for the code that they run in.
            let stands = profile.tables.frame(frame).flags.is_interpreter;
            named += if stands || profile.symbols.is_named(frame) { samples } else { 0 };
        }
        // Some that had no name then have come again, and have one.
        if !self.former_unnamed.is_empty() {
            let known = (0..).map(FrameId).zip(profile.tables.frames());
            let known = known.filter(|(id, _)| profile.symbols.is_named(*id));
            named += known.filter_map(|(_, frame)| Some(self.former_unnamed.get(frame)?.1)).sum::<u64>();
        }
        (named, frames)
    }

    /// Weight by leaf function, in the first event; a name ends before a zero byte, which the path of its module follows.
    pub(crate) fn weight_by_leaf(&self, profile: &Profile) -> FxHashMap<String, u64> {
        let mut by_name = self.former_leaves.clone();
        self.add_leaves_to(&mut by_name, profile);
        if !self.former_unnamed.is_empty() {
            let known: FxHashMap<&Frame, FrameId> =
                profile.tables.frames().iter().zip((0..).map(FrameId)).collect();
            for (frame, (weight, _)) in self.former_unnamed.iter().filter(|(_, (weight, _))| *weight > 0) {
                let name =
                    known.get(frame).map_or_else(|| bare_name(profile, frame), |id| leaf_name(profile, *id));
                *by_name.entry(name).or_default() += weight;
            }
        }
        by_name
    }

    /// The rows of `profile` are about to be forgotten.
    pub(super) fn forget_rows(&mut self, profile: &Profile) {
        let waits = std::mem::take(&mut self.wait_stacks);
        self.former_code.add(&profile.tables, &self.stacks, &waits);
        let mut leaves = std::mem::take(&mut self.leaves);
        for (frame, samples) in self.samples_by_frame(profile) {
            self.former_frames.1 += samples;
            if profile.symbols.is_named(frame) {
                self.former_frames.0 += samples;
            } else {
                let row = *profile.tables.frame(frame);
                if self.former_unnamed.len() < MOST_UNNAMED || self.former_unnamed.contains_key(&row) {
                    let (weight, times) = self.former_unnamed.entry(row).or_default();
                    *weight += leaves.remove(&frame).unwrap_or(0);
                    *times += samples;
                }
            }
        }
        self.leaves = leaves;
        let mut former = std::mem::take(&mut self.former_leaves);
        self.add_leaves_to(&mut former, profile);
        if former.len() > MOST_FORMER {
            // What is far from being the hottest will not become it unnoticed.
            let mut weights: Vec<u64> = former.values().copied().collect();
            let least = *weights.select_nth_unstable_by_key(MOST_FORMER / 2, |weight| Reverse(*weight)).1;
            former.retain(|_, weight| *weight > least);
        }
        self.former_leaves = former;
        self.leaves = FxHashMap::default();
        self.stacks = FxHashMap::default();
    }

    fn add_leaves_to(&self, by_name: &mut FxHashMap<String, u64>, profile: &Profile) {
        for (&frame, &weight) in &self.leaves {
            *by_name.entry(leaf_name(profile, frame)).or_default() += weight;
        }
    }

    /// Returns the number of samples with each frame.
    fn samples_by_frame(&self, profile: &Profile) -> FxHashMap<FrameId, u64> {
        let mut by_frame = FxHashMap::default();
        for (&stack, &samples) in &self.stacks {
            for frame in profile.tables.stack_frames(stack) {
                *by_frame.entry(frame).or_default() += samples;
            }
        }
        by_frame
    }
}

fn leaf_name(profile: &Profile, frame: FrameId) -> String {
    let row = profile.tables.frame(frame);
    match profile.symbols.locations(frame).first() {
        // Those of one name in different modules are different functions.
        Some(location) => {
            let name = profile.tables.string(profile.symbols.function(location.function).name);
            format!("{name}\0{}", profile.tables.string(profile.tables.module(row.module).path))
        }
        None => bare_name(profile, row),
    }
}

/// Text in place of the name of a frame that has none.
fn bare_name(profile: &Profile, frame: &Frame) -> String {
    let module = profile.tables.module(frame.module);
    if module.kind == ModuleKind::Jit {
        return UNNAMED_CODE.to_owned();
    }
    let path = profile.tables.string(module.path);
    let file = path.rsplit('/').next().unwrap_or(path);
    format!("{file}+{:#x}", frame.address)
}
