//! A zlib stream that can be read at any position without unpacking all of it.
//!
//! The state of the decompressor is kept at intervals along the stream: its tables and the last 32 KiB that it wrote.
//! To read at a position, it continues from where it is or from the last kept state before the position. zran.c, an
//! example of zlib, does the same. Where somebody waits for the names and there is memory for it, a stream is unpacked as a whole
//! when it is read for the first time: lookups come back to all parts of it, and several threads share it. In the background
//! that is done for the rest of a lookup that has unpacked more than all of it twice, in parts.

use crate::base::memory_budget::{MemoryBudget, Refused, Reservation};
use crate::elf::ElfError;
use crate::elf::source::Source;
use crate::symbols::error::SymbolError;
use crate::symbols::limits::WholeSections;
use crate::symbols::work::{Charge, Work};
use flate2::FlushDecompress;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Bytes that deflate may refer back to, and so the size of the window kept.
pub(crate) const WINDOW_BYTES: usize = 32 << 10;
/// Packed bytes read at a time.
const INPUT_BYTES: usize = 64 << 10;
/// Most states kept: in a long stream they are farther apart.
const MAX_STATES: u64 = 128;
/// Least number of unpacked bytes between two kept states.
const MIN_INTERVAL: u64 = 128 << 10;
/// A lookup in the background that has unpacked so many times the length of a stream has all of it unpacked.
const MOST_REPEATS: u64 = 2;
/// Memory of one state, bytes.
const STATE_BYTES: u64 = (WINDOW_BYTES + size_of::<DecompressorOxide>()) as u64;

/// A zlib stream in a file.
#[derive(Debug)]
pub(crate) struct PackedStream {
    source: Source,
    /// Range of the packed bytes in the source.
    packed: Range<u64>,
    /// Unpacked length, bytes.
    len: u64,
    /// All that it unpacks to, for all threads that read it.
    whole: Arc<Mutex<Whole>>,
    work: Arc<Work>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    cursor: Option<PackedCursor>,
    /// Kept states, by position, ascending.
    states: Vec<PackedState>,
    charge: Charge,
    /// Number of the last lookup that has read it.
    lookup: u64,
    /// Bytes that this one has unpacked in parts.
    in_parts: u64,
}

/// The decompressor at one position of the stream.
#[derive(Clone)]
struct PackedState {
    decompressor: Box<DecompressorOxide>,
    window: Box<[u8; WINDOW_BYTES]>,
    /// Position of the next packed byte in the file.
    packed_at: u64,
    /// Unpacked bytes written so far.
    unpacked: u64,
}

impl std::fmt::Debug for PackedState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("unpacked", &self.unpacked).finish_non_exhaustive()
    }
}

impl PackedState {
    /// At the start of the stream that has these packed bytes.
    fn at_start(packed: &Range<u64>) -> Self {
        PackedState {
            decompressor: Box::default(),
            window: Box::new([0; WINDOW_BYTES]),
            packed_at: packed.start,
            unpacked: 0,
        }
    }
}

#[derive(Debug)]
struct PackedCursor {
    state: PackedState,
    input: Vec<u8>,
    /// Bytes of `input` consumed.
    consumed: usize,
}

impl PackedCursor {
    fn at(state: PackedState) -> Self {
        PackedCursor { state, input: Vec::new(), consumed: 0 }
    }
}

/// Whether a stream is unpacked as a whole.
#[derive(Debug)]
enum Whole {
    /// The stream has not been read yet.
    NotTried,
    Unpacked(Arc<WholeStream>),
    /// As long as the lookup lasts.
    UnpackedForLookup(Weak<WholeStream>),
    /// The stream is read in parts.
    Parts,
}

/// All that a stream unpacks to.
#[derive(Debug)]
struct WholeStream {
    bytes: Vec<u8>,
    _room: Vec<Reservation>,
}

