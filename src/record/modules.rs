//! The files that processes run code from: opened once, shared by all processes that map them.
//!
//! A file is kept open from first sight, so that a library deleted or replaced during the recording
//! still gives its table and its names. One that is rewritten in place (its inode stays) is another file from its next
//! mapping on; of what it held before nothing is read any more, since only the new bytes are left. Tables are compiled on other threads.

use super::file_state::FileState;
use super::proc_fs;
use super::sideband::CodeMapping;
use crate::bpf::{ImageState, MAX_IMAGES, prof_file, prof_file_key, prof_segment};
use crate::profile::{Module, ModuleId, ModuleKind, Tables};
use crate::record::kernel_tables::{self, KernelTables, PlaceError};
use crate::symbols::find_debug_file;
use crate::unwind::{
    Architecture, CfiSections, ElfImage, ElfType, FirstTable, Limits, Segment, Table, TableError,
    compile_first, compile_sections,
};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A module file: also its image number on the kernel side. 0 is [`ModuleFiles::GENERATED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// How far a module's table is.
#[derive(Debug, Clone)]
pub enum TableState {
    /// Being compiled.
    Compiling,
    /// Compiled but for code without entries, which has [`crate::unwind::rule::Rule::USER`]; the rest follows. In the
    /// kernel if there was room.
    First(Arc<Table>),
    /// Compiled; in the kernel unless the memory budget pushed it out.
    Compiled(Arc<Table>),
    /// There is none.
    Missing,
}

impl TableState {
    /// As much of the table as is compiled.
    pub fn table(&self) -> Option<&Table> {
        match self {
            TableState::First(table) | TableState::Compiled(table) => Some(table),
            TableState::Compiling | TableState::Missing => None,
        }
    }
}

/// One file that code runs from.
#[derive(Debug, Clone)]
pub struct ModuleFile {
    /// Path as the first process that mapped it saw it.
    pub path: String,
    /// The process through which it was first seen.
    pub seen_in: u32,
    /// The opened file; `None` when it could not be opened, and for the vDSO.
    pub file: Option<Arc<File>>,
    /// The bytes of the vDSO.
    pub vdso: Option<Arc<Vec<u8>>>,
    /// Its ELF headers; `None` when it is no usable ELF file.
    pub elf: Option<Arc<ElfImage>>,
    /// GNU build ID, or empty.
    pub build_id: Vec<u8>,
    /// Its unwind table.
    pub table: TableState,
    /// Time of the last sample that had a frame in it, ns; what the memory budget goes by.
    pub last_hit_ns: u64,
    kind: ModuleKind,
    /// The state of `file` before anything was read from it.
    state: Option<FileState>,
    /// Its table is larger than all the room there is.
    never_fits: bool,
}

/// Up to this size of its unwind sections, bytes, a file counts as small: some 10 ms of work.
const SMALL_BYTES: u64 = 1 << 20;

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

impl ModuleFile {
    /// A file about which nothing else is known.
    fn new(path: &str, seen_in: u32, kind: ModuleKind) -> Self {
        ModuleFile {
            path: path.to_owned(),
            seen_in,
            file: None,
            vdso: None,
            elf: None,
            build_id: Vec::new(),
            table: TableState::Missing,
            last_hit_ns: 0,
            kind,
            state: None,
            never_fits: false,
        }
    }

    /// The same with its ELF headers, if it has any.
    fn with_elf(self, elf: Option<ElfImage>) -> Self {
        let build_id = elf.as_ref().and_then(|elf| elf.build_id()).unwrap_or_default().to_vec();
        ModuleFile { build_id, elf: elf.map(Arc::new), ..self }
    }

    /// Bytes of the sections that its table is made from.
    fn unwind_section_bytes(&self) -> u64 {
        let Some(elf) = &self.elf else { return 0 };
        // What a section claims is not believed beyond the file's own length.
        let most = self.file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |facts| facts.len());
        let sections = [elf.section(b".eh_frame"), elf.section(b".debug_frame")];
        sections.into_iter().flatten().map(|section| section.size.min(most)).fold(0, u64::saturating_add)
    }

    /// Whether its table takes little work: a few milliseconds.
    fn is_small(&self) -> bool {
        let code = self.elf.iter().flat_map(|elf| elf.segments()).filter(|segment| segment.is_executable);
        // Code without entries may have to be followed instruction by instruction.
        let code_bytes = code.map(|segment| segment.file_size).fold(0, u64::saturating_add);
        self.unwind_section_bytes().max(code_bytes / 8) <= SMALL_BYTES
    }

    /// Whether its file still holds what was read from it first, so that more may be read. A file that was only
    /// touched does: its headers say the same.
    pub(super) fn is_unchanged(&self, limits: &Limits) -> bool {
        let Some(file) = &self.file else { return true };
        if FileState::of(file) == self.state {
            return true;
        }
        let Some(now) = ElfImage::open(file, limits).ok() else { return false };
        self.is_same_build(&ModuleFile::new(&self.path, self.seen_in, self.kind).with_elf(Some(now)))
    }

    /// Whether both are the same build of the same object. The build ID alone is a claim of the file; that the
    /// load segments agree too makes a table of one fit the other.
    fn is_same_build(&self, other: &ModuleFile) -> bool {
        let (Some(own), Some(others)) = (&self.elf, &other.elf) else { return false };
        !self.build_id.is_empty()
            && self.build_id == other.build_id
            && self.path == other.path
            && own.segments() == others.segments()
    }
}

/// All files that code runs from.
#[derive(Debug)]
pub struct ModuleFiles {
    files: Vec<ModuleFile>,
    by_key: FxHashMap<FileKey, Seen>,
    /// Files that the kernel side has not heard of.
    untold: Vec<Untold>,
    by_row: FxHashMap<ModuleId, FileId>,
    limits: Limits,
    wants_tables: bool,
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

/// The table of a module, with the entries of its separate debug file where it has hardly any of its own.
fn compile_module(
    elf: &ElfImage,
    debug_file: impl FnOnce() -> Option<File>,
    wanted: Wanted,
    limits: &Limits,
) -> Result<FirstTable, TableError> {
    let mut sections = CfiSections::load(elf, limits)?;
    if sections.lacks_entries(elf)
        && let Some(file) = debug_file()
        && let Ok(debug_image) = ElfImage::open(&file, limits)
    {
        // Without them the module is no worse off than with no debug file at all.
        let _ = sections.add_debug_frame(&debug_image, limits);
    }
    match wanted {
        Wanted::First => compile_first(elf, &sections, limits),
        Wanted::Whole => {
            compile_sections(elf, &sections, limits).map(|table| FirstTable { table, is_whole: true })
        }
    }
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
            untold: Vec::new(),
            by_row: FxHashMap::default(),
            limits: Limits::default(),
            wants_tables,
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
            return Some(Self::GENERATED);
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
            Some((file, _)) => file.try_clone().ok()?,
            // A copy of the file that is kept open. Where it cannot be asked for, it counts as unchanged.
            None => open_mapped_file(pid, mapping, &known.path)?,
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
        let module = self.read_module(std::process::id(), &key.path, file);
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
        match open_mapped_file(pid, mapping, &path) {
            Some(file) => self.read_module(pid, &path, file),
            None => ModuleFile::new(&path, pid, ModuleKind::Elf),
        }
    }

    fn read_module(&self, pid: u32, path: &str, file: File) -> ModuleFile {
        // Asked for before anything is read: what is written meanwhile is a change.
        let state = FileState::of(&file);
        let elf = ElfImage::open(&file, &self.limits)
            .ok()
            // Emulators map files of other processors; their code is data here.
            .filter(|elf| elf.architecture() == Architecture::HOST);
        ModuleFile {
            file: Some(Arc::new(file)),
            state,
            ..ModuleFile::new(path, pid, ModuleKind::Elf).with_elf(elf)
        }
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

    fn request_table(&mut self, id: FileId) {
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
        let (elf, sender, limits) = (Arc::clone(elf), self.sender.clone(), self.limits.clone());
        let module = self.get(id);
        let (path, seen_in) = (module.path.clone(), module.seen_in);
        let file = module.file.as_ref().and_then(|file| file.try_clone().ok());
        let work = move || {
            let debug_file = || find_debug_file(&root_of(seen_in), Path::new(&path), file.as_ref()?);
            let table = compile_module(&elf, debug_file, wanted, &limits);
            // The recorder may be gone already: then nobody wants the table.
            let _ = sender.send((id, table));
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

/// Opens the file behind a mapping: by /proc/PID/map_files, which is the mapped inode itself, deleted or
/// not; else by its path inside the process's root, or ours. Only the very inode that was mapped will do: by now
/// another file may be mapped there, or lie under that path.
fn open_mapped_file(pid: u32, mapping: &CodeMapping, path: &str) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let pid = proc_fs::live_thread(pid).unwrap_or(pid);
    let the_mapped_one = |fd: OwnedFd| {
        let file = File::from(fd);
        let metadata = file.metadata().ok()?;
        (metadata.is_file() && metadata.ino() == mapping.inode).then_some(file)
    };
    let link = proc_fs::path(pid, &format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
    if let Some(file) = openat(CWD, &link, flags, Mode::empty()).ok().and_then(the_mapped_one) {
        return Some(file);
    }
    // A link of a target's own making must not lead out of its root.
    let open_below = |root: &Path| {
        let root = openat(CWD, root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let fd = openat2(&root, path.trim_start_matches('/'), flags, Mode::empty(), resolve).ok()?;
        the_mapped_one(fd)
    };
    // The process may be gone, or its root closed to us: perhaps its root is ours.
    open_below(&proc_fs::path(pid, "root")).or_else(|| open_below(Path::new("/")))
}

/// The bytes of the vDSO that the kernel gave to this process.
fn read_own_vdso() -> Option<Vec<u8>> {
    let mappings = proc_fs::code_mappings(std::process::id()).ok()?;
    let vdso = mappings.iter().find(|mapping| mapping.path == "[vdso]")?;
    let len = usize::try_from(vdso.end - vdso.start).ok().filter(|&len| len <= 1 << 20)?;
    let mut bytes = vec![0; len];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, vdso.start).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_one_build_share_a_table() {
        let pid = std::process::id();
        let mappings = proc_fs::code_mappings(pid).expect("own maps");
        let mut files = ModuleFiles::new(true);
        let mapping = mappings.iter().find(|mapping| mapping.path.contains("libc")).expect("libc is mapped");
        let first = files.file_of(pid, mapping).expect("a module");
        assert!(!files.get(first).build_id.is_empty());
        let other_inode = CodeMapping { inode: mapping.inode + 1, ..mapping.clone() };
        assert_ne!(
            files.file_of(pid, &other_inode),
            Some(first),
            "another inode is not taken for the mapped one"
        );
        let linked = CodeMapping { device: (mapping.device.0 + 1, 0), ..mapping.clone() };
        assert_eq!(files.file_of(pid, &linked), Some(first));
        let vdso = mappings.iter().find(|mapping| mapping.path == "[vdso]").expect("the vDSO is mapped");
        let vdso = files.file_of(pid, vdso).expect("a module");
        assert_ne!(vdso, first);
        assert!(files.get(vdso).elf.is_some());
    }

    #[test]
    fn the_kernel_side_is_told_of_each_open_file_once() {
        let pid = std::process::id();
        let mappings = proc_fs::code_mappings(pid).expect("own maps");
        let mut files = ModuleFiles::new(true);
        let libc = mappings.iter().find(|mapping| mapping.path.contains("libc")).expect("libc is mapped");
        let id = files.file_of(pid, libc).expect("a module");
        files.open_own_vdso();
        let told = files.take_untold();
        let (_, key, file) = told.iter().find(|(told, _, _)| *told == id).expect("libc is told of");
        assert_eq!((key.inode, key.device), (libc.inode, libc.device.0 << 20 | libc.device.1));
        let own = files.get(id).elf.as_ref().expect("libc is ELF").bias_of_mapping(
            libc.start,
            libc.end,
            libc.file_offset,
        );
        let segment = &file.segment[0];
        let bias = libc.start.wrapping_sub(segment.address + libc.file_offset - segment.file_offset);
        assert_eq!((file.image, Some(bias)), (id.0, own));
        assert!(told.iter().any(|(_, key, _)| (key.inode, key.device) == (0, 0)), "the vDSO has no inode");
        assert!(files.take_untold().is_empty());
        let missing = CodeMapping { inode: libc.inode + 1, path: "/no/such/file".to_owned(), ..libc.clone() };
        files.file_of(pid, &missing).expect("a module");
        assert!(files.take_untold().is_empty(), "the inode of a file that is not open may become another's");
    }

    /// A mapping of the file, as a program that was started from it would show it.
    fn mapping_of(path: &Path) -> CodeMapping {
        let metadata = std::fs::metadata(path).expect("the file is there");
        let device = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
        let path = path.to_str().expect("its path is text").to_owned();
        CodeMapping { start: 0x1000, end: 0x2000, file_offset: 0, device, inode: metadata.ino(), path }
    }

    #[test]
    fn a_file_that_is_rewritten_in_place_is_another_and_one_that_is_touched_is_not() {
        let pid = std::process::id();
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("program");
        std::fs::copy("/proc/self/exe", &path).expect("a program can be copied");
        let mut files = ModuleFiles::new(true);
        let first = files.file_of(pid, &mapping_of(&path)).expect("a module");
        let told = files.take_untold();
        assert_eq!(files.file_of(pid, &mapping_of(&path)), Some(first));
        assert!(files.take_untold().is_empty());

        let limits = Limits::default();
        let file = File::options().write(true).open(&path).expect("it can be opened");
        file.set_modified(std::time::UNIX_EPOCH).expect("it is ours");
        assert!(files.get(first).is_unchanged(&limits), "its headers are the same");
        assert_eq!(files.file_of(pid, &mapping_of(&path)), Some(first));
        let touched = files.take_untold();
        assert_eq!(touched.len(), 1, "the kernel side compares the time");
        assert_eq!((touched[0].0, touched[0].1.inode), (first, told[0].1.inode));
        assert_ne!(touched[0].2.modified_ns, told[0].2.modified_ns);

        std::fs::copy("/bin/sh", &path).expect("a program can be copied");
        assert!(!files.get(first).is_unchanged(&limits));
        // The process is gone by now, which does not matter.
        let second = files.file_of(u32::MAX, &mapping_of(&path)).expect("a module");
        assert_ne!(second, first);
        assert!(files.get(second).is_unchanged(&limits));
        assert_ne!(files.get(second).build_id, files.get(first).build_id);
        let told = files.take_untold();
        assert_eq!((told.len(), told[0].0, told[0].2.image), (1, second, second.0));

        std::fs::copy("/proc/self/exe", &path).expect("a program can be copied");
        assert_eq!(files.file_of(pid, &mapping_of(&path)), Some(first), "it is the first build again");
        assert!(files.get(first).is_unchanged(&limits) && !files.get(second).is_unchanged(&limits));
        assert_eq!(files.take_untold()[0].0, first);
    }

    #[test]
    fn memory_without_a_file_is_generated_code() {
        let mut files = ModuleFiles::new(true);
        let anonymous = CodeMapping { start: 0x1000, end: 0x2000, ..CodeMapping::default() };
        assert_eq!(files.file_of(1, &anonymous), Some(ModuleFiles::GENERATED));
        let vsyscall = CodeMapping { path: "[vsyscall]".to_owned(), ..anonymous };
        assert_eq!(files.file_of(1, &vsyscall), None);
    }
}
