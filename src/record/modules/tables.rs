//! Tables of files: compiled on other threads, small files first, and placed in the kernel as far as there is room.

use super::ModuleFiles;
use super::cache::{CacheKey, TableCache};
use super::compiled::NoTable;
use super::file::{FileId, SentFile, TableState};
use super::table_work::{MadeTable, TableSource};
use crate::base::deadline::Deadline;
use crate::bpf::ImageState;
use crate::record::kernel::table_space::GRACE;
use crate::record::kernel::unwind_tables::{KernelTables, PlaceError};
use crate::record::modules::compiled::{Compiled, Lane, Wanted};
use crate::record::workers::{self, JobUrgency, WorkerLane};
use crate::unwind::{FirstTable, Table};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for a worker to read a file and compile its table: the largest take some seconds of an idle machine.
const LONGEST_WORK: Duration = Duration::from_secs(120);

/// A table to be made.
struct TableJob {
    source: TableSource,
    /// The file as it is sent to a worker.
    sent: SentFile,
    wanted: Wanted,
    at_worker: (WorkerLane, JobUrgency),
    cache: Option<Arc<TableCache>>,
}

/// A table, and what keeps it in the cache.
struct Made {
    table: FirstTable,
    kept: Option<(CacheKey, Vec<u8>)>,
}

impl TableJob {
    /// The table of the module: that of the cache, or a new one. `None`: it has hardly any entries of its own, and its
    /// separate debug file may have them.
    fn make(&self) -> Result<Option<Made>, NoTable> {
        let key = || CacheKey::of(self.source.file.as_ref()?, &self.source.elf);
        let cached = self.cache.as_ref().and_then(|cache| Some((cache, key()?)));
        if let Some((cache, key)) = &cached
            && let Some(table) = cache.load(key, &self.source.limits)
        {
            return Ok(Some(Made { table: FirstTable { table, is_whole: true }, kept: None }));
        }
        let deadline = Deadline::after(LONGEST_WORK, &Arc::default());
        let made = match workers::is_running() {
            true => self.source.make_elsewhere(self.sent.clone(), self.wanted, self.at_worker, &deadline)?,
            false => self.source.make(self.wanted)?,
        };
        let Some(MadeTable { table, is_of_file }) = made else { return Ok(None) };
        let kept = cached.filter(|_| table.is_whole && is_of_file).and_then(|(cache, before)| {
            // What was read may be of two states of the file.
            let is_same = key() == Some(before);
            is_same.then(|| cache.packed(&before, &table.table)).flatten().map(|packed| (before, packed))
        });
        Ok(Some(Made { table, kept }))
    }
}

impl ModuleFiles {
    pub(super) fn request_table(&mut self, id: FileId) {
        let wants_tables = self.wants_tables;
        let Some(module) = self.get_mut(id).filter(|module| wants_tables && module.elf.is_some()) else {
            return;
        };
        module.table = TableState::Compiling;
        if module.is_remote {
            self.start_compiling(id, Lane::Slow, Wanted::First);
            return;
        }
        self.compiling += 1;
        if self.get(id).is_small() {
            self.start_compiling(id, Lane::Small, Wanted::First);
        } else {
            self.large.push(id);
            self.start_next_large();
        }
    }

