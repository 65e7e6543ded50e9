//! The reading side of a BPF ring buffer.
//!
//! libbpf maps the whole data area, twice, for as long as it reads: a ring of 16 MiB counts as 32 MiB of resident memory.
//! Here the two pages with the positions stay mapped, and of the data only what is being read.
//!
//! Layout (kernel/bpf/ringbuf.c): a page with the consumer's position, which user space writes; a page with the producer's
//! position; the data, which follows itself once more, so that no record is split. A record is a header of eight bytes,
//! whose first word is the length with two flags, and its payload, rounded up to eight bytes.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const HEADER_BYTES: u64 = 8;
/// BPF_RINGBUF_BUSY_BIT: the record is still being written.
const BUSY: u32 = 1 << 31;
/// BPF_RINGBUF_DISCARD_BIT: the record is to be passed over.
const DISCARDED: u32 = 1 << 30;
/// Most data that is mapped at once, bytes, if a record is not longer.
const WINDOW_BYTES: u64 = 1 << 20;

/// A mapped part of a ring.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(ring: BorrowedFd<'_>, offset: u64, bytes: usize, access: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new shared mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, ring, offset) }?;
        Ok(Mapping { base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?, bytes })
    }

    /// The word at the start, which the kernel reads or writes meanwhile.
    fn position(&self) -> &AtomicU64 {
        // SAFETY: the mapping is at least a page, aligned to one, and lives as long as `self`; both sides access the word
        // as a whole.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A ring buffer that this process reads.
#[derive(Debug)]
pub(crate) struct Ring {
    map: OwnedFd,
    consumer: Mapping,
    producer: Mapping,
    /// Length of the data area, a power of two.
    data_bytes: u64,
    page_bytes: u64,
}

impl Ring {
    /// The ring of a map descriptor, with `data_bytes` of room.
    ///
    /// # Errors
    ///
    /// When the ring cannot be mapped.
    pub(crate) fn new(map: OwnedFd, data_bytes: u32) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size() as u64;
        if !data_bytes.is_power_of_two() || u64::from(data_bytes) < page_bytes {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the length of a ring is a power of two, a page at least",
            ));
        }
        let page = page_bytes as usize;
        let consumer = Mapping::new(map.as_fd(), 0, page, ProtFlags::READ | ProtFlags::WRITE)?;
        let producer = Mapping::new(map.as_fd(), page_bytes, page, ProtFlags::READ)?;
        Ok(Ring { map, consumer, producer, data_bytes: data_bytes.into(), page_bytes })
    }

    /// Room for data, bytes.
    pub(crate) fn capacity(&self) -> u64 {
        self.data_bytes
    }

    /// Gives the payload of each record to `take`, oldest first, and makes its room free. Stops at one that is still being
    /// written, and at what had been produced when the call began. Returns the bytes that became free.
    ///
    /// # Errors
    ///
    /// When the data cannot be mapped, or is not as the kernel promises: it is passed over then.
    pub(crate) fn consume(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<u64> {
        let end = self.producer.position().load(Ordering::Acquire);
        let begin = self.consumer.position().load(Ordering::Relaxed);
        let mut at = begin;
        let mut window_bytes = WINDOW_BYTES;
        while at < end {
            let window = self.window(at, end, window_bytes)?;
            match window.records(at, &mut take, self.consumer.position()) {
                (next, RingStop::Busy) if next == at => break,
                (next, RingStop::Busy | RingStop::End) => {
                    at = next;
                    window_bytes = WINDOW_BYTES;
                }
                (next, RingStop::Longer(bytes)) if bytes <= end - next => {
                    (at, window_bytes) = (next, bytes.max(WINDOW_BYTES));
                }
                (_, RingStop::Longer(_)) => {
                    self.consumer.position().store(end, Ordering::Release);
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a record is longer than the ring",
                    ));
                }
            }
        }
        Ok(at - begin)
    }

    /// The data from position `from` on: up to `end`, but not many more than `bytes`.
    fn window(&self, from: u64, end: u64, bytes: u64) -> io::Result<RingWindow> {
        let offset = from & (self.data_bytes - 1);
        let first_page = offset & !(self.page_bytes - 1);
        let length = offset - first_page + bytes.min(end - from).min(self.data_bytes);
        let mapping = Mapping::new(
            self.map.as_fd(),
            2 * self.page_bytes + first_page,
            length as usize,
            ProtFlags::READ,
        )?;
        Ok(RingWindow { mapping, start: (offset - first_page) as usize })
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// Why a window was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RingStop {
    /// All of it was taken.
    End,
    /// At a record that is still being written.
    Busy,
    /// At a record of this many bytes that does not end in it.
    Longer(u64),
}

/// A mapped part of the data.
struct RingWindow {
    mapping: Mapping,
    /// Offset of the first record in the mapping.
    start: usize,
}

