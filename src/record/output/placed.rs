//! How a new profile gets its name and keeps one.
//!
//! Nothing is lost on the way. A file that has the name already is put aside until the new one holds samples. A name that another
//! recorder writes to, or that was taken in the meantime, is left alone, and the recording gets one next to it. At the end the
//! file is checked: if it was removed while it was recorded, it is saved again.

use super::failure::write_failure;
use super::steps::{self, FilePlace, OutputStep};
use super::window_folder::{Pruned, another_window_name};
use crate::base::failure::{Failure, status};
use crate::base::{opener, own_file, privilege};
use crate::profile::begins_as_profile;
use crate::profile::lock::{self, Sibling, another_name, with_ending};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names that are tried.
const MOST_NAMES: u32 = 100;
/// Longest wait for other recorders that rename files in the same folder.
const TURN_PATIENCE: Duration = Duration::from_millis(500);

/// A created file that does not have its name yet. Dropping it removes it.
#[derive(Debug, Default)]
pub(in crate::record) struct Unplaced {
    /// `None` for standard output, and once the file has its name.
    pub(super) new: Option<New>,
    /// The opener has it.
    pub(super) is_remote: bool,
}

/// The file and the name it is meant to have.
#[derive(Debug)]
pub(super) struct New {
    pub(super) file: File,
    pub(super) temporary: PathBuf,
    pub(super) path: PathBuf,
    pub(super) may_replace: bool,
    pub(super) keeps_old: bool,
    /// One of many in its folder: another name does as well.
    pub(super) is_window: bool,
}

/// Place of a profile on disk, and the file that had the place before.
#[derive(Debug, Default)]
pub(in crate::record) struct Placed {
    /// The file; `None` for standard output.
    pub(in crate::record) path: Option<PathBuf>,
    /// Why it is not where it was meant to be.
    pub(in crate::record) misplaced: Option<String>,
    /// The name under which the file before it was kept.
    pub(in crate::record) kept_old: Option<PathBuf>,
    file: Option<File>,
    /// The opener has it: what is to be done is done there.
    pub(super) is_remote: bool,
    /// The opener knows that the file before it is needed no more.
    is_settled: bool,
    /// The file that had this name, until it is known what becomes of it.
    before: Option<Before>,
}

/// A file that was put aside.
#[derive(Debug)]
struct Before {
    /// Path of the file that was set aside.
    aside: PathBuf,
    /// The name that it gets; without one it is removed.
    kept_as: Option<PathBuf>,
    /// Locked, so that others see that it is not left over.
    _file: Option<File>,
}

/// Takes turns with other recorders that rename files in the folder of `path`. The turn lasts as long as the result is kept;
/// `None` if the folder cannot be locked in time.
pub(super) fn take_turn(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).ok()?;
    let begun = Instant::now();
    while flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
        if begun.elapsed() >= TURN_PATIENCE {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Some(folder)
}

/// Whether `file` is what `path` names.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

impl Unplaced {
    /// Gives the file its name, now that the recording has begun. A file that has this name already is put aside
    /// until [`Placed::settle`] or [`Placed::undo`].
    pub(in crate::record) fn place(mut self) -> Result<Placed, Failure> {
        if self.is_remote {
            let (place, _) = steps::take(&OutputStep::Place)?;
            let mut placed = Placed { is_remote: true, ..Placed::default() };
            placed.set(place);
            return Ok(placed);
        }
        let Some(new) = &self.new else { return Ok(Placed::default()) };
        let placed = privilege::as_user(|| {
            let _turn = take_turn(&new.path);
            new.take_name()
        })?;
        let file = self.new.take().map(|new| new.file);
        Ok(Placed { file, ..placed })
    }
}

impl Drop for Unplaced {
    fn drop(&mut self) {
        if let Some(new) = &self.new {
            let _ = privilege::as_user(|| fs::remove_file(&new.temporary));
        }
    }
}

