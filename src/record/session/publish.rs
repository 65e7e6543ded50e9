//! What the kernel side is told of processes and files.

use super::{Session, monotonic_ns};
use crate::record::process;

/// How long the kernel side and the side-band may disagree about the exec calls of a process, ns.
const EXEC_PATIENCE_NS: u64 = 200_000_000;

impl Session<'_> {
    /// Tells the kernel side about processes whose mappings have changed.
    pub(super) fn publish_processes(&mut self) -> anyhow::Result<()> {
        let collector = &mut self.collector;
        for (id, key, file) in collector.files.take_untold() {
            collector.files.publish_without_table(id, &mut self.kernel.tables);
            self.kernel.set_file(&key, &file)?;
        }
        for (pid, process) in collector.processes.iter_mut() {
            if !process.is_dirty || !process.is_target {
                continue;
            }
            for mapping in process.mappings() {
                collector.files.publish_without_table(mapping.file, &mut self.kernel.tables);
            }
            let known = self.kernel.exec_seq(pid)?;
            if known.is_some() && process.is_inherited {
                process.is_dirty = false;
                continue;
            }
            if let Some(known) = known.filter(|known| *known != process.exec_seq) {
                let now_ns = monotonic_ns();
                if process.mismatch_ns == 0 {
                    process.mismatch_ns = now_ns;
                }
                // News of an exec are on their way, to here or to the kernel side. If not, one of both has missed it.
                if now_ns - process.mismatch_ns < EXEC_PATIENCE_NS {
                    continue;
                }
                process.exec_seq = known;
                let tables = &mut collector.profile.tables;
                process::read_mappings(pid, process, now_ns, &mut collector.files, tables);
            }
            process.mismatch_ns = 0;
            self.stamps += 1;
            let (entry, cut) = process.kernel_entry(self.stamps);
            self.kernel.set_process(pid, &entry)?;
            self.mappings_cut += cut as u64;
            process.published(monotonic_ns());
        }
        Ok(())
    }
}
