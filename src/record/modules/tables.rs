//! Tables of files: compiled on other threads, small files first, and placed in the kernel as far as there is room.

use super::ModuleFiles;
use super::cache::{Key, TableCache};
use super::file::{FileId, TableState};
use crate::bpf::ImageState;
use crate::record::kernel_tables::{self, KernelTables, PlaceError};
use crate::symbols::find_debug_file;
use crate::unwind::{CfiSections, ElfImage, FirstTable, Limits, TableError, compile_first, compile_sections};
use rustc_hash::FxHashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The root folder of a process, or this one's where the process is gone.
fn root_of(pid: u32) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    if root.exists() { root } else { PathBuf::from("/") }
}

/// What tables are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// What there is soon; code without entries may be left to user space.
    First,
    /// All of it.
    Whole,
}

/// A table to be compiled.
struct Job {
    elf: Arc<ElfImage>,
    /// Where the headers are from; `None` for the vDSO.
    file: Option<Arc<File>>,
    path: String,
    seen_in: u32,
    wanted: Wanted,
    limits: Limits,
    cache: Option<Arc<TableCache>>,
}

/// A table, and what keeps it in the cache.
struct Made {
    table: FirstTable,
    kept: Option<(Key, Vec<u8>)>,
}

impl Job {
    /// The table of the module: that of the cache, or a new one.
    fn make(&self) -> Result<Made, TableError> {
        let sections = self.sections()?;
        let key = || Key::of(self.file.as_ref()?, &self.elf, &sections);
        let cached = self.cache.as_ref().and_then(|cache| Some((cache, key()?)));
        if let Some((cache, key)) = &cached
            && let Some(table) = cache.load(key, &self.limits)
        {
            return Ok(Made { table: FirstTable { table, is_whole: true }, kept: None });
        }
        let table = match self.wanted {
            Wanted::First => compile_first(&self.elf, &sections, &self.limits)?,
            Wanted::Whole => {
                let table = compile_sections(&self.elf, &sections, &self.limits)?;
                FirstTable { table, is_whole: true }
            }
        };
        let kept = cached.filter(|_| table.is_whole).and_then(|(cache, before)| {
            // What was read may be of two states of the file.
            let is_same = key() == Some(before);
            is_same.then(|| cache.packed(&before, &table.table)).flatten().map(|packed| (before, packed))
        });
        Ok(Made { table, kept })
    }

    /// The unwind sections, with the entries of the separate debug file where there are hardly any.
    fn sections(&self) -> Result<CfiSections, TableError> {
        let (elf, limits) = (&self.elf, &self.limits);
        let mut sections = CfiSections::load(elf, limits)?;
        let debug_file =
            || find_debug_file(&root_of(self.seen_in), Path::new(&self.path), self.file.as_ref()?);
        if sections.lacks_entries(elf)
            && let Some(file) = debug_file()
            && let Ok(debug_image) = ElfImage::open(&file, limits)
        {
            // Without them the module is no worse off than with no debug file at all.
            let _ = sections.add_debug_frame(&debug_image, limits);
        }
        Ok(sections)
    }
}

impl ModuleFiles {
    pub(super) fn request_table(&mut self, id: FileId) {
        let module = &mut self.files[id.0 as usize];
        let Some(elf) = module.elf.clone() else { return };
        if !self.wants_tables {
            return;
        }
        module.table = TableState::Compiling;
        self.compiling += 1;
        if self.get(id).is_small() {
            self.start_compiling(id, &elf, Wanted::First);
        } else {
            self.large.push(id);
            self.start_next_large();
        }
    }

    fn start_compiling(&self, id: FileId, elf: &Arc<ElfImage>, wanted: Wanted) {
        let sender = self.sender.clone();
        let module = self.get(id);
        let job = Job {
            elf: Arc::clone(elf),
            file: module.file.clone(),
            path: module.path.clone(),
            seen_in: module.seen_in,
            wanted,
            limits: self.limits.clone(),
            cache: self.cache.clone(),
        };
        let work = move || {
            let (table, kept) = match job.make() {
                Ok(Made { table, kept }) => (Ok(table), kept),
                Err(error) => (Err(error), None),
            };
            // The recorder may be gone already: then nobody wants the table.
            let _ = sender.send((id, table));
            if let (Some(cache), Some((key, packed))) = (&job.cache, kept) {
                cache.add(&key, &packed);
            }
        };
        match &self.small_pool {
            Some(pool) if self.large_running != Some(id) && wanted == Wanted::First => pool.spawn(work),
            _ => rayon::spawn(work),
        }
    }

    /// Begins with the large file that samples were last seen in; one at a time, since one keeps all cores busy.
    fn start_next_large(&mut self) {
        if self.large_running.is_some() {
            return;
        }
        let hit = |&index: &usize| self.get(self.large[index]).last_hit_ns;
        let Some(index) = (0..self.large.len()).rev().max_by_key(hit) else { return };
        let id = self.large.remove(index);
        let Some(elf) = self.get(id).elf.clone() else { return };
        self.large_running = Some(id);
        self.start_compiling(id, &elf, Wanted::First);
    }

    /// Begins to follow the instructions of the file that samples were last seen in, once nothing else is waited for.
    fn start_next_following(&mut self) {
        if self.following.is_some() || self.compiling > 0 {
            return;
        }
        let hit = |&index: &usize| self.get(self.unfollowed[index]).last_hit_ns;
        let Some(index) = (0..self.unfollowed.len()).rev().max_by_key(hit) else { return };
        let id = self.unfollowed.remove(index);
        let Some(elf) = self.get(id).elf.clone() else { return };
        self.following = Some(id);
        self.start_compiling(id, &elf, Wanted::Whole);
    }

