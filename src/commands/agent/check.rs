//! `prof agent --check`: whether a configuration is right, and what of it would not work on this host as it is now.

use crate::agent::config::AgentConfig;
use crate::base::failure::{io_words, status};
use crate::base::safe_text;
use crate::record::Rights;
use rustix::fs::{Access, access};
use std::io::{self, Write};
use std::path::Path;

/// Says that a configuration is right, what it comes to, and what would not work here. The status is that of the configuration alone: it may
/// be for another host.
///
/// # Errors
///
/// When standard output cannot be written to.
pub(super) fn say_checked(path: &Path, config: &AgentConfig) -> io::Result<u8> {
    let mut out = io::stdout().lock();
    let line = format!("{} is right: {}", path.display(), work_words(config));
    writeln!(out, "{}", safe_text::message(&line))?;
    for lack in lacks(config) {
        writeln!(out, "note: on this host, as this user: {}", safe_text::message(&lack))?;
    }
    Ok(status::OK)
}

/// What an agent of a configuration does, in words.
pub(super) fn work_words(config: &AgentConfig) -> String {
    let to: Vec<&str> = config.destinations.iter().map(|to| to.name.as_str()).collect();
    let to = if to.is_empty() { String::new() } else { format!(", to {}", to.join(", ")) };
    let kept = config.keep.as_ref().map(|keep| format!(", kept in `{}`", keep.folder.display()));
    let window = humantime::format_duration(config.window);
    format!("{} Hz, windows of {window}{to}{}", config.frequency_hz, kept.unwrap_or_default())
}

/// What would not work on this host as it is now, in words.
fn lacks(config: &AgentConfig) -> Vec<String> {
    let rights = match Rights::of_this_process() {
        Rights::All => None,
        Rights::Some(lost) => Some(format!("something is lost: {lost}")),
        Rights::TooFew(missing) => {
            Some(format!("the agent cannot record: {missing}; start it as root, or see prof doctor"))
        }
    };
    let buffer = (&config.buffer.folder, "[buffer]");
    let folders = [buffer].into_iter().chain(config.keep.iter().map(|keep| (&keep.folder, "[keep]")));
    let folders = folders.filter_map(|(folder, table)| lack_of_folder(folder, table));
    let files = config.destinations.iter().flat_map(|to| {
        let basic = to.basic.as_ref().map(|basic| &basic.password_file);
        [
            (to.bearer_file.as_ref(), "bearer_file"),
            (basic, "basic.password_file"),
            (to.ca_file.as_ref(), "ca_file"),
        ]
    });
    let files = files.filter_map(|(file, key)| lack_of_file(file?, key));
    rights.into_iter().chain(folders).chain(files).collect()
}

/// Why a folder could not be made, or no file in it.
fn lack_of_folder(folder: &Path, table: &str) -> Option<String> {
    let there = folder.ancestors().find(|above| above.exists())?;
    let why = match access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if there.is_dir() => return None,
        Ok(()) => "it is no folder".to_owned(),
        Err(error) => io_words(&error.into()),
    };
    Some(format!("folder in {table}, `{}`, cannot be used: `{}`: {why}", folder.display(), there.display()))
}

/// Why a file could not be read.
fn lack_of_file(file: &Path, key: &str) -> Option<String> {
    let error = access(file, Access::READ_OK).err()?;
    Some(format!("{key}, `{}`, cannot be read: {}", file.display(), io_words(&error.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_not_work_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().display();
        std::fs::write(folder.path().join("file"), "x").expect("it can be written");
        let text = format!(
            "[buffer]\nfolder = \"{root}/a/b\"\n[keep]\nfolder = \"{root}/file/k\"\n\
             [[destinations]]\nurl = \"https://h\"\nprotocol = \"otlp\"\nbearer_file = \"{root}/token\"\nca_file = \"{root}/file\"\n"
        );
        let config = AgentConfig::parse("agent.toml", &text).expect("it is right");
        let all = lacks(&config).join("\n");
        assert!(!all.contains("[buffer]") && !all.contains("ca_file"), "{all}");
        assert!(all.contains("folder in [keep]") && all.contains("bearer_file, `"), "{all}");
        assert!(!folder.path().join("a").exists(), "a check makes nothing");
    }
}
