//! Signals that reach the recorder, as counts that its loop looks at.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The signals that this process was told to ignore and takes all the same, one bit each. Signals are a process's, so
/// this is one, too.
static TAKEN_THOUGH_IGNORED: AtomicU64 = AtomicU64::new(0);

/// Signals received so far.
#[derive(Debug, Clone)]
pub(super) struct Signals {
    interrupts: Arc<AtomicUsize>,
    /// The count of interrupts at which `save_now` becomes true.
    save_at: Arc<AtomicUsize>,
    save_now: Arc<AtomicBool>,
    terminations: Arc<AtomicUsize>,
    hang_ups: Arc<AtomicUsize>,
}

impl Signals {
    /// Starts to count SIGINT, SIGTERM and SIGHUP instead of dying of them. A hang-up that this process was told to
    /// ignore (nohup) stays ignored. The others never do: they are how a recording ends, and shells have what they
    /// start with `&` in a script ignore SIGINT.
    pub(super) fn install() -> io::Result<Self> {
        let signals = Signals {
            interrupts: Arc::default(),
            save_at: Arc::new(AtomicUsize::new(usize::MAX)),
            save_now: Arc::default(),
            terminations: Arc::default(),
            hang_ups: Arc::default(),
        };
        let of_interrupts = signals.clone();
        register(SIGINT, move || {
            let count = of_interrupts.interrupts.fetch_add(1, Ordering::Relaxed) + 1;
            if count >= of_interrupts.save_at.load(Ordering::Relaxed) {
                of_interrupts.save_now.store(true, Ordering::Relaxed);
            }
        })?;
        for (signal, counter) in [(SIGTERM, &signals.terminations), (SIGHUP, &signals.hang_ups)] {
            let counter = Arc::clone(counter);
            let of_endings = signals.clone();
            register(signal, move || {
                counter.fetch_add(1, Ordering::Relaxed);
                // One that comes after the recording has ended is about what follows it.
                if of_endings.save_at.load(Ordering::Relaxed) != usize::MAX {
                    of_endings.save_now.store(true, Ordering::Relaxed);
                }
            })?;
        }
        Ok(signals)
    }

    /// SIGINTs so far.
    pub(super) fn interrupts(&self) -> usize {
        self.interrupts.load(Ordering::Relaxed)
    }

    /// A flag that the next SIGINT, SIGTERM or SIGHUP sets.
    pub(super) fn next_interrupt(&self) -> Arc<AtomicBool> {
        self.save_at.store(self.interrupts() + 1, Ordering::Relaxed);
        Arc::clone(&self.save_now)
    }

    /// How often each signal that asks to end has come: SIGTERM, SIGHUP.
    pub(super) fn end_signals(&self) -> [(i32, usize); 2] {
        [
            (SIGTERM, self.terminations.load(Ordering::Relaxed)),
            (SIGHUP, self.hang_ups.load(Ordering::Relaxed)),
        ]
    }

    /// The number of a signal that asks to end, if one came.
    pub(super) fn end_signal(&self) -> Option<i32> {
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
pub(super) fn was_ignored(signal: i32) -> bool {
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
