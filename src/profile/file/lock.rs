//! The lock on a profile that is being written, and the files that a killed recorder leaves next to it.
//!
//! A recorder holds a lock (flock) on its file while it writes, wherever the file is renamed to; the kernel releases it when the
//! recorder ends, however it ends. Process ids in names decide nothing, since they are reused.
//!
//! | next to `x` | what it is |
//! |---|---|
//! | `x.PID.tmp` | a recording that has not begun, or is being saved |
//! | `x.PID.old` | the previous `x`, until the new one holds samples |

use super::glance::{Glance, recorder_words};
use crate::base::opener::{self, Opening};
use crate::base::own_file;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of attempts, and the time between them, to take a lock that another process is testing.
const ATTEMPTS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(5);

/// Locks a file that is going to be written, until it is closed. Retries, because others test for the lock by taking it for a
/// moment. Returns whether it is locked: some file systems have no locks.
pub(crate) fn lock(file: &File) -> bool {
    for _ in 0..ATTEMPTS {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return true,
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(BETWEEN),
            Err(_) => return false,
        }
    }
    false
}

/// Whether a living recorder writes the file, or has put it aside.
pub(crate) fn is_written(file: &File) -> bool {
    look(file) == Look::Locked
}

/// Whether the recorder that wrote the file, or put it aside, has certainly ended.
pub(crate) fn is_left(file: &File) -> bool {
    look(file) == Look::Free
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Locked,
    Free,
    /// The file system has no locks.
    Unknown,
}

fn look(file: &File) -> Look {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = flock(file, FlockOperation::Unlock);
            Look::Free
        }
        Err(Errno::WOULDBLOCK) => Look::Locked,
        Err(_) => Look::Unknown,
    }
}

/// Opens a regular file for reading, without following links or blocking.
pub(crate) fn open_regular(path: &Path) -> Option<File> {
    opener::given_file(path, Opening::Regular).ok()
}

/// The recorder that is writing the file at `path`, in words; `None` if there is none or it cannot be determined.
pub(crate) fn writer_of(path: &Path) -> Option<String> {
    let file = open_regular(path)?;
    is_written(&file).then(|| match Glance::at(&file) {
        Some(glance) => recorder_words(glance.recorder_pid),
        None => "another program".to_owned(),
    })
}

/// A file that a recorder keeps next to a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sibling {
    /// A recording that does not have its name yet.
    Unfinished,
    /// The previous holder of the name.
    Aside,
}

impl Sibling {
    fn ending(self) -> &'static str {
        match self {
            Sibling::Unfinished => "tmp",
            Sibling::Aside => "old",
        }
    }

    /// Name of this process's file of that kind next to `path`. The first `attempt` is 0.
    pub(crate) fn name(self, path: &Path, attempt: u32) -> PathBuf {
        with_ending(path, &format!("{}.{}", own_mark(attempt), self.ending()))
    }
}

/// Name next to `path` for a recording of this process that cannot have `path` itself.
pub(crate) fn another_name(path: &Path, attempt: u32) -> PathBuf {
    with_ending(path, &own_mark(attempt))
}

/// Mark of this process, as a part of file names.
fn own_mark(attempt: u32) -> String {
    let pid = own_file::recorder_number();
    if attempt == 0 { pid.to_string() } else { format!("{pid}-{attempt}") }
}

/// `path.ending`.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

/// Files next to `path` with such names, sorted, whether their recorders still run or not.
pub(crate) fn siblings(path: &Path) -> Vec<(PathBuf, Sibling)> {
    let Some(own_name) = path.file_name() else { return Vec::new() };
    let names = opener::names_next_to(path).into_iter();
    let mut found: Vec<(PathBuf, Sibling)> =
        names.filter_map(|name| Some((path.with_file_name(&name), kind_of(own_name, &name)?))).collect();
    found.sort();
    found
}

/// The newest recording that was put aside for another one at `path` whose recorder was then killed.
pub(crate) fn put_aside(path: &Path) -> Option<PathBuf> {
    let asides = siblings(path).into_iter().filter(|(_, kind)| *kind == Sibling::Aside);
    let left = asides.filter_map(|(path, _)| {
        let file = open_regular(&path)?;
        let changed = file.metadata().and_then(|facts| facts.modified()).ok()?;
        let is_recording = is_left(&file) && Glance::at(&file).is_some_and(|glance| glance.has_samples);
        is_recording.then_some((changed, path))
    });
    left.max().map(|(_, path)| path)
}

/// Kind of the file called `name` as a sibling of `own_name`.
fn kind_of(own_name: &OsStr, name: &OsStr) -> Option<Sibling> {
    let rest = name.as_bytes().strip_prefix(own_name.as_bytes())?.strip_prefix(b".")?;
    let (mark, kind) = [Sibling::Unfinished, Sibling::Aside].into_iter().find_map(|kind| {
        let mark = rest.strip_suffix(kind.ending().as_bytes())?.strip_suffix(b".")?;
        Some((mark, kind))
    })?;
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let mut parts = mark.splitn(2, |&byte| byte == b'-');
    parts.all(is_number).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_siblings_are_recognized() {
        let kind = |name: &str| kind_of(OsStr::new("x.data"), OsStr::new(name));
        assert_eq!(kind("x.data.17.tmp"), Some(Sibling::Unfinished));
        assert_eq!(kind("x.data.17-2.old"), Some(Sibling::Aside));
        for other in [
            "x.data",
            "x.data.old",
            "x.data.17",
            "x.data..old",
            "x.data.1a.tmp",
            "y.data.17.tmp",
            "x.data.1-.tmp",
        ] {
            assert_eq!(kind(other), None, "{other}");
        }
        for sibling in [Sibling::Unfinished, Sibling::Aside] {
            for attempt in [0, 3] {
                let name = sibling.name(Path::new("a/x.data"), attempt);
                assert_eq!(kind_of(OsStr::new("x.data"), name.file_name().expect("has one")), Some(sibling));
            }
        }
    }

    #[test]
    fn a_lock_lasts_as_long_as_the_file_is_open_and_is_seen_by_others() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("x");
        let file = File::create(&path).expect("creates");
        assert!(is_left(&open_regular(&path).expect("is there")));
        assert!(lock(&file));
        let moved = folder.path().join("y");
        std::fs::rename(&path, &moved).expect("renames");
        let other = open_regular(&moved).expect("is there");
        assert!(is_written(&other) && !is_left(&other));
        assert_eq!(writer_of(&moved).as_deref(), Some("another program"), "it is no profile");
        drop(file);
        assert!(is_left(&other));
        assert_eq!(writer_of(&moved), None);
    }
}
