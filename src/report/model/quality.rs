//! How far a profile can be trusted: complete stacks, named frames, lost samples; and what would fix it.

use super::group::{Group, SamePath};
use super::label::module_text;
use super::metric::Shown;
use crate::base::units::percent;
use crate::profile::{
    FoundBy, FrameId, FrameSpace, ModuleId, ModuleKind, Outcome, Profile, StackId, counter,
};
use crate::report::naming::runtime::Runtimes;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Shares that tell how far to trust a set of samples.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Quality {
    /// Samples looked at.
    pub(crate) samples: u64,
    /// Samples whose stack is complete, or that have no user stack.
    pub(crate) complete: u64,
    /// Samples whose stack is not complete, by [`Outcome::key`].
    pub(crate) by_cause: BTreeMap<&'static str, u64>,
    /// Samples of which it is not known whether their stack is complete.
    pub(crate) not_known: u64,
    /// Samples whose stack reaches the root, but with frames left out of its middle.
    pub(crate) middle_left_out: u64,
    /// Frames of all samples; a sample without any counts as one.
    pub(crate) frames: u64,
    /// Frames of all samples that have no name, the missing ones of samples without any among them.
    pub(crate) unnamed_frames: u64,
    /// Samples that the recorder lost, of the whole recording, lost waits among them where waits are shown.
    pub(crate) lost: u64,
    /// The waits among them.
    pub(crate) lost_waits: u64,
    /// The module where most stacks end early.
    pub(crate) worst_cut: Option<WorstModule>,
    /// The module with most unnamed frames.
    pub(crate) worst_unnamed: Option<WorstModule>,
    /// Whose generated code it is where such is at fault.
    pub(crate) runtimes: Runtimes,
    /// Kernel frames of all samples.
    pub(crate) kernel_frames: u64,
    /// Kernel frames of all samples that have no name.
    pub(crate) unnamed_kernel_frames: u64,
    /// Frames of all samples by how they were found, in the order of [`FoundBy::ALL`].
    pub(crate) found_by: [u64; 4],
    /// Samples that have each frame, by frame number.
    pub(crate) samples_of_frame: Vec<u64>,
}

/// The module that does most harm of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorstModule {
    /// Id of the module.
    pub(crate) id: ModuleId,
    /// Path. Foreign text.
    pub(crate) module: String,
    /// Kind of the module.
    pub(crate) kind: ModuleKind,
    /// The commonest reason there; unset for unnamed frames.
    pub(crate) outcome: Outcome,
    /// Samples or frames.
    pub(crate) count: u64,
}

impl Quality {
    /// Returns the number of times that `frames` are in the samples.
    pub(crate) fn samples_with(&self, frames: &[FrameId]) -> u64 {
        let samples = |frame: &FrameId| self.samples_of_frame.get(frame.index()).copied().unwrap_or(0);
        frames.iter().map(samples).fold(0, u64::saturating_add)
    }

    /// Share of the frames of all samples that `frames` are, in percent.
    pub(crate) fn percent_with(&self, frames: &[FrameId]) -> f64 {
        percent(self.samples_with(frames), self.frames)
    }

    /// The quality of `groups`, of which those of `paths` have the same steps, and which are of the events that are `shown`.
    pub(crate) fn of(profile: &Profile, groups: &[Group], paths: &[SamePath], shown: &Shown<'_>) -> Self {
        let lost_waits = if shown.waits.is_some() { profile.counter(counter::LOST_WAITS) } else { 0 };
        // What was lost of running time is no loss of waits.
        let lost_samples = shown.sampled.map_or(0, |event| profile.lost_samples(event.kind()));
        let mut quality =
            Quality { lost: lost_samples.saturating_add(lost_waits), lost_waits, ..Quality::default() };
        let mut cut: BTreeMap<(ModuleId, Outcome), u64> = BTreeMap::new();
        // Of stacks that end in each row of their table: callers come before what they call.
        let mut samples_of_row = vec![0u64; profile.tables.stacks().len()];
        for path in paths {
            let (group, samples) = (&groups[path.range.start], path.amount.samples);
            quality.samples += samples;
            if group.outcome.is_complete() {
                quality.complete += samples;
            } else if group.outcome == Outcome::NotKnown {
                quality.not_known += samples;
            } else {
                *quality.by_cause.entry(group.outcome.key()).or_default() += samples;
                if group.outcome.has_root() {
                    quality.middle_left_out += samples;
                } else if let Some(frame) = outermost_user_frame(profile, group.stack) {
                    let module = profile.tables.frame(frame).module;
                    *cut.entry((module, group.outcome)).or_default() += samples;
                }
            }
            match group.stack {
                Some(stack) => samples_of_row[stack.index()] += samples,
                None => {
                    quality.frames += samples;
                    quality.unnamed_frames += samples;
                }
            }
        }
        let mut samples_of_frame = vec![0u64; profile.tables.frames().len()];
        for (row, stack) in profile.tables.stacks().iter().enumerate().rev() {
            let samples = samples_of_row[row];
            samples_of_frame[stack.frame.index()] += samples;
            if let Some(parent) = stack.parent {
                samples_of_row[parent.index()] += samples;
            }
        }
        quality.count_names(profile, &samples_of_frame);
        quality.samples_of_frame = samples_of_frame;
        let path = |module: &ModuleId| profile.tables.string(profile.tables.module(*module).path);
        quality.worst_cut = (cut.iter())
            .max_by_key(|((module, outcome), count)| (**count, Reverse((path(module), outcome))))
            .map(|((module, outcome), count)| worst(profile, *module, *outcome, *count));
        let is_generated = |worst: &Option<WorstModule>| {
            worst
                .as_ref()
                .is_some_and(|worst| worst.kind == ModuleKind::Jit || worst.outcome == Outcome::JitEnd)
        };
        if is_generated(&quality.worst_cut) || is_generated(&quality.worst_unnamed) {
            quality.runtimes = Runtimes::of(profile, groups);
        }
        quality
    }

