//! Names for the frames of one module: from its symbols and DWARF, from Go's own table, and from the starts of
//! functions.

use super::symbolize::{Addresses, Named};
use crate::base::deadline::Deadline;
use crate::base::memory_budget::{MemoryBudget, Reservation};
use crate::profile::{ModuleNotes, SymbolsFrom};
use crate::record::environment::packages;
use crate::record::modules::ModuleFile;
use crate::record::process::proc_fs;
use crate::symbols::{
    Bases, DebugFiles, FoundFile, ModuleNames, NameSource, NamingLimits, ResolvedLocation, Searched,
};
use crate::unwind::{self, CfiSections, ElfImage, GoFrame, GoTable};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const REWRITTEN: &str = "no names: it was rewritten in place, and the code that ran is no longer in it";

/// Time limit for finding a separate debug file, for all candidates together.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(2);

/// Looks up names for the frames of one module. While it is kept, later lookups take little time.
#[derive(Debug)]
pub(crate) struct FileNames {
    names: ModuleNames,
    /// Go's table, read on first use. `None` inside: there is none, or no memory for it.
    go: Option<Option<(GoTable, Reservation)>>,
    starts: Option<Option<FunctionStarts>>,
    /// Sources of the names, as far as they are known when the files are opened.
    found: ModuleNotes,
    /// Name of the file that the module's debug information shares with other modules; empty: it shares none.
    shared: String,
}

/// Starts and ends of functions, from unwind entries.
#[derive(Debug)]
struct FunctionStarts {
    /// Ranges sorted by start.
    ranges: Vec<(u64, u64)>,
    room: Reservation,
}

impl FileNames {
    /// Opens `file` and its debug files, which are looked for in `folders`, too.
    pub(crate) fn open(file: &ModuleFile, folders: &[PathBuf], deadline: &Deadline) -> Result<Self, String> {
        if !file.is_unchanged(&unwind::Limits::default()) {
            return Err(REWRITTEN.to_owned());
        }
        match (&file.file, &file.vdso) {
            (_, Some(bytes)) => {
                let memory = MemoryBudget::shared();
                let names = ModuleNames::of_bytes(bytes, &NamingLimits::default(), deadline, memory);
                let names = names.map_err(|error| error.to_string())?;
                Ok(FileNames::of(names, ModuleNotes::default(), String::new()))
            }
            (Some(opened), None) => {
                let root = root_of(file);
                let module =
                    Searched { path: Path::new(&file.path), file: Some(opened), build_id: &file.build_id };
                let search = deadline.at_most(MAX_SEARCH_TIME);
                let files = DebugFiles::find(&Bases::new(&root, folders), &module, &search);
                Self::open_with(opened, files, &NamingLimits::default(), deadline)
            }
            (None, None) => Err("the file could not be opened".to_owned()),
        }
    }

    /// Opens the module `opened`, whose debug information is in `files`.
    pub(super) fn open_with(
        opened: &Arc<File>,
        files: DebugFiles,
        limits: &NamingLimits,
        deadline: &Deadline,
    ) -> Result<Self, String> {
        let path = |found: &Option<FoundFile>| {
            found.as_ref().map_or(String::new(), |found| found.path.to_string_lossy().into_owned())
        };
        let shared =
            files.missing_shared.as_ref().map_or_else(|| path(&files.shared), |(_, name)| name.clone());
        let found = ModuleNotes {
            debug_file: path(&files.debug),
            shared_file: path(&files.shared),
            package_file: path(&files.package),
            ..ModuleNotes::default()
        };
        let names = ModuleNames::open_with(opened, files, limits, deadline, MemoryBudget::shared());
        let names = names.map_err(|error| error.to_string())?;
        Ok(FileNames::of(names, found, shared))
    }

    fn of(names: ModuleNames, found: ModuleNotes, shared: String) -> Self {
        FileNames { names, go: None, starts: None, found, shared }
    }

    /// Opens a module that is not on this machine by its debug file alone; `files` has the files that the debug file
    /// refers to.
    pub(super) fn open_elsewhere(
        debug: &FoundFile,
        files: DebugFiles,
        limits: &NamingLimits,
        deadline: &Deadline,
    ) -> Result<Self, String> {
        let mut names = Self::open_with(&debug.file, files, limits, deadline)?;
        names.found.debug_file = debug.path.to_string_lossy().into_owned();
        Ok(names)
    }

    /// Notes the package of this machine that the module at `path` is from.
    pub(super) fn note_package(&mut self, path: &str) {
        if !self.names.has_debug_info() || self.names.lacks_shared() {
            self.found.package = packages::owner_of(Path::new(path));
            self.found.distribution = packages::distribution().to_owned();
        }
    }

