//! Reads what a target has mapped, and opens what it will map.

use crate::base::opener;
use crate::record::collect::collector::Collector;
use crate::record::options::{RecordOptions, Target};
use crate::record::process::proc_fs;
use crate::record::target::launch;
use crate::record::target::search::FoundTarget;
use std::path::Path;

/// Reads the target into the collector; `program` is the command to be launched, whose files are opened too.
///
/// # Errors
///
/// When the list of processes cannot be read.
pub(super) fn read_target(
    collector: &mut Collector,
    options: &RecordOptions,
    found: &FoundTarget,
    program: Option<&Path>,
) -> anyhow::Result<()> {
    collector.files.open_own_vdso();
    for path in program.map(launch::files_to_preload).unwrap_or_default() {
        if let Ok(file) = opener::named(&path, opener::FileContent::Elf) {
            collector.files.preload(file, &path);
        }
    }
    let is_system_wide = options.target == Target::System;
    collector.processes.is_system_wide = is_system_wide;
    let pids = if is_system_wide { proc_fs::processes()? } else { found.pids.clone() };
    for pid in pids {
        collector.processes.get_or_read(pid, &mut collector.files);
    }
    Ok(())
}
