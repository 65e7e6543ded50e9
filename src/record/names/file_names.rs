//! What names the frames of one module: its symbols and DWARF, Go's own table, and where functions start.

use super::symbolize::{Addresses, Named};
use crate::base::deadline::Deadline;
use crate::base::memory_budget::{MemoryBudget, Reservation};
use crate::record::modules::ModuleFile;
use crate::symbols::{ModuleNames, NamingLimits, ResolvedLocation, find_debug_file};
use crate::unwind::{self, CfiSections, ElfImage, GoTable};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const REWRITTEN: &str = "no names: it was rewritten in place, and the code that ran is no longer in it";

/// Time to look for a separate debug file, all candidates together.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(2);

/// What names the frames of one module. Kept, it names more of them in little time.
#[derive(Debug)]
pub(crate) struct FileNames {
    names: ModuleNames,
    /// Read when it is first needed. `None` inside: there is none, or no memory for it.
    go: Option<Option<(GoTable, Reservation)>>,
    starts: Option<Option<FunctionStarts>>,
}

/// Where functions start and end, as unwind entries tell.
#[derive(Debug)]
struct FunctionStarts {
    /// By start.
    ranges: Vec<(u64, u64)>,
    room: Reservation,
}

impl FileNames {
    /// Opens what names the frames of `file`.
    pub(crate) fn open(file: &ModuleFile, deadline: &Deadline) -> Result<Self, String> {
        if !file.is_unchanged(&unwind::Limits::default()) {
            return Err(REWRITTEN.to_owned());
        }
        let (limits, memory) = (NamingLimits::default(), MemoryBudget::shared());
        let names = match (&file.file, &file.vdso) {
            (_, Some(bytes)) => ModuleNames::of_bytes(bytes, &limits, deadline, memory),
            (Some(opened), None) => {
                let root = format!("/proc/{}/root", file.seen_in);
                let root = if Path::new(&root).exists() { Path::new(&root) } else { Path::new("/") };
                let search = deadline.at_most(MAX_SEARCH_TIME);
                let debug_file = find_debug_file(root, Path::new(&file.path), opened, &search);
                ModuleNames::open(opened, debug_file.as_ref(), &limits, deadline, memory)
            }
            (None, None) => return Err("the file could not be opened".to_owned()),
        };
        let names = names.map_err(|error| error.to_string())?;
        Ok(FileNames { names, go: None, starts: None })
    }

    /// What the frames are called; those without a name are left out.
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

    /// The functions at each of the addresses, the innermost first; none where there is no name and no start of a function.
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

    /// From where to where the function around `address` reaches, by its symbol, Go's table, or unwind entries.
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
        // Stubs are many functions with one unwind entry.
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

    /// What could not be read the last time.
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

    /// Names the functions of a stripped Go program by Go's own table of them.
    fn name_go(&mut self, file: &ModuleFile, addresses: &[u64], locations: &mut [Vec<ResolvedLocation>]) {
        let is_needed = |elf: &&Arc<ElfImage>| elf.is_go() && locations.iter().any(Vec::is_empty);
        let Some(elf) = file.elf.as_ref().filter(is_needed) else { return };
        let Some((table, _)) = self.go.get_or_insert_with(|| load_go(elf)) else { return };
        for (&address, locations) in addresses.iter().zip(locations) {
            if locations.is_empty()
                && let Some((_, name)) = table.function_at(address)
            {
                let name = String::from_utf8_lossy(name).into_owned();
                let raw_name = name.clone();
                locations.push(ResolvedLocation { name, raw_name, file: None, line: 0, is_inlined: false });
            }
        }
    }

    /// Gives addresses without a name the place of their function, `module+0xstart`, where unwind entries tell where
    /// functions start: a function of a stripped module is one row of a report then, not one for each address. The raw
    /// name stays empty: it is a place, not a name.
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
