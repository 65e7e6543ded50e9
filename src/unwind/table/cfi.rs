//! The call frame information of one module: its raw sections, and the index of their entries.
//!
//! Formats: `.eh_frame` as in the Linux Standard Base, `.debug_frame` as in DWARF 5 §6.4.

use super::cfi_entry::parse_fde;
use crate::elf::Architecture;
use crate::elf::ElfError;
use crate::elf::fields::Fields;
use crate::elf::{ElfImage, Section};
use crate::unwind::table::cfi_entry::{Bytes, EntryIn, EntryOffsets};
use gimli::{BaseAddresses, DebugFrame, EhFrame, LittleEndian, UnwindSection};
use object::elf;
use std::sync::OnceLock;

/// The unwind sections of a module, as bytes. Ten megabytes for a large library: load it only to compile
/// a table or to evaluate a rule that the table cannot hold, and drop it.
#[derive(Debug, Default)]
pub struct CfiSections {
    architecture: Architecture,
    eh_frame: Vec<u8>,
    debug_frame: Vec<u8>,
    bases: BaseAddresses,
    /// Built when first asked for: by start address, one entry per address.
    index: OnceLock<Vec<IndexEntry>>,
}

/// One FDE and the code that it covers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexEntry {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) section: EntryIn,
    pub(crate) offsets: EntryOffsets,
}

impl CfiSections {
    /// Reads `.eh_frame` and `.debug_frame`. Each may be missing; then it is empty.
    ///
    /// # Errors
    ///
    /// A section cannot be read or unpacked, or is larger than the limit.
    pub fn load(image: &ElfImage) -> Result<Self, ElfError> {
        let mut bases = BaseAddresses::default();
        let mut eh_frame = Vec::new();
        if let Some(section) = image.section(b".eh_frame").filter(is_filled) {
            eh_frame = image.section_bytes(section)?;
            bases = bases.set_eh_frame(section.address);
        } else if let Some((address, bytes)) = eh_frame_by_header(image) {
            eh_frame = bytes;
            bases = bases.set_eh_frame(address);
        }
        if let Some(section) = image.section(b".text") {
            bases = bases.set_text(section.address);
        }
        if let Some(section) = image.section(b".got") {
            bases = bases.set_got(section.address);
        }
        let debug_frame = debug_frame_of(image)?;
        let architecture = image.architecture();
        Ok(Self { architecture, eh_frame, debug_frame, bases, index: OnceLock::new() })
    }

    /// Memory that loading these sections and evaluating their entries takes, bytes: of the shortest entries that there
    /// can be, a byte makes three.
    pub(crate) fn memory_bytes(image: &ElfImage) -> u64 {
        let names = [&b".eh_frame"[..], b".debug_frame", b".zdebug_frame"];
        let sections = names.iter().filter_map(|name| image.section(name)).filter(is_filled);
        let bytes = sections.map(|section| image.unpacked_bytes(section));
        bytes.fold(0, u64::saturating_add).saturating_mul(4)
    }

    /// Whether a separate debug file may know more: there is next to nothing here.
    pub(crate) fn lacks_entries(&self, image: &ElfImage) -> bool {
        /// Entries take at least this part of the code that they describe; usually it is a tenth.
        const LEAST_PART: u64 = 50;
        let code: u64 = image.segments().iter().filter(|s| s.is_executable).map(|s| s.file_size).sum();
        self.debug_frame.is_empty() && (self.eh_frame.len() as u64) < code / LEAST_PART
    }

    /// Takes `.debug_frame` from the module's separate debug file.
    ///
    /// # Errors
    ///
    /// The section cannot be read or unpacked, or is larger than the limit; then nothing has changed.
    pub(crate) fn add_debug_frame(&mut self, debug_file: &ElfImage) -> Result<(), ElfError> {
        self.debug_frame = debug_frame_of(debug_file)?;
        self.index = OnceLock::new();
        Ok(())
    }

    /// Takes bytes of x86-64 entries that are already there. `eh_frame_address` is the module's own address of `.eh_frame`.
    #[cfg(test)]
    pub(crate) fn from_bytes(eh_frame: Vec<u8>, eh_frame_address: u64, debug_frame: Vec<u8>) -> Self {
        let bases = BaseAddresses::default().set_eh_frame(eh_frame_address);
        Self { architecture: Architecture::X86_64, eh_frame, debug_frame, bases, index: OnceLock::new() }
    }

    /// The bytes of `.eh_frame` and `.debug_frame`.
    pub(crate) fn bytes(&self) -> [&[u8]; 2] {
        [&self.eh_frame, &self.debug_frame]
    }

    pub(crate) fn bases(&self) -> &BaseAddresses {
        &self.bases
    }

    pub(crate) fn eh_frame(&self) -> EhFrame<Bytes<'_>> {
        let mut section = EhFrame::new(&self.eh_frame, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(self.architecture.vendor());
        section
    }

    pub(crate) fn debug_frame(&self) -> DebugFrame<Bytes<'_>> {
        let mut section = DebugFrame::new(&self.debug_frame, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(self.architecture.vendor());
        section
    }

    /// The entry that covers one of the module's own addresses. `.eh_frame` goes before `.debug_frame`.
    pub(crate) fn entry_at(&self, address: u64) -> Option<&IndexEntry> {
        let index = self.index.get_or_init(|| self.build_index());
        let after = index.partition_point(|entry| entry.start <= address);
        index.get(after.checked_sub(1)?).filter(|entry| address < entry.end)
    }

    /// Whether some entry covers one of the module's own addresses.
    pub(crate) fn has_entry(&self, address: u64) -> bool {
        self.entry_at(address).is_some()
    }

