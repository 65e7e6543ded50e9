//! The files that the command line of a command that reads names: the process that reads has no rights of its own, so the
//! opener opens these for it, and makes those that it writes. It gets no others this way, whatever it reads.

use crate::base::own_file::{self, FileStamp};
use crate::base::privilege;
use rustix::fs::{CWD, FileType, Mode, OFlags, openat};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Most names that are given of files next to one.
const MOST_NAMES: usize = 64;
/// Most names that are given of a folder.
const MOST_IN_FOLDER: usize = 100_000;

/// What a command line names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GivenFiles {
    /// Files that are read.
    pub(crate) read: Vec<PathBuf>,
    /// Files that are written.
    pub(crate) written: Vec<PathBuf>,
    /// Folder and first part of the names of files that are made when the user asks for them, `prof` for `prof-1.svg`.
    pub(crate) made_from: Option<PathBuf>,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeenFile {
    mode: u32,
    /// Which file it is, and its state.
    pub(crate) stamp: FileStamp,
}

impl SeenFile {
    /// Kind of the file.
    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Length, bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.stamp.size_bytes()
    }
}

/// What the process that reads asks for. Paths are those of the command line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum GivenRequest {
    /// What is there: a [`SeenFile`].
    Look { path: Vec<u8>, follows: bool },
    /// A file for reading.
    Open { path: Vec<u8>, how: Opening },
    /// Names of what begins with its name and a dot.
    NamesNextTo { path: Vec<u8> },
    /// Names of what may be recordings in a folder.
    NamesIn { path: Vec<u8> },
    /// The name of a file that may be there, for one that was made.
    Replace { from: Vec<u8>, to: Vec<u8> },
    /// The name of a file that is still as it was, for one that was made.
    ReplaceSame { from: Vec<u8>, to: Vec<u8>, was: FileStamp },
    /// A second name for a file as it was, with the ending `cut`.
    KeepCut { path: Vec<u8>, was: FileStamp },
    /// Removes a file that was made.
    Remove { path: Vec<u8> },
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Opening {
    /// A regular file or a pipe; waits for one who writes into the pipe.
    Any,
    /// A regular file, which is no link.
    Regular,
}

impl GivenFiles {
    /// Whether it may be looked at.
    pub(super) fn may_be_seen(&self, path: &Path) -> bool {
        self.may_be_read(path) || self.may_be_made(path)
    }

    /// Whether it may be read: one that is named, or what a killed recorder put aside for it. Of one that is written is read who
    /// writes it.
    pub(super) fn may_be_read(&self, path: &Path) -> bool {
        let is_aside = |of: &PathBuf| {
            let rest = path.file_name().and_then(|name| {
                name.as_bytes().strip_prefix(of.file_name()?.as_bytes())?.strip_prefix(b".")
            });
            of.parent() == path.parent() && rest.is_some_and(|rest| rest.ends_with(b".old"))
        };
        let contains = |files: &[PathBuf]| files.iter().any(|file| file == path);
        // A folder that is named is read with the recordings in it.
        let is_inside = is_recording_name(path)
            && path.parent().is_some_and(|folder| self.read.iter().any(|of| of == folder));
        contains(&self.read) || contains(&self.written) || is_inside || self.read.iter().any(is_aside)
    }

    /// Whether it may be made: one that is named, or one that will have that name.
    pub(super) fn may_be_made(&self, path: &Path) -> bool {
        self.is_output(path) || finished(path).is_some_and(|path| self.is_output(&path))
    }

    /// Whether it may be replaced.
    pub(super) fn may_be_replaced(&self, path: &Path) -> bool {
        self.written.iter().any(|file| file == path)
    }

    fn is_output(&self, path: &Path) -> bool {
        let is_made = |stem: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str).zip(stem.file_name().and_then(OsStr::to_str));
            let rest = name.and_then(|(name, stem)| name.strip_prefix(stem)?.strip_prefix('-'));
            let parts = rest.and_then(|rest| rest.split_once('.'));
            let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
            stem.parent() == path.parent()
                && parts.is_some_and(|(number, ending)| number.parse::<u32>().is_ok() && is_plain(ending))
        };
        self.may_be_replaced(path) || self.made_from.as_ref().is_some_and(is_made)
    }
}

/// Name of an unfinished file next to `path`.
pub(crate) fn unfinished(path: &Path, attempt: u32) -> Option<PathBuf> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name()?);
    name.push(format!(".{}-{attempt}.tmp", std::process::id()));
    Some(path.with_file_name(name))
}

/// The path that a file called as by [`unfinished`] will have.
fn finished(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.as_bytes().strip_prefix(b".")?.strip_suffix(b".tmp")?;
    let dot = name.iter().rposition(|&byte| byte == b'.')?;
    let is_mark = name[dot + 1..].iter().all(|&byte| byte.is_ascii_digit() || byte == b'-');
    (dot > 0 && is_mark).then(|| path.with_file_name(OsStr::from_bytes(&name[..dot])))
}

