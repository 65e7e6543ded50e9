//! The section table of an ELF file, and where the bytes of its sections are, packed or not. Format: the System V gABI,
//! "Sections" and "Compressed Sections".

use super::error::ElfError;
use super::fields::{Fields, c_string};
use super::header::ElfHeader;
use super::limits::ElfLimits;
use super::source::Source;
use object::elf;
use object::read::CompressionFormat;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Section names longer than this are cut, bytes: no section looked for has one, and 65,536 of them stay small.
const MAX_NAME_BYTES: usize = 64;
/// A longer table of section names is refused, bytes: 65,536 names of some length.
const MAX_NAMES_BYTES: u64 = 16 << 20;
/// Compressed sections that unpack to no more than this are not checked for inflation, bytes.
const SMALL_BYTES: u64 = 1 << 20;

/// One section header, with its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The name, as bytes.
    pub(crate) name: Vec<u8>,
    /// The ELF section type (`sh_type`).
    pub(crate) kind: u32,
    /// The ELF section flags (`sh_flags`).
    pub flags: u64,
    /// The module's own address of the first byte, or 0 for a section that is not loaded.
    pub address: u64,
    /// Start of the section in the file, in bytes.
    pub file_offset: u64,
    /// Size in the file, in bytes (packed if the section is).
    pub size: u64,
    /// The index of the section that this one refers to (`sh_link`).
    pub(crate) link: u32,
    /// Bytes of one entry, for tables of entries of one size (`sh_entsize`).
    pub(crate) entry_size: u64,
}

/// Place and packing of the bytes of a section.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    pub(crate) format: CompressionFormat,
    /// Bytes of the file.
    pub(crate) range: Range<u64>,
    /// Length when unpacked, bytes.
    pub(crate) len: u64,
}

impl Section {
    /// Whether the file holds bytes for this section.
    pub(crate) fn has_bytes(&self) -> bool {
        self.kind != elf::SHT_NOBITS.0 && self.size > 0
    }

    /// Whether it is loaded, and holds code.
    pub(crate) fn is_code(&self) -> bool {
        let wanted = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
        self.flags & wanted == wanted && self.size > 0
    }

    /// The module's own addresses that it covers.
    pub(crate) fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.size)
    }

    /// A section header without its name, and the offset of the name.
    fn parse(fields: Fields<'_>, is_64: bool) -> Option<(Self, u32)> {
        let section = Self {
            name: Vec::new(),
            kind: fields.u32(4)?,
            flags: fields.word(is_64, 8, 8)?,
            address: fields.word(is_64, 12, 16)?,
            file_offset: fields.word(is_64, 16, 24)?,
            size: fields.word(is_64, 20, 32)?,
            link: fields.u32(if is_64 { 40 } else { 24 })?,
            entry_size: fields.word(is_64, 36, 56)?,
        };
        Some((section, fields.u32(0)?))
    }

    /// Reads all of them, in file order; none where the file has no section table.
    pub(super) fn read_all(
        source: &Source,
        header: &ElfHeader,
        limits: &ElfLimits,
    ) -> Result<Vec<Self>, ElfError> {
        const WHAT: &str = "section table";
        let table = header.sections;
        if table.offset == 0 {
            return Ok(Vec::new());
        }
        if table.entry_size != if header.is_64 { 64 } else { 40 } {
            return Err(ElfError::Malformed("section headers of an unknown size"));
        }
        let parse = |row: &[u8]| Self::parse(Fields(row), header.is_64);
        let first = source.read(WHAT, table.offset, table.entry_size, u64::MAX)?;
        let (first, _) = parse(&first).ok_or(ElfError::Malformed("section table"))?;
        // More sections than 16 bits can say: the numbers are in the first, otherwise unused, row.
        let count = if table.count == 0 { first.size } else { table.count };
        let names = match header.section_names {
            0xffff => first.link,
            names => names.into(),
        };
        let limit = limits.max_sections as u64;
        if count > limit {
            return Err(ElfError::TooLarge { what: "the number of sections", size: count, limit });
        }
        let rows = source.read(WHAT, table.offset, count * table.entry_size, u64::MAX)?;
        let rows: Vec<_> = rows.chunks_exact(table.entry_size as usize).filter_map(parse).collect();
        let strings = match rows.get(names as usize) {
            Some((row, _)) if row.has_bytes() => {
                source.read("section names", row.file_offset, row.size, MAX_NAMES_BYTES)?
            }
            _ => return Err(ElfError::Malformed("no section names")),
        };
        let name = |at: u32| {
            let name = c_string(&strings, at as usize).unwrap_or_default();
            name[..name.len().min(MAX_NAME_BYTES)].to_vec()
        };
        Ok(rows.into_iter().map(|(row, at)| Self { name: name(at), ..row }).collect())
    }

    /// Returns the place of its bytes. A section that takes no room on disk is damaged. `what` names it for messages.
    pub(super) fn contents(
        &self,
        source: &Source,
        is_64: bool,
        what: &'static str,
        limits: &ElfLimits,
    ) -> Result<Contents, ElfError> {
        let end = self.file_offset.checked_add(self.size).filter(|&end| end <= source.len());
        let Some(end) = end.filter(|_| self.has_bytes()) else {
            return Err(ElfError::Malformed("a section lies outside the file"));
        };
        let limit = limits.max_section_bytes;
        if self.size > limit {
            return Err(ElfError::TooLarge { what, size: self.size, limit });
        }
        if source.is_hole(self.file_offset, self.size) {
            return Err(ElfError::Malformed("a section was never written to disk"));
        }
        let start = source.read(what, self.file_offset, self.size.min(24), 24)?;
        let Some((format, header, len)) = self.packing(&start, is_64)? else {
            let range = self.file_offset..end;
            return Ok(Contents { format: CompressionFormat::None, range, len: self.size });
        };
        let packed = self.size.checked_sub(header).ok_or(ElfError::Malformed("compressed section"))?;
        let limit = limit.min(packed.saturating_mul(limits.max_inflation).max(SMALL_BYTES));
        if len > limit {
            return Err(ElfError::TooLarge { what, size: len, limit });
        }
        Ok(Contents { format, range: self.file_offset + header..end, len })
    }

    /// Returns its packing, the number of bytes before the packed ones, and of bytes when unpacked, as its first bytes say;
    /// `None` if it is not packed.
    fn packing(&self, start: &[u8], is_64: bool) -> Result<Option<(CompressionFormat, u64, u64)>, ElfError> {
        let fields = Fields(start);
        let packing = if self.flags & elf::SHF_COMPRESSED.0 != 0 {
            let format = match fields.u32(0) {
                Some(kind) if kind == elf::ELFCOMPRESS_ZLIB.0 => CompressionFormat::Zlib,
                Some(kind) if kind == elf::ELFCOMPRESS_ZSTD.0 => CompressionFormat::Zstandard,
                _ => return Err(ElfError::Malformed("a section with an unknown compression")),
            };
            (format, if is_64 { 24 } else { 12 }, fields.word(is_64, 4, 8))
        } else if self.name.starts_with(b".zdebug") && start.starts_with(b"ZLIB") {
            // The older GNU form: magic, the size with its high byte first, zlib stream.
            (CompressionFormat::Zlib, 12, fields.u64(4).map(u64::swap_bytes))
        } else {
            return Ok(None);
        };
        match packing {
            (format, header, Some(len)) => Ok(Some((format, header, len))),
            _ => Err(ElfError::Malformed("a compressed section without a header")),
        }
    }
}
