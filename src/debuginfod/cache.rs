//! The folder of what was had from servers: `BUILDID/debuginfo`, shared with all other clients. An empty file says that no
//! server has it, for a while.

use crate::base::own_file;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Longest time for which it is believed that no server has a build: the default of elfutils (`cache_miss_s`).
const LONGEST_MISS: Duration = Duration::from_secs(600);

/// State of a build in the cache.
#[derive(Debug)]
pub(crate) enum Cached {
    /// The file of the build, and where it is.
    File(File, PathBuf),
    /// No server had it a moment ago.
    Miss,
    /// The cache has no answer: the servers have to be asked.
    Unknown,
}

pub(super) fn place(folder: &Path, build_id: &str) -> PathBuf {
    folder.join(build_id).join("debuginfo")
}

/// Looks a build up in the cache in `folder`.
pub(crate) fn look(folder: &Path, build_id: &str) -> Cached {
    let path = place(folder, build_id);
    let is_fresh = |time: io::Result<SystemTime>| {
        time.is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|age| age < LONGEST_MISS))
    };
    match std::fs::symlink_metadata(&path) {
        Ok(facts) if facts.is_file() && facts.len() == 0 => match is_fresh(facts.modified()) {
            true => Cached::Miss,
            false => Cached::Unknown,
        },
        Ok(facts) if facts.is_file() => match open(&path) {
            Ok(file) => Cached::File(file, path),
            Err(_) => Cached::Unknown,
        },
        _ => Cached::Unknown,
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// A file that has no name yet: it is gone if this process ends before it is whole.
#[derive(Debug)]
pub(crate) struct Unnamed {
    pub(crate) file: File,
    /// Path of the file once it is whole; `None`: it is not kept.
    pub(super) place: Option<PathBuf>,
}

impl Unnamed {
    /// A file for a build in the cache in `folder`, or one that is not kept.
    ///
    /// # Errors
    ///
    /// When no file can be made.
    pub(crate) fn new(folder: Option<&Path>, build_id: &str) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        if let Some(folder) = folder {
            let path = place(folder, build_id);
            let made =
                path.parent().map(|folder| DirBuilder::new().recursive(true).mode(0o700).create(folder));
            if let (Some(Ok(())), Some(parent)) = (made, path.parent())
                && let Ok(file) = rustix::fs::open(parent, flags, mode)
            {
                return Ok(Unnamed { file: File::from(file), place: Some(path) });
            }
        }
        // A cache that cannot be written, or a file system without such files.
        let file = rustix::fs::open(std::env::temp_dir(), flags, mode)?;
        Ok(Unnamed { file: File::from(file), place: None })
    }

    /// Gives it its name, now that it is whole and of the right build. Returns where it is, if it is kept.
    pub(crate) fn keep(&self) -> Option<PathBuf> {
        use std::os::fd::AsRawFd;
        let path = self.place.as_ref()?;
        // What has the name now is empty, which said that there is none, or of another build: else it would be used.
        let _ = std::fs::remove_file(path);
        own_file::give_to_user(&self.file);
        let link = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        match rustix::fs::linkat(CWD, link, CWD, path, AtFlags::SYMLINK_FOLLOW) {
            // Another client was faster.
            Ok(()) | Err(rustix::io::Errno::EXIST) => Some(path.clone()),
            Err(_) => None,
        }
    }
}

/// Notes that no server has a build. That it cannot be noted costs another question.
pub(crate) fn note_miss(folder: &Path, build_id: &str) {
    let path = place(folder, build_id);
    if let Some(parent) = path.parent()
        && DirBuilder::new().recursive(true).mode(0o700).create(parent).is_ok()
    {
        let old = std::fs::symlink_metadata(&path).is_ok_and(|facts| facts.is_file() && facts.len() == 0);
        if old {
            let _ = std::fs::remove_file(&path);
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let _ = rustix::fs::open(&path, flags, Mode::empty());
    }
}
