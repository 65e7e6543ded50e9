//! The program headers of an ELF file: what the kernel and the dynamic linker map and read. Format: the System V gABI,
//! "Program Header".

use super::dynamic::Dynamic;
use super::error::ElfError;
use super::fields::{Fields, MAX_PATH_BYTES, c_string};
use super::header::ElfHeader;
use super::limits::ElfLimits;
use super::notes::{self, MAX_NOTE_BYTES};
use super::source::Source;
use object::elf;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Bytes of a dynamic section that are looked at.
const MAX_DYNAMIC_BYTES: u64 = 1 << 20;

/// One program header. Offsets are in the file, addresses are the module's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Start of the segment in the file, in bytes.
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
    /// The address after the segment's last byte. Cannot overflow: such segments are refused.
    pub fn end(&self) -> u64 {
        self.address + self.memory_size
    }

    fn parse(fields: Fields<'_>) -> Option<Self> {
        Some(Self {
            file_offset: fields.u64(8)?,
            address: fields.u64(16)?,
            file_size: fields.u64(32)?,
            memory_size: fields.u64(40)?,
            is_executable: fields.u32(4)? & elf::PF_X.0 != 0,
        })
    }

    fn is_possible(&self) -> bool {
        self.address.checked_add(self.memory_size).is_some()
            && self.file_offset.checked_add(self.file_size).is_some()
    }
}

/// Facts that the program headers of a 64-bit file tell.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Segments {
    /// The `PT_LOAD` segments, in file order.
    pub(super) loaded: Vec<Segment>,
    /// `PT_GNU_EH_FRAME`.
    pub(super) eh_frame_hdr: Option<Segment>,
    /// `PT_INTERP`.
    pub(super) interpreter: Option<OsString>,
    /// The GNU build ID in the notes.
    pub(super) build_id: Option<Vec<u8>>,
    /// `PT_DYNAMIC`.
    pub(super) dynamic: Dynamic,
}

impl Segments {
    /// Reads them. A file may have none.
    pub(super) fn read(source: &Source, header: &ElfHeader, limits: &ElfLimits) -> Result<Self, ElfError> {
        let table = header.segments;
        let mut segments = Self::default();
        if table.offset == 0 || table.count == 0 {
            return Ok(segments);
        }
        if table.entry_size != 56 {
            return Err(ElfError::Malformed("program headers of an unknown size"));
        }
        let limit = limits.max_segments as u64;
        if table.count > limit {
            return Err(ElfError::TooLarge { what: "the number of segments", size: table.count, limit });
        }
        let rows = source.read("program headers", table.offset, table.count * 56, u64::MAX)?;
        let mut dynamic = None;
        for (kind, segment) in
            rows.chunks_exact(56).map(Fields).filter_map(|row| Some((row.u32(0)?, Segment::parse(row)?)))
        {
            if !segment.is_possible() {
                return Err(ElfError::Malformed("a segment beyond the end of the address space"));
            }
            let bytes = |max: u64| {
                source.read("a segment", segment.file_offset, segment.file_size.min(max), max).ok()
            };
            match kind {
                _ if kind == elf::PT_LOAD.0 => segments.loaded.push(segment),
                _ if kind == elf::PT_DYNAMIC.0 => dynamic = bytes(MAX_DYNAMIC_BYTES),
                _ if kind == elf::PT_GNU_EH_FRAME.0 => segments.eh_frame_hdr = Some(segment),
                _ if kind == elf::PT_INTERP.0 && segment.file_size <= MAX_PATH_BYTES => {
                    let path = bytes(MAX_PATH_BYTES);
                    let path = path.and_then(|path| c_string(&path, 0).map(<[u8]>::to_vec));
                    segments.interpreter = path.map(OsString::from_vec);
                }
                _ if kind == elf::PT_NOTE.0 && segments.build_id.is_none() => {
                    segments.build_id = bytes(MAX_NOTE_BYTES).and_then(|notes| notes::build_id(&notes));
                }
                _ => {}
            }
        }
        let read = |address, size| segments.bytes_at(source, address, size, limits).ok();
        segments.dynamic = dynamic.and_then(|table| Dynamic::parse(&table, read)).unwrap_or_default();
        Ok(segments)
    }

    /// Whether they can be those of a file, as it is checked when they are read.
    pub(super) fn are_possible(&self, limits: &ElfLimits) -> bool {
        self.loaded.len() <= limits.max_segments
            && self.loaded.iter().chain(&self.eh_frame_hdr).all(Segment::is_possible)
            && self.build_id.as_ref().is_none_or(|id| notes::is_build_id(id))
    }

    /// Bytes at one of the module's own addresses, as far as the file holds them.
    pub(super) fn bytes_at(
        &self,
        source: &Source,
        address: u64,
        size: u64,
        limits: &ElfLimits,
    ) -> Result<Vec<u8>, ElfError> {
        for segment in &self.loaded {
            let Some(distance) = address.checked_sub(segment.address) else { continue };
            if distance.checked_add(size).is_some_and(|end| end <= segment.file_size) {
                let offset = segment.file_offset + distance;
                return source.read("a part of a segment", offset, size, limits.max_section_bytes);
            }
        }
        Err(ElfError::Malformed("an address outside every segment"))
    }
}
