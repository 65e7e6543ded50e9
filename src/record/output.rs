//! Where the profile goes: a new file of the user's own, or standard output.
//!
//! The file gets its name when sampling has begun, and grows by whole chunks: a killed recorder leaves a
//! readable profile. A recording that fails before leaves nothing, and what was there is still there: it is put aside
//! until a first piece of the new one is written.

use super::descriptors;
use super::options::Output;
use crate::failure::{Failure, status};
use crate::privilege;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

const DEFAULT_NAME: &str = "prof.data";

/// The destination of a profile.
#[derive(Debug)]
pub(super) struct Destination {
    path: Option<PathBuf>,
    may_replace: bool,
    keeps_old: bool,
}

impl Destination {
    /// Checks, before anything is started, that the output can be made.
    ///
    /// # Errors
    ///
    /// A [`Failure`] when the path is a folder, exists and may not be replaced, or lies in no folder that
    /// can be written.
    pub(super) fn check(output: &Output, expand: impl Fn(&Path) -> PathBuf) -> Result<Self, Failure> {
        privilege::as_user(|| Destination::check_as_user(output, expand))
    }

    fn check_as_user(output: &Output, expand: impl Fn(&Path) -> PathBuf) -> Result<Self, Failure> {
        let destination = match output {
            Output::Stdout => return Ok(Destination { path: None, may_replace: false, keeps_old: false }),
            Output::Default => {
                Destination { path: Some(PathBuf::from(DEFAULT_NAME)), may_replace: true, keeps_old: true }
            }
            Output::File { path, force } => {
                Destination { path: Some(expand(path)), may_replace: *force, keeps_old: false }
            }
        };
        let Some(path) = &destination.path else { return Ok(destination) };
        let shown = path.display();
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
            Ok(_) if !destination.may_replace => {
                return Err(Failure::new(
                    status::FAILED,
                    format!("cannot write `{shown}`: it exists already"),
                )
                .hint("replace it with -f, or name another file"));
            }
            Ok(_) => {}
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
        Ok(destination)
    }

    /// Creates the file, under a temporary name beside its own until [`Destination::commit`].
    pub(super) fn create(&self) -> Result<ProfileFile, Failure> {
        let (Some(path), Some(temporary)) = (&self.path, self.temporary()) else {
            return Ok(ProfileFile { out: Out::Stdout(io::stdout()), temporary: None });
        };
        let file = privilege::as_user(|| {
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
                .open(&temporary)?;
            give_to_invoking_user(&file);
            Ok(file)
        });
        let file = file.map_err(|error| write_failure(path, &error))?;
        Ok(ProfileFile { out: Out::File(file), temporary: Some(temporary) })
    }

    /// Removes a created file that was not given its name.
    pub(super) fn discard(&self) {
        if let Some(temporary) = self.temporary() {
            let _ = privilege::as_user(|| fs::remove_file(temporary));
        }
    }

    /// The path of the file; `None` for standard output.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn temporary(&self) -> Option<PathBuf> {
        let path = self.path.as_ref()?;
        Some(with_ending(path, &format!("{}.tmp", std::process::id())))
    }

    /// Gives the created file its name, now that the recording has begun. A file that has this name already is put aside
    /// until [`Placed::settle`] or [`Placed::undo`].
    pub(super) fn commit(&self) -> Result<Placed, Failure> {
        privilege::as_user(|| self.commit_as_user())
    }

    fn commit_as_user(&self) -> Result<Placed, Failure> {
        let (Some(path), Some(temporary)) = (&self.path, self.temporary()) else {
            return Ok(Placed::default());
        };
        let mut before = None;
        if fs::symlink_metadata(path).is_ok() {
            let aside = with_ending(path, &format!("{}.old", std::process::id()));
            // By a second name, so that there is a file at every moment; some file systems have no such names.
            if fs::hard_link(path, &aside).is_err() {
                fs::rename(path, &aside).map_err(|error| write_failure(&aside, &error))?;
            }
            before = Some(Before { aside, kept_as: self.keeps_old.then(|| with_ending(path, "old")) });
        }
        let placed = Placed { path: Some(path.clone()), before, kept_old: None };
        if let Err(error) = fs::rename(&temporary, path) {
            placed.put_back();
            return Err(write_failure(path, &error));
        }
        Ok(placed)
    }
}

