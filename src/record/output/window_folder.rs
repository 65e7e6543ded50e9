//! The folder of a recording in windows: a file for each, of which the oldest go as the user said, or before the disk is full.
//!
//! The age of a window is measured by a clock that no one sets: the wall clock is asked only for files that were there before, when they
//! are first seen. Nothing but recordings with names of windows is ever removed, and none that is being written.

use super::failure::write_failure;
use crate::base::failure::{Failure, status};
use crate::base::{own_file, privilege};
use crate::profile::begins_as_profile;
use crate::profile::lock;
use crate::record::options::Keep;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Name of a window, before its time is put in.
pub(in crate::record) const WINDOW_NAME: &str = "prof-%t.data";
const PREFIX: &str = "prof-";
const ENDING: &str = ".data";
/// This part of the disk stays free, in hundredths, but at most so many bytes.
const FREE_PERCENT: u64 = 5;
const MOST_FREE: u64 = 2 << 30;
/// Most windows that are looked at: more than a year of ten minutes each.
const MOST_WINDOWS: usize = 100_000;

/// Folders that were made.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// What was removed from a folder, and whether its disk is full all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Pruned {
    /// Windows that were removed.
    pub(crate) windows: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Less of the disk is free than has to be, and nothing is left to remove.
    pub(crate) is_full: bool,
}

/// A folder of windows.
#[derive(Debug)]
pub(crate) struct WindowFolder {
    path: PathBuf,
    keep: Keep,
    /// The ends of the windows, in time since the machine was started.
    ends: BTreeMap<OsString, Duration>,
}

/// A window in the folder.
#[derive(Debug)]
struct FoundWindow {
    name: OsString,
    bytes: u64,
    end: Duration,
}

impl WindowFolder {
    /// The folder at `path`, of which `keep` says what stays.
    pub(crate) fn new(path: PathBuf, keep: Keep) -> Self {
        WindowFolder { path, keep, ends: BTreeMap::new() }
    }

    /// Makes the folder, unless it is there. [`WindowFolder::remove_unused`] takes that back.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or is a file.
    pub(super) fn make(path: &Path) -> Result<(), Failure> {
        match fs::metadata(path) {
            Ok(facts) if facts.is_dir() => return Ok(()),
            Ok(_) => {
                let message = format!("cannot write windows to `{}`: it is no folder", path.display());
                return Err(Failure::new(status::FAILED, message).hint("name a folder: -o DIR/"));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(write_failure(path, &error)),
        }
        fs::DirBuilder::new().mode(0o700).create(path).map_err(|error| write_failure(path, &error))?;
        if let Ok(folder) = fs::File::open(path) {
            own_file::give_to_user(&folder);
        }
        MADE.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
        Ok(())
    }

    /// Removes the folder at `path` if this process, or the one that it was forked from, has made it and no window came to be in it: see
    /// [`WindowFolder::keep`].
    pub(crate) fn remove_unused(path: &Path) {
        if Self::keep(path) {
            // A folder in which something is stays.
            let _ = privilege::as_user(|| fs::remove_dir(path));
        }
    }

    /// Has the folder at `path` stay, now that a window is in it, whatever becomes of that. Returns whether it was made and could have been
    /// removed until now.
    pub(crate) fn keep(path: &Path) -> bool {
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let before = made.len();
        made.retain(|folder| folder != path);
        made.len() < before
    }

    /// Removes the windows that are not to stay. The newest stays, whatever the limits are.
    pub(crate) fn prune(&mut self) -> Pruned {
        let now = since_start();
        let mut windows = self.windows(now);
        let mut pruned = Pruned::default();
        let mut bytes: u64 = windows.iter().map(|window| window.bytes).sum();
        windows.sort_by(|a, b| (b.end, &b.name).cmp(&(a.end, &a.name)));
        while let Some(oldest) = windows.pop().filter(|_| !windows.is_empty()) {
            let is_too_old = self.keep.age.is_some_and(|age| now.saturating_sub(oldest.end) > age);
            let are_too_many = self.keep.bytes.is_some_and(|limit| bytes > limit);
            if !is_too_old && !are_too_many && !self.lacks_room() {
                break;
            }
            bytes = bytes.saturating_sub(oldest.bytes);
            if fs::remove_file(self.path.join(&oldest.name)).is_ok() {
                self.ends.remove(&oldest.name);
                pruned.windows += 1;
                pruned.bytes += oldest.bytes;
            }
        }
        pruned.is_full = self.lacks_room();
        pruned
    }

    /// The windows that are not being written.
    fn windows(&mut self, now: Duration) -> Vec<FoundWindow> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name()).filter(is_window);
        let mut known = BTreeMap::new();
        let mut found = Vec::new();
        for name in names.take(MOST_WINDOWS) {
            let Some(file) = lock::open_regular(&self.path.join(&name)) else { continue };
            let Ok(facts) = file.metadata() else { continue };
            if !own_file::is_owner(facts.uid()) || lock::is_written(&file) || !begins_as_profile(&file) {
                continue;
            }
            let end = self.ends.get(&name).copied().unwrap_or_else(|| {
                let ago =
                    facts.modified().ok().and_then(|changed| SystemTime::now().duration_since(changed).ok());
                now.saturating_sub(ago.unwrap_or_default())
            });
            known.insert(name.clone(), end);
            found.push(FoundWindow { name, bytes: facts.len(), end });
        }
        self.ends = known;
        found
    }

    /// Whether less of the disk is free than has to be.
    fn lacks_room(&self) -> bool {
        // Of a file system that does not say, nothing is known.
        rustix::fs::statvfs(&self.path).is_ok_and(|disk| {
            let all = disk.f_blocks.saturating_mul(disk.f_frsize);
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            free < (all / 100 * FREE_PERCENT).min(MOST_FREE)
        })
    }
}

