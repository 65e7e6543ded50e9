//! What the kernel's own books have of the target, besides what is recorded: whatever the kernel side misses is noticed.

use super::Session;
use crate::bpf::{Counter, EXEC_PENDING};
use crate::profile::counter;
use crate::record::kernel::perf_event;
use crate::record::process::proc_fs;
use crate::record::process::proc_fs::CpuTime;
use crate::record::session::cpu_use;
use crate::record::session::cpu_use::{CpuUse, Sampled, Whose};
use crate::record::session::state::Books;

impl Session<'_> {
    /// Opens the books: the kernel side counts from now on.
    pub(super) fn open_books(&mut self) -> anyhow::Result<()> {
        if self.is_system_wide {
            return Ok(());
        }
        let is_pending = |pid: &u32| {
            let process = self.collector.processes.get(*pid);
            process.is_some_and(|process| process.exec_seq == EXEC_PENDING)
        };
        let targets: Vec<Whose> = match self.tids.is_empty() {
            true => self.roots.iter().copied().map(Whose::Process).collect(),
            false => self.tids.iter().copied().map(Whose::Thread).collect(),
        };
        self.books = Books {
            cpu_use: CpuUse::begin(targets.into_iter()),
            is_pending: self.roots.iter().all(is_pending),
            unaccounted: 0,
        };
        if self.waits.is_some() && !self.books.is_pending {
            self.books.unaccounted = self.threads_without_account()?;
        }
        Ok(())
    }

    /// Threads of the target that are there and of whose time the kernel side has no account.
    fn threads_without_account(&self) -> anyhow::Result<u64> {
        let threads: Vec<u32> = match self.tids.is_empty() {
            true => self.roots.iter().flat_map(|&pid| proc_fs::threads(pid).unwrap_or_default()).collect(),
            false => self.tids.iter().copied().collect(),
        };
        let lacks = |threads: u64| -> anyhow::Result<u64> {
            Ok(threads.saturating_sub(self.kernel.counters()?.get(Counter::Account)))
        };
        if lacks(threads.len() as u64)? == 0 {
            return Ok(0);
        }
        // Those that have ended since, or were about to, have none to come.
        lacks(threads.into_iter().filter(|&tid| proc_fs::is_alive(tid)).count() as u64)
    }

    /// Notes what the books have and the recording has not. `ended` is the CPU time of a launched command at its end.
    pub(crate) fn close_books(
        &mut self,
        has_launched: bool,
        ended: Option<(u32, CpuTime)>,
    ) -> anyhow::Result<()> {
        let accounts = self.kernel.counters()?.get(Counter::Account);
        let used = self.books.cpu_use.since(ended);
        let pending = self.books.is_pending && self.waits.is_some() && accounts == 0 && used.user_ns > 0;
        let running = self.collector.running_totals();
        let profile = &mut self.collector.profile;
        profile.count(counter::THREADS_UNACCOUNTED, self.books.unaccounted + u64::from(pending));
        if let Some(running) = running {
            let sampled = Sampled {
                samples: running.samples,
                period_ns: perf_event::period_ns(profile.meta.effective_hz),
                // Only of what was started for it, everything that was started since is known.
                has_children: self.follows_children && has_launched,
                user_only: profile.meta.user_only,
            };
            profile.count(counter::UNRECORDED_NS, cpu_use::unrecorded_ns(&used, sampled).unwrap_or(0));
        }
        Ok(())
    }
}
