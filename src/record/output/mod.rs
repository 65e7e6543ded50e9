//! Where the profile goes: a new file of the user's own, or standard output; and what the console says of it. The file gets its
//! name when sampling has begun, and grows by whole chunks: a killed recorder leaves a readable profile, and what was there
//! before is put aside until then. While it is written it is locked ([`crate::profile::lock`]). What is in the profile is decided
//! elsewhere.

pub(crate) mod announce;
pub(crate) mod console;
pub(crate) mod end_block;
pub(crate) mod failure;
mod growing_file;
mod leftovers;
mod placed;
pub(super) mod service;
mod steps;
pub(super) mod window_folder;

/// The date and time where the user is: `20261121-133700`.
pub(super) fn local_time() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    local_time_at(since.as_secs())
}

/// The same of a moment, in seconds since the Unix epoch.
pub(super) fn local_time_at(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or(0);
    // SAFETY: the call only fills the structure that is given to it; an all-zero one is valid.
    let now = unsafe {
        let mut now: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const seconds, &raw mut now);
        now
    };
    let (year, month) = (now.tm_year + 1900, now.tm_mon + 1);
    let (day, hour, minute, second) = (now.tm_mday, now.tm_hour, now.tm_min, now.tm_sec);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests;

use super::options::Output;
use crate::base::failure::{Failure, status};
use crate::base::{opener, own_file, privilege};
use crate::profile::lock::{self, Sibling};
use crate::record::output::failure::write_failure;
use growing_file::GrowingFile;
use placed::New;
pub(super) use placed::{Placed, Unplaced};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use steps::OutputStep;
use window_folder::{Pruned, WINDOW_NAME, WindowFolder};

const DEFAULT_NAME: &str = "prof.data";

/// The destination of a profile.
#[derive(Debug, Default)]
pub(super) struct Destination {
    path: Option<PathBuf>,
    may_replace: bool,
    keeps_old: bool,
    /// One of many in its folder, which is made if it does not exist.
    is_window: bool,
    /// Facts that the user should know.
    pub(super) notices: Vec<String>,
}

impl Destination {
    /// Checks, before anything is started, that the output can be made.
    ///
    /// # Errors
    ///
    /// A [`Failure`] when the path is a folder, exists and may not be replaced, is being written by another recorder, or
    /// lies in no folder that can be written.
    pub(super) fn check(output: &Output, expand: impl Fn(&Path) -> PathBuf) -> Result<Self, Failure> {
        let mut destination = match output {
            Output::Stdout => Destination::default(),
            Output::Default => Destination::new(PathBuf::from(DEFAULT_NAME), true, true),
            Output::File { path, force } => Destination::new(expand(path), *force, false),
            Output::Folder { path, .. } => Destination {
                is_window: true,
                ..Destination::new(expand(&path.join(WINDOW_NAME)), false, false)
            },
        };
        if let Some(path) = destination.path.as_ref().filter(|_| opener::makes_files()) {
            let (place, _) = steps::take(&OutputStep::Check(steps::bytes(path)))?;
            destination.notices = place.notices;
        } else if let Some(path) = &destination.path {
            destination.notices = privilege::as_user(|| {
                let notices = leftovers::clean_up(path, destination.keeps_old);
                destination.check_path(path).map(|()| notices)
            })?;
        }
        Ok(destination)
    }

    fn new(path: PathBuf, may_replace: bool, keeps_old: bool) -> Self {
        Destination { path: Some(path), may_replace, keeps_old, ..Destination::default() }
    }

