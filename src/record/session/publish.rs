//! What is published to the kernel side: processes, files, and tables of them.
//!
//! It has room for this many, and memory may be short. What it does not take is counted, and no reason to end: a process is
//! tried again, and user space sends it each mapping of a file that it does not know.

use super::Session;
use crate::base::failure::{Failure, status};
use crate::record::collect::collector::Collector;
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::modules::Wanted;
use crate::record::process::mappings;
use std::time::Duration;

/// Time that the kernel side and the side-band may disagree about the exec calls of a process, ns.
const EXEC_PATIENCE_NS: u64 = 200_000_000;

impl Session<'_> {
    /// Tells the kernel side about files that it does not know, and about processes whose mappings have changed.
    pub(super) fn publish_processes(&mut self) {
        self.publish();
    }

    /// The same where the processes that are to be recorded are among them: without these there is no recording.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that names a process that cannot be published to the kernel side.
    pub(super) fn publish_roots(&mut self) -> anyhow::Result<()> {
        let refused = self.publish();
        let root =
            refused.into_iter().filter(|(pid, _)| self.roots.contains(pid)).min_by_key(|(pid, _)| *pid);
        let Some((pid, error)) = root else { return Ok(()) };
        Err(Failure::new(
            status::FAILED,
            format!("cannot record pid {pid}: kernel map update failed: {error}"),
        )
        .hint("record fewer processes, or raise the memory limit of prof's own container or service")
        .into())
    }

    /// Returns the processes that were refused, with the reason, each once.
    fn publish(&mut self) -> Vec<(u32, anyhow::Error)> {
        let Session { kernel, collector, stamps, refusals, pending_interpreters, .. } = self;
        let Collector { files, processes, interpreters, goroutines, managed, .. } = collector;
        managed.take_outdated().into_iter().for_each(|pid| processes.touch(pid));
        std::mem::take(pending_interpreters).into_iter().for_each(|pid| processes.touch(pid));
        processes.look_at_changed(|pid, process| {
            let is_pending = [
                interpreters.look(pid, process, files),
                goroutines.look(pid, process, files),
                managed.look(pid, process, files),
            ];
            if is_pending.contains(&true) {
                pending_interpreters.push(pid);
            }
        });
        for (id, key, file) in files.take_unsent() {
            files.publish_without_table(id, kernel.tables());
            refusals.files += u64::from(kernel.set_file(&key, &file).is_err());
        }
        self.notices.extend(interpreters.take_problems());
        self.notices.extend(goroutines.take_problems());
        self.notices.extend(managed.take_problems());
        let refused = processes.send_changed(|pid, process| {
            for mapping in process.mappings() {
                files.publish_without_table(mapping.file, kernel.tables());
            }
            let known = kernel.exec_seq(pid)?;
            if known.is_some() && process.is_inherited {
                process.is_dirty = false;
                return Ok(());
            }
            if let Some(known) = known.filter(|known| *known != process.exec_seq) {
                let now_ns = monotonic_ns();
                if process.mismatch_ns == 0 {
                    process.mismatch_ns = now_ns;
                }
                // Word of an exec is on its way, to here or to the kernel side. If not, one side has missed it.
                if now_ns - process.mismatch_ns < EXEC_PATIENCE_NS {
                    return Ok(());
                }
                process.exec_seq = known;
                mappings::read_mappings(pid, process, now_ns, files);
            }
            process.mismatch_ns = 0;
            *stamps += 1;
            kernel.set_process(pid, process, *stamps, files, refusals)
        });
        if self.refusals.processes == 0
            && let Some((pid, error)) = refused.first()
        {
            self.notices.push(format!("kernel map update failed for pid {pid}: {error}"));
        }
        self.refusals.processes += refused.len() as u64;
        refused
    }

    /// Says it once when files of code cannot be kept open.
    fn note_unopened_files(&mut self) {
        if !self.is_limit_reached && self.collector.files.without_descriptor() > 0 {
            self.is_limit_reached = true;
            self.notices.push(
                "too many open files: code of some files has no names and its stacks end early; raise the limit: \
                 ulimit -n 65536"
                    .to_owned(),
            );
        }
    }

    /// Places the tables that are finished; waits up to `patience` for the wanted ones of all files.
    pub(super) fn place_tables(&mut self, patience: Duration, wanted: Wanted) {
        let evicted = self.collector.files.evicted;
        self.collector.files.place_finished(self.kernel.tables(), patience, wanted);
        self.note_unopened_files();
        if self.collector.files.evicted > evicted && !self.is_budget_reached {
            self.is_budget_reached = true;
            self.notices.push(format!(
                "the space for unwind tables is full ({} MiB): the least recently used ones are dropped; \
                 --table-budget raises the limit",
                self.kernel.tables().capacity_bytes() >> 20,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::counter;
    use crate::record::process::mappings::Process;
    use crate::record::session::state::Refusals;

    #[test]
    fn mappings_that_are_cut_count_once_however_often_they_are_told() {
        let (mut refusals, mut first, mut second) =
            (Refusals::default(), Process::default(), Process::default());
        refusals.cut(&mut first, 46);
        refusals.cut(&mut second, 5);
        refusals.cut(&mut first, 48);
        refusals.cut(&mut second, 0);
        refusals.cut(&mut second, 3);
        assert!(refusals.counters().contains(&(counter::MAPPINGS_CUT, 51)));
    }
}
