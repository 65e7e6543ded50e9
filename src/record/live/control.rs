//! What the recorder of a live view is to do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What others ask of the recording thread.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// To end the recording as if the user had stopped it.
    pub(crate) stop: AtomicBool,
    /// To end at once, without a last picture.
    pub(crate) abandon: AtomicBool,
    /// To begin again with the rows of its profile.
    pub(crate) reset: AtomicBool,
    /// How often pictures are made, ms; 0: as by default.
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
