//! The first bytes of a file: who made it and whether this version can read it.
//!
//! ```text
//! 0        8       10      12         16              24         28        32
//! │ magic  │ major │ minor │ length   │ start_unix_ns │ reserved │ crc32c  │ chunks …
//! ```
//! Little-endian. The first 16 bytes keep their places in every version; `length` is the whole
//! header's, and its last four bytes are the CRC of all before them.

use super::error::{PERF_DATA, ReadError};
use crate::profile::file::bounds::MAJOR;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

/// First bytes of every file. Not text, and damaged by anything that translates line ends.
pub(super) const MAGIC: [u8; 8] = *b"\x89prof\r\n\x1a";
/// A reader accepts a file of a later minor version and passes over what it does not know.
pub(super) const MINOR: u16 = 0;
/// Bytes of the header that this version writes.
pub(super) const LENGTH: usize = 32;
/// No version will need a longer header.
const MAX_LENGTH: usize = 4096;
/// Bytes that keep their places in every version.
const FIXED: usize = 16;

/// Whether the file, of which not much may have been written, still begins as a profile does.
pub(crate) fn begins_as_profile(file: &File) -> bool {
    let mut start = [0; MAGIC.len()];
    // What cannot be read is not known to be something else.
    file.read_at(&mut start, 0).map_or(true, |bytes| MAGIC.starts_with(&start[..bytes]))
}

