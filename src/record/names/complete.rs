//! Names for a recording that lacks some: its recorder was killed, naming was cut short, or debug information has
//! become available since. Names are read from the files of this machine if they are the recorded ones, and from debug
//! files of the same builds, wherever these come from.

use super::code::save;
use super::file_names::FileNames;
use super::symbolize::{self, Addresses, LeftMaps, Named};
use crate::base::deadline::Deadline;
use crate::base::memory_budget::MemoryBudget;
use crate::profile::{FrameId, FrameSpace, Module, ModuleId, ModuleKind, ModuleNotes, Profile};
use crate::record::environment::memory_limit;
use crate::record::modules::ModuleFile;
use crate::symbols::{Bases, DebugFiles, FoundFile, NamingLimits, ResolvedLocation, Searched};
use crate::unwind::Limits;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time limit for finding the debug files of one module.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(10);

/// Share of the free memory that compressed sections may take: one part of this many.
const FREE_PARTS: u64 = 4;
/// The most that they take, bytes: with all other work that is 1 GB.
const MOST_WHOLE_BYTES: u64 = 768 << 20;

/// Time limit for reading the code of all modules.
const CODE_PATIENCE: Duration = Duration::from_secs(30);

/// The result of adding names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Completed {
    /// Frames that had no name and got one.
    pub(crate) named: u64,
    /// Frames that had a name and got inlined functions, lines or better names.
    pub(crate) improved: u64,
    /// Frames of user code that still have no name.
    pub(crate) unnamed: u64,
    /// All frames of user code.
    pub(crate) frames: u64,
    /// Modules that names were added for, the file with the names, and the number of frames named; most frames first.
    pub(crate) added: Vec<(String, String, u64)>,
    /// Modules with frames left without a name, the reason, and the number of those frames; most frames first.
    pub(crate) missing: Vec<(String, String, u64)>,
    /// Modules whose debug information refers to files that are still not to be had.
    pub(crate) incomplete: Vec<String>,
    /// Whether the notes on modules changed.
    pub(crate) has_new_notes: bool,
    /// Number of functions whose code was added.
    pub(crate) code: u64,
}

/// Gets the debug file of a build, given its build ID and the name of the module, from somewhere else. Returns the file
/// and its path, or why there is none.
pub(crate) type Fetch<'a> = &'a mut dyn FnMut(&[u8], &str) -> Result<(File, PathBuf), String>;

/// Sources of names besides the usual places.
#[derive(Default)]
pub(crate) struct DebugSources<'a> {
    /// Folders named by the user.
    pub(crate) folders: &'a [PathBuf],
    /// Called when no file is found.
    pub(crate) fetch: Option<Fetch<'a>>,
    /// Names of generated code, for a recording of this machine.
    pub(crate) left_maps: Option<&'a mut LeftMaps>,
}

/// Frames of one module that need names.
#[derive(Debug, Default)]
struct FramesToName {
    /// All of these frames.
    frames: Addresses,
    /// Number of frames without any name.
    unnamed: u64,
}

/// Names the frames of `profile` that have no name, or only that of their symbol, or whose module lacked files with
/// debug information, as far as files are available now.
pub(crate) fn complete_names(profile: &mut Profile, sources: &mut DebugSources<'_>) -> Completed {
    let mut completed = Completed::default();
    let mut wanted: BTreeMap<ModuleId, FramesToName> = BTreeMap::new();
    for (index, frame) in profile.tables.frames().iter().enumerate() {
        let id = FrameId(index as u32);
        if frame.flags.space != FrameSpace::User {
            continue;
        }
        completed.frames += 1;
        let is_named = profile.symbols.is_named(id);
        if !is_named || lacks_files(profile, frame.module) || has_symbol_only(profile, id) {
            let of_module = wanted.entry(frame.module).or_default();
            of_module.frames.push((frame.lookup_address(), id));
            of_module.unnamed += u64::from(!is_named);
        }
    }
    for (module, wanted) in wanted {
        complete_module(profile, module, wanted, sources, &mut completed);
    }
    let by_frames = |list: &mut Vec<(String, String, u64)>| {
        list.sort_by_key(|(path, _, frames)| (std::cmp::Reverse(*frames), path.clone()));
    };
    by_frames(&mut completed.missing);
    by_frames(&mut completed.added);
    completed.code = add_code(profile, sources, CODE_PATIENCE);
    completed
}

/// Adds the code of the most sampled functions to `profile`, for modules that have none yet and whose recorded files
/// are on this machine. Takes at most `patience`; returns the number of functions.
pub(crate) fn add_code(profile: &mut Profile, sources: &mut DebugSources<'_>, patience: Duration) -> u64 {
    let mut open_own = |profile: &Profile, id: ModuleId| {
        let module = profile.tables.module(id);
        // A debug file has no code.
        open_recorded(profile.tables.string(module.path), &module.build_id).ok()?;
        let (file, names, _) = open(profile, id, sources).ok()?;
        Some((file, names))
    };
    let deadline = Deadline::after(patience, &Arc::default());
    save::add_missing(profile, &mut open_own, &deadline)
}

