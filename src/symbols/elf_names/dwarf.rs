//! Functions, inline chains and lines from DWARF, by addr2line, one unit at a time.

use super::problem::DebugProblem;
use super::split::SplitFiles;
use super::survey::{KnownAbbreviations, Survey, SurveyedFile, Surveyor, UnitPlace};
use super::unit_context::{Member, Members, UnitContext, UnitView};
use super::units::UnitIndex;
use crate::elf::ElfError;
use crate::elf::ElfFile;
use crate::symbols::error::SymbolError;
use crate::symbols::limits::NamingLimits;
use crate::symbols::limits::cut_text;
use crate::symbols::sections::dwarf::{DebugStores, Sections};
use crate::symbols::sections::reader::SectionReader;
use crate::symbols::work::{Charge, THREAD_STACK_BYTES, Work, WorkRefusal};
use addr2line::Context;
use gimli::Reader;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

/// Memory in bytes of units and pages that the threads of a module keep for the next addresses; above its part of that a
/// thread drops all of it.
const KEPT_BYTES: u64 = 96 << 20;
/// Fewer addresses than this are not worth a thread.
const LEAST_PART: usize = 200;
/// Most units asked about one address. The most seen in practice is two.
const MAX_UNITS_PER_ADDRESS: usize = 16;

/// A function at an address, before names are made readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DwarfFrame {
    /// Linkage name if there is one, else the plain name.
    pub(crate) name: Option<String>,
    pub(crate) file: Option<String>,
    /// Line in the source file; 0 if unknown.
    pub(crate) line: u32,
}

/// Frames from DWARF, one entry for each address: innermost function first; empty where DWARF has none.
pub(crate) type DwarfFrames = Vec<Vec<DwarfFrame>>;

/// The DWARF of one file.
struct DwarfFile {
    stores: DebugStores,
    sections: Arc<Sections>,
    index: Option<Arc<UnitIndex>>,
    known: KnownAbbreviations,
}

impl DwarfFile {
    fn open(image: &ElfFile, limits: &NamingLimits, work: &Arc<Work>) -> Result<Self, SymbolError> {
        let stores = DebugStores::find(image, limits, work)?;
        let sections = Arc::new(stores.open(work)?);
        Ok(DwarfFile { stores, sections, index: None, known: KnownAbbreviations::default() })
    }

    /// The list of the file's units, built on first use.
    fn index(&mut self, work: &Arc<Work>) -> Result<Arc<UnitIndex>, SymbolError> {
        let index = match self.index.take() {
            Some(index) => index,
            None => Arc::new(UnitIndex::build(&self.stores, work)?),
        };
        Ok(Arc::clone(self.index.insert(index)))
    }

    /// The same file for another thread.
    fn another(&self, work: &Arc<Work>) -> Result<Self, SymbolError> {
        let stores = self.stores.another(work);
        let sections = Arc::new(stores.open(work)?);
        Ok(DwarfFile { stores, sections, index: self.index.clone(), known: KnownAbbreviations::default() })
    }

    /// Drops what was kept for the next addresses.
    fn trim(&mut self, work: &Arc<Work>) {
        self.known.clear();
        if let Ok(sections) = self.stores.open(work) {
            self.sections = Arc::new(sections);
        }
    }
}

/// The DWARF of a module.
pub(crate) struct DwarfNames {
    main: DwarfFile,
    /// The file that the module shares with other modules (dwz).
    shared: Option<DwarfFile>,
    pub(super) split: SplitFiles,
    units: FxHashMap<u32, OpenUnit>,
    /// Memory in use not counting units, bytes.
    base_bytes: u64,
    /// Memory above which it is dropped, bytes.
    kept_bytes: u64,
    limits: NamingLimits,
    work: Arc<Work>,
}

/// A unit whose addresses have been looked up.
struct OpenUnit {
    context: UnitContext,
    survey: Survey,
    /// Number of addresses looked up in the unit.
    asked: u64,
    charge: Charge,
}

impl OpenUnit {
    /// Reserves the memory for `more` addresses.
    fn ask(&mut self, more: u64) -> Result<(), SymbolError> {
        let before = self.survey.memory_bytes(self.asked);
        self.asked = self.asked.saturating_add(more);
        Ok(self.charge.add(self.survey.memory_bytes(self.asked) - before)?)
    }
}

