//! Waits and times of threads that a recording in windows cuts where a window ends: each window has its own part of them.

use crate::bpf::ThreadTimeEvent;
use rustc_hash::FxHashMap;

/// The parts of waits and times of threads that earlier windows have.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    /// Until when earlier windows have a wait that is not over, CLOCK_MONOTONIC, ns; by thread and start.
    pub(super) waits: FxHashMap<(u32, u64), u64>,
    /// What they have of the time of a thread, by thread and start.
    threads: FxHashMap<(u32, u64), ThreadTimeEvent>,
    /// The times of the threads that the last look has found.
    looked: Vec<ThreadTimeEvent>,
}

impl Cuts {
    /// A look has found these threads.
    pub(super) fn look(&mut self, times: impl Iterator<Item = ThreadTimeEvent>) {
        self.looked = times.collect();
    }

    /// Where a wait begins for this window, CLOCK_MONOTONIC, ns.
    pub(super) fn start_of(&self, tid: u32, start_ns: u64) -> u64 {
        self.waits.get(&(tid, start_ns)).copied().unwrap_or(start_ns)
    }

    /// The same of a wait that is over.
    pub(super) fn take_start_of(&mut self, tid: u32, start_ns: u64) -> u64 {
        self.waits.remove(&(tid, start_ns)).unwrap_or(start_ns)
    }

    /// The part of a thread's time that belongs to this window.
    pub(crate) fn part_of(&mut self, time: &ThreadTimeEvent) -> ThreadTimeEvent {
        let key = (time.tid, time.from_ns);
        if time.has_ended {
            // It was found by the last look, and has ended since: all that is left of it is here.
            self.looked.retain(|looked| (looked.tid, looked.from_ns) != key);
        }
        let before = if time.has_ended { self.threads.remove(&key) } else { self.threads.get(&key).cloned() };
        before.map_or_else(|| time.clone(), |before| since(time, &before))
    }

    /// A window ends with the last look: returns the parts of the times of threads that it has.
    pub(super) fn cut_threads(&mut self) -> Vec<ThreadTimeEvent> {
        let looked = std::mem::take(&mut self.looked);
        let parts = looked.iter().map(|time| self.part_of(time)).collect();
        // The ends of all others have come, or are lost.
        self.threads = looked.into_iter().map(|time| ((time.tid, time.from_ns), time)).collect();
        parts
    }
}

/// What `time` has besides what it had `before`.
fn since(time: &ThreadTimeEvent, before: &ThreadTimeEvent) -> ThreadTimeEvent {
    let mut short_waits = time.short_waits;
    for ((count, time_ns), (count_before, time_before_ns)) in short_waits.iter_mut().zip(before.short_waits) {
        *count = count.saturating_sub(count_before);
        *time_ns = time_ns.saturating_sub(time_before_ns);
    }
    ThreadTimeEvent {
        from_ns: before.to_ns.min(time.to_ns),
        on_cpu_ns: time.on_cpu_ns.saturating_sub(before.on_cpu_ns),
        no_cpu_ns: time.no_cpu_ns.saturating_sub(before.no_cpu_ns),
        blocked_ns: time.blocked_ns.saturating_sub(before.blocked_ns),
        switches: time.switches.saturating_sub(before.switches),
        short_waits,
        ..time.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::REASONS;

    #[test]
    fn the_parts_of_a_threads_time_add_up_to_all_of_it() {
        let time = |to_ns: u64, has_ended| ThreadTimeEvent {
            tgid: 7,
            tid: 8,
            has_ended,
            from_ns: 100,
            to_ns,
            on_cpu_ns: (to_ns - 100) / 2,
            no_cpu_ns: 0,
            blocked_ns: (to_ns - 100) / 2,
            switches: to_ns / 100,
            comm: b"worker".to_vec(),
            short_waits: [(to_ns / 10, to_ns); REASONS],
        };
        let mut cuts = Cuts::default();
        let mut parts = Vec::new();
        for to_ns in [1_000, 2_000] {
            cuts.look([time(to_ns, false)].into_iter());
            parts.extend(cuts.cut_threads());
        }
        parts.push(cuts.part_of(&time(2_600, true)));
        let spans: Vec<_> = parts.iter().map(|part| (part.from_ns, part.to_ns)).collect();
        assert_eq!(spans, [(100, 1_000), (1_000, 2_000), (2_000, 2_600)]);
        assert_eq!(parts.iter().map(|part| part.on_cpu_ns + part.blocked_ns).sum::<u64>(), 2_500);
        assert_eq!(parts.iter().map(|part| part.switches).sum::<u64>(), 26);
        assert_eq!(parts.iter().map(|part| part.short_waits[0].1).sum::<u64>(), 2_600);
        assert!(cuts.threads.is_empty());
        // One that ends between the look and the end of the window.
        cuts.look([time(3_000, false)].into_iter());
        assert_eq!(cuts.part_of(&time(3_100, true)).on_cpu_ns, 1_500);
        assert!(cuts.cut_threads().is_empty());
    }
}
