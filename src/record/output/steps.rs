//! The steps by which the opener makes the file of a recording whose recorder has given up the rights to: what is asked and
//! answered.

use super::window_folder::Pruned;
use crate::base::failure::{Failure, status};
use crate::base::opener::{self, Service};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Steps that the recorder asks for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum OutputStep {
    /// Checks that the file can be made.
    Check(Vec<u8>),
    /// Makes it, under a temporary name.
    Create(Vec<u8>),
    /// Gives it its name.
    Place,
    Settle,
    Undo,
    Confirm,
    Close,
    /// Removes windows that are not to stay.
    Prune,
}

/// Where the file is after a step.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct FilePlace {
    pub(super) path: Option<Vec<u8>>,
    pub(super) misplaced: Option<String>,
    pub(super) kept_old: Option<Vec<u8>>,
    pub(super) notices: Vec<String>,
    pub(super) pruned: Pruned,
}

/// A [`Failure`] on its way between two processes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SentFailure {
    pub(super) status: u8,
    pub(super) message: String,
    pub(super) hints: Vec<String>,
}

/// Has the opener take a step; a file may come with what it answers.
///
/// # Errors
///
/// Those of the step.
pub(super) fn take(step: &OutputStep) -> Result<(FilePlace, Option<OwnedFd>), Failure> {
    let failed = |error: io::Error| {
        Failure::new(status::FAILED, format!("cannot write the recording: {error}")).hint("record again")
    };
    let body = serde_json::to_vec(step).map_err(|error| failed(error.into()))?;
    let (answer, file) = opener::ask_service(Service::Output, body, None).map_err(failed)?;
    let answer: Result<FilePlace, SentFailure> =
        serde_json::from_slice(&answer).map_err(|error| failed(error.into()))?;
    match answer {
        Ok(place) => Ok((place, file)),
        Err(SentFailure { status, message, hints }) => Err(Failure { status, message, hints }),
    }
}

pub(super) fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

pub(super) fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}
