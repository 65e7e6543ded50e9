//! The ring buffer of a perf event: a control page, and the data after it (perf_event_open(2), "MMAP layout").

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the head of a record: type, misc bits, size.
const HEAD_BYTES: usize = 8;

/// A perf event and its ring, which this process reads. Other events may write to it, too.
#[derive(Debug)]
pub(crate) struct PerfRing {
    event: OwnedFd,
    map: Arc<RingMap>,
}

/// The memory of a ring.
#[derive(Debug)]
struct RingMap {
    base: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for RingMap {}
// SAFETY: what it gives by reference are atomics, and copies of bytes that the kernel may write meanwhile.
unsafe impl Sync for RingMap {}

impl PerfRing {
    /// Maps the ring of an event, which has none yet, with room for `data_pages`, a power of two.
    ///
    /// # Errors
    ///
    /// When the kernel refuses: `EPERM` where the memory that this user may lock is used up. The event is given back then.
    pub(crate) fn map(event: OwnedFd, data_pages: usize) -> Result<Self, (OwnedFd, io::Error)> {
        let page_bytes = rustix::param::page_size();
        let data_bytes = page_bytes * data_pages;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new shared mapping at an address of the kernel's choice aliases nothing.
        let mapped = unsafe {
            mmap(std::ptr::null_mut(), page_bytes + data_bytes, access, MapFlags::SHARED, &event, 0)
        };
        match mapped.map(|base| NonNull::new(base.cast())) {
            Ok(Some(base)) => Ok(PerfRing { event, map: Arc::new(RingMap { base, page_bytes, data_bytes }) }),
            Ok(None) => Err((event, io::ErrorKind::OutOfMemory.into())),
            Err(error) => Err((event, error.into())),
        }
    }

    /// Room for records, bytes.
    pub(super) fn data_bytes(&self) -> usize {
        self.map.data_bytes
    }

    /// A second look into the ring, which takes nothing out of it.
    pub(super) fn view(&self) -> RingView {
        RingView { position: self.map.ends().0.load(Ordering::Acquire), map: Arc::clone(&self.map) }
    }

    /// Gives every record that is there to `visit`: type, misc bits, and the bytes after the head. Returns how many bytes
    /// they have taken.
    pub(crate) fn drain(&mut self, mut visit: impl FnMut(u32, u16, &[u8])) -> u64 {
        let (head, tail) = self.map.ends();
        let end = head.load(Ordering::Acquire);
        let start = tail.load(Ordering::Relaxed);
        let mut position = start;
        let mut record = Vec::new();
        while end.wrapping_sub(position) >= HEAD_BYTES as u64 {
            let header = self.bytes(position, HEAD_BYTES, &mut record);
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let misc = u16::from_ne_bytes([header[4], header[5]]);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if size < HEAD_BYTES || size as u64 > end.wrapping_sub(position) || size > self.map.data_bytes {
                position = end; // the ring is not as the kernel promises: give up this batch
                break;
            }
            visit(kind, misc, &self.bytes(position, size, &mut record)[HEAD_BYTES..]);
            position = position.wrapping_add(size as u64);
            // Room for others at once: a reader that is late has many large records to take.
            tail.store(position, Ordering::Release);
        }
        tail.store(position, Ordering::Release);
        position.wrapping_sub(start)
    }

    /// `size` bytes of the data area, which is a ring, from `position` on: where they are, or in `split` if the end of the
    /// ring is among them. There are no more of them than the ring has.
    fn bytes<'a>(&'a self, position: u64, size: usize, split: &'a mut Vec<u8>) -> &'a [u8] {
        let RingMap { base, page_bytes, data_bytes } = *self.map;
        let start = (position % data_bytes as u64) as usize;
        let first = size.min(data_bytes - start);
        // SAFETY: the data area has `data_bytes` bytes after the control page; start + first and size - first are within it.
        // The kernel does not write between data_tail and data_head, and the bytes are given up after their last use.
        let (whole, rest) = unsafe {
            let data = base.as_ptr().add(page_bytes);
            let whole = std::slice::from_raw_parts(data.add(start), first);
            (whole, std::slice::from_raw_parts(data, size - first))
        };
        if rest.is_empty() {
            return whole;
        }
        split.clear();
        split.extend_from_slice(whole);
        split.extend_from_slice(rest);
        split
    }
}

impl RingMap {
    /// Where the kernel writes next, and what was read.
    fn ends(&self) -> (&AtomicU64, &AtomicU64) {
        let page = self.base.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: `base` maps the control page for as long as `self` lives; the kernel writes
        // data_head and user space data_tail, both 8-byte aligned, so atomics of that size are valid.
        unsafe {
            (AtomicU64::from_ptr(&raw mut (*page).data_head), AtomicU64::from_ptr(&raw mut (*page).data_tail))
        }
    }

    /// Copies bytes of the data area, which is a ring, from `position` on. There are no more of them than the ring has.
    fn copy(&self, position: u64, bytes: &mut [u8]) {
        let start = (position % self.data_bytes as u64) as usize;
        let first = bytes.len().min(self.data_bytes - start);
        // SAFETY: the data area has `data_bytes` bytes after the control page; start + first and len - first are within it.
        // The kernel may write there meanwhile: who calls looks afterwards whether it has.
        unsafe {
            let data = self.base.as_ptr().add(self.page_bytes);
            std::ptr::copy_nonoverlapping(data.add(start), bytes.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, bytes.as_mut_ptr().add(first), bytes.len() - first);
        }
    }
}

/// A look into a ring that another thread empties.
#[derive(Debug)]
pub(super) struct RingView {
    map: Arc<RingMap>,
    /// Records before it were looked at.
    position: u64,
}

impl RingView {
    /// Puts the beginning of the newest record that has come since the last look, `most` bytes of it or less, without its head,
    /// into `bytes`, if it is of this `kind`. False where there is none, or it was written over meanwhile.
    pub(super) fn newest(&mut self, kind: u32, most: usize, bytes: &mut Vec<u8>) -> bool {
        let (head, tail) = self.map.ends();
        let (end, start) = (head.load(Ordering::Acquire), tail.load(Ordering::Acquire));
        // Both are where records begin.
        let mut position = if self.position < start { start } else { self.position };
        let mut found = None;
        while end.wrapping_sub(position) >= HEAD_BYTES as u64 {
            let mut header = [0; HEAD_BYTES];
            self.map.copy(position, &mut header);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if size < HEAD_BYTES || size as u64 > end.wrapping_sub(position) {
                break;
            }
            if u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) == kind {
                found = Some((position, size));
            }
            position = position.wrapping_add(size as u64);
        }
        self.position = end;
        let Some((position, size)) = found else { return false };
        bytes.clear();
        bytes.resize((size - HEAD_BYTES).min(most), 0);
        self.map.copy(position.wrapping_add(HEAD_BYTES as u64), bytes);
        head.load(Ordering::Acquire).wrapping_sub(position) <= self.map.data_bytes as u64
    }
}

/// A ring as a reader has it.
#[derive(Debug)]
pub(super) struct ReadRing {
    pub(super) cpu: u32,
    /// Readable when a sample has come.
    pub(super) event: OwnedFd,
    pub(super) view: RingView,
}

impl AsFd for PerfRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for RingMap {
    fn drop(&mut self) {
        let bytes = self.page_bytes + self.data_bytes;
        // SAFETY: this is the mapping made in `map`, and no reference into it outlives `self`.
        // A failure could only mean that it is gone already.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), bytes) };
    }
}
