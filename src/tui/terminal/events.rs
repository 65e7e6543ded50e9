//! Event sources: a thread for terminal input and one for signals.

use super::{editor, guard, suspend, tty};
use crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

/// An event from outside the program.
#[derive(Debug)]
pub(crate) enum Outside {
    /// A key or the mouse.
    Input(Event),
    /// One of [`SIGNALS`].
    Signal(i32),
    /// The terminal is gone.
    Gone,
}

/// Signals that are handled.
const SIGNALS: [i32; 7] = [SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH];

/// Signals that end the session.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Longest wait for the rest of an incomplete input sequence.
const PARTIAL: Duration = Duration::from_millis(20);

/// So often it is looked whether an editor has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Starts both threads; `send` says whether somebody still listens. They end with the process.
///
/// # Errors
///
/// Fails when the system cannot create a thread, or signals cannot be handled.
pub(crate) fn listen(send: impl Fn(Outside) -> bool + Clone + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(SIGNALS)?;
    let hear = send.clone();
    let (mut resized, mut wake) = io::pipe()?;
    thread::Builder::new().name("prof-signals".into()).spawn(move || {
        for signal in signals.forever() {
            if signal == SIGWINCH {
                // Fails only when the input thread has ended, and then there is nothing to wake.
                let _ = wake.write_all(b"r");
            }
            // Ctrl-C in an editor is the editor's.
            if editor::is_open() {
                match signal {
                    SIGINT | SIGQUIT => continue,
                    // The editor stops, and prof with it.
                    SIGTSTP => {
                        let _ = suspend::suspend();
                        continue;
                    }
                    _ => {}
                }
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
        // A closed terminal and one that cannot be read are treated alike.
        let _ = read_input(&send, &mut resized);
        send(Outside::Gone);
    })?;
    Ok(())
}

/// Reads input until the terminal is gone. It polls by itself, since crossterm would spin on a closed terminal. A
/// resize, which arrives through `resized`, has to be read at once: when crossterm finds it along with a key, it
/// returns only the resize, and the key only together with the next one.
fn read_input(send: &impl Fn(Outside) -> bool, resized: &mut PipeReader) -> io::Result<()> {
    let (device, stdin) = (guard::device()?, io::stdin());
    let fd = device.as_ref().map_or_else(|| stdin.as_fd(), File::as_fd);
    loop {
        if wait_for_input(fd, resized.as_fd())? {
            let mut drained = [0; 64];
            let _ = resized.read(&mut drained)?;
        }
        // What is typed into an editor is the editor's.
        while editor::is_open() {
            thread::sleep(LOOK_AGAIN);
        }
        while !editor::is_open() && event::poll(PARTIAL)? {
            if !send(Outside::Input(event::read()?)) {
                return Ok(());
            }
        }
    }
}

/// Waits for input or a resize; returns whether the size has changed.
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
