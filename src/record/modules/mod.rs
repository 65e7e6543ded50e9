//! The files that processes run code from: kept open from their first mapping until some time after the last, so that a
//! library deleted meanwhile still provides its table and names. A file rewritten in place counts as another file from its next
//! mapping on. Tables are compiled, and files opened, on other threads: a file that never opens blocks nothing. Which process
//! maps what, and the names of functions, stay outside.

mod cache;
mod closing;
pub(crate) mod compiled;
mod file;
mod file_list;
mod generated;
mod headers_work;
mod kept_sections;
pub(crate) mod patience;
mod rewritten;
mod table_work;
mod tables;
#[cfg(test)]
mod tests;

use self::compiled::Compiled;
pub(super) use self::compiled::Wanted;
use self::file_list::FileList;
use self::headers_work::FileSystems;
use self::kept_sections::KeptSections;
use super::environment::descriptors;
use super::kernel::sideband::CodeMapping;
use super::process::proc_fs;
use crate::base::file_state::FileState;
use crate::base::privilege;
use crate::bpf::{MAX_IMAGES, prof_file, prof_file_key, prof_segment};
use crate::profile::{Module, ModuleId, ModuleKind, Tables};
use crate::record::workers;
use crate::unwind::{CfiSections, ElfType, Limits, Segment, Table};
pub(super) use cache::TableCache;
use file::Unopened;
pub(super) use file::open_mapped_file;
pub(crate) use file::read_own_vdso;
pub(super) use file::{FileId, ModuleFile, SentFile, TableState};
pub(super) use headers_work::work as read_headers;
use patience::Patience;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
pub(super) use table_work::work as make_table;

/// Threads that wait for workers which make tables: for small files, a large one, and one that is followed.
const WAITING_THREADS: usize = 8;
/// Threads that read files which may never be read.
const SLOW_THREADS: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FileKey {
    device: (u32, u32),
    inode: u64,
    path: String,
}

/// Module that was found for a key.
#[derive(Debug, Clone, Copy)]
struct SeenModule {
    id: FileId,
    /// The state of the file then; `None` when it could not be opened, and for what never changes.
    state: Option<FileState>,
}

/// A file that is to be published to the kernel side.
#[derive(Debug, Clone, Copy)]
struct UnsentFile {
    device: (u32, u32),
    inode: u64,
    id: FileId,
    state: Option<FileState>,
}

/// All files that code runs from.
#[derive(Debug)]
pub(crate) struct ModuleFiles {
    files: FileList,
    /// The file in place of those that were closed.
    closed: ModuleFile,
    by_key: FxHashMap<FileKey, SeenModule>,
    /// What stands for files that were rewritten before anyone saw what processes had mapped.
    lost_builds: FxHashMap<FileKey, FileId>,
    /// Files by path and build ID.
    by_build: FxHashMap<(String, Vec<u8>), Vec<FileId>>,
    /// Free image numbers of the kernel side, besides those from `images` on.
    free_images: Vec<u32>,
    images: u32,
    /// Files that are open.
    open: usize,
    /// Asks what may take long to answer.
    pub(super) patience: Patience,
    file_systems: FileSystems,
    /// Headers of files that may be on a server are read by workers.
    pub(crate) has_workers: bool,
    /// Generated code that is known by its bytes, and its tables.
    known_generated: Vec<(FileId, Table)>,
    /// Files that have not been sent to the kernel side.
    unsent: Vec<UnsentFile>,
    by_row: FxHashMap<ModuleId, FileId>,
    limits: Limits,
    wants_tables: bool,
    /// Tables of earlier recordings.
    cache: Option<Arc<TableCache>>,
    /// Most files that are kept open.
    room: usize,
    sender: Sender<Compiled>,
    receiver: Receiver<Compiled>,
    compiling: usize,
    /// Workers for small files, which must not wait for large ones: all the samples of a brief program would.
    /// `None` where no more threads could be started.
    small_pool: Option<rayon::ThreadPool>,
    /// Large files that wait for their turn.
    large: Vec<FileId>,
    /// Pool for files that may never be read: on a server, or made by a program.
    slow_pool: Option<rayon::ThreadPool>,
    /// The large file that is being compiled.
    large_running: Option<FileId>,
    /// Files with much code without entries, which is analyzed once all other files have their tables.
    unfollowed: Vec<FileId>,
    /// The one of them whose turn it is.
    following: Option<FileId>,
    /// Tables for which space is being made.
    unplaced: VecDeque<FileId>,
    /// Unwind sections that walks in user space need.
    kept_sections: KeptSections,
    /// Time at which a table was dropped for another one.
    last_drop: Option<Instant>,
    /// Tables that were compiled, or could not be.
    pub(crate) compiled: u64,
    /// Modules whose table was dropped, or not placed, to stay within the budget.
    pub(crate) evicted: u64,
    /// Modules whose table could not be built.
    pub(crate) failed: u64,
    /// Paths and reasons of tables that could not be built, for `-v`.
    pub(crate) failures: Vec<String>,
}

