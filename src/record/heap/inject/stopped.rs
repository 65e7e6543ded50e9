//! A process of which all threads are stopped, by ptrace. When it is dropped, or this thread ends, they go on.

use super::examiner::Examination;
use super::memory_map::MemoryMap;
use super::registers::{ThreadRegisters, registers, set_registers, trace};
use super::seccomp::{self, SystemCall};
use super::stub::MOST_BYTES;
use crate::base::failure::io_words;
use crate::record::interpreters::process_memory::ProcessMemory;
use crate::record::process::proc_fs;
use crate::record::process::written::write_memory;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Time for all threads to stop.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for a system call of a thread that is stopped.
const CALL_PATIENCE: Duration = Duration::from_secs(2);
/// Time between two looks at a thread that is to stop.
const STEP: Duration = Duration::from_micros(100);
/// A thread that runs stops within a few microseconds: for so long it is looked at again at once.
const SOON: Duration = Duration::from_micros(200);
/// Code segment of 64-bit programs.
const USER_CS: u64 = 0x33;
/// Bytes of a stack that are searched for the registers of an interrupted function.
const STACK_BYTES: usize = 64 << 10;
/// Errors by which the kernel notes that a system call is to be done again after an interruption (include/linux/errno.h).
const RESTARTS: std::ops::RangeInclusive<i64> = -514..=-512;
const RESTART_BLOCK: i64 = -516;

/// A stopped thread.
#[derive(Debug, Clone, Copy)]
struct StoppedThread {
    tid: i32,
    /// Signal that it was about to get, which it gets when it goes on; 0: none.
    signal: i32,
}

/// A process whose threads are stopped.
#[derive(Debug)]
pub(super) struct StoppedProcess {
    pid: u32,
    threads: Vec<StoppedThread>,
    memory: ProcessMemory,
}

/// First instructions of a function that a jump takes the place of.
#[derive(Debug)]
pub(super) struct TakenCode {
    /// The bytes that are taken.
    pub(super) range: Range<u64>,
    /// Where each instruction was, from the start of the range, and where it is now, as an address.
    pub(super) instructions: Vec<(u64, u64)>,
}

impl TakenCode {
    /// Whether an address is in it, other than at its first byte, where the jump is.
    fn is_inside(&self, address: u64) -> bool {
        self.range.start < address && address < self.range.end
    }

    /// Where the instruction at an address is now.
    fn moved(&self, address: u64) -> Option<u64> {
        let offset = address - self.range.start;
        self.instructions.iter().find(|(was, _)| *was == offset).map(|(_, is)| *is)
    }
}

impl StoppedProcess {
    /// Stops all threads of a process.
    ///
    /// # Errors
    ///
    /// Why they cannot be stopped; then they go on, once this thread has ended.
    pub(super) fn stop(pid: u32) -> Result<Self, String> {
        let memory = open_memory(pid)?;
        let mut process = StoppedProcess { pid, threads: Vec::new(), memory };
        let deadline = Instant::now() + PATIENCE;
        // New threads may be started by those that are not stopped yet.
        while process.stop_new_threads(deadline)? {}
        match process.threads.is_empty() {
            true => Err("it has ended".to_owned()),
            false => Ok(process),
        }
    }

