//! Names from `.symtab` and `.dynsym`.
//!
//! An address belongs to a symbol only inside `st_value .. st_value + st_size`. Symbols of size 0 (hand
//! assembly) reach to the next symbol or the end of their section, whichever comes first. An address
//! that no symbol covers has no name: it never gets the neighbour's.
//!
//! Only symbols that cover an address asked for are kept, so the cost in memory does not grow with the table.

use super::elf::{ElfImage, Section};
use super::source::{c_string, le_u16, le_u32, le_u64};
use super::{Limits, NameSource, SymbolError};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

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
const CHUNK_SYMBOLS: u64 = 1 << 16;

/// A symbol that may cover addresses of interest. Ordered by quality: see [`Candidate::rank`].
#[derive(Debug, Clone, Copy)]
struct Candidate {
    start: u64,
    end: u64,
    /// Offset in the string table of `table`.
    name: u32,
    table: u8,
    /// Lower is better: binding, then type.
    rank: u8,
}

/// Symbols of one file's tables that cover the addresses asked for.
#[derive(Debug)]
pub(super) struct SymbolSearch<'q> {
    addresses: &'q [u64],
    code: Vec<Range<u64>>,
    sized: Vec<Candidate>,
    unsized_: Vec<Candidate>,
    /// For each address: the greatest start of any symbol between the address before (without) and it.
    last_start: Vec<Option<u64>>,
    /// String tables, of the preferred symbol table first.
    tables: Vec<Cow<'q, [u8]>>,
    max_name_bytes: usize,
}

impl<'q> SymbolSearch<'q> {
    /// A search for names of `addresses` (sorted), which lie in sections `code` (sorted).
    pub(super) fn new(addresses: &'q [u64], code: Vec<Range<u64>>, limits: &Limits) -> Self {
        SymbolSearch {
            addresses,
            code,
            sized: Vec::new(),
            unsized_: Vec::new(),
            last_start: vec![None; addresses.len()],
            tables: Vec::new(),
            max_name_bytes: limits.max_name_bytes,
        }
    }

    /// Adds the `.symtab` or `.dynsym` of `image`; tables added first are preferred. Returns whether the
    /// table exists and holds any symbol.
    pub(super) fn add(
        &mut self,
        image: &ElfImage<'q>,
        source: NameSource,
        limits: &Limits,
    ) -> Result<bool, SymbolError> {
        let kind = if source == NameSource::Dynsym { SHT_DYNSYM } else { SHT_SYMTAB };
        let Some(section) = image.sections.iter().find(|section| section.kind == kind && section.has_bytes())
        else {
            return Ok(false);
        };
        let strings = (image.sections.get(section.link as usize))
            .ok_or(SymbolError::Damaged("symbol table without string table"))?;
        let strings = image.data(strings, "symbol names", limits)?;
        let table = self.tables.len() as u8;
        self.tables.push(strings);
        self.read_table(image, section, table, limits)?;
        Ok(section.size > section.entry_size)
    }

    fn read_table(
        &mut self,
        image: &ElfImage<'q>,
        section: &Section,
        table: u8,
        limits: &Limits,
    ) -> Result<(), SymbolError> {
        let entry = if image.is_64 { 24 } else { 16 };
        if section.entry_size != entry {
            return Err(SymbolError::Damaged("unexpected size of symbols"));
        }
        let count = section.size / entry;
        if count > limits.max_symbols {
            let limit = limits.max_symbols;
            return Err(SymbolError::TooBig { what: "symbol table", size: count, limit });
        }
        for first in (0..count).step_by(CHUNK_SYMBOLS as usize) {
            let size = CHUNK_SYMBOLS.min(count - first) * entry;
            let rows = image.part(section, "symbol table", first * entry, size, u64::MAX)?;
            for row in rows.chunks_exact(entry as usize) {
                // Dynamic tables leave most functions out, so that the next symbol is no border: there, a
                // symbol without size would take its unlisted neighbours in.
                if let Some(symbol) = Symbol::parse(row, image.is_64)
                    && (symbol.size > 0 || section.kind == SHT_SYMTAB)
                {
                    self.consider(symbol, table);
                }
            }
        }
        Ok(())
    }

