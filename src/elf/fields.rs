//! Numbers and texts at positions of foreign bytes.

/// Little-endian numbers at offsets of a byte string that may be too short.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..)?.first_chunk().copied()
    }

    pub(crate) fn u16(&self, offset: usize) -> Option<u16> {
        self.array(offset).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&self, offset: usize) -> Option<u32> {
        self.array(offset).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&self, offset: usize) -> Option<u64> {
        self.array(offset).map(u64::from_le_bytes)
    }

    /// An address, an offset or a size: eight bytes at `wide` in a 64-bit file, four at `narrow` in a 32-bit one.
    pub(crate) fn word(&self, is_64: bool, narrow: usize, wide: usize) -> Option<u64> {
        if is_64 { self.u64(wide) } else { self.u32(narrow).map(u64::from) }
    }
}

/// The bytes from an offset up to the next NUL, or `None` where there is none within [`MAX_PATH_BYTES`]:
/// many names may share one string table, so a search must not run to its end.
pub(crate) fn c_string(bytes: &[u8], offset: usize) -> Option<&[u8]> {
    let rest = bytes.get(offset..)?;
    let rest = &rest[..rest.len().min(MAX_PATH_BYTES as usize)];
    rest.iter().position(|&byte| byte == 0).map(|end| &rest[..end])
}

/// A string longer than any path that the kernel accepts is ignored.
pub(crate) const MAX_PATH_BYTES: u64 = 4096;