    /// The sources of the names, and what is missing from them.
    pub(crate) fn notes(&self) -> ModuleNotes {
        let (split_found, missing) = self.names.split_units();
        let mut problems = self.names.refused();
        if let Some(first) = missing.first() {
            problems.push(match missing.len() {
                1 => format!("{first}: not found"),
                many => format!("{first}: not found, nor {} more .dwo files", many - 1),
            });
        }
        problems.extend(self.problems());
        let (shared_file, shared_missing) = match self.names.lacks_shared() {
            true => (String::new(), self.shared.clone()),
            false => (self.found.shared_file.clone(), String::new()),
        };
        ModuleNotes {
            shared_file,
            shared_missing,
            symbols: match self.names.symbol_source() {
                NameSource::None => SymbolsFrom::None,
                NameSource::Dynsym => SymbolsFrom::Dynsym,
                NameSource::Mini => SymbolsFrom::DebugData,
                NameSource::Symtab | NameSource::Dwarf => SymbolsFrom::Symtab,
            },
            has_debug_info: self.names.has_debug_info(),
            split_found,
            split_missing: missing.len() as u64,
            problems,
            ..self.found.clone()
        }
    }

    /// Names the frames; frames without a name are left out.
    pub(crate) fn name(
        &mut self,
        file: &ModuleFile,
        frames: &mut Addresses,
        deadline: &Deadline,
    ) -> Result<Named, String> {
        frames.sort_unstable();
        let mut addresses: Vec<u64> = frames.iter().map(|(address, _)| *address).collect();
        addresses.dedup();
        let locations = self.locations(file, &addresses, deadline);
        if !file.is_unchanged(&unwind::Limits::default()) {
            return Err(REWRITTEN.to_owned());
        }
        let by_address: FxHashMap<u64, &Vec<ResolvedLocation>> =
            addresses.iter().copied().zip(&locations).collect();
        Ok(frames
            .iter()
            .filter_map(|(address, frame)| {
                let locations = by_address.get(address).filter(|locations| !locations.is_empty())?;
                Some((*frame, (*locations).clone()))
            })
            .collect())
    }

    /// The functions at each of the addresses, the innermost first; empty where there is neither a name nor a start of
    /// a function.
    pub(super) fn locations(
        &mut self,
        file: &ModuleFile,
        addresses: &[u64],
        deadline: &Deadline,
    ) -> Vec<Vec<ResolvedLocation>> {
        let mut locations = self.names.resolve(addresses, deadline);
        if !deadline.is_stopped() {
            self.name_go(file, addresses, &mut locations);
            self.place_unnamed(file, addresses, &mut locations, deadline);
        }
        locations
    }

    /// The range of the function around `address`, from its symbol, Go's table, or unwind entries.
    pub(super) fn function_around(
        &mut self,
        file: &ModuleFile,
        address: u64,
        deadline: &Deadline,
    ) -> Option<Range<u64>> {
        if let Some(range) = self.names.function_range(address) {
            return Some(range);
        }
        let elf = file.elf.as_ref()?;
        // A PLT has many functions (stubs) but one unwind entry.
        let is_stub = [&b".plt"[..], b".plt.sec", b".plt.got"].iter().any(|name| {
            elf.section(name).is_some_and(|section| {
                address.checked_sub(section.address).is_some_and(|offset| offset < section.size)
            })
        });
        if is_stub {
            return None;
        }
        if elf.is_go()
            && let Some((table, _)) = self.go.get_or_insert_with(|| load_go(elf))
            && let Some(function) = table.function_around(address)
        {
            return Some(function.start..function.end);
        }
        self.starts.get_or_insert_with(|| FunctionStarts::load(elf, deadline)).as_ref()?.range_around(address)
    }

    /// Messages about what could not be read at the last lookup.
    pub(crate) fn problems(&self) -> Vec<String> {
        let symbols = self.names.symbol_problem().map(|error| format!("symbol table not used: {error}"));
        symbols.into_iter().chain(self.names.problem().map(|problem| problem.to_string())).collect()
    }

    /// Memory in use, bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let go = self.go.iter().flatten().map(|(_, room)| room.bytes());
        let starts = self.starts.iter().flatten().map(|starts| starts.room.bytes());
        self.names.memory_bytes() + go.chain(starts).sum::<u64>()
    }

    /// Names the functions of a stripped Go program from Go's own table.
    fn name_go(&mut self, file: &ModuleFile, addresses: &[u64], locations: &mut [Vec<ResolvedLocation>]) {
        let is_needed = |elf: &&Arc<ElfImage>| elf.is_go() && locations.iter().any(Vec::is_empty);
        let Some(elf) = file.elf.as_ref().filter(is_needed) else { return };
        let Some((table, _)) = self.go.get_or_insert_with(|| load_go(elf)) else { return };
        for (&address, locations) in addresses.iter().zip(locations) {
            if locations.is_empty() {
                *locations = go_locations(&table.chain_at(address, elf));
            }
        }
    }

    /// Gives addresses without a name the place of their function, `module+0xstart`, where unwind entries have the
    /// starts of functions: that way a function of a stripped module is one row of a report rather than one per
    /// address. The raw name stays empty because this is a place, not a name.
    fn place_unnamed(
        &mut self,
        file: &ModuleFile,
        addresses: &[u64],
        locations: &mut [Vec<ResolvedLocation>],
        deadline: &Deadline,
    ) {
        let is_needed = |_: &&Arc<ElfImage>| locations.iter().any(Vec::is_empty);
        let Some(elf) = file.elf.as_ref().filter(is_needed) else { return };
        let Some(starts) = self.starts.get_or_insert_with(|| FunctionStarts::load(elf, deadline)) else {
            return;
        };
        let module = file.path.rsplit('/').next().unwrap_or(&file.path);
        for (&address, locations) in addresses.iter().zip(locations) {
            if locations.is_empty()
                && let Some(start) = starts.around(address)
            {
                locations.push(ResolvedLocation {
                    name: format!("{module}+{start:#x}"),
                    raw_name: String::new(),
                    file: None,
                    line: 0,
                    is_inlined: false,
                });
            }
        }
    }
}

