//! The sampler as bytes: an ELF file whose addresses are positions in it, made by build.rs of `sampler/`.

/// Number of hooks.
pub(crate) const HOOKS: usize = 71;
/// Room of one hook for displaced instructions and a note, bytes.
const ROOM_BYTES: u64 = 64;
/// The part of it for the instructions, bytes.
pub(super) const DISPLACED_BYTES: u64 = 48;
/// The rest: address of the function, and the bytes in whose place the jump is. By it another prof takes back what one has left
/// that was killed.
pub(super) const NOTE_BYTES: usize = (ROOM_BYTES - DISPLACED_BYTES) as usize;
/// Name of the file in the target.
pub(crate) const FILE_NAME: &str = "prof-heap";
/// Position of the data, which is one with the address in the mapping; the code ends before.
pub(super) const DATA_AT: u64 = 0x1_0000;
/// The part of it that is of the file, bytes: its first page.
pub(super) const FILE_DATA_BYTES: u64 = PAGE_BYTES;
/// Position of the rest, which children of fork have for themselves.
pub(super) const OWN_DATA_AT: u64 = DATA_AT + FILE_DATA_BYTES;
/// Size of the rest, bytes: `struct data` of sampler/core.h is no larger.
pub(super) const OWN_DATA_BYTES: u64 = BUCKETS_AT + (BUCKET_BYTES << 16) - OWN_DATA_AT;
/// Position of the count of listeners, which the kernel keeps: the semaphore of the probes.
pub(crate) const SEMAPHORE_AT: u64 = DATA_AT + 8;
/// Position of the mean number of bytes between sampled ones.
pub(super) const MEAN_AT: u64 = DATA_AT + 16;
/// Position of the number of sampled blocks that the set had no room for.
pub(super) const NOT_FOLLOWED_AT: u64 = DATA_AT + 24;
/// Position and size of the bits of buckets that are not empty.
pub(super) const BITS_AT: u64 = OWN_DATA_AT + (64 << 10);
pub(super) const BITS_BYTES: usize = (1 << 16) / 8;
/// Position of the buckets, and the size of one.
pub(super) const BUCKETS_AT: u64 = BITS_AT + BITS_BYTES as u64;
pub(super) const BUCKET_BYTES: u64 = 32;
/// The smallest unit of mappings on x86-64.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Position of the table of distances, as in sampler.ld.
const ENTRIES_AT: usize = 0x200;

/// Empty where prof runs on a processor for which there is no sampler.
static SAMPLER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/heap_sampler.elf"));

/// Positions in the sampler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SamplerImage {
    /// The probe that is passed for each sampled block.
    pub(crate) probe_alloc: u64,
    /// The probe that is passed when such a block is freed.
    pub(crate) probe_free: u64,
    displaced: u64,
    hooks: [u64; HOOKS],
}

impl SamplerImage {
    /// Whether a file of this path in /proc/PID/maps is a sampler.
    pub(crate) fn is_mapped_as(path: &str) -> bool {
        let name = path.strip_prefix("/memfd:");
        name.is_some_and(|name| name.strip_suffix(" (deleted)").unwrap_or(name) == FILE_NAME)
    }

    /// The sampler of this build; `None` where there is none for the processor.
    pub(crate) fn of_this_build() -> Option<Self> {
        let number = |index: usize| {
            let at = ENTRIES_AT + 4 * index;
            let distance = i32::from_le_bytes(SAMPLER.get(at..at + 4)?.try_into().ok()?);
            (at as u64).checked_add_signed(distance.into())
        };
        let mut hooks = [0; HOOKS];
        for (index, hook) in hooks.iter_mut().enumerate() {
            *hook = number(3 + index)?;
        }
        Some(SamplerImage { probe_alloc: number(0)?, probe_free: number(1)?, displaced: number(2)?, hooks })
    }

    /// Position of a hook.
    pub(super) fn hook(&self, number: usize) -> u64 {
        self.hooks[number]
    }

    /// Position of the room for the displaced instructions of a hook.
    pub(super) fn displaced(&self, number: usize) -> u64 {
        self.displaced + ROOM_BYTES * number as u64
    }

    /// Size of the mapping of the code, bytes.
    pub(super) fn code_bytes(&self) -> u64 {
        (SAMPLER.len() as u64).next_multiple_of(PAGE_BYTES)
    }

    /// A copy of the file, without displaced instructions.
    pub(super) fn bytes(&self) -> Vec<u8> {
        SAMPLER.to_vec()
    }
}

/// Size of the file in the target, bytes.
pub(super) const FILE_BYTES: u64 = DATA_AT + FILE_DATA_BYTES;
/// What the sampler takes of the target's addresses, bytes.
pub(super) const MAPPED_BYTES: u64 = OWN_DATA_AT + OWN_DATA_BYTES;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn probes_are_nops_of_one_byte_and_hooks_are_apart() {
        let image = SamplerImage::of_this_build().expect("it is there on this processor");
        let bytes = image.bytes();
        for probe in [image.probe_alloc, image.probe_free] {
            // A longer one is replaced by a call on new kernels, which breaks children of fork.
            assert_eq!(bytes[probe as usize..probe as usize + 2], [0x90, 0xc3]);
        }
        let mut hooks = image.hooks.to_vec();
        hooks.sort_unstable();
        hooks.dedup();
        assert_eq!(hooks.len(), HOOKS);
        assert!(image.code_bytes() <= DATA_AT, "the data begins after the code");
        let room = &bytes[image.displaced(0) as usize..image.displaced(HOOKS) as usize];
        assert!(room.iter().all(|byte| *byte == 0xcc));
    }
}
