//! Names for a recording that lacks some: its recorder was killed, naming was cut short, or debug information has
//! become available since. Names are read from the files of this machine if they are the recorded ones, and from debug
//! files of the same builds, wherever these come from.

use super::file_names::FileNames;
use super::save_code;
use super::symbolize::{self, Addresses, LeftMaps, Named};
use crate::base::deadline::Deadline;
use crate::base::memory_budget::MemoryBudget;
use crate::profile::{FrameId, FrameSpace, Module, ModuleId, ModuleKind, ModuleNotes, Profile};
use crate::record::environment::memory_limit;
use crate::record::modules::ModuleFile;
use crate::symbols::{Bases, DebugFiles, FoundFile, NamingLimits, ResolvedLocation, Searched};
use crate::unwind::Limits;
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
    /// Frames that only had the name of their symbol and got inlined functions or lines.
    pub(crate) improved: u64,
    /// Frames of user code that still have no name.
    pub(crate) unnamed: u64,
    /// All frames of user code.
    pub(crate) frames: u64,
    /// Modules that names were added for, the file with the names, and the number of frames named; most frames first.
    pub(crate) added: Vec<(String, String, u64)>,
    /// Modules with frames left without a name, the reason, and the number of those frames; most frames first.
    pub(crate) missing: Vec<(String, String, u64)>,
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

/// Names the frames of `profile` that have no name, or only that of their symbol, as far as the files of their modules
/// are available.
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
        if !is_named || has_symbol_only(profile, id) {
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
    save_code::add_missing(profile, &mut open_own, &deadline)
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
    let (mut named, problem) = match looked_up {
        Ok((named, notes, why)) => {
            completed.has_new_notes |= notes.is_some_and(|notes| note(profile, module, notes));
            (named, why)
        }
        Err(why) => (Named::new(), Some(why)),
    };
    named.retain(|(frame, locations)| is_better(profile, *frame, locations));
    let new = named.iter().filter(|(frame, _)| !profile.symbols.is_named(*frame)).count() as u64;
    completed.named += new;
    completed.improved += named.len() as u64 - new;
    completed.unnamed += wanted.unnamed - new;
    let path = profile.tables.string(profile.tables.module(module).path).to_owned();
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
    match profile.symbols.is_named(frame) {
        // A place (`module+0xstart`) is no better than what the frame has already.
        false => locations.iter().any(|location| !location.raw_name.is_empty()),
        true => locations.len() > 1 || locations.iter().any(|location| location.line > 0),
    }
}

