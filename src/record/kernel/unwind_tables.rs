//! The unwind tables in the kernel's memory: rooms for rows and pages, interned rules, images.
//!
//! The arrays are BPF maps whose memory is mapped here and written directly: a sampling interrupt
//! that hits a map system call is lost. A table is published in order — rows, pages, then the image's
//! state — and its space is used again only after [`GRACE`](super::table_space::GRACE), when no walk can still be in it.
//! Where there is no space left another room is made.

use super::table_space::TableSpace;
use crate::bpf::{
    FIRST_PAGE_BITS, ImageState, MAX_IMAGES, MAX_MORE_TABLES, MAX_RULES, MORE_PAGES, MORE_ROWS, prof_image,
    prof_more_tables,
};
use crate::unwind::{KernelPage, Row, Rule, Table};
use rustc_hash::FxHashMap;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Why a table could not be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceError {
    /// No gap is large enough; dropping other tables helps.
    Full,
    /// The table is larger than all the space there is.
    TooLarge,
}

/// One BPF array of a single value, mapped for writing.
#[derive(Debug)]
struct MappedArray<T> {
    /// Start of the mapping: at a border of memory pages, and so perhaps before the first element.
    mapping: NonNull<u8>,
    mapped_bytes: usize,
    base: NonNull<T>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl<T: Send> Send for MappedArray<T> {}

/// An array in the single value of a large BPF map, of which only what is being written is mapped: the kernel maps all
/// pages at once, and they would count as memory of this process for as long as it runs.
#[derive(Debug)]
struct UnmappedArray {
    map: Arc<OwnedFd>,
    /// Offset in the value, bytes.
    start: usize,
    len: usize,
}

impl UnmappedArray {
    /// Writes elements from `index` on.
    fn write_all<T: Copy>(&self, index: usize, values: impl ExactSizeIterator<Item = T>) -> io::Result<()> {
        assert!(index <= self.len && values.len() <= self.len - index);
        if values.len() == 0 {
            return Ok(());
        }
        let start = self.start + index * size_of::<T>();
        MappedArray::at(self.map.as_fd(), start, values.len())?.write_all(0, values);
        Ok(())
    }
}

impl<T: Copy> MappedArray<T> {
    /// Maps the value of a map that holds `len` elements.
    fn new(map: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Self::at(map, 0, len)
    }

