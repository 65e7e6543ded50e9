//! The names of addresses in one module: DWARF where there is any, the symbol table for the rest.

use super::dwarf::{self, DebugSections, DwarfFrame, DwarfFrames};
use super::elf::ElfImage;
use super::source::Source;
use super::symbol_table::SymbolSearch;
use super::{Limits, SymbolError, demangle, plt};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::time::Instant;

/// One function at an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResolvedLocation {
    /// Name for people, demangled.
    pub name: String,
    /// Name as the symbol table or DWARF has it; the linkage name where DWARF has both.
    pub raw_name: String,
    /// Source file as the compiler was given it, made absolute with the compiler's working directory.
    pub file: Option<String>,
    /// Line in `file`; 0 when unknown.
    pub line: u32,
    /// Whether this function was inlined into the next one in the list.
    pub is_inlined: bool,
}

/// The best source of names that a module has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum NameSource {
    /// None: stripped of everything.
    #[default]
    None,
    /// `.dynsym`: exported functions only.
    Dynsym,
    /// `.symtab`: all functions.
    Symtab,
    /// DWARF: functions, inlined functions and lines.
    Dwarf,
}

/// Why DWARF that is there was not, or not fully, used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DebugProblem {
    /// It contradicts itself.
    Damaged,
    /// It is larger, or refers to itself more often, than [`Limits`] allow.
    TooBig,
    /// [`Limits::max_time`] ran out.
    TimeLimit,
    /// Function entries are in `.dwo` or `.dwp` files, which are not read.
    SplitDwarf,
    /// Names are in a file that several modules share (made by `dwz`), which is not read.
    SharedFile,
}

impl std::fmt::Display for DebugProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DebugProblem::Damaged => "debug information is damaged",
            DebugProblem::TooBig => "debug information is too big",
            DebugProblem::TimeLimit => "debug information took too long to search",
            DebugProblem::SplitDwarf => "debug information is in separate .dwo files",
            DebugProblem::SharedFile => "part of the debug information is in a shared file made by dwz",
        })
    }
}

/// Names of the addresses of one module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElfNames {
    /// One entry for each address asked for: the innermost (inlined) function first, the function that
    /// owns the code last. Empty when the address has no name.
    pub locations: Vec<Vec<ResolvedLocation>>,
    /// The best source of names available in the module, whether or not it knew these addresses.
    pub source: NameSource,
    /// Why DWARF was not fully used, if so. The names given are right nevertheless.
    pub problem: Option<DebugProblem>,
}

/// Names `addresses` of the module `file`.
///
/// `addresses` are ELF virtual addresses inside the instruction meant (for a return address: minus one),
/// sorted. `debug_file` is its separate debug information, see [`super::find_debug_file`]. Files are
/// read at positions, never mapped.
///
/// # Errors
/// When `file` is no ELF file, its section table is damaged, or it cannot be read. A damaged symbol
/// table, DWARF or debug file only costs names.
pub fn symbolize_elf(
    file: &File,
    debug_file: Option<&File>,
    addresses: &[u64],
    limits: &Limits,
) -> Result<ElfNames, SymbolError> {
    let debug_source = debug_file.and_then(|file| Source::of_file(file).ok());
    symbolize(Source::of_file(file)?, debug_source, addresses, limits)
}

/// As [`symbolize_elf`], of a module that is in memory (the vdso).
///
/// # Errors
/// As [`symbolize_elf`].
pub fn symbolize_bytes(elf: &[u8], addresses: &[u64], limits: &Limits) -> Result<ElfNames, SymbolError> {
    symbolize(Source::Bytes(elf), None, addresses, limits)
}

