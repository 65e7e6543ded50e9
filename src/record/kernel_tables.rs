//! The unwind tables in the kernel's memory: space for rows and pages, interned rules, images.
//!
//! All four arrays are BPF maps whose memory is mapped here and written directly: a sampling interrupt
//! that hits a map system call is lost. A table is published in order — rows, pages, then the image's
//! state — and its space is used again only after [`GRACE`], when no walk can still be in it.

use crate::bpf::{ImageState, MAX_IMAGES, MAX_RULES, prof_image};
use crate::unwind::{KernelPage, Row, Rule, Table};
use rustc_hash::FxHashMap;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// How long the space of a dropped table rests: a walk takes microseconds.
pub(super) const GRACE: Duration = Duration::from_millis(20);

/// Why a table could not be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceError {
    /// No gap is large enough; dropping other tables helps.
    Full,
    /// It is larger than all the space there is.
    TooLarge,
}

/// One BPF array of a single value, mapped for writing.
#[derive(Debug)]
struct MappedArray<T> {
    /// Where the mapping starts: at a border of memory pages, and so perhaps before the first element.
    mapping: NonNull<u8>,
    mapped_bytes: usize,
    base: NonNull<T>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl<T: Send> Send for MappedArray<T> {}

/// One large BPF array of a single value, of which only what is being written is mapped: the kernel maps all pages at
/// once, and they would count as memory of this process for as long as it runs.
#[derive(Debug)]
struct UnmappedArray {
    map: OwnedFd,
    len: usize,
}

impl UnmappedArray {
    fn new(map: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Ok(UnmappedArray { map: map.try_clone_to_owned()?, len })
    }

    /// Writes elements from `index` on.
    fn write_all<T: Copy>(&self, index: usize, values: impl ExactSizeIterator<Item = T>) -> io::Result<()> {
        assert!(index <= self.len && values.len() <= self.len - index);
        if values.len() == 0 {
            return Ok(());
        }
        MappedArray::at(self.map.as_fd(), index, values.len())?.write_all(0, values);
        Ok(())
    }
}

impl<T: Copy> MappedArray<T> {
    /// Maps the value of a map that holds `len` elements.
    fn new(map: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Self::at(map, 0, len)
    }

    /// Maps `len` elements of the value from element `first` on.
    fn at(map: BorrowedFd<'_>, first: usize, len: usize) -> io::Result<Self> {
        let offset = first * size_of::<T>();
        let before = offset % rustix::param::page_size();
        let mapped_bytes = before + len * size_of::<T>();
        // SAFETY: a new shared mapping at an address of the kernel's choice aliases nothing here.
        let mapping = unsafe {
            mmap(
                std::ptr::null_mut(),
                mapped_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                map,
                (offset - before) as u64,
            )
        }?;
        let mapping: NonNull<u8> = NonNull::new(mapping.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: `before` is within the mapping. It is a multiple of T's alignment, which divides its size and that of
        // a page, so that `base` is aligned as the mapping is.
        let base = unsafe { mapping.add(before) }.cast();
        Ok(MappedArray { mapping, mapped_bytes, base, len })
    }

    fn write(&mut self, index: usize, value: T) {
        assert!(index < self.len);
        // SAFETY: index is within the mapping, which is aligned for T. BPF programs
        // read it meanwhile, on other CPUs: hence volatile, and an order of writes that they can bear.
        unsafe { self.base.as_ptr().add(index).write_volatile(value) };
    }

    fn write_all(&mut self, index: usize, values: impl ExactSizeIterator<Item = T>) {
        assert!(index <= self.len && values.len() <= self.len - index);
        for (offset, value) in values.enumerate() {
            // SAFETY: as in `write`; index + offset is below index + values.len().
            unsafe { self.base.as_ptr().add(index + offset).write_volatile(value) };
        }
    }
}

impl<T> Drop for MappedArray<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `at`; no reference into it exists.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped_bytes) };
    }
}

/// First-fit allocation of ranges of one array.
#[derive(Debug)]
struct Space {
    capacity: u32,
    /// Free ranges (start, length), by start, never adjacent.
    free: Vec<(u32, u32)>,
    /// Ranges that rest until they may be used again.
    resting: VecDeque<(Instant, u32, u32)>,
}

impl Space {
    fn new(capacity: u32) -> Self {
        Space { capacity, free: vec![(0, capacity)], resting: VecDeque::new() }
    }

