//! Folders of the agent: windows from the recorder, and what waits for each destination.

use crate::agent::config::AgentConfig;
use crate::base::failure::{Failure, io_words, status};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the names of folders begin with whose files wait for a destination.
pub(super) const WAITING: &str = "to-";

/// The folder into which the recorder writes.
pub(super) fn recorded_folder(config: &AgentConfig) -> PathBuf {
    config.buffer.folder.join("windows")
}

/// The folder of what waits for a destination, by its number and name.
pub(super) fn waiting_folder(config: &AgentConfig, number: usize, name: &str) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let plain: String = name.chars().take(60).map(|c| if is_plain(c) { c } else { '_' }).collect();
    config.buffer.folder.join(format!("{WAITING}{number}-{plain}"))
}

/// The number of files that wait for destinations in a buffer.
pub(super) fn waiting_files(buffer: &Path) -> u64 {
    let names = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_waiting = |name: &OsStr| name.as_bytes().starts_with(WAITING.as_bytes());
    let folders = names(buffer).filter(|entry| is_waiting(&entry.file_name()));
    folders.map(|folder| names(&folder.path()).count() as u64).sum()
}

/// The folders that no other agent may use meanwhile: two with one buffer would send everything twice, and two with one folder of
/// recordings that stay would remove each other's.
pub(super) struct HeldFolders {
    buffer: HeldFolder,
    kept: Option<HeldFolder>,
}

impl HeldFolders {
    /// Makes and holds the folders of a configuration, until what is returned is dropped.
    ///
    /// # Errors
    ///
    /// When one cannot be made, or another agent has it.
    pub(super) fn of(config: &AgentConfig) -> Result<Self, Failure> {
        make_folder(&recorded_folder(config), "[buffer]")?;
        let buffer = HeldFolder::hold(&config.buffer.folder, "[buffer]")?;
        let kept = config.keep.as_ref().map(|keep| {
            make_folder(&keep.folder, "[keep]")?;
            HeldFolder::hold(&keep.folder, "[keep]")
        });
        Ok(HeldFolders { buffer, kept: kept.transpose()? })
    }

    /// Holds the folders of another configuration. Those that both have stay held.
    ///
    /// # Errors
    ///
    /// As [`HeldFolders::of`]: then those of before are held as they were.
    pub(super) fn change(&mut self, config: &AgentConfig) -> Result<(), Failure> {
        make_folder(&recorded_folder(config), "[buffer]")?;
        let buffer = self.buffer.other(&config.buffer.folder, "[buffer]")?;
        let kept = config.keep.as_ref().map(|keep| {
            make_folder(&keep.folder, "[keep]")?;
            match &self.kept {
                Some(kept) => kept.other(&keep.folder, "[keep]"),
                None => HeldFolder::hold(&keep.folder, "[keep]").map(Some),
            }
        });
        let kept = kept.transpose()?;
        if let Some(buffer) = buffer {
            self.buffer = buffer;
        }
        match kept {
            // The one of before.
            Some(None) => {}
            kept => self.kept = kept.flatten(),
        }
        Ok(())
    }
}

/// A folder with a lock, where its file system has locks.
struct HeldFolder {
    path: PathBuf,
    _lock: Option<File>,
}

impl HeldFolder {
    /// Holds a folder, which the table `table` of the configuration names.
    fn hold(path: &Path, table: &str) -> Result<Self, Failure> {
        let held = |lock: Option<File>| Ok(HeldFolder { path: path.to_owned(), _lock: lock });
        let Ok(folder) = File::open(path) else { return held(None) };
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => held(Some(folder)),
            Err(Errno::WOULDBLOCK) => {
                let message = format!("another agent uses the folder `{}`", path.display());
                let hint = format!("end that one, or give this one a folder of its own: folder in {table}");
                Err(Failure::new(status::FAILED, message).hint(hint))
            }
            Err(_) => held(None),
        }
    }

    /// Holds another folder; `None` if it is this one.
    fn other(&self, path: &Path, table: &str) -> Result<Option<Self>, Failure> {
        if self.path == path { Ok(None) } else { Self::hold(path, table).map(Some) }
    }
}

/// Writes a small file in place of the one that has its name: who reads it meanwhile has one of both.
///
/// # Errors
///
/// As of the calls: then the one of before is there.
pub(super) fn write_replacing(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = place.with_extension("part");
    std::fs::write(&unfinished, bytes).and_then(|()| std::fs::rename(&unfinished, place))
}

/// Makes a folder for the agent alone, which the table `table` of the configuration names, and those above it.
///
/// # Errors
///
/// When it is not there and cannot be made.
pub(super) fn make_folder(path: &Path, table: &str) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| {
        let why = io_words(&error);
        Failure::new(status::FAILED, format!("cannot make the folder `{}`: {why}", path.display()))
            .hint(format!("the agent needs a folder that it may write to: folder in {table}"))
    })
}
