//! Limits on the resources for name lookups in one module: time, memory, reads and stack.
//!
//! addr2line walks entries recursively and follows references without counting. Neither can be bounded from outside,
//! but both need to read: so the reader of sections itself fails when a section was read too many times over, the time
//! is up, memory is refused, or the stack has grown too deep. The failure looks like an ordinary "unexpected end",
//! which ends the walk.

use crate::base::deadline::Deadline;
use crate::base::memory_budget::{MemoryBudget, Refused, Reservation};
use crate::symbols::limits::{NamingLimits, WholeSections};
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Reads between two checks of the clock.
const READS_PER_TICK: u32 = 1 << 14;
/// Bytes of stack that a walk may use; the thread of the walk must have [`THREAD_STACK_BYTES`].
const MAX_STACK_BYTES: usize = 6 << 20;
/// Stack size of a thread that walks DWARF.
pub(super) const THREAD_STACK_BYTES: usize = 8 << 20;
/// Memory is reserved in steps of this many bytes.
const RESERVE_STEP: u64 = 1 << 20;
/// Bytes of strings that may be copied for one unit: mostly names of files.
const MAX_COPIED_BYTES: u64 = 32 << 20;

/// The limits of one module, shared by all of its sections. Of several threads that work on a module each has its own.
#[derive(Debug)]
pub(super) struct Work {
    budget: Arc<MemoryBudget>,
    whole_sections: WholeSections,
    /// What is kept until the lookup ends.
    held: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
    /// Lookups that have ended.
    lookups: AtomicU64,
    deadline: Mutex<Deadline>,
    memory: Mutex<WorkMemory>,
    /// Address of a local variable near the start of the working thread's stack; 0: not checked.
    stack_base: AtomicUsize,
    until_tick: AtomicU32,
    copied: AtomicU64,
    is_late: AtomicBool,
    is_spent: AtomicBool,
    is_damaged: AtomicBool,
}

#[derive(Debug)]
struct WorkMemory {
    reservation: Reservation,
    used: u64,
    refused: Option<Refused>,
}

/// Why a read was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkRefusal {
    /// Time was up, or the work was asked to stop.
    Late,
    /// Too many reads, too many copies, or too deep a recursion.
    Spent,
    /// There was no memory.
    Memory(Refused),
    /// The file could not be read or unpacked.
    Damaged,
}

impl Work {
    /// Makes limits that draw on `budget`. Waits until the deadline for the first reservation of memory.
    pub(super) fn of(
        limits: &NamingLimits,
        budget: &Arc<MemoryBudget>,
        deadline: &Deadline,
    ) -> Result<Arc<Self>, Refused> {
        let reservation = budget.reserve(RESERVE_STEP.min(budget.limit_bytes()), deadline)?;
        Ok(Work::with(reservation, budget, deadline, limits.whole_sections.clone()))
    }

    /// The same by the usual limits.
    #[cfg(test)]
    pub(super) fn new(budget: &Arc<MemoryBudget>, deadline: &Deadline) -> Result<Arc<Self>, Refused> {
        Work::of(&NamingLimits::default(), budget, deadline)
    }

    fn with(
        reservation: Reservation,
        budget: &Arc<MemoryBudget>,
        deadline: &Deadline,
        whole_sections: WholeSections,
    ) -> Arc<Self> {
        Arc::new(Work {
            budget: Arc::clone(budget),
            whole_sections,
            held: Mutex::default(),
            lookups: AtomicU64::new(0),
            deadline: Mutex::new(deadline.clone()),
            memory: Mutex::new(WorkMemory { reservation, used: 0, refused: None }),
            stack_base: AtomicUsize::new(0),
            until_tick: AtomicU32::new(READS_PER_TICK),
            copied: AtomicU64::new(0),
            is_late: AtomicBool::new(false),
            is_spent: AtomicBool::new(false),
            is_damaged: AtomicBool::new(false),
        })
    }