    fn start_compiling(&self, id: FileId, lane: Lane, wanted: Wanted) {
        let module = self.get(id);
        let Some(elf) = module.elf.clone() else { return };
        let sender = self.sender.clone();
        let may_search = lane == Lane::Slow || module.needs_debug_file;
        let job = TableJob {
            source: TableSource {
                elf,
                file: module.file.clone(),
                path: module.path.clone(),
                seen_in: module.seen_in,
                may_search,
                limits: self.limits.clone(),
            },
            sent: module.to_send(),
            wanted,
            at_worker: match lane {
                _ if may_search => (WorkerLane::Slow, JobUrgency::Ordinary),
                Lane::Small => (WorkerLane::Local, JobUrgency::First),
                _ => (WorkerLane::Local, JobUrgency::Ordinary),
            },
            cache: self.cache.clone(),
        };
        let work = move || {
            let (table, kept) = match job.make() {
                Ok(Some(Made { table, kept })) => (Some(Ok(table)), kept),
                Ok(None) => (None, None),
                Err(why) => (Some(Err(why)), None),
            };
            // The recorder may be gone already: then no one wants the table.
            let _ = sender.send(Compiled { id, lane, table });
            if let (Some(cache), Some((key, packed))) = (&job.cache, kept) {
                cache.add(&key, &packed);
            }
        };
        let pool = match lane {
            _ if may_search => self.slow_pool.as_ref(),
            Lane::Small => self.small_pool.as_ref(),
            // Where workers make them, its threads only wait.
            _ if workers::is_running() => self.small_pool.as_ref(),
            Lane::Large | Lane::Following | Lane::Slow | Lane::Known => None,
        };
        match pool {
            Some(pool) => pool.spawn(work),
            None => rayon::spawn(work),
        }
    }

    /// Begins with the large file that samples were last seen in.
    fn start_next_large(&mut self) {
        if self.large_running.is_some() {
            return;
        }
        let hit = |&index: &usize| self.get(self.large[index]).last_hit_ns;
        let Some(index) = (0..self.large.len()).rev().max_by_key(hit) else { return };
        let id = self.large.remove(index);
        self.large_running = Some(id);
        self.start_compiling(id, Lane::Large, Wanted::First);
    }

    /// Begins to follow the instructions of the file that samples were last seen in, once nothing else is waited for.
    fn start_next_following(&mut self) {
        if self.following.is_some() || self.compiling > 0 {
            return;
        }
        let hit = |&index: &usize| self.get(self.unfollowed[index]).last_hit_ns;
        let Some(index) = (0..self.unfollowed.len()).rev().max_by_key(hit) else { return };
        let id = self.unfollowed.remove(index);
        self.following = Some(id);
        self.start_compiling(id, Lane::Following, Wanted::Whole);
    }

