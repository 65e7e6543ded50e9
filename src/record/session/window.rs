//! A session that goes on over many windows of time, each with a profile of its own.

use super::{Session, cost};
use crate::profile::End;
use crate::record::environment::namespaces::monotonic_ns;
use std::time::SystemTime;

impl Session<'_> {
    /// Start of the window that goes on, CLOCK_MONOTONIC, ns; that of the session, unless it has had one.
    pub(in crate::record) fn window_start_ns(&self) -> u64 {
        self.earlier.start_ns.unwrap_or(self.start_ns)
    }

    /// Until when all that was recorded is in the profile, but for what waits for others; CLOCK_MONOTONIC, ns. A window ends there.
    pub(in crate::record) fn known_until_ns(&self) -> u64 {
        self.earlier.known_until_ns
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
            duration_ns: self.earlier.known_until_ns.saturating_sub(self.window_start_ns()),
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
        let start_ns = self.earlier.known_until_ns.max(self.window_start_ns());
        let ago_ns = monotonic_ns().saturating_sub(start_ns);
        let now_ns =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let start_unix_ns = u64::try_from(now_ns).unwrap_or(u64::MAX).saturating_sub(ago_ns);
        self.collector.begin_window(start_ns, start_unix_ns);
        self.earlier.start_ns = Some(start_ns);
    }
}
