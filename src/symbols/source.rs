//! Positioned reads from an opened file or a buffer. Never maps a file: one that shrinks would kill us.

use super::SymbolError;
use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where an ELF image is read from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// A file and its length when it was opened, bytes.
    File(&'a File, u64),
    /// The whole image.
    Bytes(&'a [u8]),
}

impl<'a> Source<'a> {
    /// A source over `file`; its position is neither used nor changed.
    pub(super) fn of_file(file: &'a File) -> Result<Self, SymbolError> {
        Ok(Source::File(file, file.metadata()?.len()))
    }

    /// Length, bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Source::File(_, len) => *len,
            Source::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// The `size` bytes at `offset`; all of them, or an error. `what` names the table for messages,
    /// `limit` is the largest `size` allowed.
    pub(super) fn read(
        &self,
        what: &'static str,
        offset: u64,
        size: u64,
        limit: u64,
    ) -> Result<Cow<'a, [u8]>, SymbolError> {
        if offset.checked_add(size).is_none_or(|end| end > self.len()) {
            return Err(SymbolError::Damaged("a table lies outside of the file"));
        }
        if size > limit {
            return Err(SymbolError::TooBig { what, size, limit });
        }
        match self {
            Source::Bytes(bytes) => {
                let (start, end) = (offset as usize, (offset + size) as usize);
                Ok(Cow::Borrowed(bytes.get(start..end).unwrap_or_default()))
            }
            Source::File(file, _) => {
                let mut buffer = Vec::new();
                (buffer.try_reserve_exact(size as usize)).map_err(|_| SymbolError::TooBig {
                    what,
                    size,
                    limit,
                })?;
                buffer.resize(size as usize, 0);
                file.read_exact_at(&mut buffer, offset)?;
                Ok(Cow::Owned(buffer))
            }
        }
    }
}

/// The little-endian number of `N` bytes at `offset`, or `None` past the end.
fn le<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

/// The little-endian `u16` at `offset`.
pub(super) fn le_u16(bytes: &[u8], offset: usize) -> Option<u16> {
    le(bytes, offset).map(u16::from_le_bytes)
}

/// The little-endian `u32` at `offset`.
pub(super) fn le_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    le(bytes, offset).map(u32::from_le_bytes)
}

/// The little-endian `u64` at `offset`.
pub(super) fn le_u64(bytes: &[u8], offset: usize) -> Option<u64> {
    le(bytes, offset).map(u64::from_le_bytes)
}

/// The bytes from `offset` up to (without) the next NUL, at most `max` of them.
pub(super) fn c_string(bytes: &[u8], offset: usize, max: usize) -> Option<&[u8]> {
    let rest = bytes.get(offset..)?;
    let rest = &rest[..rest.len().min(max)];
    Some(rest.iter().position(|&byte| byte == 0).map_or(rest, |end| &rest[..end]))
}

/// At most `max` bytes of `text`, whole characters.
pub(super) fn cut_text(text: &str, max: usize) -> &str {
    match text.char_indices().map(|(at, letter)| at + letter.len_utf8()).take_while(|&end| end <= max).last()
    {
        _ if text.len() <= max => text,
        end => &text[..end.unwrap_or(0)],
    }
}
