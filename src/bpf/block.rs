//! Sampled blocks of memory: what the probes of the sampler of allocations say.

use super::fields::{DecodeError, RecordFields};
use super::layout::{number, prof_block};
use std::mem::offset_of;

/// Size of that part, bytes.
pub(super) const BLOCK_BYTES: usize = size_of::<prof_block>();

/// `enum prof_block_kind`: what has happened to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockStep {
    /// It was allocated, by the stack of the sample.
    Allocated,
    /// It is about to be freed. Only its address counts.
    Freed,
}

/// What is known of how a block was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SamplingChance {
    /// Mean number of bytes between sampled ones when it was.
    Mean(u64),
    /// Bytes that it stands for, as its program says.
    Weight(u64),
}

/// Part of a record of the ring of blocks besides its sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockEvent {
    pub(crate) step: BlockStep,
    /// Process address.
    pub(crate) address: u64,
    /// Size that was asked for, bytes.
    pub(crate) size: u64,
    pub(crate) chance: SamplingChance,
}

impl BlockEvent {
    /// Decodes the part of a record before its sample, of [`BLOCK_BYTES`].
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut at = RecordFields::of(bytes, BLOCK_BYTES)?;
        let step = match u64::from(at.u32(offset_of!(prof_block, kind))) {
            number::PROF_BLOCK_ALLOCATED => BlockStep::Allocated,
            number::PROF_BLOCK_FREED => BlockStep::Freed,
            kind => return Err(DecodeError::Kind(kind as u32)),
        };
        Ok(BlockEvent {
            step,
            address: at.u64(offset_of!(prof_block, address)),
            size: at.u64(offset_of!(prof_block, size)),
            chance: match at.u64(offset_of!(prof_block, mean)) {
                0 => SamplingChance::Weight(at.u64(offset_of!(prof_block, weight))),
                mean => SamplingChance::Mean(mean),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_a_block_begins_with_the_block() {
        let mut bytes = vec![0; BLOCK_BYTES];
        bytes[..8].copy_from_slice(&0x5000u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&64u64.to_ne_bytes());
        bytes[16..24].copy_from_slice(&4096u64.to_ne_bytes());
        bytes[24..32].copy_from_slice(&8192u64.to_ne_bytes());
        bytes[32] = 1;
        let of_chance = |chance| BlockEvent { step: BlockStep::Allocated, address: 0x5000, size: 64, chance };
        assert_eq!(BlockEvent::decode(&bytes), Ok(of_chance(SamplingChance::Mean(4096))));
        bytes[16..24].fill(0);
        assert_eq!(BlockEvent::decode(&bytes), Ok(of_chance(SamplingChance::Weight(8192))));
        bytes[32] = 9;
        assert_eq!(BlockEvent::decode(&bytes), Err(DecodeError::Kind(9)));
        assert!(BlockEvent::decode(&bytes[..20]).is_err());
    }
}
