//! gimli's interface to a [`SectionData`].

use super::section::SectionData;
use gimli::{Error, LittleEndian, Reader, ReaderOffsetId, Result};
use std::borrow::Cow;

/// A part of a [`SectionData`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct SectionReader<'a> {
    section: &'a SectionData,
    at: usize,
    end: usize,
    /// Bytes from `at` on that are known to be in memory; not beyond `end`.
    known: &'a [u8],
}

impl<'a> SectionReader<'a> {
    /// Makes a reader of the whole section.
    pub(crate) fn new(section: &'a SectionData) -> Self {
        SectionReader { section, at: 0, end: section.len(), known: &[] }
    }

    fn eof(&self) -> Error {
        Error::UnexpectedEof(self.offset_id())
    }

    #[inline]
    fn spend(&self, reads: usize) -> Result<()> {
        match self.section.spend(reads) {
            true => Ok(()),
            false => Err(self.eof()),
        }
    }

    /// Bytes from `at` on, at least one.
    #[inline]
    fn some_bytes(&mut self) -> Result<&'a [u8]> {
        if self.known.is_empty() {
            self.known = self.bytes_at(self.at)?;
        }
        Ok(self.known)
    }

    /// Bytes from `place` on: at least one, none beyond the end.
    #[cold]
    fn bytes_at(&self, place: usize) -> Result<&'a [u8]> {
        if place >= self.end {
            return Err(self.eof());
        }
        let bytes = self.section.slice_at(place).ok_or_else(|| self.eof())?;
        Ok(&bytes[..bytes.len().min(self.end - place)])
    }

    #[inline]
    fn advance(&mut self, len: usize) {
        self.at += len;
        self.known = self.known.get(len..).unwrap_or_default();
    }
}

