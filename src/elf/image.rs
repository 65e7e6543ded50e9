//! An ELF file that may run on this machine, as the kernel and the dynamic linker see it.

use super::error::ElfError;
use super::file::ElfFile;
use super::header::ElfHeader;
use super::limits::ElfLimits;
use super::machine::Architecture;
use super::notes;
use super::section::Section;
use super::segment::{Segment, Segments};
use super::source::Source;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::sync::Arc;

/// Kind of an ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElfType {
    /// Linked for fixed addresses (`ET_EXEC`).
    Executable,
    /// A shared object or position-independent executable (`ET_DYN`).
    SharedObject,
    /// Anything else, by its number.
    Other(u16),
}

/// An opened 64-bit file of a known processor: checked headers, and positioned reads of everything else.
#[derive(Debug)]
pub struct ElfImage {
    file: ElfFile,
    architecture: Architecture,
    segments: Segments,
    build_id: Option<Vec<u8>>,
    is_go: bool,
}

/// What the headers of a file say.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ElfHeaders {
    /// Length of the file, bytes.
    length: u64,
    header: ElfHeader,
    sections: Vec<Section>,
    segments: Segments,
    build_id: Option<Vec<u8>>,
    is_go: bool,
}

impl ElfImage {
    /// Reads the headers of an opened file. The descriptor is duplicated and kept for later reads.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not an ELF file for x86-64 or arm64, or has headers that cannot be true.
    pub fn open(file: &File, limits: &ElfLimits) -> Result<Self, ElfError> {
        Self::open_shared(&Arc::new(file.try_clone()?), limits)
    }

    /// Opens like [`ElfImage::open`], but later reads share the descriptor: who keeps many files open needs one for each.
    ///
    /// # Errors
    ///
    /// As for [`ElfImage::open`].
    pub(crate) fn open_shared(file: &Arc<File>, limits: &ElfLimits) -> Result<Self, ElfError> {
        Self::from_source(Source::of_file(file)?, limits)
    }

    /// What the headers say, to be sent to another process.
    pub(crate) fn into_headers(self) -> ElfHeaders {
        let ElfImage { file, segments, build_id, is_go, .. } = self;
        let length = file.source().len();
        let (header, sections) = file.into_headers();
        ElfHeaders { length, header, sections, segments, build_id, is_go }
    }

    /// The image of an opened file whose headers another process has read; `None` if they cannot be those of a file.
    pub(crate) fn with_headers(file: &Arc<File>, headers: ElfHeaders, limits: &ElfLimits) -> Option<Self> {
        let ElfHeaders { length, header, sections, segments, build_id, is_go } = headers;
        let is_possible = header.is_64
            && sections.len() as u64 <= limits.max_sections as u64
            && segments.are_possible(limits)
            && build_id.as_ref().is_none_or(|id| notes::is_build_id(id));
        let architecture = Architecture::of_elf_machine(header.machine).filter(|_| is_possible)?;
        let source = Source::File(Arc::clone(file), length);
        let file = ElfFile::with_headers(source, header, sections, limits);
        Some(ElfImage { file, architecture, segments, build_id, is_go })
    }

    /// Reads the headers of an ELF file that is in memory, such as the vdso.
    ///
    /// # Errors
    ///
    /// As for [`ElfImage::open`].
    pub fn parse(bytes: Vec<u8>, limits: &ElfLimits) -> Result<Self, ElfError> {
        Self::from_source(Source::Bytes(Arc::new(bytes)), limits)
    }

    fn from_source(source: Source, limits: &ElfLimits) -> Result<Self, ElfError> {
        let file = ElfFile::parse_program(source, limits)?;
        if !file.is_64() {
            return Err(ElfError::Class32);
        }
        let machine = file.header.machine;
        let architecture = Architecture::of_elf_machine(machine).ok_or(ElfError::ForeignMachine(machine))?;
        let mut segments = Segments::read(file.source(), &file.header, limits)?;
        let is_go = file.sections().iter().any(|section| {
            matches!(&section.name[..], b".note.go.buildid" | b".go.buildinfo" | b".gopclntab")
        });
        let build_id = segments.build_id.take().or_else(|| file.build_id());
        Ok(Self { file, architecture, segments, build_id, is_go })
    }

