//! Naming frames: from the file with their code, from the map of the process that generated it, or from the kernel's
//! symbols.

use crate::base::deadline::Deadline;
use crate::base::failure;
use crate::base::units::counted;
use crate::profile::{FrameId, FrameSpace, Function, Location, ModuleKind, Profile, Tables};
use crate::record::modules::{FileId, ModuleFiles};
use crate::symbols::{NamingLimits, PerfMap, PerfMapSource, ResolvedLocation, demangle};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::SystemTime;

/// Frames to be named, with the address in their module.
pub(crate) type Addresses = Vec<(u64, FrameId)>;

/// Frames with their names.
pub(crate) type Named = Vec<(FrameId, Vec<ResolvedLocation>)>;

/// Frames of user code, by the source of their names.
#[derive(Debug, Default)]
pub(crate) struct UserFrames {
    /// Frames in files.
    pub(crate) by_file: FxHashMap<FileId, Addresses>,
    /// Frames of generated code, by process id.
    pub(crate) generated: FxHashMap<u32, Addresses>,
}

impl UserFrames {
    /// Collects the frames of `tables` from index `from` on.
    pub(crate) fn of(tables: &Tables, files: &ModuleFiles, from: usize) -> Self {
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

/// Names frames of generated code from the map of their process. Also returns a message if part of the map was not
/// read.
///
/// # Errors
///
/// Returns a message about a map that exists but was not read.
pub(super) fn read_perf_map(
    source: &PerfMapSource,
    frames: &[(u64, FrameId)],
    deadline: &Deadline,
) -> Result<(Named, Option<String>), String> {
    match source.open() {
        Ok(Some(file)) => Ok(name_by_map(file, &source.path(), frames, deadline)),
        Ok(None) => Ok((Vec::new(), None)),
        Err(error) => {
            Err(format!("`{}` was not read for names: {}", source.path(), failure::io_words(&error)))
        }
    }
}

/// Names frames of generated code from the map in `file`, which the process sees at `path`. Also returns a message if part of it was
/// not read.
pub(super) fn name_by_map(
    file: File,
    path: &str,
    frames: &[(u64, FrameId)],
    deadline: &Deadline,
) -> (Named, Option<String>) {
    let map = PerfMap::parse(BufReader::with_capacity(1 << 17, file), &NamingLimits::default(), deadline);
    let unread = unread_part(&map).map(|part| format!("{path}: {part}"));
    (name_generated(&map, frames), unread)
}

/// The perf maps that recorded processes have left on this machine.
#[derive(Debug)]
pub(crate) struct LeftMaps {
    /// End of the recording: a map that was begun later may be of another process.
    recorded_by: SystemTime,
    /// Maps that gave names.
    used: Vec<String>,
    /// Maps that were not read, or in part, and why.
    problems: Vec<String>,
}

impl LeftMaps {
    /// Maps of processes that were recorded in this mount namespace until `recorded_by`.
    pub(crate) fn of_here_until(recorded_by: SystemTime) -> Self {
        LeftMaps { recorded_by, used: Vec::new(), problems: Vec::new() }
    }

    /// Notes on what was read and what was not, for readers.
    pub(crate) fn notes(self) -> Vec<String> {
        let used = match self.used.as_slice() {
            [] => None,
            [one] => Some(format!("generated code is named by {one}, as that is now")),
            [first, others @ ..] => {
                let others = counted(others.len() as u64, "other perf map");
                Some(format!("generated code is named by {first} and {others}, as they are now"))
            }
        };
        self.problems.into_iter().chain(used).collect()
    }

    /// Names frames of code that process `pid` has generated.
    ///
    /// # Errors
    ///
    /// A reason why there are no names.
    pub(super) fn name(
        &mut self,
        pid: u32,
        frames: &[(u64, FrameId)],
        deadline: &Deadline,
    ) -> Result<Named, String> {
        let source = PerfMapSource::left_behind(Path::new("/"), pid, self.recorded_by)
            .map_err(|error| failure::io_words(&error))?;
        let read = read_perf_map(&source, frames, deadline);
        let (named, problem) = read.inspect_err(|why| self.problems.push(why.clone()))?;
        self.problems.extend(problem);
        if named.is_empty() {
            return Err(format!(
                "the code was generated at run time, and `{}` does not name it",
                source.path()
            ));
        }
        self.used.push(source.path());
        Ok(named)
    }
}

/// Part of its file that `map` lacks, in words. The last line may be incomplete while the program runs.
fn unread_part(map: &PerfMap) -> Option<&'static str> {
    match (map.is_cut(), map.bad_lines(), map.is_empty()) {
        (true, ..) => Some("it was not read to its end"),
        (false, 0, _) | (false, 1, false) => None,
        (false, _, true) => Some("it names nothing: no line is `START SIZE NAME`"),
        (false, _, false) => Some("some lines are not `START SIZE NAME`"),
    }
}

/// Names frames of generated code; frames without a name are left out.
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

/// The location of a frame in the kernel function `name`.
pub(crate) fn kernel_location(name: &str) -> ResolvedLocation {
    let name = name.to_owned();
    ResolvedLocation { raw_name: name.clone(), name, file: None, line: 0, is_inlined: false }
}

/// The locations of a frame of `profile`.
pub(crate) fn locations_of(profile: &Profile, frame: FrameId) -> Vec<ResolvedLocation> {
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

/// Longest name kept, bytes; one that was cut ends in `…`.
const MAX_NAME_BYTES: usize = 4096;

/// What [`ResolvedLocation`] says, wherever its texts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocationText<'a> {
    pub(super) name: &'a str,
    pub(super) raw_name: &'a str,
    /// Empty if it is not known.
    pub(super) file: &'a str,
    pub(super) line: u32,
    pub(super) is_inlined: bool,
}

impl<'a> From<&'a ResolvedLocation> for LocationText<'a> {
    fn from(location: &'a ResolvedLocation) -> Self {
        LocationText {
            name: &location.name,
            raw_name: &location.raw_name,
            file: location.file.as_deref().unwrap_or(""),
            line: location.line,
            is_inlined: location.is_inlined,
        }
    }
}