/// Whether the debug information of a module refers to files that were not to be had. Which frames have less for that
/// cannot be seen in them: a skeleton unit of split DWARF has lines, but no inlined functions.
fn lacks_files(profile: &Profile, module: ModuleId) -> bool {
    profile.module_notes.get(&module).is_some_and(ModuleNotes::lacks_files)
}

/// Whether a frame has a name and nothing else: debug information may add to it.
fn has_symbol_only(profile: &Profile, frame: FrameId) -> bool {
    let locations = profile.symbols.locations(frame);
    locations.len() == 1 && locations[0].line == 0 && profile.tables.string(locations[0].file).is_empty()
}

fn complete_module(
    profile: &mut Profile,
    module: ModuleId,
    mut wanted: FramesToName,
    sources: &mut DebugSources<'_>,
    completed: &mut Completed,
) {
    let deadline = Deadline::default();
    let Module { kind, instance, .. } = *profile.tables.module(module);
    let looked_up = match &mut sources.left_maps {
        Some(maps) if kind == ModuleKind::Jit => {
            maps.name(instance, &wanted.frames, &deadline).map(|named| (named, None, None))
        }
        _ => open(profile, module, sources).and_then(|(file, mut names, why)| {
            let named = names.name(&file, &mut wanted.frames, &deadline)?;
            Ok((named, Some(names.notes()), why))
        }),
    };
    let (mut named, notes, problem) = looked_up.unwrap_or_else(|why| (Named::new(), None, Some(why)));
    named.retain(|(frame, locations)| is_better(profile, *frame, locations));
    if let Some(notes) = notes {
        completed.has_new_notes |= note(profile, module, notes, !named.is_empty());
    }
    let new = named.iter().filter(|(frame, _)| !profile.symbols.is_named(*frame)).count() as u64;
    completed.named += new;
    completed.improved += named.len() as u64 - new;
    completed.unnamed += wanted.unnamed - new;
    let path = match profile.tables.string(profile.tables.module(module).path) {
        "" => "[unknown]".to_owned(),
        path => path.to_owned(),
    };
    if lacks_files(profile, module) {
        completed.incomplete.push(path.clone());
    }
    match problem.filter(|_| wanted.unnamed > new) {
        Some(problem) => completed.missing.push((path, problem, wanted.unnamed - new)),
        None if named.is_empty() => {}
        None => {
            let debug_file = profile.module_notes.get(&module).map(|notes| notes.debug_file.clone());
            let from = debug_file.filter(|file| !file.is_empty()).unwrap_or_else(|| path.clone());
            completed.added.push((path, from, named.len() as u64));
        }
    }
    symbolize::store(profile, named);
}

/// Whether `locations` are better than what `frame` has so far.
fn is_better(profile: &Profile, frame: FrameId, locations: &[ResolvedLocation]) -> bool {
    if !profile.symbols.is_named(frame) {
        // A place (`module+0xstart`) is no better than what the frame has already.
        return locations.iter().any(|location| !location.raw_name.is_empty());
    }
    let known = symbolize::locations_of(profile, frame);
    let worth = |locations: &[ResolvedLocation]| {
        let lines = locations.iter().filter(|location| location.line > 0).count();
        (locations.len(), lines)
    };
    match worth(locations).cmp(&worth(&known)) {
        Ordering::Greater => true,
        Ordering::Less => false,
        // A symbol may have a suffix (`.isra.0`) that the function's name in DWARF has not. Functions of one unit get
        // their names from one source, or one function would be two rows.
        Ordering::Equal => {
            lacks_files(profile, profile.tables.frame(frame).module)
                && !locations.iter().zip(&known).all(|(new, known)| symbolize::is_stored_as(new, known))
        }
    }
}

/// Replaces the notes on a module, except for facts known only on the machine that recorded. The former ones stay if
/// the files of this machine tell less than they did, unless these gave names (`is_used`). Returns whether the notes
/// changed.
fn note(profile: &mut Profile, module: ModuleId, mut notes: ModuleNotes, is_used: bool) -> bool {
    let known = profile.module_notes.get(&module).cloned().unwrap_or_default();
    if notes.package.is_empty() {
        (notes.package, notes.distribution) = (known.package.clone(), known.distribution.clone());
    }
    let lacks_more = notes.split_missing > known.split_missing
        || (known.shared_missing.is_empty() && !notes.shared_missing.is_empty());
    let tells_less = match (known.has_debug_info, notes.has_debug_info) {
        (true, false) => true,
        (true, true) => lacks_more && !is_used,
        (false, _) => false,
    };
    if tells_less {
        let problems = if notes.problems.is_empty() { known.problems.clone() } else { notes.problems };
        notes = ModuleNotes { symbols: known.symbols.max(notes.symbols), problems, ..known.clone() };
    } else if !known.lacks_files() {
        // Only a part of the frames was looked up this time.
        notes.split_found = notes.split_found.max(known.split_found);
    }
    let is_new = notes != known;
    profile.module_notes.insert(module, notes);
    is_new
}

