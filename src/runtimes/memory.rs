//! Memory of a process that runs while it is read: every read may fail, and what was read may be old a moment later.

/// Memory of a process, by its own addresses. Readers of a language take it as `&impl TargetMemory`, also where it is
/// behind a pointer.
pub(crate) trait TargetMemory {
    /// Fills `bytes` with what is at `address`; false if any of it cannot be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;

    /// The `N` bytes at `address`.
    fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]>
    where
        Self: Sized,
    {
        let mut bytes = [0; N];
        self.read(address, &mut bytes).then_some(bytes)
    }

    /// The byte at `address`.
    fn u8(&self, address: u64) -> Option<u8>
    where
        Self: Sized,
    {
        self.bytes::<1>(address).map(|[byte]| byte)
    }

    /// The 16-bit number at `address`.
    fn u16(&self, address: u64) -> Option<u16>
    where
        Self: Sized,
    {
        self.bytes(address).map(u16::from_ne_bytes)
    }

    /// The 32-bit number at `address`.
    fn u32(&self, address: u64) -> Option<u32>
    where
        Self: Sized,
    {
        self.bytes(address).map(u32::from_ne_bytes)
    }

    /// The word of 8 bytes at `address`.
    fn u64(&self, address: u64) -> Option<u64>
    where
        Self: Sized,
    {
        self.bytes(address).map(u64::from_ne_bytes)
    }

    /// The `size` bytes at `address`; `None` also if that is more than `most`.
    fn range(&self, address: u64, size: u64, most: usize) -> Option<Vec<u8>>
    where
        Self: Sized,
    {
        let size = usize::try_from(size).ok().filter(|&size| size <= most)?;
        let mut bytes = vec![0; size];
        self.read(address, &mut bytes).then_some(bytes)
    }
}

impl TargetMemory for &dyn TargetMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        (**self).read(address, bytes)
    }
}
