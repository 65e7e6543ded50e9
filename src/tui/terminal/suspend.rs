//! Ctrl-Z: stops the whole process group of the shell job, as the terminal itself would.

use crate::base::opener::{self, Service};
use rustix::process::{Signal, kill_current_process_group};
use std::io;
use std::time::Duration;

/// Stops the process group of the program until the shell continues it. In an orphaned process group, which no shell
/// would continue, the kernel ignores the signal.
///
/// # Errors
///
/// Fails when the system refuses.
pub(crate) fn suspend() -> io::Result<()> {
    // SIGTSTP, since SIGSTOP would stop this process only, and even where no shell can continue it.
    let handler = set_handler(None)?;
    // Of another user than the others of the group it may not signal them.
    let stopped = match opener::ask_service(Service::Stop, Vec::new(), None) {
        Ok(_) => Ok(()),
        Err(_) => kill_current_process_group(Signal::TSTP),
    };
    // The kernel chooses the thread that takes the signal; then all threads stop.
    std::thread::sleep(Duration::from_millis(10));
    set_handler(Some(handler))?;
    Ok(stopped?)
}

/// Sets `handler` for SIGTSTP, or the default action; returns the previous one.
fn set_handler(handler: Option<libc::sigaction>) -> io::Result<libc::sigaction> {
    // SAFETY: an all-zero sigaction is a valid one: no flags, an empty mask, and the default action.
    let (handler, mut before) = unsafe { (handler.unwrap_or(std::mem::zeroed()), std::mem::zeroed()) };
    // SAFETY: both pointers are to initialized values. Any handler set here was returned by the system before.
    match unsafe { libc::sigaction(libc::SIGTSTP, &raw const handler, &raw mut before) } {
        0 => Ok(before),
        _ => Err(io::Error::last_os_error()),
    }
}