    fn allocate(&mut self, len: u32, now: Instant) -> Result<u32, PlaceError> {
        if len > self.capacity {
            return Err(PlaceError::TooLarge);
        }
        while let Some(&(since, start, len)) = self.resting.front() {
            if now.duration_since(since) < GRACE {
                break;
            }
            self.resting.pop_front();
            self.give_back(start, len);
        }
        let Some(index) = self.free.iter().position(|&(_, free)| free >= len) else {
            return Err(PlaceError::Full);
        };
        let (start, free) = self.free[index];
        if free == len {
            self.free.remove(index);
        } else {
            self.free[index] = (start + len, free - len);
        }
        Ok(start)
    }

    fn release(&mut self, start: u32, len: u32, now: Instant) {
        self.resting.push_back((now, start, len));
    }

    fn give_back(&mut self, start: u32, len: u32) {
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

/// Where a table lies.
#[derive(Debug, Clone, Copy)]
struct Placed {
    first_row: u32,
    row_count: u32,
    first_page: u32,
    page_count: u32,
    first_vpage: u32,
}

/// The maps that hold the tables.
#[derive(Debug, Clone, Copy)]
pub struct TableMaps<'a> {
    /// Rows, `row_capacity` of them.
    pub rows: BorrowedFd<'a>,
    /// Pages, `page_capacity` of them.
    pub pages: BorrowedFd<'a>,
    /// `MAX_RULES` rules.
    pub rules: BorrowedFd<'a>,
    /// `MAX_IMAGES` images.
    pub images: BorrowedFd<'a>,
    /// Rows that fit.
    pub row_capacity: u32,
    /// Pages that fit.
    pub page_capacity: u32,
}

/// Writer of the kernel's unwind tables.
#[derive(Debug)]
pub struct KernelTables {
    rows: UnmappedArray,
    pages: UnmappedArray,
    rules: MappedArray<Rule>,
    images: MappedArray<prof_image>,
    row_space: Space,
    page_space: Space,
    rule_ids: FxHashMap<Rule, u16>,
    placed: FxHashMap<u32, Placed>,
    /// Rows written so far, and how long that took.
    pub written: (u64, Duration),
}

impl KernelTables {
    /// Maps the arrays. Rule 0 becomes "cannot be expressed", which is what rows fall back to when the
    /// rule array is full.
    pub fn new(maps: TableMaps<'_>) -> io::Result<Self> {
        let mut tables = KernelTables {
            rows: UnmappedArray::new(maps.rows, maps.row_capacity as usize)?,
            pages: UnmappedArray::new(maps.pages, maps.page_capacity as usize)?,
            rules: MappedArray::new(maps.rules, MAX_RULES)?,
            images: MappedArray::new(maps.images, MAX_IMAGES)?,
            row_space: Space::new(maps.row_capacity),
            page_space: Space::new(maps.page_capacity),
            rule_ids: FxHashMap::default(),
            placed: FxHashMap::default(),
            written: (0, Duration::ZERO),
        };
        tables.intern_rule(Rule::USER);
        Ok(tables)
    }