impl ModuleFiles {
    /// Code without a file: generated at run time.
    pub(crate) const GENERATED: FileId = FileId(0);

    /// No files. Without `wants_tables` everything is walked by frame pointers.
    pub(crate) fn new(wants_tables: bool) -> Self {
        let (sender, receiver) = channel();
        let generated = ModuleFile::new("[jit]", 0, ModuleKind::Jit);
        let pool = |threads, start: fn()| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.start_handler(move |_| start()).build().ok()
        };
        let small_pool = match workers::is_running() {
            true => pool(WAITING_THREADS, privilege::keep_waiting_or_end),
            false => pool(0, privilege::keep_watching_or_end),
        };
        let mut files = FileList::default();
        files.push(generated);
        ModuleFiles {
            files,
            closed: ModuleFile::new("", 0, ModuleKind::Unknown),
            by_key: FxHashMap::default(),
            lost_builds: FxHashMap::default(),
            by_build: FxHashMap::default(),
            free_images: Vec::new(),
            images: 1,
            open: 0,
            patience: Patience::default(),
            file_systems: FileSystems::default(),
            has_workers: false,
            known_generated: Vec::new(),
            unsent: Vec::new(),
            by_row: FxHashMap::default(),
            limits: Limits::default(),
            wants_tables,
            cache: None,
            room: descriptors::room_for_files(),
            sender,
            receiver,
            compiling: 0,
            small_pool,
            slow_pool: pool(SLOW_THREADS, privilege::keep_watching_or_end),
            large: Vec::new(),
            large_running: None,
            unfollowed: Vec::new(),
            following: None,
            unplaced: VecDeque::new(),
            kept_sections: KeptSections::default(),
            last_drop: None,
            evicted: 0,
            compiled: 0,
            failed: 0,
            failures: Vec::new(),
        }
    }

    /// No files, and none that is read beyond its headers.
    pub(crate) fn unread() -> Self {
        ModuleFiles::new(false)
    }

    /// Takes tables from a cache, and keeps them there.
    pub(super) fn use_cache(&mut self, cache: Arc<TableCache>) {
        self.cache = Some(cache);
    }

    /// Summary of the cache's use, for `-v`.
    pub(super) fn describe_cache(&self) -> Option<String> {
        self.cache.as_ref().map(|cache| cache.describe())
    }

    /// Whether stacks are walked by tables at all.
    pub(super) fn wants_tables(&self) -> bool {
        self.wants_tables
    }

    /// The unwind sections of a file, for rules that its table cannot hold; `None` where they cannot be had.
    pub(crate) fn sections(&self, id: FileId) -> Option<Arc<CfiSections>> {
        self.kept_sections.of(id, self.get(id))
    }

    /// The file with the given id; one without anything if it was closed.
    pub(crate) fn get(&self, id: FileId) -> &ModuleFile {
        self.files.get(id).unwrap_or(&self.closed)
    }

    fn get_mut(&mut self, id: FileId) -> Option<&mut ModuleFile> {
        self.files.get_mut(id)
    }

    /// Bytes of the sections that tables are made from, in all files.
    pub(super) fn unwind_section_bytes(&self) -> u64 {
        self.iter().map(|(_, file)| file.unwind_section_bytes()).fold(0, u64::saturating_add)
    }

    /// Files that are not open because too many are: their code has no tables and no names.
    pub(super) fn without_descriptor(&self) -> u64 {
        self.iter().filter(|(_, file)| file.lacks_descriptor).count() as u64
    }

    /// Notes that a sample at `time_ns` had a frame in the file.
    pub(crate) fn hit(&mut self, id: FileId, time_ns: u64) {
        if let Some(file) = self.get_mut(id) {
            file.last_hit_ns = file.last_hit_ns.max(time_ns);
        }
    }

    /// All files that were not closed, with their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileId, &ModuleFile)> {
        self.files.iter()
    }

    /// Returns the code that a process has mapped now.
    pub(super) fn code_mappings(&mut self, pid: u32) -> Option<Vec<CodeMapping>> {
        // A process can hold those who ask for as long as it likes.
        self.patience.ask(move || proc_fs::code_mappings(pid).ok())?
    }

    /// Whether generated code of a JVM may use rbp as a general register.
    pub(super) fn java_lacks_frame_pointers(&mut self, pid: u32) -> bool {
        self.patience.ask(move || proc_fs::java_lacks_frame_pointers(pid)).unwrap_or(true)
    }

    /// The file that `mapping` of process `pid` shows; opened, and its table requested, when it is new.
    /// `None` for memory that is no module (vsyscall).
    pub(crate) fn file_of(&mut self, pid: u32, mapping: &CodeMapping) -> Option<FileId> {
        if mapping.path == "[vsyscall]" {
            return None;
        }
        let is_vdso = mapping.path == "[vdso]";
        if mapping.inode == 0 && !is_vdso {
            return Some(self.generated(pid, mapping));
        }
        let key = FileKey { device: mapping.device, inode: mapping.inode, path: mapping.path.clone() };
        if let Some(&seen) = self.by_key.get(&key) {
            if let Some(module) = self.rewritten(seen, pid, mapping) {
                return Some(self.add_rewritten(module, key));
            }
            self.reopen(seen.id, pid, mapping, key);
            return Some(seen.id);
        }
        let module =
            if is_vdso { ModuleFile::of_vdso(pid, read_own_vdso()) } else { self.open_file(pid, mapping) };
        // A mapping of a device or of shared memory, such as a double-mapped JIT's: it has no ELF file.
        let is_generated = module.elf.is_none()
            && ["/memfd:", "/dev/", "/anon_hugepage"].iter().any(|start| mapping.path.starts_with(start));
        let state = module.state.filter(|_| !is_generated);
        let id = match is_generated {
            true => self.generated_in_shared(pid, mapping),
            false => self.add(module, (key.device, key.inode)),
        };
        self.by_key.insert(key, SeenModule { id, state });
        Some(id)
    }

    /// Tries a file again that could not be opened when it was first seen: its process may have been gone.
    fn reopen(&mut self, id: FileId, pid: u32, mapping: &CodeMapping, key: FileKey) {
        let known = self.get(id);
        if known.kind != ModuleKind::Elf || known.file.is_some() {
            return;
        }
        let image = known.image;
        let module = self.open_file(pid, mapping);
        if module.file.is_some() {
            let state = module.state;
            self.open += 1;
            if let Some(known) = self.files.get_mut(id) {
                *known = ModuleFile { image, ..module };
            }
            self.unsent.push(UnsentFile { device: mapping.device, inode: mapping.inode, id, state });
            self.by_key.insert(key, SeenModule { id, state });
            self.request_table(id);
        }
    }

    /// The id of `module`, whose table is requested when it is new. Copies of one build under one path, as
    /// containers have them, are one module.
    fn add(&mut self, module: ModuleFile, (device, inode): ((u32, u32), u64)) -> FileId {
        let build = (module.path.clone(), module.build_id.clone());
        let known = self.by_build.get(&build).filter(|_| !module.build_id.is_empty());
        let same = known.and_then(|ids| ids.iter().copied().find(|&id| self.get(id).is_same_build(&module)));
        if let Some(id) = same {
            return id;
        }
        let Some(image) = self.new_image() else { return Self::GENERATED };
        let (is_file, state, is_vdso) =
            (module.file.is_some(), module.state, module.kind == ModuleKind::Vdso);
        let id = self.files.push(ModuleFile { image, ..module });
        // An inode number may be reused once the file is closed.
        if is_file || is_vdso {
            self.unsent.push(UnsentFile { device, inode, id, state });
        }
        self.open += usize::from(is_file);
        self.by_build.entry(build).or_default().push(id);
        self.request_table(id);
        id
    }

    /// A number for the kernel side that no other file has.
    fn new_image(&mut self) -> Option<u32> {
        if let Some(image) = self.free_images.pop() {
            return Some(image);
        }
        let image = self.images;
        if image as usize >= MAX_IMAGES {
            return None;
        }
        self.images += 1;
        Some(image)
    }

    /// Opens an ELF file by path, before any process maps it, so that its table is there in time.
    pub(crate) fn preload(&mut self, file: File, path: &Path) -> Option<FileId> {
        let metadata = file.metadata().ok()?;
        let device = metadata.dev();
        let key = FileKey {
            device: (rustix::fs::major(device), rustix::fs::minor(device)),
            inode: metadata.ino(),
            path: path.to_string_lossy().into_owned(),
        };
        if let Some(seen) = self.by_key.get(&key) {
            return Some(seen.id);
        }
        let module = ModuleFile::read(std::process::id(), &key.path, Arc::new(file), &self.limits);
        module.elf.as_ref()?;
        let state = module.state;
        let id = self.add(module, (key.device, key.inode));
        self.by_key.insert(key, SeenModule { id, state });
        Some(id)
    }

    /// Opens the vDSO, before any process shows it: it is the same in all.
    pub(super) fn open_own_vdso(&mut self) {
        let mapping = CodeMapping { path: "[vdso]".to_owned(), ..CodeMapping::default() };
        let _ = self.file_of(std::process::id(), &mapping);
    }

    fn open_file(&mut self, pid: u32, mapping: &CodeMapping) -> ModuleFile {
        let path = mapping.path.strip_suffix(" (deleted)").unwrap_or(&mapping.path).to_owned();
        let unopened = ModuleFile::new(&path, pid, ModuleKind::Elf);
        if self.open >= self.room {
            return ModuleFile { lacks_descriptor: true, ..unopened };
        }
        let (mapping, limits) = (mapping.clone(), self.limits.clone());
        let is_here = !self.has_workers || self.file_systems.has_locally(mapping.device);
        let opened = self.patience.ask(move || {
            let file = Arc::new(open_mapped_file(pid, &mapping, &path)?);
            let read = if is_here { ModuleFile::read } else { ModuleFile::read_elsewhere };
            Ok(read(pid, &path, file, &limits))
        });
        match opened.unwrap_or(Err(Unopened::NotThere)) {
            Ok(module) => module,
            Err(why) => ModuleFile { lacks_descriptor: why == Unopened::NoDescriptor, ..unopened },
        }
    }

    /// Updates for the kernel side about files opened since the last call. Files with more executable segments than
    /// it can hold are left out.
    pub(super) fn take_unsent(&mut self) -> Vec<(FileId, prof_file_key, prof_file)> {
        let unsent = std::mem::take(&mut self.unsent);
        unsent
            .into_iter()
            .filter_map(|UnsentFile { device: (major, minor), inode, id, state }| {
                let is_vdso = self.get(id).kind == ModuleKind::Vdso;
                let device = if is_vdso { 0 } else { major << 20 | minor };
                let key = prof_file_key { inode: if is_vdso { 0 } else { inode }, device, pad: 0 };
                Some((id, key, self.kernel_file(id, state)?))
            })
            .collect()
    }

    fn kernel_file(&self, id: FileId, state: Option<FileState>) -> Option<prof_file> {
        let mut file = prof_file { image: self.get(id).image, ..prof_file::default() };
        if let Some(FileState { size_bytes, modified_ns }) = state {
            (file.size_bytes, file.modified_ns) = (size_bytes, modified_ns);
        }
        let segments: Vec<prof_segment> = match &self.get(id).elf {
            Some(elf) => {
                file.has_fixed_addresses = u32::from(elf.elf_type() == ElfType::Executable);
                elf.segments().iter().filter(|segment| segment.is_executable).map(kernel_segment).collect()
            }
            None => Vec::new(),
        };
        file.segment.get_mut(..segments.len())?.copy_from_slice(&segments);
        file.segment_count = segments.len() as u32;
        Some(file)
    }

    /// The module's row in the profile.
    pub(crate) fn profile_module(&mut self, id: FileId, pid: u32, tables: &mut Tables) -> ModuleId {
        let module = self.get(id);
        let path = tables.intern_string(&module.path);
        let instance = match module.kind {
            ModuleKind::Jit => pid,
            // Two files under one path, in two containers or one after the other, must not share their names.
            _ if module.build_id.is_empty() => id.0,
            _ => 0,
        };
        let build_id = module.build_id.clone();
        let row = tables.intern_module(Module { path, build_id, kind: module.kind, instance });
        self.by_row.insert(row, id);
        row
    }

    /// Whether a file has not been closed.
    pub(crate) fn is_open(&self, id: FileId) -> bool {
        self.files.get(id).is_some()
    }

    /// Rows of the profile have new numbers: those of `new`, by their old ones; all others are gone.
    pub(crate) fn renumber_rows(&mut self, new: &FxHashMap<ModuleId, ModuleId>) {
        let old = std::mem::take(&mut self.by_row);
        self.by_row = old.into_iter().filter_map(|(row, file)| Some((*new.get(&row)?, file))).collect();
    }

    /// The file of a row of the profile.
    pub(crate) fn of_row(&self, row: ModuleId) -> Option<FileId> {
        self.by_row.get(&row).copied()
    }
}

fn kernel_segment(segment: &Segment) -> prof_segment {
    prof_segment {
        file_offset: segment.file_offset,
        file_end: segment.file_offset.saturating_add(segment.file_size),
        address: segment.address,
    }
}
