//! The folders where debug files are looked for, and opening a file in them: never outside the root of a process, and
//! never anything but a regular file.

use crate::base::{failure, privilege};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
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
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = rustix::fs::open(root, flags, Mode::empty()) else { return OpenedPath::Nothing };
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    regular(openat2(root, path, PLACE, Mode::empty(), resolve))
}

/// Opens a file in a folder named by the user, with the user's own rights. Links may lead anywhere: their target is
/// used only if it is the debug file looked for.
pub(super) fn open_named(path: &Path) -> OpenedPath {
    privilege::as_user(|| regular(openat2(CWD, path, PLACE, Mode::empty(), ResolveFlags::NO_MAGICLINKS)))
}

/// Finds a file without opening it: opening a device may have side effects, and the path comes from an untrusted file.
const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens what was found if it is a regular file.
fn regular(found: Result<OwnedFd, Errno>) -> OpenedPath {
    let opened = found.and_then(|place| {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
        if kind != FileType::RegularFile {
            return Ok(Err(kind));
        }
        let path = format!("/proc/self/fd/{}", place.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        rustix::fs::open(path, flags, Mode::empty()).map(Ok)
    });
    match opened {
        Ok(Ok(fd)) => OpenedPath::File(Arc::new(File::from(fd))),
        Ok(Err(FileType::Directory)) => OpenedPath::Nothing,
        Ok(Err(_)) => OpenedPath::Unusable("it is no regular file".to_owned()),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL) => OpenedPath::Nothing,
        Err(Errno::LOOP) => OpenedPath::Unusable("its links lead in a circle".to_owned()),
        Err(error) => OpenedPath::Unusable(failure::io_words(&std::io::Error::from(error))),
    }
}
