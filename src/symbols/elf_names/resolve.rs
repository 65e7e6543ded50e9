//! The names of addresses in one module: from DWARF where there is any, from the symbol table for the rest.

use super::data_symbols::{self, DataName};
use super::dwarf::{DwarfFrame, DwarfFrames, DwarfNames, problem_of};
use super::plt::Stubs;
use super::split::SplitFiles;
use super::symbol_table::{ChosenNames, SymbolTable};
use crate::base::deadline::Deadline;
use crate::base::memory_budget::MemoryBudget;
use crate::elf::ElfFile;
use crate::elf::source::Source;
use crate::symbols::debug_files::found::{DebugFiles, FoundFile};
use crate::symbols::debug_files::mini::MiniDebug;
use crate::symbols::debug_files::refusal::UnusedFiles;
use crate::symbols::demangle;
use crate::symbols::elf_names::problem::{DebugProblem, NameSource};
use crate::symbols::error::SymbolError;
use crate::symbols::limits::NamingLimits;
use crate::symbols::sections::dwarf::has_debug_info;
use crate::symbols::work::Work;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// One function at an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResolvedLocation {
    /// Readable name, demangled.
    pub(crate) name: String,
    /// Name as the symbol table or DWARF has it; the linkage name where DWARF has both.
    pub(crate) raw_name: String,
    /// Source file as the compiler was given it, made absolute with the compiler's working directory.
    pub(crate) file: Option<String>,
    /// Line in `file`; 0 when unknown.
    pub(crate) line: u32,
    /// Whether this function was inlined into the next one in the list.
    pub(crate) is_inlined: bool,
}

/// Looks up names of the addresses in one module. While it is kept, later lookups take little time.
///
/// Memory in use grows with the addresses looked up: 32 bytes for every function of the symbol table, and of DWARF the
/// list of units and those units that hold addresses looked up. The memory is drawn from a [`MemoryBudget`], and all of
/// it is given back on drop.
#[derive(Debug)]
pub struct ModuleNames {
    image: ElfFile,
    /// Its separate debug file.
    debug_image: Option<ElfFile>,
    symbols: SymbolTable,
    symbol_source: NameSource,
    symbol_problem: Option<SymbolError>,
    stubs: Stubs,
    dwarf: Option<DwarfNames>,
    has_debug_info: bool,
    debug_problem: Option<DebugProblem>,
    /// Whether the file that the module shares with others is missing.
    lacks_shared: bool,
    /// Debug files that are there but were not used.
    refused: UnusedFiles,
    /// The unpacked file that the symbol names are read from; kept alive for as long as `symbols` is.
    _mini: Option<MiniDebug>,
    /// Whether DWARF has ever named anything.
    has_frames: bool,
    limits: NamingLimits,
    work: Arc<Work>,
}

impl ModuleNames {
    /// Opens the module `file`. `debug_file` is its separate debug information, see
    /// [`crate::symbols::find_debug_file`]. Files are read at positions, never mapped.
    ///
    /// # Errors
    /// Fails when `file` is not an ELF file, its section table is damaged, or it cannot be read; when there is no
    /// memory or no time even for its symbol table. A damaged symbol table, DWARF or debug file only costs names.
    pub fn open(
        file: &Arc<File>,
        debug_file: Option<&Arc<File>>,
        limits: &NamingLimits,
        deadline: &Deadline,
        memory: &Arc<MemoryBudget>,
    ) -> Result<Self, SymbolError> {
        let debug =
            debug_file.map(|file| FoundFile { file: Arc::clone(file), path: std::path::PathBuf::new() });
        let files = DebugFiles { debug, ..DebugFiles::default() };
        Self::open_with(file, files, limits, deadline, memory)
    }

    /// Opens the module `file` with all files that hold its debug information.
    ///
    /// # Errors
    /// The same as for [`ModuleNames::open`].
    pub(crate) fn open_with(
        file: &Arc<File>,
        files: DebugFiles,
        limits: &NamingLimits,
        deadline: &Deadline,
        memory: &Arc<MemoryBudget>,
    ) -> Result<Self, SymbolError> {
        Self::of_source(Source::of_file(file)?, files, limits, deadline, memory)
    }

    /// Opens a module that is in memory (the vdso).
    ///
    /// # Errors
    /// The same as for [`ModuleNames::open`].
    pub(crate) fn of_bytes(
        elf: &Arc<Vec<u8>>,
        limits: &NamingLimits,
        deadline: &Deadline,
        memory: &Arc<MemoryBudget>,
    ) -> Result<Self, SymbolError> {
        Self::of_source(Source::Bytes(Arc::clone(elf)), DebugFiles::default(), limits, deadline, memory)
    }

