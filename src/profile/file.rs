//! The file `prof.data`: chunks of rows, appended while the recording runs. See `docs/format.md`.

use super::{Meta, Profile};
use std::io::{Read, Write};
use std::path::Path;

/// How much of a file could be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Integrity {
    /// The end record was found: nothing is missing.
    pub is_complete: bool,
    /// What is missing or wrong, in words, when anything is.
    pub problem: Option<String>,
    /// Bytes of the file that were understood.
    pub bytes_read: u64,
    /// Bytes that were passed over: cut, damaged, or after damage.
    pub bytes_skipped: u64,
    /// Chunks of a type that this version does not know.
    pub unknown_chunks: u64,
}

/// Why a profile could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Why a profile could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Appends a growing [`Profile`] to a file.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Starts a file: header and meta chunk.
    pub fn new(_out: W, _meta: &Meta) -> Result<Self, WriteError> {
        unimplemented!()
    }

    /// Appends every row, sample, name, counter and the end record that were not yet written, in chunks, and flushes
    /// `out`. With `forget_samples` the samples are removed from `profile` once written, so that a
    /// recorder's memory does not grow with time.
    pub fn flush(&mut self, _profile: &mut Profile, _forget_samples: bool) -> Result<(), WriteError> {
        unimplemented!()
    }

    /// Bytes written so far.
    pub fn bytes_written(&self) -> u64 {
        0
    }

    /// The output, after a last flush.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Reads a profile.
pub fn read(_input: impl Read) -> Result<(Profile, Integrity), ReadError> {
    unimplemented!()
}

/// Reads the profile at `path`, which must be a regular file or a pipe.
pub fn read_path(_path: &Path) -> Result<(Profile, Integrity), ReadError> {
    unimplemented!()
}
