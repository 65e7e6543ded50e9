//! Symbols that a module exports, found by name through its hash table (`.gnu.hash`, or `.hash`): a few small reads, however many
//! symbols there are; and all of its symbols, one by one. Format: the GNU hash section as glibc's
//! dynamic linker reads it.

use super::fields::{Fields, c_string};
use super::image::ElfImage;
use super::{ElfError, Section};
use object::elf;

/// Symbols with one hash that are compared at most.
const MOST_COMPARED: u32 = 4096;
/// Size of a symbol, bytes.
const SYMBOL_BYTES: u64 = 24;
/// Names looked for are shorter, bytes.
const MAX_NAME_BYTES: u64 = 256;
/// A longer table of symbols, or of their names, is not looked at, bytes.
const MAX_TABLE_BYTES: u64 = 512 << 20;

/// A symbol that a module exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExportedSymbol {
    /// The module's own address, or for a thread-local variable its offset in the module's block of these.
    pub(crate) address: u64,
    /// Size, bytes; 0 where the module does not say it.
    pub(crate) size: u64,
    /// Whether it is a thread-local variable.
    pub(crate) is_thread_local: bool,
}

/// An entry of a symbol table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableEntry {
    /// Its type: `STT_FUNC` and others.
    pub(crate) kind: elf::SymbolType,
    /// Not so where the module takes it from another one.
    pub(crate) is_defined: bool,
    /// Its address and size.
    pub(crate) symbol: ExportedSymbol,
}

/// The first words of a hash table.
struct HashTable {
    address: u64,
    bucket_count: u32,
    /// Index of the first symbol that has a hash.
    first_symbol: u32,
    filter_words: u32,
    filter_shift: u32,
}

impl ElfImage {
    /// The exported symbol of a name; `None` where there is none, or no hash table to find it by.
    pub(crate) fn exported(&self, name: &str) -> Option<ExportedSymbol> {
        let Some(table) = HashTable::of(self) else { return self.exported_by_old_table(name) };
        let hash = gnu_hash(name.as_bytes());
        if !table.may_have(self, hash)? {
            return None;
        }
        let (symbols, strings) = self.symbol_tables()?;
        let mut index = table.first_with(self, hash)?;
        for _ in 0..MOST_COMPARED {
            let chained = self.number_at(table.chain(index)?)?;
            if chained | 1 == hash | 1
                && let Some(found) = self.symbol_named(symbols, strings, index, name)
            {
                return Some(found);
            }
            if chained & 1 == 1 {
                return None;
            }
            index = index.checked_add(1)?;
        }
        None
    }

    /// The same by the table of older linkers (`.hash`), which libraries of JDK 11 have: counts of buckets and symbols, the
    /// first symbol of each bucket, and the one after each symbol; 0 ends a chain.
    fn exported_by_old_table(&self, name: &str) -> Option<ExportedSymbol> {
        let table = self.section(b".hash")?.address;
        let word = |index: u64| self.number_at(table.checked_add(4 * index)?);
        let (buckets, chains) = (word(0).filter(|&count| count > 0)?, word(1)?);
        let (symbols, strings) = self.symbol_tables()?;
        let mut index = word(2 + u64::from(old_hash(name.as_bytes()) % buckets))?;
        for _ in 0..MOST_COMPARED {
            if index == 0 || index >= chains {
                return None;
            }
            if let Some(found) = self.symbol_named(symbols, strings, index, name) {
                return Some(found);
            }
            index = word(2 + u64::from(buckets) + u64::from(index))?;
        }
        None
    }

    /// Calls `visit` with each defined symbol of the table in the section `table` (`.symtab`, `.dynsym`), and its name. `None`
    /// where there is no such table, or it cannot be read.
    pub(crate) fn visit_symbols(
        &self,
        table: &[u8],
        mut visit: impl FnMut(&str, ExportedSymbol),
    ) -> Option<()> {
        let visit_entry = |name: &[u8], entry: TableEntry| {
            if let (true, Ok(name)) = (entry.is_defined, std::str::from_utf8(name)) {
                visit(name, entry.symbol);
            }
        };
        self.visit_entries(table, visit_entry).ok().filter(|is_there| *is_there).map(drop)
    }

    /// Calls `visit` with each entry of the table in the section `table`, and its name. Returns whether there is such a table.
    ///
    /// # Errors
    ///
    /// When the table or that of its names is too large, or cannot be read.
    pub(crate) fn visit_entries(
        &self,
        table: &[u8],
        mut visit: impl FnMut(&[u8], TableEntry),
    ) -> Result<bool, ElfError> {
        let Some(symbols) = self.section(table).filter(|section| section.has_bytes()) else {
            return Ok(false);
        };
        let names = self.sections().get(symbols.link as usize);
        let names = names.ok_or(ElfError::Malformed("symbol table without string table"))?;
        let (symbols, names) = (self.table_bytes(symbols)?, self.table_bytes(names)?);
        for bytes in symbols.chunks_exact(SYMBOL_BYTES as usize) {
            let name = Fields(bytes).u32(0).and_then(|name| c_string(&names, name as usize));
            if let (Some(entry), Some(name)) = (TableEntry::parse(bytes), name) {
                visit(name, entry);
            }
        }
        Ok(true)
    }

    fn table_bytes(&self, section: &Section) -> Result<Vec<u8>, ElfError> {
        let size = self.unpacked_bytes(section);
        if size > MAX_TABLE_BYTES {
            return Err(ElfError::TooLarge { what: "symbol table", size, limit: MAX_TABLE_BYTES });
        }
        self.section_bytes(section)
    }

    /// Addresses of the table of exported symbols and of their names.
    fn symbol_tables(&self) -> Option<(u64, u64)> {
        let symbols = self.section(b".dynsym")?;
        let strings = self.sections().get(symbols.link as usize)?;
        Some((symbols.address, strings.address))
    }

