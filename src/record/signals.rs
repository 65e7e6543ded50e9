//! Signals that reach the recorder, as counts that its loop looks at.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Signals received so far.
#[derive(Debug, Clone)]
pub(super) struct Signals {
    interrupts: Arc<AtomicUsize>,
    terminated: Arc<AtomicBool>,
    hung_up: Arc<AtomicBool>,
}

impl Signals {
    /// Starts to count SIGINT, SIGTERM and SIGHUP instead of dying of them.
    pub(super) fn install() -> io::Result<Self> {
        let signals =
            Signals { interrupts: Arc::default(), terminated: Arc::default(), hung_up: Arc::default() };
        let interrupts = Arc::clone(&signals.interrupts);
        // SAFETY: the handler only adds to an atomic number, which is async-signal-safe.
        unsafe {
            signal_hook::low_level::register(SIGINT, move || {
                interrupts.fetch_add(1, Ordering::Relaxed);
            })?;
        }
        signal_hook::flag::register(SIGTERM, Arc::clone(&signals.terminated))?;
        signal_hook::flag::register(SIGHUP, Arc::clone(&signals.hung_up))?;
        Ok(signals)
    }

    /// SIGINTs so far.
    pub(super) fn interrupts(&self) -> usize {
        self.interrupts.load(Ordering::Relaxed)
    }

    /// The number of a signal that asks to end, SIGTERM or SIGHUP, if one came.
    pub(super) fn end_signal(&self) -> Option<i32> {
        if self.terminated.load(Ordering::Relaxed) {
            Some(SIGTERM)
        } else if self.hung_up.load(Ordering::Relaxed) {
            Some(SIGHUP)
        } else {
            None
        }
    }
}