    /// The same limits for another thread that works on the module, with memory of its own from the same budget. Does not
    /// wait for that: this one holds some.
    pub(super) fn another(&self) -> Result<Arc<Self>, Refused> {
        let deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reservation = self.budget.try_reserve(RESERVE_STEP.min(self.budget.limit_bytes()))?;
        Ok(Work::with(reservation, &self.budget, &deadline, self.whole_sections.clone()))
    }

    /// When compressed sections are unpacked as a whole.
    pub(super) fn whole_sections(&self) -> &WholeSections {
        &self.whole_sections
    }

    /// Memory for all work.
    pub(super) fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Keeps something until the lookup ends.
    pub(super) fn hold(&self, held: Arc<dyn Any + Send + Sync>) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(held);
    }

    /// The number of this lookup.
    pub(super) fn lookup(&self) -> u64 {
        self.lookups.load(Ordering::Relaxed)
    }

    /// Ends a lookup: lets go of what was held for it.
    pub(super) fn end_lookup(&self) {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Begins another piece of work, which has until `deadline`.
    pub(super) fn begin(&self, deadline: &Deadline) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline.clone();
        self.is_late.store(false, Ordering::Relaxed);
        self.begin_unit();
    }

    /// Begins another unit of DWARF: clears any refusal of the unit before, except for the time limit.
    pub(super) fn begin_unit(&self) {
        self.is_spent.store(false, Ordering::Relaxed);
        self.is_damaged.store(false, Ordering::Relaxed);
        self.copied.store(0, Ordering::Relaxed);
        self.memory().refused = None;
    }

    /// Counts the stack of the calling thread from here.
    pub(super) fn begin_stack(&self) {
        let here = 0_u8;
        self.stack_base.store(std::ptr::from_ref(&here).addr(), Ordering::Relaxed);
    }

    /// Stops counting the stack.
    pub(super) fn end_stack(&self) {
        self.stack_base.store(0, Ordering::Relaxed);
    }

    /// Why a read was refused since the last start, if one was.
    pub(super) fn refusal(&self) -> Option<WorkRefusal> {
        if self.is_late.load(Ordering::Relaxed) {
            return Some(WorkRefusal::Late);
        }
        if let Some(refused) = self.memory().refused {
            return Some(WorkRefusal::Memory(refused));
        }
        let (is_spent, is_damaged) = (&self.is_spent, &self.is_damaged);
        (is_spent.load(Ordering::Relaxed).then_some(WorkRefusal::Spent))
            .or(is_damaged.load(Ordering::Relaxed).then_some(WorkRefusal::Damaged))
    }

    /// Whether time ran out.
    pub(super) fn is_late(&self) -> bool {
        let late = &self.is_late;
        if !late.load(Ordering::Relaxed)
            && self.deadline.lock().unwrap_or_else(PoisonError::into_inner).has_passed()
        {
            late.store(true, Ordering::Relaxed);
        }
        late.load(Ordering::Relaxed)
    }

    /// Checks the clock once in a while; returns true while reading may go on.
    #[inline]
    pub(super) fn may_read(&self) -> bool {
        // A load and a store, not one operation: only one thread works at a time.
        let left = self.until_tick.load(Ordering::Relaxed);
        self.until_tick.store(left.wrapping_sub(1), Ordering::Relaxed);
        if left == 0 {
            self.until_tick.store(READS_PER_TICK, Ordering::Relaxed);
            return !self.is_late();
        }
        let base = self.stack_base.load(Ordering::Relaxed);
        let here = 0_u8;
        if base != 0 && std::ptr::from_ref(&here).addr().abs_diff(base) > MAX_STACK_BYTES {
            self.spend_all();
            return false;
        }
        !self.is_late.load(Ordering::Relaxed)
    }

    /// Notes that something was read or copied too often.
    pub(super) fn spend_all(&self) {
        self.is_spent.store(true, Ordering::Relaxed);
    }

    /// Notes that the file could not be read.
    pub(super) fn note_damage(&self) {
        self.is_damaged.store(true, Ordering::Relaxed);
    }

    /// Whether `bytes` more may be copied for this unit.
    pub(super) fn may_copy(&self, bytes: usize) -> bool {
        let copied = self.copied.load(Ordering::Relaxed).saturating_add(bytes as u64);
        self.copied.store(copied, Ordering::Relaxed);
        let may = copied <= MAX_COPIED_BYTES;
        if !may {
            self.spend_all();
        }
        may
    }

    /// Bytes of memory in use.
    pub(super) fn used_bytes(&self) -> u64 {
        self.memory().used
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, WorkMemory> {
        // The numbers are never left half changed by a panic.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, bytes: u64) -> Result<(), Refused> {
        self.try_take(bytes).inspect_err(|refused| self.memory().refused = Some(*refused))
    }

    /// The same of memory that is not needed: being refused it is nothing to note.
    fn try_take(&self, bytes: u64) -> Result<(), Refused> {
        let mut memory = self.memory();
        let used = memory.used.saturating_add(bytes);
        if let Some(more) = used.checked_sub(memory.reservation.bytes()).filter(|more| *more > 0) {
            // Reserve whole steps if there is room for them.
            (memory.reservation.grow(more.next_multiple_of(RESERVE_STEP)))
                .or_else(|_| memory.reservation.grow(more))?;
        }
        memory.used = used;
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        let mut memory = self.memory();
        memory.used -= bytes;
        let keep = memory.used.next_multiple_of(RESERVE_STEP).max(RESERVE_STEP);
        memory.reservation.shrink_to(keep);
    }
}

