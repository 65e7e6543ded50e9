//! Signals that reach this process, as counts that a recording looks at; which of them its command is to ignore.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The signals that this process was started to ignore and takes all the same, one bit each. Signals are a process's, so
/// this is one, too.
static TAKEN_THOUGH_IGNORED: AtomicU64 = AtomicU64::new(0);

/// Signals received so far.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    interrupts: Arc<AtomicUsize>,
    terminations: Arc<AtomicUsize>,
    hang_ups: Arc<AtomicUsize>,
}

impl Signals {
    /// Starts to count SIGINT, SIGTERM and SIGHUP instead of dying of them. A hang-up that this process was started to
    /// ignore (nohup) stays ignored. The others never do: they are how a recording ends, and shells have what they
    /// start with `&` in a script ignore SIGINT.
    pub(crate) fn install() -> io::Result<Self> {
        let signals =
            Signals { interrupts: Arc::default(), terminations: Arc::default(), hang_ups: Arc::default() };
        let counters =
            [(SIGINT, &signals.interrupts), (SIGTERM, &signals.terminations), (SIGHUP, &signals.hang_ups)];
        for (signal, counter) in counters {
            let counter = Arc::clone(counter);
            register(signal, move || {
                counter.fetch_add(1, Ordering::Relaxed);
            })?;
        }
        Ok(signals)
    }

    /// SIGINTs so far.
    pub(crate) fn interrupts(&self) -> usize {
        self.interrupts.load(Ordering::Relaxed)
    }

    /// Signals of all kinds so far.
    pub(crate) fn count(&self) -> usize {
        self.interrupts() + self.end_signals().iter().map(|(_, count)| count).sum::<usize>()
    }

    /// Returns the number of times that each signal that asks to end has come: SIGTERM, SIGHUP.
    pub(crate) fn end_signals(&self) -> [(i32, usize); 2] {
        [
            (SIGTERM, self.terminations.load(Ordering::Relaxed)),
            (SIGHUP, self.hang_ups.load(Ordering::Relaxed)),
        ]
    }

    /// The number of a signal that asks to end, if one came.
    pub(crate) fn end_signal(&self) -> Option<i32> {
        self.end_signals().into_iter().find(|(_, count)| *count > 0).map(|(signal, _)| signal)
    }
}

/// Has `handler`, which may only touch atomics, run for a signal, unless that is to stay ignored.
fn register(signal: i32, handler: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
    if is_ignored(signal) {
        if signal == SIGHUP {
            return Ok(());
        }
        TAKEN_THOUGH_IGNORED.fetch_or(1 << signal, Ordering::Relaxed);
    }
    // SAFETY: the handlers given here only read and write atomics, which is async-signal-safe.
    unsafe { signal_hook::low_level::register(signal, handler) }?;
    Ok(())
}

/// Whether a command is to be started with a signal ignored, as this process was. Async-signal-safe.
pub(crate) fn was_ignored(signal: i32) -> bool {
    TAKEN_THOUGH_IGNORED.load(Ordering::Relaxed) & 1 << signal != 0 || is_ignored(signal)
}

/// Async-signal-safe.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid value to be filled, and nothing is changed.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}
