//! The bytes of a section, of which only the pages that were read are in memory.
//!
//! DWARF of a large program is gigabytes, and a lookup needs only small parts of it: an entry here, its name there. So
//! the reader given to addr2line and gimli loads pages as it comes to them, and memory grows with the addresses looked
//! up.

use super::packed::PackedStream;
use crate::elf::ElfError;
use crate::elf::section::Contents;
use crate::elf::source::Source;
use crate::symbols::error::SymbolError;
use crate::symbols::work::{Charge, Work};
use object::read::CompressionFormat;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes read at a time.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Pages under one entry of the first level.
const BLOCK_PAGES: usize = 256;
/// Reads that every section may take, however short it is.
const FREE_READS: u64 = 1 << 16;

type Page = Box<[u8; PAGE_BYTES]>;
type Block = Box<[OnceLock<Page>; BLOCK_PAGES]>;

/// The source of a section's pages.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    /// The bytes at an offset of the file.
    File(Source, u64),
    /// The bytes of a zlib stream.
    Packed(Arc<PackedStream>),
    /// The bytes are all in memory.
    Memory(Arc<Unpacked>),
}

/// Bytes of a section that is in memory as a whole.
#[derive(Debug)]
pub(crate) struct Unpacked {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl Store {
    /// The store of `contents` in `source`. A section packed with zstd is unpacked as a whole: the state of its
    /// decompressor cannot be kept.
    pub(crate) fn open(source: &Source, contents: Contents, work: &Arc<Work>) -> Result<Self, SymbolError> {
        let Contents { format, range, len } = contents;
        match format {
            CompressionFormat::Zlib => {
                Ok(Store::Packed(Arc::new(PackedStream::new(source.clone(), range, len, work))))
            }
            CompressionFormat::Zstandard => {
                let charge = Charge::new(work, len)?;
                let _packed = Charge::new(work, range.end - range.start)?;
                let packed =
                    source.read("compressed section", range.start, range.end - range.start, u64::MAX)?;
                let bytes = unpack_zstd(&packed, len, work)?;
                Ok(Store::Memory(Arc::new(Unpacked { bytes, _charge: charge })))
            }
            _ => Ok(Store::File(source.clone(), range.start)),
        }
    }

    /// The same store for another thread.
    pub(crate) fn another(&self, work: &Arc<Work>) -> Self {
        match self {
            Store::Packed(stream) => Store::Packed(Arc::new(stream.another(work))),
            Store::File(..) | Store::Memory(_) => self.clone(),
        }
    }
}

/// Unpacks a zstd frame of `len` bytes.
fn unpack_zstd(packed: &[u8], len: u64, work: &Work) -> Result<Vec<u8>, SymbolError> {
    use std::io::Read as _;
    let damaged = |_| ElfError::Malformed("compressed section");
    let mut decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(damaged)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len as usize).map_err(|_| ElfError::Malformed("compressed section"))?;
    while (bytes.len() as u64) < len {
        if work.is_late() {
            return Err(SymbolError::Stopped);
        }
        let step = (len - bytes.len() as u64).min(1 << 20);
        let read = decoder.by_ref().take(step).read_to_end(&mut bytes).map_err(damaged)?;
        if read == 0 {
            return Err(ElfError::Malformed("compressed section").into());
        }
    }
    Ok(bytes)
}

/// A section.
#[derive(Debug)]
pub(crate) struct SectionData {
    backing: Backing,
    len: usize,
    work: Arc<Work>,
    /// Bytes of pages in memory.
    loaded: AtomicU64,
    /// Reads since [`SectionData::begin`].
    reads: AtomicU64,
    max_rereads: u64,
    max_reads: AtomicU64,
    charge: Charge,
}

#[derive(Debug)]
enum Backing {
    Pages(Store, Box<[OnceLock<Block>]>),
    Memory(Arc<Unpacked>),
    /// Another section with some pages replaced: page number and page, sorted by number.
    Overlay(Arc<SectionData>, Vec<(usize, Page)>),
}

