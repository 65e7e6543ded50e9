//! Where the bytes of an ELF file come from: a file that may change while it is read, or memory.
//!
//! Files are never mapped, no matter who owns them: one that shrinks would kill this process, and there would be two ways to
//! read, of which tests see one.

use super::error::ElfError;
use crate::base::file_holes;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// An opened file, or one in memory.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A file and its length when it was opened, bytes.
    File(Arc<File>, u64),
    /// The whole image.
    Bytes(Arc<Vec<u8>>),
}

/// Error for a part that lies outside the file.
const OUTSIDE: ElfError = ElfError::Malformed("a part lies outside the file");

impl Source {
    /// A source over `file`; its position is not used.
    pub(crate) fn of_file(file: &Arc<File>) -> Result<Self, ElfError> {
        Ok(Source::File(Arc::clone(file), file.metadata()?.len()))
    }

    /// Length, bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Source::File(_, len) => *len,
            Source::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// The `size` bytes at `offset`; all of them, or an error. `what` names the part for messages, `limit` is the largest
    /// `size` allowed. A part that takes no room on disk is damaged.
    pub(crate) fn read(
        &self,
        what: &'static str,
        offset: u64,
        size: u64,
        limit: u64,
    ) -> Result<Vec<u8>, ElfError> {
        if offset.checked_add(size).is_none_or(|end| end > self.len()) {
            return Err(OUTSIDE);
        }
        let too_large = ElfError::TooLarge { what, size, limit };
        if size > limit {
            return Err(too_large);
        }
        if self.is_hole(offset, size) {
            return Err(ElfError::Malformed("a part was never written to disk"));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size as usize).map_err(|_| too_large)?;
        bytes.resize(size as usize, 0);
        self.read_exact(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Fills `buffer` with the bytes at `offset`.
    pub(crate) fn read_exact(&self, buffer: &mut [u8], offset: u64) -> Result<(), ElfError> {
        match self {
            Source::File(file, _) => file.read_exact_at(buffer, offset)?,
            Source::Bytes(bytes) => {
                let start = usize::try_from(offset).ok();
                let part = start.and_then(|start| bytes.get(start..)?.get(..buffer.len()));
                buffer.copy_from_slice(part.ok_or(OUTSIDE)?);
            }
        }
        Ok(())
    }

    /// Whether most of `offset..offset + size` was never written.
    pub(crate) fn is_hole(&self, offset: u64, size: u64) -> bool {
        match self {
            Source::File(file, _) => file_holes::is_hole(file, offset, size),
            Source::Bytes(_) => false,
        }
    }
}