    /// Stops the threads that run; whether there were any.
    fn stop_new_threads(&mut self, deadline: Instant) -> Result<bool, String> {
        let listed = std::fs::read_dir(format!("/proc/{}/task", self.pid)).map_err(|_| "it has ended")?;
        let number = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        let threads: Vec<i32> = listed.filter_map(number).collect();
        let is_new = |tid: &i32| !self.threads.iter().any(|thread| thread.tid == *tid);
        let new: Vec<i32> = threads.into_iter().filter(is_new).collect();
        let mut seized = Vec::new();
        for tid in new {
            match seize(tid) {
                Ok(()) => seized.push(tid),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) || has_ended(self.pid, tid) => {}
                Err(error) => return Err(format!("its threads cannot be stopped: {error}")),
            }
        }
        let has_new = !seized.is_empty();
        for tid in seized {
            if let Some(signal) = wait_for_stop(tid, deadline)? {
                self.threads.push(StoppedThread { tid, signal });
            }
        }
        Ok(has_new)
    }

    /// Reads memory of the process.
    ///
    /// # Errors
    ///
    /// As of reading /proc/PID/mem.
    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.memory.read_all(address, bytes)
    }

    /// Writes data of the process: memory that it may write itself.
    ///
    /// # Errors
    ///
    /// When the process may not write there, or no memory is there.
    pub(super) fn write_data(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        write_memory(self.pid, address, bytes)
    }

    /// Writes code of the process, words at a time, as debuggers do.
    ///
    /// # Errors
    ///
    /// When the memory is not there.
    pub(super) fn write_code(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let tid = self.threads[0].tid;
        // The last word ends with the last byte: it must not reach into a page that is not there.
        let end = address + bytes.len() as u64;
        let begin = end - (bytes.len() as u64).next_multiple_of(8);
        let mut words = vec![0; (end - begin) as usize];
        self.read(begin, &mut words)?;
        words[(address - begin) as usize..].copy_from_slice(bytes);
        for (index, word) in words.chunks_exact(8).enumerate() {
            let word = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
            trace(libc::PTRACE_POKETEXT, tid, begin + 8 * index as u64, word)?;
        }
        Ok(())
    }

    /// Whether all threads run 64-bit code.
    pub(super) fn is_64_bit(&self) -> io::Result<bool> {
        for thread in &self.threads {
            if registers(thread.tid)?.cs != USER_CS {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Moves threads that are inside of code that is `taken`, by address, but not at its first byte, to where it goes on. An error is a thread
    /// that has been interrupted there by a signal whose handler runs: it would return into what is no longer there.
    ///
    /// # Errors
    ///
    /// When a thread cannot be moved.
    pub(super) fn leave(&self, taken: &[TakenCode]) -> Result<(), String> {
        let taken_at = |address: u64| {
            let before = taken.partition_point(|taken| taken.range.start < address);
            taken[..before].last().filter(|taken| taken.is_inside(address))
        };
        let mut stack = vec![0; STACK_BYTES];
        for thread in &self.threads {
            let mut registers = registers(thread.tid).map_err(|error| error.to_string())?;
            if let Some(taken) = taken_at(registers.rip) {
                registers.rip =
                    taken.moved(registers.rip).ok_or("a thread is in the middle of an instruction")?;
                set_registers(thread.tid, &registers).map_err(|error| error.to_string())?;
            }
            // As far as it goes.
            let length = self.memory.read_part(registers.rsp, &mut stack);
            let words = stack[..length].chunks_exact(8);
            let mut words = words.map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
            if words.any(|word| taken_at(word).is_some()) {
                return Err("a signal handler runs that has interrupted an allocation".to_owned());
            }
        }
        Ok(())
    }

    /// Has a thread run `stub(back)` at `at`, where the process has code, until its `calls` system calls are done. Returns
    /// their results. The stub returns to `back`; the bytes at `at` may be written again then.
    ///
    /// # Errors
    ///
    /// When the thread does something else. It goes on by itself.
    pub(super) fn run(
        &mut self,
        at: u64,
        stub: impl Fn(u64) -> Vec<u8>,
        calls: usize,
    ) -> Result<Vec<i64>, String> {
        let thread = self.runner().ok_or("all its threads are about to get a signal")?;
        let words = |error: io::Error| error.to_string();
        let resumed = resumed(&registers(thread.tid).map_err(words)?);
        self.write_code(at, &stub(resumed.rip)).map_err(words)?;
        // From here on the thread is well whatever happens to this one.
        let started = ThreadRegisters { rip: at, ..resumed };
        set_registers(thread.tid, &started).map_err(words)?;
        let results = wait_for_calls(thread.tid, &(at..at + MOST_BYTES as u64), calls)?;
        set_registers(thread.tid, &resumed).map_err(words)?;
        Ok(results)
    }

    /// Its memory.
    pub(super) fn memory(&self) -> &ProcessMemory {
        &self.memory
    }

    /// Its number.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// The user whose files the thread makes that runs what is to be run.
    ///
    /// # Errors
    ///
    /// When that is not known.
    pub(super) fn user(&self) -> io::Result<u32> {
        let tid = self.runner().ok_or(io::ErrorKind::NotFound)?.tid;
        let status = std::fs::read_to_string(format!("/proc/{}/task/{tid}/status", self.pid))?;
        // Real, effective, saved, and that of files.
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let user = users.and_then(|users| users.split_whitespace().nth(3)?.parse().ok());
        user.ok_or_else(|| io::Error::other("its user is not known"))
    }

    /// The thread that runs what is to be run.
    fn runner(&self) -> Option<StoppedThread> {
        self.threads.iter().copied().find(|thread| thread.signal == 0)
    }

    /// Why filters of that thread do not let all of `calls` through; `None` if they do. Each has its own.
    pub(super) fn filters_refuse(
        &self,
        calls: &[SystemCall],
        examination: &Examination<'_>,
    ) -> Option<String> {
        let tid = self.runner()?.tid;
        let status = std::fs::read_to_string(format!("/proc/{}/task/{tid}/status", self.pid)).ok()?;
        if status.contains("Seccomp:\t0\n") {
            return None;
        }
        let what = "a seccomp filter restricts its system calls";
        match seccomp::filters(tid).map(|filters| examination.refused(filters, calls)) {
            Err(error) => Some(format!("{what}, and cannot be read ({})", io_words(&error))),
            Ok(Err(why)) => Some(why),
            Ok(Ok(refused)) => refused.map(|at| format!("{what}: {} is not let through", calls[at].name)),
        }
    }

    /// What the process has mapped.
    ///
    /// # Errors
    ///
    /// As of reading /proc/PID/maps.
    pub(super) fn map(&self) -> io::Result<MemoryMap> {
        MemoryMap::read(self.pid)
    }
}

/// Opens the memory of a process, which may run meanwhile.
///
/// # Errors
///
/// Why it cannot be opened.
pub(super) fn open_memory(pid: u32) -> Result<ProcessMemory, String> {
    let thread = proc_fs::thread_to_read(pid);
    ProcessMemory::open(thread).map_err(|error| format!("its memory cannot be opened: {}", io_words(&error)))
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        for thread in &self.threads {
            // It may have been killed meanwhile.
            let _ = trace(libc::PTRACE_DETACH, thread.tid, 0, thread.signal as u64);
        }
    }
}

/// The registers with which a thread goes on that was interrupted: where a system call is to be done again, those before it,
/// as the kernel would make them (arch/x86/kernel/signal.c).
fn resumed(registers: &ThreadRegisters) -> ThreadRegisters {
    let mut resumed = *registers;
    let result = registers.rax.cast_signed();
    if registers.orig_rax.cast_signed() >= 0 {
        if RESTARTS.contains(&result) {
            resumed.rax = registers.orig_rax;
            resumed.rip -= 2;
        } else if result == RESTART_BLOCK {
            resumed.rax = libc::SYS_restart_syscall as u64;
            resumed.rip -= 2;
        }
    }
    resumed.orig_rax = u64::MAX;
    resumed
}

/// Has a thread go on until it has done `calls` system calls of the code at `stub`. Signals that come are its own, and so are the
/// system calls of their handlers.
fn wait_for_calls(tid: i32, stub: &Range<u64>, calls: usize) -> Result<Vec<i64>, String> {
    let deadline = Instant::now() + CALL_PATIENCE;
    let (mut results, mut is_inside, mut is_of_stub, mut signal) = (Vec::new(), false, false, 0);
    while results.len() < calls {
        trace(libc::PTRACE_SYSCALL, tid, 0, signal as u64).map_err(|error| error.to_string())?;
        signal = 0;
        let status = wait(tid, deadline)?.ok_or("it has ended")?;
        let stopped_by = libc::WSTOPSIG(status);
        match (stopped_by == libc::SIGTRAP | 0x80, status >> 16) {
            (true, _) => {
                let registers = registers(tid).map_err(|error| error.to_string())?;
                // At the end of a handler the thread leaves a call into the stub that it has not made there.
                let is_result = is_inside && is_of_stub;
                results.extend(is_result.then_some(registers.rax.cast_signed()));
                is_of_stub = stub.contains(&registers.rip);
                is_inside = !is_inside;
            }
            (false, 0) => signal = stopped_by,
            // A stop of the whole process: the thread is wanted for a moment all the same.
            (false, _) => {}
        }
    }
    Ok(results)
}

/// Whether a thread has ended, or is about to.
fn has_ended(pid: u32, tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"));
    let state =
        stat.ok().and_then(|stat| stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().to_owned()));
    state.is_none_or(|state| state.starts_with(['Z', 'X', 'x']))
}

