//! Errors of an import.

use crate::profile::WriteError;
use std::io;

/// Why a file could not be imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    /// The file is not in the format, or of an unsupported kind.
    #[error("{0}")]
    Foreign(String),
    /// The file has no samples.
    #[error("it has no samples{0}")]
    NoSamples(String),
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The profile could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}
