//! Numbers and strings in untrusted bytes, with bounds checks.

/// The unread rest of some bytes, little-endian.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByteCursor<'a>(pub(super) &'a [u8]);

impl<'a> ByteCursor<'a> {
    /// Takes the next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Takes `count` eight-byte numbers, as bytes.
    pub(super) fn words(&mut self, count: u64) -> Option<&'a [u8]> {
        self.take(usize::try_from(count).ok()?.checked_mul(8)?)
    }

    /// Takes a `perf_header_string`: a length, then bytes up to the first zero.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        Some(until_zero(self.take(length as usize)?))
    }
}

/// `bytes` up to the first zero.
pub(super) fn until_zero(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// The number at offset `at`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    ByteCursor(bytes.get(at..)?).u64()
}