/// Memory taken for one thing, given back on drop.
#[derive(Debug)]
pub(super) struct Charge {
    work: Arc<Work>,
    bytes: AtomicU64,
}

impl Charge {
    /// Takes `bytes`.
    pub(super) fn new(work: &Arc<Work>, bytes: u64) -> Result<Self, Refused> {
        work.take(bytes)?;
        Ok(Charge { work: Arc::clone(work), bytes: AtomicU64::new(bytes) })
    }

    /// A charge of no bytes.
    pub(super) fn none(work: &Arc<Work>) -> Self {
        Charge { work: Arc::clone(work), bytes: AtomicU64::new(0) }
    }

    /// Takes `bytes` more.
    pub(super) fn add(&self, bytes: u64) -> Result<(), Refused> {
        self.work.take(bytes)?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Takes `bytes` more that are not needed, if there is room for them.
    pub(super) fn add_if_free(&self, bytes: u64) -> bool {
        let is_free = self.work.try_take(bytes).is_ok();
        self.bytes.fetch_add(if is_free { bytes } else { 0 }, Ordering::Relaxed);
        is_free
    }

    /// Gives back all above `bytes`.
    pub(super) fn shrink_to(&mut self, bytes: u64) {
        let held = self.bytes.get_mut();
        let back = held.saturating_sub(bytes);
        *held -= back;
        self.work.give_back(back);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_reserve_in_steps_and_give_back() {
        let budget = Arc::new(MemoryBudget::new(3 * RESERVE_STEP + 100));
        let work = Work::new(&budget, &Deadline::default()).unwrap();
        assert_eq!(budget.used_bytes(), RESERVE_STEP);
        let mut charge = Charge::new(&work, RESERVE_STEP).unwrap();
        assert_eq!(budget.used_bytes(), RESERVE_STEP);
        charge.add(10).unwrap();
        assert_eq!((budget.used_bytes(), work.used_bytes()), (2 * RESERVE_STEP, RESERVE_STEP + 10));
        // Less than a step is left.
        charge.add(2 * RESERVE_STEP + 80).unwrap();
        assert_eq!(work.refusal(), None);
        let refused = charge.add(11).unwrap_err();
        assert_eq!(
            (refused.needs_bytes, work.refusal()),
            (refused.limit_bytes + 1, Some(WorkRefusal::Memory(refused)))
        );
        charge.shrink_to(RESERVE_STEP);
        assert_eq!((budget.used_bytes(), work.used_bytes()), (RESERVE_STEP, RESERVE_STEP));
        drop(charge);
        assert_eq!((budget.used_bytes(), work.used_bytes()), (RESERVE_STEP, 0));
        work.begin_unit();
        assert_eq!(work.refusal(), None);
        drop(work);
        assert_eq!(budget.used_bytes(), 0);
    }
}
