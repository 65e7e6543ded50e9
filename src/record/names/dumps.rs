//! The jitdumps of all processes, and the frames to be named from them.

use crate::profile::FrameId;
use crate::record::modules::{FileId, ModuleFiles};
use crate::symbols::{JitDump, NamingLimits};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A frame whose name is not certain yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingDump {
    pub(super) dump: FileId,
    pub(super) address: u64,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
}

/// All dumps, and the frames to be named from them.
#[derive(Debug, Default)]
pub(crate) struct JitDumps {
    /// Dumps by file; `None` for files that were refused.
    pub(super) dumps: FxHashMap<FileId, Option<Dump>>,
    pub(super) pending: FxHashMap<FrameId, PendingDump>,
    /// Whether names are shown while recording.
    pub(crate) is_watched: bool,
    /// Frames that got their names since they were last taken for display.
    pub(crate) named: Vec<FrameId>,
    /// Why files were refused, for `-v`.
    pub(crate) problems: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Dump {
    pub(super) dump: JitDump,
    pub(super) path: String,
}

impl JitDumps {
    /// Opens the dump in a file that a process has mapped, unless it is open already.
    pub(super) fn open(&mut self, id: FileId, files: &ModuleFiles, uid: u32) {
        if self.dumps.contains_key(&id) {
            return;
        }
        let module = files.get(id);
        let Some(file) = &module.file else { return };
        let dump = match JitDump::new(Arc::clone(file), uid) {
            Ok(dump) => Some(Dump { dump, path: module.path.clone() }),
            Err(error) => {
                self.problems.push(format!("no names from {}: {error}", module.path));
                None
            }
        };
        self.dumps.insert(id, dump);
    }

    pub(super) fn get(&self, id: FileId) -> Option<&JitDump> {
        Some(&self.dumps.get(&id)?.as_ref()?.dump)
    }

    /// Reads what was written since the last call, up to `most` records of each dump.
    pub(super) fn read(&mut self, most: usize) {
        let limits = NamingLimits::default();
        for Dump { dump, .. } in self.dumps.values_mut().flatten() {
            dump.read_more(most, &limits);
        }
    }

    /// Forgets the frames, because the rows of the profile get new numbers.
    pub(crate) fn forget_rows(&mut self) {
        self.pending.clear();
        self.named.clear();
    }

    /// Lines about the dumps, for `-v`.
    pub(crate) fn describe(&self) -> Vec<String> {
        let dumps = self.dumps.values().flatten();
        let of_dump = |Dump { dump, path }: &Dump| {
            let cut = if dump.is_cut() { "; it was not read to its end" } else { "" };
            format!("{path}: {} pieces of code, {} bad records{cut}", dump.len(), dump.bad_records())
        };
        dumps.map(of_dump).chain(self.problems.iter().cloned()).collect()
    }
}
