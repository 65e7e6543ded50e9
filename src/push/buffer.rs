//! Recordings that wait in a folder until they are sent: the oldest first, bounded in bytes, in age and in what they leave of the
//! disk. What has to go is counted by the one who asks.
//!
//! The age of a file is what its own time said when it was first seen, and from then on by a clock that does not jump: a clock
//! that is set neither makes everything old nor keeps it for ever.

use super::reply::PushProblem;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Most files that are looked at: more than there are windows of a second in an hour.
const MOST_FILES: usize = 10_000;
/// What stays free of a large disk, bytes: as much as a recorder leaves, which writes no windows then.
const MOST_FREE: u64 = 2 << 30;
/// Ending of files that wait. Those that are still written have another one.
const ENDING: &str = "data";

/// Bounds of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferLimits {
    /// Most bytes of all files.
    pub(crate) most_bytes: u64,
    /// The longest that a file waits. Servers take the last hour.
    pub(crate) most_age: Duration,
    /// Part of the disk that stays free, in percent, and the most bytes that this is.
    pub(crate) free_percent: u8,
    pub(crate) most_free: u64,
}

impl Default for BufferLimits {
    fn default() -> Self {
        BufferLimits {
            most_bytes: 256 << 20,
            most_age: Duration::from_secs(55 * 60),
            free_percent: 5,
            most_free: MOST_FREE,
        }
    }
}

/// A recording that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingFile {
    pub(crate) path: PathBuf,
    /// Its size, bytes.
    pub(crate) bytes: u64,
    /// For how long it has been waiting, or, if it was there before, is said to have been.
    pub(crate) age: Duration,
    /// When it was written.
    written: SystemTime,
}

/// When a file was first seen, and what its age was then.
#[derive(Debug, Clone, Copy)]
struct SeenFirst {
    at: Instant,
    age: Duration,
}

/// A folder of recordings that wait.
#[derive(Debug)]
pub(crate) struct PushBuffer {
    folder: PathBuf,
    limits: BufferLimits,
    seen: BTreeMap<PathBuf, SeenFirst>,
    /// Files that are done with and could not be removed.
    stuck: BTreeSet<PathBuf>,
}

impl PushBuffer {
    /// The folder, which is there.
    pub(crate) fn new(folder: PathBuf, limits: BufferLimits) -> Self {
        PushBuffer { folder, limits, seen: BTreeMap::new(), stuck: BTreeSet::new() }
    }

    /// The folder.
    #[cfg(test)]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The files that wait, the oldest first.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub(crate) fn waiting(&mut self) -> io::Result<Vec<WaitingFile>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)?.take(MOST_FILES) {
            let path = entry?.path();
            let is_waiting =
                path.extension().is_some_and(|ending| ending == ENDING) && !self.stuck.contains(&path);
            // One that is gone in between is no failure; links lead elsewhere.
            let Ok(found) = path.symlink_metadata() else { continue };
            if !is_waiting || !found.is_file() {
                continue;
            }
            let written = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let age = self.age_of(&path, written);
            files.push(WaitingFile { path, bytes: found.len(), age, written });
        }
        files.sort_by(|a, b| (a.written, &a.path).cmp(&(b.written, &b.path)));
        self.seen.retain(|path, _| files.iter().any(|file| file.path == *path));
        Ok(files)
    }

    fn age_of(&mut self, path: &Path, written: SystemTime) -> Duration {
        let now = Instant::now();
        let first = *self.seen.entry(path.to_owned()).or_insert_with(|| {
            let age = SystemTime::now().duration_since(written).unwrap_or_default();
            SeenFirst { at: now, age }
        });
        first.age.saturating_add(now.saturating_duration_since(first.at))
    }

    /// Removes what waits for too long, and the oldest where there is too much or the disk is full. Returns what was removed, and
    /// why.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub(crate) fn prune(&mut self) -> io::Result<Vec<(WaitingFile, PushProblem)>> {
        let files = self.waiting()?;
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let mut lacking = self.lacking_bytes();
        let mut removed = Vec::new();
        for file in files {
            let problem = match () {
                () if file.age > self.limits.most_age => PushProblem::TooOld,
                () if bytes > self.limits.most_bytes || lacking > 0 => PushProblem::Full,
                () => continue,
            };
            bytes = bytes.saturating_sub(file.bytes);
            if self.remove(&file.path) {
                lacking = lacking.saturating_sub(file.bytes);
            }
            removed.push((file, problem));
        }
        Ok(removed)
    }

    /// Bytes that the disk has too few of; 0 if it has enough, or if that is not known.
    fn lacking_bytes(&self) -> u64 {
        let Ok(disk) = rustix::fs::statvfs(&self.folder) else { return 0 };
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        self.limits.lacking(bytes(disk.f_blocks), bytes(disk.f_bavail))
    }

    /// Removes a file that is done with. One that cannot be removed is not offered again. Returns whether it is gone.
    pub(crate) fn remove(&mut self, path: &Path) -> bool {
        self.seen.remove(path);
        match fs::remove_file(path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(_) => {
                self.stuck.insert(path.to_owned());
                false
            }
        }
    }
}

