//! A command that is to be patched before its first own instruction: stopped at its entry point, once the dynamic linker has
//! mapped its libraries.

use super::registers::{registers, set_registers, trace};
use super::stopped::wait;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Time for the command to be executed, and linked.
const PATIENCE: Duration = Duration::from_secs(20);
/// An instruction of one byte that stops the thread.
const BREAKPOINT: u8 = 0xcc;

/// A command on its way to its entry point.
#[derive(Debug)]
pub(crate) struct HeldCommand {
    arrived: Receiver<Result<(), String>>,
}

impl HeldCommand {
    /// Has the process `pid`, which has not called exec, stop at the entry point of the program that it becomes. If this
    /// process ends before, so does that one: it has done nothing yet.
    ///
    /// # Errors
    ///
    /// Why it cannot be traced.
    pub(crate) fn hold(pid: u32) -> Result<Self, String> {
        let (held, is_held) = channel();
        let (arrives, arrived) = channel();
        let follow = move || {
            let result = follow(pid.cast_signed(), &held);
            // Who waits for it may have given up.
            let _ = arrives.send(result);
        };
        // Of this thread: a process is traced by one.
        let thread = std::thread::Builder::new().name("prof-entry".to_owned()).spawn(follow);
        thread.map_err(|error| error.to_string())?;
        match is_held.recv() {
            Ok(()) => Ok(HeldCommand { arrived }),
            Err(_) => Err(arrived.recv().ok().and_then(Result::err).unwrap_or_default()),
        }
    }

    /// Waits until the command has stopped at its entry point, as by SIGSTOP: no one traces it then.
    ///
    /// # Errors
    ///
    /// Why it has not; then it runs.
    pub(crate) fn wait(self) -> Result<(), String> {
        self.arrived.recv().map_err(|error| error.to_string())?
    }
}

/// Follows the command to its entry point, on the thread that traces it.
fn follow(pid: i32, held: &Sender<()>) -> Result<(), String> {
    let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
    trace(libc::PTRACE_SEIZE, pid, 0, options as u64).map_err(|error| error.to_string())?;
    let _ = held.send(());
    let deadline = Instant::now() + PATIENCE;
    until_stop(pid, deadline, |status| status >> 8 == libc::SIGTRAP | libc::PTRACE_EVENT_EXEC << 8)?;
    let entry = entry_of(pid).ok_or("its entry point is not known")?;
    let word = peek(pid, entry)?;
    poke(pid, entry, word & !0xff | u64::from(BREAKPOINT))?;
    trace(libc::PTRACE_CONT, pid, 0, 0).map_err(|error| error.to_string())?;
    let is_there = |_| registers(pid).is_ok_and(|registers| registers.rip == entry + 1);
    let arrived =
        until_stop(pid, deadline, |status| libc::WSTOPSIG(status) == libc::SIGTRAP && is_there(status));
    // Also where it has not arrived: it is stopped, or has ended.
    let restored = poke(pid, entry, word);
    arrived?;
    restored?;
    let mut registers = registers(pid).map_err(|error| error.to_string())?;
    registers.rip = entry;
    set_registers(pid, &registers).map_err(|error| error.to_string())?;
    trace(libc::PTRACE_DETACH, pid, 0, libc::SIGSTOP as u64).map_err(|error| error.to_string())
}

/// Waits for a stop that is `wanted`. Signals that come before are the command's.
fn until_stop(pid: i32, deadline: Instant, wanted: impl Fn(i32) -> bool) -> Result<(), String> {
    loop {
        let status = wait(pid, deadline)?.ok_or("it has ended")?;
        if wanted(status) {
            return Ok(());
        }
        let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
        trace(libc::PTRACE_CONT, pid, 0, signal as u64).map_err(|error| error.to_string())?;
    }
}

/// Address of the program's first instruction: AT_ENTRY of its auxiliary vector.
fn entry_of(pid: i32) -> Option<u64> {
    let vector = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let words = vector.chunks_exact(16);
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
    words
        .filter_map(|pair| Some((number(&pair[..8])?, number(&pair[8..])?)))
        .find_map(|(kind, value)| (kind == libc::AT_ENTRY).then_some(value))
}

fn peek(pid: i32, address: u64) -> Result<u64, String> {
    use std::os::unix::fs::FileExt;
    let mut word = [0; 8];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"));
    memory.and_then(|memory| memory.read_exact_at(&mut word, address)).map_err(|error| error.to_string())?;
    Ok(u64::from_ne_bytes(word))
}

fn poke(pid: i32, address: u64, word: u64) -> Result<(), String> {
    trace(libc::PTRACE_POKETEXT, pid, address, word).map_err(|error| error.to_string())
}