/// `path.ending`.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

/// Where a profile has its place.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// The file; `None` for standard output.
    pub(super) path: Option<PathBuf>,
    /// The file that had this name, until it is known what becomes of it.
    before: Option<Before>,
    /// The name under which the file before it was kept.
    pub(super) kept_old: Option<PathBuf>,
}

/// A file that was put aside.
#[derive(Debug)]
struct Before {
    /// Where it is.
    aside: PathBuf,
    /// The name that it gets; without one it is removed.
    kept_as: Option<PathBuf>,
}

impl Placed {
    /// The new file is written: the one before it goes its way. Later calls do nothing.
    pub(super) fn settle(&mut self) {
        let Some(Before { aside, kept_as }) = self.before.take() else { return };
        privilege::as_user(|| match kept_as {
            // If it cannot be removed, the user has it twice, which is no loss.
            None => drop(fs::remove_file(aside)),
            Some(kept) => {
                let is_kept = fs::rename(&aside, &kept).is_ok();
                self.kept_old = Some(if is_kept { kept } else { aside });
            }
        });
    }

    /// Removes the file, and puts the one before it back.
    pub(super) fn undo(&self) {
        privilege::as_user(|| {
            if let Some(path) = self.path.as_ref().filter(|_| !self.put_back()) {
                // What cannot be removed was not made by us, or is gone.
                let _ = fs::remove_file(path);
            }
        });
    }

    /// Gives the file before it its name again, in place of the new one. Returns whether there is one.
    fn put_back(&self) -> bool {
        let (Some(path), Some(before)) = (&self.path, &self.before) else { return false };
        let is_back = fs::rename(&before.aside, path).is_ok();
        // Two names of one file are left as they are by renaming.
        let _ = is_back.then(|| fs::remove_file(&before.aside));
        is_back
    }
}

/// Under sudo the file belongs to the user who called it.
fn give_to_invoking_user(file: &File) {
    let id = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    if let (Some(uid), Some(gid), true) =
        (id("SUDO_UID"), id("SUDO_GID"), rustix::process::geteuid().is_root())
    {
        // Without the right to do so it stays root's: no reason to lose the recording.
        let _ = fchown(file, Some(uid), Some(gid));
    }
}

/// A failure to write `path`.
pub(super) fn write_failure(path: &Path, error: &io::Error) -> Failure {
    if descriptors::is_lack(error) {
        return descriptors::lack(&format!("cannot write `{}`", path.display()));
    }
    let hint = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space, or write elsewhere: -o /path/on/another/disk"
        }
        ErrorKind::FileTooLarge => "raise the limit (ulimit -f), or shorten the recording: -d 10s",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "write elsewhere: -o /tmp/prof.data",
        _ => "write elsewhere: -o FILE",
    };
    let why = match error.kind() {
        ErrorKind::StorageFull => "no space left on the disk".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::FileTooLarge => "the file size limit is reached".to_owned(),
        _ => error.to_string(),
    };
    Failure::new(status::FAILED, format!("cannot write `{}`: {why}", path.display())).hint(hint)
}

#[derive(Debug)]
enum Out {
    File(File),
    Stdout(io::Stdout),
}

/// The file that a recording writes.
#[derive(Debug)]
pub(super) struct ProfileFile {
    out: Out,
    temporary: Option<PathBuf>,
}

impl ProfileFile {
    /// Cuts the file to its first `bytes` bytes, the last border between whole chunks.
    pub(super) fn cut_to(&mut self, bytes: u64) {
        if let Out::File(file) = &self.out {
            // On a full disk cutting still works; if not, readers stop at the damage by themselves.
            let _ = file.set_len(bytes);
        }
    }

    /// Removes a file that was not given its name.
    pub(super) fn remove(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = privilege::as_user(|| fs::remove_file(temporary));
        }
    }
}

