//! The memory of a process, through /proc/PID/mem, and what of it an interrupt can read.

use crate::record::process::proc_fs;
use crate::runtimes::TargetMemory;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The memory of a process that may end at any time.
#[derive(Debug)]
pub(crate) struct ProcessMemory(File);

impl ProcessMemory {
    /// Opens the memory of a process.
    ///
    /// # Errors
    ///
    /// When the process is gone, or this process may not read it.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        proc_fs::open(pid, "mem").map(ProcessMemory)
    }

    /// Reads all of `bytes` at an address.
    ///
    /// # Errors
    ///
    /// As of reading the file.
    pub(crate) fn read_all(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, address)
    }

    /// Reads as far as there is memory, and returns how many bytes that are.
    pub(crate) fn read_part(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.0.read_at(bytes, address).unwrap_or(0)
    }
}

impl TargetMemory for ProcessMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.read_all(address, bytes).is_ok()
    }
}

/// Pages of a check that are looked at: all sets of these are tried, and a target may have many code objects that do not fit.
const MOST_PAGES: usize = 4;
const PAGE_BITS: u32 = 12;

/// The memory of a process as an interrupt sees it: pages that the process itself has not asked for yet are not there. That
/// is so after a fork, of what lies in files and in shared memory.
pub(super) struct InterruptMemory<'m> {
    memory: &'m dyn TargetMemory,
    /// Pages that were read so far.
    pages: RefCell<Vec<u64>>,
    /// Those of them that are absent: a bit each.
    absent: Cell<u32>,
}

impl<'m> InterruptMemory<'m> {
    pub(super) fn new(memory: &'m dyn TargetMemory) -> Self {
        InterruptMemory { memory, pages: RefCell::default(), absent: Cell::new(0) }
    }

    /// Takes away pages until `is_seen`, which reads the memory; returns whether it is with any of them absent.
    pub(super) fn fit(&self, is_seen: impl Fn(&Self) -> bool) -> bool {
        self.absent.set(0);
        if is_seen(self) {
            return true;
        }
        let pages = self.pages.borrow().len().min(MOST_PAGES);
        (1..1 << pages).any(|absent| {
            self.absent.set(absent);
            is_seen(self)
        })
    }
}

impl TargetMemory for InterruptMemory<'_> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let last = address.saturating_add(bytes.len().saturating_sub(1) as u64);
        let mut pages = self.pages.borrow_mut();
        for page in address >> PAGE_BITS..=last >> PAGE_BITS {
            let number = pages.iter().position(|known| *known == page).unwrap_or(pages.len());
            if number < MOST_PAGES && self.absent.get() >> number & 1 == 1 {
                return false;
            }
            if number == pages.len() && number < MOST_PAGES {
                pages.push(page);
            }
        }
        self.memory.read(address, bytes)
    }
}

/// Memory that is there, all of it the same byte.
#[cfg(test)]
pub(super) struct Everywhere;

#[cfg(test)]
impl TargetMemory for Everywhere {
    fn read(&self, _: u64, bytes: &mut [u8]) -> bool {
        bytes.fill(7);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_read_and_unmapped_memory_is_refused() {
        let memory = ProcessMemory::open(std::process::id()).expect("it is this process");
        let word = Box::new(0x1234_5678_9abc_def0_u64);
        assert_eq!(memory.u64(&raw const *word as u64), Some(*word));
        assert_eq!(memory.u64(0), None);
        assert_eq!(memory.u64(u64::MAX - 3), None);
    }

    #[test]
    fn the_pages_that_were_absent_are_found() {
        let reads = |memory: &InterruptMemory<'_>| {
            [0x1000, 0x5ffc, 0x9000].map(|address| memory.u64(address).is_some())
        };
        let memory = InterruptMemory::new(&Everywhere);
        assert!(memory.fit(|memory| reads(memory) == [true, true, true]));
        assert!(memory.fit(|memory| reads(memory) == [true, false, true]), "one of its two pages");
        assert_eq!(reads(&memory), [true, false, true]);
        assert!(memory.fit(|memory| reads(memory) == [false, true, false]));
        assert!(!memory.fit(|memory| memory.u64(0x1000).is_none() && memory.u64(0x1008).is_some()));
    }
}
