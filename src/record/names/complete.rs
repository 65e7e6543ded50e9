//! Names for a recording that lacks some: its recorder was killed, or naming was cut short. They are read from the files of
//! this machine, if these are the ones that were recorded.

use super::file_names::FileNames;
use super::symbolize::{self, Addresses};
use crate::base::deadline::Deadline;
use crate::profile::{FrameId, FrameSpace, ModuleId, ModuleKind, Profile};
use crate::record::modules::ModuleFile;
use crate::unwind::Limits;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

/// What adding names came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Completed {
    /// Frames that have got a name.
    pub(crate) named: u64,
    /// Frames of user code that still have none.
    pub(crate) unnamed: u64,
    /// Frames of user code in all.
    pub(crate) frames: u64,
    /// Modules of which nothing could be read, with the reason and their frames without a name; most frames first.
    pub(crate) missing: Vec<(String, String, u64)>,
}

/// Names the frames of `profile` that have no name, as far as the files that they are in are there.
pub(crate) fn complete_names(profile: &mut Profile) -> Completed {
    let mut completed = Completed::default();
    let mut unnamed: BTreeMap<ModuleId, Addresses> = BTreeMap::new();
    for (index, frame) in profile.tables.frames().iter().enumerate() {
        let id = FrameId(index as u32);
        if frame.flags.space != FrameSpace::User {
            continue;
        }
        completed.frames += 1;
        if !profile.symbols.is_named(id) {
            unnamed.entry(frame.module).or_default().push((frame.lookup_address(), id));
        }
    }
    for (module, mut frames) in unnamed {
        let wanted = frames.len() as u64;
        let deadline = Deadline::default();
        let named = open(profile, module).and_then(|file| {
            let mut names = FileNames::open(&file, &deadline)?;
            names.name(&file, &mut frames, &deadline)
        });
        let named = named.map(|mut named| {
            // A place is what it has already.
            named.retain(|(_, locations)| locations.iter().any(|location| !location.raw_name.is_empty()));
            named
        });
        let (named, problem) = match named {
            Ok(named) => (named, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        completed.named += named.len() as u64;
        completed.unnamed += wanted - named.len() as u64;
        if let Some(problem) = problem {
            let path = profile.tables.string(profile.tables.module(module).path).to_owned();
            completed.missing.push((path, problem, wanted));
        }
        symbolize::store(profile, named);
    }
    completed.missing.sort_by_key(|(path, _, frames)| (std::cmp::Reverse(*frames), path.clone()));
    completed
}

/// The file of a module, if it is there and the one that was recorded.
fn open(profile: &Profile, id: ModuleId) -> Result<ModuleFile, String> {
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
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file =
        File::options().read(true).custom_flags(flags).open(path).map_err(|error| error.to_string())?;
    if !file.metadata().is_ok_and(|facts| facts.is_file()) {
        return Err("it is not a regular file".to_owned());
    }
    let file = ModuleFile::read(std::process::id(), path, Arc::new(file), &Limits::default());
    if file.build_id == module.build_id {
        return Ok(file);
    }
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Err(match file.build_id.as_slice() {
        [] => "another file is there now".to_owned(),
        found => format!("build {} is there, {} was recorded", hex(found), hex(&module.build_id)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Frame, FrameFlags, Meta, Module};

    #[test]
    fn frames_are_named_by_the_very_file_that_was_recorded() {
        let path = std::env::current_exe().expect("this program has a file");
        let file = Arc::new(File::open(&path).expect("it can be opened"));
        let path = path.to_str().expect("its path is text");
        let own = ModuleFile::read(std::process::id(), path, file, &Limits::default());
        assert!(!own.build_id.is_empty(), "programs of the tests have build IDs");
        let mapped = crate::record::process::proc_fs::code_mappings(std::process::id()).expect("own maps");
        let here = complete_names as fn(&mut Profile) -> Completed as usize as u64;
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
        let completed = complete_names(&mut profile);
        assert_eq!((completed.named, completed.unnamed, completed.missing.len()), (1, 4, 4));
        assert!(completed.missing.iter().any(|(_, why, _)| why.contains("010203 was recorded")));
        let location = profile.symbols.locations(known).last().expect("it is named");
        let name = profile.tables.string(profile.symbols.function(location.function).name);
        assert!(name.contains("complete_names"), "{name}");
        assert_eq!(complete_names(&mut profile).named, 0, "nothing is left to do");
    }
}