impl PackedStream {
    /// Makes a reader of the stream at `packed` of `source`, which unpacks to `len` bytes.
    pub(crate) fn new(source: Source, packed: Range<u64>, len: u64, work: &Arc<Work>) -> Self {
        let inner =
            Inner { cursor: None, states: Vec::new(), charge: Charge::none(work), lookup: 0, in_parts: 0 };
        let whole = match work.whole_sections() {
            WholeSections::AtOnce(_) => Whole::NotTried,
            WholeSections::AfterRepeats(_) => Whole::Parts,
        };
        let whole = Arc::new(Mutex::new(whole));
        PackedStream { source, packed, len, whole, work: Arc::clone(work), inner: Mutex::new(inner) }
    }

    /// The same stream for another thread, which need not wait for this one; the states kept so far are kept there, too.
    pub(crate) fn another(&self, work: &Arc<Work>) -> Self {
        let whole = Arc::clone(&self.whole);
        let other = PackedStream {
            whole,
            ..PackedStream::new(self.source.clone(), self.packed.clone(), self.len, work)
        };
        let states = self.inner.lock().unwrap_or_else(PoisonError::into_inner).states.clone();
        let mut inner = other.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.charge.add_if_free(states.len() as u64 * STATE_BYTES) {
            inner.states = states;
        }
        drop(inner);
        other
    }

