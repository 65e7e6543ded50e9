//! Names of data: of the variable that holds an address, such as a lock.
//!
//! Few addresses of data are ever asked for, so symbol tables are read through for them and nothing is kept. An address belongs
//! to a variable only inside `st_value .. st_value + st_size`: it never gets the neighbour's name.

use crate::elf::fields::{Fields, c_string};
use crate::elf::{ElfFile, Section};
use crate::symbols::demangle;
use crate::symbols::limits::NamingLimits;
use crate::symbols::work::Work;
use rustc_hash::FxHashMap;

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const SHN_UNDEF: u16 = 0;
const STT_OBJECT: u8 = 1;
const STB_LOCAL: u8 = 0;
/// Bytes of one symbol of a 64-bit file.
const SYMBOL_BYTES: u64 = 24;
/// Symbols read at a time.
const CHUNK_SYMBOLS: u64 = 1 << 14;
/// Longer names are left out, bytes.
const MAX_NAME_BYTES: u64 = 4096;

/// A variable that holds an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Variable {
    /// The smallest is the best: a member's own symbol over that of the whole.
    size: u64,
    is_local: bool,
    start: u64,
    name: u32,
}

/// Name of the variable at an address.
#[derive(Debug)]
pub(super) struct DataName {
    /// As people write it.
    pub(super) name: String,
    /// As the symbol table has it.
    pub(super) raw_name: String,
}

/// Names the variables at `addresses` (sorted) by the symbol tables of `images`, the preferred first; those of no variable are
/// left out. A damaged table costs its names only.
pub(super) fn name<'i>(
    images: impl Iterator<Item = &'i ElfFile> + Clone,
    addresses: &[u64],
    limits: &NamingLimits,
    work: &Work,
) -> FxHashMap<u64, DataName> {
    let mut named = FxHashMap::default();
    for kind in [SHT_SYMTAB, SHT_DYNSYM] {
        for image in images.clone().filter(|image| image.is_64()) {
            let wanted: Vec<u64> =
                addresses.iter().copied().filter(|address| !named.contains_key(address)).collect();
            if wanted.is_empty() {
                return named;
            }
            let table = image.sections().iter().find(|section| section.kind == kind && section.has_bytes());
            let Some(table) = table.filter(|table| table.entry_size == SYMBOL_BYTES) else { continue };
            let Some(strings) = image.sections().get(table.link as usize) else { continue };
            for (address, variable) in variables(image, table, &wanted, limits, work) {
                if let Some(name) = name_at(image, strings, variable.name) {
                    named.insert(address, data_name(&name, address - variable.start));
                }
            }
        }
    }
    named
}

/// The best variable of one symbol table for each of `wanted` (sorted); nothing if the table cannot be read whole.
fn variables(
    image: &ElfFile,
    table: &Section,
    wanted: &[u64],
    limits: &NamingLimits,
    work: &Work,
) -> FxHashMap<u64, Variable> {
    let count = table.size / SYMBOL_BYTES;
    let mut found: FxHashMap<u64, Variable> = FxHashMap::default();
    if count > limits.max_symbols || image.source().is_hole(table.file_offset, table.size) {
        return found;
    }
    for first in (0..count).step_by(CHUNK_SYMBOLS as usize) {
        let size = CHUNK_SYMBOLS.min(count - first) * SYMBOL_BYTES;
        let rows = image.part(table, "symbol table", first * SYMBOL_BYTES, size, u64::MAX);
        let Some(rows) = rows.ok().filter(|_| !work.is_late()) else { return FxHashMap::default() };
        for variable in rows.chunks_exact(SYMBOL_BYTES as usize).filter_map(parse) {
            let end = variable.start.saturating_add(variable.size);
            let from = wanted.partition_point(|address| *address < variable.start);
            for &address in wanted[from..].iter().take_while(|address| **address < end) {
                let best = found.entry(address).or_insert(variable);
                *best = variable.min(*best);
            }
        }
    }
    found
}

fn parse(row: &[u8]) -> Option<Variable> {
    let fields = Fields(row);
    let (info, section) = (*row.get(4)?, fields.u16(6)?);
    let variable = Variable {
        size: fields.u64(16)?,
        is_local: info >> 4 == STB_LOCAL,
        start: fields.u64(8)?,
        name: fields.u32(0)?,
    };
    (info & 15 == STT_OBJECT && section != SHN_UNDEF && variable.size > 0).then_some(variable)
}

fn name_at(image: &ElfFile, strings: &Section, offset: u32) -> Option<String> {
    let left = strings.size.checked_sub(offset.into()).filter(|left| *left > 0)?;
    let bytes =
        image.part(strings, "symbol names", offset.into(), left.min(MAX_NAME_BYTES), u64::MAX).ok()?;
    let name = c_string(&bytes, 0)?;
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

/// A variable's name: with the distance of the address from its start, if there is one.
fn data_name(raw_name: &str, distance: u64) -> DataName {
    let within = if distance == 0 { String::new() } else { format!("+{distance:#x}") };
    DataName { name: format!("{}{within}", demangle(raw_name)), raw_name: format!("{raw_name}{within}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_told_apart_by_their_distance() {
        assert_eq!(data_name("locks", 0).name, "locks");
        assert_eq!(data_name("locks", 0x50).name, "locks+0x50");
        let mangled = data_name("_ZN4pool4LOCKE", 8);
        assert_eq!((&*mangled.name, &*mangled.raw_name), ("pool::LOCK+0x8", "_ZN4pool4LOCKE+0x8"));
    }

    #[test]
    fn only_variables_with_a_size_count() {
        let row = |info: u8, section: u16, size: u64| {
            let mut row = vec![0; SYMBOL_BYTES as usize];
            row[4] = info;
            row[6..8].copy_from_slice(&section.to_le_bytes());
            row[16..].copy_from_slice(&size.to_le_bytes());
            parse(&row)
        };
        assert!(row(0x11, 3, 8).is_some_and(|variable| !variable.is_local));
        assert!(row(0x01, 3, 8).is_some_and(|variable| variable.is_local));
        assert_eq!([row(0x12, 3, 8), row(0x11, 0, 8), row(0x11, 3, 0)], [None; 3], "code, undefined, empty");
    }
}
