//! Names from `.symtab` and `.dynsym`.
//!
//! An address belongs to a symbol only inside `st_value .. st_value + st_size`. Symbols of size 0 (hand
//! assembly) reach to the next symbol or the end of their section, whichever comes first. An address
//! that no symbol covers has no name: it never gets the neighbour's.
//!
//! Each function takes 32 bytes; names stay in the file and are read when they are asked for.

use super::problem::NameSource;
use crate::elf::ElfError;
use crate::elf::fields::Fields;
use crate::elf::{ElfFile, Section as SectionHeader};
use crate::symbols::error::SymbolError;
use crate::symbols::limits::NamingLimits;
use crate::symbols::sections::section::{SectionData, Store};
use crate::symbols::sort::sort_by_key;
use crate::symbols::work::{Charge, Work};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xfff1;
const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const STB_GLOBAL: u8 = 1;
const STB_WEAK: u8 = 2;
const STB_GNU_UNIQUE: u8 = 10;

/// Symbols read at a time.
const CHUNK_SYMBOLS: u64 = 1 << 14;
/// Most symbols nested around one address that are looked at. Real ones are three deep.
const MAX_NESTING: usize = 1000;
/// Most names with the same start that are compared. Linkers that fold equal functions make thousands.
const MAX_ALIASES: usize = 1 << 16;
/// Value of `parent` if no symbol is around this one.
const NO_PARENT: u32 = u32::MAX;

/// A symbol of code.
#[derive(Debug, Clone, Copy)]
struct SymbolEntry {
    start: u64,
    /// End address; `start` for a symbol without size.
    end: u64,
    /// Offset in the string table of `table`.
    name: u32,
    /// Index of the entry with the greatest smaller start that reaches beyond the start of this one.
    parent: u32,
    table: u8,
    /// Preference, lower is better: binding, then type.
    rank: u8,
}

/// The functions in one module's symbol tables.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    /// Symbols of functions, sorted by start, then by end.
    entries: Vec<SymbolEntry>,
    /// Sections that hold code, sorted.
    code: Vec<Range<u64>>,
    /// String tables; the one of the preferred symbol table comes first.
    strings: Vec<SectionData>,
    max_name_bytes: usize,
    charge: Charge,
}

/// The best name among entries with the same start, by the index of the first of them that counts: a cache for the
/// lookups of one call.
pub(crate) type ChosenNames = FxHashMap<usize, Option<String>>;

impl SymbolTable {
    /// An empty table for code in the sections `code` (sorted).
    pub(crate) fn new(code: Vec<Range<u64>>, limits: &NamingLimits, work: &Arc<Work>) -> Self {
        let max_name_bytes = limits.max_name_bytes;
        SymbolTable {
            entries: Vec::new(),
            code,
            strings: Vec::new(),
            max_name_bytes,
            charge: Charge::none(work),
        }
    }

    /// Adds the `.symtab` or `.dynsym` of `image`; tables added first are preferred. Returns whether the table exists
    /// and holds any symbol.
    pub(crate) fn add(
        &mut self,
        image: &ElfFile,
        source: NameSource,
        limits: &NamingLimits,
        work: &Arc<Work>,
    ) -> Result<bool, SymbolError> {
        let kind = if source == NameSource::Dynsym { SHT_DYNSYM } else { SHT_SYMTAB };
        let Some(section) =
            image.sections().iter().find(|section| section.kind == kind && section.has_bytes())
        else {
            return Ok(false);
        };
        let strings = (image.sections().get(section.link as usize))
            .ok_or(ElfError::Malformed("symbol table without string table"))?;
        let contents = image.contents(strings, "symbol names")?;
        let len = contents.len;
        let store = Store::open(image.source(), contents, work)?;
        let strings = SectionData::new(store, len, limits.max_rereads, work)?;
        let table = self.strings.len() as u8;
        self.strings.push(strings);
        let known = self.entries.len();
        let result = self.read_table(image, section, table, limits, work);
        if result.is_err() {
            // Half a table would give names to the neighbours of missing symbols.
            self.entries.truncate(known);
        }
        result.map(|()| section.size > section.entry_size)
    }

