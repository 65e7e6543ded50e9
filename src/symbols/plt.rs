//! Names of the stubs through which a program calls functions of other modules: `foo@plt`. x86-64 only.
//!
//! A stub jumps through a slot of the GOT (`jmp *disp(%rip)`), or pushes the index of its relocation
//! (`push $index`, in `.plt` of files that also have `.plt.sec`). Both lead to a relocation, which
//! names the symbol: psABI for x86-64, "Procedure Linkage Table".

use super::elf::{ElfImage, Section};
use super::source::{c_string, le_u32, le_u64};
use super::{Limits, SymbolError};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

const SHT_RELA: u32 = 4;
const RELA_BYTES: u64 = 24;
const SYM_BYTES: usize = 24;
/// Stubs are 16 bytes, or 8 in `.plt.got` without endbr64.
const STUB_BYTES: u64 = 16;
/// Bytes that are read of the relocations and of the dynamic symbols: more than any real file has.
const MAX_TABLE_BYTES: u64 = 256 << 20;

/// The names of those `addresses` that lie in a PLT.
pub(super) fn stub_names(
    image: &ElfImage<'_>,
    addresses: &[u64],
    limits: &Limits,
) -> Result<FxHashMap<u64, String>, SymbolError> {
    let mut names = FxHashMap::default();
    if !image.is_64 || !image.is_x86_64 {
        return Ok(names);
    }
    let mut relocations = None;
    for section in [&b".plt.sec"[..], b".plt.got", b".plt"].iter().filter_map(|name| image.section(name)) {
        let range = section.range();
        let first = addresses.partition_point(|&address| address < range.start);
        let last = addresses.partition_point(|&address| address < range.end);
        let inside = addresses.get(first..last).unwrap_or_default();
        if inside.is_empty() || !section.has_bytes() {
            continue;
        }
        let relocations = match &mut relocations {
            Some(relocations) => relocations,
            none => none.insert(Relocations::read(image, limits)?),
        };
        let code = image.data(section, "PLT", limits)?;
        for &address in inside {
            if let Some(name) = stub_name(section, &code, address, relocations) {
                names.insert(address, name);
            }
        }
    }
    Ok(names)
}

/// Decodes the stub around `address`.
fn stub_name(section: &Section, code: &[u8], address: u64, relocations: &Relocations<'_>) -> Option<String> {
    let size = if section.entry_size == 8 { 8 } else { STUB_BYTES };
    let start = (address - section.address) / size * size;
    let stub = code.get(start as usize..)?;
    let stub = stub.get(..size as usize).unwrap_or(stub);
    let symbol = match stub.windows(2).position(|bytes| bytes == [0xff, 0x25]) {
        Some(jump) => {
            let displacement = i64::from(le_u32(stub, jump + 2)? as i32);
            let next = section.address.wrapping_add(start + jump as u64 + 6);
            *relocations.by_slot.get(&next.wrapping_add_signed(displacement))?
        }
        None => {
            // `endbr64` and `bnd` may surround the push.
            let push = if stub.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
            let index = (*stub.get(push)? == 0x68).then(|| le_u32(stub, push + 1))??;
            *relocations.plt.get(index as usize)?
        }
    };
    relocations.name(symbol).map(|name| format!("{name}@plt"))
}

/// Relocations that fill GOT slots, and what is needed to name their symbols.
struct Relocations<'a> {
    /// Address of a slot to index of a dynamic symbol.
    by_slot: FxHashMap<u64, u32>,
    /// Symbol indices of `.rela.plt`, in order.
    plt: Vec<u32>,
    symbols: Cow<'a, [u8]>,
    strings: Cow<'a, [u8]>,
    max_name_bytes: usize,
}

impl<'a> Relocations<'a> {
    fn read(image: &ElfImage<'a>, limits: &Limits) -> Result<Self, SymbolError> {
        let symbols = image.section(b".dynsym").ok_or(SymbolError::Damaged("no dynamic symbols"))?;
        let strings = (image.sections.get(symbols.link as usize))
            .ok_or(SymbolError::Damaged("symbol table without string table"))?;
        let mut relocations = Relocations {
            by_slot: FxHashMap::default(),
            plt: Vec::new(),
            symbols: image.part(symbols, "dynamic symbols", 0, symbols.size, MAX_TABLE_BYTES)?,
            strings: image.part(strings, "symbol names", 0, strings.size, MAX_TABLE_BYTES)?,
            max_name_bytes: limits.max_name_bytes,
        };
        for (name, is_plt) in [(&b".rela.plt"[..], true), (b".rela.dyn", false)] {
            let Some(section) = image.section(name).filter(|section| section.kind == SHT_RELA) else {
                continue;
            };
            let size = section.size - section.size % RELA_BYTES;
            let rows = image.part(section, "relocations", 0, size, MAX_TABLE_BYTES)?;
            for row in rows.chunks_exact(RELA_BYTES as usize) {
                let (Some(slot), Some(info)) = (le_u64(row, 0), le_u64(row, 8)) else { continue };
                let symbol = (info >> 32) as u32;
                if is_plt {
                    relocations.plt.push(symbol);
                }
                if symbol != 0 {
                    relocations.by_slot.entry(slot).or_insert(symbol);
                }
            }
        }
        Ok(relocations)
    }

    fn name(&self, symbol: u32) -> Option<String> {
        let offset = le_u32(&self.symbols, (symbol as usize).checked_mul(SYM_BYTES)?)?;
        let name = c_string(&self.strings, offset as usize, self.max_name_bytes)?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }
}
