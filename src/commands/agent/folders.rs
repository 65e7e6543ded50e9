//! Folders of the agent: windows from the recorder, and what waits for each destination; and how small files between its processes are
//! written and read.

use crate::agent::config::{AgentConfig, BUFFER_WAITING, BUFFER_WINDOWS};
use crate::base::failure::{Failure, io_words, status};
use crate::profile::lock;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
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
        match take_alone(&folder) {
            Ok(true) => Ok(HeldFolder { id, lock: Some(Arc::new(folder)) }),
            Ok(false) => {
                let message = format!("another agent uses the folder `{}`", path.display());
                let hint = format!("end that one, or give this one a folder of its own: folder in {table}");
                Err(Failure::new(status::FAILED, message).hint(hint))
            }
            Err(_) => Ok(HeldFolder { id, lock: None }),
        }
    }
}

/// Takes a folder for this agent alone, until it is closed. Returns false if another agent has it.
///
/// It is no lock of flock(2): by such a one recorders take turns, for a moment each, at each window. Those of fcntl(2) are others, in no
/// one's way, and leave no file in the folder.
///
/// # Errors
///
/// When the file system has no such locks.
fn take_alone(folder: &File) -> io::Result<bool> {
    // Of two agents that start together, one has the folder: the other asks once this one is done.
    let is_turn = lock::lock(folder);
    // A folder cannot be open for writing, and what is not gets no lock but a shared one: who has one asks whether there is another.
    let taken = lock_of_description(folder, libc::F_OFD_SETLK, libc::F_RDLCK)
        .and_then(|_| lock_of_description(folder, libc::F_OFD_GETLK, libc::F_WRLCK));
    if is_turn {
        // Closing the folder would take back the other one, too.
        let _ = flock(folder, FlockOperation::Unlock);
    }
    Ok(taken? == libc::F_UNLCK)
}

/// Has the kernel do something with a lock on the whole of an open file, which belongs to that and not to the process. Returns the kind
/// of lock that it answers with.
fn lock_of_description(file: &File, command: libc::c_int, kind: libc::c_int) -> io::Result<libc::c_int> {
    let kind = libc::c_short::try_from(kind).map_err(io::Error::other)?;
    // All of it, from its start: 0 bytes are all.
    let whence = libc::SEEK_SET as libc::c_short;
    let mut wanted = libc::flock { l_type: kind, l_whence: whence, l_start: 0, l_len: 0, l_pid: 0 };
    // SAFETY: the file is open, and both commands read and write one `flock`, which outlives the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut wanted) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(wanted.l_type.into()) }
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
    fn a_recorder_takes_its_turn_in_folders_that_are_held() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let held = HeldFolders::of(&config(root, "a", "k"), None).expect("they are free");
        for name in ["a", "a/windows", "k"] {
            let turn = File::open(root.join(name)).expect("it is there");
            assert_eq!(flock(&turn, FlockOperation::NonBlockingLockExclusive), Ok(()), "{name}");
        }
        let files = |name: &str| fs_names(&root.join(name));
        assert_eq!(
            (files("a"), files("k")),
            (vec!["windows".to_owned()], Vec::new()),
            "nothing else is there"
        );
        // A turn of someone else keeps no agent from seeing that the folders are taken.
        let turn = File::open(root.join("k")).expect("it is there");
        assert_eq!(flock(&turn, FlockOperation::NonBlockingLockExclusive), Ok(()));
        assert!(HeldFolders::of(&config(root, "b", "k"), None).is_err());
        drop(held);
        assert!(HeldFolders::of(&config(root, "b", "k"), None).is_ok());
    }

    #[test]
    fn of_agents_that_start_together_one_has_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..50 {
            let config = config(folder.path(), &format!("a{number}"), "k");
            let held = std::thread::scope(|scope| {
                let starts = [0; 4].map(|_| scope.spawn(|| HeldFolders::of(&config, None).ok()));
                let held = starts.map(|start| start.join().expect("it does not panic"));
                held.iter().flatten().count()
            });
            assert_eq!(held, 1, "start {number}");
        }
    }

    fn fs_names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("it is there").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
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