    /// Returns the start of the function around one of the module's own addresses, as far as unwind entries tell.
    pub(crate) fn function_start(&self, address: u64) -> Option<u64> {
        self.entry_at(address).map(|entry| entry.start)
    }

    /// Returns the starts and ends of functions, as far as unwind entries tell, by start.
    pub(crate) fn function_ranges(&self) -> Vec<(u64, u64)> {
        let index = self.index.get_or_init(|| self.build_index());
        index.iter().map(|entry| (entry.start, entry.end)).collect()
    }

    fn build_index(&self) -> Vec<IndexEntry> {
        let mut index = Vec::new();
        let entries = self.eh_frame_entries();
        add_to_index(&mut index, &self.eh_frame(), &self.bases, &entries, EntryIn::EhFrame);
        let entries = self.debug_frame_entries();
        add_to_index(&mut index, &self.debug_frame(), &self.bases, &entries, EntryIn::DebugFrame);
        index.sort_by_key(|entry| (entry.start, entry.section == EntryIn::DebugFrame, u64::MAX - entry.end));
        index.dedup_by_key(|entry| entry.start);
        index
    }

    /// All FDEs of `.eh_frame`, in file order.
    pub(super) fn eh_frame_entries(&self) -> Vec<EntryOffsets> {
        entries(&self.eh_frame, |id, id_at, _| (id != 0).then(|| id_at.checked_sub(id)))
    }

    /// All FDEs of `.debug_frame`, in file order.
    pub(super) fn debug_frame_entries(&self) -> Vec<EntryOffsets> {
        entries(&self.debug_frame, |id, _, is_64| {
            let is_cie = id == if is_64 { usize::MAX } else { u32::MAX as usize };
            (!is_cie).then_some(Some(id))
        })
    }
}

fn is_filled(section: &&Section) -> bool {
    section.kind != elf::SHT_NOBITS.0 && section.size > 0
}

/// `.debug_frame`, or what old tools call it when they compress it; empty if there is none.
fn debug_frame_of(image: &ElfImage) -> Result<Vec<u8>, ElfError> {
    let section = image.section(b".debug_frame").or_else(|| image.section(b".zdebug_frame"));
    section.filter(is_filled).map_or(Ok(Vec::new()), |section| image.section_bytes(section))
}

fn add_to_index<'a, S: UnwindSection<Bytes<'a>>>(
    index: &mut Vec<IndexEntry>,
    section: &S,
    bases: &BaseAddresses,
    entries: &[EntryOffsets],
    kind: EntryIn,
) {
    for &offsets in entries {
        let Ok(fde) = parse_fde(section, bases, offsets) else { continue };
        let (start, end) = (fde.initial_address(), fde.end_address());
        if start != 0 && end > start {
            index.push(IndexEntry { start, end, section: kind, offsets });
        }
    }
}

/// Finds `.eh_frame` from `PT_GNU_EH_FRAME`, for images without section headers (such as those read from
/// a process's memory). The section's end is not recorded there; its zero terminator ends it.
fn eh_frame_by_header(image: &ElfImage) -> Option<(u64, Vec<u8>)> {
    let segment = image.eh_frame_hdr()?;
    let header = image.read_address(segment.address, segment.file_size.min(8)).ok()?;
    // Version 1, and `.eh_frame`'s address as four signed bytes relative to that field: what all linkers write.
    const SDATA4_PCREL: u8 = 0x1b;
    if header.first() != Some(&1) || header.get(1) != Some(&SDATA4_PCREL) {
        return None;
    }
    let distance = i64::from(Fields(&header).u32(4)?.cast_signed());
    let address = segment.address.checked_add(4)?.checked_add_signed(distance)?;
    let holder =
        image.segments().iter().find(|s| s.address <= address && address - s.address < s.file_size)?;
    let size = (holder.file_size - (address - holder.address)).min(image.limits().max_section_bytes);
    Some((address, image.read_address(address, size).ok()?))
}

/// Walks the length fields of an unwind section. `cie_of(id, offset of the id, is 64-bit)` is `None` for a
/// CIE, else the offset of the FDE's CIE, if that can be.
fn entries(
    section: &[u8],
    cie_of: impl Fn(usize, usize, bool) -> Option<Option<usize>>,
) -> Vec<EntryOffsets> {
    let fields = Fields(section);
    let mut found: Vec<EntryOffsets> = Vec::new();
    let mut at = 0usize;
    while let Some(length) = fields.u32(at) {
        let is_64 = length == u32::MAX;
        let (length, body) = if is_64 {
            let Some(length) = fields.u64(at + 4).and_then(|length| usize::try_from(length).ok()) else {
                break;
            };
            (length, at + 12)
        } else {
            (length as usize, at + 4)
        };
        if length == 0 {
            // A terminator. Linkers that do not order their inputs leave some in the middle.
            at = body;
            continue;
        }
        let Some(end) = body.checked_add(length).filter(|&end| end <= section.len()) else { break };
        let id = if is_64 {
            fields.u64(body).map(|id| id as usize)
        } else {
            fields.u32(body).map(|id| id as usize)
        };
        // In `.eh_frame` the id is four bytes even after a 64-bit length in some producers; gimli reads
        // eight, and such entries fail there. None has been seen.
        if let Some(Some(cie)) = id.and_then(|id| cie_of(id, body, is_64)) {
            if found.len() == found.capacity() {
                // To double a list of millions would take more than all the rest.
                found.reserve_exact((found.len() / 4).max(1 << 12));
            }
            found.push(EntryOffsets { fde: at, cie });
        }
        at = end;
    }
    found
}