impl New {
    fn take_name(&self) -> Result<Placed, Failure> {
        let path = &self.path;
        let mut before = None;
        if let Ok(there) = fs::symlink_metadata(path)
            && self.may_replace
        {
            if !there.is_file() {
                return self.take_another_name("is not a regular file any more".to_owned());
            }
            if let Some(writer) = lock::writer_of(path) {
                return self.take_another_name(format!("is being written by {writer}"));
            }
            before = Some(Before::put_aside(path, self.keeps_old)?);
        }
        let named = match &before {
            Some(_) => fs::rename(&self.temporary, path),
            None => own_file::rename_new(&self.temporary, path),
        };
        let placed = Placed { path: Some(path.clone()), before, ..Placed::default() };
        match named {
            Ok(()) => Ok(placed),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && placed.before.is_none() => {
                let by = lock::writer_of(path).map(|writer| format!(" by {writer}")).unwrap_or_default();
                self.take_another_name(format!("was created in the meantime{by}"))
            }
            Err(error) => {
                placed.put_back();
                Err(write_failure(path, &error))
            }
        }
    }

    /// Takes a name next to the one it was meant to have; `why` says what is wrong with that one.
    fn take_another_name(&self, why: String) -> Result<Placed, Failure> {
        for attempt in 0..MOST_NAMES {
            let path = match self.is_window {
                true => another_window_name(&self.path, attempt),
                false => another_name(&self.path, attempt),
            };
            match own_file::rename_new(&self.temporary, &path) {
                Ok(()) => {
                    let why = format!("`{}` {why}", self.path.display());
                    let misplaced = (!self.is_window).then_some(why);
                    return Ok(Placed { path: Some(path), misplaced, ..Placed::default() });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(write_failure(&path, &error)),
            }
        }
        Err(write_failure(&self.path, &io::Error::from(ErrorKind::AlreadyExists)))
    }
}

impl Before {
    /// Puts the file at `path` aside: with a hard link, so that `path` exists at every moment, or by renaming where the file
    /// system has no links.
    fn put_aside(path: &Path, keeps_old: bool) -> Result<Before, Failure> {
        let file = lock::open_regular(path).filter(lock::lock);
        for attempt in 0..MOST_NAMES {
            let aside = Sibling::Aside.name(path, attempt);
            let put = match fs::hard_link(path, &aside) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => own_file::rename_new(path, &aside),
                linked => linked,
            };
            match put {
                Ok(()) => {
                    let kept_as = keeps_old.then(|| with_ending(path, "old"));
                    return Ok(Before { aside, kept_as, _file: file });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(write_failure(&aside, &error)),
            }
        }
        Err(write_failure(path, &io::Error::from(ErrorKind::AlreadyExists)))
    }
}

impl Placed {
    fn set(&mut self, place: FilePlace) {
        self.path = place.path.map(steps::path);
        self.misplaced = place.misplaced;
        self.kept_old = place.kept_old.map(steps::path);
    }

    /// Where the file is, for the recorder that has it by the opener.
    pub(super) fn place(&self) -> FilePlace {
        FilePlace {
            path: self.path.as_deref().map(steps::bytes),
            misplaced: self.misplaced.clone(),
            kept_old: self.kept_old.as_deref().map(steps::bytes),
            notices: Vec::new(),
            pruned: Pruned::default(),
        }
    }

    /// Has the opener take a step that cannot fail, or whose failure changes nothing.
    /// Returns whether it was taken.
    fn take_remotely(&mut self, step: &OutputStep) -> bool {
        let taken = steps::take(step).map(|(place, _)| self.set(place));
        taken.is_ok()
    }

    /// The new file holds samples: the previous one is removed, or kept under its other name. Later calls do nothing.
    pub(in crate::record) fn settle(&mut self) {
        if self.is_remote {
            // Until then the file before would get its name back.
            self.is_settled = self.is_settled || self.take_remotely(&OutputStep::Settle);
            return;
        }
        let Some(Before { aside, kept_as, .. }) = self.before.take() else { return };
        privilege::as_user(|| match kept_as {
            // If it cannot be removed, nothing is lost.
            None => drop(fs::remove_file(aside)),
            Some(kept) => {
                let is_kept = fs::rename(&aside, &kept).is_ok();
                self.kept_old = Some(if is_kept { kept } else { aside });
            }
        });
    }

    /// Whether the file that had the name before is still set aside: the new one has no samples so far.
    pub(super) fn has_before(&self) -> bool {
        self.before.is_some()
    }

    /// Closes the file, which is complete and in its place: from here on others may change it.
    pub(in crate::record) fn close(&mut self) {
        self.file = None;
        if self.is_remote {
            self.take_remotely(&OutputStep::Close);
        }
    }

