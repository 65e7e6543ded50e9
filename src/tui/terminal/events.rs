//! Where events come from: a thread for the terminal's input and one for signals.

use super::{guard, tty};
use crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

/// What came from outside.
#[derive(Debug)]
pub(crate) enum Outside {
    /// A key or the mouse.
    Input(Event),
    /// One of [`SIGNALS`].
    Signal(i32),
    /// No one is at the other end any more.
    Gone,
}

/// The signals that are heard.
const SIGNALS: [i32; 7] = [SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH];

/// Those of them that end the session.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// How long input may be there without being a whole event.
const PARTIAL: Duration = Duration::from_millis(20);

/// Starts both threads; `tell` says whether somebody still listens. They end with the process.
///
/// # Errors
///
/// When the system gives no thread, or refuses to hand over signals.
pub(crate) fn listen(tell: impl Fn(Outside) -> bool + Clone + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(SIGNALS)?;
    let hear = tell.clone();
    let (mut resized, mut wake) = io::pipe()?;
    thread::Builder::new().name("prof-signals".into()).spawn(move || {
        for signal in signals.forever() {
            if signal == SIGWINCH {
                // Without a reader there is no input to wake.
                let _ = wake.write_all(b"r");
            }
            if ENDING.contains(&signal) {
                tty::end_by(signal);
            }
            if !hear(Outside::Signal(signal)) {
                return;
            }
        }
    })?;
    thread::Builder::new().name("prof-input".into()).spawn(move || {
        // A closed terminal and one that cannot be read are the same: no one is there.
        let _ = read_input(&tell, &mut resized);
        tell(Outside::Gone);
    })?;
    Ok(())
}

/// Reads until the terminal is gone. Waits for input itself: crossterm would read again and again from a closed one.
/// A change of size, of which `resized` tells, has to be taken at once: where crossterm finds it along with a key, it
/// returns the change, and the key only together with the next one.
fn read_input(tell: &impl Fn(Outside) -> bool, resized: &mut PipeReader) -> io::Result<()> {
    let (device, stdin) = (guard::device()?, io::stdin());
    let fd = device.as_ref().map_or_else(|| stdin.as_fd(), File::as_fd);
    loop {
        if wait_for_input(fd, resized.as_fd())? {
            let mut drained = [0; 64];
            let _ = resized.read(&mut drained)?;
        }
        while event::poll(PARTIAL)? {
            if !tell(Outside::Input(event::read()?)) {
                return Ok(());
            }
        }
    }
}

/// Returns whether the size has changed.
fn wait_for_input(fd: BorrowedFd<'_>, resized: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [PollFd::new(&fd, PollFlags::IN), PollFd::new(&resized, PollFlags::IN)];
    loop {
        match rustix::event::poll(&mut fds, None) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let seen = fds[0].revents();
    if seen.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(fds[1].revents().contains(PollFlags::IN))
}
