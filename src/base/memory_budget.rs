//! One limit for the memory of all work on foreign files that is in flight at the same time.
//!
//! Work reserves what it is going to need before it allocates, and gives it back by dropping its [`Reservation`]. What
//! does not fit waits for room or is refused with the numbers. The budget counts; it allocates nothing itself.

use super::deadline::Deadline;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes of all naming and unwind-table work together, by default.
const DEFAULT_LIMIT_BYTES: u64 = 256 << 20;
/// Time between two looks at the stop flag while waiting for room.
const WAIT_STEP: Duration = Duration::from_millis(20);

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
        MemoryBudget { limit, state: Mutex::default(), freed: Condvar::new() }
    }

    /// The budget of this process.
    pub fn shared() -> &'static Arc<MemoryBudget> {
        static SHARED: OnceLock<Arc<MemoryBudget>> = OnceLock::new();
        SHARED.get_or_init(Arc::default)
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
        self.state().wanted
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
        drop(state);
        result.map(|()| Reservation { budget: Arc::clone(self), bytes })
    }

    /// Takes `bytes` for work that holds `held` bytes.
    fn take(&self, state: &mut State, bytes: u64, held: u64) -> Result<(), Refused> {
        let free_bytes = self.limit.saturating_sub(state.used);
        if bytes > free_bytes {
            let needs_bytes = bytes.saturating_add(held);
            return Err(Refused { needs_bytes, free_bytes, limit_bytes: self.limit });
        }
        state.used += bytes;
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
            self.budget.state().used -= back;
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
    use std::sync::atomic::{AtomicBool, Ordering};

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