impl Write for ProfileFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::File(file) => file.write(bytes),
            Out::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::File(file) => file.flush(),
            Out::Stdout(stdout) => stdout.flush(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn to(path: &Path, force: bool) -> Output {
        Output::File { path: path.to_path_buf(), force }
    }

    fn check(output: &Output) -> Result<Destination, Failure> {
        Destination::check(output, Path::to_path_buf)
    }

    #[test]
    fn a_folder_an_existing_file_and_a_missing_folder_are_refused() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("x");
        let message = |output: &Output| check(output).map(|_| ()).unwrap_err().message;
        assert!(message(&to(folder.path(), true)).contains("it is a folder"));
        assert!(message(&to(&file.join("y"), false)).contains("there is no folder"));
        fs::write(&file, "old").expect("writes");
        assert!(message(&to(&file, false)).contains("it exists already"));
        assert!(check(&to(&file, true)).is_ok());
        assert_eq!(fs::read(&file).expect("reads"), b"old", "checking changes nothing");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/etc/passwd", &link).expect("links");
        assert!(message(&to(&link, true)).contains("not a regular file"));
    }

    #[test]
    fn a_new_file_is_private_and_a_failed_one_is_gone() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("x");
        let destination = check(&to(&path, false)).expect("fine");
        destination.create().expect("creates").remove();
        assert_eq!(fs::read_dir(folder.path()).expect("lists").count(), 0);
        let _file = destination.create().expect("creates");
        assert!(!path.exists(), "not before the recording has begun");
        let placed = destination.commit().expect("renames");
        assert_eq!(path.metadata().expect("exists").mode() & 0o777, 0o600);
        placed.undo();
        assert_eq!(fs::read_dir(folder.path()).expect("lists").count(), 0);
    }

    /// The names and contents of the files in a folder, in order.
    fn contents(folder: &Path) -> Vec<(String, String)> {
        let entries = fs::read_dir(folder).expect("lists").flatten();
        let mut files: Vec<(String, String)> = entries
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, fs::read_to_string(entry.path()).expect("reads"))
            })
            .collect();
        files.sort();
        files
    }

    fn named(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    /// What is in the folder after a recording to `x` that was begun and then `end`ed.
    fn after(keeps_old: bool, end: impl FnOnce(&mut Placed)) -> Vec<(String, String)> {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("x");
        fs::write(&path, "old").expect("writes");
        fs::write(with_ending(&path, "old"), "older").expect("writes");
        let destination = Destination { path: Some(path), may_replace: true, keeps_old };
        destination.create().expect("creates").write_all(b"new").expect("writes");
        end(&mut destination.commit().expect("renames"));
        contents(folder.path())
    }

    #[test]
    fn a_recording_that_fails_after_it_has_begun_leaves_the_one_before_it() {
        for keeps_old in [false, true] {
            assert_eq!(after(keeps_old, |placed| placed.undo()), named(&[("x", "old"), ("x.old", "older")]));
        }
    }

    #[test]
    fn a_recording_that_holds_samples_takes_the_place_of_the_one_before_it() {
        let settle = |placed: &mut Placed| {
            placed.settle();
            placed.settle();
        };
        assert_eq!(after(false, settle), named(&[("x", "new"), ("x.old", "older")]));
        assert_eq!(after(true, settle), named(&[("x", "new"), ("x.old", "old")]));
        let undone = |placed: &mut Placed| {
            placed.settle();
            placed.undo();
        };
        assert_eq!(after(false, undone), named(&[("x.old", "older")]), "there is none to put back");
    }

    #[test]
    fn a_file_that_cannot_get_its_name_leaves_it_to_the_one_before() {
        for keeps_old in [false, true] {
            let folder = tempfile::tempdir().expect("temporary folder");
            let path = folder.path().join("x");
            fs::write(&path, "old").expect("writes");
            let destination = Destination { path: Some(path), may_replace: true, keeps_old };
            destination.create().expect("creates").remove();
            destination.commit().expect_err("there is nothing to rename");
            assert_eq!(contents(folder.path()), named(&[("x", "old")]));
        }
    }

    #[test]
    fn names_expand() {
        let path = |text: &str| expand(Path::new(text), 7, "a/b", "T").display().to_string();
        assert_eq!(path("%c-%p-%t.%%d%"), "a_b-7-T.%d%");
        assert_eq!(path("%q"), "%q");
    }
}
