//! The memory that a file may take.

use super::checks::{Damage, check};

/// Memory that a file may take, from the bytes read of it so far: a small file cannot swell.
#[derive(Debug, Default)]
pub(super) struct Budget {
    spent: u64,
    allowed: u64,
}

impl Budget {
    /// Memory that any file may take, bytes.
    const FLOOR: u64 = 128 << 20;
    /// Memory that a file may take for each of its bytes, bytes. The synthetic recordings of the tests take about 10.
    const PER_BYTE: u64 = 256;

    pub(super) fn set_bytes_read(&mut self, bytes: u64) {
        self.allowed = Self::FLOOR.saturating_add(bytes.saturating_mul(Self::PER_BYTE));
    }

    pub(super) fn spend(&mut self, rows: usize, bytes_per_row: u64) -> Result<(), Damage> {
        self.spent = self.spent.saturating_add((rows as u64).saturating_mul(bytes_per_row));
        check(self.spent <= self.allowed, || "it takes more memory than a file of this size should".into())
    }
}

/// Bytes that rows take in memory, tables and lists around them included.
pub(super) mod row_bytes {
    pub(in crate::profile::file::decode) const STRING: u64 = 76;
    pub(in crate::profile::file::decode) const MODULE: u64 = 96;
    pub(in crate::profile::file::decode) const TASK: u64 = 48;
    pub(in crate::profile::file::decode) const FRAME: u64 = 40;
    pub(in crate::profile::file::decode) const STACK: u64 = 28;
    pub(in crate::profile::file::decode) const EVENT: u64 = 512;
    pub(in crate::profile::file::decode) const FUNCTION: u64 = 48;
    pub(in crate::profile::file::decode) const NAMED_FRAME: u64 = 24;
    pub(in crate::profile::file::decode) const LOCATION: u64 = 24;
    pub(in crate::profile::file::decode) const SAMPLE: u64 = 40;
    pub(in crate::profile::file::decode) const WAIT: u64 = 32;
    pub(in crate::profile::file::decode) const MERGED: u64 = 32;
    pub(in crate::profile::file::decode) const BLOCK: u64 = 24;
    pub(in crate::profile::file::decode) const SAMPLE_LABELS: u64 = 8;
    pub(in crate::profile::file::decode) const LABEL_SET: u64 = 24;
    pub(in crate::profile::file::decode) const LABEL: u64 = 8;
    pub(in crate::profile::file::decode) const THREAD_TIME: u64 = 384;
    pub(in crate::profile::file::decode) const COUNTER: u64 = 96;
}
