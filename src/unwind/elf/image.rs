//! The parts of an ELF file that unwinding needs, read by position and never mapped.
//!
//! A file that another user can write may shrink or change while it is read: every read may fail, and
//! every number is checked before it is used. Only headers and small sections are kept; the unwind
//! sections are read when a table is compiled. Format: the System V gABI and its x86-64 supplement.

use super::dynamic::Dynamic;
use super::limits::Limits;
use super::source::{Source, unpack};
use crate::unwind::arch::architecture::Architecture;
use crate::unwind::elf::error::ElfError;
use crate::unwind::elf::fields::{Fields, MAX_PATH_BYTES, c_string};
use object::{CompressionFormat, elf};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

/// What kind of ELF file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElfType {
    /// Linked for fixed addresses (`ET_EXEC`).
    Executable,
    /// A shared object or position-independent executable (`ET_DYN`).
    SharedObject,
    /// Anything else, by its number.
    Other(u16),
}

/// One `PT_LOAD` program header. Offsets are in the file, addresses are the module's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where the segment starts in the file, in bytes.
    pub file_offset: u64,
    /// The module's own address of the segment's first byte.
    pub address: u64,
    /// Bytes that come from the file.
    pub file_size: u64,
    /// Bytes in memory.
    pub memory_size: u64,
    /// Whether the segment holds code.
    pub is_executable: bool,
}

impl Segment {
    /// The address after the segment's last byte. Cannot overflow: `parse` refuses such segments.
    pub fn end(&self) -> u64 {
        self.address + self.memory_size
    }
}

/// One section header, with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The name, as bytes.
    pub name: Vec<u8>,
    /// The ELF section type (`sh_type`).
    pub kind: u32,
    /// The ELF section flags (`sh_flags`).
    pub flags: u64,
    /// The module's own address, or 0 for a section that is not loaded.
    pub address: u64,
    /// Where the section starts in the file, in bytes.
    pub file_offset: u64,
    /// Its size, in bytes.
    pub size: u64,
    /// The index of the section that this one refers to (`sh_link`).
    pub link: u32,
}

/// An opened ELF file: checked headers, and positioned reads of everything else.
#[derive(Debug)]
pub struct ElfImage {
    source: Source,
    architecture: Architecture,
    elf_type: ElfType,
    entry: u64,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    eh_frame_hdr: Option<Segment>,
    build_id: Option<Vec<u8>>,
    interpreter: Option<OsString>,
    dynamic: Dynamic,
    is_go: bool,
}

/// Bytes of a dynamic section, an interpreter path or a note that are looked at.
const MAX_SMALL_BYTES: u64 = 1 << 20;
/// A longer build ID is not one.
const MAX_BUILD_ID_BYTES: usize = 64;

impl ElfImage {
    /// Reads the headers of an opened file. The descriptor is duplicated and kept for later reads.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not an ELF file for x86-64 or arm64, or has headers that cannot be true.
    pub fn open(file: &File, limits: &Limits) -> Result<Self, ElfError> {
        Self::open_shared(&Arc::new(file.try_clone()?), limits)
    }

    /// As [`ElfImage::open`], but later reads share the descriptor: who keeps many files open needs one for each.
    ///
    /// # Errors
    ///
    /// As for [`ElfImage::open`].
    pub fn open_shared(file: &Arc<File>, limits: &Limits) -> Result<Self, ElfError> {
        let size = file.metadata()?.len();
        Self::from_source(Source::File { file: Arc::clone(file), size }, limits)
    }

    /// Reads the headers of an ELF file that is in memory, such as the vdso.
    ///
    /// # Errors
    ///
    /// As for [`ElfImage::open`].
    pub fn parse(bytes: Vec<u8>, limits: &Limits) -> Result<Self, ElfError> {
        Self::from_source(Source::Bytes(bytes), limits)
    }

