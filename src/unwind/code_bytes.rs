//! Ranges of a module's code as bytes.

/// The longest instruction of the processor, in bytes.
const MAX_INSTRUCTION_BYTES: usize = 15;

/// Bytes of code and the address of the first.
#[derive(Debug)]
pub(super) struct CodeBytes {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl CodeBytes {
    pub(super) fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|distance| distance < self.bytes.len() as u64)
    }

    /// The address behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }

    /// The bytes of one instruction at an address, and perhaps more; empty outside.
    pub(super) fn from(&self, address: u64) -> &[u8] {
        let rest = address
            .checked_sub(self.start)
            .and_then(|distance| self.bytes.get(usize::try_from(distance).ok()?..))
            .unwrap_or(&[]);
        &rest[..rest.len().min(MAX_INSTRUCTION_BYTES)]
    }
}

/// Ranges of code in ascending order, without overlaps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Code<'a>(pub(super) &'a [CodeBytes]);

impl<'a> Code<'a> {
    /// The range that holds an address.
    pub(super) fn holder(&self, address: u64) -> Option<&'a CodeBytes> {
        let after = self.0.partition_point(|code| code.start <= address);
        self.0.get(after.checked_sub(1)?).filter(|code| code.contains(address))
    }

    /// The bytes from `start` to `end`, where one range holds them all.
    pub(super) fn bytes(&self, start: u64, end: u64) -> Option<&'a [u8]> {
        let holder = self.holder(start)?;
        let from = usize::try_from(start - holder.start).ok()?;
        holder.bytes.get(from..from.checked_add(usize::try_from(end.checked_sub(start)?).ok()?)?)
    }
}