fn seize(tid: i32) -> io::Result<()> {
    trace(libc::PTRACE_SEIZE, tid, 0, libc::PTRACE_O_TRACESYSGOOD as u64)?;
    trace(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Waits until a thread is stopped. Returns the signal that it was about to get, 0 for none; `None` once it has ended.
fn wait_for_stop(tid: i32, deadline: Instant) -> Result<Option<i32>, String> {
    let Some(status) = wait(tid, deadline)? else { return Ok(None) };
    let is_event = status >> 16 != 0;
    Ok(Some(if is_event { 0 } else { libc::WSTOPSIG(status) }))
}

/// Waits for the next stop of a thread: its status, or `None` once it has ended.
pub(super) fn wait(tid: i32, deadline: Instant) -> Result<Option<i32>, String> {
    let begun = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: the status is a valid place; the thread is traced by this one.
        let found = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) };
        match found {
            0 if Instant::now() > deadline => {
                return Err("a thread does not stop: it waits in the kernel, for a child of vfork or a file"
                    .to_owned());
            }
            0 if begun.elapsed() < SOON => std::thread::yield_now(),
            0 => std::thread::sleep(STEP),
            -1 if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            -1 => return Ok(None),
            _ if libc::WIFSTOPPED(status) => return Ok(Some(status)),
            _ => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_call_is_done_again_and_a_finished_one_is_not() {
        let registers = |rax: i64, orig_rax: i64| ThreadRegisters {
            rax: rax.cast_unsigned(),
            orig_rax: orig_rax.cast_unsigned(),
            rip: 0x1002,
            // SAFETY: all zeros are valid registers.
            ..unsafe { std::mem::zeroed() }
        };
        let went_on = |rax, orig_rax| {
            let resumed = resumed(&registers(rax, orig_rax));
            assert_eq!(resumed.orig_rax, u64::MAX);
            (resumed.rax.cast_signed(), resumed.rip)
        };
        assert_eq!(went_on(-512, 202), (202, 0x1000), "a futex");
        assert_eq!(went_on(-516, 35), (219, 0x1000), "a sleep goes on for the rest of its time");
        assert_eq!(went_on(-4, 202), (-4, 0x1002));
        assert_eq!(went_on(-512, -1), (-512, 0x1002), "it was in no system call");
    }
}
