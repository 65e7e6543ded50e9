//! Functions of a file by name, through its symbol tables.

use crate::elf::fields::{Fields, c_string};
use crate::elf::{ElfError, ElfImage, Section};
use crate::symbols::demangle;
use std::collections::BTreeMap;

/// Longest symbol table, and longest table of names, bytes.
const MAX_TABLE_BYTES: u64 = 512 << 20;
const SYMBOL_BYTES: usize = 24;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
/// Names that are shown where one is not found.
const MOST_SUGGESTIONS: usize = 3;

/// A function, by its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundFunction {
    /// The module's own address.
    pub(super) address: u64,
    /// Bytes of code; 0: not known.
    pub(super) size: u64,
}

/// What is known of a name.
#[derive(Debug, Default)]
pub(super) struct FunctionSearch {
    /// Functions of that name, by address.
    pub(super) found: BTreeMap<u64, FoundFunction>,
    /// One of them is chosen by the program when it starts, by what the processor can do.
    pub(super) has_chosen: bool,
    /// The file takes a function of that name from another file.
    pub(super) is_imported: bool,
    /// Names that contain it.
    pub(super) similar: Vec<String>,
    /// The file has a table of all its functions, not only of those that it exports.
    pub(super) has_all: bool,
}

/// Looks for functions of a name: the symbol's own, or the readable form of a mangled one, with or without its parameters.
///
/// # Errors
///
/// A table cannot be read.
pub(super) fn functions(image: &ElfImage, name: &str) -> Result<FunctionSearch, ElfError> {
    let mut functions = FunctionSearch::default();
    for kind in [SHT_SYMTAB, SHT_DYNSYM] {
        let table = image.sections().iter().find(|section| section.kind == kind && section.has_bytes());
        if let Some(table) = table {
            functions.has_all |= kind == SHT_SYMTAB;
            look_through(image, table, name, &mut functions)?;
        }
    }
    functions.similar.sort();
    functions.similar.dedup();
    functions.similar.truncate(MOST_SUGGESTIONS);
    Ok(functions)
}

/// The function around an address, whose size is known.
///
/// # Errors
///
/// A table cannot be read.
pub(super) fn around(image: &ElfImage, address: u64) -> Result<Option<FoundFunction>, ElfError> {
    let mut best: Option<FoundFunction> = None;
    for kind in [SHT_SYMTAB, SHT_DYNSYM] {
        let table = image.sections().iter().find(|section| section.kind == kind && section.has_bytes());
        for row in table.map(|table| bytes_of(image, table)).transpose()?.iter().flat_map(|table| rows(table))
        {
            let Some(symbol) = CodeSymbol::parse(row).filter(|symbol| symbol.kind == STT_FUNC) else {
                continue;
            };
            let is_around = symbol.value <= address && address - symbol.value < symbol.size;
            let is_better = best.as_ref().is_none_or(|best| best.size > symbol.size);
            if symbol.is_defined && is_around && is_better {
                best = Some(FoundFunction { address: symbol.value, size: symbol.size });
            }
        }
    }
    Ok(best)
}

struct CodeSymbol {
    name: u32,
    kind: u8,
    is_defined: bool,
    value: u64,
    size: u64,
}

impl CodeSymbol {
    fn parse(row: &[u8]) -> Option<Self> {
        let fields = Fields(row);
        Some(CodeSymbol {
            name: fields.u32(0)?,
            kind: row.get(4)? & 15,
            is_defined: fields.u16(6)? != 0,
            value: fields.u64(8)?,
            size: fields.u64(16)?,
        })
    }
}

fn bytes_of(image: &ElfImage, section: &Section) -> Result<Vec<u8>, ElfError> {
    if section.size > MAX_TABLE_BYTES {
        return Err(ElfError::TooLarge { what: "symbol table", size: section.size, limit: MAX_TABLE_BYTES });
    }
    image.section_bytes(section)
}

fn rows(table: &[u8]) -> impl Iterator<Item = &[u8]> {
    table.chunks_exact(SYMBOL_BYTES)
}

fn look_through(
    image: &ElfImage,
    table: &Section,
    name: &str,
    functions: &mut FunctionSearch,
) -> Result<(), ElfError> {
    let strings = image.sections().get(table.link as usize);
    let strings = bytes_of(image, strings.ok_or(ElfError::Malformed("symbol table without string table"))?)?;
    let part = distinctive_part(name);
    let finder = memchr::memmem::Finder::new(part.as_bytes());
    for row in rows(&bytes_of(image, table)?) {
        let Some(symbol) = CodeSymbol::parse(row) else { continue };
        if ![STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE].contains(&symbol.kind) {
            continue;
        }
        let Some(raw) = c_string(&strings, symbol.name as usize) else { continue };
        if finder.find(raw).is_none() {
            continue;
        }
        let raw = String::from_utf8_lossy(raw);
        match (is_named(&raw, name), symbol.is_defined, symbol.kind) {
            (true, false, _) => functions.is_imported = true,
            (true, true, STT_GNU_IFUNC) => functions.has_chosen = true,
            (true, true, _) => {
                let found = FoundFunction { address: symbol.value, size: symbol.size };
                functions.found.entry(symbol.value).or_insert(found);
            }
            (false, true, STT_FUNC) if functions.similar.len() < 100 => {
                functions.similar.push(demangle(&raw).into_owned());
            }
            (false, ..) => {}
        }
    }
    Ok(())
}

/// The part of a name that is in its mangled form, too: the last word of its path.
fn distinctive_part(name: &str) -> &str {
    let path = without_parameters(name);
    let last = path.rsplit("::").next().unwrap_or(path);
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if path.contains("::") {
        last.split(|letter| !is_word(letter)).max_by_key(|word| word.len()).unwrap_or("")
    } else {
        last
    }
}

fn is_named(raw: &str, name: &str) -> bool {
    if raw == name || raw.split('@').next() == Some(name) {
        return true;
    }
    let readable = demangle(raw);
    *readable == *name || (*readable != *raw && without_parameters(&readable) == name)
}

/// `ns::f(int, char) const` as `ns::f`; what is in angle brackets stays.
fn without_parameters(name: &str) -> &str {
    let mut depth = 0;
    for (at, letter) in name.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 && at > 0 && !name[at..].starts_with("(anonymous") => return &name[..at],
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn names_are_those_of_symbols_or_readable_ones() {
        assert!(is_named("malloc@@GLIBC_2.2.5", "malloc") && is_named("malloc", "malloc"));
        assert!(!is_named("mallocx", "malloc") && !is_named("_malloc", "malloc"));
        assert!(is_named("_ZN2ns1fEi", "ns::f") && is_named("_ZN2ns1fEi", "ns::f(int)"));
        assert!(is_named("_ZN2ns1fEi", "_ZN2ns1fEi") && !is_named("_ZN2ns1fEi", "f"));
        assert_eq!(distinctive_part("ns::find_all"), "find_all");
        assert_eq!(distinctive_part("net/http.(*conn).serve"), "net/http.");
    }

    #[test]
    fn functions_of_this_program_are_found() {
        let file = File::open("/proc/self/exe").expect("it is there");
        let image = ElfImage::open(&file, &crate::elf::ElfLimits::default()).expect("it is one");
        let functions = functions(&image, "main").expect("it can be read");
        assert!(!functions.found.is_empty() && functions.has_all);
        let main = functions.found.values().next_back().expect("one").clone();
        let around = around(&image, main.address).expect("it can be read").expect("main itself");
        assert_eq!(around.address, main.address);
        assert!(super::functions(&image, "malloc_of_no_one").expect("it can be read").found.is_empty());
    }
}
