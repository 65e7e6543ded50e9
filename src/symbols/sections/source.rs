//! Positioned reads from an opened file or a buffer.
//!
//! Files are never mapped, whoever owns them: one that shrinks would kill us, and there would be two ways to read, of which
//! tests see one. What lookups need of large sections is read a page at a time (see [`super::section`]).

use crate::base::file_holes;
use crate::symbols::error::SymbolError;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Where an ELF image is read from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A file and its length when it was opened, bytes.
    File(Arc<File>, u64),
    /// The whole image.
    Bytes(Arc<Vec<u8>>),
}

impl Source {
    /// A source over `file`; its position is not used.
    pub(crate) fn of_file(file: &Arc<File>) -> Result<Self, SymbolError> {
        Ok(Source::File(Arc::clone(file), file.metadata()?.len()))
    }

    /// Length, bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Source::File(_, len) => *len,
            Source::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// The `size` bytes at `offset`; all of them, or an error. `what` names the table for messages,
    /// `limit` is the largest `size` allowed.
    pub(crate) fn read(
        &self,
        what: &'static str,
        offset: u64,
        size: u64,
        limit: u64,
    ) -> Result<Vec<u8>, SymbolError> {
        if offset.checked_add(size).is_none_or(|end| end > self.len()) {
            return Err(SymbolError::Damaged("a table lies outside of the file"));
        }
        let too_big = SymbolError::TooBig { what, size, limit };
        if size > limit {
            return Err(too_big);
        }
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(size as usize).map_err(|_| too_big)?;
        buffer.resize(size as usize, 0);
        self.read_exact(&mut buffer, offset)?;
        Ok(buffer)
    }

    /// Fills `buffer` with the bytes at `offset`.
    pub(crate) fn read_exact(&self, buffer: &mut [u8], offset: u64) -> Result<(), SymbolError> {
        match self {
            Source::File(file, _) => file.read_exact_at(buffer, offset)?,
            Source::Bytes(bytes) => {
                let start = usize::try_from(offset).ok();
                let part = start.and_then(|start| bytes.get(start..)?.get(..buffer.len()));
                buffer.copy_from_slice(part.ok_or(SymbolError::Damaged("a table lies outside of the file"))?);
            }
        }
        Ok(())
    }

    /// Whether most of `offset..offset + size` was never written: a part of a file that takes no room on disk is no table.
    pub(crate) fn is_hole(&self, offset: u64, size: u64) -> bool {
        match self {
            Source::File(file, _) => file_holes::is_hole(file, offset, size),
            Source::Bytes(_) => false,
        }
    }
}

/// The little-endian number of `N` bytes at `offset`, or `None` past the end.
fn le<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

/// The little-endian `u16` at `offset`.
pub(crate) fn le_u16(bytes: &[u8], offset: usize) -> Option<u16> {
    le(bytes, offset).map(u16::from_le_bytes)
}

/// The little-endian `u32` at `offset`.
pub(crate) fn le_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    le(bytes, offset).map(u32::from_le_bytes)
}

/// The little-endian `u64` at `offset`.
pub(crate) fn le_u64(bytes: &[u8], offset: usize) -> Option<u64> {
    le(bytes, offset).map(u64::from_le_bytes)
}

/// The bytes from `offset` up to (without) the next NUL, at most `max` of them.
pub(crate) fn c_string(bytes: &[u8], offset: usize, max: usize) -> Option<&[u8]> {
    let rest = bytes.get(offset..)?;
    let rest = &rest[..rest.len().min(max)];
    Some(rest.iter().position(|&byte| byte == 0).map_or(rest, |end| &rest[..end]))
}

/// At most `max` bytes of `text`, whole characters.
pub(crate) fn cut_text(text: &str, max: usize) -> &str {
    match text.char_indices().map(|(at, letter)| at + letter.len_utf8()).take_while(|&end| end <= max).last()
    {
        _ if text.len() <= max => text,
        end => &text[..end.unwrap_or(0)],
    }
}