    /// The symbol at `index`, if it is defined and has this name.
    fn symbol_named(&self, symbols: u64, strings: u64, index: u32, name: &str) -> Option<ExportedSymbol> {
        let place = symbols.checked_add(SYMBOL_BYTES.checked_mul(index.into())?)?;
        let bytes = self.read_address(place, SYMBOL_BYTES).ok()?;
        let fields = Fields(&bytes);
        let own_name = strings.checked_add(fields.u32(0)?.into())?;
        let size = MAX_NAME_BYTES.min(name.len() as u64 + 1);
        let own_name = self.read_address(own_name, size).ok()?;
        let entry = TableEntry::parse(&bytes)?;
        (c_string(&own_name, 0)? == name.as_bytes() && entry.is_defined).then_some(entry.symbol)
    }

    fn number_at(&self, address: u64) -> Option<u32> {
        Fields(&self.read_address(address, 4).ok()?).u32(0)
    }
}

impl TableEntry {
    /// `bytes` are those of a symbol of a 64-bit file.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let fields = Fields(bytes);
        let kind = elf::SymbolType(bytes.get(4)? & 0xf);
        Some(TableEntry {
            kind,
            is_defined: fields.u16(6)? != elf::SHN_UNDEF.0,
            symbol: ExportedSymbol {
                address: fields.u64(8)?,
                size: fields.u64(16)?,
                is_thread_local: kind == elf::STT_TLS,
            },
        })
    }
}

impl HashTable {
    fn of(image: &ElfImage) -> Option<Self> {
        let address = image.section(b".gnu.hash")?.address;
        let header = image.read_address(address, 16).ok()?;
        let fields = Fields(&header);
        Some(HashTable {
            address,
            bucket_count: fields.u32(0).filter(|&count| count > 0)?,
            first_symbol: fields.u32(4)?,
            filter_words: fields.u32(8).filter(|&count| count > 0)?,
            filter_shift: fields.u32(12)?,
        })
    }

    /// Whether the filter lets the hash through: most absent names are rejected here.
    fn may_have(&self, image: &ElfImage, hash: u32) -> Option<bool> {
        let word = hash / 64 % self.filter_words;
        let place = self.address.checked_add(16 + 8 * u64::from(word))?;
        let word = Fields(&image.read_address(place, 8).ok()?).u64(0)?;
        let second = hash.checked_shr(self.filter_shift).unwrap_or(0);
        Some(word >> (hash % 64) & 1 == 1 && word >> (second % 64) & 1 == 1)
    }

    fn buckets(&self) -> Option<u64> {
        self.address.checked_add(16 + 8 * u64::from(self.filter_words))
    }

    /// Index of the first symbol of the bucket that the hash is in.
    fn first_with(&self, image: &ElfImage, hash: u32) -> Option<u32> {
        let bucket = 4 * u64::from(hash % self.bucket_count);
        let index = image.number_at(self.buckets()?.checked_add(bucket)?)?;
        (index >= self.first_symbol).then_some(index)
    }

    /// Address of the hash of a symbol; the last of its bucket has its lowest bit set.
    fn chain(&self, index: u32) -> Option<u64> {
        let chains = self.buckets()?.checked_add(4 * u64::from(self.bucket_count))?;
        chains.checked_add(4 * u64::from(index.checked_sub(self.first_symbol)?))
    }
}

/// The hash of the ABI of System V.
fn old_hash(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash: u32, &byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}

fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::ElfLimits;
    use object::{Object, ObjectSymbol};
    use std::fs::File;

    #[test]
    fn names_have_the_hash_of_the_abi() {
        assert_eq!([old_hash(b""), old_hash(b"exit"), old_hash(b"printf")], [0, 0x6cf04, 0x779_05a6]);
    }

    fn libc_path() -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
        let line = maps.lines().find(|line| line.contains("/libc.so.6") || line.contains("/libc-2"));
        line.and_then(|line| line.split_whitespace().last()).expect("tests run with glibc").to_owned()
    }

    #[test]
    fn every_symbol_of_the_c_library_is_found_where_its_table_has_it() {
        let path = libc_path();
        let image = ElfImage::open(&File::open(&path).expect("it is mapped"), &ElfLimits::default())
            .expect("an ELF file");
        let bytes = std::fs::read(&path).expect("it is mapped");
        let oracle = object::File::parse(&*bytes).expect("an ELF file");
        let mut count = 0;
        for symbol in oracle.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
            let Ok(name) = symbol.name() else { continue };
            let found = image.exported(name);
            let same: Vec<u64> = (oracle.dynamic_symbols())
                .filter(|other| other.name() == Ok(name))
                .map(|other| other.address())
                .collect();
            assert!(found.is_some_and(|found| same.contains(&found.address)), "{name}");
            count += 1;
            if count == 500 {
                break;
            }
        }
        assert!(count > 100, "{count}");
        assert_eq!(image.exported("no_library_exports_this"), None);
    }

    #[test]
    fn damaged_tables_find_nothing_and_end() {
        let bytes = std::fs::read(libc_path()).expect("it is mapped");
        let image = ElfImage::parse(bytes.clone(), &ElfLimits::default()).expect("an ELF file");
        let place = image.section(b".gnu.hash").expect("glibc has one").file_offset as usize;
        for byte in [0, 0x7f, 0xff] {
            for word in 0..64 {
                let mut bytes = bytes.clone();
                bytes[place + 4 * word..][..4].fill(byte);
                let damaged = ElfImage::parse(bytes, &ElfLimits::default()).expect("its headers are good");
                let _ = damaged.exported("malloc");
            }
        }
    }
}