    fn of_source(
        source: Source,
        files: DebugFiles,
        limits: &NamingLimits,
        deadline: &Deadline,
        memory: &Arc<MemoryBudget>,
    ) -> Result<Self, SymbolError> {
        let image = ElfFile::parse(source, &limits.elf)?;
        let DebugFiles { debug, shared, missing_shared, package, split, mut refused } = files;
        let mut open = |found: Option<FoundFile>| {
            let found = found?;
            let image = Source::of_file(&found.file).and_then(|source| ElfFile::parse(source, &limits.elf));
            image.map_err(|error| refused.add(&found.path, &error.to_string())).ok()
        };
        let (debug_image, shared_image) = (open(debug), open(shared));
        let work = Work::of(limits, memory, deadline)?;
        let mut symbols = SymbolTable::new(image.code_ranges(), limits, &work);
        let (mini, mini_problem) = match MiniDebug::open(&image, limits, &work) {
            Ok(mini) => (mini, None),
            Err(SymbolError::Stopped) => return Err(SymbolError::Stopped),
            Err(error) => (None, Some(error)),
        };
        let tables = [
            (Some(&image), NameSource::Symtab),
            (debug_image.as_ref(), NameSource::Symtab),
            (mini.as_ref().map(|mini| &mini.image), NameSource::Mini),
            (Some(&image), NameSource::Dynsym),
        ];
        let (symbol_source, symbol_problem) = add_symbols(&mut symbols, tables, limits, &work)?;
        let (mut dwarf, mut debug_problem) = (None, None);
        let with_dwarf =
            [Some(&image), debug_image.as_ref()].into_iter().flatten().find(|image| has_debug_info(image));
        let has_debug_info = with_dwarf.is_some();
        if let Some(image) = with_dwarf {
            let split = SplitFiles::new(split, package, limits);
            match DwarfNames::open(image, shared_image.as_ref(), split, limits, &work) {
                Ok(names) => dwarf = Some(names),
                Err(error) => debug_problem = Some(problem_of(&error)),
            }
        }
        let lacks_shared =
            has_debug_info && (missing_shared.is_some() || lacks_shared(with_dwarf, &shared_image));
        Ok(ModuleNames {
            has_debug_info,
            image,
            debug_image,
            symbols,
            symbol_source,
            symbol_problem: symbol_problem.or(mini_problem),
            stubs: Stubs::default(),
            dwarf,
            debug_problem: debug_problem.or(lacks_shared.then_some(DebugProblem::SharedFile)),
            lacks_shared,
            refused,
            _mini: mini,
            has_frames: false,
            limits: limits.clone(),
            work,
        })
    }

    /// Names addresses, in any order: one entry for each, the innermost (inlined) function first, the function that
    /// owns the code last; empty when the address has no name. Addresses are ELF virtual addresses inside the
    /// instruction meant (for a return address: minus one). Addresses not reached by the deadline get the name of their
    /// symbol, or none.
    pub fn resolve(&mut self, addresses: &[u64], deadline: &Deadline) -> Vec<Vec<ResolvedLocation>> {
        self.work.begin(&deadline.at_most(self.limits.max_time));
        let mut sorted = addresses.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut frames = self.frames(&sorted);
        // The time limit for DWARF does not apply to symbols.
        self.work.begin(deadline);
        let (mut chosen, mut demangled) = (ChosenNames::default(), Demangled::default());
        let mut locations: FxHashMap<u64, Vec<ResolvedLocation>> = FxHashMap::default();
        for (&address, frames) in sorted.iter().zip(&mut frames) {
            if deadline.is_stopped() {
                break;
            }
            let symbol = self.symbols.lookup(address, &mut chosen);
            let symbol = symbol.or_else(|| self.stubs.name(&self.image, address, &self.limits, &self.work));
            locations.insert(address, merge(std::mem::take(frames), symbol, &mut demangled));
        }
        self.name_data(&sorted, &mut locations);
        addresses.iter().map(|address| locations.get(address).cloned().unwrap_or_default()).collect()
    }

    /// Names the variables at those of the addresses `sorted` that are in no code.
    fn name_data(&self, sorted: &[u64], locations: &mut FxHashMap<u64, Vec<ResolvedLocation>>) {
        let is_unnamed = |address: &&u64| locations.get(*address).is_some_and(Vec::is_empty);
        if !sorted.iter().any(|address| is_unnamed(&address)) {
            return;
        }
        let code = self.image.code_ranges();
        let is_code = |address: u64| code.iter().any(|range| range.contains(&address));
        let wanted = sorted.iter().filter(is_unnamed).copied().filter(|address| !is_code(*address));
        let wanted: Vec<u64> = wanted.collect();
        let images = [Some(&self.image), self.debug_image.as_ref()].into_iter().flatten();
        for (address, DataName { name, raw_name }) in
            data_symbols::name(images, &wanted, &self.limits, &self.work)
        {
            let location = ResolvedLocation { name, raw_name, file: None, line: 0, is_inlined: false };
            locations.insert(address, vec![location]);
        }
    }

