//! The process that workers are copies of. It is single-threaded, so that a copy is sound, and keeps one socket, over which it
//! is asked to make a worker or to end one.

use super::process::{self, Jobs, MOST_CPU_SECONDS, WorkerSockets};
use crate::base::memory_budget::MemoryBudget;
use crate::base::opener::{self, sandbox};
use crate::base::pace;
use crate::record::environment::allocator;
use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, send, sendmsg, socketpair,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::collections::BTreeSet;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Address space of a worker, bytes: the files that are read are let grow to an eighth of it.
const MOST_BYTES: u64 = 2 << 30;
/// Descriptors of a worker: debug files that one module refers to.
const MOST_DESCRIPTORS: u64 = 256;
/// Time for a worker to end that has closed its sockets, or was killed. One that waits for a server of files may not.
const END_PATIENCE: Duration = Duration::from_millis(50);

/// Requests to the process: a letter, and a number.
const MAKE: u8 = b'M';
const END: u8 = b'E';
const KILL: u8 = b'K';
const REQUEST_BYTES: usize = 1 + 4;

/// The way to the process that makes workers.
#[derive(Debug)]
pub(super) struct WorkerOrigin {
    /// `None` once it was told to end.
    socket: Option<OwnedFd>,
    pid: i32,
}

impl WorkerOrigin {
    /// Forks it. Each of its workers does the jobs of what `jobs` returns.
    ///
    /// # Errors
    ///
    /// When no process can be made.
    pub(super) fn start(jobs: fn() -> Box<dyn Jobs>) -> io::Result<Self> {
        let (own, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // SAFETY: the child goes on with a copy of this process, in which no other thread has begun anything that it needs.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(own);
                opener::detach(c"prof-workers", &[theirs.as_raw_fd()]);
                let served = std::panic::catch_unwind(|| serve(&theirs, jobs));
                // SAFETY: ends the process without running what the other one has registered for its own end.
                unsafe { libc::_exit(i32::from(served.is_err())) }
            }
            pid => Ok(WorkerOrigin { socket: Some(own), pid }),
        }
    }

    /// Makes a worker with these sockets, and with a number by which it shares the memory budget; returns its process id, as that
    /// process sees it.
    pub(super) fn make(&self, sockets: &WorkerSockets, number: u32) -> io::Result<u32> {
        let descriptors = [sockets.jobs.as_fd(), sockets.files.as_fd(), sockets.stop.as_fd()];
        let answer = self.ask(MAKE, number, &descriptors)?;
        u32::try_from(answer).map_err(|_| io::Error::from_raw_os_error(-answer))
    }

    /// Ends a worker; returns how it had ended by itself, as wait(2) says it, if `is_death` says that it may have.
    pub(super) fn end(&self, pid: u32, is_death: bool) -> Option<i32> {
        self.ask(if is_death { END } else { KILL }, pid, &[]).ok().filter(|status| *status >= 0)
    }

    /// Whether it has ended before it was to.
    pub(super) fn has_ended(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| opener::is_closed(socket.as_fd()))
    }

    /// Ends it and its workers, and waits for that.
    pub(super) fn close(&mut self) {
        if self.socket.take().is_some() {
            wait(self.pid);
        }
    }

    fn ask(&self, what: u8, pid: u32, descriptors: &[BorrowedFd<'_>]) -> io::Result<i32> {
        let mut request = [what; REQUEST_BYTES];
        request[1..].copy_from_slice(&pid.to_le_bytes());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let gone = || io::Error::other("the process that makes workers has ended");
        let socket = self.socket.as_ref().ok_or_else(gone)?;
        // Half a question would have the next one get its answer.
        retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&request)], &mut control, SendFlags::NOSIGNAL))?;
        let mut answer = [0; 4];
        let (length, _) = retry_on_intr(|| rustix::net::recv(socket, &mut answer[..], RecvFlags::empty()))?;
        if length == answer.len() { Ok(i32::from_le_bytes(answer)) } else { Err(gone()) }
    }
}