    /// Maps `len` elements of the value from byte `offset` on, a multiple of their size.
    fn at(map: BorrowedFd<'_>, offset: usize, len: usize) -> io::Result<Self> {
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

/// Place of a table.
#[derive(Debug, Clone, Copy)]
struct PlacedTable {
    room: usize,
    first_row: u32,
    row_count: u32,
    first_page: u32,
    page_count: u32,
    first_vpage: u32,
}

/// Space for tables.
#[derive(Debug)]
struct Room {
    rows: UnmappedArray,
    pages: UnmappedArray,
    row_space: TableSpace,
    page_space: TableSpace,
}

impl Room {
    fn new(rows: UnmappedArray, pages: UnmappedArray) -> Self {
        let (row_space, page_space) = (TableSpace::new(rows.len as u32), TableSpace::new(pages.len as u32));
        Room { rows, pages, row_space, page_space }
    }

    /// A room that was made for more tables: `struct prof_more_tables`.
    fn more(map: OwnedFd) -> Self {
        let map = Arc::new(map);
        let rows = UnmappedArray { map: Arc::clone(&map), start: 0, len: MORE_ROWS };
        Room::new(rows, UnmappedArray { map, start: MORE_ROWS * size_of::<Row>(), len: MORE_PAGES })
    }

    /// The first row and page of space for this many.
    fn allocate(&mut self, rows: u32, pages: u32, now: Instant) -> Option<(u32, u32)> {
        let first_row = self.row_space.allocate(rows, now)?;
        let first_page = self.page_space.allocate(pages, now);
        if first_page.is_none() {
            self.row_space.give_back(first_row, rows);
        }
        Some((first_row, first_page?))
    }

    fn bytes(&self) -> u64 {
        self.rows.len as u64 * size_of::<Row>() as u64
            + self.pages.len as u64 * size_of::<KernelPage>() as u64
    }
}

/// Makes the room of a number, from 0, for more tables.
pub(crate) type MakeRoom = Box<dyn FnMut(u32) -> io::Result<OwnedFd>>;

/// The maps that hold the tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableMaps<'a> {
    /// Rows, `row_capacity` of them.
    pub(crate) rows: BorrowedFd<'a>,
    /// Pages, `page_capacity` of them.
    pub(crate) pages: BorrowedFd<'a>,
    /// `MAX_RULES` rules.
    pub(crate) rules: BorrowedFd<'a>,
    /// `MAX_IMAGES` images.
    pub(crate) images: BorrowedFd<'a>,
    /// Rows that fit.
    pub(crate) row_capacity: u32,
    /// Pages that fit.
    pub(crate) page_capacity: u32,
    /// Memory that rows and pages may take, with those of rooms that are made later, bytes.
    pub(crate) budget_bytes: u64,
}

/// Writer of the kernel's unwind tables.
pub(crate) struct KernelTables {
    rooms: Vec<Room>,
    make_room: MakeRoom,
    /// Whether another room could not be made: no further one is tried.
    has_all_rooms: bool,
    budget_bytes: u64,
    /// Rules and images; `None` where no kernel walks by them.
    arrays: Option<(MappedArray<Rule>, MappedArray<prof_image>)>,
    rule_ids: FxHashMap<Rule, u16>,
    placed: FxHashMap<u32, PlacedTable>,
    /// Rows written so far, and how long that took.
    pub(crate) written: (u64, Duration),
}

impl std::fmt::Debug for KernelTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelTables").field("rooms", &self.rooms).finish_non_exhaustive()
    }
}