    /// Tables that no kernel reads, with room for so many rows and pages.
    #[cfg(test)]
    pub(super) fn in_memory(row_capacity: u32, page_capacity: u32) -> KernelTables {
        let memory = |elements: usize, element_bytes: usize| {
            let fd = rustix::fs::memfd_create("tables", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
            rustix::fs::ftruncate(&fd, (elements * element_bytes) as u64).expect("it is ours");
            fd
        };
        let rows = memory(row_capacity as usize, size_of::<Row>());
        let pages = memory(page_capacity as usize, size_of::<KernelPage>());
        let rules = memory(MAX_RULES, size_of::<Rule>());
        let images = memory(MAX_IMAGES, size_of::<prof_image>());
        KernelTables::new(TableMaps {
            rows: rows.as_fd(),
            pages: pages.as_fd(),
            rules: rules.as_fd(),
            images: images.as_fd(),
            row_capacity,
            page_capacity,
        })
        .expect("the memory can be mapped")
    }

    fn intern_rule(&mut self, rule: Rule) -> u16 {
        if let Some(&id) = self.rule_ids.get(&rule) {
            return id;
        }
        let id = self.rule_ids.len();
        if id >= MAX_RULES {
            return 0;
        }
        self.rules.write(id, rule);
        self.rule_ids.insert(rule, id as u16);
        id as u16
    }

    /// Writes `table` and publishes it as `image`. It takes the place of the one that the image had: the two differ in
    /// their first page alone, so that one store switches, and a walk sees either of them.
    pub fn place(&mut self, image: u32, table: &Table) -> Result<(), PlaceError> {
        let now = Instant::now();
        let row_count = table.rows.len() as u32;
        let page_count = table.pages.len() as u32;
        let first_row = self.row_space.allocate(row_count, now)?;
        let first_page = match self.page_space.allocate(page_count, now) {
            Ok(first_page) => first_page,
            Err(error) => {
                self.row_space.give_back(first_row, row_count);
                return Err(error);
            }
        };
        let global: Vec<u16> = table.rules.iter().map(|&rule| self.intern_rule(rule)).collect();
        let rows = table.rows.iter().map(|row| Row {
            pc_low: row.pc_low,
            rule: global.get(usize::from(row.rule)).copied().unwrap_or(0),
        });
        let written = self.rows.write_all(first_row as usize, rows);
        let pages = table.kernel_pages(first_row);
        if written.and_then(|()| self.pages.write_all(first_page as usize, pages)).is_err() {
            // No address space or memory for the window.
            self.row_space.give_back(first_row, row_count);
            self.page_space.give_back(first_page, page_count);
            return Err(PlaceError::TooLarge);
        }
        let first_vpage = table.first_page as u32;
        let is_same_shape = |old: &Placed| (old.page_count, old.first_vpage) == (page_count, first_vpage);
        let is_switched = self.placed.get(&image).is_some_and(is_same_shape);
        if !is_switched {
            self.drop_table(image);
        }
        let placed = Placed { first_row, row_count, first_page, page_count, first_vpage };
        let old = self.placed.insert(image, placed);
        let entry = prof_image {
            first_page,
            page_count,
            first_vpage,
            state: if is_switched { ImageState::Ready } else { ImageState::NotLoaded } as u32,
        };
        // Rows and pages first.
        fence(Ordering::Release);
        self.publish(image, entry, ImageState::Ready);
        if let Some(old) = old {
            self.release(old);
        }
        self.written.0 += u64::from(row_count);
        self.written.1 += now.elapsed();
        Ok(())
    }

    /// Tells the walker what to do with a module that has no table.
    pub fn set_state(&mut self, image: u32, state: ImageState) {
        let entry = prof_image { first_page: 0, page_count: 0, first_vpage: 0, state: 0 };
        self.publish(image, entry, state);
    }

    fn publish(&mut self, image: u32, mut entry: prof_image, state: ImageState) {
        self.images.write(image as usize, entry);
        fence(Ordering::Release);
        entry.state = state as u32;
        self.images.write(image as usize, entry);
    }

    /// Takes a table out. Its samples are rescued from now on.
    pub fn drop_table(&mut self, image: u32) {
        self.set_state(image, ImageState::NotLoaded);
        if let Some(placed) = self.placed.remove(&image) {
            self.release(placed);
        }
    }

    fn release(&mut self, placed: Placed) {
        let now = Instant::now();
        self.row_space.release(placed.first_row, placed.row_count, now);
        self.page_space.release(placed.first_page, placed.page_count, now);
    }

    /// Whether the image has a table here.
    pub fn is_placed(&self, image: u32) -> bool {
        self.placed.contains_key(&image)
    }

    /// Images whose table is in the kernel.
    pub fn placed_images(&self) -> impl Iterator<Item = u32> + '_ {
        self.placed.keys().copied()
    }

    /// Bytes of rows and pages that fit.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.row_space.capacity) * 4
            + u64::from(self.page_space.capacity) * size_of::<KernelPage>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_reused_after_its_rest_and_merges() {
        let start = Instant::now();
        let mut space = Space::new(100);
        assert_eq!(space.allocate(60, start), Ok(0));
        assert_eq!(space.allocate(40, start), Ok(60));
        assert_eq!(space.allocate(1, start), Err(PlaceError::Full));
        assert_eq!(space.allocate(101, start), Err(PlaceError::TooLarge));
        space.release(0, 60, start);
        space.release(60, 40, start);
        assert_eq!(space.allocate(100, start), Err(PlaceError::Full), "still resting");
        assert_eq!(space.allocate(100, start + GRACE), Ok(0));
    }

    proptest::proptest! {
        #[test]
        fn ranges_never_overlap(steps in proptest::collection::vec((1u32..40, proptest::bool::ANY), 1..200)) {
            let mut now = Instant::now();
            let mut space = Space::new(200);
            let mut used: Vec<(u32, u32)> = Vec::new();
            for (len, release) in steps {
                now += GRACE;
                if release && !used.is_empty() {
                    let (start, len) = used.remove(len as usize % used.len());
                    space.release(start, len, now);
                } else if let Ok(start) = space.allocate(len, now) {
                    proptest::prop_assert!(start + len <= 200);
                    proptest::prop_assert!(used.iter().all(|&(s, l)| start + len <= s || s + l <= start));
                    used.push((start, len));
                }
            }
            for (start, len) in used {
                space.release(start, len, now);
            }
            proptest::prop_assert_eq!(space.allocate(200, now + GRACE), Ok(0));
        }
    }
}
