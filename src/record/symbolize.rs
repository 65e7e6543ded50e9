//! Names for the frames of a recording, once it has ended: only the addresses that were seen, on all cores.

use super::collect::Collector;
use super::file_names::FileNames;
use super::modules::{FileId, ModuleFile, ModuleFiles};
use crate::deadline::Deadline;
use crate::profile::{FrameId, FrameSpace, Function, Location, ModuleKind, Profile, Tables};
use crate::symbols::{Limits, PerfMap, ResolvedLocation, demangle};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Time for the names of one recording. What is not named by then keeps its address.
const MAX_NAMING_TIME: Duration = Duration::from_secs(120);

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
    let deadline = Deadline::after(MAX_NAMING_TIME, stop);
    let results: Vec<(Named, Option<String>)> = jobs
        .par_iter_mut()
        .map(|job| {
            let (named, problems) = match deadline.has_passed() {
                true => (Named::new(), Vec::new()),
                false => name_module(job.file, &mut job.frames, &deadline),
            };
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            let problem =
                (!problems.is_empty()).then(|| format!("{}: {}", job.file.path, problems.join("; ")));
            (named, problem)
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
        let map = source.and_then(|source| source.read(&Limits::default(), &deadline).ok().flatten());
        let named = map.map_or_else(Vec::new, |map| name_generated(&map, &frames));
        naming.named_modules += usize::from(!named.is_empty());
        store(&mut collector.profile, named);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
    }
    naming.was_stopped = stop.load(Ordering::Relaxed);
    naming
}

/// What the frames of one module are called, and what could not be read of it; frames without a name are left out.
pub(super) fn name_module(
    file: &ModuleFile,
    frames: &mut Addresses,
    deadline: &Deadline,
) -> (Named, Vec<String>) {
    let mut names = match FileNames::open(file, deadline) {
        Ok(names) => names,
        Err(problem) => return (Named::new(), vec![problem]),
    };
    match names.name(file, frames, deadline) {
        Ok(named) => (named, names.problems()),
        Err(problem) => (Named::new(), vec![problem]),
    }
}

/// What frames of generated code are called; those without a name are left out.
pub(super) fn name_generated(map: &PerfMap, frames: &[(u64, FrameId)]) -> Named {
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