    fn read_table(
        &mut self,
        image: &ElfFile,
        section: &SectionHeader,
        table: u8,
        limits: &NamingLimits,
        work: &Arc<Work>,
    ) -> Result<(), SymbolError> {
        let entry = if image.is_64() { 24 } else { 16 };
        if section.entry_size != entry {
            return Err(ElfError::Malformed("unexpected size of symbols").into());
        }
        let count = section.size / entry;
        if count > limits.max_symbols {
            let limit = limits.max_symbols;
            return Err(ElfError::TooLarge { what: "symbol table", size: count, limit }.into());
        }
        if image.source().is_hole(section.file_offset, section.size) {
            return Err(ElfError::Malformed("a table lies in a hole of the file").into());
        }
        for first in (0..count).step_by(CHUNK_SYMBOLS as usize) {
            if work.is_late() {
                return Err(SymbolError::Stopped);
            }
            let size = CHUNK_SYMBOLS.min(count - first) * entry;
            let rows = image.part(section, "symbol table", first * entry, size, u64::MAX)?;
            self.make_room(CHUNK_SYMBOLS.min(count - first) as usize)?;
            for row in rows.chunks_exact(entry as usize) {
                // Dynamic tables leave most functions out, so the next symbol is no border: a symbol without size would
                // swallow its unlisted neighbours.
                if let Some(symbol) = TableSymbol::parse(row, image.is_64())
                    && (symbol.size > 0 || section.kind == SHT_SYMTAB)
                {
                    self.push(symbol, table);
                }
            }
        }
        Ok(())
    }

    /// Makes room for `more` entries; both the old and the new list exist while they are copied.
    fn make_room(&mut self, more: usize) -> Result<(), SymbolError> {
        let wanted = self.entries.len() + more;
        if wanted > self.entries.capacity() {
            let capacity = wanted.max(self.entries.capacity() * 2);
            self.charge.add((capacity * size_of::<SymbolEntry>()) as u64)?;
            self.entries.reserve_exact(capacity - self.entries.len());
            self.charge.shrink_to((capacity * size_of::<SymbolEntry>()) as u64);
        }
        Ok(())
    }

    /// Keeps `symbol` if it is code.
    fn push(&mut self, symbol: TableSymbol, table: u8) {
        let Some(rank) = symbol.rank() else { return };
        let Some(section_end) = self.section_end(symbol.value) else { return };
        // Names of functions are not looked at yet: that would bring all of the strings into memory.
        let is_label = rank & 1 == 1;
        if is_label && !is_function_name(&self.name_start(table, symbol.name)) {
            return;
        }
        let end = symbol.value.saturating_add(symbol.size).min(section_end);
        self.entries.push(SymbolEntry {
            start: symbol.value,
            end,
            name: symbol.name,
            parent: NO_PARENT,
            table,
            rank,
        });
    }

    /// The end of the code section around `address`.
    fn section_end(&self, address: u64) -> Option<u64> {
        let after = self.code.partition_point(|range| range.start <= address);
        let section = self.code.get(after.checked_sub(1)?)?;
        (address < section.end).then_some(section.end)
    }

    fn name_start(&self, table: u8, offset: u32) -> Vec<u8> {
        let strings = self.strings.get(usize::from(table));
        strings.and_then(|strings| strings.c_string(offset as usize, 16)).unwrap_or_default()
    }

    fn name(&self, entry: &SymbolEntry) -> Vec<u8> {
        let strings = self.strings.get(usize::from(entry.table));
        strings
            .and_then(|strings| strings.c_string(entry.name as usize, self.max_name_bytes))
            .unwrap_or_default()
    }

