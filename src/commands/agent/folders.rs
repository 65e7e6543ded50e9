//! Folders of the agent: windows from the recorder, and what waits for each destination.

use crate::agent::config::AgentConfig;
use crate::base::failure::{Failure, io_words, status};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
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

/// Holds a folder for this agent, until what is returned is closed: two in one would send everything twice. `None` where the file system
/// has no locks.
///
/// # Errors
///
/// When another agent has it.
pub(super) fn hold_folder(path: &Path) -> Result<Option<File>, Failure> {
    let Ok(folder) = File::open(path) else { return Ok(None) };
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(folder)),
        Err(Errno::WOULDBLOCK) => {
            let message = format!("another agent uses the folder `{}`", path.display());
            let hint = "end that one, or give this one a folder of its own: folder in [buffer]";
            Err(Failure::new(status::FAILED, message).hint(hint))
        }
        Err(_) => Ok(None),
    }
}

/// Makes a folder for the agent alone, and those above it.
pub(super) fn make_folder(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| {
        let why = io_words(&error);
        Failure::new(status::FAILED, format!("cannot make the folder `{}`: {why}", path.display()))
            .hint("the agent needs a folder of its own for what waits: folder in [buffer]")
    })
}
