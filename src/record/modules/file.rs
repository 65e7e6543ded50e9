//! One file that code runs from: its headers, how far its table is, and how it is opened.

use crate::base::file_state::{FileState, KnownFile};
use crate::base::opener::{self, Links};
use crate::profile::ModuleKind;
use crate::record::environment::descriptors;
use crate::record::kernel::sideband::CodeMapping;
use crate::record::process::proc_fs;
use crate::record::workers;
use crate::unwind::{Architecture, ElfImage, Limits, Table};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A module file, for as long as the recording goes on. 0 is [`GENERATED`](super::ModuleFiles::GENERATED).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) u32);

/// State of a module's table.
#[derive(Debug, Clone, Default)]
pub(crate) enum TableState {
    /// Being compiled.
    Compiling,
    /// Compiled but for code without entries, which has [`crate::unwind::rule::Rule::USER`]; the rest follows. In the
    /// kernel if there was room.
    First(Arc<Table>),
    /// Compiled; in the kernel unless the memory budget pushed it out.
    Compiled(Arc<Table>),
    /// There is none.
    #[default]
    Missing,
}

impl TableState {
    /// Returns the part of the table that is compiled.
    pub(crate) fn table(&self) -> Option<&Table> {
        match self {
            TableState::First(table) | TableState::Compiled(table) => Some(table),
            TableState::Compiling | TableState::Missing => None,
        }
    }
}

/// One file that code runs from.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModuleFile {
    /// Number on the kernel side: that of [`GENERATED`](super::ModuleFiles::GENERATED) for generated code and what was
    /// closed.
    pub(crate) image: u32,
    /// Path as the first process that mapped it saw it.
    pub(crate) path: String,
    /// The process through which it was first seen.
    pub(crate) seen_in: u32,
    /// The opened file; `None` when it could not be opened, and for the vDSO.
    pub(crate) file: Option<Arc<File>>,
    /// The bytes of the vDSO.
    pub(crate) vdso: Option<Arc<Vec<u8>>>,
    /// ELF headers; `None` when the file is no usable ELF file.
    pub(crate) elf: Option<Arc<ElfImage>>,
    /// GNU build ID, or empty.
    pub(crate) build_id: Vec<u8>,
    /// Unwind table.
    pub(crate) table: TableState,
    /// Time of the last sample that had a frame in it, ns; what the memory budget goes by.
    pub(crate) last_hit_ns: u64,
    /// Time at which it was last known to be mapped, ns.
    pub(super) last_mapped_ns: u64,
    pub(super) kind: ModuleKind,
    /// Whether the file is on a server, or made by a program: reading it may take for ever.
    pub(super) is_remote: bool,
    /// Whether the file has hardly any unwind entries of its own: those of its separate debug file are looked for.
    pub(super) needs_debug_file: bool,
    /// The state of `file` before anything was read from it.
    pub(super) state: Option<FileState>,
    /// Whether the table is larger than the whole table space.
    pub(super) never_fits: bool,
    /// Whether it is generated code that runs in the frame of an interpreter's loop.
    pub(crate) is_in_loop: bool,
    /// Whether the file is not open for want of a descriptor.
    pub(super) lacks_descriptor: bool,
}

/// A file as it is sent to a worker, next to its descriptor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SentFile {
    path: String,
    seen_in: u32,
    state: Option<FileState>,
    build_id: Vec<u8>,
    /// The bytes of the vDSO, which has no descriptor.
    vdso: Option<Vec<u8>>,
}

impl SentFile {
    /// The file in the worker, with its headers read; without anything of it if it was rewritten on the way: what is in it now
    /// is not what was mapped.
    pub(crate) fn received(self, descriptors: Vec<OwnedFd>) -> ModuleFile {
        let SentFile { path, seen_in, state, build_id, vdso } = self;
        match (vdso, descriptors.into_iter().next()) {
            (Some(bytes), _) => ModuleFile::of_vdso(seen_in, Some(bytes)),
            (None, Some(file)) => {
                let module = ModuleFile::read(seen_in, &path, Arc::new(File::from(file)), &Limits::default());
                // A worker may wait for a server; that knows what is in the file now.
                let module = ModuleFile { is_remote: false, ..module };
                let was_touched = !build_id.is_empty() && module.build_id == build_id;
                match module.state == state || was_touched {
                    true => ModuleFile { state, ..module },
                    false => ModuleFile { state: None, elf: None, build_id: Vec::new(), ..module },
                }
            }
            (None, None) => ModuleFile::new(&path, seen_in, ModuleKind::Elf),
        }
    }
}