impl KernelTables {
    /// Maps the arrays. Rule 0 becomes "cannot be expressed", which is what rows fall back to when the
    /// rule array is full.
    pub(crate) fn new(maps: TableMaps<'_>, make_room: MakeRoom) -> io::Result<Self> {
        let array = |map: BorrowedFd<'_>, len: u32| -> io::Result<UnmappedArray> {
            Ok(UnmappedArray { map: Arc::new(map.try_clone_to_owned()?), start: 0, len: len as usize })
        };
        let first = Room::new(array(maps.rows, maps.row_capacity)?, array(maps.pages, maps.page_capacity)?);
        let mut tables = KernelTables {
            rooms: vec![first],
            make_room,
            has_all_rooms: false,
            budget_bytes: maps.budget_bytes,
            arrays: Some((
                MappedArray::new(maps.rules, MAX_RULES)?,
                MappedArray::new(maps.images, MAX_IMAGES)?,
            )),
            rule_ids: FxHashMap::default(),
            placed: FxHashMap::default(),
            written: (0, Duration::ZERO),
        };
        tables.intern_rule(Rule::USER);
        Ok(tables)
    }

    /// No place for tables: stacks are walked elsewhere. All that is placed here is left out.
    pub(crate) fn none() -> KernelTables {
        KernelTables {
            rooms: Vec::new(),
            make_room: Box::new(|_| Err(io::ErrorKind::Unsupported.into())),
            has_all_rooms: true,
            budget_bytes: 0,
            arrays: None,
            rule_ids: FxHashMap::default(),
            placed: FxHashMap::default(),
            written: (0, Duration::ZERO),
        }
    }

    /// Tables that no kernel reads, with room for this many rows and pages, and for as much more as the budget has.
    #[cfg(test)]
    pub(crate) fn in_memory(row_capacity: u32, page_capacity: u32, budget_bytes: u64) -> KernelTables {
        let memory = |elements: usize, element_bytes: usize| {
            let fd = rustix::fs::memfd_create("tables", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
            rustix::fs::ftruncate(&fd, (elements * element_bytes) as u64).expect("it is ours");
            fd
        };
        let rows = memory(row_capacity as usize, size_of::<Row>());
        let pages = memory(page_capacity as usize, size_of::<KernelPage>());
        let rules = memory(MAX_RULES, size_of::<Rule>());
        let images = memory(MAX_IMAGES, size_of::<prof_image>());
        let maps = TableMaps {
            rows: rows.as_fd(),
            pages: pages.as_fd(),
            rules: rules.as_fd(),
            images: images.as_fd(),
            row_capacity,
            page_capacity,
            budget_bytes,
        };
        KernelTables::new(maps, Box::new(move |_| Ok(memory(1, size_of::<prof_more_tables>()))))
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
        if let Some((rules, _)) = &mut self.arrays {
            rules.write(id, rule);
        }
        self.rule_ids.insert(rule, id as u16);
        id as u16
    }

    /// Finds space for a table, in the first room that has it; makes another one if need be.
    fn allocate(&mut self, rows: u32, pages: u32, now: Instant) -> Result<(usize, u32, u32), PlaceError> {
        for (number, room) in self.rooms.iter_mut().enumerate() {
            if let Some((first_row, first_page)) = room.allocate(rows, pages, now) {
                return Ok((number, first_row, first_page));
            }
        }
        let fits_one = |room: &Room| rows as usize <= room.rows.len && pages as usize <= room.pages.len;
        let fits_more = rows as usize <= MORE_ROWS && pages as usize <= MORE_PAGES;
        if fits_more && self.add_room() {
            let number = self.rooms.len() - 1;
            let (first_row, first_page) =
                self.rooms[number].allocate(rows, pages, now).ok_or(PlaceError::TooLarge)?;
            return Ok((number, first_row, first_page));
        }
        Err(if self.rooms.iter().any(fits_one) { PlaceError::Full } else { PlaceError::TooLarge })
    }

    /// Makes another room, if the budget allows it.
    fn add_room(&mut self) -> bool {
        let bytes = self.capacity_bytes() + size_of::<prof_more_tables>() as u64;
        let number = self.rooms.len() as u32 - 1;
        if self.has_all_rooms || bytes > self.budget_bytes || number >= MAX_MORE_TABLES {
            return false;
        }
        match (self.make_room)(number) {
            Ok(map) => {
                self.rooms.push(Room::more(map));
                true
            }
            Err(_) => {
                // No memory, or no right to it any more: so it will be.
                self.has_all_rooms = true;
                false
            }
        }
    }

    /// Writes `table` and publishes it as `image`. It takes the place of the one that the image had: the two differ in
    /// their first page alone, so that one store switches, and a walk sees either of them.
    pub(crate) fn place(&mut self, image: u32, table: &Table) -> Result<(), PlaceError> {
        if self.arrays.is_none() {
            return Ok(());
        }
        let now = Instant::now();
        let row_count = table.rows.len() as u32;
        let page_count = table.pages.len() as u32;
        let (room, first_row, first_page) = self.allocate(row_count, page_count, now)?;
        let global: Vec<u16> = table.rules.iter().map(|&rule| self.intern_rule(rule)).collect();
        let rows = table.rows.iter().map(|row| Row {
            pc_low: row.pc_low,
            rule: global.get(usize::from(row.rule)).copied().unwrap_or(0),
        });
        let first_vpage = table.first_page as u32;
        let placed = PlacedTable { room, first_row, row_count, first_page, page_count, first_vpage };
        let into = &self.rooms[room];
        let written = into.rows.write_all(first_row as usize, rows);
        let pages = table.kernel_pages(first_row);
        if written.and_then(|()| into.pages.write_all(first_page as usize, pages)).is_err() {
            // No address space or memory for the window.
            self.release(placed);
            return Err(PlaceError::TooLarge);
        }
        let is_same_shape =
            |old: &PlacedTable| (old.page_count, old.first_vpage) == (page_count, first_vpage);
        let is_switched = self.placed.get(&image).is_some_and(is_same_shape);
        if !is_switched {
            self.drop_table(image);
        }
        let old = self.placed.insert(image, placed);
        let entry = prof_image {
            first_page: (room as u32) << FIRST_PAGE_BITS | first_page,
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
    pub(crate) fn set_state(&mut self, image: u32, state: ImageState) {
        let entry = prof_image { first_page: 0, page_count: 0, first_vpage: 0, state: 0 };
        self.publish(image, entry, state);
    }

    fn publish(&mut self, image: u32, mut entry: prof_image, state: ImageState) {
        let Some((_, images)) = &mut self.arrays else { return };
        images.write(image as usize, entry);
        fence(Ordering::Release);
        entry.state = state as u32;
        images.write(image as usize, entry);
    }

    /// Takes a table out. Its samples are rescued from now on.
    pub(crate) fn drop_table(&mut self, image: u32) {
        self.set_state(image, ImageState::NotLoaded);
        if let Some(placed) = self.placed.remove(&image) {
            self.release(placed);
        }
    }

    fn release(&mut self, placed: PlacedTable) {
        let now = Instant::now();
        let room = &mut self.rooms[placed.room];
        room.row_space.release(placed.first_row, placed.row_count, now);
        room.page_space.release(placed.first_page, placed.page_count, now);
    }

    /// Whether the image has a table here.
    pub(crate) fn is_placed(&self, image: u32) -> bool {
        self.placed.contains_key(&image)
    }

    /// Bytes of rows and pages that fit.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.rooms.iter().map(Room::bytes).sum()
    }
}

const _: () = assert!(
    size_of::<prof_more_tables>() == MORE_ROWS * size_of::<Row>() + MORE_PAGES * size_of::<KernelPage>()
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kernel::table_space::GRACE;
    use crate::unwind::Page;

    /// A table of this many rows, a page for every thousand.
    fn table(rows: u32) -> Table {
        let pages = (0..rows.div_ceil(1000)).map(|page| {
            let first = page * 1000;
            Page { first, count: 1000.min(rows - first) }
        });
        Table {
            first_page: 0,
            pages: pages.collect(),
            rows: (0..rows).map(|row| Row { pc_low: (row % 1000) as u16, rule: 0 }).collect(),
            rules: vec![Rule::STOP],
        }
    }

    #[test]
    fn a_table_for_which_there_is_no_space_gets_another_room() {
        let more = size_of::<prof_more_tables>() as u64;
        let mut tables = KernelTables::in_memory(1 << 12, 1 << 4, (4 << 12) + (260 << 4) + 2 * more);
        assert_eq!(tables.place(1, &table(4000)), Ok(()));
        assert_eq!(tables.place(2, &table(4000)), Ok(()));
        assert_eq!(tables.rooms.len(), 2);
        assert_eq!(tables.place(3, &table(MORE_ROWS as u32 - 100)), Ok(()), "the second one");
        assert_eq!(tables.place(4, &table(4_000)), Ok(()), "next to the second table");
        assert_eq!(tables.rooms.len(), 3);
        assert_eq!(tables.place(5, &table(MORE_ROWS as u32 - 100)), Err(PlaceError::Full), "no third one");
        assert_eq!(tables.place(6, &table(MORE_ROWS as u32 + 1)), Err(PlaceError::TooLarge));
        let image = tables.placed[&3];
        tables.drop_table(3);
        std::thread::sleep(GRACE);
        assert_eq!(tables.place(5, &table(MORE_ROWS as u32 - 100)), Ok(()));
        assert_eq!(tables.placed[&5].room, image.room);
    }

    #[test]
    fn a_room_that_cannot_be_made_is_asked_for_once() {
        let mut tables = KernelTables::in_memory(1 << 12, 1 << 4, u64::MAX);
        let asked = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = std::rc::Rc::clone(&asked);
        tables.make_room = Box::new(move |_| {
            count.set(count.get() + 1);
            Err(io::ErrorKind::OutOfMemory.into())
        });
        for image in 1..4 {
            assert_eq!(tables.place(image, &table(5000)), Err(PlaceError::TooLarge));
        }
        assert_eq!(asked.get(), 1);
    }
}
