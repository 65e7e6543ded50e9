//! Failures of a recording as the user sees them: their exit status, their cause in words.

use crate::base::failure::{Failure, status as exit};
use crate::profile::WriteError;
use std::path::Path;

/// The failure of a recording whose command has not started: every failure of our own is 125 then, as with env(1) and
/// timeout(1).
pub(super) fn before_start(error: anyhow::Error) -> anyhow::Error {
    let own = error.downcast_ref::<Failure>().map(|failure| (failure.status, failure.clone()));
    match own {
        Some((exit::FAILED | exit::NOT_PERMITTED, mut failure)) => {
            failure.status = exit::NOT_STARTED;
            failure.into()
        }
        None => Failure::new(exit::NOT_STARTED, format!("{error:#}")).into(),
        _ => error,
    }
}

/// The innermost reason of a failure, in words.
pub(super) fn cause_of(error: &anyhow::Error) -> String {
    error.downcast_ref::<Failure>().map_or_else(|| format!("{error:#}"), |failure| failure.message.clone())
}

pub(super) fn write_error(path: Option<&Path>, error: WriteError) -> anyhow::Error {
    match error {
        WriteError::Io(error) if path.is_some() => {
            crate::record::output::failure::write_failure(path.unwrap_or(Path::new("")), &error).into()
        }
        WriteError::Io(error) => {
            anyhow::Error::new(error).context("cannot write the profile to standard output")
        }
        other => anyhow::Error::new(other).context("cannot write the profile"),
    }
}