/// The header of a file whose recording started at the given time.
pub(super) fn encode(start_unix_ns: u64) -> [u8; LENGTH] {
    let mut header = [0; LENGTH];
    header[..8].copy_from_slice(&MAGIC);
    header[8..10].copy_from_slice(&MAJOR.to_le_bytes());
    header[10..12].copy_from_slice(&MINOR.to_le_bytes());
    header[12..16].copy_from_slice(&(LENGTH as u32).to_le_bytes());
    header[16..24].copy_from_slice(&start_unix_ns.to_le_bytes());
    let crc = crc32c::crc32c(&header[..LENGTH - 4]);
    header[LENGTH - 4..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Fields of the header that a reader needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHeader {
    /// Bytes it takes in the file.
    pub(super) length: u64,
    /// Start of the recording, ns since the Unix epoch.
    pub(super) start_unix_ns: u64,
}

/// Reads and checks the header.
pub(super) fn read(input: &mut impl Read) -> Result<FileHeader, ReadError> {
    let mut bytes = Vec::new();
    input.by_ref().take(LENGTH as u64).read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Err(ReadError::Empty);
    }
    let magic = &bytes[..bytes.len().min(MAGIC.len())];
    if !MAGIC.starts_with(magic) {
        return Err(ReadError::NotAProfile { looks_like: looks_like(&bytes) });
    }
    let truncated = |bytes: &[u8]| ReadError::TruncatedHeader { bytes: bytes.len() as u64 };
    if bytes.len() < LENGTH {
        return Err(truncated(&bytes));
    }
    let length = u32_at(&bytes, 12) as usize;
    if !(FIXED + 4..=MAX_LENGTH).contains(&length) {
        return Err(ReadError::DamagedHeader);
    }
    if length > LENGTH {
        input.by_ref().take((length - LENGTH) as u64).read_to_end(&mut bytes)?;
        if bytes.len() < length {
            return Err(truncated(&bytes));
        }
    }
    if crc32c::crc32c(&bytes[..length - 4]) != u32_at(&bytes, length - 4) && !cfg!(fuzzing) {
        return Err(ReadError::DamagedHeader);
    }
    let major = u16::from_le_bytes([bytes[8], bytes[9]]);
    let minor = u16::from_le_bytes([bytes[10], bytes[11]]);
    if major > MAJOR {
        return Err(ReadError::NewerVersion { major, minor });
    }
    // Every file of major version 1 has at least the fields of version 1.0.
    if major != MAJOR || length < LENGTH {
        return Err(ReadError::DamagedHeader);
    }
    let start_unix_ns = u64::from(u32_at(&bytes, 16)) | u64::from(u32_at(&bytes, 20)) << 32;
    Ok(FileHeader { length: length as u64, start_unix_ns })
}

/// The little-endian number at `at`; `bytes` must reach that far.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Kind of a file that is not ours, guessed from its first bytes, in words that follow "looks like".
fn looks_like(bytes: &[u8]) -> &'static str {
    const KNOWN: [(&[u8], &str); 14] = [
        (b"PERFILE2", PERF_DATA),
        (b"2ELIFREP", "a perf.data file of Linux perf, of other byte order"),
        (b"\x1f\x8b", "a gzip file, perhaps a pprof or Firefox profile"),
        // The type of the first samples.
        (b"\x0a\x04\x08", "a pprof profile"),
        (b"\x28\xb5\x2f\xfd", "a zstd file"),
        (b"\xfd7zXZ", "an xz file"),
        (b"PK\x03\x04", "a zip file"),
        (b"\x7fELF", "an ELF program or library"),
        (b"<svg", "an SVG picture"),
        (b"<?xml", "an XML or SVG file"),
        (b"<!DOCTYPE", "an HTML page"),
        (b"FLR\0", "a Java flight recording"),
        (b"{", "a JSON file"),
        (b"[", "a JSON file"),
    ];
    if let Some((_, name)) = KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return name;
    }
    if bytes.iter().all(|&byte| byte == 0) {
        return "zero bytes, as after a crash of the machine or the disk";
    }
    let is_text = |&byte: &u8| byte >= 0x80 || matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    if bytes.iter().all(is_text) && !bytes.iter().all(|&byte| byte >= 0x80) { "text" } else { "unknown data" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_bytes(mut bytes: &[u8]) -> Result<FileHeader, ReadError> {
        read(&mut bytes)
    }

    /// Recomputes the CRC after a change.
    fn sealed(mut header: Vec<u8>) -> Vec<u8> {
        let end = header.len() - 4;
        let crc = crc32c::crc32c(&header[..end]);
        header[end..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    #[test]
    fn a_header_round_trips() {
        let header = read_bytes(&encode(0x0123_4567_89ab_cdef)).unwrap();
        assert_eq!(header, FileHeader { length: LENGTH as u64, start_unix_ns: 0x0123_4567_89ab_cdef });
    }

    #[test]
    fn a_later_minor_version_with_a_longer_header_is_read() {
        let mut header = encode(7).to_vec();
        header[10] = 9;
        header[12] = 40;
        header.extend([0; 8]);
        let header = sealed(header);
        assert_eq!(read_bytes(&header).unwrap(), FileHeader { length: 40, start_unix_ns: 7 });
        let error = read_bytes(&header[..36]).unwrap_err();
        assert!(matches!(error, ReadError::TruncatedHeader { bytes: 36 }), "{error}");
    }

    #[test]
    fn a_later_major_version_is_refused_by_number() {
        let mut header = encode(7).to_vec();
        header[8] = 2;
        header[10] = 3;
        let error = read_bytes(&sealed(header)).unwrap_err();
        assert!(matches!(error, ReadError::NewerVersion { major: 2, minor: 3 }), "{error}");
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_an_error() {
        let header = encode(0x1122_3344_5566_7788);
        assert!(matches!(read_bytes(&[]), Err(ReadError::Empty)));
        for cut in 1..LENGTH {
            let error = read_bytes(&header[..cut]).unwrap_err();
            assert!(matches!(error, ReadError::TruncatedHeader { .. }), "cut {cut}: {error}");
        }
        for bit in 0..LENGTH * 8 {
            let mut header = header;
            header[bit / 8] ^= 1 << (bit % 8);
            assert!(read_bytes(&header).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn foreign_files_are_called_by_their_name() {
        for (bytes, name) in [
            (&b"PERFILE2\x68\0\0\0"[..], "a perf.data file of Linux perf"),
            (b"\x1f\x8b\x08\0", "a gzip file, perhaps a pprof or Firefox profile"),
            (b"\x7fELF\x02\x01", "an ELF program or library"),
            (b"main;work 12\n", "text"),
            (b"\x0a\x04\x08\x01\x10\x02", "a pprof profile"),
            (b"{\"a\": 1}", "a JSON file"),
            (b"\0\0\0\0\0\0\0\0\0", "zero bytes, as after a crash of the machine or the disk"),
            (b"\x01\x02\x03", "unknown data"),
            (b"\xff\xfe\xfd", "unknown data"),
        ] {
            match read_bytes(bytes) {
                Err(ReadError::NotAProfile { looks_like }) => assert_eq!(looks_like, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
