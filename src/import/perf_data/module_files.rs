//! Mapped files: their identity, and how their own addresses relate to a mapping.
//!
//! Samples have process addresses; a profile has addresses relative to the file. The difference follows from the ELF
//! headers of the file, if the same file is on this machine, identified by its build ID, or by device and inode.
//! Otherwise the file offset is used, which usually equals the ELF address of code.

use super::processes::PerfMapping;
use super::record::{FileIdentity, MmapRecord};
use crate::base::safe_text;
use crate::elf::{ElfImage, ElfLimits};
use crate::import::intake::cut_name;
use crate::import::module_kinds::classify;
use crate::profile::{Module, ModuleId, ModuleKind, Tables};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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

/// Address of a mapping's start in the address space of its file.
type OwnStart = Option<u64>;

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
}

impl MappedFiles {
    /// The index of the file of a mapping.
    pub(super) fn number(&mut self, record: &MmapRecord<'_>, known: &BTreeMap<Vec<u8>, Vec<u8>>) -> u32 {
        let of_header = || known.get(record.path).map_or(&[][..], Vec::as_slice);
        let build_id = if record.build_id.is_empty() { of_header() } else { record.build_id };
        let next = self.files.len() as u32;
        let key = (record.path.to_vec(), build_id.to_vec(), record.identity);
        let number = *self.by_key.entry(key).or_insert(next);
        if number == next {
            let path = safe_text::from_bytes(record.path);
            let (name, kind, _) = classify(&path);
            self.files.push(MappedFile {
                name: name.to_owned(),
                kind: if kind == ModuleKind::KernelModule { ModuleKind::Elf } else { kind },
                build_id: build_id.to_vec(),
                identity: record.identity,
                rows: FxHashMap::default(),
            });
        }
        number
    }

    /// The module of an address of the process `pid` in `mapping`, and the module-relative address.
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
        let key = (mapping.file, mapping.file_offset, mapping.end - mapping.start);
        let start = match self.starts.get(&key) {
            Some(start) => *start,
            None => {
                let start = self.own_start(mapping);
                self.starts.insert(key, start);
                if start.is_none() {
                    self.elsewhere.insert(mapping.file);
                }
                start
            }
        };
        start.unwrap_or(mapping.file_offset).wrapping_add(within)
    }

    /// The start of `mapping` in the address space of its file, according to the ELF headers.
    fn own_start(&mut self, mapping: &PerfMapping) -> OwnStart {
        let file = &mut self.files[mapping.file as usize];
        let elf = open(&file.name, &file.build_id, file.identity)?;
        if file.build_id.is_empty() {
            file.build_id = elf.build_id().unwrap_or_default().to_vec();
        }
        let bias = elf.bias_of_mapping(mapping.start, mapping.end, mapping.file_offset)?;
        Some(mapping.start.wrapping_sub(bias))
    }
}

/// Opens the file at `path`, if it is the one that was mapped.
fn open(path: &str, build_id: &[u8], identity: Option<FileIdentity>) -> Option<ElfImage> {
    let is_same = |facts: &std::fs::Metadata| {
        let device = (rustix::fs::major(facts.dev()), rustix::fs::minor(facts.dev()), facts.ino());
        !build_id.is_empty() || (identity == Some(device) && facts.ino() != 0)
    };
    // Checked before opening: a path can name any device, and opening one may have side effects.
    let facts = std::fs::metadata(path).ok()?;
    if !path.starts_with('/') || !facts.is_file() || !is_same(&facts) {
        return None;
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().is_ok_and(|facts| facts.is_file() && is_same(&facts)) {
        return None;
    }
    let elf = ElfImage::open_shared(&Arc::new(file), &ElfLimits::default()).ok()?;
    (build_id.is_empty() || elf.build_id() == Some(build_id)).then_some(elf)
}