impl SectionData {
    /// A section of `len` bytes that may be read `max_rereads` times over.
    pub(crate) fn new(
        store: Store,
        len: u64,
        max_rereads: u64,
        work: &Arc<Work>,
    ) -> Result<Self, SymbolError> {
        let len = usize::try_from(len).map_err(|_| ElfError::Malformed("size of a section"))?;
        let backing = match store {
            Store::Memory(unpacked) => Backing::Memory(unpacked),
            store => {
                let blocks = len.div_ceil(PAGE_BYTES * BLOCK_PAGES);
                Backing::Pages(store, (0..blocks).map(|_| OnceLock::new()).collect())
            }
        };
        let blocks = len.div_ceil(PAGE_BYTES * BLOCK_PAGES) * size_of::<OnceLock<Block>>();
        Ok(SectionData::with(backing, len, max_rereads, Charge::new(work, blocks as u64)?, work))
    }

    /// A section without bytes.
    pub(crate) fn empty(work: &Arc<Work>) -> Self {
        SectionData::of_bytes(Vec::new(), work)
    }

    /// A short section that was made here.
    pub(crate) fn of_bytes(bytes: Vec<u8>, work: &Arc<Work>) -> Self {
        let len = bytes.len();
        let unpacked = Unpacked { bytes, _charge: Charge::none(work) };
        SectionData::with(Backing::Memory(Arc::new(unpacked)), len, u64::MAX, Charge::none(work), work)
    }

    /// A section with the first `len` bytes of `base`, but with other bytes in some places.
    pub(crate) fn overlay(
        base: &Arc<SectionData>,
        len: usize,
        patches: &[(usize, Vec<u8>)],
        work: &Arc<Work>,
    ) -> Result<Self, SymbolError> {
        let cut = ElfError::Malformed("debug section");
        let mut pages: Vec<(usize, Page)> = Vec::new();
        for (at, bytes) in patches {
            for (at, &byte) in (*at..).zip(bytes) {
                let number = at / PAGE_BYTES;
                if pages.last().is_none_or(|(last, _)| *last != number) {
                    let mut page = Box::new([0; PAGE_BYTES]);
                    let old =
                        base.slice_at(number * PAGE_BYTES).ok_or(ElfError::Malformed("debug section"))?;
                    let old = &old[..old.len().min(PAGE_BYTES)];
                    page[..old.len()].copy_from_slice(old);
                    pages.push((number, page));
                }
                let Some((_, page)) = pages.last_mut() else { return Err(cut.into()) };
                page[at % PAGE_BYTES] = byte;
            }
        }
        let charge = Charge::new(work, (pages.len() * (PAGE_BYTES + size_of::<(usize, Page)>())) as u64)?;
        let backing = Backing::Overlay(Arc::clone(base), pages);
        Ok(SectionData::with(backing, len.min(base.len), base.max_rereads, charge, work))
    }

    fn with(backing: Backing, len: usize, max_rereads: u64, charge: Charge, work: &Arc<Work>) -> Self {
        SectionData {
            backing,
            len,
            work: Arc::clone(work),
            loaded: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            max_rereads,
            max_reads: AtomicU64::new(u64::MAX),
            charge,
        }
    }

    /// Length, bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of pages in memory.
    pub(crate) fn loaded_bytes(&self) -> u64 {
        match &self.backing {
            Backing::Memory(_) => self.len as u64,
            Backing::Overlay(base, _) => base.loaded_bytes(),
            Backing::Pages(..) => self.loaded.load(Ordering::Relaxed),
        }
    }

    /// Restarts the count of reads; at least `max_reads` are allowed.
    pub(crate) fn begin(&self, max_reads: u64) {
        self.reads.store(0, Ordering::Relaxed);
        self.max_reads.store(max_reads, Ordering::Relaxed);
    }

