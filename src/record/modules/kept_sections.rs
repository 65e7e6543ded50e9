//! Unwind sections of files whose tables cannot hold all rules, kept for the walks that need them.
//!
//! Most files never need any. Where a file does, every sample in its code may, so they are read and indexed once; a file
//! whose sections take too much memory has none, and stacks end there.

use super::file::{FileId, ModuleFile};
use crate::base::memory_budget::{MemoryBudget, Reservation};
use crate::unwind::{CfiSections, Limits};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most bytes that the sections of all files may take, with their indexes.
const MOST_BYTES: u64 = 64 << 20;
/// Sections that were used this recently are not dropped for those of another file: two large files in one stack would be
/// read again for each sample.
const LEAST_KEPT: Duration = Duration::from_secs(10);
/// A file without sections is looked at again after this time.
const RETRY: Duration = Duration::from_secs(10);

/// The sections of one file.
#[derive(Debug)]
struct KeptFile {
    id: FileId,
    /// `None`: they cannot be read, or take too much memory.
    sections: Option<(Arc<CfiSections>, Reservation)>,
    last_used: Instant,
}

impl KeptFile {
    fn bytes(&self) -> u64 {
        self.sections.as_ref().map_or(0, |(_, room)| room.bytes())
    }
}

/// The sections of a few files.
#[derive(Debug)]
pub(super) struct KeptSections {
    kept: Mutex<Vec<KeptFile>>,
    most_bytes: u64,
}

impl Default for KeptSections {
    fn default() -> Self {
        KeptSections { kept: Mutex::default(), most_bytes: MOST_BYTES }
    }
}

impl KeptSections {
    /// The sections of `file`, whose id is `id`; read when they are asked for the first time.
    pub(super) fn of(&self, id: FileId, file: &ModuleFile) -> Option<Arc<CfiSections>> {
        self.of_at(id, file, Instant::now())
    }

    fn of_at(&self, id: FileId, file: &ModuleFile, now: Instant) -> Option<Arc<CfiSections>> {
        // A panic while the lock is held leaves nothing half-done.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|one| one.sections.is_some() || now.duration_since(one.last_used) < RETRY);
        if let Some(known) = kept.iter_mut().find(|one| one.id == id) {
            let (sections, _) = known.sections.as_ref()?;
            known.last_used = now;
            return file.is_unchanged(&Limits::default()).then(|| Arc::clone(sections));
        }
        let sections = load(file, &mut kept, self.most_bytes, now);
        kept.push(KeptFile { id, sections, last_used: now });
        kept.last()?.sections.as_ref().map(|(sections, _)| Arc::clone(sections))
    }

    /// Drops what is kept of a file that was closed.
    pub(super) fn forget(&mut self, id: FileId) {
        self.kept.get_mut().unwrap_or_else(PoisonError::into_inner).retain(|one| one.id != id);
    }
}

/// Reads the sections of `file`, and drops those of others that were not used for a while where there is no room.
fn load(
    file: &ModuleFile,
    kept: &mut Vec<KeptFile>,
    most_bytes: u64,
    now: Instant,
) -> Option<(Arc<CfiSections>, Reservation)> {
    let elf = file.elf.as_ref().filter(|_| file.is_unchanged(&Limits::default()))?;
    let bytes = CfiSections::memory_bytes(elf);
    while kept.iter().map(KeptFile::bytes).sum::<u64>().saturating_add(bytes) > most_bytes {
        let held = kept.iter().enumerate().filter(|(_, one)| one.bytes() > 0);
        let (oldest, one) = held.min_by_key(|(_, one)| one.last_used)?;
        if now.duration_since(one.last_used) < LEAST_KEPT {
            return None;
        }
        kept.remove(oldest);
    }
    let room = MemoryBudget::shared().try_reserve(bytes).ok()?;
    Some((Arc::new(CfiSections::load(elf).ok()?), room))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ModuleKind;
    use crate::unwind::ElfImage;

    /// A file of this process, as one that is mapped.
    fn file(path: &str) -> ModuleFile {
        let elf = ElfImage::open(&std::fs::File::open(path).expect("it is there"), &Limits::default().elf);
        ModuleFile::new(path, 0, ModuleKind::Elf).with_elf(elf.ok())
    }

    #[test]
    fn sections_are_read_once_and_those_of_another_file_when_there_is_room() {
        let own = file("/proc/self/exe");
        let bytes = CfiSections::memory_bytes(own.elf.as_ref().expect("it is one"));
        let mut kept = KeptSections { most_bytes: bytes + bytes / 2, ..KeptSections::default() };
        let begin = Instant::now();
        let first = kept.of_at(FileId(1), &own, begin).expect("there is room");
        let again = kept.of_at(FileId(1), &own, begin).expect("they are kept");
        assert!(Arc::ptr_eq(&first, &again));
        assert!(kept.of_at(FileId(2), &own, begin + LEAST_KEPT / 2).is_none(), "the first are in use");
        assert!(kept.of_at(FileId(2), &own, begin + LEAST_KEPT).is_none(), "it was looked at just now");
        assert!(kept.of_at(FileId(2), &own, begin + LEAST_KEPT / 2 + RETRY).is_some());
        assert_eq!(kept.kept.get_mut().expect("no panic").len(), 1, "the first were dropped");
        kept.forget(FileId(2));
        assert!(kept.kept.get_mut().expect("no panic").is_empty());
    }

    #[test]
    fn sections_that_take_too_much_memory_are_not_read() {
        let own = file("/proc/self/exe");
        let kept = KeptSections { most_bytes: 1, ..KeptSections::default() };
        assert!(kept.of(FileId(1), &own).is_none());
    }
}
