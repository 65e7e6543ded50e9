//! Complete windows on their way from the recorder to their users: a link in the folder of each destination, and in the folder of
//! recordings that stay on this host. A file is removed from where the recorder has put it once all have it.

use super::folders::{make_folder, recorded_folder, waiting_folder};
use crate::agent::config::AgentConfig;
use crate::base::failure::Failure;
use crate::profile::lock;
use crate::record::{Keep, WindowFolder};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Most windows that are taken at a time.
const MOST_AT_ONCE: usize = 1_000;

/// Where windows come from and go to.
pub(super) struct WindowRoutes {
    from: PathBuf,
    /// Folders of destinations.
    to: Vec<PathBuf>,
    kept: Option<(PathBuf, WindowFolder)>,
}

impl WindowRoutes {
    /// The folders of a configuration, which are made if they are not there.
    ///
    /// # Errors
    ///
    /// When one cannot be made.
    pub(super) fn of(config: &AgentConfig) -> Result<Self, Failure> {
        let to: Vec<PathBuf> = (config.destinations.iter().enumerate())
            .map(|(number, to)| waiting_folder(config, number, &to.name))
            .collect();
        let from = recorded_folder(config);
        let kept = config.keep.as_ref().map(|keep| {
            let limits = Keep { age: Some(keep.most_age), bytes: Some(keep.most_bytes) };
            (keep.folder.clone(), WindowFolder::new(keep.folder.clone(), limits))
        });
        for folder in to.iter().chain([&from]).chain(kept.iter().map(|(folder, _)| folder)) {
            make_folder(folder)?;
        }
        Ok(WindowRoutes { from, to, kept })
    }

    /// Folders of the destinations, in the order of the configuration.
    pub(super) fn waiting(&self) -> &[PathBuf] {
        &self.to
    }

    /// The complete windows that no one has yet, the oldest first.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub(super) fn complete(&self) -> io::Result<Vec<PathBuf>> {
        let mut found: Vec<PathBuf> = fs::read_dir(&self.from)?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "data"))
            .take(MOST_AT_ONCE)
            .filter(|path| lock::open_regular(path).is_some_and(|file| !lock::is_written(&file)))
            .collect();
        found.sort();
        Ok(found)
    }

    /// Hands a window on. With `is_sent` false it is only kept. Returns the folders that could not have it, each with the reason: the
    /// others have it, and no window waits for a folder.
    ///
    /// # Errors
    ///
    /// When it cannot be removed from where the recorder has put it.
    pub(super) fn hand_on(&mut self, window: &Path, is_sent: bool) -> io::Result<Vec<(PathBuf, io::Error)>> {
        let Some(name) = window.file_name() else { return Ok(Vec::new()) };
        let sent = self.to.iter().filter(|_| is_sent);
        let mut refused = Vec::new();
        for folder in sent.chain(self.kept.iter().map(|(folder, _)| folder)) {
            // Someone may have removed the folder.
            let made = make_folder(folder).map_err(|failure| io::Error::other(failure.message));
            if let Err(error) = made.and_then(|()| link_or_copy(window, &folder.join(name))) {
                refused.push((folder.clone(), error));
            }
        }
        fs::remove_file(window)?;
        Ok(refused)
    }

    /// Removes recordings that have been kept for long enough. Returns the bytes of those that stay.
    pub(super) fn prune_kept(&mut self) -> u64 {
        let Some((folder, windows)) = &mut self.kept else { return 0 };
        windows.prune();
        files_in(folder).1
    }
}

/// The number of files in a folder, and their bytes.
pub(super) fn files_in(folder: &Path) -> (u64, u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size))
}

/// Gives a file a second name, or, on another file system, copies it under a name of its own first.
fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        // It was handed on before an earlier sender ended.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            let unfinished = to.with_extension("part");
            fs::copy(from, &unfinished)?;
            fs::rename(&unfinished, to)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_go_to_all_and_those_that_are_written_wait() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "[buffer]\nfolder = \"{0}/b\"\n[keep]\nfolder = \"{0}/k\"\n\
             [[destinations]]\nname = \"a/b c\"\nurl = \"http://127.0.0.1:1\"\nprotocol = \"otlp\"\n\
             [[destinations]]\nurl = \"http://127.0.0.1:2\"\nprotocol = \"pyroscope\"\n",
            folder.path().display()
        );
        let config = AgentConfig::parse("agent.toml", &text).expect("it is right");
        let mut routes = WindowRoutes::of(&config).expect("folders can be made");
        let from = recorded_folder(&config);
        for name in ["prof-20261129-140000.data", "prof-20261129-140015.data", "other.tmp"] {
            fs::write(from.join(name), name).expect("it can be written");
        }
        let written = fs::File::open(from.join("prof-20261129-140015.data")).expect("it is there");
        assert!(lock::lock(&written));
        let complete = routes.complete().expect("it can be read");
        assert_eq!(complete, [from.join("prof-20261129-140000.data")]);
        assert!(routes.hand_on(&complete[0], true).expect("it can be removed").is_empty());
        let waiting = routes.waiting().to_vec();
        assert!(waiting[0].ends_with("to-0-a_b_c") && waiting.len() == 2);
        for place in waiting.iter().chain([&folder.path().join("k")]) {
            let text = fs::read_to_string(place.join("prof-20261129-140000.data"));
            assert_eq!(text.expect("it was handed on"), "prof-20261129-140000.data");
        }
        drop(written);
        let complete = routes.complete().expect("it can be read");
        routes.hand_on(&complete[0], false).expect("there is room");
        assert!(!waiting[0].join("prof-20261129-140015.data").exists(), "it is not sent");
        assert!(folder.path().join("k/prof-20261129-140015.data").exists());
        assert!(routes.complete().expect("it can be read").is_empty());
    }
}
