//! Functions of a file by name, through its symbol tables.

use crate::elf::exported::TableEntry;
use crate::elf::{ElfError, ElfImage};
use crate::symbols::demangle;
use object::elf;
use std::collections::BTreeMap;

/// Tables of all functions, and of those that a file exports.
const TABLES: [&[u8]; 2] = [b".symtab", b".dynsym"];
/// Names that are shown where one is not found, and of how many these are chosen.
const MOST_SUGGESTIONS: usize = 3;
const MOST_SIMILAR: usize = 100;

/// A function, by its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::record::probes) struct FoundFunction {
    /// The module's own address.
    pub(in crate::record::probes) address: u64,
    /// Bytes of code; 0: not known.
    pub(in crate::record::probes) size: u64,
}

/// What is known of a name.
#[derive(Debug, Default)]
pub(in crate::record::probes) struct FunctionSearch {
    /// Functions of that name, by address.
    pub(in crate::record::probes) found: BTreeMap<u64, FoundFunction>,
    /// One of them is chosen by the program when it starts, by what the processor can do.
    pub(in crate::record::probes) has_chosen: bool,
    /// The file takes a function of that name from another file.
    pub(in crate::record::probes) is_imported: bool,
    /// Names that contain it.
    pub(in crate::record::probes) similar: Vec<String>,
    /// The file has a table of all its functions, not only of those that it exports.
    pub(in crate::record::probes) has_all: bool,
}

/// Looks for functions of a name: the symbol's own, or the readable form of a mangled one, with or without its parameters.
///
/// # Errors
///
/// A table cannot be read.
pub(in crate::record::probes) fn functions(image: &ElfImage, name: &str) -> Result<FunctionSearch, ElfError> {
    let mut functions = FunctionSearch::default();
    let finder = memchr::memmem::Finder::new(distinctive_part(name));
    for table in TABLES {
        let is_there = image.visit_entries(table, |raw, entry| {
            if finder.find(raw).is_some() {
                functions.look_at(&String::from_utf8_lossy(raw), entry, name);
            }
        })?;
        functions.has_all |= is_there && table == TABLES[0];
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
pub(in crate::record::probes) fn around(
    image: &ElfImage,
    address: u64,
) -> Result<Option<FoundFunction>, ElfError> {
    let mut best: Option<FoundFunction> = None;
    for table in TABLES {
        image.visit_entries(table, |_, TableEntry { kind, is_defined, symbol }| {
            let is_around = symbol.address <= address && address - symbol.address < symbol.size;
            let is_better = best.as_ref().is_none_or(|best| best.size > symbol.size);
            if kind == elf::STT_FUNC && is_defined && is_around && is_better {
                best = Some(FoundFunction { address: symbol.address, size: symbol.size });
            }
        })?;
    }
    Ok(best)
}

impl FunctionSearch {
    /// Notes what the entry of this raw name says of the functions of a name.
    fn look_at(&mut self, raw: &str, entry: TableEntry, name: &str) {
        let TableEntry { kind, is_defined, symbol } = entry;
        if ![elf::STT_FUNC, elf::STT_GNU_IFUNC, elf::STT_NOTYPE].contains(&kind) {
            return;
        }
        match (is_named(raw, name), is_defined) {
            (true, false) => self.is_imported = true,
            (true, true) if kind == elf::STT_GNU_IFUNC => self.has_chosen = true,
            (true, true) => {
                let found = FoundFunction { address: symbol.address, size: symbol.size };
                self.found.entry(symbol.address).or_insert(found);
            }
            (false, true) if kind == elf::STT_FUNC && self.similar.len() < MOST_SIMILAR => {
                self.similar.push(demangle(raw).into_owned());
            }
            (false, _) => {}
        }
    }
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
