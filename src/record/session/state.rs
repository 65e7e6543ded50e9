//! What a session remembers of what it has published to the kernel side and read from it.

use crate::profile::{End, counter};
use crate::record::process::mappings::Process;
use crate::record::session::cpu_use::CpuUse;
use rustc_hash::FxHashMap;

/// Numbers of what the kernel side did not take.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pub(super) processes: u64,
    pub(super) files: u64,
    /// Mappings beyond those that an entry has room for, of all processes.
    pub(super) mappings: u64,
}

impl Refusals {
    /// The counts, by their names in profiles.
    pub(super) fn counters(&self) -> [(&'static str, u64); 3] {
        [
            (counter::PROCESSES_REFUSED, self.processes),
            (counter::FILES_REFUSED, self.files),
            (counter::MAPPINGS_CUT, self.mappings),
        ]
    }

    /// The entry of `process` lacks this many mappings now. What it lacked before counts no more.
    pub(super) fn cut(&mut self, process: &mut Process, mappings: u64) {
        self.mappings = self.mappings - process.cut + mappings;
        process.cut = mappings;
    }
}

/// Facts that are remembered of the books.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(super) cpu_use: CpuUse,
    /// Threads that were there at the start, and whose accounts had not begun.
    pub(super) unaccounted: u64,
    /// The target had not called exec at the start: its account begins with that.
    pub(super) is_pending: bool,
}

/// How far the session has come, and what earlier windows have of what is counted from the start on: nothing for a session with one
/// window.
#[derive(Debug, Default)]
pub(super) struct EarlierWindows {
    /// Start of the window that goes on, CLOCK_MONOTONIC, ns; `None` for the first one.
    pub(super) start_ns: Option<u64>,
    /// All that was recorded until then is in the profile, but for what waits for others, CLOCK_MONOTONIC, ns.
    pub(super) known_until_ns: u64,
    /// The kernel side's counters, by their names in profiles.
    counters: FxHashMap<&'static str, u64>,
    /// The same of end records.
    bpf_ns: u64,
    bpf_runs: u64,
    cpu_ns: u64,
    recording_cpu_ns: u64,
}

impl EarlierWindows {
    /// What a counter that stands at `value` has counted in this window.
    pub(super) fn newly(&mut self, name: &'static str, value: u64) -> u64 {
        // Of a number that falls and rises again, no unit counts twice.
        let most = self.counters.entry(name).or_insert(0);
        let newly = value.saturating_sub(*most);
        *most = value.max(*most);
        newly
    }

    /// What an end record of the whole session says of this window alone.
    pub(super) fn only_this(&mut self, end: &mut End) {
        for (value, before) in [
            (&mut end.bpf_ns, &mut self.bpf_ns),
            (&mut end.bpf_runs, &mut self.bpf_runs),
            (&mut end.cpu_ns, &mut self.cpu_ns),
        ] {
            let whole = *value;
            *value = whole.saturating_sub(std::mem::replace(before, whole));
        }
        if let Some(value) = &mut end.recording_cpu_ns {
            let whole = *value;
            *value = whole.saturating_sub(std::mem::replace(&mut self.recording_cpu_ns, whole));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_has_its_own_part_of_what_is_counted_from_the_start() {
        let mut earlier = EarlierWindows::default();
        assert_eq!([10, 10, 25, 20, 26].map(|value| earlier.newly("lost", value)), [10, 0, 15, 0, 1]);
        let mut parts = Vec::new();
        for whole in [100, 130, 190] {
            let mut end = End { cpu_ns: whole, recording_cpu_ns: Some(whole / 2), ..End::default() };
            earlier.only_this(&mut end);
            parts.push((end.cpu_ns, end.recording_cpu_ns));
        }
        assert_eq!(parts, [(100, Some(50)), (30, Some(15)), (60, Some(30))]);
    }
}
