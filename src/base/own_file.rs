//! Files that are made for the user: new ones that only their owner may read, and that belong to the user who called sudo.

use super::file_state::FileState;
use rustix::fs::{CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// The process whose files this process makes, if that is another one. A process makes those of one.
static MADE_FOR: AtomicU32 = AtomicU32::new(0);

/// This process makes files for the process with that number.
pub(crate) fn make_for(process: u32) {
    MADE_FOR.store(process, Ordering::Relaxed);
}

/// Number of the process whose files this process makes: it is in the names of unfinished files, and of those that are put aside.
pub(crate) fn recorder_number() -> u32 {
    match MADE_FOR.load(Ordering::Relaxed) {
        0 => std::process::id(),
        process => process,
    }
}

/// Creates the file, which must not be there yet; links are not followed.
///
/// # Errors
///
/// When something is there, or the folder cannot be written.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?);
    give_to_user(&file);
    Ok(file)
}

/// Under sudo the file belongs to the user who called it.
pub(crate) fn give_to_user(file: &File) {
    if let Some((uid, gid)) = invoking_user() {
        // Without the right to do so it stays root's: no reason to lose what it will hold.
        let _ = fchown(file, Some(uid), Some(gid));
    }
}

/// User and group id of the user who called sudo; `None` where this does not run as root through sudo.
pub(crate) fn invoking_user() -> Option<(u32, u32)> {
    user_in(|name| std::env::var(name).ok()).filter(|_| rustix::process::getuid().is_root())
}

/// The ids that sudo leaves in the environment.
fn user_in(variable: impl Fn(&str) -> Option<String>) -> Option<(u32, u32)> {
    // The kernel takes the largest number for "no change".
    let id = |name| variable(name)?.parse::<u32>().ok().filter(|id| *id != u32::MAX);
    Some((id("SUDO_UID")?, id("SUDO_GID")?))
}

/// Whether files of this user id are of the user's own making: through sudo, or before.
pub(crate) fn is_owner(uid: u32) -> bool {
    let own = rustix::process::geteuid();
    own.as_raw() == uid || invoking_user().is_some_and(|(invoking, _)| invoking == uid)
}

/// Gives the file `from` the name `to`, which nothing must have, at no moment.
///
/// # Errors
///
/// [`io::ErrorKind::AlreadyExists`] when something has it.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that cannot rename without replacing; a link never replaces either.
        Err(Errno::INVAL | Errno::NOSYS) => link_new(from, to),
        result => Ok(result?),
    }
}

/// Which file has a name, and its state at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    state: FileState,
}

impl FileStamp {
    /// Returns the stamp of what is at `path`; links are not followed.
    ///
    /// # Errors
    ///
    /// When nothing is there, or one may not look.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Ok(FileStamp::from(&std::fs::symlink_metadata(path)?))
    }

    /// Returns the stamp of an open file.
    ///
    /// # Errors
    ///
    /// As of fstat(2).
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(FileStamp::from(&file.metadata()?))
    }

    /// Whether both are of one file, whatever was written to it meanwhile.
    pub(crate) fn is_of_same_file(&self, other: &FileStamp) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Length of the file, bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.state.size_bytes
    }
}

impl From<&Metadata> for FileStamp {
    fn from(facts: &Metadata) -> Self {
        FileStamp { device: facts.dev(), inode: facts.ino(), state: FileState::from(facts) }
    }
}

/// Gives the new file at `new` the mode and the owner of the one at `path`.
///
/// # Errors
///
/// When the mode cannot be set, or root cannot give the file away. Anyone else who may write there owns the new one.
pub(crate) fn be_like(new: &Path, path: &Path) -> io::Result<()> {
    let facts = std::fs::symlink_metadata(path)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(CWD, new, flags, Mode::empty())?);
    rustix::fs::fchmod(&file, Mode::from_raw_mode(facts.mode() & 0o777))?;
    match fchown(&file, Some(facts.uid()), Some(facts.gid())) {
        Err(error) if rustix::process::geteuid().is_root() => Err(error),
        _ => Ok(()),
    }
}

/// The error of a file that is not the one that it was.
pub(crate) fn is_other() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "it was replaced or written meanwhile")
}