    /// Takes the tables that are finished and places them in the kernel; waits up to `patience` for the wanted ones of
    /// all files. Returns whether any arrived.
    pub fn place_finished(&mut self, kernel: &mut KernelTables, patience: Duration, wanted: Wanted) -> bool {
        let deadline = std::time::Instant::now() + patience;
        let mut any = false;
        while self.compiling > 0 || self.following.is_some() {
            let is_wanted = self.compiling > 0 || wanted == Wanted::Whole;
            let left = if is_wanted {
                deadline.saturating_duration_since(std::time::Instant::now())
            } else {
                Duration::ZERO
            };
            let Ok((id, result)) = self.receiver.recv_timeout(left) else { break };
            any = true;
            if self.following == Some(id) {
                self.following = None;
            } else {
                self.compiling -= 1;
            }
            if self.large_running == Some(id) {
                self.large_running = None;
                self.start_next_large();
            }
            self.take_compiled(id, result, kernel);
            self.start_next_following();
        }
        any
    }

    fn take_compiled(
        &mut self,
        id: FileId,
        result: Result<FirstTable, TableError>,
        kernel: &mut KernelTables,
    ) {
        self.compiled += 1;
        let module = &mut self.files[id.0 as usize];
        if !module.is_unchanged(&self.limits) {
            // Its table may be of other bytes than were mapped. What the kernel side has already is not.
            self.failures
                .push(format!("no unwind table for {}: it was rewritten while it was read", module.path));
            self.failed += 1;
            if matches!(module.table, TableState::Compiling) {
                // There will be none: samples need not wait for it.
                module.table = TableState::Missing;
                kernel.set_state(id.0, ImageState::NoTable);
            }
            return;
        }
        match result {
            Ok(FirstTable { table, is_whole: true }) => {
                module.table = TableState::Compiled(Arc::new(table));
                self.place(id, kernel);
            }
            Ok(FirstTable { table, is_whole: false }) => {
                // No room is made for it: the next one may not fit either.
                let _ = kernel.place(id.0, &table);
                module.table = TableState::First(Arc::new(table));
                self.unfollowed.push(id);
            }
            Err(error) => {
                module.table = TableState::Missing;
                self.failures.push(format!("no unwind table for {}: {error}", module.path));
                self.failed += 1;
                kernel.drop_table(id.0);
                kernel.set_state(id.0, ImageState::NoTable);
            }
        }
    }

    /// Tells the kernel side about a file without a table.
    pub fn publish_without_table(&self, id: FileId, kernel: &mut KernelTables) {
        let module = self.get(id);
        match module.table {
            _ if id == Self::GENERATED => kernel.set_state(id.0, ImageState::Generated),
            TableState::Missing if !self.wants_tables => {
                kernel.set_state(id.0, ImageState::FramePointers);
            }
            TableState::Missing if module.file.is_none() && module.vdso.is_none() => {
                kernel.set_state(id.0, ImageState::Unreadable);
            }
            TableState::Missing => kernel.set_state(id.0, ImageState::NoTable),
            TableState::Compiling | TableState::First(_) | TableState::Compiled(_) => {}
        }
    }

    /// Places a table, dropping the least recently hit ones while there is no space.
    fn place(&mut self, id: FileId, kernel: &mut KernelTables) {
        let TableState::Compiled(table) = self.get(id).table.clone() else { return };
        loop {
            match kernel.place(id.0, &table) {
                Ok(()) => return,
                Err(PlaceError::TooLarge) => {
                    self.evicted += 1;
                    self.files[id.0 as usize].never_fits = true;
                    kernel.drop_table(id.0);
                    return;
                }
                Err(PlaceError::Full) => {
                    // Where there is no room for two of its tables, the new one has to wait for that of the old.
                    if kernel.is_placed(id.0) {
                        kernel.drop_table(id.0);
                    } else if let Some(image) = self.coldest(kernel) {
                        kernel.drop_table(image);
                        self.evicted += 1;
                    }
                    // What was dropped cannot be used at once.
                    std::thread::sleep(kernel_tables::GRACE);
                }
            }
        }
    }

    /// The placed table that was hit least recently.
    fn coldest(&self, kernel: &KernelTables) -> Option<u32> {
        kernel.placed_images().min_by_key(|&image| (self.files[image as usize].last_hit_ns, image))
    }

    /// Gives a table that was pushed out its place back when samples need it more than another's: it was hit
    /// within the last second, and the coldest one was not.
    pub fn restore_hot(&mut self, kernel: &mut KernelTables, now_ns: u64) {
        if self.evicted == 0 {
            return;
        }
        let recent_ns = now_ns.saturating_sub(1_000_000_000);
        let is_placed: FxHashSet<u32> = kernel.placed_images().collect();
        let hottest = self
            .iter()
            .filter(|(id, file)| {
                matches!(file.table, TableState::Compiled(_))
                    && !file.never_fits
                    && !is_placed.contains(&id.0)
            })
            .max_by_key(|(id, file)| (file.last_hit_ns, *id))
            .filter(|(_, file)| file.last_hit_ns > recent_ns)
            .map(|(id, _)| id);
        let Some(id) = hottest else { return };
        let is_cold = |image| self.files[image as usize].last_hit_ns <= recent_ns;
        if self.coldest(kernel).is_none_or(is_cold) {
            self.place(id, kernel);
        }
    }
}