/// Makes and ends workers until the process that wants them has gone; then ends them all.
fn serve(socket: &OwnedFd, jobs: fn() -> Box<dyn Jobs>) {
    // Small jobs that samples wait for; all others are done at a lower priority.
    pace::come_first();
    if sandbox::close_off().is_err() {
        return;
    }
    limit();
    let mut workers = BTreeSet::new();
    serve_until_end(socket, jobs, &mut workers);
    // SAFETY: the call takes numbers; these are children that were not waited for.
    workers.iter().for_each(|&pid| unsafe {
        libc::kill(pid, libc::SIGKILL);
    });
    for pid in workers {
        wait(pid);
    }
}

fn serve_until_end(socket: &OwnedFd, jobs: fn() -> Box<dyn Jobs>, workers: &mut BTreeSet<i32>) {
    loop {
        let mut request = [0; REQUEST_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut pieces = [IoSliceMut::new(&mut request)];
        let received = match recvmsg(socket, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(received) => received,
        };
        if received.bytes != REQUEST_BYTES {
            return;
        }
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        let [what, pid @ ..] = request;
        let answer = match (what, <[OwnedFd; 3]>::try_from(descriptors)) {
            (MAKE, Ok([own_jobs, files, stop])) => {
                let sockets = WorkerSockets { jobs: own_jobs, files, stop };
                let made = make(socket, sockets, u32::from_le_bytes(pid), jobs);
                workers.extend(Some(made).filter(|pid| *pid > 0));
                made
            }
            // Nothing but a child that was not waited for yet.
            _ => match (i32::from_le_bytes(pid), what) {
                (pid, _) if !workers.remove(&pid) => -1,
                (pid, END) => end(pid),
                (pid, _) => kill(pid),
            },
        };
        if send(socket, &answer.to_le_bytes(), SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

/// Limits that workers have from this process.
fn limit() {
    let limits =
        [(Resource::As, MOST_BYTES), (Resource::Cpu, MOST_CPU_SECONDS), (Resource::Nofile, MOST_DESCRIPTORS)];
    for (resource, most) in limits {
        // What was lower stays so.
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
    // Each heap takes 64 MB of address space, too.
    allocator::keep_little(2);
}

/// Forks a worker; returns its process id, or the negated number of an error.
fn make(socket: &OwnedFd, sockets: WorkerSockets, number: u32, jobs: fn() -> Box<dyn Jobs>) -> i32 {
    let parent = std::process::id();
    // SAFETY: this process has no other thread.
    match unsafe { libc::fork() } {
        -1 => -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN),
        0 => {
            // SAFETY: the copy uses it no more; this one goes on with it.
            unsafe { libc::close(socket.as_raw_fd()) };
            MemoryBudget::number_process(number as usize);
            let worked = std::panic::catch_unwind(|| process::run(sockets, jobs, parent));
            // SAFETY: ends the process without running what the other one has registered for its own end.
            unsafe { libc::_exit(i32::from(worked.is_err())) }
        }
        pid => pid,
    }
}

/// Waits for the end of a worker that has ended by itself, or ends it; returns its wait status, or a negative number for one that
/// had not, or does not end.
fn end(pid: i32) -> i32 {
    wait(pid).unwrap_or_else(|| kill(pid))
}

fn kill(pid: i32) -> i32 {
    // SAFETY: the call takes numbers; this is a child, whose number is not given to another before it is waited for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    wait(pid);
    -1
}

/// The wait status of a child that ends in time.
fn wait(pid: i32) -> Option<i32> {
    let mut status = 0;
    for _ in 0..END_PATIENCE.as_millis() {
        // SAFETY: the call writes one number.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
            0 => std::thread::sleep(Duration::from_millis(1)),
            -1 => return None,
            _ => return Some(status),
        }
    }
    None
}
