//! Memory of processes that do not exist.

use crate::runtimes::TargetMemory;

/// Memory that has the same few bytes everywhere, again and again: every pointer leads to some of them. Where a process has
/// nothing, there is nothing: at the lowest addresses, beyond the highest, and in one of sixteen pages.
pub(super) struct DenseMemory<'d>(pub(super) &'d [u8]);

impl DenseMemory<'_> {
    /// Address for a name of a symbol: some, the same each time. One in eight is missing.
    pub(super) fn symbol(&self, name: &str) -> Option<u64> {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let chosen = self.0.get((hash >> 8) as usize % self.0.len().max(1)).copied().unwrap_or(0);
        (chosen % 8 != 7).then_some(0x10_0000 + u64::from(chosen) * 8)
    }
}

impl TargetMemory for DenseMemory<'_> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let is_there = (0x1000..1 << 47).contains(&address) && address >> 12 & 15 != 13;
        if !is_there || self.0.is_empty() {
            return false;
        }
        let from = (address % self.0.len() as u64) as usize;
        let again = self.0.iter().skip(from).chain(self.0.iter().cycle());
        bytes.iter_mut().zip(again).for_each(|(byte, known)| *byte = *known);
        true
    }
}

/// Sound memory with damage: patches of up to eight bytes.
pub(super) struct DamagedMemory<'m, M> {
    sound: &'m M,
    patches: Vec<(u64, Vec<u8>)>,
}

impl<'m, M: TargetMemory> DamagedMemory<'m, M> {
    /// Takes patches from `data`: a byte that chooses one of `bases`, the distance from there in two bytes, a length, bytes.
    pub(super) fn new(sound: &'m M, bases: &[u64], data: &[u8]) -> Self {
        const MOST: usize = 64;
        let mut patches = Vec::new();
        let mut rest = data;
        while let Some(([base, low, high, size], after)) = rest.split_first_chunk()
            && patches.len() < MOST
        {
            let (bytes, next) = after.split_at(usize::from(*size % 9).min(after.len()));
            let base = bases.get(usize::from(*base) % bases.len().max(1)).copied().unwrap_or(0);
            patches.push((base + u64::from(u16::from_le_bytes([*low, *high])), bytes.to_vec()));
            rest = next;
        }
        DamagedMemory { sound, patches }
    }
}

impl<M: TargetMemory> TargetMemory for DamagedMemory<'_, M> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        if !self.sound.read(address, bytes) {
            return false;
        }
        for (at, patch) in &self.patches {
            for (distance, byte) in (0..).zip(patch) {
                let place = at.wrapping_add(distance).wrapping_sub(address);
                if let Some(place) = usize::try_from(place).ok().and_then(|place| bytes.get_mut(place)) {
                    *place = *byte;
                }
            }
        }
        true
    }
}