    /// Reads since [`SectionData::begin`].
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Counts reads; returns false when there were too many.
    #[inline]
    pub(crate) fn spend(&self, reads: usize) -> bool {
        let spent = self.reads.load(Ordering::Relaxed).saturating_add(reads as u64);
        self.reads.store(spent, Ordering::Relaxed);
        // The first comparison nearly always decides.
        if spent > FREE_READS && spent > self.allowed_reads() {
            self.work.spend_all();
            return false;
        }
        self.work.may_read()
    }

    fn allowed_reads(&self) -> u64 {
        let by_length = self.loaded_bytes().saturating_mul(self.max_rereads).saturating_add(FREE_READS);
        by_length.min(self.max_reads.load(Ordering::Relaxed))
    }

    /// The limits shared by all sections of the module.
    pub(crate) fn work(&self) -> &Work {
        &self.work
    }

    /// Some bytes from `at` on: as many as are contiguous in memory. `None` at the end, and when they cannot be read.
    pub(crate) fn slice_at(&self, at: usize) -> Option<&[u8]> {
        if at >= self.len {
            return None;
        }
        let number = at / PAGE_BYTES;
        let page = match &self.backing {
            Backing::Memory(unpacked) => return unpacked.bytes.get(at..self.len),
            Backing::Overlay(base, pages) => {
                match pages.binary_search_by_key(&number, |(number, _)| *number) {
                    Ok(index) => &pages[index].1[..],
                    Err(_) => {
                        let bytes = base.slice_at(at)?;
                        return bytes.get(..bytes.len().min(self.len - at));
                    }
                }
            }
            Backing::Pages(store, blocks) => self.page(store, blocks, number)?,
        };
        page.get(at % PAGE_BYTES..PAGE_BYTES.min(self.len - number * PAGE_BYTES))
    }

    fn page<'s>(&'s self, store: &Store, blocks: &'s [OnceLock<Block>], number: usize) -> Option<&'s [u8]> {
        let block = blocks.get(number / BLOCK_PAGES)?;
        let block = match block.get() {
            Some(block) => block,
            None => {
                self.charge.add(size_of::<[OnceLock<Page>; BLOCK_PAGES]>() as u64).ok()?;
                block.get_or_init(|| Box::new([const { OnceLock::new() }; BLOCK_PAGES]))
            }
        };
        let slot = &block[number % BLOCK_PAGES];
        if let Some(page) = slot.get() {
            return Some(&page[..]);
        }
        self.charge.add(PAGE_BYTES as u64).ok()?;
        let mut page = Box::new([0; PAGE_BYTES]);
        let start = number * PAGE_BYTES;
        let wanted = &mut page[..PAGE_BYTES.min(self.len - start)];
        let read = match store {
            Store::File(source, offset) => {
                source.read_exact(wanted, offset + start as u64).map_err(SymbolError::from)
            }
            Store::Packed(stream) => stream.read(start as u64, wanted),
            Store::Memory(..) => return None,
        };
        if let Err(error) = read {
            if !matches!(error, SymbolError::Stopped) {
                self.work.note_damage();
            }
            return None;
        }
        self.loaded.fetch_add(PAGE_BYTES as u64, Ordering::Relaxed);
        Some(&slot.get_or_init(|| page)[..])
    }