    /// The processor that the file's code is for.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Executable, shared object, or something else.
    pub(crate) fn elf_type(&self) -> ElfType {
        match self.file.header.kind {
            2 => ElfType::Executable,
            3 => ElfType::SharedObject,
            other => ElfType::Other(other),
        }
    }

    /// The module's own address of its first instruction; 0 if it has none.
    pub(crate) fn entry(&self) -> u64 {
        self.file.header.entry
    }

    /// The `PT_LOAD` segments, in file order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments.loaded
    }

    /// The `PT_GNU_EH_FRAME` segment.
    pub(crate) fn eh_frame_hdr(&self) -> Option<Segment> {
        self.segments.eh_frame_hdr
    }

    /// All sections, in file order; empty where the section table is missing or damaged.
    pub fn sections(&self) -> &[Section] {
        self.file.sections()
    }

    /// The first section of a name.
    pub fn section(&self, name: &[u8]) -> Option<&Section> {
        self.file.section(name)
    }

    /// The limits that it is read within.
    pub(crate) fn limits(&self) -> &ElfLimits {
        self.file.limits()
    }

    /// The GNU build ID, 1 to 64 bytes.
    pub(crate) fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// The path of the program interpreter (`PT_INTERP`), as the file says it.
    pub(crate) fn interpreter(&self) -> Option<&OsString> {
        self.segments.interpreter.as_ref()
    }

    /// Names of the libraries that the file needs (`DT_NEEDED`), as the file says them.
    pub(crate) fn needed(&self) -> &[OsString] {
        &self.segments.dynamic.needed
    }

    /// Returns the folders to search first for the needed libraries (`DT_RUNPATH`, else `DT_RPATH`): paths separated by
    /// colons, `$ORIGIN` not replaced.
    pub(crate) fn run_path(&self) -> Option<&OsString> {
        self.segments.dynamic.run_path.as_ref()
    }

    /// Whether the file is a program, which the kernel or the dynamic linker starts at its entry point, and no library.
    pub(crate) fn is_program(&self) -> bool {
        let dynamic = &self.segments.dynamic;
        let is_started =
            self.elf_type() == ElfType::Executable || self.interpreter().is_some() || dynamic.is_pie;
        is_started && !dynamic.has_soname
    }

    /// Whether Go's linker made the file.
    pub(crate) fn is_go(&self) -> bool {
        self.is_go
    }

    /// The whole content of a section, unpacked; nothing for one that has no bytes in the file.
    ///
    /// # Errors
    ///
    /// The section lies outside the file, cannot be read or unpacked, or is larger than the limit.
    pub(crate) fn section_bytes(&self, section: &Section) -> Result<Vec<u8>, ElfError> {
        self.file.section_bytes(section)
    }

    /// Bytes of a section when it is unpacked, as it claims.
    pub(crate) fn unpacked_bytes(&self, section: &Section) -> u64 {
        self.file.unpacked_bytes(section)
    }

    /// Length of the file, bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file.source().len()
    }

    /// Bytes at one of the module's own addresses, as far as the file holds them.
    ///
    /// # Errors
    ///
    /// No segment holds the whole range, or it cannot be read.
    pub(crate) fn read_address(&self, address: u64, size: u64) -> Result<Vec<u8>, ElfError> {
        self.segments.bytes_at(self.file.source(), address, size, self.file.limits())
    }

    /// Offset from the module's own addresses to a process's, by one executable mapping of the module.
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
        let is_unmoved = |segment: &Segment| self.elf_type() == ElfType::Executable && bias(segment) == 0;
        let best = self
            .segments()
            .iter()
            .filter(|segment| segment.is_executable && shown(segment) > 0)
            // `max_by_key` takes the last of equals; the first in the file is the better guess.
            .rev()
            .max_by_key(|segment| (is_unmoved(segment), is_exact(segment), shown(segment)))?;
        Some(bias(best))
    }
}
