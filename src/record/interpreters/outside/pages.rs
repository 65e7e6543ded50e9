//! Memory of a process that stands still for a while, read by the page.

use crate::runtimes::TargetMemory;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

const PAGE_BYTES: usize = 4096;
/// Pages that are kept; a walk that needs more ends.
const MOST_PAGES: usize = 4096;

/// Memory of which each page is read once.
pub(super) struct PageMemory<'m, M> {
    memory: &'m M,
    /// By number; `None` for those that cannot be read.
    pages: RefCell<FxHashMap<u64, Option<Box<[u8; PAGE_BYTES]>>>>,
}

impl<'m, M: TargetMemory> PageMemory<'m, M> {
    pub(super) fn new(memory: &'m M) -> Self {
        PageMemory { memory, pages: RefCell::default() }
    }

    /// Fills `bytes` with what is in a page from `offset` on.
    fn read_in_page(&self, page: u64, offset: usize, bytes: &mut [u8]) -> bool {
        let mut pages = self.pages.borrow_mut();
        if pages.len() >= MOST_PAGES && !pages.contains_key(&page) {
            return false;
        }
        let known = pages.entry(page).or_insert_with(|| {
            let mut content = Box::new([0; PAGE_BYTES]);
            let start = page.checked_mul(PAGE_BYTES as u64)?;
            self.memory.read(start, &mut content[..]).then_some(content)
        });
        let content = known.as_ref().and_then(|content| content.get(offset..offset + bytes.len()));
        content.map(|content| bytes.copy_from_slice(content)).is_some()
    }
}

impl<M: TargetMemory> TargetMemory for PageMemory<'_, M> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let (mut address, mut rest) = (address, bytes);
        while !rest.is_empty() {
            let offset = (address % PAGE_BYTES as u64) as usize;
            let (now, later) = rest.split_at_mut(rest.len().min(PAGE_BYTES - offset));
            if !self.read_in_page(address / PAGE_BYTES as u64, offset, now) {
                return false;
            }
            let Some(next) = address.checked_add(now.len() as u64) else { return later.is_empty() };
            (address, rest) = (next, later);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Memory whose bytes are the numbers of their pages, up to page 2; it counts what is read.
    struct Numbered(Cell<usize>);

    impl TargetMemory for Numbered {
        fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
            self.0.set(self.0.get() + 1);
            bytes.fill((address / PAGE_BYTES as u64) as u8);
            address < 3 * PAGE_BYTES as u64
        }
    }

    #[test]
    fn each_page_is_read_once_and_reads_may_cross_them() {
        let memory = Numbered(Cell::new(0));
        let pages = PageMemory::new(&memory);
        assert_eq!(pages.bytes::<4>(0x0ffe), Some([0, 0, 1, 1]));
        assert_eq!((pages.u8(0x1ff0), pages.u8(0x10)), (Some(1), Some(0)));
        assert_eq!(memory.0.get(), 2);
        assert_eq!(pages.u64(0x2ffc), None, "the second half is not there");
        assert_eq!(pages.u64(u64::MAX - 3), None);
    }
}