/// What is at `path`, with the user's own rights.
pub(super) fn look(path: &Path, follows: bool) -> io::Result<SeenFile> {
    let facts = privilege::as_user(|| match follows {
        true => std::fs::metadata(path),
        false => std::fs::symlink_metadata(path),
    })?;
    Ok(SeenFile { mode: facts.mode(), stamp: FileStamp::from(&facts) })
}

/// Opens what is at `path`, with the user's own rights.
pub(super) fn open(path: &Path, how: Opening) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = match how {
        Opening::Any => {
            let kind = privilege::as_user(|| std::fs::metadata(path))?.file_type();
            // Opening a device may have side effects.
            if !kind.is_file() && !kind.is_fifo() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            flags
        }
        Opening::Regular => flags | OFlags::NOFOLLOW | OFlags::NONBLOCK,
    };
    let file = File::from(privilege::as_user(|| openat(CWD, path, flags, Mode::empty()))?);
    if how == Opening::Regular && !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(file)
}

/// Names of what begins with the name of `path` and a dot, in its folder.
pub(super) fn names_next_to(path: &Path) -> Vec<Vec<u8>> {
    let Some(own) = path.file_name().map(OsStr::as_bytes) else { return Vec::new() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = privilege::as_user(|| std::fs::read_dir(folder)).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().as_bytes().to_vec());
    let is_next = |name: &Vec<u8>| name.strip_prefix(own).is_some_and(|rest| rest.starts_with(b"."));
    names.filter(is_next).take(MOST_NAMES).collect()
}

/// Names in a folder of what may be recordings.
pub(super) fn names_in(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let entries = privilege::as_user(|| std::fs::read_dir(folder))?.flatten();
    let names = entries.map(|entry| entry.file_name()).filter(|name| is_recording_name(Path::new(name)));
    Ok(names.map(|name| name.as_bytes().to_vec()).take(MOST_IN_FOLDER).collect())
}

/// Whether a file may be a recording, by its name.
fn is_recording_name(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "data")
}

/// Gives the file `from` the name `to`, whatever has it.
pub(super) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    privilege::as_user(|| std::fs::rename(from, to))
}

/// Gives the file `from` the name, the owner and the mode of the file `to`, if that still is as it was.
pub(super) fn replace_same(from: &Path, to: &Path, was: FileStamp) -> io::Result<()> {
    privilege::as_user(|| own_file::be_like(from, to).and_then(|()| own_file::replace_same(from, to, was)))
}

/// Gives a file, if it still is as it was, a second name, which nothing must have.
pub(super) fn keep_cut(path: &Path, was: FileStamp) -> io::Result<()> {
    let kept = cut_name(path);
    privilege::as_user(|| {
        std::fs::hard_link(path, &kept)?;
        if FileStamp::at(&kept).ok() == Some(was) {
            return Ok(());
        }
        // Another file's second name.
        let _ = std::fs::remove_file(&kept);
        Err(own_file::is_other())
    })
}

/// The second name of a file that is cut.
pub(crate) fn cut_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".cut");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> GivenFiles {
        GivenFiles {
            read: vec!["a/x.data".into(), "y.data".into()],
            written: vec!["/out/x.svg".into()],
            made_from: Some("prof".into()),
        }
    }

    #[test]
    fn only_what_is_named_is_read() {
        for path in ["a/x.data", "y.data", "/out/x.svg", "y.data.12.old", "a/x.data.12-1.old"] {
            assert!(given().may_be_read(Path::new(path)), "{path}");
        }
        for path in ["x.data", "a/y.data", "a/x.data.12", "b/y.data.1.old", "/etc/shadow", "y.dataold", "a"] {
            assert!(!given().may_be_read(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn only_what_is_named_is_made_and_replaced() {
        let unfinished = unfinished(Path::new("/out/x.svg"), 3).unwrap();
        assert_eq!(finished(&unfinished).as_deref(), Some(Path::new("/out/x.svg")));
        for path in [&*unfinished, "/out/x.svg".as_ref(), "prof-1.svg".as_ref(), "prof-12.pb.gz".as_ref()] {
            assert!(given().may_be_made(path), "{}", path.display());
        }
        for path in [
            "/out/y.svg",
            "/out/.y.svg.1-0.tmp",
            "/out/.bashrc",
            "prof-x.svg",
            "prof-1",
            "tmp/prof-1.svg",
            "prof-1.svg/../x",
            "y.data",
            ".tmp",
            "..tmp",
        ] {
            assert!(!given().may_be_made(Path::new(path)), "{path}");
        }
        assert!(given().may_be_replaced(Path::new("/out/x.svg")));
        assert!(!given().may_be_replaced(Path::new("prof-1.svg")));
    }
}
