//! Closing files that no process has mapped any more: they take a descriptor, memory, a number of the kernel side, and the
//! disk space of a file that was deleted.

use super::ModuleFiles;
use super::file::{FileId, ModuleFile};
use crate::bpf::{ImageState, prof_file_key};
use crate::record::kernel::unwind_tables::KernelTables;
use rustc_hash::FxHashSet;
use std::os::unix::fs::MetadataExt;

/// Time that a file is kept that may be mapped again, ns.
const KEPT_NS: u64 = 60_000_000_000;
/// Time that a deleted file is kept, and any file where there is little room: late samples may still need it, and its names
/// have to be read first.
const LEAST_KEPT_NS: u64 = 15_000_000_000;

impl ModuleFiles {
    /// Closes the files that have not been mapped for a while; those of `mapped` are. Returns the keys by which the kernel
    /// side knows them, which it has to forget.
    pub(in crate::record) fn close_unmapped(
        &mut self,
        mapped: &FxHashSet<FileId>,
        now_ns: u64,
        kernel: &mut KernelTables,
    ) -> Vec<prof_file_key> {
        let is_crowded = self.open > self.room / 2 || self.images as usize > crate::bpf::MAX_IMAGES / 2;
        let mut closed = FxHashSet::default();
        for (id, file) in self.files.iter_mut().filter(|(id, _)| *id != Self::GENERATED) {
            if mapped.contains(&id) || file.last_mapped_ns == 0 {
                file.last_mapped_ns = now_ns;
                continue;
            }
            let kept_ns = if is_crowded || file.is_deleted() { LEAST_KEPT_NS } else { KEPT_NS };
            let used_ns = file.last_mapped_ns.max(file.last_hit_ns);
            if now_ns.saturating_sub(used_ns) >= kept_ns && file.is_at_rest() {
                closed.insert(id);
            }
        }
        if closed.is_empty() {
            return Vec::new();
        }
        let mut keys = Vec::new();
        self.by_key.retain(|key, seen| {
            let is_closed = closed.contains(&seen.id);
            if is_closed {
                let device = key.device.0 << 20 | key.device.1;
                keys.push(prof_file_key { inode: key.inode, device, pad: 0 });
            }
            !is_closed
        });
        self.by_build.retain(|_, ids| {
            ids.retain(|id| !closed.contains(id));
            !ids.is_empty()
        });
        self.by_row.retain(|_, id| !closed.contains(id));
        self.lost_builds.retain(|_, id| !closed.contains(id));
        self.known_generated.retain(|(id, _)| !closed.contains(id));
        self.unfollowed.retain(|id| !closed.contains(id));
        self.unplaced.retain(|id| !closed.contains(id));
        for id in closed {
            self.kept_sections.forget(id);
            let Some(file) = self.files.remove(id) else { continue };
            self.open -= usize::from(file.file.is_some());
            kernel.drop_table(file.image);
            kernel.set_state(file.image, ImageState::NotLoaded);
            self.free_images.push(file.image);
        }
        keys
    }
}

impl ModuleFile {
    fn is_deleted(&self) -> bool {
        let facts = self.file.as_ref().filter(|_| !self.is_remote).and_then(|file| file.metadata().ok());
        facts.is_some_and(|facts| facts.nlink() == 0)
    }

    /// No one is about to give it a table.
    fn is_at_rest(&self) -> bool {
        !matches!(self.table, super::file::TableState::Compiling)
    }
}
