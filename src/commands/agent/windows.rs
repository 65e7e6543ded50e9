//! Complete windows on their way from the recorder to their users: a link in the folder of each destination, and in the folder of
//! recordings that stay on this host. A file is removed from where the recorder has put it once all have it.

use super::folders::{make_folder, recorded_folder, waiting_folder, waiting_folders};
use crate::agent::config::AgentConfig;
use crate::base::failure::Failure;
use crate::base::own_file;
use crate::profile::lock;
use crate::push::buffer::{BufferLimits, PushBuffer};
use crate::record::{Keep, WindowFolder, another_window_name};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most folders of destinations that are gone.
const MOST_FORGOTTEN: usize = 100;
/// Most windows that are taken at a time.
const MOST_AT_ONCE: usize = 1_000;
/// Names that are tried for a window in a folder.
const MOST_NAMES: u32 = 100;

/// Where windows come from and go to.
pub(super) struct WindowRoutes {
    from: PathBuf,
    /// Folders of destinations.
    to: Vec<PathBuf>,
    kept: Option<(PathBuf, WindowFolder)>,
    /// What waits for destinations that the configuration has no more.
    forgotten: BTreeMap<PathBuf, PushBuffer>,
    buffer: PathBuf,
    limits: BufferLimits,
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
        for folder in to.iter().chain([&from]) {
            make_folder(folder, "[buffer]")?;
        }
        if let Some((folder, _)) = &kept {
            make_folder(folder, "[keep]")?;
        }
        let (buffer, limits) = (config.buffer.folder.clone(), limits_of(config));
        Ok(WindowRoutes { from, to, kept, forgotten: BTreeMap::new(), buffer, limits })
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
        let sent = sent.map(|folder| (folder, "[buffer]"));
        for (folder, table) in sent.chain(self.kept.iter().map(|(folder, _)| (folder, "[keep]"))) {
            // Someone may have removed the folder.
            let made = make_folder(folder, table).map_err(|failure| io::Error::other(failure.message));
            if let Err(error) = made.and_then(|()| add_to_folder(window, folder.join(name))) {
                refused.push((folder.clone(), error));
            }
        }
        fs::remove_file(window)?;
        Ok(refused)
    }

    /// The folders of destinations that the configuration has no more.
    pub(super) fn forgotten(&self) -> Vec<PathBuf> {
        self.forgotten.keys().cloned().collect()
    }

    /// Looks for what waits for destinations that the configuration has no more: it stays within the limits of the buffer, should they
    /// come back. Returns how many windows had to go.
    pub(super) fn prune_forgotten(&mut self) -> u64 {
        let gone = waiting_folders(&self.buffer).filter(|path| !self.to.contains(path));
        for path in gone.take(MOST_FORGOTTEN) {
            let new = || PushBuffer::new(path.clone(), self.limits);
            self.forgotten.entry(path.clone()).or_insert_with(new);
        }
        let mut dropped = 0;
        self.forgotten.retain(|path, buffer| {
            dropped += buffer.prune().map_or(0, |removed| removed.len() as u64);
            // Only if it is empty.
            fs::remove_dir(path).is_err() && path.is_dir()
        });
        dropped
    }

    /// Removes recordings that have been kept for long enough. Returns the bytes of those that stay.
    pub(super) fn prune_kept(&mut self) -> u64 {
        let Some((folder, windows)) = &mut self.kept else { return 0 };
        windows.prune();
        files_in(folder).1
    }
}

/// The limits of what waits for a destination.
pub(super) fn limits_of(config: &AgentConfig) -> BufferLimits {
    BufferLimits {
        most_bytes: config.buffer.most_bytes,
        most_age: config.buffer.most_age,
        ..BufferLimits::default()
    }
}

/// The number of files in a folder, and their bytes.
pub(super) fn files_in(folder: &Path) -> (u64, u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size))
}

/// Adds a window to a folder as `wanted`, or under another name where another window has that: the clock was set back, or summer time
/// has ended.
fn add_to_folder(window: &Path, wanted: PathBuf) -> io::Result<()> {
    let others = (0..MOST_NAMES).map(|attempt| another_window_name(&wanted, attempt));
    for path in [wanted.clone()].into_iter().chain(others) {
        match link_or_copy(window, &path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // It may have been handed on before an earlier sender ended. If that is not known, it is there twice, and not lost.
                if is_same(window, &path).unwrap_or(false) {
                    return Ok(());
                }
            }
            added => return added,
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Gives a file a second name, or, on another file system, copies it under a name of its own first. Nothing is replaced.
fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            let unfinished = to.with_extension("part");
            let copied = fs::copy(from, &unfinished).and_then(|_| name_copy(&unfinished, to));
            if copied.is_err() {
                // A part of a window takes room, and no one removes it.
                let _ = fs::remove_file(&unfinished);
            }
            copied
        }
        linked => linked,
    }
}

/// Gives a copy its name, which nothing must have.
fn name_copy(unfinished: &Path, to: &Path) -> io::Result<()> {
    match own_file::rename_new(unfinished, to) {
        // The file system has neither links nor renames that replace nothing. No one else adds files to a folder of the agent.
        Err(error) if error.kind() != ErrorKind::AlreadyExists && fs::symlink_metadata(to).is_err() => {
            fs::rename(unfinished, to)
        }
        named => named,
    }
}

