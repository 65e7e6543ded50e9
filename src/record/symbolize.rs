//! Names for the frames of a recording, once it has ended: only the addresses that were seen, on all cores.

use super::collect::Collector;
use super::modules::{FileId, ModuleFile, ModuleFiles};
use crate::profile::{FrameId, FrameSpace, Function, Location, ModuleKind, Profile, Tables, counter};
use crate::symbols::{
    Limits, PerfMap, PerfMapSource, ResolvedLocation, demangle, find_debug_file, symbolize_bytes, symbolize_elf,
};
use crate::unwind::{self, CfiSections, ElfImage, GoTable};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What naming came to.
#[derive(Debug, Default)]
pub(super) struct Naming {
    /// Modules that have at least one name.
    pub named_modules: usize,
    /// Modules that had frames.
    pub modules: usize,
    /// It was cut short by the user.
    pub was_stopped: bool,
    /// What could not be read, for `-v`.
    pub problems: Vec<String>,
    /// What whoever reads the profile should know of it.
    pub notices: Vec<String>,
}

/// The frames of one module, waiting for names.
struct Job<'a> {
    file: &'a ModuleFile,
    frames: Addresses,
}

/// Frames with the address in their module whose name is wanted.
pub(super) type Addresses = Vec<(u64, FrameId)>;

/// Frames with what they are called.
pub(super) type Named = Vec<(FrameId, Vec<ResolvedLocation>)>;

/// Frames of user code, by where their names are to be found.
#[derive(Debug, Default)]
pub(super) struct UserFrames {
    /// In the file.
    pub by_file: FxHashMap<FileId, Addresses>,
    /// In the map of the process that has generated the code.
    pub generated: FxHashMap<u32, Addresses>,
}

impl UserFrames {
    /// Those of all frames of the tables from the number `from` on.
    pub(super) fn of(tables: &Tables, files: &ModuleFiles, from: usize) -> Self {
        let mut frames = UserFrames::default();
        for (index, frame) in tables.frames().iter().enumerate().skip(from) {
            let id = FrameId(index as u32);
            if frame.flags.space == FrameSpace::Kernel {
                continue;
            }
            let module = tables.module(frame.module);
            let of_module = match module.kind {
                ModuleKind::Jit => Some(frames.generated.entry(module.instance).or_default()),
                ModuleKind::Elf | ModuleKind::Vdso => {
                    files.of_row(frame.module).map(|file| frames.by_file.entry(file).or_default())
                }
                _ => None,
            };
            if let Some(of_module) = of_module {
                of_module.push((frame.lookup_address(), id));
            }
        }
        frames
    }
}

