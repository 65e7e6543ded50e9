//! The header of an ELF file: what it is, and where its tables lie. Format: the System V gABI, "ELF Header".

use super::error::ElfError;
use super::fields::Fields;
use super::source::Source;
use object::elf;
use serde::{Deserialize, Serialize};

/// A table of headers, as the file's own header describes it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct HeaderTable {
    /// File offset, bytes; 0 if there is no table.
    pub(super) offset: u64,
    /// Bytes of one entry.
    pub(super) entry_size: u64,
    /// Entries; 0 in a section table of more than 65,279, which has the number in its first entry.
    pub(super) count: u64,
}

/// A checked header.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ElfHeader {
    /// 64-bit class (else 32-bit).
    pub(super) is_64: bool,
    /// The processor (`e_machine`).
    pub(super) machine: u16,
    /// Kind of file (`e_type`).
    pub(super) kind: u16,
    /// The module's own address of its first instruction; 0 if it has none.
    pub(super) entry: u64,
    pub(super) segments: HeaderTable,
    pub(super) sections: HeaderTable,
    /// Which section has the names of sections; 0xffff (`SHN_XINDEX`) if the first entry of the table has the number.
    pub(super) section_names: u16,
}

impl ElfHeader {
    /// Reads it. Only little-endian files are known.
    pub(super) fn read(source: &Source) -> Result<Self, ElfError> {
        let bytes = source.read("ELF header", 0, source.len().min(64), 64)?;
        if !bytes.starts_with(&elf::ELFMAG) {
            return Err(ElfError::NotElf);
        }
        let fields = Fields(&bytes);
        let is_64 = match bytes.get(4).map(|&class| elf::FileClass(class)) {
            Some(elf::ELFCLASS64) => true,
            Some(elf::ELFCLASS32) => false,
            _ => return Err(ElfError::Malformed("unknown class")),
        };
        if bytes.get(5) != Some(&elf::ELFDATA2LSB.0) {
            return Err(ElfError::ForeignMachine(fields.u16(18).map_or(0, u16::swap_bytes)));
        }
        Self::parse(fields, is_64).ok_or(ElfError::Malformed("the file ends inside its header"))
    }

    fn parse(fields: Fields<'_>, is_64: bool) -> Option<Self> {
        // From here on all fields are of two bytes.
        let counts = if is_64 { 54 } else { 42 };
        let table = |offset, sizes| {
            let (entry_size, count) = (fields.u16(sizes)?, fields.u16(sizes + 2)?);
            Some(HeaderTable { offset, entry_size: entry_size.into(), count: count.into() })
        };
        Some(Self {
            is_64,
            machine: fields.u16(18)?,
            kind: fields.u16(16)?,
            entry: fields.word(is_64, 24, 24)?,
            segments: table(fields.word(is_64, 28, 32)?, counts)?,
            sections: table(fields.word(is_64, 32, 40)?, counts + 4)?,
            section_names: fields.u16(counts + 8)?,
        })
    }
}