    /// Fills `out` with the unpacked bytes from `at` on. They must lie in one window, which the bytes of a page do.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) -> Result<(), SymbolError> {
        let end = at + out.len() as u64;
        if self.is_unpacked_too_often() {
            self.unpack_for_lookup()?;
        }
        if let Some(whole) = self.whole()? {
            let part = whole.bytes.get(at as usize..end as usize);
            out.copy_from_slice(part.ok_or(ElfError::Malformed("compressed section"))?);
            return Ok(());
        }
        let inner = &mut *self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cursor = self.cursor_for(at, inner);
        while cursor.state.unpacked < end {
            if self.work.is_late() {
                inner.cursor = Some(cursor);
                return Err(SymbolError::Stopped);
            }
            self.keep_state(&cursor.state, inner);
            let before = cursor.state.unpacked;
            self.step(&mut cursor)?;
            inner.in_parts += cursor.state.unpacked - before;
        }
        let start = at as usize % WINDOW_BYTES;
        out.copy_from_slice(&cursor.state.window[start..start + out.len()]);
        inner.cursor = Some(cursor);
        Ok(())
    }

    /// The nearest decompressor at or before `at`, or one just after `at` that still has it in its window.
    fn cursor_for(&self, at: u64, inner: &mut Inner) -> PackedCursor {
        let known = inner.states.partition_point(|state| state.unpacked <= at).checked_sub(1);
        let known = known.map(|index| &inner.states[index]);
        let usable = inner.cursor.take().filter(|cursor| {
            let written = cursor.state.unpacked;
            // `at` is in the window, or is yet to come with no kept state nearer to it.
            let start = written.saturating_sub(1) / WINDOW_BYTES as u64 * WINDOW_BYTES as u64;
            at >= start && (at < written || known.is_none_or(|state| state.unpacked <= written))
        });
        usable.unwrap_or_else(|| {
            PackedCursor::at(known.cloned().unwrap_or_else(|| PackedState::at_start(&self.packed)))
        })
    }

    /// Keeps the state if it is at the start of a window and far enough from the last one kept.
    fn keep_state(&self, state: &PackedState, inner: &mut Inner) {
        let interval = (self.len / MAX_STATES).max(MIN_INTERVAL);
        let last = inner.states.last().map_or(0, |state| state.unpacked);
        let is_due = state.unpacked.is_multiple_of(WINDOW_BYTES as u64) && state.unpacked >= last + interval;
        // Without memory for the state, reading only takes longer.
        if is_due && inner.charge.add_if_free(STATE_BYTES) {
            inner.states.push(state.clone());
        }
    }

    /// The whole stream, unpacked on first use; `None` where it is read in parts.
    fn whole(&self) -> Result<Option<Arc<WholeStream>>, SymbolError> {
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*whole, Whole::NotTried) {
            let unpacked = match self.work.whole_sections() {
                WholeSections::AtOnce(memory) => self.unpack(&[memory])?,
                WholeSections::AfterRepeats(_) => None,
            };
            *whole = unpacked.map_or(Whole::Parts, |unpacked| Whole::Unpacked(Arc::new(unpacked)));
        }
        Ok(match &*whole {
            Whole::Unpacked(unpacked) => Some(Arc::clone(unpacked)),
            Whole::UnpackedForLookup(unpacked) => unpacked.upgrade(),
            Whole::NotTried | Whole::Parts => None,
        })
    }

    /// Whether this lookup has unpacked so much in parts that all of it would have been less; asked for the first time.
    fn is_unpacked_too_often(&self) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let lookup = self.work.lookup();
        let is_another = std::mem::replace(&mut inner.lookup, lookup) != lookup;
        let is_too_often = !is_another && inner.in_parts > MOST_REPEATS * self.len;
        if is_another || is_too_often {
            inner.in_parts = 0;
        }
        is_too_often
    }

    /// Unpacks all of it until the end of the lookup, if there is memory for it.
    fn unpack_for_lookup(&self) -> Result<(), SymbolError> {
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        let is_in_parts = match &*whole {
            Whole::Parts => true,
            Whole::UnpackedForLookup(unpacked) => unpacked.strong_count() == 0,
            Whole::NotTried | Whole::Unpacked(_) => false,
        };
        if is_in_parts
            && let WholeSections::AfterRepeats(memory) = self.work.whole_sections()
            && let Some(unpacked) = self.unpack(&[memory, self.work.budget()])?
        {
            let unpacked = Arc::new(unpacked);
            *whole = Whole::UnpackedForLookup(Arc::downgrade(&unpacked));
            self.work.hold(unpacked);
        }
        Ok(())
    }

    /// Unpacks all of it; `None` without memory, or where the stream is damaged: what comes before the damage is read in parts.
    fn unpack(&self, memory: &[&Arc<MemoryBudget>]) -> Result<Option<WholeStream>, SymbolError> {
        let room: Result<Vec<Reservation>, Refused> =
            memory.iter().map(|memory| memory.try_reserve(self.len)).collect();
        let Ok(room) = room else { return Ok(None) };
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(self.len as usize).is_err() {
            return Ok(None);
        }
        // Faster than the decompressor whose state can be copied.
        let mut decompressor = flate2::Decompress::new(true);
        let mut input = Vec::new();
        while (bytes.len() as u64) < self.len {
            if self.work.is_late() {
                return Err(SymbolError::Stopped);
            }
            let at = self.packed.start + decompressor.total_in();
            let left = self.packed.end.saturating_sub(at);
            input.resize(left.min(INPUT_BYTES as u64) as usize, 0);
            let before = (decompressor.total_in(), bytes.len());
            let is_read = self.source.read_exact(&mut input, at).is_ok();
            let unpacked = decompressor.decompress_vec(&input, &mut bytes, FlushDecompress::None);
            // A stream that ends too early stands still.
            if !is_read || unpacked.is_err() || before == (decompressor.total_in(), bytes.len()) {
                return Ok(None);
            }
        }
        Ok(Some(WholeStream { bytes, _room: room }))
    }

    /// Unpacks up to the end of the window.
    fn step(&self, cursor: &mut PackedCursor) -> Result<(), SymbolError> {
        let damaged = ElfError::Malformed("compressed section");
        let PackedCursor { state, input, consumed } = cursor;
        if *consumed == input.len() {
            let left = self.packed.end.saturating_sub(state.packed_at);
            input.resize(left.min(INPUT_BYTES as u64) as usize, 0);
            *consumed = 0;
            self.source.read_exact(input, state.packed_at)?;
        }
        let has_more = state.packed_at + ((input.len() - *consumed) as u64) < self.packed.end;
        let more = if has_more { inflate_flags::TINFL_FLAG_HAS_MORE_INPUT } else { 0 };
        let flags =
            inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER | inflate_flags::TINFL_FLAG_IGNORE_ADLER32 | more;
        let place = state.unpacked as usize % WINDOW_BYTES;
        let (status, read, written) =
            decompress(&mut state.decompressor, &input[*consumed..], &mut state.window[..], place, flags);
        *consumed += read;
        state.packed_at += read as u64;
        state.unpacked += written as u64;
        match status {
            TINFLStatus::HasMoreOutput | TINFLStatus::NeedsMoreInput if read + written > 0 => Ok(()),
            TINFLStatus::Done if written > 0 => Ok(()),
            _ => Err(damaged.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::deadline::Deadline;
    use crate::symbols::limits::NamingLimits;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    const PAGE: usize = 4096;

    fn text(len: usize) -> Vec<u8> {
        let mut seed = 1_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        };
        (0..len).map(|at| if at % 7 < 4 { (at / 900) as u8 } else { next() & 15 }).collect()
    }

    fn stream(bytes: &[u8], len: usize, deadline: &Deadline) -> (PackedStream, Arc<MemoryBudget>) {
        let budget = Arc::new(MemoryBudget::new(64 << 20));
        let work = Work::new(&budget, deadline).unwrap();
        let packed = miniz_oxide::deflate::compress_to_vec_zlib(bytes, 6);
        let range = 3..3 + packed.len() as u64;
        let file = [&[9; 3][..], &packed, &[9; 5]].concat();
        (PackedStream::new(Source::Bytes(Arc::new(file)), range, len as u64, &work), budget)
    }

    #[test]
    fn pages_are_right_in_any_order() {
        let bytes = text(3_000_000);
        let (stream, budget) = stream(&bytes, bytes.len(), &Deadline::default());
        let pages = bytes.len() / PAGE;
        let mut out = [0; PAGE];
        for step in (0..300).map(|n| n * 197 % pages).chain(0..40).chain([pages - 1, 0, 1, 8, 7]) {
            let at = step * PAGE;
            stream.read(at as u64, &mut out).unwrap();
            assert_eq!(out[..], bytes[at..at + PAGE], "page {step}");
            // Each is a lookup of its own: none comes back often.
            stream.work.end_lookup();
        }
        let inner = stream.inner.lock().unwrap();
        assert!((17..=23).contains(&inner.states.len()), "{}", inner.states.len());
        assert!(budget.used_bytes() <= 2 << 20);
    }

    /// The same, with memory for all of it.
    fn whole_stream(bytes: &[u8], cut: usize, whole_sections: WholeSections) -> PackedStream {
        let packed = miniz_oxide::deflate::compress_to_vec_zlib(bytes, 6);
        let limits = NamingLimits { whole_sections, ..NamingLimits::default() };
        let work = Work::of(&limits, &Arc::new(MemoryBudget::new(64 << 20)), &Deadline::default()).unwrap();
        let range = 0..(packed.len() - cut) as u64;
        PackedStream::new(Source::Bytes(Arc::new(packed)), range, bytes.len() as u64, &work)
    }

    #[test]
    fn with_memory_for_it_a_stream_is_unpacked_once_for_all_threads() {
        let bytes = text(3_000_000);
        let memory = Arc::new(MemoryBudget::new(4_000_000));
        let stream = whole_stream(&bytes, 0, WholeSections::AtOnce(Arc::clone(&memory)));
        assert_eq!(memory.used_bytes(), 0, "it has not been read");
        let other = stream.another(&stream.work);
        let mut out = [0; PAGE];
        for (number, page) in [40, 3, 41, bytes.len() / PAGE - 1, 0, 700].into_iter().enumerate() {
            let at = page * PAGE;
            if number % 2 == 0 { &stream } else { &other }.read(at as u64, &mut out).unwrap();
            assert_eq!(out[..], bytes[at..at + PAGE], "page {page}");
        }
        assert_eq!(memory.used_bytes(), bytes.len() as u64);
        assert!(
            stream.inner.lock().unwrap().states.is_empty() && other.inner.lock().unwrap().states.is_empty()
        );
        drop((stream, other));
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn without_memory_for_it_or_where_it_is_damaged_a_stream_is_read_in_parts() {
        let bytes = text(3_000_000);
        let mut out = [0; PAGE];
        for (megabytes, cut) in [(2, 0), (4, 9_000)] {
            let memory = Arc::new(MemoryBudget::new(megabytes << 20));
            let stream = whole_stream(&bytes, cut, WholeSections::AtOnce(Arc::clone(&memory)));
            for page in [300, 3] {
                let at = page * PAGE;
                stream.read(at as u64, &mut out).unwrap();
                assert_eq!(out[..], bytes[at..at + PAGE], "page {page}");
            }
            assert!(memory.used_bytes() == 0 && !stream.inner.lock().unwrap().states.is_empty());
        }
    }

    /// Reads 300 pages of a stream, none of them next to the last one.
    fn read_all_over(stream: &PackedStream, bytes: &[u8]) {
        let mut out = [0; PAGE];
        for step in 0..300 {
            let at = step * 197 % (bytes.len() / PAGE) * PAGE;
            stream.read(at as u64, &mut out).unwrap();
            assert_eq!(out[..], bytes[at..at + PAGE]);
        }
    }

    #[test]
    fn a_lookup_in_the_background_that_comes_back_often_unpacks_all_of_it_once() {
        let bytes = text(3_000_000);
        let memory = Arc::new(MemoryBudget::new(4_000_000));
        let stream = whole_stream(&bytes, 0, WholeSections::AfterRepeats(Arc::clone(&memory)));
        let other = stream.another(&stream.work);
        for _ in 0..2 {
            assert_eq!(memory.used_bytes(), 0);
            read_all_over(&stream, &bytes);
            assert_eq!(memory.used_bytes(), stream.len);
            assert_eq!(stream.inner.lock().unwrap().in_parts, 0, "all that was read since is there");
            read_all_over(&other, &bytes);
            assert_eq!(other.inner.lock().unwrap().in_parts, 0, "the other thread has it, too");
            stream.work.end_lookup();
        }
        assert_eq!(memory.used_bytes(), 0);
        let none = Arc::new(MemoryBudget::new(2_000_000));
        read_all_over(&whole_stream(&bytes, 0, WholeSections::AfterRepeats(none)), &bytes);
    }

    #[test]
    fn a_stream_that_ends_early_or_is_damaged_is_an_error() {
        let bytes = text(100_000);
        let mut out = [0; PAGE];
        let (short, _) = stream(&bytes, 200_000, &Deadline::default());
        short.read(0, &mut out).unwrap();
        assert!(short.read(150 * 1024 / 4096 * 4096, &mut out).is_err());
        // The stream can be read again after an error.
        short.read(4096, &mut out).unwrap();
        assert_eq!(out[..], bytes[4096..8192]);
        let (mut other, _) = stream(&bytes, 100_000, &Deadline::default());
        other.packed.end -= 9_000;
        assert!(other.read(90_112, &mut out).is_err());
    }

    #[test]
    fn unpacking_ends_with_the_stop_flag() {
        let stop = Arc::<AtomicBool>::default();
        let bytes = text(1_000_000);
        let (stream, _) = stream(&bytes, bytes.len(), &Deadline::after(Duration::from_secs(3600), &stop));
        let mut out = [0; PAGE];
        stream.read(0, &mut out).unwrap();
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(stream.read(900 * 1024, &mut out), Err(SymbolError::Stopped)));
    }
}