impl std::fmt::Debug for DwarfNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DwarfNames").field("units", &self.units.len()).finish_non_exhaustive()
    }
}

impl DwarfNames {
    /// Finds the debug sections of `image`, and of the file `shared` with other modules; nothing of them is read yet.
    pub(crate) fn open(
        image: &ElfFile,
        shared: Option<&ElfFile>,
        split: SplitFiles,
        limits: &NamingLimits,
        work: &Arc<Work>,
    ) -> Result<Self, SymbolError> {
        Ok(DwarfNames {
            main: DwarfFile::open(image, limits, work)?,
            shared: shared.map(|image| DwarfFile::open(image, limits, work)).transpose()?,
            split,
            units: FxHashMap::default(),
            base_bytes: work.used_bytes(),
            kept_bytes: KEPT_BYTES,
            limits: limits.clone(),
            work: Arc::clone(work),
        })
    }

    /// The same for another thread; `None` without memory for it.
    fn another(&self, kept_bytes: u64) -> Option<Self> {
        let work = self.work.another().ok()?;
        Some(DwarfNames {
            main: self.main.another(&work).ok()?,
            shared: self.shared.as_ref().map(|shared| shared.another(&work)).transpose().ok()?,
            split: self.split.another(),
            units: FxHashMap::default(),
            base_bytes: work.used_bytes(),
            kept_bytes,
            limits: self.limits.clone(),
            work,
        })
    }

    /// Looks up all addresses, which must ascend.
    pub(crate) fn frames(&mut self, addresses: &[u64]) -> (DwarfFrames, Option<DebugProblem>) {
        let mut frames = vec![Vec::new(); addresses.len()];
        let problem = std::thread::scope(|scope| {
            result_of(on_walking_thread(scope, || {
                self.work.begin_stack();
                self.frames_here(addresses, &mut frames)
            }))
        });
        self.work.end_stack();
        // Whatever has come of it.
        self.work.end_lookup();
        (frames, problem)
    }

    fn frames_here(&mut self, addresses: &[u64], frames: &mut DwarfFrames) -> Option<DebugProblem> {
        let index = match self.main.index(&self.work) {
            Ok(index) => index,
            Err(error) => return Some(problem_of(&error)),
        };
        let parts = (addresses.len() / LEAST_PART).clamp(1, self.limits.max_threads.max(1));
        if let Some(shared) = self.shared.as_mut().filter(|_| parts > 1) {
            // Or each thread would list the units for itself. Its problems are found where it is used.
            let _ = shared.index(&self.work);
        }
        let kept_bytes = KEPT_BYTES / parts as u64;
        let mut others: Vec<DwarfNames> = (1..parts).map_while(|_| self.another(kept_bytes)).collect();
        let each = addresses.len().div_ceil(others.len() + 1).max(1);
        let (own, rest) = addresses.split_at(each.min(addresses.len()));
        let (own_frames, rest_frames) = frames.split_at_mut(own.len());
        self.kept_bytes = kept_bytes;
        let problem = std::thread::scope(|scope| {
            let index = &index;
            let parts = rest.chunks(each).zip(rest_frames.chunks_mut(each));
            let workers: Vec<_> = (others.iter_mut().zip(parts))
                .map(|(names, (addresses, frames))| {
                    on_walking_thread(scope, move || {
                        names.work.begin_stack();
                        names.frames_of_units(index, addresses, frames)
                    })
                })
                .collect();
            let problem = self.frames_of_units(index, own, own_frames);
            workers.into_iter().fold(problem, |problem, worker| problem.or(result_of(worker)))
        });
        self.kept_bytes = KEPT_BYTES;
        others.into_iter().for_each(|names| self.split.take(names.split));
        problem.or(index.problem)
    }

