//! A session that goes on over many windows of time, each with a profile of its own.

use super::{Session, cost};
use crate::profile::End;
use crate::record::environment::namespaces::monotonic_ns;
use rustc_hash::FxHashMap;
use std::time::SystemTime;

/// What earlier windows have of what is counted from the start on. Empty for a session with one window.
#[derive(Debug, Default)]
pub(super) struct EarlierWindows {
    /// Start of the window that goes on, CLOCK_MONOTONIC, ns; `None` for the first one.
    start_ns: Option<u64>,
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
        let before = self.counters.insert(name, value).unwrap_or(0);
        value.saturating_sub(before)
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

impl Session<'_> {
    /// Start of the window that goes on, CLOCK_MONOTONIC, ns; that of the session, unless it has had one.
    pub(in crate::record) fn window_start_ns(&self) -> u64 {
        self.earlier.start_ns.unwrap_or(self.start_ns)
    }

    /// Until when all that was recorded is in the profile, but for what waits for others; CLOCK_MONOTONIC, ns. A window ends there.
    pub(in crate::record) fn known_until_ns(&self) -> u64 {
        self.known_until_ns
    }

    /// Takes what the window lacks: its part of what is not over.
    ///
    /// # Errors
    ///
    /// When the threads cannot be looked at, or the rings not be read.
    pub(in crate::record) fn settle_window(&mut self) -> anyhow::Result<()> {
        if self.waits.is_some() {
            self.watch_threads()?;
            // The stacks of waits that the look has found.
            self.take()?;
            self.collector.end_waits_of_window();
        }
        Ok(())
    }

    /// Ends the window at [`Session::known_until_ns`]: the profile has its counters and its end record, whose reason is `reason`.
    ///
    /// # Errors
    ///
    /// When the kernel side's counters cannot be read.
    pub(in crate::record) fn end_window(&mut self, reason: &str) -> anyhow::Result<()> {
        let counters = self.kernel.counters()?;
        self.count(&counters);
        let mut end = End {
            duration_ns: self.known_until_ns.saturating_sub(self.window_start_ns()),
            reason: reason.to_owned(),
            bpf_ns: counters.bpf_ns(),
            bpf_runs: counters.bpf_runs(),
            cpu_ns: cost::own().0,
            recording_cpu_ns: Some(self.recording_cpu_ns()),
            max_rss_bytes: cost::own().1,
            threads: self.collector.totals.threads.len() as u32,
            ..End::default()
        };
        self.earlier.only_this(&mut end);
        self.collector.profile.end = Some(end);
        Ok(())
    }

    /// Begins the next window where the last one has ended.
    pub(in crate::record) fn begin_window(&mut self) {
        let start_ns = self.known_until_ns;
        let ago_ns = monotonic_ns().saturating_sub(start_ns);
        let now_ns =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let start_unix_ns = u64::try_from(now_ns).unwrap_or(u64::MAX).saturating_sub(ago_ns);
        self.collector.begin_window(start_ns, start_unix_ns);
        self.earlier.start_ns = Some(start_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_has_its_own_part_of_what_is_counted_from_the_start() {
        let mut earlier = EarlierWindows::default();
        assert_eq!([10, 10, 25].map(|value| earlier.newly("lost", value)), [10, 0, 15]);
        let mut parts = Vec::new();
        for whole in [100, 130, 190] {
            let mut end = End { cpu_ns: whole, recording_cpu_ns: Some(whole / 2), ..End::default() };
            earlier.only_this(&mut end);
            parts.push((end.cpu_ns, end.recording_cpu_ns));
        }
        assert_eq!(parts, [(100, Some(50)), (30, Some(15)), (60, Some(30))]);
    }
}
