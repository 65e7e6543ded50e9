//! The part of a dump that is in memory, and reading numbers from it.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Least number of bytes read at once.
const WINDOW_BYTES: usize = 64 << 10;

/// A part of the file.
#[derive(Debug, Default)]
pub(super) struct DumpWindow {
    start: u64,
    bytes: Vec<u8>,
}

impl DumpWindow {
    pub(super) fn read(&mut self, file: &File, at: u64, len: usize, size: u64) -> Option<&[u8]> {
        let holds = |window: &DumpWindow| {
            let from = at.checked_sub(window.start)?;
            let from = usize::try_from(from).ok()?;
            window.bytes.get(from..from.checked_add(len)?)?;
            Some(from)
        };
        if holds(self).is_none() {
            let most = usize::try_from(size - at).unwrap_or(usize::MAX);
            self.bytes.resize(len.max(WINDOW_BYTES).min(most), 0);
            self.start = at;
            if file.read_exact_at(&mut self.bytes, at).is_err() {
                self.bytes.clear();
            }
        }
        let from = holds(self)?;
        Some(&self.bytes[from..from + len])
    }
}

/// The number at offset `at`; `bytes` must be long enough.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
