//! Blocks of memory that are live while a recording goes on. The row of a block is written once it is freed, or the recording ends; one that
//! is live for a while is written before, too, as another event. Of a recording that has no end, because its recorder was killed or still
//! runs, those blocks are the live ones that were not freed.

use crate::profile::contents::Profile;
use crate::profile::event::Sample;
use crate::profile::kind::EventKind;
use std::collections::HashSet;

/// What tells a block from all others: its time, process and thread, and size. Numbers of rows do not: a long recording begins its tables
/// again.
type BlockIdentity = (u64, u32, u32, u64);

/// Leaves one event of blocks: with those that were live so far unless the recording `has_end`.
pub(super) fn settle(profile: &mut Profile, has_end: bool) {
    let Profile { events, tables, .. } = profile;
    let Some(at) = events.iter().position(|event| event.kind().is(&EventKind::HEAP_SO_FAR)) else { return };
    let so_far = events.remove(at);
    let Some(blocks) = events.iter_mut().find(|event| event.kind().is(&EventKind::HEAP)) else { return };
    if has_end {
        return;
    }
    let identity = |block: &Sample| -> BlockIdentity {
        let task = tables.task(block.task);
        (block.time_ns, task.pid, task.tid, block.block.map_or(0, |block| block.size))
    };
    let freed: HashSet<BlockIdentity> = blocks.samples().map(|block| identity(&block)).collect();
    for block in so_far.samples().filter(|block| !freed.contains(&identity(block))) {
        blocks.push(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{EventInfo, HeapBlock, Meta, Task};

    fn profile() -> Profile {
        let mut profile = Profile::new(Meta::default());
        // The same thread as two rows: its tables have begun again in between.
        let [first, again] = ["a", "b"].map(|comm| {
            let comm = profile.tables.intern_string(comm);
            profile.tables.intern_task(Task { pid: 7, tid: 8, comm, ..Task::default() })
        });
        let block = |time_ns, lifetime_ns: Option<u64>| Sample {
            time_ns,
            task: if lifetime_ns.is_some() { again } else { first },
            weight: 1,
            block: Some(HeapBlock { size: 1, lifetime_ns }),
            ..Sample::default()
        };
        for (kind, rows) in [
            (EventKind::HEAP, vec![block(1, Some(7)), block(3, Some(1))]),
            (EventKind::HEAP_SO_FAR, vec![block(1, None), block(2, None)]),
        ] {
            let event = profile.add_event(EventInfo { kind, ..EventInfo::default() });
            rows.into_iter().for_each(|row| profile.events[event.index()].push(row));
        }
        profile.add_event(EventInfo { kind: EventKind::ON_CPU, ..EventInfo::default() });
        profile
    }

    #[test]
    fn a_recording_without_an_end_has_what_was_live_and_was_not_freed() {
        for (has_end, wanted) in [(true, &[1, 3][..]), (false, &[1, 3, 2])] {
            let mut profile = profile();
            settle(&mut profile, has_end);
            let kinds: Vec<&str> = profile.events.iter().map(|event| &*event.kind().name).collect();
            assert_eq!(kinds, ["heap", "on-cpu"]);
            let times: Vec<u64> = profile.events[0].samples().map(|block| block.time_ns).collect();
            assert_eq!(times, wanted);
        }
    }
}