    /// The address range of the symbol around `address`; `None` if there is none.
    pub(crate) fn function_range(&self, address: u64) -> Option<Range<u64>> {
        self.symbols.function_at(address, &mut ChosenNames::default()).map(|(_, range)| range)
    }

    fn frames(&mut self, sorted: &[u64]) -> DwarfFrames {
        let none = || vec![Vec::new(); sorted.len()];
        let Some(dwarf) = self.dwarf.as_mut().filter(|_| !sorted.is_empty()) else { return none() };
        if self.work.is_late() {
            self.debug_problem = Some(DebugProblem::TimeLimit);
            return none();
        }
        let (frames, problem) = dwarf.frames(sorted);
        self.has_frames |= frames.iter().any(|frames| !frames.is_empty());
        let lacks_split = !dwarf.split.missing.is_empty();
        let lasting = (self.lacks_shared.then_some(DebugProblem::SharedFile))
            .or(lacks_split.then_some(DebugProblem::SplitDwarf));
        self.debug_problem = problem.or(lasting);
        frames
    }

    /// The best source of names available in the module, whether or not it knew the addresses asked for.
    #[cfg_attr(not(test), expect(dead_code, reason = "so far only tests ask where names are from"))]
    pub(crate) fn source(&self) -> NameSource {
        let is_sound = matches!(self.debug_problem, None | Some(DebugProblem::SharedFile));
        if self.has_debug_info && (is_sound || self.has_frames) {
            return NameSource::Dwarf;
        }
        self.symbol_source
    }

    /// Why the last lookup could not use all of the DWARF, if so. The names that it returned are correct.
    pub(crate) fn problem(&self) -> Option<DebugProblem> {
        self.debug_problem
    }

    /// Files with debug information that are there but were not used, with the reason. Foreign text.
    pub(crate) fn refused(&self) -> Vec<String> {
        let split = self.dwarf.iter().flat_map(|dwarf| dwarf.split.refused.lines());
        self.refused.lines().iter().chain(split).cloned().collect()
    }

    /// Number of split DWARF units found so far, and the names of the files that were not found.
    pub(crate) fn split_units(&self) -> (u64, Vec<String>) {
        self.dwarf.as_ref().map_or((0, Vec::new()), |dwarf| {
            (dwarf.split.found, dwarf.split.missing.iter().cloned().collect())
        })
    }

    /// Whether the module's DWARF refers to a file shared with other modules that was not found or cannot be read.
    pub(crate) fn lacks_shared(&self) -> bool {
        self.lacks_shared
    }

    /// The best symbol table that the module has.
    pub(crate) fn symbol_source(&self) -> NameSource {
        self.symbol_source
    }

    /// Whether the module has DWARF, its own or in another file.
    pub(crate) fn has_debug_info(&self) -> bool {
        self.has_debug_info
    }

    /// Why an existing symbol table is not used.
    pub(crate) fn symbol_problem(&self) -> Option<&SymbolError> {
        self.symbol_problem.as_ref()
    }

    /// Memory in use, bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.work.used_bytes()
    }
}

/// Whether the file with DWARF refers to a file shared with other modules that was not found.
fn lacks_shared(with_dwarf: Option<&ElfFile>, shared: &Option<ElfFile>) -> bool {
    shared.is_none() && with_dwarf.is_some_and(|image| image.section(b".gnu_debugaltlink").is_some())
}

/// Reads the symbol tables; returns the best of them, and the error of another.
fn add_symbols(
    symbols: &mut SymbolTable,
    tables: [(Option<&ElfFile>, NameSource); 4],
    limits: &NamingLimits,
    work: &Arc<Work>,
) -> Result<(NameSource, Option<SymbolError>), SymbolError> {
    let (mut best, mut problem) = (NameSource::None, None);
    for (image, source) in tables {
        let Some(image) = image else { continue };
        match symbols.add(image, source, limits, work) {
            Ok(true) => best = best.max(source),
            Ok(false) => {}
            Err(SymbolError::Stopped) => return Err(SymbolError::Stopped),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    symbols.finish(work)?;
    Ok((best, problem))
}

/// Readable names by raw name, so that each is demangled once.
type Demangled = FxHashMap<String, String>;

/// Combines the inline chain and the symbol of one address.
fn merge(
    mut frames: Vec<DwarfFrame>,
    symbol: Option<String>,
    demangled: &mut Demangled,
) -> Vec<ResolvedLocation> {
    if frames.is_empty() && symbol.is_some() {
        frames.push(DwarfFrame { name: None, file: None, line: 0 });
    }
    if let (Some(outermost), Some(symbol)) = (frames.last_mut(), symbol) {
        // A symbol is better than a plain name that lost its namespace (line tables only), and better than nothing
        // where DWARF has no entry (assembly).
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
    // If the outermost function has no name, the last one in the chain would claim to be inlined into nothing.
    if locations.last().is_some_and(|location| location.is_inlined) {
        locations.clear();
    }
    locations
}

fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}
