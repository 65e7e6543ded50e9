//! Requests to the recorder of a live view.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Requests of other threads to the recording thread.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// Set to end the recording as if the user had stopped it.
    pub(crate) stop: AtomicBool,
    /// Set to end at once, without a last snapshot.
    pub(crate) abandon: AtomicBool,
    /// Set to start over with new rows of the profile.
    pub(crate) reset: AtomicBool,
    /// Interval between snapshots, ms; 0 for the default.
    pub(crate) interval_ms: AtomicU64,
}

impl Control {
    pub(super) fn interval(&self) -> Duration {
        match self.interval_ms.load(Ordering::Relaxed) {
            0 => super::events::DEFAULT_INTERVAL,
            interval_ms => Duration::from_millis(interval_ms),
        }
    }
}