impl Reader for SectionReader<'_> {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    #[inline]
    fn len(&self) -> usize {
        self.end - self.at
    }

    #[inline]
    fn empty(&mut self) {
        self.end = self.at;
        self.known = &[];
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> Result<()> {
        if len > self.len() {
            return Err(self.eof());
        }
        self.end = self.at + len;
        self.known = &self.known[..self.known.len().min(len)];
        Ok(())
    }

    #[inline]
    fn offset_from(&self, base: &Self) -> usize {
        self.at.wrapping_sub(base.at)
    }

    #[inline]
    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.at as u64)
    }

    #[inline]
    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        usize::try_from(id.0).ok()?.checked_sub(self.at).filter(|offset| *offset <= self.len())
    }

    #[inline]
    fn find(&self, byte: u8) -> Result<usize> {
        let mut place = self.at;
        let mut bytes = self.known;
        loop {
            let found = memchr::memchr(byte, bytes);
            self.spend(1 + bytes.len().min(found.unwrap_or(usize::MAX)) / 16)?;
            if let Some(found) = found {
                return Ok(place + found - self.at);
            }
            place += bytes.len();
            bytes = self.bytes_at(place)?;
        }
    }

    #[inline]
    fn skip(&mut self, len: usize) -> Result<()> {
        self.spend(1)?;
        if len > self.len() {
            return Err(self.eof());
        }
        self.advance(len);
        Ok(())
    }

    #[inline]
    fn split(&mut self, len: usize) -> Result<Self> {
        if len > self.len() {
            return Err(self.eof());
        }
        let mut part = *self;
        part.end = self.at + len;
        part.known = &part.known[..part.known.len().min(len)];
        self.advance(len);
        Ok(part)
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        let len = self.len();
        if self.known.len() == len {
            return Ok(Cow::Borrowed(self.known));
        }
        if !self.section.work().may_copy(len) {
            return Err(self.eof());
        }
        let mut reader = *self;
        let mut bytes = Vec::new();
        while !reader.is_empty() {
            let part = reader.some_bytes()?;
            bytes.extend_from_slice(part);
            reader.advance(part.len());
        }
        Ok(Cow::Owned(bytes))
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        match self.to_slice()? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Error::BadUtf8),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Error::BadUtf8),
        }
    }

    /// addr2line copies the file names that it reads here, so they are counted even where the bytes are contiguous.
    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        if !self.section.work().may_copy(self.len()) {
            return Err(self.eof());
        }
        Ok(match self.to_slice()? {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        })
    }

    #[inline]
    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.spend(1)?;
        if let Some(bytes) = self.known.get(..buffer.len()) {
            buffer.copy_from_slice(bytes);
            self.advance(buffer.len());
            return Ok(());
        }
        if buffer.len() > self.len() {
            return Err(self.eof());
        }
        let mut filled = 0;
        while filled < buffer.len() {
            let bytes = self.some_bytes()?;
            let part = &bytes[..bytes.len().min(buffer.len() - filled)];
            buffer[filled..filled + part.len()].copy_from_slice(part);
            filled += part.len();
            self.advance(part.len());
        }
        Ok(())
    }

    #[inline]
    fn read_u8(&mut self) -> Result<u8> {
        self.spend(1)?;
        let byte = *self.some_bytes()?.first().ok_or_else(|| self.eof())?;
        self.advance(1);
        Ok(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::super::section::{PAGE_BYTES, Store};
    use super::*;
    use crate::base::deadline::Deadline;
    use crate::base::memory_budget::MemoryBudget;
    use crate::elf::source::Source;
    use crate::symbols::work::Work;
    use gimli::EndianSlice;
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        /// Compares with gimli's own reader of contiguous bytes.
        #[test]
        fn reads_as_a_slice_does(steps in proptest::collection::vec((0_u8..9, 0_usize..6000), 1..60)) {
            let bytes: Vec<u8> = (0..3 * PAGE_BYTES + 100).map(|n| ((n * 7) % 256) as u8 & !(n % 3) as u8).collect();
            let budget = Arc::new(MemoryBudget::new(1 << 24));
            let work = Work::new(&budget, &Deadline::default()).unwrap();
            let store = Store::File(Source::Bytes(Arc::new(bytes.clone())), 0);
            let section = SectionData::new(store, bytes.len() as u64, 32, &work).unwrap();
            let (mut ours, mut theirs) = (SectionReader::new(&section), EndianSlice::new(&bytes, LittleEndian));
            let (whole, whole_theirs) = (ours, theirs);
            for (step, size) in steps {
                let same = |ours: Result<u64>, theirs: Result<u64>| ours.ok() == theirs.ok();
                let is_same = match step {
                    0 => same(ours.read_u8().map(u64::from), theirs.read_u8().map(u64::from)),
                    1 => same(ours.read_u64(), theirs.read_u64()),
                    2 => same(ours.read_uleb128(), theirs.read_uleb128()),
                    3 => ours.skip(size).is_ok() == theirs.skip(size).is_ok(),
                    4 => ours.find(size as u8).ok() == Reader::find(&theirs, size as u8).ok(),
                    5 => match (ours.split(size), theirs.split(size)) {
                        (Ok(part), Ok(other)) => part.to_slice().unwrap() == other.slice(),
                        (part, other) => part.is_ok() == other.is_ok(),
                    },
                    6 => ours.read_null_terminated_slice().map(|s| s.to_slice().unwrap().into_owned()).ok()
                        == theirs.read_null_terminated_slice().map(|s| s.slice().to_vec()).ok(),
                    7 => {
                        let len = ours.len().saturating_sub(size / 64);
                        ours.truncate(len).is_ok() == theirs.truncate(len).is_ok()
                    }
                    _ => same(ours.read_uint(size % 8).map(|n| n ^ 1), theirs.read_uint(size % 8).map(|n| n ^ 1)),
                };
                prop_assert!(is_same, "step {} {}", step, size);
                prop_assert_eq!(ours.len(), theirs.len());
                prop_assert_eq!(ours.offset_from(&whole), Reader::offset_from(&theirs, &whole_theirs));
                if step == 2 && ours.len() != theirs.len() { break; }
            }
        }
    }
}