/// Gives the file `new` the name `path`, if the file there still is as it was; that is removed then. Otherwise `new` is removed.
///
/// # Errors
///
/// [`io::ErrorKind::AlreadyExists`] when another file is there, or it was written meanwhile: it stays.
pub(crate) fn replace_same(new: &Path, path: &Path, was: FileStamp) -> io::Result<()> {
    let own = FileStamp::at(new)?;
    let placed = exchange_same(new, path, was);
    if placed.is_err() && FileStamp::at(new).is_ok_and(|left| left == own) {
        // Already failing for a better reason.
        let _ = std::fs::remove_file(new);
    }
    placed
}

fn exchange_same(new: &Path, path: &Path, was: FileStamp) -> io::Result<()> {
    if FileStamp::at(path)? != was {
        return Err(is_other());
    }
    match rustix::fs::renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        // A file system that cannot exchange: what is replaced in this moment is lost.
        Err(Errno::INVAL | Errno::NOSYS) => return std::fs::rename(new, path),
        Err(error) => return Err(error.into()),
    }
    if FileStamp::at(new)? == was {
        return std::fs::remove_file(new);
    }
    rustix::fs::renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE)?;
    Err(is_other())
}

/// [`rename_new`] by a second name.
fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)?;
    // With two names it is where it should be, too.
    let _ = std::fs::remove_file(from);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_only_replaced_while_it_is_the_same() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = |name: &str| folder.path().join(name);
        let read = |name: &str| fs::read_to_string(path(name)).expect("reads");
        fs::write(path("old"), "old").expect("writes");
        fs::write(path("new"), "new").expect("writes");
        let was = FileStamp::at(&path("old")).expect("it is there");
        replace_same(&path("new"), &path("old"), was).expect("it is the same");
        assert_eq!((read("old"), path("new").exists()), ("new".to_owned(), false));

        // Another file has its name, or it was written.
        fs::write(path("newer"), "newer").expect("writes");
        for is_replaced in [true, false] {
            let was = FileStamp::at(&path("old")).expect("it is there");
            if is_replaced {
                fs::rename(path("newer"), path("old")).expect("renames");
            } else {
                fs::write(path("old"), "longer than before").expect("writes");
            }
            let there = read("old");
            fs::write(path("new"), "new").expect("writes");
            let error = replace_same(&path("new"), &path("old"), was).expect_err("it is another");
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!((read("old"), path("new").exists()), (there, false));
        }
    }

    #[test]
    fn a_new_file_is_private_and_replaces_nothing() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = |name: &str| folder.path().join(name);
        create(&path("new")).expect("creates");
        assert_eq!(path("new").metadata().expect("exists").mode() & 0o777, 0o600);
        fs::write(path("old"), "precious").expect("writes");
        std::os::unix::fs::symlink("nothing", path("link")).expect("links");
        for name in ["old", "link", "new"] {
            let error = create(&path(name)).expect_err("it is there");
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{name}");
        }
        assert!(!path("nothing").exists());
    }

    #[test]
    fn the_user_who_called_sudo_is_in_two_variables() {
        let user = |uid: &str, gid: &str| {
            user_in(|name| match name {
                "SUDO_UID" if !uid.is_empty() => Some(uid.to_owned()),
                "SUDO_GID" if !gid.is_empty() => Some(gid.to_owned()),
                _ => None,
            })
        };
        assert_eq!(user("1000", "100"), Some((1000, 100)));
        assert_eq!(user("0", "0"), Some((0, 0)), "root may call sudo, too");
        for (uid, gid) in [("1000", ""), ("", "100"), ("x", "100"), ("-1", "100"), ("4294967295", "100")] {
            assert_eq!(user(uid, gid), None, "{uid} {gid}");
        }
    }

    #[test]
    fn a_name_that_is_taken_stays_taken() {
        type Rename = fn(&Path, &Path) -> io::Result<()>;
        for rename in [rename_new as Rename, link_new] {
            let folder = tempfile::tempdir().expect("temporary folder");
            let path = |name: &str| folder.path().join(name);
            fs::write(path("new"), "new").expect("writes");
            fs::write(path("old"), "old").expect("writes");
            let error = rename(&path("new"), &path("old")).expect_err("it is taken");
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read_to_string(path("old")).expect("reads"), "old");
            rename(&path("new"), &path("free")).expect("renames");
            assert_eq!(fs::read_to_string(path("free")).expect("reads"), "new");
            assert!(!path("new").exists());
        }
    }
}