    /// Sorts the symbols, after which names can be looked up.
    pub(crate) fn finish(&mut self, work: &Work) -> Result<(), SymbolError> {
        // Sorting many symbols takes another copy of them.
        let bytes = (self.entries.capacity() * size_of::<SymbolEntry>()) as u64;
        self.charge.add(bytes)?;
        sort_by_key(&mut self.entries, |entry| (entry.start, entry.end), || !work.is_late())
            .ok_or(SymbolError::Stopped)?;
        self.entries.shrink_to_fit();
        self.charge.shrink_to((self.entries.len() * size_of::<SymbolEntry>()) as u64);
        let mut open: Vec<u32> = Vec::new();
        for index in 0..self.entries.len() {
            let start = self.entries[index].start;
            while open.pop_if(|open| self.entries[*open as usize].end <= start).is_some() {}
            // Entries with the same start have the same parent, and the first of them is on top already.
            self.entries[index].parent = match open.last() {
                Some(&top) if self.entries[top as usize].start == start => self.entries[top as usize].parent,
                Some(&top) => top,
                None => NO_PARENT,
            };
            open.push(index as u32);
        }
        Ok(())
    }

    /// The name of the code at `address`.
    pub(crate) fn lookup(&self, address: u64, chosen: &mut ChosenNames) -> Option<String> {
        self.function_at(address, chosen).map(|(name, _)| name)
    }

    /// The name of the code at `address`, and the range of addresses that it covers.
    pub(crate) fn function_at(&self, address: u64, chosen: &mut ChosenNames) -> Option<(String, Range<u64>)> {
        let last = self.entries.partition_point(|entry| entry.start <= address).checked_sub(1)?;
        let mut at = last;
        for _ in 0..MAX_NESTING {
            let entry = self.entries[at];
            if address < entry.end
                && let Some(name) = self.best_of(at, |other| address < other.end, chosen)
            {
                return Some((name, entry.start..entry.end));
            }
            if entry.parent == NO_PARENT {
                break;
            }
            at = entry.parent as usize;
        }
        // Hand-written code: use a symbol without size if it is the last before the address.
        let start = self.entries[last].start;
        let section_end = self.section_end(start).filter(|&end| address < end)?;
        let first = self.entries[..last].partition_point(|entry| entry.start < start);
        let sized = self.entries[first..=last].partition_point(|entry| entry.end == entry.start);
        let unsized_last = (first + sized).checked_sub(1).filter(|index| *index >= first)?;
        let name = self.best_of(unsized_last, |entry| entry.end == start, chosen)?;
        let next = self.entries.get(last + 1).map_or(section_end, |next| next.start.min(section_end));
        Some((name, start..next))
    }

    /// The best name of the entries that count and begin where entry `last` does; `last` is the last of them.
    fn best_of(
        &self,
        last: usize,
        counts: impl Fn(&SymbolEntry) -> bool,
        chosen: &mut ChosenNames,
    ) -> Option<String> {
        let start = self.entries[last].start;
        let aliases = self.entries[..=last].iter().rev().take(MAX_ALIASES);
        let many = aliases.take_while(|entry| entry.start == start && counts(entry)).count();
        // The entries are sorted by end, so the first and the last tell which of them count.
        let first = last + 1 - many;
        if let Some(known) = chosen.get(&(first << 1 | usize::from(self.entries[last].end == start))) {
            return known.clone();
        }
        let named = (self.entries[first..=last].iter())
            .map(|entry| (self.name(entry), entry))
            .filter(|(name, _)| is_function_name(name));
        let best = named.min_by_key(|(name, entry)| badness(entry, name.clone()));
        let best = best.map(|(name, _)| String::from_utf8_lossy(&name).into_owned());
        chosen.insert(first << 1 | usize::from(self.entries[last].end == start), best.clone());
        best
    }
}