/// Enters names into the profile.
pub(crate) fn store(profile: &mut Profile, named: Named) {
    for (frame, locations) in named {
        let locations = interned(profile, &locations);
        profile.symbols.set_locations(frame, locations);
    }
}

/// Locations of a frame, with the names in the tables of the profile.
pub(crate) fn interned<'a, L: Into<LocationText<'a>>>(
    profile: &mut Profile,
    locations: impl IntoIterator<Item = L>,
) -> Vec<Location> {
    let locations = locations.into_iter().map(|location| {
        let LocationText { name, raw_name, file, line, is_inlined } = location.into();
        let tables = &mut profile.tables;
        let [name, raw_name, file] =
            [name, raw_name, file].map(|text| tables.intern_string(capped(text).as_ref()));
        let function = profile.symbols.intern_function(Function { name, raw_name });
        Location { function, file, line, is_inlined }
    });
    locations.collect()
}

/// Whether `stored`, read back from the profile, is what entering `location` makes.
pub(super) fn is_stored_as(location: &ResolvedLocation, stored: &ResolvedLocation) -> bool {
    let file = |location: &ResolvedLocation| capped(location.file.as_deref().unwrap_or("")).into_owned();
    capped(&location.name) == stored.name
        && capped(&location.raw_name) == stored.raw_name
        && file(location) == file(stored)
        && (location.line, location.is_inlined) == (stored.line, stored.is_inlined)
}

fn capped(name: &str) -> Cow<'_, str> {
    if name.len() <= MAX_NAME_BYTES {
        return Cow::Borrowed(name);
    }
    let end = (0..=MAX_NAME_BYTES).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    Cow::Owned(format!("{}…", &name[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_cannot_be_opened_is_refused_in_words() {
        let root = tempfile::tempdir().expect("a folder can be made");
        std::fs::write(root.path().join("tmp"), "no folder").expect("it can be written");
        let map = PerfMapSource::left_behind(root.path(), 7, SystemTime::now()).expect("it is a folder");
        let refused = read_perf_map(&map, &[], &Deadline::default()).expect_err("`tmp` is no folder");
        assert_eq!(refused, "`/tmp/perf-7.map` was not read for names: Not a directory");
    }

    #[test]
    fn what_is_missing_in_a_map_is_said_unless_its_last_line_is_still_written() {
        let said = |text: &str| {
            unread_part(&PerfMap::parse(text.as_bytes(), &NamingLimits::default(), &Deadline::default()))
        };
        assert_eq!((said(""), said("10 8 a\n20 8 b\n"), said("10 8 a\n20")), (None, None, None));
        assert_eq!(said("10 8 a\nx\n20"), Some("some lines are not `START SIZE NAME`"));
        // One long line that is no text, for instance.
        assert_eq!(said("garbage"), Some("it names nothing: no line is `START SIZE NAME`"));
    }
}
