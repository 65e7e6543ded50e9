//! Code without a file: generated at run time, or mapped from memory.

use super::ModuleFiles;
use super::compiled::{Compiled, Lane};
use super::file::{FileId, ModuleFile, TableState, open_mapped_file};
use crate::profile::ModuleKind;
use crate::record::kernel::sideband::CodeMapping;
use crate::record::process::proc_fs;
use crate::symbols::JitDump;
use crate::unwind::code::{beam, php, trampolines};
use crate::unwind::{ElfImage, FirstTable, Limits, Table};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Memory with more generated code is not looked at, bytes: CPython takes 64 KiB at a time.
const MAX_BYTES: u64 = 4 << 20;
/// Tables of generated code at most.
const MAX_TABLES: usize = 64;

impl ModuleFiles {
    /// The file that represents a mapping without a file: one with a table, if its code is known by its bytes or its runtime.
    pub(super) fn generated(&mut self, pid: u32, mapping: &CodeMapping) -> FileId {
        // Only here the bytes and layouts of other processors are known.
        if !self.wants_tables || !cfg!(target_arch = "x86_64") {
            return Self::GENERATED;
        }
        let (mapping, limits) = (mapping.clone(), self.limits.clone());
        // Whose memory it is may hold its readers.
        let table = self
            .patience
            .ask(move || trampoline_table(pid, &mapping).or_else(|| beam_table(pid, &mapping, &limits)));
        table.flatten().and_then(|table| self.with_table(table, false)).unwrap_or(Self::GENERATED)
    }

    /// The same of memory that processes share, which has a number of its own in place of a file.
    pub(super) fn generated_in_shared(&mut self, pid: u32, mapping: &CodeMapping) -> FileId {
        if !self.wants_tables || !cfg!(target_arch = "x86_64") || !php::may_be_memory(&mapping.path) {
            return Self::GENERATED;
        }
        let (mapping, limits) = (mapping.clone(), self.limits.clone());
        let table = self.patience.ask(move || php_table(pid, &mapping, &limits));
        table.flatten().and_then(|table| self.with_table(table, true)).unwrap_or(Self::GENERATED)
    }

    /// Whether a file represents generated code: its addresses are those of the process.
    pub(in crate::record) fn is_generated(&self, id: FileId) -> bool {
        self.get(id).kind == ModuleKind::Jit
    }

    /// Whether a file is called as jitdumps are, and is no code.
    pub(in crate::record) fn is_jit_dump(&self, id: FileId) -> bool {
        let module = self.get(id);
        module.elf.is_none() && module.file.is_some() && JitDump::is_name(&module.path)
    }

    /// The file that represents generated code with this table, which runs in the frame of an interpreter's loop or not.
    fn with_table(&mut self, table: Table, is_in_loop: bool) -> Option<FileId> {
        if let Some(known) = self.known_generated.iter().find(|(_, known)| *known == table) {
            return Some(known.0);
        }
        if self.known_generated.len() >= MAX_TABLES {
            return None;
        }
        let image = self.new_image()?;
        let module = ModuleFile::new("[jit]", 0, ModuleKind::Jit);
        let id = self.files.push(ModuleFile { image, is_in_loop, table: TableState::Compiling, ..module });
        self.known_generated.push((id, table.clone()));
        // The receiver is this very struct's.
        let table = Some(Ok(FirstTable { table, is_whole: true }));
        let _ = self.sender.send(Compiled { id, lane: Lane::Known, table });
        Some(id)
    }
}

/// CPython's trampolines.
fn trampoline_table(pid: u32, mapping: &CodeMapping) -> Option<Table> {
    let size = mapping.end.checked_sub(mapping.start).filter(|&size| size <= MAX_BYTES)?;
    let memory = proc_fs::open(pid, "mem").ok()?;
    let mut head = [0; trampolines::HEAD_BYTES];
    memory.read_exact_at(&mut head, mapping.start).ok()?;
    if !trampolines::is_trampoline(&head) {
        return None;
    }
    let mut code = vec![0; size as usize];
    memory.read_exact_at(&mut code, mapping.start).ok()?;
    trampolines::table(&code)
}

/// Code of PHP's JIT compiler.
fn php_table(pid: u32, mapping: &CodeMapping, limits: &Limits) -> Option<Table> {
    let size = mapping.end.checked_sub(mapping.start)?;
    let body_of = |file: File| php::body_rule(&ElfImage::open(&file, &limits.elf).ok()?, limits);
    let own = || body_of(proc_fs::open(pid, "exe").ok()?);
    // A web server has it as a library.
    let of_library = || {
        let mappings = proc_fs::code_mappings(pid).ok()?;
        let is_it = |mapping: &&CodeMapping| mapping.path.contains("/libphp");
        let library = mappings.iter().find(is_it)?;
        body_of(open_mapped_file(pid, library, &library.path).ok()?)
    };
    php::table(size, own().or_else(of_library)?, limits)
}

/// Code of Erlang's runtime, if that keeps frame pointers.
fn beam_table(pid: u32, mapping: &CodeMapping, limits: &Limits) -> Option<Table> {
    let size = mapping.end.checked_sub(mapping.start)?;
    if !beam::is_runtime(&proc_fs::executable_name(pid)?) {
        return None;
    }
    let program = proc_fs::open(pid, "exe").ok()?;
    let facts = program.metadata().ok()?;
    let elf = ElfImage::open(&program, &limits.elf).ok()?;
    let layout = beam::frame_layout(&elf)?;
    let mappings = proc_fs::code_mappings(pid).ok()?;
    let own = mappings.iter().find(|mapping| mapping.inode == facts.ino())?;
    let bias = elf.bias_of_mapping(own.start, own.end, own.file_offset)?;
    let memory = proc_fs::open(pid, "mem").ok()?;
    let mut word = [0; 4];
    memory.read_exact_at(&mut word, layout.wrapping_add(bias)).ok()?;
    let keeps_them = u32::from_le_bytes(word) == beam::LAYOUT_WITH_FRAME_POINTERS;
    keeps_them.then(|| beam::table(size, limits)).flatten()
}
