//! Mapped files: their identity, and how their own addresses relate to a mapping.
//!
//! Samples have process addresses; a profile has addresses relative to the file. The difference follows from the ELF
//! headers of the file, if the same file is on this machine, identified by its build ID, or by device and inode.
//! Otherwise the file offset is used, which usually equals the ELF address of code.

use super::processes::PerfMapping;
use super::record::{FileIdentity, MmapRecord};
use crate::base::opener::{self, FileContent};
use crate::base::safe_text;
use crate::elf::{ElfImage, ElfLimits};
use crate::import::intake::cut_name;
use crate::import::module_kinds::classify;
use crate::profile::{Module, ModuleId, ModuleKind, Tables};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// A mapped file.
#[derive(Debug)]
struct MappedFile {
    /// `prof`'s name of the file.
    name: String,
    kind: ModuleKind,
    build_id: Vec<u8>,
    identity: Option<FileIdentity>,
    /// Module ids, by process for generated code.
    rows: FxHashMap<u32, ModuleId>,
}

/// Start of a mapping of a file, among the file's own addresses.
pub(super) type OwnStart = Option<u64>;

/// Identity of a mapped file: path, build ID, and device and inode if perf recorded them.
type MappedFileKey = (Vec<u8>, Vec<u8>, Option<FileIdentity>);

/// All mapped files.
#[derive(Debug, Default)]
pub(super) struct MappedFiles {
    files: Vec<MappedFile>,
    by_key: FxHashMap<MappedFileKey, u32>,
    /// Starts by file, offset and length.
    starts: FxHashMap<(u32, u64, u64), OwnStart>,
    /// Files whose headers could not be read.
    pub(super) elsewhere: std::collections::BTreeSet<u32>,
    /// The vDSO of the running kernel.
    vdso: Option<Vec<u8>>,
}

impl MappedFiles {
    /// No files yet; `vdso` is that of the running kernel.
    pub(super) fn new(vdso: Option<Vec<u8>>) -> Self {
        MappedFiles { vdso, ..MappedFiles::default() }
    }

    /// The number of the file of a mapping.
    pub(super) fn number(&mut self, record: &MmapRecord<'_>, known: &BTreeMap<Vec<u8>, Vec<u8>>) -> u32 {
        let of_header = || known.get(record.path).map_or(&[][..], Vec::as_slice);
        let build_id = if record.build_id.is_empty() { of_header() } else { record.build_id };
        let next = self.files.len() as u32;
        // With a build ID it is one file, however often it was installed.
        let identity = record.identity.filter(|_| build_id.is_empty());
        let key = (record.path.to_vec(), build_id.to_vec(), identity);
        let number = *self.by_key.entry(key).or_insert(next);
        if number == next {
            let path = safe_text::from_bytes(record.path);
            let (name, kind, _) = classify(&path);
            self.files.push(MappedFile {
                name: name.to_owned(),
                kind: if kind == ModuleKind::KernelModule { ModuleKind::Elf } else { kind },
                build_id: build_id.to_vec(),
                identity,
                rows: FxHashMap::default(),
            });
        }
        number
    }

    /// Whether a file is the library of a Java virtual machine.
    pub(super) fn is_jvm(&self, file: u32) -> bool {
        self.files[file as usize].name.ends_with("/libjvm.so")
    }

    /// Kind of object that a file is.
    pub(super) fn kind(&self, file: u32) -> ModuleKind {
        self.files[file as usize].kind
    }

    /// The file with this number, if it is on this machine.
    pub(super) fn open(&self, file: u32, limits: &ElfLimits) -> Option<ElfImage> {
        let file = &self.files[file as usize];
        if file.kind == ModuleKind::Vdso {
            let elf = ElfImage::parse(self.vdso.clone()?, limits).ok()?;
            return (elf.build_id()? == file.build_id).then_some(elf);
        }
        open(&file.name, &file.build_id, file.identity, limits)
    }

    /// The module of an address of the process `pid` in `mapping`, and the address there.
    pub(super) fn place(
        &mut self,
        tables: &mut Tables,
        pid: u32,
        mapping: &PerfMapping,
        address: u64,
    ) -> (ModuleId, u64) {
        let kind = self.files[mapping.file as usize].kind;
        let address = match kind {
            // There is no file that the address could be relative to.
            ModuleKind::Jit | ModuleKind::Unknown => address,
            ModuleKind::Elf => self.address_in_file(mapping, address),
            _ => address - mapping.start,
        };
        let instance = if kind == ModuleKind::Jit { pid } else { 0 };
        let file = &mut self.files[mapping.file as usize];
        let module = *file.rows.entry(instance).or_insert_with(|| {
            let path = tables.intern_string(cut_name(&file.name));
            let build_id = file.build_id.clone();
            tables.intern_module(Module { path, build_id, kind, instance })
        });
        (module, address)
    }

    fn address_in_file(&mut self, mapping: &PerfMapping, address: u64) -> u64 {
        let within = address - mapping.start;
        self.own_start(mapping).unwrap_or(mapping.file_offset).wrapping_add(within)
    }

    /// Returns where the start of `mapping` is among the addresses of its file, by the headers of that file.
    pub(super) fn own_start(&mut self, mapping: &PerfMapping) -> OwnStart {
        if let Some(start) = self.known_start(mapping) {
            return start;
        }
        let start = self.start_by_headers(mapping);
        self.starts.insert(key_of(mapping), start);
        if start.is_none() && self.kind(mapping.file) == ModuleKind::Elf {
            self.elsewhere.insert(mapping.file);
        }
        start
    }

    /// The same as far as it is known already.
    pub(super) fn known_start(&self, mapping: &PerfMapping) -> Option<OwnStart> {
        self.starts.get(&key_of(mapping)).copied()
    }

    fn start_by_headers(&mut self, mapping: &PerfMapping) -> OwnStart {
        let elf = self.open(mapping.file, &ElfLimits::default())?;
        let file = &mut self.files[mapping.file as usize];
        if file.build_id.is_empty() {
            file.build_id = elf.build_id().unwrap_or_default().to_vec();
        }
        let bias = elf.bias_of_mapping(mapping.start, mapping.end, mapping.file_offset)?;
        Some(mapping.start.wrapping_sub(bias))
    }
}

fn key_of(mapping: &PerfMapping) -> (u32, u64, u64) {
    (mapping.file, mapping.file_offset, mapping.end - mapping.start)
}

/// The file at `path`, if it is the one that was mapped.
fn open(path: &str, build_id: &[u8], identity: Option<FileIdentity>, limits: &ElfLimits) -> Option<ElfImage> {
    let is_same = |facts: &std::fs::Metadata| {
        let device = (rustix::fs::major(facts.dev()), rustix::fs::minor(facts.dev()), facts.ino());
        !build_id.is_empty() || (identity == Some(device) && facts.ino() != 0)
    };
    if !path.starts_with('/') {
        return None;
    }
    // Regular files only: a path can name any device, and opening one may have side effects.
    let file = opener::named(Path::new(path), FileContent::Elf).ok()?;
    if !file.metadata().is_ok_and(|facts| is_same(&facts)) {
        return None;
    }
    let elf = ElfImage::open_shared(&Arc::new(file), limits).ok()?;
    (build_id.is_empty() || elf.build_id() == Some(build_id)).then_some(elf)
}