    /// Keeps `symbol` if it is code and may cover an address.
    fn consider(&mut self, symbol: Symbol, table: u8) {
        let Some(rank) = symbol.rank() else { return };
        let section = self.code.partition_point(|range| range.start <= symbol.value);
        let Some(section) = section.checked_sub(1).map(|index| &self.code[index]) else { return };
        let section_end = section.end;
        if symbol.value >= section_end || !self.is_function_name(table, symbol.name) {
            return;
        }
        let first = self.addresses.partition_point(|&address| address < symbol.value);
        let Some(&address) = self.addresses.get(first) else { return };
        let last_start = &mut self.last_start[first];
        *last_start = (*last_start).max(Some(symbol.value));
        let end = match symbol.size {
            0 => section_end,
            size => symbol.value.saturating_add(size).min(section_end),
        };
        if address >= end {
            return;
        }
        let candidate = Candidate { start: symbol.value, end, name: symbol.name, table, rank };
        let kept = if symbol.size == 0 { &mut self.unsized_ } else { &mut self.sized };
        kept.push(candidate);
    }

    fn name(&self, table: u8, offset: u32) -> &[u8] {
        let strings = self.tables.get(usize::from(table)).map_or(&[][..], |strings| strings);
        c_string(strings, offset as usize, self.max_name_bytes).unwrap_or_default()
    }

    /// Not the mark of a compiler or assembler: local labels, annobin notes, mapping symbols of ARM and RISC-V.
    fn is_function_name(&self, table: u8, offset: u32) -> bool {
        let strings = self.tables.get(usize::from(table)).map_or(&[][..], |strings| strings);
        match c_string(strings, offset as usize, 16).unwrap_or_default() {
            [] | [b'.', b'L', ..] => false,
            [b'$', b'x' | b'd' | b'a' | b't'] | [b'$', b'x' | b'd' | b'a' | b't', b'.', ..] => false,
            name => !name.starts_with(b".annobin"),
        }
    }

    /// The names, one for each address.
    pub(super) fn finish(mut self) -> Vec<Option<String>> {
        // The symbol of greatest start at or below each address, whatever its size.
        let mut greatest = None;
        for last_start in &mut self.last_start {
            greatest = greatest.max(*last_start);
            *last_start = greatest;
        }
        let mut unsized_ = std::mem::take(&mut self.unsized_);
        // Hand-written code: keep only symbols that are the last before some address.
        unsized_.retain(|symbol| {
            let first = self.addresses.partition_point(|&address| address < symbol.start);
            self.last_start.get(first).is_some_and(|&last| last == Some(symbol.start))
        });
        let sized = std::mem::take(&mut self.sized);
        let sized = self.sorted(sized);
        let unsized_ = self.sorted(unsized_);

        let mut names = Vec::with_capacity(self.addresses.len());
        let (mut sized, mut open) = (sized.into_iter().peekable(), Vec::<Candidate>::new());
        for (index, &address) in self.addresses.iter().enumerate() {
            // Addresses ascend: what starts at or before this one is opened, the latest start on top;
            // what has ended on top is of no use to any later address.
            while let Some(symbol) = sized.next_if(|symbol| symbol.start <= address) {
                open.push(symbol);
            }
            while open.pop_if(|symbol| symbol.end <= address).is_some() {}
            let best = open.last().copied().or_else(|| {
                let start = self.last_start[index]?;
                let after = unsized_.partition_point(|symbol| symbol.start <= start);
                let symbol = unsized_[after.checked_sub(1)?];
                (symbol.start == start && address < symbol.end).then_some(symbol)
            });
            names.push(
                best.map(|symbol| String::from_utf8_lossy(self.name(symbol.table, symbol.name)).into_owned()),
            );
        }
        names
    }

    /// Sorted by start; among aliases the best comes last.
    fn sorted(&self, mut candidates: Vec<Candidate>) -> Vec<Candidate> {
        candidates.sort_by(|a, b| {
            a.start.cmp(&b.start).then_with(|| self.badness(a).cmp(&self.badness(b)).reverse())
        });
        candidates
    }

