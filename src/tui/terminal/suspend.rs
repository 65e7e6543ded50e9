//! Ctrl-Z: the program stops with all that the shell started with it, as the terminal itself would have had it.

use rustix::process::{Signal, kill_current_process_group};
use std::io;
use std::time::Duration;

/// Stops the process group of the program, until the shell lets it go on. Where no shell would ever do that, the kernel stops
/// no one.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn suspend() -> io::Result<()> {
    // SIGSTOP would do for one process, and would stop one that no one can let go on.
    let handler = set_handler(None)?;
    let stopped = kill_current_process_group(Signal::TSTP);
    // Which of its threads takes the signal is up to the kernel; all of them stop then.
    std::thread::sleep(Duration::from_millis(10));
    set_handler(Some(handler))?;
    Ok(stopped?)
}

/// Has `handler` run at SIGTSTP, or what the system does by itself; gives what did before.
fn set_handler(handler: Option<libc::sigaction>) -> io::Result<libc::sigaction> {
    // SAFETY: an all-zero sigaction is a valid one: no flags, an empty mask, and the default action.
    let (handler, mut before) = unsafe { (handler.unwrap_or(std::mem::zeroed()), std::mem::zeroed()) };
    // SAFETY: both point to whole values. A handler that is set was in place before.
    match unsafe { libc::sigaction(libc::SIGTSTP, &raw const handler, &raw mut before) } {
        0 => Ok(before),
        _ => Err(io::Error::last_os_error()),
    }
}
