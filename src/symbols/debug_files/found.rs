//! The files that hold the debug information of one module.

use super::refusal::{UnusedFiles, other_build};
use super::split_search::SplitSearch;
use crate::elf::source::Source;
use crate::elf::{ElfFile, ElfLimits};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// A file that was found, opened and checked.
#[derive(Debug, Clone)]
pub(crate) struct FoundFile {
    pub(crate) file: Arc<File>,
    /// Path of the file as the module's process sees it. Foreign text.
    pub(crate) path: PathBuf,
}

impl FoundFile {
    /// Accepts a file from elsewhere if its build ID is `build_id`.
    ///
    /// # Errors
    ///
    /// Fails when it has another build ID; the message has both.
    pub(crate) fn checked(file: File, path: PathBuf, build_id: &[u8]) -> Result<Self, String> {
        let file = Arc::new(file);
        match check_shared(&file, build_id) {
            Ok(()) => Ok(FoundFile { file, path }),
            Err(why) => Err(format!("{}: {why}", path.display())),
        }
    }
}

/// Checks that the build ID of a file is `build_id`.
///
/// # Errors
///
/// Fails when it has another one; the message has both.
pub(crate) fn check_build(file: &File, build_id: &[u8]) -> Result<(), String> {
    check_shared(&Arc::new(file.try_clone().map_err(|error| error.to_string())?), build_id)
}

fn check_shared(file: &Arc<File>, build_id: &[u8]) -> Result<(), String> {
    let image = Source::of_file(file).and_then(|source| ElfFile::parse(source, &ElfLimits::default()));
    match image.map_err(|error| error.to_string())?.build_id().unwrap_or_default() {
        found if found == build_id => Ok(()),
        found => Err(other_build(&found, build_id)),
    }
}

/// All files besides the module itself that hold its debug information.
#[derive(Debug, Default)]
pub(crate) struct DebugFiles {
    /// The separate debug file of the module.
    pub(crate) debug: Option<FoundFile>,
    /// The file that the module shares with other modules, made by dwz.
    pub(crate) shared: Option<FoundFile>,
    /// Build ID and name of the shared file, if the module needs one and none was found.
    pub(crate) missing_shared: Option<(Vec<u8>, String)>,
    /// The package (`.dwp`) of all split DWARF units.
    pub(crate) package: Option<FoundFile>,
    /// Search for `.dwo` files of single units.
    pub(crate) split: SplitSearch,
    /// Files that are there but were not used.
    pub(crate) refused: UnusedFiles,
}