/// Whether a window is in a folder already: it is the same file, or, on another file system, a copy.
fn is_same(window: &Path, there: &Path) -> io::Result<bool> {
    let (own, other) = (fs::symlink_metadata(window)?, fs::symlink_metadata(there)?);
    if own.dev() == other.dev() {
        return Ok(own.ino() == other.ino());
    }
    if !other.is_file() || own.len() != other.len() {
        return Ok(false);
    }
    let [own, other] = [window, there].map(|path| File::open(path).map(BufReader::new));
    let (mut own, mut other) = (own?.bytes(), other?.bytes());
    loop {
        match (own.next().transpose()?, other.next().transpose()?) {
            (None, None) => return Ok(true),
            (own, other) if own != other => return Ok(false),
            _ => {}
        }
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

    /// Adds a window of that text to the folder of the recorder, and has it handed on.
    fn hand_on(routes: &mut WindowRoutes, name: &str, text: &str) -> Vec<(PathBuf, io::Error)> {
        let window = routes.from.join(name);
        fs::write(&window, text).expect("it can be written");
        let refused = routes.hand_on(&window, true).expect("it can be removed");
        assert!(!window.exists());
        refused
    }

    /// What is in the files of a folder.
    fn texts(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("it is there").flatten();
        let mut texts: Vec<String> =
            entries.map(|entry| fs::read_to_string(entry.path()).expect("it can be read")).collect();
        texts.sort();
        texts
    }

    #[test]
    fn windows_of_a_time_that_comes_twice_are_all_kept_and_sent() {
        const NAME: &str = "prof-20261025-023000.data";
        let folder = tempfile::tempdir().expect("a folder");
        // On another file system, if there is one.
        let other = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
        for kept in [folder.path().join("k"), other.path().join("k")] {
            let text = format!(
                "[buffer]\nfolder = \"{}/b\"\n[keep]\nfolder = \"{}\"\n\
                 [[destinations]]\nurl = \"http://127.0.0.1:1\"\nprotocol = \"otlp\"\n",
                folder.path().display(),
                kept.display()
            );
            let config = AgentConfig::parse("agent.toml", &text).expect("it is right");
            let mut routes = WindowRoutes::of(&config).expect("folders can be made");
            for window in ["1", "2", "3"] {
                assert!(hand_on(&mut routes, NAME, window).is_empty());
            }
            let waiting = routes.waiting()[0].clone();
            for place in [&waiting, &kept] {
                assert_eq!(texts(place), ["1", "2", "3"], "{}", place.display());
                assert_eq!(fs::read_to_string(place.join(NAME)).expect("it stays"), "1");
                assert!(place.join("prof-20261025-023000-2.data").exists());
            }
            fs::remove_dir_all(&waiting).expect("it can be removed");
        }
    }

    #[test]
    fn a_window_that_an_earlier_sender_had_handed_on_is_so_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let other = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
        let window = folder.path().join("prof-1.data");
        fs::write(&window, "window").expect("it can be written");
        for place in [folder.path().join("k"), other.path().join("k")] {
            fs::create_dir(&place).expect("it can be made");
            for _ in 0..2 {
                add_to_folder(&window, place.join("prof-1.data")).expect("there is room");
            }
            assert_eq!(texts(&place), ["window"]);
        }
    }

    #[test]
    fn a_window_without_a_name_is_refused_and_replaces_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = AgentConfig::keeping_below(folder.path());
        let mut routes = WindowRoutes::of(&config).expect("folders can be made");
        for number in 0..=MOST_NAMES {
            assert!(hand_on(&mut routes, "prof-1.data", &number.to_string()).is_empty(), "{number}");
        }
        // It is counted by the one who asks.
        assert_eq!(hand_on(&mut routes, "prof-1.data", "one more").len(), 1);
        assert_eq!(texts(&folder.path().join("k")).len() as u32, MOST_NAMES + 1);
    }

    #[test]
    fn what_waits_for_a_destination_that_is_gone_stays_within_the_limits() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = |url| {
            format!(
                "[buffer]\nfolder = \"{}/b\"\nmax_size = \"1MiB\"\n[[destinations]]\nurl = \"http://127.0.0.1:{url}\"\nprotocol = \"otlp\"\n",
                folder.path().display()
            )
        };
        let config = |url| AgentConfig::parse("agent.toml", &text(url)).expect("it is right");
        let before = WindowRoutes::of(&config(1)).expect("folders can be made").waiting()[0].clone();
        for name in ["1.data", "2.data", "3.data"] {
            fs::write(before.join(name), vec![0; 400 << 10]).expect("it can be written");
        }
        let mut routes = WindowRoutes::of(&config(2)).expect("folders can be made");
        // The disk of a test may be nearly full: then more has to go.
        assert!(routes.prune_forgotten() >= 1 && !before.join("1.data").exists());
        assert_eq!(routes.forgotten(), std::slice::from_ref(&before));
        assert_eq!(routes.prune_forgotten(), 0);
        for left in fs::read_dir(&before).expect("it is there").flatten() {
            fs::remove_file(left.path()).expect("it can be removed");
        }
        routes.prune_forgotten();
        assert!(!before.exists() && routes.forgotten().is_empty());
        assert!(routes.waiting()[0].exists(), "it is in use");
    }
}