    /// The bytes from `at` up to the next NUL (exclusive), at most `max` of them; `None` past the end.
    pub(crate) fn c_string(&self, at: usize, max: usize) -> Option<Vec<u8>> {
        let mut string = Vec::new();
        let mut part = self.slice_at(at)?;
        loop {
            let wanted = &part[..part.len().min(max - string.len())];
            let end = memchr::memchr(0, wanted);
            string.extend_from_slice(&wanted[..end.unwrap_or(wanted.len())]);
            if end.is_some() || string.len() == max {
                return Some(string);
            }
            let Some(next) = self.slice_at(at + string.len()) else { return Some(string) };
            part = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::deadline::Deadline;
    use crate::base::memory_budget::MemoryBudget;

    fn work() -> Arc<Work> {
        Work::new(&Arc::new(MemoryBudget::new(8 << 20)), &Deadline::default()).unwrap()
    }

    #[test]
    fn only_pages_that_were_read_are_in_memory() {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 100) as u8).collect();
        let work = work();
        let store = Store::File(Source::Bytes(Arc::new(bytes.clone())), 1000);
        let section = SectionData::new(store, 2_500_000, 8, &work).unwrap();
        assert_eq!(section.slice_at(2_400_000).unwrap()[0], bytes[2_401_000]);
        assert_eq!(section.slice_at(0).unwrap(), &bytes[1000..1000 + PAGE_BYTES]);
        assert_eq!(section.slice_at(2_499_999).unwrap().len(), 1);
        assert_eq!(section.slice_at(2_500_000), None);
        assert_eq!(section.loaded_bytes(), 3 * PAGE_BYTES as u64);
        assert!(work.used_bytes() < 48 << 10);
        drop(section);
        assert_eq!(work.used_bytes(), 0);
    }

    #[test]
    fn strings_cross_pages_and_end() {
        let mut bytes = vec![b'x'; 2 * PAGE_BYTES];
        bytes[PAGE_BYTES + 10] = 0;
        let work = work();
        let store = Store::File(Source::Bytes(Arc::new(bytes)), 0);
        let section = SectionData::new(store, 2 * PAGE_BYTES as u64, 8, &work).unwrap();
        assert_eq!(section.c_string(PAGE_BYTES - 5, 100).unwrap(), b"x".repeat(15));
        assert_eq!(section.c_string(PAGE_BYTES - 5, 7).unwrap(), b"x".repeat(7));
        assert_eq!(section.c_string(2 * PAGE_BYTES - 4, 100).unwrap(), b"xxxx");
        assert_eq!(section.c_string(2 * PAGE_BYTES, 100), None);
    }

    #[test]
    fn an_overlay_replaces_bytes_and_cuts() {
        let work = work();
        let bytes: Vec<u8> = (0..5 * PAGE_BYTES).map(|n| (n % 251) as u8).collect();
        let store = Store::File(Source::Bytes(Arc::new(bytes.clone())), 0);
        let base = Arc::new(SectionData::new(store, bytes.len() as u64, 8, &work).unwrap());
        let patch = vec![1, 2, 3, 4];
        let len = 4 * PAGE_BYTES + 7;
        let patches = [(0, patch.clone()), (2 * PAGE_BYTES - 2, patch)];
        let overlay = SectionData::overlay(&base, len, &patches, &work).unwrap();
        let mut expected = bytes[..len].to_vec();
        for (at, patch) in &patches {
            expected[*at..at + 4].copy_from_slice(patch);
        }
        let mut all = Vec::new();
        while let Some(part) = overlay.slice_at(all.len()) {
            all.extend_from_slice(part);
        }
        assert!(all == expected);
    }

    #[test]
    fn zstd_is_unpacked_whole_or_not_at_all() {
        let bytes = vec![7; 100_000];
        let packed = zstd::bulk::compress(&bytes, 3).unwrap();
        let open = |len, format| {
            let contents = Contents { format, range: 0..packed.len() as u64, len };
            let work = work();
            let store = Store::open(&Source::Bytes(Arc::new(packed.clone())), contents, &work)?;
            SectionData::new(store, len, 8, &work)
        };
        let section = open(100_000, CompressionFormat::Zstandard).unwrap();
        assert_eq!(section.slice_at(0).unwrap(), bytes);
        assert!(matches!(
            open(100_001, CompressionFormat::Zstandard),
            Err(SymbolError::Elf(ElfError::Malformed(_)))
        ));
        assert!(matches!(open(99 << 20, CompressionFormat::Zstandard), Err(SymbolError::NoMemory(_))));
    }
}
