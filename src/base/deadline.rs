//! When work has to end: at a time, or as soon as a flag is set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The end of a piece of work. Clones share the flag.
#[derive(Debug, Clone)]
pub struct Deadline {
    /// `None`: later than any clock shows.
    end: Option<Instant>,
    stop: Arc<AtomicBool>,
}

impl Default for Deadline {
    /// No end.
    fn default() -> Self {
        Deadline { end: None, stop: Arc::default() }
    }
}

impl Deadline {
    /// Ends when `time` from now has passed, or once `stop` is true.
    pub(crate) fn after(time: Duration, stop: &Arc<AtomicBool>) -> Self {
        Deadline { end: Instant::now().checked_add(time), stop: Arc::clone(stop) }
    }

    /// The same end, but not later than `time` from now.
    pub(crate) fn at_most(&self, time: Duration) -> Self {
        let end = Instant::now().checked_add(time);
        let end = end.map(|end| self.end.map_or(end, |own| own.min(end))).or(self.end);
        Deadline { end, stop: Arc::clone(&self.stop) }
    }

    /// Whether the work was asked to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether the work has to end now.
    pub(crate) fn has_passed(&self) -> bool {
        self.is_stopped() || self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Time left; `None` without an end.
    #[cfg(test)]
    fn left(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_passes_by_time_or_by_its_flag() {
        assert!(!Deadline::default().has_passed());
        let stop = Arc::<AtomicBool>::default();
        assert!(Deadline::after(Duration::ZERO, &stop).has_passed());
        let long = Deadline::after(Duration::from_secs(3600), &stop);
        let forever = Deadline::after(Duration::MAX, &stop);
        assert!(!long.has_passed() && !forever.has_passed() && forever.left().is_none());
        assert!(long.at_most(Duration::ZERO).has_passed());
        assert!(long.at_most(Duration::MAX).left() <= long.left().map(|left| left + Duration::from_secs(1)));
        stop.store(true, Ordering::Relaxed);
        assert!(long.has_passed() && forever.has_passed() && forever.at_most(Duration::MAX).has_passed());
    }
}
