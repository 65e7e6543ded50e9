//! The rows of the table, by what goes wrong: the recorder ends, its files and disks fail, its targets come and go, the
//! machine is short of something, its input lies.

mod attaching;
mod calls;
mod covered;
mod ends;
mod hostile;
mod load;
mod neighbours;
mod patching;
mod runtimes;
mod stalls;
mod storage;

use crate::fault::Fault;

/// All rows, by number.
pub(crate) fn all() -> Vec<Fault> {
    let mut rows = covered::rows();
    rows.extend(ends::rows());
    rows.extend(storage::rows());
    rows.extend(stalls::rows());
    rows.extend(calls::rows());
    rows.extend(load::rows());
    rows.extend(neighbours::rows());
    rows.extend(attaching::rows());
    rows.extend(runtimes::rows());
    rows.extend(hostile::rows());
    rows.extend(patching::rows());
    rows.sort_by_key(|row| row.number.parse::<u32>().unwrap_or(u32::MAX));
    rows
}

/// Numbers without a pattern, the same in each run (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
