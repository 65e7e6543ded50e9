//! Finding the files that hold the debug information of a module.
//!
//! In this order: by build ID, `/usr/lib/debug/.build-id/ab/cdef….debug`; by the name in `.gnu_debuglink` next to the
//! module, in `.debug/` next to it, or under `/usr/lib/debug` and the module's folder; in folders named by the user. A
//! file counts only if it has the build ID or checksum looked for. Files are opened inside the given root only.

use super::bases::{Bases, OpenedPath, open_inside, open_named};
use super::checksum::file_crc32;
use super::found::{DebugFiles, FoundFile};
use super::links::{DebugLink, SharedLink};
use super::refusal::{UnusedFiles, other_build};
use super::split_search::SplitSearch;
use crate::base::deadline::Deadline;
use crate::elf::ElfFile;
use crate::elf::source::Source;
use crate::symbols::limits::NamingLimits;
use crate::symbols::sections::dwarf::{has_debug_info, has_split_units};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folder in which distributions put debug files.
const DEBUG_DIR: &str = "/usr/lib/debug";

/// The separate debug information of the module `file`, opened, or `None` if there is none or `file` has its own.
///
/// `module_path` is the module's path as its process sees it, and `root` the root directory of that process
/// (`/proc/PID/root`, or `/`). The host's own `/usr/lib/debug` is searched too. The search gives up at the deadline.
pub fn find_debug_file(
    root: &Path,
    module_path: &Path,
    file: &Arc<File>,
    deadline: &Deadline,
) -> Option<Arc<File>> {
    let bases = Bases::new(root, &[]);
    let search = DebugSearch::new(&bases, deadline);
    let module = Searched { path: module_path, file: Some(file), build_id: &[] };
    search.debug_file(&module, &mut UnusedFiles::default()).map(|found| found.file)
}

/// A module whose debug information is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Searched<'a> {
    /// Path of the module as its process sees it.
    pub(crate) path: &'a Path,
    /// The module's file, if it is there.
    pub(crate) file: Option<&'a Arc<File>>,
    /// Build ID of the module, for when there is no file to read it from; may be empty.
    pub(crate) build_id: &'a [u8],
}

impl DebugFiles {
    /// Looks for all files with debug information of `module`.
    pub(crate) fn find(bases: &Bases, module: &Searched<'_>, deadline: &Deadline) -> Self {
        let mut files = DebugFiles { split: SplitSearch::new(bases, module.path), ..DebugFiles::default() };
        let search = DebugSearch::new(bases, deadline);
        files.debug = search.debug_file(module, &mut files.refused);
        files.find_more(&search, module);
        files
    }

    /// Whether a module contains debug information itself.
    pub(crate) fn has_own(module: &Arc<File>) -> bool {
        let image = Source::of_file(module).and_then(|it| ElfFile::parse(it, &NamingLimits::default().elf));
        image.is_ok_and(|image| has_debug_info(&image))
    }

    /// Sets a debug file that came from elsewhere.
    pub(crate) fn set_debug(
        &mut self,
        found: FoundFile,
        bases: &Bases,
        module: &Searched<'_>,
        deadline: &Deadline,
    ) {
        self.debug = Some(found);
        self.find_more(&DebugSearch::new(bases, deadline), module);
    }

    /// Looks for the files that the file with debug information refers to.
    fn find_more(&mut self, search: &DebugSearch<'_>, module: &Searched<'_>) {
        let debug = self.debug.as_ref().map(|found| (&found.file, found.path.as_path()));
        let own = module.file.map(|file| (file, module.path));
        let Some((file, path)) = debug.or(own) else { return };
        let Some(image) = search.parse(file) else { return };
        if let Some(link) = SharedLink::of(&image) {
            self.shared = search.shared_file(&link, path, &mut self.refused);
            let name = String::from_utf8_lossy(&link.path).into_owned();
            self.missing_shared = self.shared.is_none().then_some((link.build_id, name));
        }
        if has_debug_info(&image) {
            self.package = search.package(module.path, path, &mut self.refused);
        }
    }
}

/// Path of a file to try: in one of the roots, or in a folder named by the user.
enum CandidatePath {
    Inside(PathBuf),
    Named(PathBuf),
}

/// One search.
struct DebugSearch<'a> {
    bases: &'a Bases,
    deadline: &'a Deadline,
    limits: NamingLimits,
}

impl<'a> DebugSearch<'a> {
    fn new(bases: &'a Bases, deadline: &'a Deadline) -> Self {
        DebugSearch { bases, deadline, limits: NamingLimits::default() }
    }

    fn parse(&self, file: &Arc<File>) -> Option<ElfFile> {
        ElfFile::parse(Source::of_file(file).ok()?, &self.limits.elf).ok()
    }