/// Names all frames. `progress` is told modules done and modules in all; `stop` ends it early, leaving the
/// other frames unnamed.
pub(super) fn name_frames(
    collector: &mut Collector,
    stop: &Arc<AtomicBool>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Naming {
    let mut naming = Naming::default();
    name_kernel(collector);

    let UserFrames { by_file, generated } = UserFrames::of(&collector.profile.tables, &collector.files, 0);
    let mut jobs: Vec<Job<'_>> =
        by_file.into_iter().map(|(id, frames)| Job { file: collector.files.get(id), frames }).collect();
    // The most work first, so that no core waits for a late giant.
    jobs.sort_by_key(|job| (std::cmp::Reverse(job.frames.len()), &job.file.path));
    let total = jobs.len() + generated.len();
    let done = AtomicUsize::new(0);
    let results: Vec<(Named, Option<String>)> = jobs
        .par_iter_mut()
        .map(|job| {
            let result = if stop.load(Ordering::Relaxed) {
                Ok(Vec::new())
            } else {
                name_module(job.file, &mut job.frames, stop)
            };
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            match result {
                Ok(named) => (named, None),
                Err(problem) => (Vec::new(), Some(format!("{}: {problem}", job.file.path))),
            }
        })
        .collect();
    drop(jobs);
    naming.modules = total;
    for (named, problem) in results {
        naming.named_modules += usize::from(!named.is_empty());
        naming.problems.extend(problem);
        store(&mut collector.profile, named);
    }
    for (pid, frames) in generated {
        let source = collector.processes.get(pid).and_then(|process| process.perf_map.as_ref());
        let named = match source.map(|source| read_perf_map(source, &frames)) {
            Some(Ok(named)) => named,
            Some(Err(refused)) => {
                collector.profile.count(counter::PERF_MAPS_REFUSED, 1);
                naming.notices.push(refused);
                Vec::new()
            }
            None => Vec::new(),
        };
        naming.named_modules += usize::from(!named.is_empty());
        store(&mut collector.profile, named);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
    }
    naming.was_stopped = stop.load(Ordering::Relaxed);
    naming
}

/// What the frames of one module are called; those without a name are left out. `stop` ends it early.
pub(super) fn name_module(
    file: &ModuleFile,
    frames: &mut Addresses,
    stop: &Arc<AtomicBool>,
) -> Result<Named, String> {
    const REWRITTEN: &str = "no names: it was rewritten in place, and what ran is no longer in it";
    if !file.is_unchanged(&unwind::Limits::default()) {
        return Err(REWRITTEN.to_owned());
    }
    frames.sort_unstable();
    let mut addresses: Vec<u64> = frames.iter().map(|(address, _)| *address).collect();
    addresses.dedup();
    let limits = Limits { stop: Arc::clone(stop), ..Limits::default() };
    let names = match (&file.file, &file.vdso) {
        (_, Some(bytes)) => symbolize_bytes(bytes, &addresses, &limits),
        (Some(opened), None) => {
            let root = format!("/proc/{}/root", file.seen_in);
            let root = if Path::new(&root).exists() { Path::new(&root) } else { Path::new("/") };
            let debug_file = find_debug_file(root, Path::new(&file.path), opened);
            symbolize_elf(opened, debug_file.as_ref(), &addresses, &limits)
        }
        (None, None) => return Err("the file could not be opened".to_owned()),
    };
    let names = names.map_err(|error| error.to_string())?;
    let mut locations = names.locations;
    name_go(file, &addresses, &mut locations);
    place_unnamed(file, &addresses, &mut locations);
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

/// Names the functions of a stripped Go program by Go's own table of them.
fn name_go(file: &ModuleFile, addresses: &[u64], locations: &mut [Vec<ResolvedLocation>]) {
    let is_needed = |elf: &&Arc<ElfImage>| elf.is_go() && locations.iter().any(Vec::is_empty);
    let Some(elf) = file.elf.as_ref().filter(is_needed) else { return };
    let Some(table) = GoTable::load(elf, &unwind::Limits::default()) else { return };
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
/// functions start: a function of a stripped module is one row of a report then, not one for each address. The raw name
/// stays empty: it is a place, not a name.
fn place_unnamed(file: &ModuleFile, addresses: &[u64], locations: &mut [Vec<ResolvedLocation>]) {
    let Some(elf) = file.elf.as_ref().filter(|_| locations.iter().any(Vec::is_empty)) else { return };
    let Ok(sections) = CfiSections::load(elf, &unwind::Limits::default()) else { return };
    let module = file.path.rsplit('/').next().unwrap_or(&file.path);
    for (&address, locations) in addresses.iter().zip(locations) {
        if locations.is_empty()
            && let Some(start) = sections.function_start(address)
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

/// What frames of generated code are called by the map of their process.
///
/// # Errors
///
/// What is to be said of a map that is there and is not read.
pub(super) fn read_perf_map(source: &PerfMapSource, frames: &[(u64, FrameId)]) -> Result<Named, String> {
    match source.read(&Limits::default()) {
        Ok(Some(map)) => Ok(name_generated(&map, frames)),
        Ok(None) => Ok(Vec::new()),
        Err(error) => Err(format!("`{}` was not read for names: {error}", source.path())),
    }
}

/// What frames of generated code are called; those without a name are left out.
fn name_generated(map: &PerfMap, frames: &[(u64, FrameId)]) -> Named {
    frames
        .iter()
        .filter_map(|(address, frame)| {
            let raw_name = map.lookup(*address)?.to_owned();
            let name = demangle(&raw_name).into_owned();
            let location = ResolvedLocation { name, raw_name, file: None, line: 0, is_inlined: false };
            Some((*frame, vec![location]))
        })
        .collect()
}

fn name_kernel(collector: &mut Collector) {
    let addresses: Vec<(FrameId, u64)> = collector.kernel.addresses().collect();
    if addresses.is_empty() {
        return;
    }
    let Some(symbols) = collector.kernel.symbols() else { return };
    let named: Named = addresses
        .into_iter()
        .filter_map(|(frame, address)| Some((frame, vec![kernel_location(symbols.lookup(address)?.name)])))
        .collect();
    store(&mut collector.profile, named);
}

/// What a frame in the kernel function `name` is called.
pub(super) fn kernel_location(name: &str) -> ResolvedLocation {
    let name = name.to_owned();
    ResolvedLocation { raw_name: name.clone(), name, file: None, line: 0, is_inlined: false }
}

/// What a frame of `profile` is called.
pub(super) fn locations_of(profile: &Profile, frame: FrameId) -> Vec<ResolvedLocation> {
    let text = |id| profile.tables.string(id).to_owned();
    let locations = profile.symbols.locations(frame).iter();
    let resolved = locations.map(|location| {
        let function = profile.symbols.function(location.function);
        ResolvedLocation {
            name: text(function.name),
            raw_name: text(function.raw_name),
            file: Some(text(location.file)).filter(|file| !file.is_empty()),
            line: location.line,
            is_inlined: location.is_inlined,
        }
    });
    resolved.collect()
}

/// Longest name that is kept, bytes; what is cut ends in `…`.
const MAX_NAME_BYTES: usize = 4096;

/// Enters names into the profile.
pub(super) fn store(profile: &mut Profile, named: Named) {
    for (frame, locations) in named {
        let locations = locations
            .into_iter()
            .map(|resolved| {
                let tables = &mut profile.tables;
                let name = tables.intern_string(capped(&resolved.name).as_ref());
                let raw_name = tables.intern_string(capped(&resolved.raw_name).as_ref());
                let file = tables.intern_string(capped(resolved.file.as_deref().unwrap_or("")).as_ref());
                let function = profile.symbols.intern_function(Function { name, raw_name });
                Location { function, file, line: resolved.line, is_inlined: resolved.is_inlined }
            })
            .collect();
        profile.symbols.set_locations(frame, locations);
    }
}

fn capped(name: &str) -> Cow<'_, str> {
    if name.len() <= MAX_NAME_BYTES {
        return Cow::Borrowed(name);
    }
    let end = (0..=MAX_NAME_BYTES).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    Cow::Owned(format!("{}…", &name[..end]))
}
