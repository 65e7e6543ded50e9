//! Folders of the agent: windows from the recorder, and what waits for each destination.

use crate::agent::config::AgentConfig;
use crate::base::failure::{Failure, io_words, status};
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
