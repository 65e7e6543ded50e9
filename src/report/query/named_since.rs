//! Code that had no name when it was chosen, and what its functions are called now.
//!
//! Names are read while a live recording goes on: what was chosen by its address is found again by it. A name may bring
//! inlined functions with it, so that one step becomes several.

use crate::profile::{FrameId, Profile};
use crate::report::model::label::{LabelId, Labels, Step, module_text};
use crate::report::model::label_key::LabelKey;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Which end of a stack a path begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathStart {
    Root,
    Leaf,
}

impl PathStart {
    /// The way that `steps`, those of one frame root first, are in a path. One from the root that ends there leads to the
    /// function whose code it is, not to those inlined in it.
    pub(crate) fn way(self, steps: &[Step], is_end: bool) -> Vec<Step> {
        match self {
            PathStart::Leaf => steps.iter().rev().copied().collect(),
            PathStart::Root if is_end => steps.iter().take(1).copied().collect(),
            PathStart::Root => steps.to_vec(),
        }
    }
}

/// The steps at addresses that have names now.
#[derive(Debug, Default)]
pub(crate) struct NamedSince<'k> {
    /// Steps of each address, one for each file that was there, the one with the most samples first.
    steps: FxHashMap<&'k LabelKey, Vec<Vec<Step>>>,
}

impl<'k> NamedSince<'k> {
    /// Looks for those of `keys` that are addresses. `samples_of_frame` says which of several files ran most.
    pub(crate) fn new(
        profile: &Profile,
        labels: &Labels,
        samples_of_frame: &[u64],
        keys: impl IntoIterator<Item = &'k LabelKey>,
    ) -> Self {
        let mut wanted: FxHashMap<u64, Vec<(&'k str, &'k LabelKey)>> = FxHashMap::default();
        for key in keys {
            if let LabelKey::Address { module, address } = key {
                wanted.entry(*address).or_default().push((module, key));
            }
        }
        let mut found: FxHashMap<&LabelKey, Vec<(Reverse<u64>, FrameId)>> = FxHashMap::default();
        let frames = if wanted.is_empty() { &[] } else { profile.tables.frames() };
        for (row, id) in frames.iter().zip((0..).map(FrameId)) {
            let Some(keys) = wanted.get(&row.lookup_address()) else { continue };
            if profile.symbols.locations(id).is_empty() || labels.steps(id).is_empty() {
                continue;
            }
            let module = profile.tables.module(row.module);
            let path = module_text(profile, module.path, module.kind);
            let samples = samples_of_frame.get(id.index()).copied().unwrap_or(0);
            for (_, key) in keys.iter().filter(|(module, _)| *module == path) {
                found.entry(key).or_default().push((Reverse(samples), id));
            }
        }
        let steps = found.into_iter().map(|(key, mut frames)| {
            frames.sort_unstable();
            (key, frames.into_iter().map(|(_, id)| labels.steps(id).to_vec()).collect())
        });
        NamedSince { steps: steps.collect() }
    }

    /// Steps of the code where `key` was, root first: the function whose code it is, and those inlined in it.
    pub(crate) fn steps(&self, key: &LabelKey) -> Option<&[Step]> {
        self.steps.get(key)?.first().map(Vec::as_slice)
    }

    /// The functions whose code is where `key` was.
    pub(crate) fn functions(&self, key: &LabelKey) -> impl Iterator<Item = LabelId> + '_ {
        let all = self.steps.get(key).into_iter().flatten();
        all.filter_map(|steps| steps.first()).map(|step| step.label)
    }
}

/// The label that `key` means: of code that got its name since the function whose code it is.
pub(crate) fn label_of(
    profile: &Profile,
    labels: &Labels,
    samples_of_frame: &[u64],
    key: &LabelKey,
) -> Option<LabelId> {
    let same = labels.ids().find(|id| labels.get(*id).is(key));
    let named = || {
        let since = NamedSince::new(profile, labels, samples_of_frame, [key]);
        since.functions(key).next()
    };
    same.or_else(named)
}
