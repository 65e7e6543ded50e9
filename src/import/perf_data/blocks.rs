//! Records of a stream, one by one, read in large blocks.

use std::io::{self, Read};

/// Size of a block, bytes.
const BLOCK_BYTES: usize = 1 << 20;

/// Length of a record header (type, misc, length), bytes.
pub(super) const RECORD_HEADER_BYTES: usize = 8;

/// A record as it is in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawRecord<'a> {
    pub(super) kind: u32,
    pub(super) misc: u16,
    pub(super) body: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// The first record of `bytes`, and its length; `None` if it is incomplete, an error if its length is invalid.
    pub(super) fn first(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, ()> {
        let Some(header) = bytes.get(..RECORD_HEADER_BYTES) else { return Ok(None) };
        let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let misc = u16::from_le_bytes([header[4], header[5]]);
        let length = usize::from(u16::from_le_bytes([header[6], header[7]]));
        if length < RECORD_HEADER_BYTES {
            return Err(());
        }
        let body = bytes.get(RECORD_HEADER_BYTES..length);
        Ok(body.map(|body| (RawRecord { kind, misc, body }, length)))
    }
}

/// A stream with a buffer, from which parts are borrowed in place.
pub(super) struct RecordBlocks {
    stream: Box<dyn Read>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Number of bytes of the stream that may still be taken.
    left: u64,
}

impl RecordBlocks {
    pub(super) fn new(stream: Box<dyn Read>) -> Self {
        RecordBlocks { stream, buffer: vec![0; BLOCK_BYTES], start: 0, end: 0, left: u64::MAX }
    }

    /// Limits what may be taken from here on to this many bytes.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.left = bytes;
    }

    /// Reads until the buffer has `wanted` bytes, at most a block; returns fewer at the end of the stream.
    fn fill(&mut self, wanted: usize) -> io::Result<&[u8]> {
        if self.end - self.start < wanted {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            while self.end < wanted {
                match self.stream.read(&mut self.buffer[self.end..]) {
                    Ok(0) => break,
                    Ok(read) => self.end += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        Ok(&self.buffer[self.start..self.end.min(self.start.saturating_add(most))])
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.left = self.left.saturating_sub(bytes as u64);
    }

    /// Takes the next `count` bytes, at most a block; `None` if there are fewer.
    ///
    /// # Errors
    ///
    /// Fails when the stream cannot be read.
    pub(super) fn take(&mut self, count: usize) -> io::Result<Option<Vec<u8>>> {
        let taken = self.fill(count)?.get(..count).map(<[u8]>::to_vec);
        self.consume(taken.as_ref().map_or(0, Vec::len));
        Ok(taken)
    }

    /// Skips `count` bytes; returns false if there are fewer.
    ///
    /// # Errors
    ///
    /// Fails when the stream cannot be read.
    pub(super) fn skip(&mut self, mut count: u64) -> io::Result<bool> {
        while count > 0 {
            let there = self.fill(BLOCK_BYTES.min(usize::try_from(count).unwrap_or(BLOCK_BYTES)))?.len();
            if there == 0 {
                return Ok(false);
            }
            let part = (there as u64).min(count);
            self.consume(part as usize);
            count -= part;
        }
        Ok(true)
    }

    /// The next record; `None` at the end, or at an invalid or incomplete one, which sets `is_cut`.
    ///
    /// # Errors
    ///
    /// Fails when the stream cannot be read.
    pub(super) fn next_record(&mut self, is_cut: &mut bool) -> io::Result<Option<RawRecord<'_>>> {
        // No record is longer than this.
        let there = self.fill(1 << 16)?;
        if there.is_empty() {
            return Ok(None);
        }
        match RawRecord::first(there) {
            Ok(Some((_, length))) => {
                let start = self.start;
                self.consume(length);
                Ok(RawRecord::first(&self.buffer[start..start + length])
                    .ok()
                    .flatten()
                    .map(|(record, _)| record))
            }
            _ => {
                *is_cut = true;
                Ok(None)
            }
        }
    }
}
