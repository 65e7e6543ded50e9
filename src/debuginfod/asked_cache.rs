//! The cache of debug files, by the process that may write there: for a process without rights its opener takes each step.

use super::cache::{self, Cached, Unnamed};
use crate::base::opener::{self, Service};
use crate::base::privilege;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Longest build ID, characters.
const LONGEST_ID: usize = 128;

/// A step, and the build whose file it is about.
#[derive(Debug, Serialize, Deserialize)]
struct CacheRequest {
    step: CacheStep,
    build_id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum CacheStep {
    /// Looks a build up.
    Look,
    /// Makes a file without a name.
    Make,
    /// Gives the file that comes with the step its name.
    Keep,
    /// Notes that no server has it.
    NoteMiss,
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum CacheAnswer {
    /// A file comes with it, which is in the cache, or can be kept there.
    Kept,
    /// A file may come with it, which is not.
    NotKept,
    /// No server had it a moment ago.
    Miss,
}

/// [`cache::look`].
pub(super) fn look(folder: &Path, build_id: &str) -> Cached {
    if !opener::makes_files() {
        return cache::look(folder, build_id);
    }
    match ask(CacheStep::Look, build_id, None) {
        Ok((CacheAnswer::Kept, Some(file))) => Cached::File(file.into(), cache::place(folder, build_id)),
        Ok((CacheAnswer::Miss, _)) => Cached::Miss,
        _ => Cached::Unknown,
    }
}

/// [`Unnamed::new`].
///
/// # Errors
///
/// When no file can be made.
pub(super) fn make(folder: Option<&Path>, build_id: &str) -> io::Result<Unnamed> {
    if !opener::makes_files() {
        return Unnamed::new(folder, build_id);
    }
    match ask(CacheStep::Make, build_id, None)? {
        (answer, Some(file)) => {
            let place = folder.filter(|_| answer == CacheAnswer::Kept);
            Ok(Unnamed { file: file.into(), place: place.map(|folder| cache::place(folder, build_id)) })
        }
        _ => Err(io::ErrorKind::Other.into()),
    }
}

/// [`Unnamed::keep`].
pub(super) fn keep(unnamed: &Unnamed, build_id: &str) -> Option<PathBuf> {
    if !opener::makes_files() {
        return unnamed.keep();
    }
    let path = unnamed.place.clone()?;
    let kept = ask(CacheStep::Keep, build_id, Some(&unnamed.file));
    matches!(kept, Ok((CacheAnswer::Kept, _))).then_some(path)
}

/// [`cache::note_miss`].
pub(super) fn note_miss(folder: &Path, build_id: &str) {
    if !opener::makes_files() {
        return cache::note_miss(folder, build_id);
    }
    // That it cannot be noted costs another question.
    let _ = ask(CacheStep::NoteMiss, build_id, None);
}

fn ask(step: CacheStep, build_id: &str, file: Option<&File>) -> io::Result<(CacheAnswer, Option<OwnedFd>)> {
    let body = serde_json::to_vec(&CacheRequest { step, build_id: build_id.to_owned() })?;
    let (answer, file) = opener::ask_service(Service::DebugFiles, body, file.map(File::as_fd))?;
    Ok((serde_json::from_slice(&answer)?, file))
}

/// Takes a step for a process without rights, in the cache in `folder`.
///
/// # Errors
///
/// When what is asked for is no build ID, and those of the step.
pub(crate) fn serve(
    folder: Option<&Path>,
    body: &[u8],
    file: Option<OwnedFd>,
) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let CacheRequest { step, build_id } = serde_json::from_slice(body)?;
    let is_hex = build_id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if build_id.is_empty() || build_id.len() > LONGEST_ID || !is_hex {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let (answer, file) = privilege::as_user(|| take(step, folder, &build_id, file))?;
    Ok((serde_json::to_vec(&answer)?, file))
}

fn take(
    step: CacheStep,
    folder: Option<&Path>,
    build_id: &str,
    file: Option<OwnedFd>,
) -> io::Result<(CacheAnswer, Option<OwnedFd>)> {
    let is_kept = |is: bool| if is { CacheAnswer::Kept } else { CacheAnswer::NotKept };
    Ok(match step {
        CacheStep::Look => match folder.map(|folder| cache::look(folder, build_id)) {
            Some(Cached::File(file, _)) => (CacheAnswer::Kept, Some(file.into())),
            Some(Cached::Miss) => (CacheAnswer::Miss, None),
            Some(Cached::Unknown) | None => (CacheAnswer::NotKept, None),
        },
        CacheStep::Make => {
            let Unnamed { file, place } = Unnamed::new(folder, build_id)?;
            (is_kept(place.is_some()), Some(file.into()))
        }
        CacheStep::Keep => {
            let file = File::from(file.ok_or(io::ErrorKind::InvalidInput)?);
            let place = folder.map(|folder| cache::place(folder, build_id));
            (is_kept(Unnamed { file, place }.keep().is_some()), None)
        }
        CacheStep::NoteMiss => {
            folder.into_iter().for_each(|folder| cache::note_miss(folder, build_id));
            (CacheAnswer::Miss, None)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_for_builds_only() {
        let folder = tempfile::tempdir().unwrap();
        let step = |step, build_id: &str, file| {
            let body = serde_json::to_vec(&CacheRequest { step, build_id: build_id.to_owned() }).unwrap();
            let (answer, file) = serve(Some(folder.path()), &body, file)?;
            Ok::<_, io::Error>((serde_json::from_slice::<CacheAnswer>(&answer).unwrap(), file))
        };
        for wrong in ["", "..", "../x", "ab/cd", &"a".repeat(LONGEST_ID + 1)] {
            assert!(step(CacheStep::Make, wrong, None).is_err(), "{wrong}");
        }
        assert_eq!(step(CacheStep::Look, "abcd", None).unwrap().0, CacheAnswer::NotKept);
        let (answer, file) = step(CacheStep::Make, "abcd", None).unwrap();
        assert_eq!(answer, CacheAnswer::Kept);
        let file = File::from(file.unwrap());
        io::Write::write_all(&mut &file, b"names").unwrap();
        assert_eq!(step(CacheStep::Keep, "abcd", Some(file.into())).unwrap().0, CacheAnswer::Kept);
        assert!(step(CacheStep::Look, "abcd", None).unwrap().1.is_some());
        step(CacheStep::NoteMiss, "0102", None).unwrap();
        assert_eq!(step(CacheStep::Look, "0102", None).unwrap().0, CacheAnswer::Miss);
    }
}