    /// The separate debug file of a module that contains no debug information itself.
    fn debug_file(&self, module: &Searched<'_>, refused: &mut UnusedFiles) -> Option<FoundFile> {
        let image = match module.file {
            Some(file) => Some(self.parse(file)?),
            None => None,
        };
        if image.as_ref().is_some_and(has_debug_info) {
            return None;
        }
        let wanted = WantedFile::of(module, image.as_ref())?;
        let mut candidates = wanted.paths_inside(module.path);
        for folder in &self.bases.folders {
            candidates.extend(wanted.paths_in(folder, module.path).into_iter().map(CandidatePath::Named));
        }
        self.first(&candidates, refused, |file| wanted.check(file, self))
    }

    /// The first candidate that `check` accepts.
    fn first(
        &self,
        candidates: &[CandidatePath],
        refused: &mut UnusedFiles,
        check: impl Fn(&Arc<File>) -> Result<(), String>,
    ) -> Option<FoundFile> {
        for candidate in candidates {
            let (path, opened) = match candidate {
                CandidatePath::Inside(path) => {
                    let opened: Vec<OpenedPath> =
                        self.bases.roots.iter().map(|root| open_inside(root, path)).collect();
                    (path, opened)
                }
                CandidatePath::Named(path) => (path, vec![open_named(path)]),
            };
            for opened in opened {
                if self.deadline.has_passed() {
                    return None;
                }
                let checked = match opened {
                    OpenedPath::Nothing => continue,
                    OpenedPath::Unusable(why) => Err(why),
                    OpenedPath::File(file) => check(&file).map(|()| file),
                };
                match checked {
                    Ok(file) => return Some(FoundFile { file, path: path.clone() }),
                    // A candidate that is the module itself needs no message.
                    Err(why) if why.is_empty() => {}
                    Err(why) => refused.add(path, &why),
                }
            }
        }
        None
    }

    /// The file that `link`, in the file at `from`, refers to.
    fn shared_file(&self, link: &SharedLink, from: &Path, refused: &mut UnusedFiles) -> Option<FoundFile> {
        let path = Path::new(OsStr::from_bytes(&link.path));
        let folder = from.parent().unwrap_or(Path::new("/"));
        let mut candidates = vec![CandidatePath::Inside(folder.join(path))];
        candidates.extend(build_id_path(&link.build_id).map(CandidatePath::Inside));
        if let Some(name) = path.file_name() {
            candidates.push(CandidatePath::Inside(Path::new(DEBUG_DIR).join(".dwz").join(name)));
            for folder in &self.bases.folders {
                let below = path.strip_prefix("/").unwrap_or(path);
                let places = [folder.join(below), folder.join(".dwz").join(name), folder.join(name)];
                candidates.extend(places.map(CandidatePath::Named));
                let by_id = by_build_id(folder, &link.build_id);
                candidates.extend(by_id.into_iter().map(CandidatePath::Named));
            }
        }
        // A debug file from a folder named by the user has the files that it refers to in the same folder.
        if self.bases.folders.iter().any(|named| folder.starts_with(named)) {
            candidates.push(CandidatePath::Named(folder.join(path)));
        }
        self.first(&candidates, refused, |file| {
            let image = self.image(file)?;
            match image.build_id().unwrap_or_default() {
                found if found == link.build_id => Ok(()),
                found => Err(other_build(&found, &link.build_id)),
            }
        })
    }

    /// The `.dwp` file next to the module, or next to its debug file at `path`.
    fn package(&self, module: &Path, path: &Path, refused: &mut UnusedFiles) -> Option<FoundFile> {
        let with_ending = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(".dwp");
            PathBuf::from(name)
        };
        let mut candidates = vec![CandidatePath::Inside(with_ending(module))];
        if path != module {
            candidates.push(CandidatePath::Inside(with_ending(path)));
            if self.bases.folders.iter().any(|named| path.starts_with(named)) {
                candidates.push(CandidatePath::Named(with_ending(path)));
            }
        }
        if let Some(name) = module.file_name() {
            let name = with_ending(Path::new(name));
            candidates.extend(self.bases.folders.iter().map(|dir| CandidatePath::Named(dir.join(&name))));
        }
        // Any package will do: its units are checked by their IDs.
        self.first(&candidates, refused, |file| match has_split_units(&self.image(file)?) {
            true => Ok(()),
            false => Err("it holds no split debug information".to_owned()),
        })
    }

    fn image(&self, file: &Arc<File>) -> Result<ElfFile, String> {
        let source = Source::of_file(file).map_err(|error| error.to_string())?;
        ElfFile::parse(source, &self.limits.elf).map_err(|error| error.to_string())
    }
}

/// The identity of the debug file looked for.
#[derive(Debug)]
struct WantedFile {
    build_id: Option<Vec<u8>>,
    link: Option<DebugLink>,
    /// Device and inode of the module, which is not its own debug file.
    module: Option<(u64, u64)>,
}