    /// What makes one alias worse than another, most important first.
    fn badness(&self, symbol: &Candidate) -> impl Ord + use<'_> {
        let name = self.name(symbol.table, symbol.name);
        let underscores = name.iter().take_while(|&&byte| byte == b'_').count();
        // `_Z` and `_R` begin every mangled name: that underscore says nothing.
        let underscores = underscores - usize::from(name.starts_with(b"_Z") || name.starts_with(b"_R"));
        let is_notype = symbol.rank & 1;
        (symbol.table, symbol.rank >> 1, underscores, is_notype, name.len(), name, Reverse(symbol.end))
    }
}

/// A row of a symbol table.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    name: u32,
    info: u8,
    section: u16,
    value: u64,
    size: u64,
}

impl Symbol {
    fn parse(row: &[u8], is_64: bool) -> Option<Self> {
        let name = le_u32(row, 0)?;
        Some(match is_64 {
            true => Symbol {
                name,
                info: *row.get(4)?,
                section: le_u16(row, 6)?,
                value: le_u64(row, 8)?,
                size: le_u64(row, 16)?,
            },
            false => Symbol {
                name,
                info: *row.get(12)?,
                section: le_u16(row, 14)?,
                value: u64::from(le_u32(row, 4)?),
                size: u64::from(le_u32(row, 8)?),
            },
        })
    }

    /// `None` if this cannot be a function. Else twice the binding (global, weak, local), plus one if it has no type.
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
    use proptest::prelude::*;

    /// Two sections of code with a gap between them.
    const CODE: [Range<u64>; 2] = [100..160, 170..200];

    fn search<'q>(addresses: &'q [u64], names: &'q [u8], symbols: &[Symbol]) -> Vec<Option<String>> {
        let mut search = SymbolSearch::new(addresses, CODE.to_vec(), &Limits::default());
        search.tables.push(Cow::Borrowed(names));
        for &symbol in symbols {
            search.consider(symbol, 0);
        }
        search.finish()
    }

    fn function(name: u32, binding: u8, kind: u8, value: u64, size: u64) -> Symbol {
        Symbol { name, info: binding << 4 | kind, section: 1, value, size }
    }

    #[test]
    fn the_best_alias_is_chosen() {
        // Offsets: _f 1, __f 4, g 8, gg 10, h 13, _Zf 15.
        let names = b"\0_f\0__f\0g\0gg\0h\0_Zf\0";
        let best = |symbols: &[Symbol]| search(&[105], names, symbols)[0].clone().unwrap();
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
            Symbol { section: SHN_UNDEF, ..function(21, STB_GLOBAL, STT_FUNC, 100, 50) },
            Symbol { section: SHN_ABS, ..function(21, STB_GLOBAL, STT_NOTYPE, 100, 50) },
        ];
        assert_eq!(search(&[100, 120, 180], names, &symbols), [None, None, None]);
    }

    proptest! {
        /// Against the definition, by trying every symbol for every address.
        #[test]
        fn names_follow_the_definition(
            symbols in proptest::collection::vec((95_u64..205, prop_oneof![Just(0), 1_u64..40], 0_u8..3), 0..24),
            step in 1_usize..4,
        ) {
            // Symbol n is called by n letters, so that equal ranks are decided by the order here.
            let mut names = vec![0];
            let symbols: Vec<Symbol> = (symbols.iter().enumerate())
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
                let section = |symbol: &Symbol| CODE.iter().find(|code| code.contains(&symbol.value)).cloned();
                let starts = symbols.iter().filter(|s| section(s).is_some()).map(|s| s.value);
                let last_start = starts.filter(|start| start <= address).max();
                let covers = |symbol: &&Symbol| {
                    let Some(section) = section(symbol) else { return false };
                    let in_size = (symbol.value..symbol.value + symbol.size).contains(address);
                    let in_reach = symbol.size == 0 && last_start == Some(symbol.value);
                    section.contains(address) && (in_size || in_reach)
                };
                let best = symbols.iter().filter(covers).max_by_key(|symbol| {
                    (symbol.size > 0, symbol.value, Reverse(symbol.rank()), Reverse(symbol.name))
                });
                let expected = best.map(|symbol| {
                    String::from_utf8(c_string(&names, symbol.name as usize, 99).unwrap().to_vec()).unwrap()
                });
                prop_assert_eq!(found, expected, "at {}", address);
            }
        }
    }
}
