//! Which ranges of an array of unwind tables are free, and more room for tables when there is none.

use crate::base::opener::{self, Service};
use crate::base::privilege;
use crate::bpf::prof_more_tables;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Time that a range rests after it was given back: a walk that may still be in it takes microseconds.
pub(crate) const GRACE: Duration = Duration::from_millis(20);

/// First-fit allocation of ranges of one array.
#[derive(Debug)]
pub(crate) struct TableSpace {
    /// Free ranges (start, length), by start, never adjacent.
    free: Vec<(u32, u32)>,
    /// Ranges that rest until they may be used again.
    resting: VecDeque<(Instant, u32, u32)>,
}

impl TableSpace {
    /// A range of `capacity` elements that is free.
    pub(crate) fn new(capacity: u32) -> Self {
        TableSpace { free: vec![(0, capacity)], resting: VecDeque::new() }
    }

    /// The start of a range of `len` elements, which is free no more; `None` if there is no gap that large.
    pub(crate) fn allocate(&mut self, len: u32, now: Instant) -> Option<u32> {
        while let Some(&(since, start, len)) = self.resting.front() {
            if now.duration_since(since) < GRACE {
                break;
            }
            self.resting.pop_front();
            self.give_back(start, len);
        }
        let index = self.free.iter().position(|&(_, free)| free >= len)?;
        let (start, free) = self.free[index];
        if free == len {
            self.free.remove(index);
        } else {
            self.free[index] = (start + len, free - len);
        }
        Some(start)
    }

    /// Gives a range back that may still be read.
    pub(crate) fn release(&mut self, start: u32, len: u32, now: Instant) {
        self.resting.push_back((now, start, len));
    }

    /// Gives a range back that no one reads.
    pub(crate) fn give_back(&mut self, start: u32, len: u32) {
        if len == 0 {
            return;
        }
        let index = self.free.partition_point(|&(other, _)| other < start);
        self.free.insert(index, (start, len));
        if index + 1 < self.free.len() && start + len == self.free[index + 1].0 {
            self.free[index].1 += self.free.remove(index + 1).1;
        }
        if index > 0 && self.free[index - 1].0 + self.free[index - 1].1 == start {
            self.free[index - 1].1 += self.free.remove(index).1;
        }
    }
}

/// Makes a room for more unwind tables and tells the walker of it.
pub(super) fn make_room(rooms: &MapHandle, number: u32) -> io::Result<OwnedFd> {
    let room = match opener::is_running() {
        true => {
            let (_, room) = opener::ask_service(Service::TableSpace, Vec::new(), None)?;
            room.ok_or(io::ErrorKind::Other)?
        }
        false => create_table_space()?,
    };
    let descriptor = room.as_raw_fd().to_ne_bytes();
    rooms.update(&number.to_ne_bytes(), &descriptor, MapFlags::ANY).map_err(io::Error::other)?;
    Ok(room)
}

/// Makes a map for unwind tables.
pub(in crate::record) fn create_table_space() -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    let bytes = size_of::<prof_more_tables>() as u32;
    let create = || MapHandle::create(MapType::Array, Some("more_tables"), 4, bytes, 1, &options);
    let room = privilege::make_room(create).map_err(io::Error::other)?;
    room.as_fd().try_clone_to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_reused_after_its_rest_and_merges() {
        let start = Instant::now();
        let mut space = TableSpace::new(100);
        assert_eq!(space.allocate(60, start), Some(0));
        assert_eq!(space.allocate(40, start), Some(60));
        assert_eq!(space.allocate(1, start), None);
        space.release(0, 60, start);
        space.release(60, 40, start);
        assert_eq!(space.allocate(100, start), None, "still resting");
        assert_eq!(space.allocate(100, start + GRACE), Some(0));
    }

    proptest::proptest! {
        #[test]
        fn ranges_never_overlap(steps in proptest::collection::vec((1u32..40, proptest::bool::ANY), 1..200)) {
            let mut now = Instant::now();
            let mut space = TableSpace::new(200);
            let mut used: Vec<(u32, u32)> = Vec::new();
            for (len, release) in steps {
                now += GRACE;
                if release && !used.is_empty() {
                    let (start, len) = used.remove(len as usize % used.len());
                    space.release(start, len, now);
                } else if let Some(start) = space.allocate(len, now) {
                    proptest::prop_assert!(start + len <= 200);
                    proptest::prop_assert!(used.iter().all(|&(s, l)| start + len <= s || s + l <= start));
                    used.push((start, len));
                }
            }
            for (start, len) in used {
                space.release(start, len, now);
            }
            proptest::prop_assert_eq!(space.allocate(200, now + GRACE), Some(0));
        }
    }
}
