//! One limit for the memory of all work on foreign files that is in flight at the same time.
//!
//! Work reserves what it is going to need before it allocates, and gives it back by dropping its [`Reservation`]. What
//! does not fit waits for room or is refused with the numbers. The budget counts; it allocates nothing itself. That of this
//! process is also that of the workers that are copies of it: each publishes what it holds in memory that all have.

use super::deadline::Deadline;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes of all naming and unwind-table work together, by default.
const DEFAULT_LIMIT_BYTES: u64 = 256 << 20;
/// Time between two looks at the stop flag while waiting for room.
const WAIT_STEP: Duration = Duration::from_millis(20);

/// Processes that may share the budget.
pub(crate) const MOST_PROCESSES: usize = 64;

/// The number of this process among those; the one that the others are copies of has 0.
static OWN_NUMBER: AtomicUsize = AtomicUsize::new(0);

/// What a process holds and waits for, bytes.
#[derive(Debug, Default)]
struct PublishedState {
    used: AtomicU64,
    wanted: AtomicU64,
}

/// What all processes publish.
type Published = [PublishedState; MOST_PROCESSES];

/// Maps memory that copies of this process have, too. `None` where there is none: then a process counts for itself.
fn map_published() -> Option<&'static Published> {
    let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: new memory that nothing else uses and that stays; all zeros is a valid value, and every access is atomic.
    unsafe {
        let at = mmap_anonymous(std::ptr::null_mut(), size_of::<Published>(), flags.0, flags.1).ok()?;
        Some(&*at.cast::<Published>())
    }
}

/// Why memory was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Refused {
    /// Bytes asked for, with those that the same work holds already.
    pub(crate) needs_bytes: u64,
    /// Bytes that were free.
    pub(crate) free_bytes: u64,
    /// Bytes of the whole budget.
    pub(crate) limit_bytes: u64,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rounded up: "needs 256 MB of 256" would look like a mistake.
        let needs = self.needs_bytes.div_ceil(1 << 20);
        let limit = self.limit_bytes >> 20;
        if self.needs_bytes > self.limit_bytes {
            write!(f, "too big: needs {needs} MB of {limit}")
        } else {
            let free = self.free_bytes >> 20;
            write!(f, "no memory left: needs {needs} MB, {free} of {limit} MB are free")
        }
    }
}

impl std::error::Error for Refused {}