    fn count_names(&mut self, profile: &Profile, samples_of_frame: &[u64]) {
        let mut unnamed: BTreeMap<ModuleId, u64> = BTreeMap::new();
        for (index, &samples) in samples_of_frame.iter().enumerate().filter(|(_, samples)| **samples > 0) {
            let frame = FrameId(index as u32);
            let row = profile.tables.frame(frame);
            let is_kernel = row.flags.space == FrameSpace::Kernel;
            // Functions of a runtime stand for the code that they run in.
            let is_unnamed = !profile.symbols.is_named(frame) && !row.flags.is_interpreter;
            self.frames += samples;
            for (sum, way) in self.found_by.iter_mut().zip(FoundBy::ALL) {
                *sum += if row.flags.found_by == way { samples } else { 0 };
            }
            self.kernel_frames += if is_kernel { samples } else { 0 };
            if is_unnamed {
                self.unnamed_frames += samples;
                self.unnamed_kernel_frames += if is_kernel { samples } else { 0 };
                *unnamed.entry(row.module).or_default() += samples;
            }
        }
        let path = |module: &ModuleId| profile.tables.string(profile.tables.module(*module).path);
        self.worst_unnamed = (unnamed.iter())
            .max_by_key(|(module, count)| (**count, Reverse(path(module))))
            .map(|(module, count)| worst(profile, *module, Outcome::Unset, *count));
    }

    /// Share of samples whose whole stack is known, percent, of the samples where it can be judged;
    /// 100 without samples, `None` if it can be judged for none.
    pub(crate) fn complete_percent(&self) -> Option<f64> {
        match self.judged() {
            0 if self.samples > 0 => None,
            0 => Some(100.0),
            judged => Some(percent(self.complete, judged)),
        }
    }

    /// Share of samples whose stack is not complete, percent; `None` as above.
    pub(crate) fn truncated_percent(&self) -> Option<f64> {
        let judged = self.judged();
        (judged > 0 || self.samples == 0).then(|| percent(judged - self.complete, judged))
    }

    /// Number of samples where it is known whether the stack is complete.
    fn judged(&self) -> u64 {
        self.samples - self.not_known
    }

    /// Share of samples whose stack ends before the root, percent.
    pub(crate) fn rootless_percent(&self) -> f64 {
        percent((self.judged() - self.complete).saturating_sub(self.middle_left_out), self.samples)
    }

    /// Share of the frames that were found in each way, percent, in the order of [`FoundBy::ALL`].
    pub(crate) fn found_by_percent(&self) -> [f64; 4] {
        let all: u64 = self.found_by.iter().sum();
        self.found_by.map(|frames| percent(frames, all))
    }

    /// Share of the frames of all samples that have no name, percent.
    pub(crate) fn unnamed_percent(&self) -> f64 {
        percent(self.unnamed_frames, self.frames)
    }
}

fn worst(profile: &Profile, module: ModuleId, outcome: Outcome, count: u64) -> WorstModule {
    let row = profile.tables.module(module);
    WorstModule {
        id: module,
        module: module_text(profile, row.path, row.kind),
        kind: row.kind,
        outcome,
        count,
    }
}

/// The outermost frame of a stack, when it is user code.
pub(crate) fn outermost_user_frame(profile: &Profile, stack: Option<StackId>) -> Option<FrameId> {
    let outermost = profile.tables.stack_frames(stack?).last()?;
    (profile.tables.frame(outermost).flags.space == FrameSpace::User).then_some(outermost)
}