/// Whether a file has the name of a window.
fn is_window(name: &OsString) -> bool {
    let is_time = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let middle = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(ENDING));
    middle.is_some_and(|middle| !middle.is_empty() && is_time(middle))
}

/// Another name for a window, the first of which is taken. The first `attempt` is 0.
pub(crate) fn another_window_name(path: &Path, attempt: u32) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.strip_suffix(ENDING).unwrap_or(&name);
    path.with_file_name(format!("{stem}-{}{ENDING}", u64::from(attempt) + 2))
}

/// Time since the machine was started, which goes on while it sleeps.
fn since_start() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Meta, Writer};

    /// A folder with windows that ended so many seconds ago, each of `bytes` bytes and a little more.
    fn folder(ends: &[u64], bytes: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (number, ago) in ends.iter().enumerate() {
            let mut file = fs::File::create(folder.path().join(format!("prof-20261129-00000{number}.data")))
                .expect("a file");
            Writer::new(&mut file, &Meta::default()).expect("it is written");
            std::io::Write::write_all(&mut file, &vec![0; bytes]).expect("it is written");
            file.set_modified(SystemTime::now() - Duration::from_secs(*ago)).expect("it has a time");
        }
        fs::write(folder.path().join("prof-notes.data"), "mine").expect("a file");
        fs::write(folder.path().join("prof-20261129-999999.data"), "no recording").expect("a file");
        folder
    }

    fn left(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("it is there").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_windows_go_by_age_and_by_size_and_nothing_else_does() {
        let by_age = folder(&[500, 300, 10], 0);
        let keep = Keep { age: Some(Duration::from_secs(400)), bytes: None };
        let pruned = WindowFolder::new(by_age.path().to_owned(), keep).prune();
        assert_eq!((pruned.windows, left(by_age.path()).len()), (1, 4));
        assert!(!by_age.path().join("prof-20261129-000000.data").exists());

        let by_size = folder(&[10, 500, 300], 100_000);
        let keep = Keep { age: None, bytes: Some(250_000) };
        let pruned = WindowFolder::new(by_size.path().to_owned(), keep).prune();
        assert_eq!((pruned.windows, pruned.is_full), (1, false));
        assert!(!by_size.path().join("prof-20261129-000001.data").exists(), "{:?}", left(by_size.path()));

        let all = folder(&[500, 400], 100_000);
        let keep = Keep { age: Some(Duration::ZERO), bytes: Some(1) };
        assert_eq!(WindowFolder::new(all.path().to_owned(), keep).prune().windows, 1, "the newest stays");
        assert!(left(all.path()).contains(&"prof-notes.data".to_owned()));
    }

    #[test]
    fn a_folder_that_was_made_for_nothing_goes() {
        let place = tempfile::tempdir().expect("a folder");
        let [new, used, there] = ["new", "used", "there"].map(|name| place.path().join(name));
        fs::create_dir(&there).expect("it is made");
        for folder in [&new, &used, &there] {
            WindowFolder::make(folder).expect("it can be made");
        }
        fs::write(used.join("prof-1.data"), "a window").expect("a file");
        for folder in [&new, &used, &there] {
            WindowFolder::remove_unused(&folder.join(""));
        }
        assert_eq!([&new, &used, &there].map(|folder| folder.exists()), [false, true, true]);
        // One whose windows have gone elsewhere.
        WindowFolder::make(&new).expect("it can be made");
        assert!(WindowFolder::keep(&new));
        WindowFolder::remove_unused(&new);
        assert!(new.exists());
    }

    #[test]
    fn a_wall_clock_that_jumps_makes_no_window_older() {
        let folder = folder(&[20, 10, 5], 0);
        let keep = Keep { age: Some(Duration::from_secs(3600)), bytes: None };
        let mut windows = WindowFolder::new(folder.path().to_owned(), keep);
        assert_eq!(windows.prune().windows, 0);
        // As if the clock had been set a year on since.
        for name in left(folder.path()).iter().filter(|name| is_window(&OsString::from(name))) {
            let file = fs::File::options().write(true).open(folder.path().join(name)).expect("it is there");
            file.set_modified(SystemTime::now() - Duration::from_secs(365 * 86_400)).expect("it has a time");
        }
        assert_eq!(windows.prune().windows, 0);
    }

    #[test]
    fn windows_of_one_second_have_different_names() {
        let path = Path::new("/var/p/prof-20261129-140000.data");
        let names = [0, 1].map(|attempt| another_window_name(path, attempt));
        assert_eq!(names[0], Path::new("/var/p/prof-20261129-140000-2.data"));
        assert!(names.iter().all(|name| is_window(&name.file_name().expect("a name").to_owned())));
        assert!(!is_window(&OsString::from("prof-%t.data")) && !is_window(&OsString::from("prof-.data")));
    }
}