    fn frames_of_units(
        &mut self,
        index: &UnitIndex,
        addresses: &[u64],
        frames: &mut [Vec<DwarfFrame>],
    ) -> Option<DebugProblem> {
        let mut problem = None;
        for round in 0..MAX_UNITS_PER_ADDRESS {
            // Unit by unit, in file order, so that compressed sections are unpacked only once.
            let mut wanted: Vec<(u32, usize)> = (addresses.iter().enumerate())
                .filter(|(place, address)| frames[*place].is_empty() && **address != u64::MAX)
                .filter_map(|(place, address)| Some((index.covering(*address).nth(round)?, place)))
                .collect();
            if wanted.is_empty() {
                break;
            }
            wanted.sort_unstable();
            for places in wanted.chunk_by(|(unit, _), (other, _)| unit == other) {
                if self.work.is_late() {
                    return Some(DebugProblem::TimeLimit);
                }
                let found = self.frames_of_unit(index, places, addresses, frames);
                problem = problem.or(found);
            }
        }
        problem
    }

    /// Looks up addresses in one unit; `places` has the unit and the indices of its addresses.
    fn frames_of_unit(
        &mut self,
        index: &UnitIndex,
        places: &[(u32, usize)],
        addresses: &[u64],
        frames: &mut [Vec<DwarfFrame>],
    ) -> Option<DebugProblem> {
        let &(unit, _) = places.first()?;
        self.work.begin_unit();
        self.main.sections.begin();
        if let Some(shared) = &self.shared {
            shared.sections.begin();
        }
        if self.units.is_empty() {
            self.base_bytes = self.work.used_bytes();
        }
        let opened = match self.units.remove(&unit) {
            Some(mut open) => open.ask(places.len() as u64).map(|()| open),
            None => self.open_unit(index, unit, places.len() as u64),
        };
        let open = match opened {
            Ok(open) => open,
            Err(error) => {
                let problem = self.refusal().unwrap_or_else(|| problem_of(&error));
                self.trim();
                return Some(problem);
            }
        };
        let mut problem = None;
        open.context.with_dependent(|view, tables| {
            view.begin();
            for &(_, place) in places {
                if self.work.refusal().is_some() {
                    break;
                }
                let found = self.lookup(view, tables, addresses[place], &mut frames[place]);
                problem = problem.or(found.err());
            }
        });
        let refusal = self.refusal();
        // addr2line remembers a failed read, so the next lookup starts over.
        if refusal.is_none() {
            self.units.insert(unit, open);
        }
        if self.work.used_bytes().saturating_sub(self.base_bytes) > self.kept_bytes {
            self.trim();
        }
        refusal.or(problem)
    }

    fn refusal(&self) -> Option<DebugProblem> {
        self.work.refusal().map(|refusal| match refusal {
            WorkRefusal::Late => DebugProblem::TimeLimit,
            WorkRefusal::Spent => DebugProblem::TooBig,
            WorkRefusal::Memory(refused) => DebugProblem::NoMemory(refused),
            WorkRefusal::Damaged => DebugProblem::Damaged,
        })
    }

    fn open_unit(&mut self, index: &UnitIndex, unit: u32, asked: u64) -> Result<OpenUnit, SymbolError> {
        let opened = self.try_open_unit(index, unit, asked);
        if !matches!(opened, Err(SymbolError::NoMemory(_))) || self.units.is_empty() {
            return opened;
        }
        // There may be room for this unit without the others.
        self.trim();
        self.work.begin_unit();
        self.try_open_unit(index, unit, asked)
    }

    fn try_open_unit(&mut self, index: &UnitIndex, unit: u32, asked: u64) -> Result<OpenUnit, SymbolError> {
        let sections = Arc::clone(&self.main.sections);
        let shared_sections = self.shared.as_ref().map(|shared| Arc::clone(&shared.sections));
        let shared_index = self.shared.as_mut().map(|shared| shared.index(&self.work)).transpose()?;
        let main = SurveyedFile { sections: &sections, index, known: &mut self.main.known };
        let shared = match (&shared_sections, &shared_index, &mut self.shared) {
            (Some(sections), Some(index), Some(DwarfFile { known, .. })) => {
                Some(SurveyedFile { sections, index, known })
            }
            _ => None,
        };
        let mut surveyor = Surveyor { main, shared, work: &self.work };
        let survey = surveyor.survey(unit)?;
        let mut members = |numbers: &BTreeSet<u32>, index: &UnitIndex, is_shared| {
            let member = |&number: &u32| {
                let span = index.unit(number).ok_or(ElfError::Malformed("debug information"))?;
                let abbreviations = surveyor.abbreviations(UnitPlace { is_shared, number })?;
                Ok(Member { span, abbreviations, is_asked: !is_shared && number == unit })
            };
            numbers.iter().map(member).collect::<Result<Vec<_>, SymbolError>>()
        };
        let main_members = members(&survey.members, index, false)?;
        let shared_members = match &shared_index {
            Some(index) => members(&survey.shared_members, index, true)?,
            None => Vec::new(),
        };
        let charge = Charge::new(&self.work, survey.memory_bytes(asked))?;
        let main = Members { units: &main_members, sections: &sections };
        let shared = shared_sections.as_ref().map(|sections| Members { units: &shared_members, sections });
        let context = UnitContext::open(main, shared, &self.work)?;
        Ok(OpenUnit { context, survey, asked, charge })
    }