    fn from_source(source: Source, limits: &Limits) -> Result<Self, ElfError> {
        if source.size() < 64 {
            return Err(ElfError::NotElf);
        }
        let header = source.read(0, 64, limits)?;
        let fields = Fields(&header);
        if header[..4] != elf::ELFMAG {
            return Err(ElfError::NotElf);
        }
        match elf::FileClass(header[4]) {
            elf::ELFCLASS64 => {}
            elf::ELFCLASS32 => return Err(ElfError::Class32),
            _ => return Err(ElfError::Malformed("unknown class")),
        }
        if header[5] != elf::ELFDATA2LSB.0 {
            return Err(ElfError::ForeignMachine(fields.u16(18).map_or(0, u16::swap_bytes)));
        }
        let machine = fields.u16(18).unwrap_or(0);
        let architecture = Architecture::of_elf_machine(machine).ok_or(ElfError::ForeignMachine(machine))?;
        let elf_type = match fields.u16(16).unwrap_or(0) {
            2 => ElfType::Executable,
            3 => ElfType::SharedObject,
            other => ElfType::Other(other),
        };
        let mut image = Self {
            architecture,
            elf_type,
            entry: fields.u64(24).unwrap_or(0),
            segments: Vec::new(),
            sections: Vec::new(),
            eh_frame_hdr: None,
            build_id: None,
            interpreter: None,
            dynamic: Dynamic::default(),
            is_go: false,
            source,
        };
        image.read_sections(&fields, limits)?;
        image.read_segments(&fields, limits)?;
        image.is_go = image.sections.iter().any(|section| {
            matches!(&section.name[..], b".note.go.buildid" | b".go.buildinfo" | b".gopclntab")
        });
        if image.build_id.is_none()
            && let Some(section) = image.section(b".note.gnu.build-id").cloned()
        {
            image.build_id = image.build_id_in(section.file_offset, section.size, limits);
        }
        Ok(image)
    }

    /// A damaged or missing section table is not an error: the program runs without one.
    fn read_sections(&mut self, header: &Fields<'_>, limits: &Limits) -> Result<(), ElfError> {
        let table_offset = header.u64(40).unwrap_or(0);
        let entry_size = u64::from(header.u16(58).unwrap_or(0));
        let mut count = u64::from(header.u16(60).unwrap_or(0));
        let mut names_index = u64::from(header.u16(62).unwrap_or(0));
        if table_offset == 0 || entry_size != 64 {
            return Ok(());
        }
        let Ok(first) = self.source.read(table_offset, 64, limits) else { return Ok(()) };
        // More sections than the header's 16 bits can say: the numbers are in the first entry.
        if count == 0 {
            count = Fields(&first).u64(32).unwrap_or(0);
        }
        if names_index == u64::from(elf::SHN_XINDEX.0) {
            names_index = u64::from(Fields(&first).u32(40).unwrap_or(0));
        }
        if count > limits.max_sections as u64 {
            let limit = limits.max_sections as u64;
            return Err(ElfError::TooLarge { what: "the number of sections", size: count, limit });
        }
        let Ok(table) = self.source.read(table_offset, count * 64, limits) else { return Ok(()) };
        let entry = |index: u64| {
            let start = usize::try_from(index).ok()?.checked_mul(64)?;
            table.get(start..start.checked_add(64)?).map(Fields)
        };
        let names = entry(names_index)
            .and_then(|entry| self.source.read(entry.u64(24)?, entry.u64(32)?, limits).ok())
            .unwrap_or_default();
        for entry in table.chunks_exact(64).map(Fields) {
            let name = entry.u32(0).and_then(|at| c_string(&names, at as usize)).unwrap_or_default();
            self.sections.push(Section {
                // Longer names than any that matters are cut, so that 65,536 of them stay small.
                name: name[..name.len().min(64)].to_vec(),
                kind: entry.u32(4).unwrap_or(0),
                flags: entry.u64(8).unwrap_or(0),
                address: entry.u64(16).unwrap_or(0),
                file_offset: entry.u64(24).unwrap_or(0),
                size: entry.u64(32).unwrap_or(0),
                link: entry.u32(40).unwrap_or(0),
            });
        }
        Ok(())
    }

