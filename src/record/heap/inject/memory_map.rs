//! What a process has mapped, and where there is room for the sampler.

use super::image::{DATA_AT, OWN_DATA_AT, SamplerImage};
use crate::record::process::proc_fs;
use std::io;

/// One line of /proc/PID/maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MappedRange {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) is_executable: bool,
    pub(super) is_shared: bool,
    pub(super) file_offset: u64,
    pub(super) inode: u64,
    /// Foreign text.
    pub(super) path: String,
}

/// Mappings of a process, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemoryMap(Vec<MappedRange>);

/// A place for the sampler is no farther than this from what jumps to it, bytes: less than the 2 GiB of a jump.
const MOST_DISTANCE: u64 = 0x7800_0000;
/// Distance that is kept from the end of a mapping which may grow, such as the heap.
const ROOM_TO_GROW: u64 = 1 << 30;
/// Nothing is mapped below by an ordinary process (vm.mmap_min_addr).
const LOWEST: u64 = 0x1_0000;

impl MemoryMap {
    /// Reads /proc/PID/maps.
    ///
    /// # Errors
    ///
    /// As of reading the file.
    pub(super) fn read(pid: u32) -> io::Result<Self> {
        // A first thread that has ended has no memory any more.
        let thread = proc_fs::thread_to_read(pid);
        let text = std::fs::read(format!("/proc/{pid}/task/{thread}/maps"))?;
        Ok(MemoryMap::parse(&String::from_utf8_lossy(&text)))
    }

    fn parse(text: &str) -> Self {
        MemoryMap(text.lines().filter_map(parse_line).collect())
    }

    /// The mapping that has an address.
    pub(super) fn at(&self, address: u64) -> Option<&MappedRange> {
        self.0.iter().find(|range| (range.start..range.end).contains(&address))
    }

    /// Mappings of a sampler's code.
    pub(super) fn samplers(&self) -> impl Iterator<Item = &MappedRange> {
        let is_of_sampler = |range: &MappedRange| SamplerImage::is_mapped_as(&range.path);
        let has_data = move |at: u64| {
            let data = self.at(at + DATA_AT).filter(|data| is_of_sampler(data) && !data.is_executable);
            // A sampler of an earlier version has all of its data in the file.
            let has_own = self.at(at + OWN_DATA_AT).is_some_and(|own| own.inode == 0 && !own.is_executable);
            has_own && data.is_some_and(|data| data.file_offset == DATA_AT)
        };
        let is_code =
            move |range: &&MappedRange| is_of_sampler(range) && range.is_executable && range.file_offset == 0;
        // One that was not mapped to its end is of no use.
        self.0.iter().filter(is_code).filter(move |range| has_data(range.start))
    }

    /// Code of files, and then that of the kernel in the process, where what fills up the last page may be replaced for a moment.
    pub(super) fn code(&self) -> impl Iterator<Item = &MappedRange> {
        let is_code = |range: &&MappedRange| range.is_executable && !range.is_shared;
        let of_files = self.0.iter().filter(|range| range.inode != 0);
        of_files.chain(self.0.iter().filter(|range| range.path == "[vdso]")).filter(is_code)
    }

    /// A place for `bytes` that is near to all of `addresses`: at the end of a gap, since the heap and the stack grow away from
    /// there; where there is no such end, well after the beginning of one.
    pub(super) fn place_near(&self, addresses: &[u64], bytes: u64) -> Option<u64> {
        let distance = |place: u64| {
            addresses
                .iter()
                .map(|address| place.abs_diff(*address).max((place + bytes).abs_diff(*address)))
                .max()
        };
        let gaps = || {
            let ends = self.0.iter().map(|range| range.end);
            std::iter::once(LOWEST).chain(ends).zip(&self.0)
        };
        let at_ends = gaps().filter(|(start, next)| {
            next.path != "[stack]" && next.start.saturating_sub(*start) >= bytes + LOWEST
        });
        let at_ends = at_ends.map(|(_, next)| next.start - bytes);
        let after =
            gaps().filter(|(start, next)| next.start.saturating_sub(*start) >= ROOM_TO_GROW + 2 * bytes);
        let after = after.map(|(start, _)| start + ROOM_TO_GROW);
        let near = |place: &u64| distance(*place).is_some_and(|far| far <= MOST_DISTANCE);
        let nearest = at_ends.filter(near).min_by_key(|place| distance(*place));
        nearest.or_else(|| after.filter(near).min_by_key(|place| distance(*place)))
    }
}

fn parse_line(line: &str) -> Option<MappedRange> {
    let mut fields = line.splitn(6, ' ');
    let (range, protection, offset) = (fields.next()?, fields.next()?, fields.next()?);
    let (_device, inode) = (fields.next()?, fields.next()?);
    let (start, end) = range.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(MappedRange {
        start: number(start)?,
        end: number(end)?,
        is_executable: protection.as_bytes().get(2) == Some(&b'x'),
        is_shared: protection.as_bytes().get(3) == Some(&b's'),
        file_offset: number(offset)?,
        inode: inode.parse().ok()?,
        path: fields.next().unwrap_or_default().trim_start().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "00400000-00500000 r-xp 00000000 08:01 7    /bin/static\n\
                        00600000-00700000 rw-p 00000000 00:00 0    [heap]\n\
                        7f0000000000-7f0000200000 r-xp 00028000 08:01 9    /lib/libc.so.6\n\
                        7f0000400000-7f0000404000 r-xp 00000000 00:01 5    /memfd:prof-heap (deleted)\n\
                        7f0000410000-7f0000411000 rw-p 00010000 00:01 5    /memfd:prof-heap (deleted)\n\
                        7f0000411000-7f0000420000 rw-p 00000000 00:00 0 \n\
                        7f0000500000-7f0000504000 r-xp 00000000 00:01 6    /memfd:prof-heap (deleted)\n\
                        7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0    [stack]\n";

    #[test]
    fn a_place_is_at_the_end_of_the_nearest_gap() {
        let map = MemoryMap::parse(MAPS);
        assert_eq!(map.place_near(&[0x7f00_0000_1000], 0x10_0000), Some(0x7eff_fff0_0000));
        assert_eq!(
            map.place_near(&[0x41_0000], 0x22_0000),
            Some(0x1e_0000),
            "below a program at a fixed place"
        );
        let after_heap = map.place_near(&[0x41_0000], 0x50_0000).expect("there is room");
        assert_eq!(after_heap, 0x70_0000 + ROOM_TO_GROW, "the heap may grow");
        assert_eq!(map.place_near(&[0x41_0000, 0x7f00_0000_1000], 0x1000), None, "they are too far apart");
    }

    #[test]
    fn mappings_are_told_apart() {
        let map = MemoryMap::parse(MAPS);
        assert_eq!(map.samplers().map(|range| range.start).collect::<Vec<_>>(), [0x7f00_0040_0000]);
        assert_eq!(map.at(0x7f00_0000_1000).map(|range| &*range.path), Some("/lib/libc.so.6"));
        assert!(map.at(0x7f00_0020_0000).is_none());
    }
}
