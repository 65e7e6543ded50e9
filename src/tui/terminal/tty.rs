//! Writes to a terminal that may not read: over a line that hangs, or stopped by Ctrl-S.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

/// The signal that ends the session, or 0. Once it is set, writes no longer wait.
static ENDED_BY: AtomicI32 = AtomicI32::new(0);

/// The terminal, opened once per process.
static TTY: OnceLock<Tty> = OnceLock::new();

/// Interval at which a write that waits for the terminal checks for a signal.
const LOOK_AROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Number of such intervals for the last write.
const LAST_LOOKS: usize = 4;

/// The terminal of standard output. Writes block until it reads, but not once the session is to end.
#[derive(Debug, Clone)]
pub(crate) struct Tty(Arc<File>);

impl Tty {
    /// The terminal of this process.
    ///
    /// # Errors
    ///
    /// Fails when the terminal cannot be opened.
    pub(crate) fn get() -> io::Result<Tty> {
        if let Some(tty) = TTY.get() {
            return Ok(tty.clone());
        }
        // O_NONBLOCK belongs to the open file description, which standard output shares with the shell.
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |path: &str| rustix::fs::open(path, flags, Mode::empty());
        // After `su` the device belongs to another user, and only the second path can be opened.
        let file = open("/proc/self/fd/1").or_else(|_| open("/dev/tty"))?;
        Ok(TTY.get_or_init(|| Tty(Arc::new(File::from(file)))).clone())
    }

    /// Writes the last bytes of the session, and discards earlier output that the terminal has not read by then.
    pub(super) fn write_last(bytes: &[u8]) {
        let Ok(tty) = Tty::get() else { return };
        for look in 1..=LAST_LOOKS {
            match rustix::io::write(&*tty.0, bytes) {
                Err(Errno::AGAIN) if look + 1 == LAST_LOOKS => drop(tcflush(&*tty.0, QueueSelector::OFlush)),
                Err(Errno::AGAIN) => drop(tty.wait()),
                Err(Errno::INTR) => {}
                // The bytes are written, or the terminal is gone.
                Ok(_) | Err(_) => return,
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut fds = [PollFd::new(&self.0, PollFlags::OUT)];
        match rustix::event::poll(&mut fds, Some(&LOOK_AROUND)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Write for Tty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            if ended_by().is_some() {
                return Err(io::Error::other("the session is to end"));
            }
            match rustix::io::write(self.0.as_fd(), bytes) {
                Err(Errno::AGAIN) => self.wait()?,
                Err(Errno::INTR) => {}
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Records the signal that ends the session.
pub(super) fn end_by(signal: i32) {
    ENDED_BY.store(signal, Ordering::Relaxed);
}

/// The signal that ends the session, once there is one.
pub(crate) fn ended_by() -> Option<i32> {
    Some(ENDED_BY.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}