    fn read_segments(&mut self, header: &Fields<'_>, limits: &Limits) -> Result<(), ElfError> {
        let table_offset = header.u64(32).unwrap_or(0);
        let entry_size = u64::from(header.u16(54).unwrap_or(0));
        let count = u64::from(header.u16(56).unwrap_or(0));
        if table_offset == 0 || count == 0 {
            return Ok(());
        }
        if entry_size != 56 {
            return Err(ElfError::Malformed("program headers of an unknown size"));
        }
        if count > limits.max_segments as u64 {
            let limit = limits.max_segments as u64;
            return Err(ElfError::TooLarge { what: "the number of segments", size: count, limit });
        }
        let table = self.source.read(table_offset, count * 56, limits)?;
        let mut dynamic = None;
        for entry in table.chunks_exact(56).map(Fields) {
            let kind = entry.u32(0).unwrap_or(0);
            let segment = Segment {
                file_offset: entry.u64(8).unwrap_or(0),
                address: entry.u64(16).unwrap_or(0),
                file_size: entry.u64(32).unwrap_or(0),
                memory_size: entry.u64(40).unwrap_or(0),
                is_executable: entry.u32(4).unwrap_or(0) & elf::PF_X.0 != 0,
            };
            let is_possible = segment.address.checked_add(segment.memory_size).is_some()
                && segment.file_offset.checked_add(segment.file_size).is_some();
            if !is_possible {
                return Err(ElfError::Malformed("a segment beyond the end of the address space"));
            }
            match kind {
                _ if kind == elf::PT_LOAD.0 => self.segments.push(segment),
                _ if kind == elf::PT_DYNAMIC.0 => dynamic = Some(segment),
                _ if kind == elf::PT_GNU_EH_FRAME.0 => self.eh_frame_hdr = Some(segment),
                _ if kind == elf::PT_INTERP.0 && segment.file_size <= MAX_PATH_BYTES => {
                    self.interpreter =
                        self.source.read(segment.file_offset, segment.file_size, limits).ok().and_then(
                            |bytes| c_string(&bytes, 0).map(|path| OsString::from_vec(path.to_vec())),
                        );
                }
                _ if kind == elf::PT_NOTE.0 && self.build_id.is_none() => {
                    self.build_id = self.build_id_in(segment.file_offset, segment.file_size, limits);
                }
                _ => {}
            }
        }
        if let Some(dynamic) = dynamic {
            self.read_dynamic(dynamic, limits);
        }
        Ok(())
    }

    fn read_dynamic(&mut self, segment: Segment, limits: &Limits) -> Option<()> {
        let size = segment.file_size.min(MAX_SMALL_BYTES);
        let table = self.source.read(segment.file_offset, size, limits).ok()?;
        let read = |address, size| self.read_address(address, size, limits).ok();
        self.dynamic = Dynamic::parse(&table, read)?;
        Some(())
    }

    fn build_id_in(&self, offset: u64, size: u64, limits: &Limits) -> Option<Vec<u8>> {
        let notes = self.source.read(offset, size.min(MAX_SMALL_BYTES), limits).ok()?;
        let mut rest = &notes[..];
        while let (Some(name_size), Some(desc_size), Some(kind)) =
            (Fields(rest).u32(0), Fields(rest).u32(4), Fields(rest).u32(8))
        {
            let name_end = 12usize.checked_add((name_size as usize).checked_next_multiple_of(4)?)?;
            let desc_end = name_end.checked_add(desc_size as usize)?;
            let name = rest.get(12..12 + name_size as usize)?;
            let desc = rest.get(name_end..desc_end)?;
            if kind == elf::NT_GNU_BUILD_ID.0 && name == b"GNU\0" {
                return (1..=MAX_BUILD_ID_BYTES).contains(&desc.len()).then(|| desc.to_vec());
            }
            rest = rest.get(desc_end.checked_next_multiple_of(4)?..)?;
        }
        None
    }

    /// The processor that the file's code is for.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Executable, shared object, or something else.
    pub fn elf_type(&self) -> ElfType {
        self.elf_type
    }

    /// The module's own address of its first instruction; 0 if it has none.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// The `PT_LOAD` segments, in file order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// All sections, in file order; empty where the section table is missing or damaged.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The first section of a name.
    pub fn section(&self, name: &[u8]) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The GNU build ID, 1 to 64 bytes.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// The path of the program interpreter (`PT_INTERP`), as the file says it.
    pub fn interpreter(&self) -> Option<&OsString> {
        self.interpreter.as_ref()
    }

    /// Names of the libraries that the file needs (`DT_NEEDED`), as the file says them.
    pub fn needed(&self) -> &[OsString] {
        &self.dynamic.needed
    }

    /// Where to look for the needed libraries first (`DT_RUNPATH`, else `DT_RPATH`): paths separated by
    /// colons, `$ORIGIN` not replaced.
    pub fn run_path(&self) -> Option<&OsString> {
        self.dynamic.run_path.as_ref()
    }

    /// Whether the file is a program, which the kernel or the dynamic linker starts at its entry point, and no library.
    pub(crate) fn is_program(&self) -> bool {
        let is_started =
            self.elf_type == ElfType::Executable || self.interpreter.is_some() || self.dynamic.is_pie;
        is_started && !self.dynamic.has_soname
    }

    /// Whether Go's linker made the file.
    pub fn is_go(&self) -> bool {
        self.is_go
    }

