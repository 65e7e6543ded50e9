//! Completing recordings: what is named, by which file, and what the notes on modules say then.

use super::*;
use crate::profile::code::function_code::FunctionCode;
use crate::profile::counter;
use crate::profile::{EventInfo, EventKind, Frame, FrameFlags, Meta, Module, Outcome, Sample, TaskId};
use crate::symbols::tests::program::{C_SOURCE, CPP_SOURCE, Workshop, nm};

#[test]
fn frames_are_named_by_the_very_file_that_was_recorded() {
    let path = std::env::current_exe().expect("this program has a file");
    let file = Arc::new(File::open(&path).expect("it can be opened"));
    let path = path.to_str().expect("its path is text");
    let own = ModuleFile::read(std::process::id(), path, file, &Limits::default());
    assert!(!own.build_id.is_empty(), "programs of the tests have build IDs");
    let mapped = crate::record::process::proc_fs::code_mappings(std::process::id()).expect("own maps");
    let here = complete_names as fn(&mut Profile, &mut DebugSources<'static>) -> Completed as usize as u64;
    let mapping =
        mapped.iter().find(|mapping| (mapping.start..mapping.end).contains(&here)).expect("it runs");
    let elf = own.elf.as_ref().expect("it is ELF");
    let bias = elf.bias_of_mapping(mapping.start, mapping.end, mapping.file_offset).expect("it is mapped");

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
    let event =
        profile.add_event(EventInfo { kind: EventKind::ON_CPU, sampling, period: 1, ..EventInfo::default() });
    profile.events[event.index()].push(Sample {
        time_ns: 0,
        task: TaskId(0),
        stack: Some(stack),
        weight: 1,
        cpu: 0,
        outcome: Outcome::Complete,
        wait: None,
        merged: None,
        block: None,
        labels: None,
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
    let chains: Vec<usize> =
        (0..addresses.len() as u32).map(|frame| profile.symbols.locations(FrameId(frame)).len()).collect();
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

    let mut fetch =
        |_: &[u8], _: &str| Ok((File::open(&debug).expect("it is there"), PathBuf::from("/cache/debuginfo")));
    let sources = &mut DebugSources { fetch: Some(&mut fetch), ..DebugSources::default() };
    let completed = complete_names(&mut profile, sources);
    assert_eq!((completed.named, completed.improved), (0, addresses.len() as u64), "{completed:?}");
    assert_eq!(completed.added[0].1, "/cache/debuginfo");
    let locations = profile.symbols.locations(FrameId(0));
    assert!(locations.iter().all(|location| location.line > 0));
}

/// A profile with frames at all addresses of the functions of a program in the folder.
fn profile_of_program(shop: &Workshop, name: &str, functions: &[&str]) -> Option<Profile> {
    let program = shop.path().join(name);
    let path = program.to_str().expect("text");
    let known = nm(shop, &program, &[])?;
    let ranges = known.iter().filter(|known| functions.iter().any(|name| known.3.contains(name)));
    let addresses: Vec<u64> = ranges.flat_map(|&(start, size, ..)| start..start + size).collect();
    assert!(!addresses.is_empty(), "{known:?}");
    let file = Arc::new(File::open(&program).expect("it was built"));
    let own = ModuleFile::read(std::process::id(), path, file, &Limits::default());
    let mut profile = Profile::new(Meta::default());
    let path = profile.tables.intern_string(path);
    let module = Module { path, build_id: own.build_id, kind: ModuleKind::Elf, instance: 0 };
    let module = profile.tables.intern_module(module);
    for address in addresses {
        profile.tables.intern_frame(Frame { module, address, flags: FrameFlags::default() });
    }
    Some(profile)
}

/// Numbers of functions at each address.
fn chains(profile: &Profile) -> Vec<usize> {
    let frames = 0..profile.tables.frames().len() as u32;
    frames.map(|frame| profile.symbols.locations(FrameId(frame)).len()).collect()
}

fn in_folder(folder: &Path) -> DebugSources<'_> {
    let named: &'static [PathBuf] = Box::leak(vec![folder.to_owned()].into_boxed_slice());
    DebugSources { folders: named, ..DebugSources::default() }
}

/// Regression: units without their .dwo files have lines, so their frames were taken for complete, and what was known
/// to be missing was forgotten.
#[test]
fn split_dwarf_that_was_missing_is_added_later() {
    let shop = Workshop::new();
    shop.write("prog.c", C_SOURCE);
    let flags = "-O2 -g -gsplit-dwarf -Wl,--build-id=sha1";
    let Some(program) = shop.build("gcc", "prog.c", "prog", flags) else { return };
    let Some(mut profile) = profile_of_program(&shop, "prog", &["work"]) else { return };
    let away = shop.path().join("away");
    std::fs::create_dir(&away).expect("a folder");
    let dwo = std::fs::read_dir(shop.path()).expect("a folder").map(|entry| entry.expect("one").path());
    let dwo = dwo.filter(|path| path.extension().is_some_and(|ending| ending == "dwo")).last().expect("one");
    std::fs::rename(&dwo, away.join(dwo.file_name().expect("a name"))).expect("moved");
    let frames = profile.tables.frames().len() as u64;

    let first = complete_names(&mut profile, &mut DebugSources::default());
    assert_eq!((first.named, first.incomplete.len()), (frames, 1), "{first:?}");
    assert_eq!(chains(&profile).iter().max(), Some(&1));
    assert!(profile.symbols.locations(FrameId(0))[0].line > 0, "the skeleton unit has lines");
    let noted = profile.module_notes[&ModuleId(0)].clone();
    assert!(noted.split_missing == 1 && noted.lacks_files(), "{noted:?}");

    let again = complete_names(&mut profile, &mut DebugSources::default());
    assert_eq!((again.improved, again.has_new_notes, again.incomplete.len()), (0, false, 1), "{again:?}");
    // Nothing can be read where the program is not.
    let elsewhere = shop.path().join("elsewhere");
    std::fs::rename(&program, &elsewhere).expect("moved");
    let gone = complete_names(&mut profile, &mut DebugSources::default());
    assert_eq!((gone.has_new_notes, &profile.module_notes[&ModuleId(0)]), (false, &noted));
    std::fs::rename(&elsewhere, &program).expect("moved");

    let found = complete_names(&mut profile, &mut in_folder(&away));
    assert!(found.improved > 0 && found.has_new_notes && found.incomplete.is_empty(), "{found:?}");
    assert_eq!(chains(&profile).iter().max(), Some(&3), "inlined functions are among them");
    let notes = &profile.module_notes[&ModuleId(0)];
    assert!(notes.split_found == 1 && !notes.lacks_files() && notes.problems.is_empty(), "{notes:?}");
    // What was read stays noted where the file is missing again.
    let last = complete_names(&mut profile, &mut DebugSources::default());
    assert_eq!((last.named, last.improved, last.has_new_notes), (0, 0, false), "{last:?}");
}

/// Regression: of programs whose common debug information (dwz) was away, inlined functions were lost for good.
#[test]
fn a_shared_file_that_was_missing_is_added_later() {
    let shop = Workshop::new();
    shop.write("one.cc", CPP_SOURCE);
    shop.write("two.cc", &CPP_SOURCE.replace("counts[key]++", "counts[key]--"));
    for (source, program) in [("one.cc", "one"), ("two.cc", "two")] {
        let Some(_) = shop.build("g++", source, program, "-O2 -g -Wl,--build-id=sha1") else { return };
    }
    let Some(()) = shop.run("dwz", ["-m", "common.debug", "one", "two"]).map(drop) else { return };
    let Some(mut profile) = profile_of_program(&shop, "one", &["main", "count", "sort", "insert"]) else {
        return;
    };
    let (common, away) = (shop.path().join("common.debug"), shop.path().join("away"));
    std::fs::create_dir(&away).expect("a folder");
    std::fs::rename(&common, away.join("common.debug")).expect("moved");
    let first = complete_names(&mut profile, &mut DebugSources::default());
    assert_eq!((first.unnamed, first.incomplete.len()), (0, 1), "{first:?}");
    let noted = profile.module_notes[&ModuleId(0)].clone();
    assert!(noted.shared_missing.ends_with("common.debug") && noted.shared_file.is_empty(), "{noted:?}");
    let lost: usize = chains(&profile).iter().sum();

    // From a server, which is asked for the build of the shared file; one that has none is reported.
    let mut whole = profile.clone();
    let mut no_server = |_: &[u8], _: &str| Err("no debuginfod server has it".to_owned());
    let sources = &mut DebugSources { fetch: Some(&mut no_server), ..DebugSources::default() };
    let refused = complete_names(&mut profile, sources);
    assert_eq!((refused.improved, refused.incomplete.len()), (0, 1));
    let notes = &profile.module_notes[&ModuleId(0)];
    assert!(notes.problems.iter().any(|it| it.contains("no debuginfod server has it")), "{notes:?}");
    let kept = away.join("common.debug");
    let mut fetch = |_: &[u8], name: &str| {
        assert_eq!(name, "common.debug");
        Ok((File::open(&kept).expect("it is there"), kept.clone()))
    };
    let sources = &mut DebugSources { fetch: Some(&mut fetch), ..DebugSources::default() };
    let fetched = complete_names(&mut whole, sources);
    assert!(fetched.improved > 0 && fetched.incomplete.is_empty(), "{fetched:?}");

    let found = complete_names(&mut profile, &mut in_folder(&away));
    assert_eq!((found.improved, found.incomplete.len()), (fetched.improved, 0), "{found:?}");
    assert_eq!(chains(&profile), chains(&whole));
    assert!(chains(&profile).iter().sum::<usize>() > lost);
    let notes = &profile.module_notes[&ModuleId(0)];
    assert!(notes.shared_file.ends_with("common.debug") && notes.shared_missing.is_empty(), "{notes:?}");
}

/// Regression: they were listed as `it is not a file`.
#[test]
fn functions_of_an_interpreter_without_names_are_listed_as_such() {
    let mut profile = Profile::new(Meta::default());
    let path = profile.tables.intern_string("python 3.11");
    let module =
        profile.tables.intern_module(Module { path, kind: ModuleKind::Runtime, ..Module::default() });
    profile.tables.intern_frame(Frame { module, address: 1, flags: FrameFlags::default() });
    let missing = complete_names(&mut profile, &mut DebugSources::default()).missing;
    let why = "the functions were gone before they could be read";
    assert_eq!(missing, [("python 3.11".to_owned(), why.to_owned(), 1)]);
}

/// Regression: such code was listed as `: it is not a file`.
#[test]
fn code_of_no_known_module_is_listed_as_such() {
    let mut profile = Profile::new(Meta::default());
    let module = profile.tables.intern_module(Module { kind: ModuleKind::Unknown, ..Module::default() });
    profile.tables.intern_frame(Frame { module, address: 1, flags: FrameFlags::default() });
    let missing = complete_names(&mut profile, &mut DebugSources::default()).missing;
    let why = "the recording does not say which module it is in";
    assert_eq!(missing, [("[unknown]".to_owned(), why.to_owned(), 1)]);
}