    fn check_path(&self, path: &Path) -> Result<(), Failure> {
        let shown = path.display();
        if self.is_window {
            return WindowFolder::make(path.parent().unwrap_or(Path::new(".")));
        }
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(Failure::new(status::FAILED, format!("cannot write `{shown}`: it is a folder"))
                    .hint(format!("name a file in it: -o {}", path.join(DEFAULT_NAME).display())));
            }
            Ok(metadata) if !metadata.is_file() => {
                return Err(Failure::new(
                    status::FAILED,
                    format!("cannot write `{shown}`: it is not a regular file"),
                )
                .hint("name another file, or use -o - for standard output"));
            }
            Ok(_) => {
                if let Some(writer) = lock::writer_of(path) {
                    let message = format!("cannot write `{shown}`: it is being written by {writer}");
                    return Err(Failure::new(status::FAILED, message)
                        .hint("wait until it ends, or name another file: -o FILE"));
                }
                if !self.may_replace {
                    return Err(Failure::new(
                        status::FAILED,
                        format!("cannot write `{shown}`: it exists already"),
                    )
                    .hint("replace it with -f, or name another file"));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                    return Err(Failure::new(
                        status::FAILED,
                        format!("cannot write `{shown}`: there is no folder `{}`", folder.display()),
                    )
                    .hint(format!("create it: mkdir -p {}", folder.display())));
                }
            }
            Err(error) => return Err(write_failure(path, &error)),
        }
        Ok(())
    }

    /// Creates the file, under a temporary name next to its own until [`Unplaced::place`].
    pub(super) fn create(&self) -> Result<(ProfileFile, Unplaced), Failure> {
        let Some(path) = &self.path else {
            return Ok((ProfileFile::Stdout(io::stdout()), Unplaced::default()));
        };
        if opener::makes_files() {
            let (_, file) = steps::take(&OutputStep::Create(steps::bytes(path)))?;
            let file = file.ok_or_else(|| write_failure(path, &ErrorKind::Other.into()))?;
            let file = GrowingFile::new(File::from(file));
            return Ok((ProfileFile::File(file), Unplaced { new: None, is_remote: true }));
        }
        let (temporary, file) =
            privilege::as_user(|| create_unfinished(path)).map_err(|error| write_failure(path, &error))?;
        let new = file.try_clone().map(|file| New {
            file,
            temporary,
            path: path.clone(),
            may_replace: self.may_replace,
            keeps_old: self.keeps_old,
            is_window: self.is_window,
        });
        let new = new.map_err(|error| write_failure(path, &error))?;
        Ok((ProfileFile::File(GrowingFile::new(file)), Unplaced { new: Some(new), is_remote: false }))
    }

    /// Removes windows from the folder `local`, or that of the opener, which are not to stay.
    pub(super) fn prune(local: &mut WindowFolder) -> Pruned {
        if opener::makes_files() {
            // An opener that has ended removes nothing any more.
            return steps::take(&OutputStep::Prune).map_or(Pruned::default(), |(place, _)| place.pruned);
        }
        privilege::as_user(|| local.prune())
    }

    /// The path of the file; `None` for standard output.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// A new file next to `path`, locked so that no one takes it for what a killed recorder left.
fn create_unfinished(path: &Path) -> io::Result<(PathBuf, File)> {
    /// There may be files of recorders with the same process id, in other containers or earlier.
    const MOST_NAMES: u32 = 100;
    for attempt in 0..MOST_NAMES {
        let temporary = Sibling::Unfinished.name(path, attempt);
        let file = match own_file::create(&temporary) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            created => created?,
        };
        // Another recorder may have taken it for an abandoned file before it was locked.
        if !lock::lock(&file) || placed::is_at(&file, &temporary) {
            return Ok((temporary, file));
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// The file that a recording writes.
#[derive(Debug)]
pub(super) enum ProfileFile {
    File(GrowingFile),
    Stdout(io::Stdout),
    /// Not written: there is no room for it.
    Nowhere,
}

impl ProfileFile {
    /// Cuts the file to its first `bytes` bytes, the last border between whole chunks. Then `end` is appended.
    pub(super) fn cut_to(&mut self, bytes: u64, end: &[u8]) {
        if let ProfileFile::File(file) = self {
            file.end_at(bytes, end);
        }
    }

    /// Has the disk keep what was written, whatever becomes of the machine.
    ///
    /// # Errors
    ///
    /// When the disk did not take all of it.
    pub(super) fn sync(&self) -> io::Result<()> {
        match self {
            ProfileFile::File(file) => file.sync(),
            ProfileFile::Stdout(_) | ProfileFile::Nowhere => Ok(()),
        }
    }
}

impl Write for ProfileFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ProfileFile::File(file) => file.write(bytes),
            ProfileFile::Stdout(stdout) => stdout.write(bytes),
            ProfileFile::Nowhere => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            ProfileFile::File(file) => file.flush(),
            ProfileFile::Stdout(stdout) => stdout.flush(),
            ProfileFile::Nowhere => Ok(()),
        }
    }
}

/// Replaces `%p` by the process id, `%c` by the target's name and `%t` by the local date and time; `%%` is a
/// percent sign.
pub(super) fn expand(path: &Path, pid: u32, name: &str, time: &str) -> PathBuf {
    let text = path.to_string_lossy();
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('p') => out.push_str(&pid.to_string()),
            Some('c') => out.extend(name.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c })),
            Some('t') => out.push_str(time),
            Some('%') => out.push('%'),
            Some(other) => out.extend(['%', other]),
            None => out.push('%'),
        }
    }
    PathBuf::from(out)
}
