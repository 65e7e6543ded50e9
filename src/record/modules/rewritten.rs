//! Files that were rewritten in place: under one inode and path there is another build than before. What ran must never have the
//! names of what is there now.

use super::file::{FileId, ModuleFile, open_mapped_file};
use super::{FileKey, ModuleFiles, SeenModule, UnsentFile};
use crate::base::file_state::FileState;
use crate::profile::ModuleKind;
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::kernel::sideband::CodeMapping;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

impl ModuleFiles {
    /// The same as `file_of` for what the kernel says was mapped at `time_ns`: by now another build may be there, of which
    /// nothing is taken then.
    pub(crate) fn file_mapped_at(&mut self, pid: u32, mapping: &CodeMapping, time_ns: u64) -> Option<FileId> {
        let id = self.file_of(pid, mapping)?;
        let file = self.get(id);
        // What is in memory alone is written once it is mapped, and by no one else.
        let may_be_lost = file.elf.is_some() && !file.is_remote && !mapping.path.starts_with("/memfd:");
        let Some(opened) = file.file.as_ref().filter(|_| may_be_lost) else {
            return Some(id);
        };
        let key = FileKey { device: mapping.device, inode: mapping.inode, path: mapping.path.clone() };
        let state = self.by_key.get(&key).and_then(|seen| seen.state);
        if !state.is_some_and(|state| is_written_since(state, time_ns)) {
            return Some(id);
        }
        if let Some(&lost) = self.lost_builds.get(&key) {
            return Some(lost);
        }
        // Its file is none that it can be named by: that is what the note on it says.
        let lost = ModuleFile {
            file: Some(Arc::clone(opened)),
            ..ModuleFile::new(&file.path, pid, ModuleKind::Elf)
        };
        let image = self.new_image()?;
        let id = self.files.push(ModuleFile { image, ..lost });
        self.open += 1;
        self.lost_builds.insert(key, id);
        Some(id)
    }

    /// The file of a mapping again, if its bytes changed since it was seen under the same inode; without anything of it if
    /// it was not read in time: it must not have the names of what was there before.
    pub(super) fn rewritten(
        &mut self,
        seen: SeenModule,
        pid: u32,
        mapping: &CodeMapping,
    ) -> Option<ModuleFile> {
        let before = seen.state?;
        let known = self.get(seen.id);
        if known.is_remote {
            return None; // to ask for every mapping would take too long
        }
        let kept = known.file.as_ref().and_then(|file| Some((file, file.metadata().ok()?)));
        let kept = match kept.filter(|(_, metadata)| metadata.ino() == mapping.inode) {
            Some((_, metadata)) if FileState::from(&metadata) == before => return None,
            Some((file, _)) => Some(Arc::clone(file)),
            // A copy of the file that is kept open. Where it cannot be asked for, it counts as unchanged.
            None => None,
        };
        let (path, mapping, limits) = (known.path.clone(), mapping.clone(), self.limits.clone());
        let unread = kept.is_some().then(|| ModuleFile::new(&path, pid, ModuleKind::Elf));
        let answer = self.patience.ask(move || {
            let file = match kept {
                Some(file) => file,
                None => Arc::new(open_mapped_file(pid, &mapping, &path).ok()?),
            };
            Some(ModuleFile::read(pid, &path, file, &limits))
        });
        match answer {
            Some(module) => module.filter(|module| module.state != Some(before)),
            None => unread,
        }
    }

    /// The id of a file that was rewritten in place: a new one, unless it is the same build or an earlier one again.
    pub(super) fn add_rewritten(&mut self, module: ModuleFile, key: FileKey) -> FileId {
        let state = module.state;
        let unsent_before = self.unsent.len();
        let id = self.add(module, (key.device, key.inode));
        let is_this_file = self.get(id).file.as_ref().and_then(|file| file.metadata().ok());
        let is_this_file = is_this_file.is_some_and(|metadata| metadata.ino() == key.inode);
        if is_this_file && self.unsent.len() == unsent_before {
            self.get_mut(id).into_iter().for_each(|known| known.state = state);
            self.unsent.push(UnsentFile { device: key.device, inode: key.inode, id, state });
        }
        self.by_key.insert(key, SeenModule { id, state });
        id
    }
}

/// Whether a file in this state was written after `time_ns` (CLOCK_MONOTONIC). A time of the last write that is still to come
/// says nothing, nor does one from before the clock was set.
fn is_written_since(state: FileState, time_ns: u64) -> bool {
    let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) else { return false };
    let age = Duration::from_nanos(monotonic_ns().saturating_sub(time_ns));
    let mapped_ns = now.saturating_sub(age).as_nanos();
    let modified_ns = u128::from(state.modified_ns);
    mapped_ns < modified_ns && modified_ns <= now.as_nanos()
}