impl RingWindow {
    /// Gives each whole record to `take` and stores the position after it in `consumer`. `position` is that of the first
    /// record. Returns the position where it stopped, and why.
    fn records(&self, position: u64, take: &mut impl FnMut(&[u8]), consumer: &AtomicU64) -> (u64, RingStop) {
        let (mut at, mut position) = (self.start, position);
        while at < self.mapping.bytes {
            let left = (self.mapping.bytes - at) as u64;
            if left < HEADER_BYTES {
                return (position, RingStop::Longer(HEADER_BYTES));
            }
            // SAFETY: the header is within the mapping. Records begin at multiples of eight bytes, so that it is aligned;
            // the kernel writes the word as a whole.
            let header = unsafe { AtomicU32::from_ptr(self.mapping.base.as_ptr().add(at).cast()) }
                .load(Ordering::Acquire);
            if header & BUSY != 0 {
                return (position, RingStop::Busy);
            }
            let length = u64::from(header & !(BUSY | DISCARDED));
            let record = HEADER_BYTES + length.next_multiple_of(8);
            if record > left {
                return (position, RingStop::Longer(record));
            }
            if header & DISCARDED == 0 {
                // SAFETY: the payload is within the mapping, and the kernel does not write a record that was completed
                // until the consumer's position has passed it, which happens below.
                let payload = unsafe {
                    let start = self.mapping.base.as_ptr().add(at + HEADER_BYTES as usize);
                    std::slice::from_raw_parts(start, length as usize)
                };
                take(payload);
            }
            at += record as usize;
            position += record;
            consumer.store(position, Ordering::Release);
        }
        (position, RingStop::End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    /// Stand-in for the kernel, on a file: the data is written at both of its places.
    struct Producer {
        file: File,
        page: u64,
        data: u64,
        position: u64,
    }

    impl Producer {
        fn new(data: u64) -> (Producer, Ring) {
            let page = rustix::param::page_size() as u64;
            let fd = rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
            rustix::fs::ftruncate(&fd, 2 * page + 2 * data).expect("it is ours");
            let ring =
                Ring::new(fd.try_clone().expect("a descriptor"), data as u32).expect("it can be mapped");
            (Producer { file: File::from(fd), page, data, position: 0 }, ring)
        }

        fn consumed(&self) -> u64 {
            let mut word = [0; 8];
            self.file.read_exact_at(&mut word, 0).expect("it is there");
            u64::from_ne_bytes(word)
        }

        fn write(&self, position: u64, bytes: &[u8]) {
            let offset = position & (self.data - 1);
            let until_end = bytes.len().min((self.data - offset) as usize);
            let (first, rest) = bytes.split_at(until_end);
            for copy in [0, self.data] {
                self.file.write_all_at(first, 2 * self.page + copy + offset).expect("room");
                self.file.write_all_at(rest, 2 * self.page + copy).expect("room");
            }
        }

        /// Whether there was room.
        fn produce(&mut self, payload: &[u8], flags: u32) -> bool {
            let bytes = HEADER_BYTES + (payload.len() as u64).next_multiple_of(8);
            if self.position + bytes - self.consumed() > self.data {
                return false;
            }
            self.write(self.position, &(payload.len() as u32 | flags).to_ne_bytes());
            self.write(self.position + HEADER_BYTES, payload);
            self.position += bytes;
            self.file.write_all_at(&self.position.to_ne_bytes(), self.page).expect("room");
            true
        }
    }

    fn taken(ring: &mut Ring) -> Vec<Vec<u8>> {
        let mut taken = Vec::new();
        ring.consume(|payload| taken.push(payload.to_vec())).expect("a sound ring");
        taken
    }

    #[test]
    fn records_come_whole_and_in_order_however_often_the_ring_goes_round() {
        let (mut producer, mut ring) = Producer::new(1 << 14);
        let mut next = 0u32;
        for round in 0..60usize {
            let mut sent = Vec::new();
            loop {
                let payload = vec![next as u8; (next as usize * 37 + round) % 3000];
                if !producer.produce(&payload, 0) {
                    break;
                }
                next += 1;
                sent.push(payload);
            }
            assert_eq!(taken(&mut ring), sent);
            assert_eq!(producer.consumed(), producer.position, "all room is free again");
        }
    }

    #[test]
    fn a_record_longer_than_a_window_comes_whole() {
        let (mut producer, mut ring) = Producer::new(1 << 22);
        let long = vec![7u8; 3 << 20];
        assert!(producer.produce(&[1, 2, 3], 0) && producer.produce(&long, 0) && producer.produce(&[4], 0));
        assert_eq!(taken(&mut ring), [vec![1, 2, 3], long, vec![4]]);
    }

    #[test]
    fn a_record_that_is_being_written_holds_those_after_it_and_a_discarded_one_is_passed_over() {
        let (mut producer, mut ring) = Producer::new(1 << 12);
        producer.produce(b"first", 0);
        producer.produce(b"dropped", DISCARDED);
        let busy = producer.position;
        producer.produce(b"second", BUSY);
        producer.produce(b"third", 0);
        assert_eq!(taken(&mut ring), [b"first".to_vec()]);
        assert!(taken(&mut ring).is_empty());
        producer.write(busy, &(b"second".len() as u32).to_ne_bytes());
        assert_eq!(taken(&mut ring), [b"second".to_vec(), b"third".to_vec()]);
    }

    #[test]
    fn a_length_that_cannot_be_is_an_error_and_read_once() {
        let (mut producer, mut ring) = Producer::new(1 << 12);
        producer.produce(b"first", 0);
        producer.write(0, &(1u32 << 29).to_ne_bytes());
        assert!(ring.consume(|_| ()).is_err());
        assert!(ring.consume(|_| ()).is_ok());
    }
}
