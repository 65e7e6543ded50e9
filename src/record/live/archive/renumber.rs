//! A profile without unused rows.

use crate::profile::{Event, FrameId, LabelSetId, ModuleId, Profile, TakenRows, ThreadTime};

/// A profile whose rows have new numbers.
#[derive(Debug)]
pub(crate) struct Renumbered {
    pub(crate) profile: Profile,
    /// New ids of the old frames; `None` for those that are gone.
    pub(crate) frames: Vec<Option<FrameId>>,
}

/// `profile` with only the rows that its samples and threads refer to, and all modules and sets of labels, of which there
/// are few. A live view keeps no code and no notes of where names are from.
pub(crate) fn renumbered(profile: &Profile) -> Renumbered {
    let mut rows = TakenRows::new(profile, 0);
    let mut new = Profile::new(profile.meta.clone());
    (new.counters, new.end) = (profile.counters.clone(), profile.end.clone());
    for (module, _) in (0..).map(ModuleId).zip(profile.tables.modules()) {
        rows.module(module, &mut new);
    }
    for (set, _) in (0..).map(LabelSetId).zip(profile.tables.label_sets()) {
        rows.label_set(set, &mut new);
    }
    for event in &profile.events {
        let mut taken = Event::new(event.info().clone());
        for sample in event.samples() {
            taken.push(rows.sample(sample, &mut new));
        }
        new.events.push(taken);
    }
    for time in &profile.thread_times {
        let task = rows.task(time.task, &mut new);
        new.thread_times.push(ThreadTime { task, ..time.clone() });
    }
    Renumbered { profile: new, frames: rows.into_frames() }
}