    /// The whole content of a section, decompressed.
    ///
    /// # Errors
    ///
    /// The section lies outside the file, cannot be read or decompressed, or is larger than the limit.
    pub fn section_bytes(&self, section: &Section, limits: &Limits) -> Result<Vec<u8>, ElfError> {
        if section.kind == elf::SHT_NOBITS.0 {
            return Ok(Vec::new());
        }
        let bytes = self.source.read(section.file_offset, section.size, limits)?;
        if section.flags & elf::SHF_COMPRESSED.0 != 0 {
            let header = Fields(&bytes);
            let format = match header.u32(0) {
                Some(kind) if kind == elf::ELFCOMPRESS_ZLIB.0 => CompressionFormat::Zlib,
                Some(kind) if kind == elf::ELFCOMPRESS_ZSTD.0 => CompressionFormat::Zstandard,
                _ => return Err(ElfError::Malformed("a section with an unknown compression")),
            };
            let (Some(size), Some(data)) = (header.u64(8), bytes.get(24..)) else {
                return Err(ElfError::Malformed("a compressed section without a header"));
            };
            return unpack(format, data, size, limits);
        }
        // What GNU tools wrote before ELF knew compression: a magic, the size with its high byte first, zlib.
        if section.name.starts_with(b".zdebug") && bytes.starts_with(b"ZLIB") {
            let (Some(size), Some(data)) = (Fields(&bytes).u64(4), bytes.get(12..)) else {
                return Err(ElfError::Malformed("a compressed section without a header"));
            };
            return unpack(CompressionFormat::Zlib, data, size.swap_bytes(), limits);
        }
        Ok(bytes)
    }

    /// Bytes of a section when it is unpacked, as it claims.
    pub fn unpacked_bytes(&self, section: &Section, limits: &Limits) -> u64 {
        let is_packed = section.flags & elf::SHF_COMPRESSED.0 != 0;
        let header = || self.source.read(section.file_offset, section.size.min(24), limits).ok();
        match is_packed || section.name.starts_with(b".zdebug") {
            false => section.size,
            true => header().map_or(section.size, |header| match is_packed {
                true => Fields(&header).u64(8).unwrap_or(section.size),
                false => Fields(&header).u64(4).map_or(section.size, u64::swap_bytes),
            }),
        }
    }

    /// Bytes at one of the module's own addresses, as far as the file holds them.
    ///
    /// # Errors
    ///
    /// No segment holds the whole range, or it cannot be read.
    pub fn read_address(&self, address: u64, size: u64, limits: &Limits) -> Result<Vec<u8>, ElfError> {
        for segment in &self.segments {
            let Some(distance) = address.checked_sub(segment.address) else { continue };
            if distance.checked_add(size).is_some_and(|end| end <= segment.file_size) {
                return self.source.read(segment.file_offset + distance, size, limits);
            }
        }
        Err(ElfError::Malformed("an address outside every segment"))
    }

    /// The `PT_GNU_EH_FRAME` segment.
    pub(crate) fn eh_frame_hdr(&self) -> Option<Segment> {
        self.eh_frame_hdr
    }

    /// What to add to the module's own addresses to get a process's, from one executable mapping of it.
    ///
    /// The mapping is the process addresses from `start` up to `end` and shows the file from
    /// `file_offset` on. The kernel rounds a segment out to whole pages, so neighbouring segments can
    /// share a page of the file, even two executable ones. Of the executable segments that the mapping shows
    /// some of, that one decides which gives a file with fixed addresses no bias; else the one whose pages
    /// are exactly the mapping; else the one of which it shows most. `None` where no executable segment lies
    /// in the mapping. The result wraps: a module can be mapped below its own addresses.
    pub fn bias_of_mapping(&self, start: u64, end: u64, file_offset: u64) -> Option<u64> {
        const PAGE: u64 = 4096;
        let size = end.checked_sub(start)?;
        let mapping_end = file_offset.checked_add(size)?;
        let shown = |segment: &Segment| {
            let end = segment.file_offset + segment.file_size;
            end.min(mapping_end).saturating_sub(segment.file_offset.max(file_offset))
        };
        let bias = |segment: &Segment| {
            start.wrapping_sub(segment.address.wrapping_add(file_offset).wrapping_sub(segment.file_offset))
        };
        let is_exact = |segment: &Segment| {
            let first = segment.file_offset / PAGE * PAGE;
            let end = (segment.file_offset + segment.file_size).checked_next_multiple_of(PAGE);
            first == file_offset && end == Some(mapping_end)
        };
        let is_unmoved = |segment: &Segment| self.elf_type == ElfType::Executable && bias(segment) == 0;
        let best = self
            .segments
            .iter()
            .filter(|segment| segment.is_executable && shown(segment) > 0)
            // `max_by_key` takes the last of equals; the first in the file is the better guess.
            .rev()
            .max_by_key(|segment| (is_unmoved(segment), is_exact(segment), shown(segment)))?;
        Some(bias(best))
    }
}