/// Up to this size of its unwind sections, bytes, a file counts as small: some 10 ms of work.
const SMALL_BYTES: u64 = 1 << 20;

impl ModuleFile {
    /// A file about which nothing else is known.
    pub(super) fn new(path: &str, seen_in: u32, kind: ModuleKind) -> Self {
        ModuleFile { path: path.to_owned(), seen_in, kind, ..ModuleFile::default() }
    }

    /// Reads the headers of an opened file.
    pub(in crate::record) fn read(pid: u32, path: &str, file: Arc<File>, limits: &Limits) -> ModuleFile {
        // Asked for before anything is read: what is written meanwhile is a change.
        let state = FileState::of(&file);
        let elf = ElfImage::open_shared(&file, &limits.elf)
            .ok()
            // Emulators map files of other processors; their code is data here.
            .filter(|elf| elf.architecture() == Architecture::HOST);
        let is_remote = is_remote(&file);
        let module = ModuleFile::new(path, pid, ModuleKind::Elf).with_elf(elf);
        ModuleFile { file: Some(file), state, is_remote, ..module }
    }

    /// Returns the file without its table: enough to name its addresses, even after the table was evicted.
    pub(in crate::record) fn without_table(&self) -> ModuleFile {
        ModuleFile { table: TableState::Missing, ..self.clone() }
    }

    /// The vDSO. Every 64-bit process has the same: reading our own needs no rights.
    pub(super) fn of_vdso(pid: u32, bytes: Option<Vec<u8>>) -> ModuleFile {
        let elf =
            bytes.as_ref().and_then(|bytes| ElfImage::parse(bytes.clone(), &Limits::default().elf).ok());
        let module = ModuleFile::new("[vdso]", pid, ModuleKind::Vdso).with_elf(elf);
        ModuleFile { vdso: bytes.map(Arc::new), ..module }
    }

    /// The workers that read it.
    pub(crate) fn reader_lane(&self) -> workers::WorkerLane {
        if self.is_remote { workers::WorkerLane::Slow } else { workers::WorkerLane::Local }
    }

    /// The file as it is sent to a worker.
    pub(crate) fn to_send(&self) -> SentFile {
        SentFile {
            path: self.path.clone(),
            seen_in: self.seen_in,
            state: self.state,
            build_id: self.build_id.clone(),
            vdso: self.vdso.as_ref().map(|bytes| bytes.to_vec()),
        }
    }

    /// The same with its ELF headers, if it has any.
    pub(super) fn with_elf(self, elf: Option<ElfImage>) -> Self {
        let build_id = elf.as_ref().and_then(|elf| elf.build_id()).unwrap_or_default().to_vec();
        ModuleFile { build_id, elf: elf.map(Arc::new), ..self }
    }

    /// Length of the file, bytes: more than that is not believed of what its headers claim.
    pub(in crate::record) fn length(&self) -> u64 {
        let of_file = self.file.as_ref().and_then(|file| self.state_of(file)).map(|state| state.size_bytes);
        of_file.or(self.vdso.as_ref().map(|bytes| bytes.len() as u64)).unwrap_or(0)
    }

    /// Pages of 64 KiB that its code may touch. All of its code is in the file, each part once.
    pub(in crate::record) fn code_pages(&self, limits: &Limits) -> u64 {
        const PAGE_BYTES: u64 = 1 << 16;
        let segments = self.elf.iter().flat_map(|elf| elf.segments()).filter(|segment| segment.is_executable);
        let (count, bytes) = segments.fold((0u64, 0u64), |(count, bytes), segment| {
            (count + 1, bytes.saturating_add(segment.file_size))
        });
        // A segment may begin and end within a page.
        (bytes.min(self.length()) / PAGE_BYTES).saturating_add(2 * count).min(limits.max_pages as u64)
    }

    /// Bytes of the sections that its table is made from.
    pub(super) fn unwind_section_bytes(&self) -> u64 {
        let Some(elf) = &self.elf else { return 0 };
        let most = self.length();
        let sections = [elf.section(b".eh_frame"), elf.section(b".debug_frame")];
        sections.into_iter().flatten().map(|section| section.size.min(most)).fold(0, u64::saturating_add)
    }

    /// Whether compiling its table is quick: a few milliseconds.
    pub(super) fn is_small(&self) -> bool {
        let code = self.elf.iter().flat_map(|elf| elf.segments()).filter(|segment| segment.is_executable);
        // Code without entries may need prologue analysis, instruction by instruction.
        let code_bytes = code.map(|segment| segment.file_size).fold(0, u64::saturating_add);
        self.unwind_section_bytes().max(code_bytes / 8) <= SMALL_BYTES
    }