/// Whether this is not a mark of a compiler or assembler: local labels, annobin notes, mapping symbols of ARM and
/// RISC-V.
fn is_function_name(name: &[u8]) -> bool {
    match name {
        [] | [b'.', b'L', ..] => false,
        [b'$', b'x' | b'd' | b'a' | b't'] | [b'$', b'x' | b'd' | b'a' | b't', b'.', ..] => false,
        name => !name.starts_with(b".annobin"),
    }
}

/// Sort key that puts the best alias first; the most important part comes first.
fn badness(symbol: &SymbolEntry, name: Vec<u8>) -> impl Ord + use<> {
    let underscores = name.iter().take_while(|&&byte| byte == b'_').count();
    // `_Z` and `_R` begin every mangled name: that underscore does not count.
    let underscores = underscores - usize::from(name.starts_with(b"_Z") || name.starts_with(b"_R"));
    let is_notype = symbol.rank & 1;
    (symbol.table, symbol.rank >> 1, underscores, is_notype, name.len(), name, Reverse(symbol.end))
}

/// A row of a symbol table.
#[derive(Debug, Clone, Copy)]
struct TableSymbol {
    name: u32,
    info: u8,
    section: u16,
    value: u64,
    size: u64,
}

impl TableSymbol {
    fn parse(row: &[u8], is_64: bool) -> Option<Self> {
        let name = Fields(row).u32(0)?;
        Some(match is_64 {
            true => TableSymbol {
                name,
                info: *row.get(4)?,
                section: Fields(row).u16(6)?,
                value: Fields(row).u64(8)?,
                size: Fields(row).u64(16)?,
            },
            false => TableSymbol {
                name,
                info: *row.get(12)?,
                section: Fields(row).u16(14)?,
                value: u64::from(Fields(row).u32(4)?),
                size: u64::from(Fields(row).u32(8)?),
            },
        })
    }