/// Opens the file that names the frames of a module. Also returns the reason to give for frames that it cannot name.
fn open(
    profile: &Profile,
    id: ModuleId,
    sources: &mut DebugSources<'_>,
) -> Result<(ModuleFile, FileNames, Option<String>), String> {
    let module = profile.tables.module(id);
    let path = profile.tables.string(module.path);
    match module.kind {
        ModuleKind::Elf if module.build_id.is_empty() => {
            return Err("it has no build ID: another file may be there by now".to_owned());
        }
        ModuleKind::Elf => {}
        ModuleKind::Jit => return Err("the code was generated at run time and is gone".to_owned()),
        ModuleKind::Runtime => return Err("the functions were gone before they could be read".to_owned()),
        _ if path.is_empty() => return Err("the recording does not say which module it is in".to_owned()),
        _ => return Err("it is not a file".to_owned()),
    }
    let recorded = open_recorded(path, &module.build_id);
    let own = recorded.as_ref().ok().and_then(|file| file.file.clone());
    let searched = Searched { path: Path::new(path), file: own.as_ref(), build_id: &module.build_id };
    let (mut files, why) = find_files(&searched, sources);
    let (limits, deadline) = (NamingLimits::of_foreground(whole_sections()), Deadline::default());
    match (recorded, files.debug.take()) {
        (Ok(file), debug) => {
            let opened = own.ok_or("the file could not be opened")?;
            files.debug = debug;
            let mut names = FileNames::open_with(&opened, files, &limits, &deadline)?;
            names.note_package(path);
            Ok((file, names, why))
        }
        // A debug file has all names, and the same addresses as the module.
        (Err(_), Some(debug)) => {
            let own_pid = std::process::id();
            let file = ModuleFile::read(own_pid, path, Arc::clone(&debug.file), &Limits::default());
            let names = FileNames::open_elsewhere(&debug, files, &limits, &deadline)?;
            Ok((file, names, why))
        }
        (Err(error), None) => {
            let refused = files.refused.lines().first().cloned();
            Err(why.or(refused).map_or(error.clone(), |why| format!("{error}; {why}")))
        }
    }
}

/// Memory of this process for sections that are unpacked as a whole: a part of what was free at first.
fn whole_sections() -> &'static Arc<MemoryBudget> {
    static SHARED: OnceLock<Arc<MemoryBudget>> = OnceLock::new();
    SHARED.get_or_init(|| {
        let free_bytes = memory_limit::free_bytes().unwrap_or(0);
        Arc::new(MemoryBudget::new((free_bytes / FREE_PARTS).min(MOST_WHOLE_BYTES)))
    })
}

/// Finds the debug files of a module, fetching them if needed. Also returns why fetching failed.
fn find_files(module: &Searched<'_>, sources: &mut DebugSources<'_>) -> (DebugFiles, Option<String>) {
    let bases = Bases::new(Path::new("/"), sources.folders);
    let search = Deadline::after(MAX_SEARCH_TIME, &Arc::default());
    let mut files = DebugFiles::find(&bases, module, &search);
    let mut why = None;
    if files.debug.is_none() && !module.file.is_some_and(DebugFiles::has_own) {
        match fetched(sources, module.build_id, &module.path.to_string_lossy()) {
            Some(Ok(found)) => files.set_debug(found, &bases, module, &search),
            Some(Err(error)) => why = Some(error),
            None => {}
        }
    }
    if let Some((build_id, name)) = files.missing_shared.take() {
        match fetched(sources, &build_id, &name) {
            Some(Ok(found)) => files.shared = Some(found),
            answer => {
                if let Some(Err(error)) = answer {
                    files.refused.add(Path::new(&name), &error);
                }
                files.missing_shared = Some((build_id, name));
            }
        }
    }
    (files, why)
}

/// Fetches a debug file from elsewhere; `None` if there is no source to ask.
fn fetched(sources: &mut DebugSources<'_>, build_id: &[u8], path: &str) -> Option<Result<FoundFile, String>> {
    let fetch = sources.fetch.as_mut()?;
    let name = path.rsplit('/').next().unwrap_or(path);
    Some(fetch(build_id, name).and_then(|(file, path)| FoundFile::checked(file, path, build_id)))
}

/// Opens the file of a module if it exists and is the one that was recorded.
fn open_recorded(path: &str, build_id: &[u8]) -> Result<ModuleFile, String> {
    // Checked before opening: opening a device may have side effects, and a recording may name any.
    if !std::fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file =
        File::options().read(true).custom_flags(flags).open(path).map_err(|error| error.to_string())?;
    if !file.metadata().is_ok_and(|facts| facts.is_file()) {
        return Err("it is not a regular file".to_owned());
    }
    let file = ModuleFile::read(std::process::id(), path, Arc::new(file), &Limits::default());
    if file.build_id == build_id {
        return Ok(file);
    }
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Err(match file.build_id.as_slice() {
        [] => "another file is there now".to_owned(),
        found => format!("build {} is there, {} was recorded", hex(found), hex(build_id)),
    })
}

#[cfg(test)]
mod tests;
