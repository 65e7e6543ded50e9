//! Records of a stream, one after the other, read in large blocks.

use std::io::{self, Read};

/// What is read at a time, bytes.
const BLOCK_BYTES: usize = 1 << 20;

/// Of a record: type, misc, length.
pub(super) const RECORD_HEADER_BYTES: usize = 8;

/// A record as it is in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawRecord<'a> {
    pub(super) kind: u32,
    pub(super) misc: u16,
    pub(super) body: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// The first record of `bytes`, and its length; `None` if it is not whole, an error if there cannot be one.
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

/// A stream of which parts are looked at in place.
pub(super) struct RecordBlocks {
    stream: Box<dyn Read>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes of the stream that are still to be taken.
    left: u64,
}

impl RecordBlocks {
    pub(super) fn new(stream: Box<dyn Read>) -> Self {
        RecordBlocks { stream, buffer: vec![0; BLOCK_BYTES], start: 0, end: 0, left: u64::MAX }
    }

    /// Nothing is taken after so many bytes from here.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.left = bytes;
    }

    /// Reads until there are `wanted` bytes, at most a block; there are fewer at the end.
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

    /// The next bytes; `None` if there are not so many. At most a block.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub(super) fn take(&mut self, count: usize) -> io::Result<Option<Vec<u8>>> {
        let taken = self.fill(count)?.get(..count).map(<[u8]>::to_vec);
        self.consume(taken.as_ref().map_or(0, Vec::len));
        Ok(taken)
    }

    /// Passes over bytes; whether there were so many.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
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

    /// The next record; `None` at the end, or where there cannot be one, which makes `is_cut` true.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub(super) fn next_record(&mut self, is_cut: &mut bool) -> io::Result<Option<RawRecord<'_>>> {
        // The longest record fits into this.
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