    /// Preference of the symbol; `None` if it cannot be a function. Else twice the binding (global, weak, local), plus
    /// one if it has no type.
    fn rank(&self) -> Option<u8> {
        let is_function = match self.info & 15 {
            STT_FUNC | STT_GNU_IFUNC => true,
            STT_NOTYPE if self.section != SHN_ABS => false,
            _ => return None,
        };
        if self.section == SHN_UNDEF {
            return None;
        }
        let binding = match self.info >> 4 {
            STB_GLOBAL | STB_GNU_UNIQUE => 0,
            STB_WEAK => 1,
            _ => 2,
        };
        Some(binding * 2 + u8::from(!is_function))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::deadline::Deadline;
    use crate::base::memory_budget::MemoryBudget;
    use crate::elf::fields::c_string;
    use proptest::prelude::*;

    /// Two sections of code with a gap between them.
    const CODE: [Range<u64>; 2] = [100..160, 170..200];

    fn search(addresses: &[u64], names: &[u8], symbols: &[TableSymbol]) -> Vec<Option<String>> {
        let budget = Arc::new(MemoryBudget::new(1 << 20));
        let work = Work::new(&budget, &Deadline::default()).unwrap();
        let mut table = SymbolTable::new(CODE.to_vec(), &NamingLimits::default(), &work);
        table.strings.push(SectionData::of_bytes(names.to_vec(), &work));
        for &symbol in symbols {
            table.push(symbol, 0);
        }
        table.finish(&work).unwrap();
        let mut chosen = ChosenNames::default();
        addresses.iter().map(|&address| table.lookup(address, &mut chosen)).collect()
    }

    fn function(name: u32, binding: u8, kind: u8, value: u64, size: u64) -> TableSymbol {
        TableSymbol { name, info: binding << 4 | kind, section: 1, value, size }
    }

    #[test]
    fn the_best_alias_is_chosen() {
        // Offsets: _f 1, __f 4, g 8, gg 10, h 13, _Zf 15.
        let names = b"\0_f\0__f\0g\0gg\0h\0_Zf\0";
        let best = |symbols: &[TableSymbol]| search(&[105], names, symbols)[0].clone().unwrap();
        let (local, global, weak) = (0, STB_GLOBAL, STB_WEAK);
        let at = |name, binding, kind| function(name, binding, kind, 100, 10);
        for (better, worse, name) in [
            (at(4, global, STT_FUNC), at(8, weak, STT_FUNC), "__f"),
            (at(4, weak, STT_FUNC), at(8, local, STT_FUNC), "__f"),
            (at(1, global, STT_NOTYPE), at(4, global, STT_FUNC), "_f"),
            (at(10, global, STT_FUNC), at(8, global, STT_NOTYPE), "gg"),
            (at(8, global, STT_FUNC), at(10, global, STT_FUNC), "g"),
            (at(8, global, STT_FUNC), at(13, global, STT_GNU_IFUNC), "g"),
            (at(15, global, STT_FUNC), at(1, global, STT_FUNC), "_Zf"),
        ] {
            assert_eq!(best(&[better, worse]), name);
            assert_eq!(best(&[worse, better]), name);
        }
    }

    #[test]
    fn data_and_marks_of_tools_name_nothing() {
        let names = b"\0$x.1\0.L1\0.annobin_f\0data\0";
        let symbols = [
            function(0, STB_GLOBAL, STT_FUNC, 100, 50),
            function(1, STB_GLOBAL, STT_NOTYPE, 100, 0),
            function(6, STB_GLOBAL, STT_NOTYPE, 100, 0),
            function(10, STB_GLOBAL, STT_NOTYPE, 100, 50),
            function(21, STB_GLOBAL, 1, 100, 50),
            function(21, STB_GLOBAL, STT_FUNC, 165, 50),
            TableSymbol { section: SHN_UNDEF, ..function(21, STB_GLOBAL, STT_FUNC, 100, 50) },
            TableSymbol { section: SHN_ABS, ..function(21, STB_GLOBAL, STT_NOTYPE, 100, 50) },
        ];
        assert_eq!(search(&[100, 120, 180], names, &symbols), [None, None, None]);
    }

    proptest! {
        /// Compares with the definition, by trying every symbol for every address.
        #[test]
        fn names_follow_the_definition(
            symbols in proptest::collection::vec((95_u64..205, prop_oneof![Just(0), 1_u64..40], 0_u8..3), 0..24),
            step in 1_usize..4,
        ) {
            // Symbol n is called by n letters, so that equal ranks are decided by the order here.
            let mut names = vec![0];
            let symbols: Vec<TableSymbol> = (symbols.iter().enumerate())
                .map(|(index, &(value, size, binding))| {
                    let name = names.len() as u32;
                    names.extend(std::iter::repeat_n(b'n', index + 1));
                    names.push(0);
                    function(name, binding, STT_FUNC, value, size)
                })
                .collect();
            let addresses: Vec<u64> = (90..210).step_by(step).collect();
            let found = search(&addresses, &names, &symbols);
            for (address, found) in addresses.iter().zip(found) {
                let section = |symbol: &TableSymbol| CODE.iter().find(|code| code.contains(&symbol.value)).cloned();
                let starts = symbols.iter().filter(|s| section(s).is_some()).map(|s| s.value);
                let last_start = starts.filter(|start| start <= address).max();
                let covers = |symbol: &&TableSymbol| {
                    let Some(section) = section(symbol) else { return false };
                    let in_size = (symbol.value..symbol.value + symbol.size).contains(address);
                    let in_reach = symbol.size == 0 && last_start == Some(symbol.value);
                    section.contains(address) && (in_size || in_reach)
                };
                let best = symbols.iter().filter(covers).max_by_key(|symbol| {
                    (symbol.size > 0, symbol.value, Reverse(symbol.rank()), Reverse(symbol.name))
                });
                let expected = best.map(|symbol| {
                    String::from_utf8(c_string(&names, symbol.name as usize).unwrap().to_vec()).unwrap()
                });
                prop_assert_eq!(found, expected, "at {}", address);
            }
        }
    }
}