fn symbolize(
    source: Source<'_>,
    debug_source: Option<Source<'_>>,
    addresses: &[u64],
    limits: &Limits,
) -> Result<ElfNames, SymbolError> {
    if !addresses.is_sorted() {
        return Err(SymbolError::UnsortedAddresses);
    }
    let now = Instant::now();
    let deadline = now.checked_add(limits.max_time).unwrap_or(now);
    let image = ElfImage::parse(source, limits)?;
    let debug_image = debug_source.and_then(|source| ElfImage::parse(source, limits).ok());
    let images = [Some(&image), debug_image.as_ref()];

    let (symbols, symbol_source) = symbol_names(&image, debug_image.as_ref(), addresses, limits);
    let stubs = plt::stub_names(&image, addresses, limits).unwrap_or_default();

    let with_dwarf = images.into_iter().flatten().find(|image| dwarf::has_debug_info(image));
    let (frames, problem) = match with_dwarf.map(|image| DebugSections::read(image, limits)) {
        Some(Ok(sections)) => sections.frames(addresses, limits, deadline),
        Some(Err(problem)) => (DwarfFrames::new(), Some(problem)),
        None => (DwarfFrames::new(), None),
    };
    let has_dwarf =
        with_dwarf.is_some() && (problem.is_none() || frames.iter().any(|frames| !frames.is_empty()));
    let shared = with_dwarf.filter(|image| image.section(b".gnu_debugaltlink").is_some());
    let problem = problem.or(shared.map(|_| DebugProblem::SharedFile));

    let mut demangled = Demangled::default();
    let mut frames = frames.into_iter();
    let locations = addresses.iter().zip(symbols).map(|(address, symbol)| {
        let symbol = symbol.or_else(|| stubs.get(address).cloned());
        merge(frames.next().unwrap_or_default(), symbol, &mut demangled)
    });
    let locations = locations.collect();
    let source = if has_dwarf { NameSource::Dwarf } else { symbol_source };
    Ok(ElfNames { locations, source, problem })
}

/// The best symbol of each address, and the best table that exists.
fn symbol_names<'q>(
    image: &ElfImage<'q>,
    debug_image: Option<&ElfImage<'q>>,
    addresses: &'q [u64],
    limits: &Limits,
) -> (Vec<Option<String>>, NameSource) {
    let mut search = SymbolSearch::new(addresses, image.code_ranges(), limits);
    let mut best = NameSource::None;
    let tables = [
        (Some(image), NameSource::Symtab),
        (debug_image, NameSource::Symtab),
        (Some(image), NameSource::Dynsym),
    ];
    for (image, source) in tables {
        if let Some(image) = image
            && let Ok(true) = search.add(image, source, limits)
        {
            best = best.max(source);
        }
    }
    (search.finish(), best)
}

/// Readable names by raw name, so that each is worked out once.
type Demangled = FxHashMap<String, String>;

/// Puts the inline chain and the symbol of one address together.
fn merge(
    mut frames: Vec<DwarfFrame>,
    symbol: Option<String>,
    demangled: &mut Demangled,
) -> Vec<ResolvedLocation> {
    if frames.is_empty() && symbol.is_some() {
        frames.push(DwarfFrame { name: None, file: None, line: 0 });
    }
    if let (Some(outermost), Some(symbol)) = (frames.last_mut(), symbol) {
        // A symbol says more than a plain name that lost its namespace (line tables only), and something
        // where DWARF is silent (assembly).
        let is_better = |name: &String| is_mangled(&symbol) && !is_mangled(name);
        if outermost.name.as_ref().is_none_or(is_better) {
            outermost.name = Some(symbol);
        }
    }
    let last = frames.len().saturating_sub(1);
    let named = frames.into_iter().enumerate().filter_map(|(index, frame)| {
        let raw_name = frame.name?;
        let name = match demangled.get(&raw_name) {
            Some(name) => name.clone(),
            None => {
                let name = demangle(&raw_name).into_owned();
                demangled.insert(raw_name.clone(), name.clone());
                name
            }
        };
        let is_inlined = index < last;
        Some(ResolvedLocation { name, raw_name, file: frame.file, line: frame.line, is_inlined })
    });
    let mut locations: Vec<_> = named.collect();
    // When the outermost function has no name, the chain would claim to be inlined into nothing.
    if locations.last().is_some_and(|location| location.is_inlined) {
        locations.clear();
    }
    locations
}

fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}
