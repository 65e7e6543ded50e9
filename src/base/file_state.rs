//! Whether an opened file still has the content that was read from it: a file rewritten in place keeps its inode.

use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

/// State of a file, which changes with its bytes. The time of change of the inode (ctime) does not belong to it: deleting
/// or renaming a file changes that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileState {
    /// Length, bytes.
    pub(crate) size_bytes: u64,
    /// Time of the last write, ns since 1970, modulo 2^64: only compared, also by the kernel side.
    pub(crate) modified_ns: u64,
}

impl FileState {
    /// The state of an opened file now; `None` where it cannot be asked for.
    pub(crate) fn of(file: &File) -> Option<FileState> {
        file.metadata().ok().map(|metadata| FileState::from(&metadata))
    }
}

/// What is known here of an opened file, without asking the server or the program that it is from: neither may ever answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownFile {
    pub(crate) is_regular: bool,
    pub(crate) inode: u64,
    pub(crate) owner: u32,
    pub(crate) state: FileState,
}

impl KnownFile {
    /// What is known of a file; `None` where nothing is.
    pub(crate) fn of(file: &File) -> Option<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let facts = statx(file, "", flags, StatxFlags::BASIC_STATS).ok()?;
        let seconds_ns = (facts.stx_mtime.tv_sec as u64).wrapping_mul(1_000_000_000);
        let modified_ns = seconds_ns.wrapping_add(facts.stx_mtime.tv_nsec.into());
        Some(KnownFile {
            is_regular: FileType::from_raw_mode(facts.stx_mode.into()) == FileType::RegularFile,
            inode: facts.stx_ino,
            owner: facts.stx_uid,
            state: FileState { size_bytes: facts.stx_size, modified_ns },
        })
    }
}

impl From<&Metadata> for FileState {
    fn from(metadata: &Metadata) -> Self {
        let seconds_ns = (metadata.mtime() as u64).wrapping_mul(1_000_000_000);
        let modified_ns = seconds_ns.wrapping_add(metadata.mtime_nsec() as u64);
        FileState { size_bytes: metadata.len(), modified_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::{Duration, SystemTime};

    #[test]
    fn writing_changes_the_state_and_renaming_does_not() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "one").expect("a file can be written");
        let file = File::open(&path).expect("it can be opened");
        let first = FileState::of(&file).expect("an open file has a state");
        fs::rename(&path, &other).expect("it can be renamed");
        assert_eq!(FileState::of(&file), Some(first));
        fs::remove_file(&other).expect("it can be deleted");
        assert_eq!(FileState::of(&file), Some(first));
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(2, 5)).expect("it is ours");
        let state = FileState { size_bytes: 3, modified_ns: 2_000_000_005 };
        assert_eq!(FileState::of(&file), Some(state));
        let known = KnownFile::of(&file).expect("it is known");
        let facts = file.metadata().expect("an open file has some");
        let wanted = KnownFile { is_regular: true, inode: facts.ino(), owner: facts.uid(), state };
        assert_eq!(known, wanted);
        file.set_modified(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).expect("it is ours");
        assert_ne!(FileState::of(&file), Some(first), "a time before 1970 is a time");
    }
}
