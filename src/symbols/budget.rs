//! A reader of DWARF bytes that gives up before a hostile file costs too much.
//!
//! addr2line walks entries with recursion and follows references without counting. Neither can be
//! bounded from outside, but all of it reads: so the reader itself refuses to go on when the section was
//! read too many times over, the time is up, or the stack has grown too deep. The refusal
//! is an ordinary "unexpected end", which ends the walk.

use gimli::{EndianSlice, LittleEndian, Reader, ReaderOffsetId};
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Reads between two looks at the clock.
const READS_PER_TICK: u32 = 1 << 14;
/// Reads that every section may take, however short it is.
const FREE_READS: u64 = 1 << 16;
/// Bytes of stack that a walk may use; the thread that walks must have [`THREAD_STACK_BYTES`].
const MAX_STACK_BYTES: usize = 6 << 20;
/// Stack of a thread that walks DWARF.
pub(super) const THREAD_STACK_BYTES: usize = 8 << 20;

/// What one thread may still spend. Cells: shared by all readers of that thread.
#[derive(Debug)]
pub(super) struct Budget {
    deadline: Instant,
    stop: Arc<AtomicBool>,
    /// Address of a local variable near the start of the thread's stack.
    stack_base: usize,
    until_tick: Cell<u32>,
    is_spent: Cell<bool>,
    is_late: Cell<bool>,
}

impl Budget {
    /// A budget for the calling thread, whose stack is to be counted from here.
    pub(super) fn new(deadline: Instant, stop: &Arc<AtomicBool>) -> Self {
        let here = 0_u8;
        Budget {
            deadline,
            stop: Arc::clone(stop),
            stack_base: std::ptr::from_ref(&here).addr(),
            until_tick: Cell::new(READS_PER_TICK),
            is_spent: Cell::new(false),
            is_late: Cell::new(false),
        }
    }

    /// Whether time ran out.
    pub(super) fn is_late(&self) -> bool {
        let is_stopped = self.stop.load(Ordering::Relaxed);
        if !self.is_late.get() && (is_stopped || Instant::now() >= self.deadline) {
            self.is_late.set(true);
        }
        self.is_late.get()
    }

    /// Whether time was ever found to have run out.
    pub(super) fn was_late(&self) -> bool {
        self.is_late.get()
    }

    /// Whether a read was ever refused for another reason than time.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent.get()
    }

    /// Looks at the clock once in a while; true while reading may go on.
    #[inline]
    fn may_read(&self) -> bool {
        let left = self.until_tick.get();
        self.until_tick.set(left.wrapping_sub(1));
        if left == 0 {
            self.until_tick.set(READS_PER_TICK);
            return !self.is_late();
        }
        let here = 0_u8;
        if std::ptr::from_ref(&here).addr().abs_diff(self.stack_base) > MAX_STACK_BYTES {
            self.is_spent.set(true);
            return false;
        }
        !self.is_late.get()
    }
}

/// The bytes of one section, and how many reads of them are left.
#[derive(Debug)]
pub(super) struct BudgetedSection<'a> {
    bytes: &'a [u8],
    reads_left: Cell<u64>,
    budget: &'a Budget,
}

impl<'a> BudgetedSection<'a> {
    /// A section that may be read `max_rereads` times over.
    pub(super) fn new(bytes: &'a [u8], max_rereads: u64, budget: &'a Budget) -> Self {
        let reads = (bytes.len() as u64).saturating_mul(max_rereads).saturating_add(FREE_READS);
        BudgetedSection { bytes, reads_left: Cell::new(reads), budget }
    }

    /// A reader of the whole section.
    pub(super) fn reader(&'a self) -> BudgetedReader<'a> {
        BudgetedReader { bytes: EndianSlice::new(self.bytes, LittleEndian), section: self }
    }

    #[inline]
    fn spend(&self, reads: usize) -> bool {
        match self.reads_left.get().checked_sub(reads as u64) {
            Some(left) if self.budget.may_read() => {
                self.reads_left.set(left);
                true
            }
            Some(_) => false,
            None => {
                self.budget.is_spent.set(true);
                false
            }
        }
    }
}

/// A part of a [`BudgetedSection`].
#[derive(Debug, Clone, Copy)]
pub(super) struct BudgetedReader<'a> {
    bytes: EndianSlice<'a, LittleEndian>,
    section: &'a BudgetedSection<'a>,
}

impl BudgetedReader<'_> {
    #[inline]
    fn spend(&self, reads: usize) -> gimli::Result<()> {
        match self.section.spend(reads) {
            true => Ok(()),
            false => Err(gimli::Error::UnexpectedEof(self.offset_id())),
        }
    }
}

impl Reader for BudgetedReader<'_> {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    #[inline]
    fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn empty(&mut self) {
        self.bytes.empty();
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> gimli::Result<()> {
        self.bytes.truncate(len)
    }

    #[inline]
    fn offset_from(&self, base: &Self) -> usize {
        self.bytes.offset_from(base.bytes)
    }

    #[inline]
    fn offset_id(&self) -> ReaderOffsetId {
        self.bytes.offset_id()
    }

    #[inline]
    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.bytes.lookup_offset_id(id)
    }

    #[inline]
    fn find(&self, byte: u8) -> gimli::Result<usize> {
        let at = Reader::find(&self.bytes, byte)?;
        self.spend(1 + at / 16)?;
        Ok(at)
    }

    #[inline]
    fn skip(&mut self, len: usize) -> gimli::Result<()> {
        self.spend(1)?;
        self.bytes.skip(len)
    }

    #[inline]
    fn split(&mut self, len: usize) -> gimli::Result<Self> {
        let bytes = self.bytes.split(len)?;
        Ok(BudgetedReader { bytes, section: self.section })
    }

    fn to_slice(&self) -> gimli::Result<Cow<'_, [u8]>> {
        Reader::to_slice(&self.bytes)
    }

    fn to_string(&self) -> gimli::Result<Cow<'_, str>> {
        Reader::to_string(&self.bytes)
    }

    fn to_string_lossy(&self) -> gimli::Result<Cow<'_, str>> {
        Reader::to_string_lossy(&self.bytes)
    }

    #[inline]
    fn read_slice(&mut self, buffer: &mut [u8]) -> gimli::Result<()> {
        self.spend(1)?;
        Reader::read_slice(&mut self.bytes, buffer)
    }

    #[inline]
    fn read_u8(&mut self) -> gimli::Result<u8> {
        self.spend(1)?;
        self.bytes.read_u8()
    }
}