    /// Drops what was kept for the next addresses.
    fn trim(&mut self) {
        self.units.clear();
        self.main.trim(&self.work);
        if let Some(shared) = &mut self.shared {
            shared.trim(&self.work);
        }
        self.base_bytes = self.work.used_bytes();
    }

    /// Adds the functions at one address to `frames`, as far as they can be found.
    fn lookup<'v>(
        &mut self,
        view: &'v UnitView,
        tables: &Context<SectionReader<'v>>,
        address: u64,
        frames: &mut Vec<DwarfFrame>,
    ) -> Result<(), DebugProblem> {
        let mut result = tables.find_frames(address);
        let mut is_split = false;
        let mut iter = loop {
            match result {
                addr2line::LookupResult::Output(output) => {
                    break output.map_err(|_| DebugProblem::Damaged)?;
                }
                addr2line::LookupResult::Load { load, continuation } => {
                    let unit = view.split.get_or_init(|| self.split.find(&load, &self.work));
                    let dwarf = unit.as_ref().and_then(|unit| unit.dwarf(load.dwo_id, &load.parent));
                    is_split = dwarf.is_none();
                    result = addr2line::LookupContinuation::resume(continuation, dwarf);
                }
            }
        };
        while let Some(frame) = iter.next().map_err(|_| DebugProblem::Damaged)? {
            let location = frame.location;
            let name = frame.function.and_then(|function| {
                let name = function.name.to_slice().ok()?;
                let name = &name[..name.len().min(self.limits.max_name_bytes)];
                (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
            });
            let file = location.as_ref().and_then(|location| location.file);
            let frame = DwarfFrame {
                name,
                file: file
                    .filter(|file| !file.is_empty())
                    .map(|file| cut_text(file, self.limits.max_name_bytes).to_owned()),
                line: location.and_then(|location| location.line).unwrap_or(0),
            };
            // The outermost function comes last: it replaces those past the limit.
            frames.truncate(self.limits.max_inline_depth.max(1) - 1);
            frames.push(frame);
        }
        if is_split { Err(DebugProblem::SplitDwarf) } else { Ok(()) }
    }
}

type WalkingThread<'scope> = io::Result<ScopedJoinHandle<'scope, Option<DebugProblem>>>;

/// Starts a thread for a walk, which needs a stack of known size.
fn on_walking_thread<'scope>(
    scope: &'scope Scope<'scope, '_>,
    walk: impl FnOnce() -> Option<DebugProblem> + Send + 'scope,
) -> WalkingThread<'scope> {
    std::thread::Builder::new()
        .name("prof-dwarf".to_owned())
        .stack_size(THREAD_STACK_BYTES)
        .spawn_scoped(scope, walk)
}

/// The problem that a thread has found.
fn result_of(worker: WalkingThread<'_>) -> Option<DebugProblem> {
    match worker.map(ScopedJoinHandle::join) {
        Ok(Ok(problem)) => problem,
        // A bug in a parser may cost the names of a module but not the recording; tests must see it.
        Ok(Err(panic)) if cfg!(test) => std::panic::resume_unwind(panic),
        _ => Some(DebugProblem::Damaged),
    }
}

/// The problem to report for an error.
pub(super) fn problem_of(error: &SymbolError) -> DebugProblem {
    match error {
        SymbolError::Elf(ElfError::TooLarge { .. }) => DebugProblem::TooBig,
        SymbolError::NoMemory(refused) => DebugProblem::NoMemory(*refused),
        SymbolError::Stopped => DebugProblem::TimeLimit,
        _ => DebugProblem::Damaged,
    }
}
