//! Writing an output file whole or not at all.
//!
//! The bytes go to a new file next to the destination, which then takes its name: a reader never sees
//! half a file, and a full disk leaves nothing. Links are never followed, folders and devices
//! never replaced. Like a profile, the file tells what was running: only its owner may read it.

use crate::base::failure::{self, Failure, status};
use crate::base::own_file::FileStamp;
use crate::base::{opener, privilege, safe_text};
use crate::profile::lock;
use crate::report::input::Input;
use crate::report::options::ReportDestination;
use anyhow::Context;
use rustix::fs::FileType;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Names that are tried for the file next to the destination.
const MOST_ATTEMPTS: u32 = 100;

/// Number of bytes that are written at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// Whether `destination` could be written, as far as that is known without touching it: asked first, so
/// that no work is done in vain.
///
/// # Errors
///
/// When it exists and is not a regular file that may be replaced.
pub(crate) fn check(destination: &ReportDestination) -> Result<(), Failure> {
    let ReportDestination::File { path, force } = destination else { return Ok(()) };
    let shown = path.display();
    let refuse = |why: &str| Failure::new(status::FAILED, format!("cannot write `{shown}`: {why}"));
    let found = match opener::look(path, false) {
        Ok(seen) => seen.kind(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refuse(&error.to_string())),
    };
    match found {
        FileType::RegularFile if *force => match privilege::as_user(|| lock::writer_of(path)) {
            Some(recorder) => Err(refuse(&format!("{recorder} is recording into it"))
                .hint("wait until that has ended, or name another file")),
            None => Ok(()),
        },
        FileType::RegularFile => Err(refuse("it exists").hint("to replace it:  -f")),
        FileType::Directory => Err(refuse("it is a folder").hint("name a file in it:  -o FOLDER/NAME")),
        FileType::Symlink => {
            Err(refuse("it is a symbolic link, which prof does not follow").hint("name the file itself"))
        }
        _ => Err(refuse("it is not a regular file").hint("for a pipe or device:  -o - and redirect")),
    }
}

/// Checks that `destination` is not the file that is read, under whatever name: not even `-f` is meant to lose a recording.
///
/// # Errors
///
/// When it is.
pub(crate) fn check_not_input(destination: &ReportDestination, input: &Input) -> Result<(), Failure> {
    let ReportDestination::File { path, .. } = destination else { return Ok(()) };
    let read = match input {
        Input::File(path) | Input::Span(path, _) => opener::look(path, true).map(|seen| seen.stamp),
        Input::Stdin => {
            io::stdin().as_fd().try_clone_to_owned().and_then(|stdin| FileStamp::of(&File::from(stdin)))
        }
    };
    let (Ok(read), Ok(written)) = (read, opener::look(path, false)) else { return Ok(()) };
    if !read.is_of_same_file(&written.stamp) {
        return Ok(());
    }
    let message = format!("cannot write `{}`: it is the recording being read", path.display());
    Err(Failure::new(status::FAILED, message).hint("name another file:  -o NAME"))
}

/// Says on standard error what a written file lacks.
pub(crate) fn say_notes(notes: &[String]) {
    for note in notes {
        let line = format!("note: {note}");
        // If standard error is closed, there is nowhere to print it.
        let _ = writeln!(io::stderr().lock(), "{}", safe_text::message(&line));
    }
}

/// Has `write` write to `destination`.
///
/// # Errors
///
/// As [`check`], and when the disk is full or the folder cannot be written; nothing half-written stays.
pub(crate) fn write_with(
    destination: &ReportDestination,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    check(destination)?;
    let write = |out: &mut dyn Write| {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
        write(&mut out).and_then(|()| out.flush())
    };
    let ReportDestination::File { path, force } = destination else {
        return write(&mut io::stdout().lock()).context("cannot write to standard output");
    };
    let cannot = || format!("cannot write `{}`", path.display());
    let (temporary, mut file) = create_next_to(path).with_context(cannot)?;
    let placed = write(&mut file).and_then(|()| take_name(&temporary, path, *force));
    if placed.is_err() {
        opener::remove_new_file(&temporary);
    }
    placed.with_context(cannot)
}

