//! Any ELF file: its header, its sections, and positioned reads of them.

use super::error::ElfError;
use super::header::ElfHeader;
use super::limits::ElfLimits;
use super::notes::{self, MAX_NOTE_BYTES};
use super::section::{Contents, Section};
use super::source::Source;
use object::elf;
use object::read::{CompressedData, CompressionFormat};
use std::ops::Range;

/// A little-endian ELF file of any class and processor, whose section table has been read.
#[derive(Debug)]
pub(crate) struct ElfFile {
    source: Source,
    pub(super) header: ElfHeader,
    sections: Vec<Section>,
    limits: ElfLimits,
}

impl ElfFile {
    /// Reads the header and the section table. A file without section table has no sections.
    pub(crate) fn parse(source: Source, limits: &ElfLimits) -> Result<Self, ElfError> {
        let header = ElfHeader::read(&source)?;
        let sections = Section::read_all(&source, &header, limits)?;
        Ok(Self { source, header, sections, limits: limits.clone() })
    }

    /// Parses like [`ElfFile::parse`], but a file whose section table is damaged has no sections: programs run without one.
    pub(super) fn parse_program(source: Source, limits: &ElfLimits) -> Result<Self, ElfError> {
        let header = ElfHeader::read(&source)?;
        let sections = match Section::read_all(&source, &header, limits) {
            Err(too_large @ ElfError::TooLarge { .. }) => return Err(too_large),
            sections => sections.unwrap_or_default(),
        };
        Ok(Self { source, header, sections, limits: limits.clone() })
    }

    /// What was read so far.
    pub(super) fn into_headers(self) -> (ElfHeader, Vec<Section>) {
        (self.header, self.sections)
    }

    /// A file of which this was read.
    pub(super) fn with_headers(
        source: Source,
        header: ElfHeader,
        sections: Vec<Section>,
        limits: &ElfLimits,
    ) -> Self {
        ElfFile { source, header, sections, limits: limits.clone() }
    }

    /// 64-bit class (else 32-bit).
    pub(crate) fn is_64(&self) -> bool {
        self.header.is_64
    }

    /// Whether its code is for x86-64 (x32 included).
    pub(crate) fn is_x86_64(&self) -> bool {
        self.header.machine == elf::EM_X86_64.0
    }

    /// Returns the source of its bytes.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The limits that it is read within.
    pub(crate) fn limits(&self) -> &ElfLimits {
        &self.limits
    }

    /// All sections, in file order.
    pub(crate) fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The first section of a name.
    pub(crate) fn section(&self, name: &[u8]) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Addresses of the sections that hold code, sorted. In a file of debug information they have no bytes.
    pub(crate) fn code_ranges(&self) -> Vec<Range<u64>> {
        let code = self.sections.iter().filter(|section| section.is_code());
        let mut ranges: Vec<_> = code.map(Section::range).collect();
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges
    }

    /// The GNU build ID in its notes, 1 to 64 bytes.
    pub(crate) fn build_id(&self) -> Option<Vec<u8>> {
        let notes = self.sections.iter().filter(|section| section.kind == elf::SHT_NOTE.0);
        let read = |section: &Section| {
            self.part(section, "note", 0, section.size.min(MAX_NOTE_BYTES), MAX_NOTE_BYTES)
        };
        notes.filter_map(|section| read(section).ok()).find_map(|notes| notes::build_id(&notes))
    }

    /// The stored bytes `start..start + size` of a section that is not compressed. `what` names them for messages, `limit` is
    /// the largest `size` allowed.
    pub(crate) fn part(
        &self,
        section: &Section,
        what: &'static str,
        start: u64,
        size: u64,
        limit: u64,
    ) -> Result<Vec<u8>, ElfError> {
        if !section.has_bytes() || start.checked_add(size).is_none_or(|end| end > section.size) {
            return Err(ElfError::Malformed("a table lies outside of its section"));
        }
        let offset = section.file_offset.checked_add(start).ok_or(ElfError::Malformed("section offset"))?;
        self.source.read(what, offset, size, limit)
    }

    /// Returns the place of the bytes of a section. `what` names it for messages.
    pub(crate) fn contents(&self, section: &Section, what: &'static str) -> Result<Contents, ElfError> {
        section.contents(&self.source, self.is_64(), what, &self.limits)
    }

    /// The whole content of a section, unpacked; nothing for one that has no bytes in the file.
    ///
    /// # Errors
    ///
    /// The section lies outside the file, cannot be read or unpacked, or is larger than the limit.
    pub(crate) fn section_bytes(&self, section: &Section) -> Result<Vec<u8>, ElfError> {
        const WHAT: &str = "a section";
        if !section.has_bytes() {
            return Ok(Vec::new());
        }
        let Contents { format, range, len } = self.contents(section, WHAT)?;
        let data =
            self.source.read(WHAT, range.start, range.end - range.start, self.limits.max_section_bytes)?;
        if format == CompressionFormat::None {
            return Ok(data);
        }
        let packed = CompressedData { format, data: &data, uncompressed_size: len };
        let bytes =
            packed.decompress().map_err(|_| ElfError::Malformed("a section that cannot be decompressed"))?;
        Ok(bytes.into_owned())
    }

    /// Bytes of a section when it is unpacked, as it claims.
    pub(crate) fn unpacked_bytes(&self, section: &Section) -> u64 {
        self.contents(section, "a section").map_or(section.size, |contents| contents.len)
    }
}
