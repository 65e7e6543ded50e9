//! Finding the `.dwo` file of a unit: where the compiler put it, next to the module, or in a folder named by the user.

use super::bases::{Bases, OpenedPath, open_inside, open_named};
use super::refusal::UnusedFiles;
use crate::symbols::error::SymbolError;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Search for the `.dwo` files of one module.
#[derive(Debug, Clone, Default)]
pub(crate) struct SplitSearch {
    bases: Bases,
    /// The folder of the module, as the module's process sees it.
    folder: PathBuf,
}

impl SplitSearch {
    /// Prepares the search for the module at `module_path`.
    pub(super) fn new(bases: &Bases, module_path: &Path) -> Self {
        let folder = module_path.parent().unwrap_or(Path::new("/"));
        SplitSearch { bases: bases.clone(), folder: folder.to_owned() }
    }

    /// Opens the first candidate that `check` accepts for the file that the compiler, run in `comp_dir`, wrote as
    /// `name`.
    pub(crate) fn open<T>(
        &self,
        comp_dir: &[u8],
        name: &[u8],
        refused: &mut UnusedFiles,
        check: impl Fn(&Arc<File>) -> Result<T, SymbolError>,
    ) -> Option<T> {
        let (comp_dir, name) = (Path::new(OsStr::from_bytes(comp_dir)), Path::new(OsStr::from_bytes(name)));
        let base_name = Path::new(name.file_name()?);
        // Joining an absolute path replaces the base.
        let mut paths = vec![comp_dir.join(name), self.folder.join(base_name)];
        if name.is_relative() {
            paths.push(self.folder.join(name));
        }
        paths.retain(|path| path.is_absolute());
        let inside = paths.iter().flat_map(|path| {
            self.bases.roots.iter().map(move |root| (path.clone(), open_inside(root, path)))
        });
        let named = self.bases.folders.iter().flat_map(|folder| {
            let below = name.strip_prefix("/").unwrap_or(name);
            [folder.join(below), folder.join(base_name)].map(|path| (path.clone(), open_named(&path)))
        });
        for (path, opened) in inside.chain(named) {
            match opened {
                OpenedPath::Nothing => {}
                OpenedPath::Unusable(why) => refused.add(&path, &why),
                OpenedPath::File(file) => match check(&file) {
                    Ok(found) => return Some(found),
                    Err(error) => refused.add(&path, &error.to_string()),
                },
            }
        }
        None
    }
}