/// A number of bytes that work in flight shares.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    state: Mutex<State>,
    freed: Condvar,
    /// What the processes that share it publish; `None` for a budget of this process alone.
    published: Option<&'static Published>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// Bytes that waiting work asks for.
    wanted: u64,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        MemoryBudget::new(DEFAULT_LIMIT_BYTES)
    }
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        MemoryBudget { limit, state: Mutex::default(), freed: Condvar::new(), published: None }
    }

    /// The budget of this process, and of its copies that [are numbered](MemoryBudget::number_process).
    pub fn shared() -> &'static Arc<MemoryBudget> {
        static SHARED: OnceLock<Arc<MemoryBudget>> = OnceLock::new();
        SHARED
            .get_or_init(|| Arc::new(MemoryBudget { published: map_published(), ..MemoryBudget::default() }))
    }

    /// Gives this process, which is a copy of one that has used the budget, a number of its own, and what it holds nothing.
    pub(crate) fn number_process(number: usize) {
        OWN_NUMBER.store(number.min(MOST_PROCESSES - 1), Ordering::Relaxed);
        *Self::shared().state() = State::default();
        Self::free_process(number);
    }

    /// Frees what a process held that has ended.
    pub(crate) fn free_process(number: usize) {
        if let Some(of) = Self::shared().published.and_then(|published| published.get(number)) {
            of.used.store(0, Ordering::Relaxed);
            of.wanted.store(0, Ordering::Relaxed);
        }
    }

    /// Bytes of the whole budget.
    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit
    }

    /// Bytes that are reserved.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.state().used
    }

    /// Bytes that waiting work asks for: who keeps memory for later use should give some back when this is not 0.
    pub(crate) fn wanted_bytes(&self) -> u64 {
        let of_others = self.others(|of| &of.wanted);
        self.state().wanted.saturating_add(of_others)
    }

    /// The sum of what other processes publish.
    fn others(&self, which: impl Fn(&PublishedState) -> &AtomicU64) -> u64 {
        let own = OWN_NUMBER.load(Ordering::Relaxed);
        let all = self.published.into_iter().flatten().enumerate().filter(|(number, _)| *number != own);
        all.map(|(_, of)| which(of).load(Ordering::Relaxed)).fold(0, u64::saturating_add)
    }

    /// Has the other processes know what this one holds and waits for.
    fn publish(&self, state: &State) {
        let own = OWN_NUMBER.load(Ordering::Relaxed);
        if let Some(of) = self.published.and_then(|published| published.get(own)) {
            of.used.store(state.used, Ordering::SeqCst);
            of.wanted.store(state.wanted, Ordering::Relaxed);
        }
    }

    /// Reserves memory if there is room now.
    ///
    /// # Errors
    /// When there is not.
    pub(crate) fn try_reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation, Refused> {
        self.take(&mut self.state(), bytes, 0)?;
        Ok(Reservation { budget: Arc::clone(self), bytes })
    }

    /// Reserves memory; waits for room until the deadline if others hold it.
    ///
    /// # Errors
    /// When there will never be room for so much, or there was none until the deadline.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64, deadline: &Deadline) -> Result<Reservation, Refused> {
        let mut state = self.state();
        state.wanted = state.wanted.saturating_add(bytes);
        self.publish(&state);
        let result = loop {
            match self.take(&mut state, bytes, 0) {
                Ok(()) => break Ok(()),
                Err(refused) if bytes > self.limit || deadline.has_passed() => break Err(refused),
                Err(_) => {
                    let waited = self.freed.wait_timeout(state, WAIT_STEP);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        };
        state.wanted = state.wanted.saturating_sub(bytes);
        self.publish(&state);
        drop(state);
        result.map(|()| Reservation { budget: Arc::clone(self), bytes })
    }

    /// Takes `bytes` for work that holds `held` bytes.
    fn take(&self, state: &mut State, bytes: u64, held: u64) -> Result<(), Refused> {
        let free_bytes = self.limit.saturating_sub(state.used).saturating_sub(self.others(|of| &of.used));
        let needs_bytes = bytes.saturating_add(held);
        let refused = Refused { needs_bytes, free_bytes, limit_bytes: self.limit };
        if bytes > free_bytes {
            return Err(refused);
        }
        state.used += bytes;
        self.publish(state);
        // Another process may have taken the same bytes meanwhile.
        if state.used.saturating_add(self.others(|of| &of.used)) > self.limit {
            state.used -= bytes;
            self.publish(state);
            return Err(refused);
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing between lock and unlock can leave the numbers half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory that a piece of work may use; given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Reservation {
    /// Bytes reserved.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves more if there is room now: who holds memory does not wait for more of it.
    ///
    /// # Errors
    /// When there is no room; then nothing has changed.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), Refused> {
        self.budget.take(&mut self.budget.state(), bytes, self.bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives back what is above `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let back = self.bytes.saturating_sub(bytes);
        if back > 0 {
            self.bytes -= back;
            let mut state = self.budget.state();
            state.used -= back;
            self.budget.publish(&state);
            drop(state);
            self.budget.freed.notify_all();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const MB: u64 = 1 << 20;

    #[test]
    fn what_is_dropped_or_shrunk_is_free_again() {
        let budget = Arc::new(MemoryBudget::new(100));
        let mut first = budget.try_reserve(60).unwrap();
        assert_eq!((first.grow(41).unwrap_err().needs_bytes, first.bytes()), (101, 60));
        first.grow(40).unwrap();
        assert_eq!(budget.used_bytes(), 100);
        assert_eq!(budget.try_reserve(1).unwrap_err().free_bytes, 0);
        first.shrink_to(10);
        first.shrink_to(50);
        let second = budget.try_reserve(90).unwrap();
        assert_eq!((first.bytes(), budget.used_bytes()), (10, 100));
        drop((first, second));
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_refusal_has_the_numbers() {
        let budget = Arc::new(MemoryBudget::new(256 * MB));
        let refused = budget.reserve(900 * MB, &Deadline::default()).unwrap_err();
        assert_eq!(refused.to_string(), "too big: needs 900 MB of 256");
        let held = budget.try_reserve(236 * MB).unwrap();
        let refused = budget.try_reserve(90 * MB).unwrap_err();
        assert_eq!(refused.to_string(), "no memory left: needs 90 MB, 20 of 256 MB are free");
        drop(held);
    }

    #[test]
    fn what_another_process_holds_is_not_free_until_it_has_ended() {
        let published: &'static Published =
            Box::leak(Box::new(std::array::from_fn(|_| PublishedState::default())));
        let budget = Arc::new(MemoryBudget { published: Some(published), ..MemoryBudget::new(100) });
        published[5].used.store(70, Ordering::Relaxed);
        published[5].wanted.store(7, Ordering::Relaxed);
        assert_eq!(budget.try_reserve(31).unwrap_err().free_bytes, 30);
        let held = budget.try_reserve(30).unwrap();
        assert_eq!(published[0].used.load(Ordering::Relaxed), 30, "others are told");
        assert_eq!(budget.wanted_bytes(), 7);
        published[5].used.store(0, Ordering::Relaxed);
        assert!(budget.try_reserve(70).is_ok());
        drop(held);
        assert_eq!(published[0].used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn waiting_ends_with_room_or_with_the_stop_flag() {
        let budget = Arc::new(MemoryBudget::new(100));
        let held = budget.try_reserve(100).unwrap();
        let stop = Arc::<AtomicBool>::default();
        let deadline = Deadline::after(Duration::from_secs(3600), &stop);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| budget.reserve(30, &deadline).map(|granted| granted.bytes()));
            while budget.wanted_bytes() != 30 {
                std::thread::yield_now();
            }
            drop(held);
            assert_eq!(waiter.join().unwrap(), Ok(30));

            let held = budget.try_reserve(100).unwrap();
            let waiter = scope.spawn(|| budget.reserve(1, &deadline).is_err());
            while budget.wanted_bytes() != 1 {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
            assert!(waiter.join().unwrap());
            assert_eq!((budget.wanted_bytes(), held.bytes()), (0, 100));
        });
    }
}
