//! Functions, inline chains and lines from DWARF, by addr2line under a [`Budget`].

use super::budget::{Budget, BudgetedReader, BudgetedSection, THREAD_STACK_BYTES};
use super::elf::ElfImage;
use super::source::cut_text;
use super::{DebugProblem, Limits};
use addr2line::Context;
use gimli::{AbbreviationsCacheStrategy, DwarfSections, Reader, SectionId};
use std::borrow::Cow;
use std::time::Instant;

/// A function at an address, before names are made readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DwarfFrame {
    /// Linkage name if there is one, else plain name.
    pub(super) name: Option<String>,
    pub(super) file: Option<String>,
    /// 0: unknown.
    pub(super) line: u32,
}

/// What DWARF says, one entry for each address: innermost function first; empty when it says nothing.
pub(super) type DwarfFrames = Vec<Vec<DwarfFrame>>;

/// The sections that lookups use. All others (types, locations, macros) stay unread.
const SECTIONS: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// Fewer addresses than this are never split among threads: each thread has to find the units again.
const MIN_ADDRESSES_PER_THREAD: usize = 512;
/// Nor are they when `.debug_info` is shorter than this, bytes.
const MIN_INFO_BYTES_PER_THREAD: usize = 32 << 20;

/// Whether `image` holds DWARF of functions.
pub(super) fn has_debug_info(image: &ElfImage<'_>) -> bool {
    debug_section(image, SectionId::DebugInfo).is_some_and(super::elf::Section::has_bytes)
}

fn debug_section<'i>(image: &'i ElfImage<'_>, id: SectionId) -> Option<&'i super::elf::Section> {
    let name = id.name();
    let old = || format!(".z{}", name.trim_start_matches('.'));
    image.section(name.as_bytes()).or_else(|| image.section(old().as_bytes()))
}

/// The debug sections of a module, unpacked.
#[derive(Debug)]
pub(super) struct DebugSections<'a> {
    sections: Vec<(SectionId, Cow<'a, [u8]>)>,
}

impl<'a> DebugSections<'a> {
    /// Reads all that lookups need, or nothing: half of the sections would give wrong answers.
    pub(super) fn read(image: &ElfImage<'a>, limits: &Limits) -> Result<Self, DebugProblem> {
        let mut sections = Vec::new();
        let mut total = 0_u64;
        for id in SECTIONS {
            let Some(section) = debug_section(image, id).filter(|section| section.has_bytes()) else {
                continue;
            };
            let left = limits.max_debug_bytes.saturating_sub(total);
            let limits = Limits { max_section_bytes: limits.max_section_bytes.min(left), ..limits.clone() };
            let bytes = image.data(section, "debug section", &limits).map_err(|error| match error {
                super::SymbolError::TooBig { .. } => DebugProblem::TooBig,
                _ => DebugProblem::Damaged,
            })?;
            total += bytes.len() as u64;
            sections.push((id, bytes));
        }
        Ok(DebugSections { sections })
    }

    fn bytes(&self, id: SectionId) -> &[u8] {
        self.sections.iter().find(|(other, _)| *other == id).map_or(&[], |(_, bytes)| bytes)
    }

    /// Looks every address up.
    pub(super) fn frames(
        &self,
        addresses: &[u64],
        limits: &Limits,
        deadline: Instant,
    ) -> (DwarfFrames, Option<DebugProblem>) {
        let threads = match self.bytes(SectionId::DebugInfo).len() {
            bytes if bytes < MIN_INFO_BYTES_PER_THREAD => 1,
            _ => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let per_thread = addresses.len().div_ceil(threads).max(MIN_ADDRESSES_PER_THREAD);
        let mut frames = Vec::with_capacity(addresses.len());
        let mut problem = None;
        // Threads of our own, not rayon's: the walk needs to know how much stack it has.
        std::thread::scope(|scope| {
            let workers: Vec<_> = (addresses.chunks(per_thread))
                .map(|chunk| {
                    let worker = std::thread::Builder::new()
                        .name("prof-dwarf".to_owned())
                        .stack_size(THREAD_STACK_BYTES)
                        .spawn_scoped(scope, move || self.frames_here(chunk, limits, deadline));
                    (chunk.len(), worker)
                })
                .collect();
            for (len, worker) in workers {
                let (mut part, part_problem) = match worker.map(|worker| worker.join()) {
                    Ok(Ok(result)) => result,
                    // A bug in a parser costs the names of a module, not the recording; tests must see it.
                    Ok(Err(panic)) if cfg!(test) => std::panic::resume_unwind(panic),
                    _ => (Vec::new(), Some(DebugProblem::Damaged)),
                };
                part.resize(len, Vec::new());
                frames.append(&mut part);
                problem = problem.or(part_problem);
            }
        });
        (frames, problem)
    }

    /// Looks the addresses up on this thread.
    fn frames_here(
        &self,
        addresses: &[u64],
        limits: &Limits,
        deadline: Instant,
    ) -> (DwarfFrames, Option<DebugProblem>) {
        let budget = Budget::new(deadline, &limits.stop);
        let Ok(sections) = DwarfSections::load(|id| {
            Ok::<_, std::convert::Infallible>(BudgetedSection::new(
                self.bytes(id),
                limits.max_rereads,
                &budget,
            ))
        });
        let mut dwarf = sections.borrow(BudgetedSection::reader);
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let problem_of = |budget: &Budget| match (budget.was_late(), budget.is_spent()) {
            (true, _) => Some(DebugProblem::TimeLimit),
            (_, true) => Some(DebugProblem::TooBig),
            _ => None,
        };
        let Ok(context) = Context::from_dwarf(dwarf) else {
            return (Vec::new(), problem_of(&budget).or(Some(DebugProblem::Damaged)));
        };
        let mut problem = None;
        let frames = (addresses.iter())
            .map(|&address| {
                // addr2line adds one to the address.
                if address == u64::MAX || budget.is_late() {
                    return Vec::new();
                }
                let mut frames = Vec::new();
                let found = lookup(&context, address, limits, &mut frames);
                problem = problem.or(found.err());
                frames
            })
            .collect();
        (frames, problem_of(&budget).or(problem))
    }
}

/// Adds the functions at one address to `frames`, as far as they can be found.
fn lookup(
    context: &Context<BudgetedReader<'_>>,
    address: u64,
    limits: &Limits,
    frames: &mut Vec<DwarfFrame>,
) -> Result<(), DebugProblem> {
    let mut result = context.find_frames(address);
    let mut is_split = false;
    let mut iter = loop {
        match result {
            addr2line::LookupResult::Output(output) => break output.map_err(|_| DebugProblem::Damaged)?,
            addr2line::LookupResult::Load { continuation, .. } => {
                is_split = true;
                result = addr2line::LookupContinuation::resume(continuation, None);
            }
        }
    };
    while let Some(frame) = iter.next().map_err(|_| DebugProblem::Damaged)? {
        let location = frame.location;
        let name = frame.function.and_then(|function| {
            let name = function.name.to_slice().ok()?;
            let name = &name[..name.len().min(limits.max_name_bytes)];
            (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
        });
        let file = location.as_ref().and_then(|location| location.file);
        let frame = DwarfFrame {
            name,
            file: file
                .filter(|file| !file.is_empty())
                .map(|file| cut_text(file, limits.max_name_bytes).to_owned()),
            line: location.and_then(|location| location.line).unwrap_or(0),
        };
        // The outermost function comes last: it replaces what is past the limit.
        frames.truncate(limits.max_inline_depth.max(1) - 1);
        frames.push(frame);
    }
    if is_split { Err(DebugProblem::SplitDwarf) } else { Ok(()) }
}
