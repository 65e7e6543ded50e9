//! Folders of the agent: windows from the recorder, and what waits for each destination; and how small files between its processes are
//! written and read.

use crate::agent::config::{AgentConfig, BUFFER_WAITING, BUFFER_WINDOWS};
use crate::base::failure::{Failure, io_words, status};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder into which the recorder writes.
pub(super) fn recorded_folder(config: &AgentConfig) -> PathBuf {
    config.buffer.folder.join(BUFFER_WINDOWS)
}

/// The folder of what waits for a destination, by its number and name.
pub(super) fn waiting_folder(config: &AgentConfig, number: usize, name: &str) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let plain: String = name.chars().take(60).map(|c| if is_plain(c) { c } else { '_' }).collect();
    config.buffer.folder.join(format!("{BUFFER_WAITING}{number}-{plain}"))
}

/// The folders in a buffer whose files wait for destinations.
pub(super) fn waiting_folders(buffer: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(buffer).into_iter().flatten().flatten();
    let waits = |name: &OsStr| name.as_bytes().starts_with(BUFFER_WAITING.as_bytes());
    entries.filter(move |entry| waits(&entry.file_name())).map(|entry| entry.path())
}

/// The number of files that wait for destinations in a buffer.
pub(super) fn waiting_files(buffer: &Path) -> u64 {
    let count = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().count() as u64;
    waiting_folders(buffer).map(count).sum()
}

/// The folders that no other agent may use meanwhile: two with one buffer would send everything twice, and two with one folder of
/// recordings that stay would remove each other's.
pub(super) struct HeldFolders(Vec<HeldFolder>);

/// A folder with a lock, where its file system has locks.
struct HeldFolder {
    /// `None` if it cannot be looked at.
    id: Option<FolderId>,
    lock: Option<Arc<File>>,
}

/// Number of a file system, and that of a folder in it.
type FolderId = (u64, u64);

impl HeldFolders {
    /// Makes and holds the folders of a configuration, until what is returned is dropped. What is held already, in `before`, stays so.
    ///
    /// # Errors
    ///
    /// When one cannot be made, another agent has it, or that of recordings that stay is one of the buffer's.
    pub(super) fn of(config: &AgentConfig, before: Option<&HeldFolders>) -> Result<Self, Failure> {
        let recorded = recorded_folder(config);
        make_folder(&recorded, "[buffer]")?;
        let mut held = Vec::new();
        for folder in [&config.buffer.folder, &recorded] {
            held.push(HeldFolder::hold(folder, "[buffer]", before)?);
        }
        if let Some(keep) = &config.keep {
            make_folder(&keep.folder, "[keep]")?;
            let of_buffer =
                waiting_folders(&config.buffer.folder).chain([config.buffer.folder.clone(), recorded]);
            let id = id_of(&keep.folder);
            if id.is_some() && of_buffer.map(|folder| id_of(&folder)).any(|of_buffer| of_buffer == id) {
                let message = format!("the folder `{}` is one of the buffer's", keep.folder.display());
                let hint = "recordings that stay need a folder of their own: folder in [keep]";
                return Err(Failure::new(status::FAILED, message).hint(hint));
            }
            held.push(HeldFolder::hold(&keep.folder, "[keep]", before)?);
        }
        Ok(HeldFolders(held))
    }
}

impl HeldFolder {
    /// Holds a folder, which the table `table` of the configuration names.
    fn hold(path: &Path, table: &str, before: Option<&HeldFolders>) -> Result<Self, Failure> {
        let id = id_of(path);
        let is_same = |held: &&HeldFolder| id.is_some() && held.id == id;
        if let Some(held) = before.and_then(|before| before.0.iter().find(is_same)) {
            return Ok(HeldFolder { id, lock: held.lock.clone() });
        }
        let Ok(folder) = File::open(path) else { return Ok(HeldFolder { id, lock: None }) };
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(HeldFolder { id, lock: Some(Arc::new(folder)) }),
            Err(Errno::WOULDBLOCK) => {
                let message = format!("another agent uses the folder `{}`", path.display());
                let hint = format!("end that one, or give this one a folder of its own: folder in {table}");
                Err(Failure::new(status::FAILED, message).hint(hint))
            }
            Err(_) => Ok(HeldFolder { id, lock: None }),
        }
    }
}

fn id_of(path: &Path) -> Option<FolderId> {
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.dev(), facts.ino()))
}

/// Writes a small file in place of the one that has its name: who reads it meanwhile has one of both. No one else may read it.
///
/// # Errors
///
/// As of the calls: then the one of before is there.
pub(super) fn write_replacing(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = place.with_extension("part");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?.write_all(bytes)?;
    std::fs::rename(&unfinished, place)
}

/// Reads what was written as JSON by [`write_replacing`]; the default if there is none, or one of more than `most_bytes`.
pub(super) fn read_json<T: DeserializeOwned + Default>(place: &Path, most_bytes: u64) -> T {
    let mut bytes = Vec::new();
    // A part of one that is longer is nothing, too.
    let _ = File::open(place).and_then(|file| file.take(most_bytes).read_to_end(&mut bytes));
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Writes as JSON.
///
/// # Errors
///
/// As [`write_replacing`].
pub(super) fn write_json(place: &Path, value: &impl Serialize) -> io::Result<()> {
    write_replacing(place, &serde_json::to_vec(value)?)
}

/// Makes a folder for the agent alone, which the table `table` of the configuration names, and those above it.
///
/// # Errors
///
/// When it is not there and cannot be made.
pub(super) fn make_folder(path: &Path, table: &str) -> Result<(), Failure> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| {
        let why = io_words(&error);
        Failure::new(status::FAILED, format!("cannot make the folder `{}`: {why}", path.display()))
            .hint(format!("the agent needs a folder that it may write to: folder in {table}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration of two folders below `root`.
    fn config(root: &Path, buffer: &str, keep: &str) -> AgentConfig {
        let root = root.display();
        let text = format!("[buffer]\nfolder = \"{root}/{buffer}\"\n[keep]\nfolder = \"{root}/{keep}\"\n");
        AgentConfig::parse("agent.toml", &text).expect("it is right")
    }

    #[test]
    fn held_folders_are_those_that_they_are_by_any_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let of = |buffer: &str, keep: &str, before: Option<&HeldFolders>| {
            HeldFolders::of(&config(root, buffer, keep), before)
        };
        let why = |held: Result<HeldFolders, Failure>| {
            held.err().map(|failure| failure.message).unwrap_or_default()
        };
        std::fs::create_dir(root.join("l")).expect("a folder");
        let first = of("a", "k", None).expect("they are free");
        assert!(why(of("b", "l/../k", None)).contains("another agent uses"));
        assert!(why(of("./a", "l", None)).contains("another agent uses"));
        assert!(why(of("b", "a/windows", None)).contains("another agent uses"));
        // Another configuration of the same agent may exchange them; until that is taken, those of before are held.
        let second = of("k", "a", Some(&first)).expect("they are its own");
        drop(second);
        assert!(why(of("a", "l", None)).contains("another agent uses"));
        drop(first);
        drop(of("a", "l", None).expect("they are free again"));
        std::os::unix::fs::symlink(root.join("a/windows"), root.join("link")).expect("a link");
        for keep in ["link", "l/../a", "l/../a/windows"] {
            assert!(why(of("a", keep, None)).contains("is one of the buffer's"), "{keep}");
        }
    }
}