/// Replaces the regular file at `path`, as it was when its contents were read, by one that holds `bytes` and belongs to the same
/// user.
///
/// # Errors
///
/// When another file is there or it was written meanwhile, when there is something else than a regular file, the disk is full, or
/// the folder cannot be written; nothing half-written stays.
pub(crate) fn replace_file(path: &Path, was: FileStamp, bytes: &[u8]) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    check(&ReportDestination::File { path: path.to_owned(), force: true })?;
    let (temporary, mut file) = create_next_to(path).with_context(cannot)?;
    let placed = file.write_all(bytes).and_then(|()| opener::replace_same(&temporary, path, was));
    if placed.is_err() {
        opener::remove_new_file(&temporary);
    }
    Ok(placed.map_err(|error| {
        let failure = Failure::new(status::FAILED, format!("{}: {}", cannot(), failure::io_words(&error)));
        match error.kind() {
            io::ErrorKind::AlreadyExists => failure.hint("what is there was not changed; try again"),
            _ => failure,
        }
    })?)
}

/// A new file in the folder of `path`.
fn create_next_to(path: &Path) -> io::Result<(PathBuf, File)> {
    for attempt in 0..MOST_ATTEMPTS {
        let temporary =
            opener::unfinished(path, attempt).ok_or_else(|| io::Error::other("it names no file"))?;
        match opener::new_file(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many unfinished files with that name"))
}

/// Gives the finished file its name. Without `force` a file that came to be in the meantime stays.
fn take_name(temporary: &Path, path: &Path, force: bool) -> io::Result<()> {
    if force { opener::replace(temporary, path) } else { opener::name_new_file(temporary, path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode};
    use std::os::unix::fs::MetadataExt;

    fn write(destination: &ReportDestination, bytes: &[u8]) -> anyhow::Result<()> {
        write_with(destination, |out| out.write_all(bytes))
    }

    fn file(path: PathBuf, force: bool) -> ReportDestination {
        ReportDestination::File { path, force }
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_a_recorder_writes_is_not_replaced_even_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prof.data");
        let recorded = File::create(&path).unwrap();
        assert!(lock::lock(&recorded));
        let failure = write(&file(path.clone(), true), b"two").unwrap_err().downcast::<Failure>().unwrap();
        assert!(failure.message.ends_with("is recording into it"), "{failure}");
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        drop(recorded);
        write(&file(path.clone(), true), b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
    }

    #[test]
    fn an_existing_file_is_replaced_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.svg");
        write(&file(path.clone(), false), b"one").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600, "others may not read it");
        let error = write(&file(path.clone(), false), b"two").unwrap_err();
        assert!(error.to_string().ends_with("it exists"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        write(&file(path.clone(), true), b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(names(folder.path()), ["out.svg"]);
    }

    #[test]
    fn links_folders_and_pipes_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        std::fs::write(&target, "precious").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        for path in [link, fifo, folder.path().to_owned()] {
            assert!(write(&file(path.clone(), true), b"x").is_err(), "{}", path.display());
        }
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
        assert_eq!(names(folder.path()), ["fifo", "link", "target"]);
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let (temporary, mut new) = create_next_to(&path).unwrap();
        new.write_all(b"new").unwrap();
        std::fs::write(&path, "old").unwrap();
        assert!(take_name(&temporary, &path, false).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        take_name(&temporary, &path, true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn the_recording_that_is_read_is_not_replaced_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("prof.data"), folder.path().join("other"));
        let (link, hard) = (folder.path().join("link"), folder.path().join("hard"));
        std::fs::write(&path, "a recording").unwrap();
        std::fs::write(&other, "x").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        std::fs::hard_link(&path, &hard).unwrap();
        let around = folder.path().join(".").join("prof.data");
        for (read, written) in [(&path, &path), (&around, &path), (&link, &path), (&path, &hard)] {
            let refused = check_not_input(&file(written.clone(), true), &Input::File(read.clone()));
            assert!(refused.is_err(), "{} to {}", read.display(), written.display());
        }
        for written in [other, folder.path().join("new")] {
            assert!(check_not_input(&file(written, true), &Input::File(path.clone())).is_ok());
        }
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(&file(folder.path().join("no/out"), false), b"x").unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("no/out`: No such file"), "{text}");
    }
}