/// Locations from the entries of Go's table for an address.
fn go_locations(frames: &[GoFrame]) -> Vec<ResolvedLocation> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let located = frames.iter().enumerate().map(|(index, frame)| ResolvedLocation {
        name: text(&frame.name),
        raw_name: text(&frame.name),
        file: frame.file.as_deref().map(text),
        line: frame.line,
        is_inlined: index + 1 < frames.len(),
    });
    located.collect()
}

/// Root directory of the process that `file` was seen in, while it lives; else our own.
pub(super) fn root_of(file: &ModuleFile) -> PathBuf {
    proc_fs::root_of(file.seen_in)
}

fn load_go(elf: &ElfImage) -> Option<(GoTable, Reservation)> {
    let sections = elf.sections().iter().filter(|section| section.name.ends_with(b"gopclntab"));
    let bytes = sections.map(|section| section.size).max().unwrap_or(0);
    let room = MemoryBudget::shared().try_reserve(bytes).ok()?;
    Some((GoTable::load(elf)?, room))
}

impl FunctionStarts {
    fn load(elf: &ElfImage, deadline: &Deadline) -> Option<Self> {
        let mut room = MemoryBudget::shared().reserve(CfiSections::memory_bytes(elf), deadline).ok()?;
        let ranges = CfiSections::load(elf).ok()?.function_ranges();
        room.shrink_to((ranges.len() * size_of::<(u64, u64)>()) as u64);
        Some(FunctionStarts { ranges, room })
    }

    /// The start of the function around an address.
    fn around(&self, address: u64) -> Option<u64> {
        self.range_around(address).map(|range| range.start)
    }

    fn range_around(&self, address: u64) -> Option<Range<u64>> {
        let after = self.ranges.partition_point(|(start, _)| *start <= address);
        let (start, end) = *self.ranges.get(after.checked_sub(1)?)?;
        (address < end).then_some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::FrameId;
    use crate::symbols::tests::llvm::{Reason, llvm_symbolizer, reasons};
    use crate::symbols::tests::program::{GO_SOURCE, Workshop, nm};

    /// Checks that the names of a stripped Go program are those that DWARF gives for the unstripped one.
    fn check_stripped_go(flags: &[&str]) -> Option<()> {
        let shop = Workshop::new();
        shop.write("prog.go", GO_SOURCE);
        let args = ["build"].iter().chain(flags).chain(&["-o", "prog", "prog.go"]);
        shop.run("go", args.copied())?;
        let functions = nm(&shop, &shop.path().join("prog"), &[])?;
        let functions: Vec<_> = functions.into_iter().filter(|(_, size, ..)| *size > 0).collect();
        let of_go =
            |name: &str| name.starts_with("main.") || name.starts_with("fmt.") || name.starts_with("os.");
        let ranges = functions.iter().filter(|(.., name)| of_go(name));
        let addresses: Vec<u64> =
            ranges.flat_map(|&(start, size, ..)| (start..start + size).step_by(7)).collect();
        let truths = llvm_symbolizer(&shop, &shop.path().join("prog"), &addresses)?;
        shop.run("strip", ["-o", "stripped", "prog"])?;
        let path = shop.path().join("stripped");
        let opened = Arc::new(File::open(&path).expect("it was built"));
        let path = path.to_str().expect("text").to_owned();
        let file = ModuleFile::read(std::process::id(), &path, opened, &unwind::Limits::default());
        let end = Deadline::default();
        let mut names = FileNames::open(&file, &[], &end).expect("it is ELF");
        let mut frames: Addresses = addresses.iter().zip(0..).map(|(at, id)| (*at, FrameId(id))).collect();
        let mut found = vec![Vec::new(); addresses.len()];
        for (frame, locations) in names.name(&file, &mut frames, &end).expect("it is unchanged") {
            found[frame.index()] = locations;
        }
        let reasons = reasons(&addresses, &found, &truths, &functions, &flags.join(" "));
        let same = reasons.get(&Reason::None).copied().unwrap_or(0);
        assert!(same * 100 >= addresses.len() * 95, "{reasons:?}");
        assert!(found.iter().any(|locations| locations.len() > 2), "inlined ones are among them");
        Some(())
    }

    #[test]
    fn a_stripped_go_program_has_its_inlined_functions_and_lines() {
        for flags in [&["-ldflags=-s"][..0], &["-buildmode=pie"]] {
            let Some(()) = check_stripped_go(flags) else { return };
        }
    }
}