impl WantedFile {
    fn of(module: &Searched<'_>, image: Option<&ElfFile>) -> Option<Self> {
        let link = image.and_then(DebugLink::of);
        let known = (!module.build_id.is_empty()).then(|| module.build_id.to_vec());
        let build_id = image.and_then(ElfFile::build_id).or(known);
        let facts = module.file.and_then(|file| file.metadata().ok());
        let module = facts.map(|facts| (facts.dev(), facts.ino()));
        (link.is_some() || build_id.is_some()).then_some(WantedFile { build_id, link, module })
    }

    /// Paths to try, best first, as seen from a root.
    fn paths_inside(&self, module_path: &Path) -> Vec<CandidatePath> {
        let mut paths: Vec<PathBuf> = self.build_id.as_deref().and_then(build_id_path).into_iter().collect();
        if let Some(link) = &self.link
            && let Some(folder) = module_path.parent()
            && module_path.is_absolute()
        {
            let name = OsStr::from_bytes(&link.name);
            paths.push(folder.join(name));
            paths.push(folder.join(".debug").join(name));
            let below = folder.strip_prefix("/").unwrap_or(folder);
            paths.push(Path::new(DEBUG_DIR).join(below).join(name));
        }
        paths.into_iter().map(CandidatePath::Inside).collect()
    }

    /// Paths to try in a folder named by the user: it may be laid out as `/usr/lib/debug`, as a copy of a whole root or
    /// as the cache of debuginfod, or just hold the files under their own names.
    fn paths_in(&self, folder: &Path, module_path: &Path) -> Vec<PathBuf> {
        let mut paths = self.build_id.as_deref().map_or(Vec::new(), |id| by_build_id(folder, id));
        let below = module_path.strip_prefix("/").unwrap_or(module_path);
        if let Some(link) = &self.link {
            let name = OsStr::from_bytes(&link.name);
            let of_module = folder.join(below.parent().unwrap_or(Path::new("")));
            paths.extend([folder.join(name), of_module.join(name), of_module.join(".debug").join(name)]);
        }
        if let Some(name) = module_path.file_name() {
            let mut debug_name = name.to_owned();
            debug_name.push(".debug");
            let mut debug_below = below.as_os_str().to_owned();
            debug_below.push(".debug");
            paths.extend([folder.join(debug_name), folder.join(debug_below)]);
            paths.extend([folder.join(name), folder.join(below)]);
        }
        paths
    }

    /// Checks that `candidate` is the file looked for. Else returns the reason, which is empty if it is the module
    /// itself.
    fn check(&self, candidate: &Arc<File>, search: &DebugSearch<'_>) -> Result<(), String> {
        let facts = candidate.metadata().map_err(|error| error.to_string())?;
        if Some((facts.dev(), facts.ino())) == self.module {
            return Err(String::new());
        }
        let image = search.image(candidate)?;
        match (&self.build_id, image.build_id(), &self.link) {
            (Some(wanted), Some(found), _) if *wanted != found => return Err(other_build(&found, wanted)),
            (Some(_), Some(_), _) => {}
            (_, _, Some(link)) => match file_crc32(candidate, facts.len(), search.deadline) {
                Some(crc) if crc == link.crc => {}
                Some(crc) => return Err(format!("its checksum is {crc:08x}, not {:08x}", link.crc)),
                None => return Err("it is too large, or too full of holes, to be checked".to_owned()),
            },
            (Some(wanted), None, None) => return Err(other_build(&[], wanted)),
            (None, ..) => return Err(String::new()),
        }
        let has_names = has_debug_info(&image) || image.section(b".symtab").is_some();
        if has_names { Ok(()) } else { Err("it holds no names".to_owned()) }
    }
}

/// The first byte of a build ID in hexadecimal digits, and the rest.
fn hex_parts(build_id: &[u8]) -> Option<(String, String)> {
    let [first, rest @ ..] = build_id else { return None };
    let mut hex = String::new();
    for byte in rest {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    (!hex.is_empty()).then(|| (format!("{first:02x}"), hex))
}

/// The path where distributions put the debug file of a build.
fn build_id_path(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = hex_parts(build_id)?;
    Some(PathBuf::from(format!("{DEBUG_DIR}/.build-id/{first}/{rest}.debug")))
}

/// Possible paths of the debug file of a build in a folder named by the user.
fn by_build_id(folder: &Path, build_id: &[u8]) -> Vec<PathBuf> {
    let Some((first, rest)) = hex_parts(build_id) else { return Vec::new() };
    let file = format!("{first}/{rest}.debug");
    vec![
        folder.join(".build-id").join(&file),
        folder.join("usr/lib/debug/.build-id").join(&file),
        folder.join(&file),
        folder.join(format!("{first}{rest}/debuginfo")),
        folder.join(format!("{first}{rest}.debug")),
    ]
}
