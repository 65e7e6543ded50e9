//! The files that processes run code from: opened once, shared by all processes that map them.
//!
//! A file is kept open from first sight, so that a library deleted or replaced during the recording
//! still gives its table and its names. One that is rewritten in place (its inode stays) is another file from its next
//! mapping on; of what it held before nothing is read any more, since only the new bytes are left. Tables are compiled on other threads.

mod cache;
mod file;
mod generated;
mod tables;
#[cfg(test)]
mod tests;

pub(super) use cache::TableCache;
pub(super) use file::{FileId, ModuleFile, TableState};
pub(super) use tables::Wanted;

use super::descriptors;
use super::file_state::FileState;
use super::sideband::CodeMapping;
use crate::bpf::{MAX_IMAGES, prof_file, prof_file_key, prof_segment};
use crate::profile::{Module, ModuleId, ModuleKind, Tables};
use crate::unwind::{Architecture, ElfImage, ElfType, FirstTable, Limits, Segment, Table, TableError};
use file::{Unopened, open_mapped_file, read_own_vdso};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FileKey {
    device: (u32, u32),
    inode: u64,
    path: String,
}

/// What was found behind a key.
#[derive(Debug, Clone, Copy)]
struct Seen {
    id: FileId,
    /// The state of the file then; `None` when it could not be opened, and for what never changes.
    state: Option<FileState>,
}

/// A file that the kernel side is to be told of.
#[derive(Debug, Clone, Copy)]
struct Untold {
    device: (u32, u32),
    inode: u64,
    id: FileId,
    state: Option<FileState>,
}

/// All files that code runs from.
#[derive(Debug)]
pub struct ModuleFiles {
    files: Vec<ModuleFile>,
    by_key: FxHashMap<FileKey, Seen>,
    /// Generated code that is known by its bytes, and its tables.
    known_generated: Vec<(FileId, Table)>,
    /// Files that the kernel side has not heard of.
    untold: Vec<Untold>,
    by_row: FxHashMap<ModuleId, FileId>,
    limits: Limits,
    wants_tables: bool,
    /// Tables of earlier recordings.
    cache: Option<Arc<TableCache>>,
    /// Most files that are kept open.
    room: usize,
    sender: Sender<(FileId, Result<FirstTable, TableError>)>,
    receiver: Receiver<(FileId, Result<FirstTable, TableError>)>,
    compiling: usize,
    /// Workers for small files, which must not wait for large ones: all the samples of a brief program would.
    /// `None` where no more threads could be started.
    small_pool: Option<rayon::ThreadPool>,
    /// Large files that wait for their turn.
    large: Vec<FileId>,
    /// The large file that is being compiled.
    large_running: Option<FileId>,
    /// Files with much code without entries, whose instructions are followed once all others have their tables.
    unfollowed: Vec<FileId>,
    /// The one of them whose turn it is.
    following: Option<FileId>,
    /// Tables that were compiled, or could not be.
    pub compiled: u64,
    /// Modules whose table was dropped, or not placed, to stay within the budget.
    pub evicted: u64,
    /// Modules whose table could not be built.
    pub failed: u64,
    /// Paths and reasons of tables that could not be built, for `-v`.
    pub failures: Vec<String>,
}

impl ModuleFiles {
    /// Code without a file: generated at run time.
    pub const GENERATED: FileId = FileId(0);

    /// No files. Without `wants_tables` everything is walked by frame pointers.
    pub fn new(wants_tables: bool) -> Self {
        let (sender, receiver) = channel();
        let generated = ModuleFile::new("[jit]", 0, ModuleKind::Jit);
        ModuleFiles {
            files: vec![generated],
            by_key: FxHashMap::default(),
            known_generated: Vec::new(),
            untold: Vec::new(),
            by_row: FxHashMap::default(),
            limits: Limits::default(),
            wants_tables,
            cache: None,
            room: descriptors::room_for_files(),
            sender,
            receiver,
            compiling: 0,
            small_pool: rayon::ThreadPoolBuilder::new().build().ok(),
            large: Vec::new(),
            large_running: None,
            unfollowed: Vec::new(),
            following: None,
            evicted: 0,
            compiled: 0,
            failed: 0,
            failures: Vec::new(),
        }
    }

    /// Takes tables from a cache, and keeps them there.
    pub(super) fn use_cache(&mut self, cache: TableCache) {
        self.cache = Some(Arc::new(cache));
    }

