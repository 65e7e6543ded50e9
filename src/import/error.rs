//! What can go wrong.

use crate::profile::WriteError;
use std::io;

/// Why there is nothing to import.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    /// The file is not of the format, or of a kind that is not supported.
    #[error("{0}")]
    Foreign(String),
    /// There are no samples in it.
    #[error("it has no samples{0}")]
    NoSamples(String),
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The profile could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}
