//! The section table of an ELF file, and where the bytes of its sections are, packed or not.
//!
//! Layouts: System V ABI, "Object Files" (ELF header, section header, compression header, notes).

use super::source::{Source, c_string, le_u16, le_u32, le_u64};
use crate::symbols::error::SymbolError;
use crate::symbols::limits::Limits;
use object::read::CompressionFormat;
use std::ops::Range;

const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;
const SHF_ALLOC: u64 = 2;
const SHF_EXECINSTR: u64 = 4;
const SHF_COMPRESSED: u64 = 0x800;
const SHN_XINDEX: u16 = 0xffff;
const NT_GNU_BUILD_ID: u32 = 3;
const EM_X86_64: u16 = 62;

/// Section names longer than this are cut: no section looked for has one.
const MAX_SECTION_NAME: usize = 64;
/// A longer table of section names is refused, bytes: 65,536 names of the length of a path.
const MAX_SECTION_NAMES_BYTES: u64 = 16 << 20;
/// The longest build ID accepted, bytes (SHA-512; linkers write 8 to 20).
const MAX_BUILD_ID: usize = 64;
/// Compressed sections that unpack to no more than this are not checked for inflation.
const SMALL_SECTION: u64 = 1 << 20;

/// One row of the section table.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) name: Box<[u8]>,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    /// Address in memory of the first byte, as linked.
    pub(crate) address: u64,
    /// File offset, bytes.
    pub(crate) offset: u64,
    /// Bytes in the file (compressed size when compressed).
    pub(crate) size: u64,
    /// Index of a related section; what it means depends on `kind`.
    pub(crate) link: u32,
    /// Size of one entry for tables of fixed-size entries.
    pub(crate) entry_size: u64,
}

impl Section {
    /// Whether the file holds bytes for this section.
    pub(crate) fn has_bytes(&self) -> bool {
        self.kind != SHT_NOBITS && self.size > 0
    }

    /// Addresses covered, as linked.
    pub(crate) fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.size)
    }
}

/// Where the bytes of a section are.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    pub(crate) format: CompressionFormat,
    /// Bytes of the file.
    pub(crate) range: Range<u64>,
    /// Length when unpacked, bytes.
    pub(crate) len: u64,
}

/// A little-endian ELF file whose section table has been read.
#[derive(Debug)]
pub(crate) struct ElfImage {
    source: Source,
    /// 64-bit class (else 32-bit).
    pub(crate) is_64: bool,
    /// Code is for x86-64 (x32 included).
    pub(crate) is_x86_64: bool,
    pub(crate) sections: Vec<Section>,
}

impl ElfImage {
    /// Reads the header and the section table. A file without section table has no sections.
    pub(crate) fn parse(source: Source, limits: &Limits) -> Result<Self, SymbolError> {
        let header = source.read("ELF header", 0, source.len().min(64), 64)?;
        if !header.starts_with(b"\x7fELF") {
            return Err(SymbolError::NotElf);
        }
        let is_64 = match header.get(4) {
            Some(1) => false,
            Some(2) => true,
            _ => return Err(SymbolError::Unsupported("unknown class")),
        };
        if header.get(5) != Some(&1) {
            return Err(SymbolError::Unsupported("not little-endian"));
        }
        let cut = SymbolError::Damaged("the file ends inside its header");
        let fields = || {
            let machine = le_u16(&header, 18)?;
            let (table, sizes) = match is_64 {
                true => (le_u64(&header, 40)?, 58),
                false => (u64::from(le_u32(&header, 32)?), 46),
            };
            let (entry, count, names) =
                (le_u16(&header, sizes)?, le_u16(&header, sizes + 2)?, le_u16(&header, sizes + 4)?);
            Some((machine, table, entry, count, names))
        };
        let (machine, table, entry, count, names) = fields().ok_or(cut)?;
        let mut image = ElfImage { source, is_64, is_x86_64: machine == EM_X86_64, sections: Vec::new() };
        if table != 0 {
            image.read_sections(table, u64::from(entry), count, names, limits)?;
        }
        Ok(image)
    }

    fn read_sections(
        &mut self,
        table: u64,
        entry: u64,
        count: u16,
        names: u16,
        limits: &Limits,
    ) -> Result<(), SymbolError> {
        if entry != if self.is_64 { 64 } else { 40 } {
            return Err(SymbolError::Damaged("unexpected size of section headers"));
        }
        let first = self.source.read("section table", table, entry, entry)?;
        let first = self.section_row(&first).ok_or(SymbolError::Damaged("section table"))?.0;
        // More than 65,279 sections: the real numbers are in the first, otherwise unused, row.
        let count = if count == 0 { first.size } else { u64::from(count) };
        let names = if names == SHN_XINDEX { first.link } else { u32::from(names) };
        if count > u64::from(limits.max_sections) {
            let limit = u64::from(limits.max_sections);
            return Err(SymbolError::TooBig { what: "section table", size: count, limit });
        }
        let rows = self.source.read("section table", table, count * entry, u64::MAX)?;
        let rows: Vec<(Section, u32)> =
            rows.chunks_exact(entry as usize).filter_map(|row| self.section_row(row)).collect();
        let strings = match rows.get(names as usize) {
            Some((row, _)) if row.has_bytes() => {
                self.source.read("section names", row.offset, row.size, MAX_SECTION_NAMES_BYTES)?
            }
            _ => return Err(SymbolError::Damaged("no section names")),
        };
        self.sections = (rows.into_iter())
            .map(|(row, name)| Section {
                name: c_string(&strings, name as usize, MAX_SECTION_NAME).unwrap_or_default().into(),
                ..row
            })
            .collect();
        Ok(())
    }