impl BufferLimits {
    /// Bytes that a disk of `all` bytes has too few of if `free` are left.
    fn lacking(&self, all: u64, free: u64) -> u64 {
        (all / 100).saturating_mul(self.free_percent.into()).min(self.most_free).saturating_sub(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_disk_needs_no_more_room_than_a_recorder_leaves() {
        let limits = BufferLimits::default();
        assert_eq!(limits.lacking(126 << 30, 4 << 30), 0);
        assert_eq!(limits.lacking(126 << 30, 1 << 30), 1 << 30);
        assert_eq!(limits.lacking(100_000_000, 4_000_000), 1_000_000);
    }

    fn folder(limits: BufferLimits) -> (tempfile::TempDir, PushBuffer) {
        let folder = tempfile::tempdir().unwrap();
        let buffer = PushBuffer::new(folder.path().to_owned(), limits);
        (folder, buffer)
    }

    fn file(buffer: &PushBuffer, name: &str, bytes: usize, age: Duration) {
        let path = buffer.folder().join(name);
        fs::write(&path, vec![0; bytes]).unwrap();
        let at = SystemTime::now() - age;
        fs::File::options().write(true).open(path).unwrap().set_modified(at).unwrap();
    }

    fn names(files: &[WaitingFile]) -> Vec<String> {
        files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    const MINUTE: Duration = Duration::from_secs(60);
    const LIMITS: BufferLimits = BufferLimits {
        most_bytes: 250,
        most_age: Duration::from_secs(3_300),
        free_percent: 0,
        most_free: u64::MAX,
    };

    #[test]
    fn whole_files_wait_in_the_order_of_their_age() {
        let (_folder, mut buffer) = folder(LIMITS);
        file(&buffer, "b.data", 1, 2 * MINUTE);
        file(&buffer, "a.data", 1, MINUTE);
        file(&buffer, "c.part", 1, 3 * MINUTE);
        std::os::unix::fs::symlink("/etc/passwd", buffer.folder().join("l.data")).unwrap();
        assert_eq!(names(&buffer.waiting().unwrap()), ["b.data", "a.data"]);
        let path = buffer.folder().join("b.data");
        assert!(buffer.remove(&path) && buffer.remove(&path));
        assert_eq!(names(&buffer.waiting().unwrap()), ["a.data"]);
    }

    #[test]
    fn the_oldest_go_where_there_is_too_much_and_are_returned() {
        let (_folder, mut buffer) = folder(LIMITS);
        for (name, minutes) in [("old.data", 56), ("a.data", 3), ("b.data", 2), ("c.data", 1)] {
            file(&buffer, name, 100, minutes * MINUTE);
        }
        let removed = buffer.prune().unwrap();
        let problems: Vec<PushProblem> = removed.iter().map(|(_, problem)| *problem).collect();
        assert_eq!(problems, [PushProblem::TooOld, PushProblem::Full]);
        assert_eq!(names(&buffer.waiting().unwrap()), ["b.data", "c.data"]);
    }

    #[test]
    fn a_clock_that_is_set_changes_no_age() {
        let (_folder, mut buffer) = folder(LIMITS);
        file(&buffer, "a.data", 1, Duration::ZERO);
        assert!(buffer.waiting().unwrap()[0].age < MINUTE);
        // As if the clock had been put forward by two hours since.
        file(&buffer, "a.data", 1, 120 * MINUTE);
        assert!(buffer.prune().unwrap().is_empty());
        // A time that is still to come is no age.
        let path = buffer.folder().join("z.data");
        fs::write(&path, "x").unwrap();
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(SystemTime::now() + 60 * MINUTE)
            .unwrap();
        assert!(buffer.waiting().unwrap().iter().all(|file| file.age < MINUTE));
    }

    #[test]
    fn a_disk_without_room_is_made_some() {
        let (_folder, mut buffer) = folder(BufferLimits { free_percent: 100, ..LIMITS });
        file(&buffer, "a.data", 1, MINUTE);
        let removed = buffer.prune().unwrap();
        assert_eq!(removed.len(), 1);
        assert_eq!(removed[0].1, PushProblem::Full);
    }
}