    /// Whether its file still holds what was read from it first, so that more may be read. A file that was only
    /// touched does: its headers say the same.
    pub(in crate::record) fn is_unchanged(&self, limits: &Limits) -> bool {
        let Some(file) = &self.file else { return true };
        if self.state_of(file) == self.state {
            return true;
        }
        let read_again = || ElfImage::open_shared(file, &limits.elf).ok();
        let Some(now) = Some(()).filter(|()| !self.is_remote).and_then(|()| read_again()) else {
            return false;
        };
        self.is_same_build(&ModuleFile::new(&self.path, self.seen_in, self.kind).with_elf(Some(now)))
    }

    /// The state of its file now, as far as it is known without waiting for others.
    fn state_of(&self, file: &File) -> Option<FileState> {
        match self.is_remote {
            true => KnownFile::of(file).map(|known| known.state),
            false => FileState::of(file),
        }
    }

    /// Whether both are the same build of the same object. The build ID alone is a claim of the file; that the
    /// load segments agree too makes a table of one fit the other.
    pub(super) fn is_same_build(&self, other: &ModuleFile) -> bool {
        let (Some(own), Some(others)) = (&self.elf, &other.elf) else { return false };
        !self.build_id.is_empty()
            && self.build_id == other.build_id
            && self.path == other.path
            && own.segments() == others.segments()
    }
}

/// Whether reading the file depends on another party: a server, or a program that provides it (FUSE).
/// Numbers: include/uapi/linux/magic.h and the file systems' own sources.
pub(super) fn is_remote(file: &File) -> bool {
    const FUSE: u32 = 0x6573_5546;
    const NFS: u32 = 0x6969;
    const CIFS: u32 = 0xff53_4d42;
    const SMB2: u32 = 0xfe53_4d42;
    const V9FS: u32 = 0x0102_1997;
    const CEPH: u32 = 0x00c3_6400;
    const AFS: u32 = 0x6b41_4653;
    const CODA: u32 = 0x7375_7245;
    const REMOTE: [u32; 8] = [FUSE, NFS, CIFS, SMB2, V9FS, CEPH, AFS, CODA];
    rustix::fs::fstatfs(file).is_ok_and(|facts| REMOTE.contains(&(facts.f_type as u32)))
}

/// Why the file of a mapping is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::record) enum Unopened {
    /// The file cannot be reached, or is no file.
    NotThere,
    /// Too many files are open.
    NoDescriptor,
}

/// Opens the file of a mapping: by /proc/PID/map_files, which is the mapped inode itself, deleted or
/// not; else by its path inside the process's root, or ours. Only the very inode that was mapped will do: by now
/// another file may be mapped there, or lie under that path.
pub(in crate::record) fn open_mapped_file(
    pid: u32,
    mapping: &CodeMapping,
    path: &str,
) -> Result<File, Unopened> {
    let pid = proc_fs::thread_to_read(pid);
    let the_mapped_one = |file: File| {
        let known = KnownFile::of(&file)?;
        (known.is_regular && known.inode == mapping.inode).then_some(file)
    };
    let opened = |file: io::Result<File>| match file {
        Ok(file) => Ok(the_mapped_one(file)),
        Err(error) if descriptors::is_lack(&error) => Err(Unopened::NoDescriptor),
        Err(_) => Ok(None),
    };
    let link = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
    if let Some(file) = opened(proc_fs::open(pid, &link))? {
        return Ok(file);
    }
    // A link of a target's own making must not lead out of its root.
    let open_below = |root: &Path| {
        let path = Path::new(path.trim_start_matches('/'));
        opener::inside(opener::folder(root)?.as_fd(), path, Links::Followed, opener::FileContent::Elf)
    };
    // The process may be gone, or its root closed to us: perhaps its root is ours.
    for root in [proc_fs::root_of(pid), PathBuf::from("/")] {
        if let Some(file) = opened(open_below(&root))? {
            return Ok(file);
        }
    }
    Err(Unopened::NotThere)
}

/// The bytes of the vDSO that the kernel gave to this process.
pub(crate) fn read_own_vdso() -> Option<Vec<u8>> {
    let mappings = proc_fs::code_mappings(std::process::id()).ok()?;
    let vdso = mappings.iter().find(|mapping| mapping.path == "[vdso]")?;
    let len = usize::try_from(vdso.end - vdso.start).ok().filter(|&len| len <= 1 << 20)?;
    let mut bytes = vec![0; len];
    proc_fs::open(std::process::id(), "mem").ok()?.read_exact_at(&mut bytes, vdso.start).ok()?;
    Some(bytes)
}
