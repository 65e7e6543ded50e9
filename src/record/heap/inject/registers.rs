//! Requests to ptrace(2), and the registers of a stopped thread.

use std::io;

/// Registers of a thread, by the names of x86-64.
#[cfg(target_arch = "x86_64")]
pub(super) use libc::user_regs_struct as ThreadRegisters;

/// In their place on other processors, for which there is no sampler.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadRegisters {
    pub(super) rip: u64,
    pub(super) rsp: u64,
    pub(super) rax: u64,
    pub(super) orig_rax: u64,
    pub(super) cs: u64,
}

/// The registers of a thread.
///
/// # Errors
///
/// When it is not stopped.
pub(super) fn registers(tid: i32) -> io::Result<ThreadRegisters> {
    #[cfg(not(target_arch = "x86_64"))]
    return Err(io::Error::other(format!("there is no sampler for the processor of thread {tid}")));
    // SAFETY: all zeros are valid registers, and the call fills them.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        let mut registers: ThreadRegisters = std::mem::zeroed();
        let place = (&raw mut registers).expose_provenance() as u64;
        trace(libc::PTRACE_GETREGS, tid, 0, place)?;
        Ok(registers)
    }
}

/// Gives a thread registers.
///
/// # Errors
///
/// When it is not stopped.
pub(super) fn set_registers(tid: i32, registers: &ThreadRegisters) -> io::Result<()> {
    #[cfg(not(target_arch = "x86_64"))]
    return Err(io::Error::other(format!("{registers:?} are not those of thread {tid}")));
    #[cfg(target_arch = "x86_64")]
    trace(libc::PTRACE_SETREGS, tid, 0, std::ptr::from_ref(registers).expose_provenance() as u64)
}

/// Does a request; C libraries differ in the type of its number.
///
/// # Errors
///
/// As of ptrace(2).
pub(super) fn trace(request: impl Into<i64>, tid: i32, address: u64, data: u64) -> io::Result<()> {
    ask(request, tid, address, data).map(drop)
}

/// As [`trace`], of a request that returns a number.
///
/// # Errors
///
/// As of ptrace(2).
pub(super) fn ask(request: impl Into<i64>, tid: i32, address: u64, data: u64) -> io::Result<i64> {
    let request: i64 = request.into();
    // SAFETY: requests with a pointer to this process's memory get one to what outlives the call and has the room.
    match unsafe { libc::ptrace(request as _, tid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}