    /// A section header without its name, and the offset of the name.
    fn section_row(&self, row: &[u8]) -> Option<(Section, u32)> {
        let word = |narrow: usize, wide: usize| match self.is_64 {
            true => le_u64(row, wide),
            false => le_u32(row, narrow).map(u64::from),
        };
        let section = Section {
            name: Box::default(),
            kind: le_u32(row, 4)?,
            flags: word(8, 8)?,
            address: word(12, 16)?,
            offset: word(16, 24)?,
            size: word(20, 32)?,
            link: le_u32(row, if self.is_64 { 40 } else { 24 })?,
            entry_size: word(36, 56)?,
        };
        Some((section, le_u32(row, 0)?))
    }

    /// The first section of that name.
    pub(crate) fn section(&self, name: &[u8]) -> Option<&Section> {
        self.sections.iter().find(|section| *section.name == *name)
    }

    /// Sections that hold code, sorted by address. In a file of debug information they have no bytes.
    pub(crate) fn code_ranges(&self) -> Vec<Range<u64>> {
        let wanted = SHF_ALLOC | SHF_EXECINSTR;
        let mut ranges: Vec<_> = (self.sections.iter())
            .filter(|section| section.flags & wanted == wanted && section.size > 0)
            .map(Section::range)
            .collect();
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges
    }

    /// Where the image is read from.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The stored bytes `start..start + size` of a section that is not compressed.
    pub(crate) fn part(
        &self,
        section: &Section,
        what: &'static str,
        start: u64,
        size: u64,
        limit: u64,
    ) -> Result<Vec<u8>, SymbolError> {
        if !section.has_bytes() || start.checked_add(size).is_none_or(|end| end > section.size) {
            return Err(SymbolError::Damaged("a table lies outside of its section"));
        }
        let offset = section.offset.checked_add(start).ok_or(SymbolError::Damaged("section offset"))?;
        self.source.read(what, offset, size, limit)
    }

    /// Where the bytes of a section are. A section that takes no room on disk is damaged.
    pub(crate) fn contents(
        &self,
        section: &Section,
        what: &'static str,
        limits: &Limits,
    ) -> Result<Contents, SymbolError> {
        let end = section.offset.checked_add(section.size);
        if !section.has_bytes() || end.is_none_or(|end| end > self.source.len()) {
            return Err(SymbolError::Damaged("a table lies outside of the file"));
        }
        let limit = limits.max_section_bytes;
        if section.size > limit {
            return Err(SymbolError::TooBig { what, size: section.size, limit });
        }
        if self.source.is_hole(section.offset, section.size) {
            return Err(SymbolError::Damaged("a table lies in a hole of the file"));
        }
        let start = self.part(section, what, 0, section.size.min(24), 24)?;
        let damaged = SymbolError::Damaged("header of a compressed section");
        let (format, header, unpacked) = if section.flags & SHF_COMPRESSED != 0 {
            let kind = le_u32(&start, 0);
            let (header, size) = match self.is_64 {
                true => (24, le_u64(&start, 8)),
                false => (12, le_u32(&start, 4).map(u64::from)),
            };
            let format = match kind {
                Some(1) => CompressionFormat::Zlib,
                Some(2) => CompressionFormat::Zstandard,
                _ => return Err(SymbolError::Unsupported("unknown compression of a section")),
            };
            (format, header, size.ok_or(damaged)?)
        } else if section.name.starts_with(b".zdebug_") && start.starts_with(b"ZLIB") {
            // The older GNU form: magic, size as a big-endian number, zlib stream.
            let size = start.get(4..12).and_then(|size| size.try_into().ok()).ok_or(damaged)?;
            (CompressionFormat::Zlib, 12, u64::from_be_bytes(size))
        } else {
            let range = section.offset..section.offset + section.size;
            return Ok(Contents { format: CompressionFormat::None, range, len: section.size });
        };
        let packed = section.size.checked_sub(header).ok_or(SymbolError::Damaged("compressed section"))?;
        let inflation_limit = packed.saturating_mul(limits.max_inflation).max(SMALL_SECTION);
        let limit = limit.min(inflation_limit);
        if unpacked > limit {
            return Err(SymbolError::TooBig { what, size: unpacked, limit });
        }
        let range = section.offset + header..section.offset + section.size;
        Ok(Contents { format, range, len: unpacked })
    }

    /// The GNU build ID, when there is one.
    pub(crate) fn build_id(&self) -> Option<Vec<u8>> {
        (self.sections.iter())
            .filter(|section| section.kind == SHT_NOTE && section.size <= 64 << 10)
            .find_map(|section| {
                build_id_in_notes(&self.part(section, "note", 0, section.size, 64 << 10).ok()?)
            })
    }
}

/// Finds the build ID in the bytes of a note section: `{name size, desc size, type, name, desc}`, both
/// padded to four bytes.
fn build_id_in_notes(notes: &[u8]) -> Option<Vec<u8>> {
    let mut at = 0_usize;
    loop {
        let (name_size, desc_size) = (le_u32(notes, at)? as usize, le_u32(notes, at + 4)? as usize);
        let kind = le_u32(notes, at + 8)?;
        let name_at = at + 12;
        let desc_at = name_at.checked_add(name_size.checked_next_multiple_of(4)?)?;
        let desc = notes.get(desc_at..desc_at.checked_add(desc_size)?)?;
        if kind == NT_GNU_BUILD_ID && notes.get(name_at..name_at + name_size) == Some(b"GNU\0") {
            return (1..=MAX_BUILD_ID).contains(&desc_size).then(|| desc.to_vec());
        }
        at = desc_at.checked_add(desc_size.checked_next_multiple_of(4)?)?;
    }
}