/// Replaces the notes on a module, except for facts known only on the machine that recorded. Returns whether the notes
/// changed.
fn note(profile: &mut Profile, module: ModuleId, notes: ModuleNotes) -> bool {
    let known = profile.module_notes.get(&module).cloned().unwrap_or_default();
    let mut notes = notes;
    if notes.package.is_empty() {
        (notes.package, notes.distribution) = (known.package.clone(), known.distribution.clone());
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
            _ => files.missing_shared = Some((build_id, name)),
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
mod tests {
    use super::*;
    use crate::profile::code::function_code::FunctionCode;
    use crate::profile::counter;
    use crate::profile::{EventInfo, EventKind, Frame, FrameFlags, Meta, Module, Outcome, Sample, TaskId};
    use crate::symbols::tests::program::{C_SOURCE, Workshop, nm};

    #[test]
    fn frames_are_named_by_the_very_file_that_was_recorded() {
        let path = std::env::current_exe().expect("this program has a file");
        let file = Arc::new(File::open(&path).expect("it can be opened"));
        let path = path.to_str().expect("its path is text");
        let own = ModuleFile::read(std::process::id(), path, file, &Limits::default());
        assert!(!own.build_id.is_empty(), "programs of the tests have build IDs");
        let mapped = crate::record::process::proc_fs::code_mappings(std::process::id()).expect("own maps");
        let here =
            complete_names as fn(&mut Profile, &mut DebugSources<'static>) -> Completed as usize as u64;
        let mapping =
            mapped.iter().find(|mapping| (mapping.start..mapping.end).contains(&here)).expect("it runs");
        let elf = own.elf.as_ref().expect("it is ELF");
        let bias =
            elf.bias_of_mapping(mapping.start, mapping.end, mapping.file_offset).expect("it is mapped");

        let mut profile = Profile::new(Meta::default());
        let mut frame = |path: &str, build_id: &[u8], kind| {
            let path = profile.tables.intern_string(path);
            let module = Module { path, build_id: build_id.to_vec(), kind, instance: 0 };
            let module = profile.tables.intern_module(module);
            let address = here.wrapping_sub(bias);
            profile.tables.intern_frame(Frame { module, address, flags: FrameFlags::default() })
        };
        let known = frame(path, &own.build_id, ModuleKind::Elf);
        frame(path, &[1, 2, 3], ModuleKind::Elf);
        frame(path, &[], ModuleKind::Elf);
        frame("/no/such/file", &own.build_id, ModuleKind::Elf);
        frame("[jit]", &[], ModuleKind::Jit);
        let stack = profile.tables.intern_stack(None, known);
        let sampling = "cpu-clock at 999 Hz".to_owned();
        let event = profile.add_event(EventInfo {
            kind: EventKind::ON_CPU,
            sampling,
            period: 1,
            ..EventInfo::default()
        });
        profile.events[event.index()].push(Sample {
            time_ns: 0,
            task: TaskId(0),
            stack: Some(stack),
            weight: 1,
            cpu: 0,
            outcome: Outcome::Complete,
            wait: None,
            merged: None,
        });
        let completed = complete_names(&mut profile, &mut DebugSources::default());
        assert_eq!((completed.named, completed.unnamed, completed.missing.len()), (1, 4, 4));
        // The code of the sampled function, as it is in memory.
        assert_eq!((completed.code, profile.code.len()), (1, 1));
        let code = &profile.code[0];
        let in_memory = (code.address.wrapping_add(bias)) as *const u8;
        // SAFETY: the bytes are of this program's own code, which is mapped and does not change.
        let in_memory = unsafe { std::slice::from_raw_parts(in_memory, code.bytes.len().min(64)) };
        assert!(code.contains(here.wrapping_sub(bias)) && code.bytes.starts_with(in_memory));
        assert!(completed.missing.iter().any(|(_, why, _)| why.contains("010203 was recorded")));
        let location = profile.symbols.locations(known).last().expect("it is named");
        let name = profile.tables.string(profile.symbols.function(location.function).name);
        assert!(name.contains("complete_names"), "{name}");
        let again = complete_names(&mut profile, &mut DebugSources::default());
        assert_eq!((again.named, again.code), (0, 0), "nothing is left to do");

        // Where there was no space for all functions of a module, the others are added.
        let module = profile.code[0].module;
        profile.code = vec![FunctionCode { module, start: 1, ..FunctionCode::default() }];
        profile.count(counter::CODE_LEFT_OUT, 5);
        let more = complete_names(&mut profile, &mut DebugSources::default());
        let left_out = profile.counter(counter::CODE_LEFT_OUT);
        assert_eq!((more.code, profile.code.len(), left_out), (1, 2, 4));
    }

    /// A profile with frames at all functions of a module that is not on this machine.
    fn profile_of(build_id: &[u8], addresses: &[u64]) -> Profile {
        let mut profile = Profile::new(Meta::default());
        let path = profile.tables.intern_string("/gone/prog");
        let module = Module { path, build_id: build_id.to_vec(), kind: ModuleKind::Elf, instance: 0 };
        let module = profile.tables.intern_module(module);
        for &address in addresses {
            profile.tables.intern_frame(Frame { module, address, flags: FrameFlags::default() });
        }
        profile
    }

    /// A debug file of a program, its build ID, and the addresses of its functions.
    fn debug_file(shop: &Workshop) -> Option<(PathBuf, Vec<u8>, Vec<u64>)> {
        shop.write("prog.c", C_SOURCE);
        let program = shop.build("gcc", "prog.c", "prog", "-O2 -g -Wl,--build-id=sha1")?;
        let functions = nm(shop, &program, &[])?;
        let work = functions.iter().find(|function| function.3 == "work").expect("it has one");
        let addresses = (work.0..work.0 + work.1).collect();
        shop.run("objcopy", ["--only-keep-debug", "prog", "prog.debug"])?;
        let file = Arc::new(File::open(&program).expect("it was built"));
        let own = ModuleFile::read(std::process::id(), "prog", file, &Limits::default());
        Some((shop.path().join("prog.debug"), own.build_id, addresses))
    }

    #[test]
    fn a_debug_file_names_a_module_that_is_not_here() {
        let shop = Workshop::new();
        let Some((_, build_id, addresses)) = debug_file(&shop) else { return };
        let mut profile = profile_of(&build_id, &addresses);
        let folders = [shop.path().to_owned()];
        let mut sources = DebugSources { folders: &folders, ..DebugSources::default() };
        let completed = complete_names(&mut profile, &mut sources);
        assert_eq!((completed.named, completed.unnamed), (addresses.len() as u64, 0), "{completed:?}");
        assert!(completed.added[0].1.ends_with("/prog.debug"), "{completed:?}");
        let chains: Vec<usize> = (0..addresses.len() as u32)
            .map(|frame| profile.symbols.locations(FrameId(frame)).len())
            .collect();
        assert_eq!(chains.iter().max(), Some(&3), "inlined functions are among them");
        let notes = &profile.module_notes[&ModuleId(0)];
        assert!(notes.has_debug_info && notes.debug_file.ends_with("prog.debug"), "{notes:?}");
        let again = complete_names(&mut profile, &mut sources);
        assert_eq!((again.named, again.improved, again.has_new_notes), (0, 0, false));
    }

    #[test]
    fn names_of_symbols_get_inlined_functions_and_lines() {
        let shop = Workshop::new();
        let Some((debug, build_id, addresses)) = debug_file(&shop) else { return };
        let mut profile = profile_of(&build_id, &addresses);
        let symbol = |name: &str| {
            let name = name.to_owned();
            ResolvedLocation { raw_name: name.clone(), name, file: None, line: 0, is_inlined: false }
        };
        let named = (0..addresses.len() as u32).map(|frame| (FrameId(frame), vec![symbol("work")])).collect();
        symbolize::store(&mut profile, named);
        assert_eq!(complete_names(&mut profile, &mut DebugSources::default()).improved, 0);

        // A file from another build is refused, with both IDs in the message.
        let asked = std::cell::RefCell::new(Vec::new());
        let mut other = |id: &[u8], name: &str| {
            asked.borrow_mut().push((id.to_vec(), name.to_owned()));
            let own = std::env::current_exe().expect("this program has a file");
            Ok((File::open(&own).expect("it can be opened"), own))
        };
        let mut unnamed = profile_of(&build_id, &addresses[..1]);
        let completed = complete_names(
            &mut unnamed,
            &mut DebugSources { fetch: Some(&mut other), ..DebugSources::default() },
        );
        assert_eq!(*asked.borrow(), [(build_id.clone(), "prog".to_owned())]);
        let why = &completed.missing[0].1;
        let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(why.contains("it is of build") && why.contains(&hex), "{why}");

        let mut fetch = |_: &[u8], _: &str| {
            Ok((File::open(&debug).expect("it is there"), PathBuf::from("/cache/debuginfo")))
        };
        let sources = &mut DebugSources { fetch: Some(&mut fetch), ..DebugSources::default() };
        let completed = complete_names(&mut profile, sources);
        assert_eq!((completed.named, completed.improved), (0, addresses.len() as u64), "{completed:?}");
        assert_eq!(completed.added[0].1, "/cache/debuginfo");
        let locations = profile.symbols.locations(FrameId(0));
        assert!(locations.iter().all(|location| location.line > 0));
    }
}
