//! Names of the stubs through which a program calls functions of other modules: `foo@plt`. x86-64 only.
//!
//! A stub jumps through a slot of the GOT (`jmp *disp(%rip)`), or pushes the index of its relocation
//! (`push $index`, in `.plt` of files that also have `.plt.sec`). Both lead to a relocation, which
//! names the symbol: psABI for x86-64, "Procedure Linkage Table".

use crate::elf::ElfError;
use crate::elf::fields::Fields;
use crate::elf::{ElfFile, Section as SectionHeader};
use crate::symbols::error::SymbolError;
use crate::symbols::limits::NamingLimits;
use crate::symbols::sections::section::{SectionData, Store};
use crate::symbols::work::{Charge, Work};
use rustc_hash::FxHashMap;
use std::sync::Arc;

const SHT_RELA: u32 = 4;
const RELA_BYTES: u64 = 24;
const SYM_BYTES: usize = 24;
/// Relocations read at a time.
const CHUNK_ROWS: u64 = 1 << 14;
/// Size of a stub: 16 bytes, or 8 in `.plt.got` without endbr64.
const STUB_BYTES: u64 = 16;
/// Most bytes read of one table of relocations: more than any real file has.
const MAX_TABLE_BYTES: u64 = 256 << 20;
/// Memory in bytes of one entry of the map from slots to symbols.
const SLOT_BYTES: u64 = 32;

/// The stubs of one module; the relocations that name them are read when the first one is asked for.
#[derive(Debug, Default)]
pub(crate) struct Stubs {
    /// The relocations, once read. `None` inside: they cannot be read.
    relocations: Option<Option<Relocations>>,
}

impl Stubs {
    /// The name of the stub at `address`, if it lies in a PLT.
    pub(crate) fn name(
        &mut self,
        image: &ElfFile,
        address: u64,
        limits: &NamingLimits,
        work: &Arc<Work>,
    ) -> Option<String> {
        if !image.is_64() || !image.is_x86_64() {
            return None;
        }
        let names = [&b".plt.sec"[..], b".plt.got", b".plt"];
        let mut sections = names.iter().filter_map(|name| image.section(name));
        let section = sections.find(|section| section.has_bytes() && section.range().contains(&address))?;
        if self.relocations.is_none() {
            let relocations = Relocations::read(image, limits, work);
            if matches!(relocations, Err(SymbolError::Stopped)) {
                // Try again on the next call.
                return None;
            }
            self.relocations = Some(relocations.ok());
        }
        let relocations = self.relocations.as_ref()?.as_ref()?;
        stub_name(image, section, address, relocations)
    }
}

/// Decodes the stub around `address`.
fn stub_name(
    image: &ElfFile,
    section: &SectionHeader,
    address: u64,
    relocations: &Relocations,
) -> Option<String> {
    let size = if section.entry_size == 8 { 8 } else { STUB_BYTES };
    let start = (address - section.address) / size * size;
    let stub = image.part(section, "PLT", start, size.min(section.size - start), size).ok()?;
    let symbol = match stub.windows(2).position(|bytes| bytes == [0xff, 0x25]) {
        Some(jump) => {
            let displacement = i64::from(Fields(&stub).u32(jump + 2)? as i32);
            let next = section.address.wrapping_add(start + jump as u64 + 6);
            *relocations.by_slot.get(&next.wrapping_add_signed(displacement))?
        }
        None => {
            // `endbr64` and `bnd` may surround the push.
            let push = if stub.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
            let index = (*stub.get(push)? == 0x68).then(|| Fields(&stub).u32(push + 1))??;
            *relocations.plt.get(index as usize)?
        }
    };
    relocations.name(symbol).map(|name| format!("{name}@plt"))
}

/// Relocations that fill GOT slots, and the tables that name their symbols.
#[derive(Debug)]
struct Relocations {
    /// Address of a slot to index of a dynamic symbol.
    by_slot: FxHashMap<u64, u32>,
    /// Symbol indices of `.rela.plt`, in order.
    plt: Vec<u32>,
    symbols: SectionData,
    strings: SectionData,
    max_name_bytes: usize,
    charge: Charge,
}

impl Relocations {
    fn read(image: &ElfFile, limits: &NamingLimits, work: &Arc<Work>) -> Result<Self, SymbolError> {
        let symbols = image.section(b".dynsym").ok_or(ElfError::Malformed("no dynamic symbols"))?;
        let strings = (image.sections().get(symbols.link as usize))
            .ok_or(ElfError::Malformed("symbol table without string table"))?;
        let open = |section, what| {
            let contents = image.contents(section, what)?;
            let len = contents.len;
            SectionData::new(Store::open(image.source(), contents, work)?, len, limits.max_rereads, work)
        };
        let mut relocations = Relocations {
            by_slot: FxHashMap::default(),
            plt: Vec::new(),
            symbols: open(symbols, "dynamic symbols")?,
            strings: open(strings, "symbol names")?,
            max_name_bytes: limits.max_name_bytes,
            charge: Charge::none(work),
        };
        for (name, is_plt) in [(&b".rela.plt"[..], true), (b".rela.dyn", false)] {
            if let Some(section) = image.section(name).filter(|section| section.kind == SHT_RELA) {
                relocations.add(image, section, is_plt, work)?;
            }
        }
        Ok(relocations)
    }

    fn add(
        &mut self,
        image: &ElfFile,
        section: &SectionHeader,
        is_plt: bool,
        work: &Work,
    ) -> Result<(), SymbolError> {
        let what = "relocations";
        let count = section.size / RELA_BYTES;
        if section.size > MAX_TABLE_BYTES {
            return Err(ElfError::TooLarge { what, size: section.size, limit: MAX_TABLE_BYTES }.into());
        }
        for first in (0..count).step_by(CHUNK_ROWS as usize) {
            if work.is_late() {
                return Err(SymbolError::Stopped);
            }
            let size = CHUNK_ROWS.min(count - first) * RELA_BYTES;
            let rows = image.part(section, what, first * RELA_BYTES, size, u64::MAX)?;
            let rows = rows.chunks_exact(RELA_BYTES as usize);
            let rows = rows.filter_map(|row| Some((Fields(row).u64(0)?, (Fields(row).u64(8)? >> 32) as u32)));
            // Most relocations of a library have no symbol.
            let wanted: Vec<(u64, u32)> = rows.filter(|(_, symbol)| is_plt || *symbol != 0).collect();
            self.charge.add(wanted.len() as u64 * SLOT_BYTES)?;
            for (slot, symbol) in wanted {
                if is_plt {
                    self.plt.push(symbol);
                }
                if symbol != 0 {
                    self.by_slot.entry(slot).or_insert(symbol);
                }
            }
        }
        Ok(())
    }

    fn name(&self, symbol: u32) -> Option<String> {
        let at = (symbol as usize).checked_mul(SYM_BYTES)?;
        let mut offset = [0; 4];
        for (byte, at) in offset.iter_mut().zip(at..) {
            *byte = *self.symbols.slice_at(at)?.first()?;
        }
        let name = self.strings.c_string(u32::from_le_bytes(offset) as usize, self.max_name_bytes)?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(&name).into_owned())
    }
}
