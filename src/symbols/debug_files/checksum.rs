//! The checksum of `.gnu_debuglink`.

use crate::base::deadline::Deadline;
use crate::elf::source::Source;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Size in bytes above which the checksum of a file is not computed. Debug files of distributions are found by build
/// ID.
const MAX_CHECKSUM_BYTES: u64 = 256 << 20;

/// The CRC-32 (ISO 3309, as in zlib) of the first `len` bytes of a file. `None` if that would take too long: no real
/// debug file is that large, or mostly holes.
pub(super) fn file_crc32(file: &Arc<File>, len: u64, deadline: &Deadline) -> Option<u32> {
    if len > MAX_CHECKSUM_BYTES || Source::of_file(file).ok()?.is_hole(0, len) {
        return None;
    }
    let mut buffer = vec![0; 1 << 18];
    let (mut crc, mut at) = (!0, 0);
    while at < len {
        if deadline.has_passed() {
            return None;
        }
        let size = (len - at).min(buffer.len() as u64) as usize;
        file.read_exact_at(&mut buffer[..size], at).ok()?;
        crc = crc32_update(crc, &buffer[..size]);
        at += size as u64;
    }
    Some(!crc)
}

/// `CRC_TABLES[k][b]`: the contribution of byte `b` followed by `k` zero bytes to the checksum.
static CRC_TABLES: [[u32; 256]; 8] = crc_tables();

const fn crc_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[table - 1][byte];
            tables[table][byte] = (crc >> 8) ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// Adds bytes to a running (inverted) checksum, eight at a time.
fn crc32_update(mut crc: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = u64::from_le_bytes(*word) ^ u64::from(crc);
        crc = (mixed.to_le_bytes().iter().rev().zip(&CRC_TABLES))
            .fold(0, |crc, (&byte, table)| crc ^ table[usize::from(byte)]);
    }
    for &byte in rest {
        crc = (crc >> 8) ^ CRC_TABLES[0][usize::from((crc as u8) ^ byte)];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_the_one_of_zlib() {
        assert_eq!(!crc32_update(!0, b"123456789"), 0xcbf4_3926);
        let bytes: Vec<u8> = (0..1000_u32).map(|n| (n * 7 + n / 3) as u8).collect();
        for cut in [0, 1, 7, 8, 9, 500, 1000] {
            let parts = crc32_update(crc32_update(!0, &bytes[..cut]), &bytes[cut..]);
            let by_byte = bytes.chunks(1).fold(!0, crc32_update);
            assert_eq!(parts, by_byte);
        }
    }
}
