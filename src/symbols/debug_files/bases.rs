//! The folders where debug files are looked for, and opening a file in them: never outside the root of a process, and
//! never anything but a regular file.

use crate::base::failure;
use crate::base::opener::{self, FileContent, Links};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Roots of file systems, and folders named by the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bases {
    /// Root directory of the module's process, then our own.
    pub(super) roots: Vec<PathBuf>,
    /// Folders named by the user.
    pub(super) folders: Vec<PathBuf>,
}

/// Result of opening a file.
#[derive(Debug)]
pub(super) enum OpenedPath {
    /// A regular file.
    File(Arc<File>),
    /// There is no such file.
    Nothing,
    /// There is something at the path that cannot be used.
    Unusable(String),
}

impl Bases {
    /// Makes the list of folders for a process whose root directory is `root`.
    pub(crate) fn new(root: &Path, folders: &[PathBuf]) -> Self {
        let mut roots = vec![root.to_owned()];
        if root != Path::new("/") {
            roots.push(PathBuf::from("/"));
        }
        Bases { roots, folders: folders.to_vec() }
    }
}

/// Opens `path` below `root`; links are followed, but never out of `root`.
pub(super) fn open_inside(root: &Path, path: &Path) -> OpenedPath {
    let Ok(root) = opener::folder(root) else { return OpenedPath::Nothing };
    opened(opener::inside(root.as_fd(), path, Links::Followed, FileContent::Elf))
}

/// Opens a file in a folder named by the user, with the user's own rights. Links may lead anywhere: their target is
/// used only if it is the debug file looked for.
pub(super) fn open_named(path: &Path) -> OpenedPath {
    opened(opener::named(path, FileContent::Elf))
}

fn opened(file: io::Result<File>) -> OpenedPath {
    let error = match file {
        Ok(file) => return OpenedPath::File(Arc::new(file)),
        Err(error) => error,
    };
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::IsADirectory, _) => OpenedPath::Nothing,
        (ErrorKind::InvalidInput, None) => OpenedPath::Unusable("it is no regular file".to_owned()),
        (_, Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::EINVAL)) => OpenedPath::Nothing,
        (_, Some(libc::ELOOP)) => OpenedPath::Unusable("its links lead in a circle".to_owned()),
        (_, Some(_)) => OpenedPath::Unusable(failure::io_words(&error)),
        // Words of the opener, which knows why.
        (_, None) => OpenedPath::Unusable(error.to_string()),
    }
}
