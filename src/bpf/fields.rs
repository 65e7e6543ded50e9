//! Numbers at positions of bytes that are not trusted.

/// Why the bytes of a record are no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// Shorter than its header.
    #[error("record of {0} bytes is shorter than its header")]
    Short(usize),
    /// The length is not what the header says.
    #[error("record has {actual} bytes where its header says {expected}")]
    Length {
        /// Bytes by the header.
        expected: usize,
        /// Bytes there are.
        actual: usize,
    },
    /// The record is of no known kind.
    #[error("record is of the unknown kind {0}")]
    Kind(u32),
    /// The record leaves frames out without being full.
    #[error("record of {user_count} frames has left {left_out} out")]
    LeftOut {
        /// User frames that it says to have left out.
        left_out: u32,
        /// User frames that it has.
        user_count: usize,
    },
}

/// Numbers of a header whose length was checked; alignment is not promised.
pub(crate) struct RecordFields<'a>(&'a [u8]);

impl<'a> RecordFields<'a> {
    pub(super) fn of(bytes: &'a [u8], header_bytes: usize) -> Result<Self, DecodeError> {
        bytes.get(..header_bytes).map(RecordFields).ok_or(DecodeError::Short(bytes.len()))
    }

    pub(super) fn bytes<const N: usize>(&mut self, offset: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.0[offset..offset + N]);
        out
    }

    pub(super) fn u16(&mut self, offset: usize) -> u16 {
        u16::from_ne_bytes(self.bytes(offset))
    }

    pub(super) fn u32(&mut self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(offset))
    }

    pub(super) fn u64(&mut self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(offset))
    }

    /// A name of at most `PROF_COMM_BYTES`, up to the first NUL.
    pub(super) fn text(&mut self, offset: usize) -> Vec<u8> {
        let bytes: [u8; 16] = self.bytes(offset);
        bytes.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
    }
}