    /// What came from the cache, for `-v`.
    pub(super) fn describe_cache(&self) -> Option<String> {
        self.cache.as_ref().map(|cache| cache.describe())
    }

    /// Whether stacks are walked by tables at all.
    pub(super) fn wants_tables(&self) -> bool {
        self.wants_tables
    }

    /// The file with the given id.
    pub fn get(&self, id: FileId) -> &ModuleFile {
        &self.files[id.0 as usize]
    }

    /// Bytes of the sections that tables are made from, in all files.
    pub(super) fn unwind_section_bytes(&self) -> u64 {
        self.files.iter().map(ModuleFile::unwind_section_bytes).fold(0, u64::saturating_add)
    }

    /// Files that are not open because too many are: their code has no tables and no names.
    pub(super) fn without_descriptor(&self) -> u64 {
        self.files.iter().filter(|module| module.lacks_descriptor).count() as u64
    }

    /// Notes that a sample at `time_ns` had a frame in the file.
    pub fn hit(&mut self, id: FileId, time_ns: u64) {
        let file = &mut self.files[id.0 as usize];
        file.last_hit_ns = file.last_hit_ns.max(time_ns);
    }

    /// All files with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &ModuleFile)> {
        self.files.iter().enumerate().map(|(index, file)| (FileId(index as u32), file))
    }

    /// The file that `mapping` of process `pid` shows; opened, and its table requested, when it is new.
    /// `None` for memory that is no module (vsyscall).
    pub fn file_of(&mut self, pid: u32, mapping: &CodeMapping) -> Option<FileId> {
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
        let module = if is_vdso { self.open_vdso(pid) } else { self.open_file(pid, mapping) };
        // A mapping of a device or of shared memory, such as a double-mapped JIT's: no ELF behind it.
        let is_generated = module.elf.is_none()
            && (mapping.path.starts_with("/memfd:") || mapping.path.starts_with("/dev/"));
        let state = module.state.filter(|_| !is_generated);
        let id = if is_generated { Self::GENERATED } else { self.add(module, (key.device, key.inode)) };
        self.by_key.insert(key, Seen { id, state });
        Some(id)
    }

    /// The file of a mapping anew, if its bytes changed since it was seen under the same inode.
    fn rewritten(&self, seen: Seen, pid: u32, mapping: &CodeMapping) -> Option<ModuleFile> {
        let before = seen.state?;
        let known = self.get(seen.id);
        let kept = known.file.as_ref().and_then(|file| Some((file, file.metadata().ok()?)));
        let file = match kept.filter(|(_, metadata)| metadata.ino() == mapping.inode) {
            Some((_, metadata)) if FileState::from(&metadata) == before => return None,
            Some((file, _)) => Arc::clone(file),
            // A copy of the file that is kept open. Where it cannot be asked for, it counts as unchanged.
            None => Arc::new(open_mapped_file(pid, mapping, &known.path).ok()?),
        };
        let module = self.read_module(pid, &known.path, file);
        (module.state != Some(before)).then_some(module)
    }

    /// The id of a file that was rewritten in place: a new one, unless it is the same build or an earlier one again.
    fn add_rewritten(&mut self, module: ModuleFile, key: FileKey) -> FileId {
        let state = module.state;
        let told_before = self.untold.len();
        let id = self.add(module, (key.device, key.inode));
        let known = &mut self.files[id.0 as usize];
        let is_this_file = known.file.as_ref().and_then(|file| file.metadata().ok());
        let is_this_file = is_this_file.is_some_and(|metadata| metadata.ino() == key.inode);
        if is_this_file && self.untold.len() == told_before {
            known.state = state;
            self.untold.push(Untold { device: key.device, inode: key.inode, id, state });
        }
        self.by_key.insert(key, Seen { id, state });
        id
    }

    /// Tries a file again that could not be opened when it was first seen: its process may have been gone.
    fn reopen(&mut self, id: FileId, pid: u32, mapping: &CodeMapping, key: FileKey) {
        let known = self.get(id);
        if known.kind != ModuleKind::Elf || known.file.is_some() {
            return;
        }
        let module = self.open_file(pid, mapping);
        if module.file.is_some() {
            let state = module.state;
            self.files[id.0 as usize] = module;
            self.untold.push(Untold { device: mapping.device, inode: mapping.inode, id, state });
            self.by_key.insert(key, Seen { id, state });
            self.request_table(id);
        }
    }

    /// The id of `module`, whose table is requested when it is new. Copies of one build under one path, as
    /// containers have them, are one module.
    fn add(&mut self, module: ModuleFile, (device, inode): ((u32, u32), u64)) -> FileId {
        let same = self.files.iter().position(|known| known.is_same_build(&module));
        if let Some(index) = same {
            return FileId(index as u32);
        }
        if self.files.len() >= MAX_IMAGES {
            return Self::GENERATED;
        }
        let id = FileId(self.files.len() as u32);
        // Only while a file is open does its inode number stay its own.
        if module.file.is_some() || module.kind == ModuleKind::Vdso {
            self.untold.push(Untold { device, inode, id, state: module.state });
        }
        self.files.push(module);
        self.request_table(id);
        id
    }

    /// Opens an ELF file by path, before any process maps it, so that its table is there in time.
    pub fn preload(&mut self, file: File, path: &Path) -> Option<FileId> {
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
        let module = self.read_module(std::process::id(), &key.path, Arc::new(file));
        module.elf.as_ref()?;
        let state = module.state;
        let id = self.add(module, (key.device, key.inode));
        self.by_key.insert(key, Seen { id, state });
        Some(id)
    }

    /// Opens the vDSO, before any process shows it: it is the same in all.
    pub(super) fn open_own_vdso(&mut self) {
        let mapping = CodeMapping { path: "[vdso]".to_owned(), ..CodeMapping::default() };
        let _ = self.file_of(std::process::id(), &mapping);
    }

    fn open_vdso(&self, pid: u32) -> ModuleFile {
        // Every 64-bit process has the same vDSO: reading our own needs no right to read others.
        let bytes = read_own_vdso();
        let elf = bytes.as_ref().and_then(|bytes| ElfImage::parse(bytes.clone(), &self.limits).ok());
        let module = ModuleFile::new("[vdso]", pid, ModuleKind::Vdso).with_elf(elf);
        ModuleFile { vdso: bytes.map(Arc::new), ..module }
    }

    fn open_file(&self, pid: u32, mapping: &CodeMapping) -> ModuleFile {
        let path = mapping.path.strip_suffix(" (deleted)").unwrap_or(&mapping.path).to_owned();
        let kept = self.files.iter().filter(|module| module.file.is_some()).count();
        let opened = match kept < self.room {
            true => open_mapped_file(pid, mapping, &path),
            false => Err(Unopened::NoDescriptor),
        };
        match opened {
            Ok(file) => self.read_module(pid, &path, Arc::new(file)),
            Err(why) => ModuleFile {
                lacks_descriptor: why == Unopened::NoDescriptor,
                ..ModuleFile::new(&path, pid, ModuleKind::Elf)
            },
        }
    }

    fn read_module(&self, pid: u32, path: &str, file: Arc<File>) -> ModuleFile {
        // Asked for before anything is read: what is written meanwhile is a change.
        let state = FileState::of(&file);
        let elf = ElfImage::open_shared(&file, &self.limits)
            .ok()
            // Emulators map files of other processors; their code is data here.
            .filter(|elf| elf.architecture() == Architecture::HOST);
        ModuleFile { file: Some(file), state, ..ModuleFile::new(path, pid, ModuleKind::Elf).with_elf(elf) }
    }

    /// What the kernel side should know of the files that were opened since the last call. Left out are files with
    /// more executable segments than it can hold.
    pub(super) fn take_untold(&mut self) -> Vec<(FileId, prof_file_key, prof_file)> {
        let untold = std::mem::take(&mut self.untold);
        untold
            .into_iter()
            .filter_map(|Untold { device: (major, minor), inode, id, state }| {
                let is_vdso = self.get(id).kind == ModuleKind::Vdso;
                let device = if is_vdso { 0 } else { major << 20 | minor };
                let key = prof_file_key { inode: if is_vdso { 0 } else { inode }, device, pad: 0 };
                Some((id, key, self.kernel_file(id, state)?))
            })
            .collect()
    }

    fn kernel_file(&self, id: FileId, state: Option<FileState>) -> Option<prof_file> {
        let mut file = prof_file { image: id.0, ..prof_file::default() };
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
    pub fn profile_module(&mut self, id: FileId, pid: u32, tables: &mut Tables) -> ModuleId {
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

    /// The file that a row of the profile stands for.
    pub fn of_row(&self, row: ModuleId) -> Option<FileId> {
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
