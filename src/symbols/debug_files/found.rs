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
    /// Where it is, as the process of the module sees it. Foreign text.
    pub(crate) path: PathBuf,
}

impl FoundFile {
    /// A file from elsewhere, if it is of the build that was asked for.
    ///
    /// # Errors
    ///
    /// Why it is not, with both build IDs.
    pub(crate) fn checked(file: File, path: PathBuf, build_id: &[u8]) -> Result<Self, String> {
        let file = Arc::new(file);
        let image = Source::of_file(&file).and_then(|source| ElfFile::parse(source, &ElfLimits::default()));
        let image = image.map_err(|error| format!("{}: {error}", path.display()))?;
        match image.build_id().unwrap_or_default() {
            found if found == build_id => Ok(FoundFile { file, path }),
            found => Err(format!("{}: {}", path.display(), other_build(&found, build_id))),
        }
    }
}

/// All files that debug information of a module is in, besides the module.
#[derive(Debug, Default)]
pub(crate) struct DebugFiles {
    /// Its own debug file.
    pub(crate) debug: Option<FoundFile>,
    /// The file that it shares with other modules, made by dwz.
    pub(crate) shared: Option<FoundFile>,
    /// The build ID and the name of the shared file, if it needs one and none was found.
    pub(crate) missing_shared: Option<(Vec<u8>, String)>,
    /// The units of split DWARF, all in one file.
    pub(crate) package: Option<FoundFile>,
    /// How files of single units of split DWARF are found.
    pub(crate) split: SplitSearch,
    /// What is there and is not used.
    pub(crate) refused: UnusedFiles,
}