    /// Removes the file and puts the previous one back.
    pub(in crate::record) fn undo(&self) {
        if self.is_remote {
            let _ = steps::take(&OutputStep::Undo);
            return;
        }
        privilege::as_user(|| {
            if let (Some(path), false) = (&self.path, self.put_back())
                && self.is_ours(path)
            {
                // What cannot be removed is gone already.
                let _ = fs::remove_file(path);
            }
        });
    }

    /// Gives the previous file its name back, in place of the new one. Returns whether there is one.
    fn put_back(&self) -> bool {
        let (Some(path), Some(before)) = (&self.path, &self.before) else { return false };
        if self.file.is_some() && !self.is_ours(path) {
            // Another file is there now: the previous one stays aside, where the next recording finds it.
            let _ = own_file::rename_new(&before.aside, path);
            return true;
        }
        let is_back = fs::rename(&before.aside, path).is_ok();
        // Renaming does nothing if both names are links to one file.
        let _ = is_back.then(|| fs::remove_file(&before.aside));
        is_back
    }

    fn is_ours(&self, path: &Path) -> bool {
        self.file.as_ref().is_some_and(|file| is_at(file, path))
    }

    /// Makes sure that the finished file can be found. If it was moved, [`Placed::path`] becomes its new place; if it was removed
    /// or replaced, it is saved again next to its name, or in the folder for temporary files if its own folder is gone.
    ///
    /// # Errors
    ///
    /// When it was removed and cannot be saved again, or overwritten: it is lost.
    pub(in crate::record) fn confirm(&mut self) -> Result<(), Failure> {
        if self.is_remote {
            match steps::take(&OutputStep::Confirm) {
                Ok((place, _)) => self.set(place),
                // No one can look: the file is written, and that is said.
                Err(_) if opener::has_ended() => {}
                Err(failure) => return Err(failure),
            }
            return Ok(());
        }
        let (Some(path), Some(file)) = (&self.path, &self.file) else { return Ok(()) };
        if !begins_as_profile(file) {
            let message = format!(
                "`{}` was overwritten by another program while it was recorded: what is there is no recording",
                path.display()
            );
            return Err(Failure::new(status::FAILED, message).hint("record again, into a file of its own"));
        }
        let found = privilege::as_user(|| {
            if is_at(file, path) {
                return Ok(None);
            }
            let link = format!("/proc/self/fd/{}", file.as_raw_fd());
            if let Ok(moved) = fs::read_link(link)
                && is_at(file, &moved)
            {
                return Ok(Some((moved, "was moved")));
            }
            let what = if fs::symlink_metadata(path).is_ok() { "was replaced" } else { "was removed" };
            match save_again(file, path) {
                Ok(new) => Ok(Some((new, what))),
                Err(error) => {
                    let message = format!(
                        "`{}` {what} while it was recorded, and cannot be saved again",
                        path.display()
                    );
                    Err(Failure::new(status::FAILED, format!("{message}: {error}")).hint("record again"))
                }
            }
        })?;
        if let Some((now, what)) = found {
            let was = path.display();
            self.misplaced.get_or_insert_with(|| format!("`{was}` {what} while it was recorded"));
            self.path = Some(now);
        }
        Ok(())
    }
}

/// Copies `file` to a new file next to `path`, or to the folder for temporary files.
fn save_again(file: &File, path: &Path) -> io::Result<PathBuf> {
    match copy_next_to(file, path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let name = path.file_name().ok_or(error)?;
            copy_next_to(file, &std::env::temp_dir().join(name))
        }
        written => written,
    }
}

fn copy_next_to(file: &File, path: &Path) -> io::Result<PathBuf> {
    for attempt in 0..MOST_NAMES {
        let new = another_name(path, attempt);
        let mut copy = match own_file::create(&new) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            created => created?,
        };
        if let Err(error) = copy_all(file, &mut copy) {
            // It is not whole.
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        return Ok(new);
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn copy_all(from: &File, to: &mut File) -> io::Result<()> {
    let mut piece = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        match from.read_at(&mut piece, at)? {
            0 => return Ok(()),
            read => {
                to.write_all(&piece[..read])?;
                at += read as u64;
            }
        }
    }
}