    /// Takes the tables that are finished and places them in the kernel; waits up to `patience` for the wanted ones of
    /// all files. Returns whether any arrived.
    pub(crate) fn place_finished(
        &mut self,
        kernel: &mut KernelTables,
        patience: Duration,
        wanted: Wanted,
    ) -> bool {
        let deadline = Instant::now() + patience;
        let mut any = false;
        self.place_unplaced(kernel);
        loop {
            let is_wanted = self.compiling > 0 || (wanted == Wanted::Whole && self.following.is_some());
            let left =
                if is_wanted { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            let Ok(Compiled { id, lane, table }) = self.receiver.recv_timeout(left) else { break };
            any = true;
            match lane {
                Lane::Small => self.compiling -= 1,
                Lane::Large => {
                    self.compiling -= 1;
                    self.large_running = None;
                    self.start_next_large();
                }
                Lane::Following => self.following = None,
                Lane::Slow | Lane::Known => {}
            }
            match table {
                Some(table) => self.take_compiled(id, table, kernel),
                None => {
                    if let Some(module) = self.get_mut(id) {
                        module.needs_debug_file = true;
                    }
                    self.start_compiling(id, Lane::Slow, Wanted::First);
                }
            }
            self.start_next_following();
        }
        any
    }

    fn take_compiled(&mut self, id: FileId, result: Result<FirstTable, NoTable>, kernel: &mut KernelTables) {
        self.compiled += 1;
        let is_unchanged = self.get(id).is_unchanged(&self.limits);
        // It may have been closed meanwhile.
        let Some(module) = self.files.get_mut(id) else { return };
        let image = module.image;
        if !is_unchanged {
            // Its table may be of other bytes than were mapped. What the kernel side has already is not.
            self.failures
                .push(format!("no unwind table for {}: it was rewritten while it was read", module.path));
            self.failed += 1;
            if matches!(module.table, TableState::Compiling) {
                // There will be none: samples need not wait for it.
                module.table = TableState::Missing;
                kernel.set_state(image, ImageState::NoTable);
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
                let _ = kernel.place(image, &table);
                module.table = TableState::First(Arc::new(table));
                self.unfollowed.push(id);
            }
            Err(NoTable { why, may_have_entries: true }) => {
                // It has entries that are not known: following frame pointers through such code would skip callers
                // unnoticed, where a table without rows ends the stack.
                module.table = TableState::Compiled(Arc::new(Table::default()));
                self.failures.push(format!("no unwind table for {}: {why}", module.path));
                self.failed += 1;
                self.place(id, kernel);
            }
            Err(NoTable { why, .. }) => {
                module.table = TableState::Missing;
                self.failures.push(format!("no unwind table for {}: {why}", module.path));
                self.failed += 1;
                kernel.drop_table(image);
                kernel.set_state(image, ImageState::NoTable);
            }
        }
    }

    /// Tells the kernel side about a file without a table.
    pub(crate) fn publish_without_table(&self, id: FileId, kernel: &mut KernelTables) {
        let module = self.get(id);
        let image = module.image;
        match module.table {
            _ if id == Self::GENERATED => kernel.set_state(image, ImageState::Generated),
            TableState::Missing if !self.wants_tables => kernel.set_state(image, ImageState::FramePointers),
            TableState::Missing if module.file.is_none() && module.vdso.is_none() => {
                kernel.set_state(image, ImageState::Unreadable);
            }
            TableState::Missing => kernel.set_state(image, ImageState::NoTable),
            TableState::Compiling | TableState::First(_) | TableState::Compiled(_) => {}
        }
    }

    /// Places a table. While there is no space for it the least recently hit ones are dropped, one at a time: what was
    /// dropped cannot be used at once.
    fn place(&mut self, id: FileId, kernel: &mut KernelTables) {
        let TableState::Compiled(table) = self.get(id).table.clone() else { return };
        let image = self.get(id).image;
        match kernel.place(image, &table) {
            Ok(()) => {}
            Err(PlaceError::TooLarge) => {
                self.evicted += 1;
                if let Some(module) = self.get_mut(id) {
                    module.never_fits = true;
                }
                kernel.drop_table(image);
            }
            Err(PlaceError::Full) => {
                // Where there is no room for two of its tables, the new one has to wait for that of the old.
                if kernel.is_placed(image) {
                    kernel.drop_table(image);
                } else if let Some((coldest, _)) = self.coldest(kernel) {
                    kernel.drop_table(coldest);
                    self.evicted += 1;
                }
                self.unplaced.push_back(id);
                self.last_drop = Some(Instant::now());
            }
        }
    }

    /// Places the tables for which space was made, as far as it is enough.
    fn place_unplaced(&mut self, kernel: &mut KernelTables) {
        while let Some(&id) = self.unplaced.front()
            && self.last_drop.is_none_or(|last| last.elapsed() >= GRACE)
        {
            self.unplaced.pop_front();
            self.place(id, kernel);
        }
    }

    /// The image of the placed table that was hit least recently, and when that was, ns.
    fn coldest(&self, kernel: &KernelTables) -> Option<(u32, u64)> {
        let placed = self.iter().filter(|(_, file)| kernel.is_placed(file.image));
        placed.map(|(_, file)| (file.image, file.last_hit_ns)).min_by_key(|&(image, hit_ns)| (hit_ns, image))
    }

    /// Gives a table that was pushed out its place back when samples need it more than another's: it was hit
    /// within the last second, and the coldest one was not.
    pub(crate) fn restore_hot(&mut self, kernel: &mut KernelTables, now_ns: u64) {
        if self.evicted == 0 {
            return;
        }
        let recent_ns = now_ns.saturating_sub(1_000_000_000);
        let hottest = self
            .iter()
            .filter(|(id, file)| {
                matches!(file.table, TableState::Compiled(_))
                    && !file.never_fits
                    && !kernel.is_placed(file.image)
                    && !self.unplaced.contains(id)
            })
            .max_by_key(|(id, file)| (file.last_hit_ns, *id))
            .filter(|(_, file)| file.last_hit_ns > recent_ns)
            .map(|(id, _)| id);
        let Some(id) = hottest else { return };
        if self.coldest(kernel).is_none_or(|(_, hit_ns)| hit_ns <= recent_ns) {
            self.place(id, kernel);
        }
    }
}
