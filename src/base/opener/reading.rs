//! Commands of root that only read: a child reads, without any rights, and the process that was started opens files for it,
//! passes signals on to it, and ends as it does. So the shell waits for who has the terminal, and what the user asks for, a
//! pager or an editor, runs as the user.

use super::client;
use super::given::GivenFiles;
use super::sandbox::{self, Network};
use super::server::{self, Services};
use crate::base::failure::{Failure, status};
use crate::base::privilege;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, setrlimit, waitpid};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// Base of the exit status of a process that was ended by a signal.
const SIGNAL_STATUS: i32 = 128;

/// Signals that end the process that reads, or have it take the terminal again: it has things to restore, such as the modes of a
/// terminal.
const PASSED_ON: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGTSTP, libc::SIGCONT];

/// The process that reads, for the signal handler.
static READER: AtomicI32 = AtomicI32::new(0);

/// Whether it was asked to stop, by a signal that was passed on.
static IS_ASKED_TO_STOP: AtomicBool = AtomicBool::new(false);

/// Time in which a process that has been sent a signal to stop stops.
const STOPS_WITHIN: Duration = Duration::from_millis(10);

/// What a command that reads may have.
pub(crate) struct Reading {
    /// Files that its command line names.
    pub(crate) files: GivenFiles,
    /// What else is done for it with the user's rights.
    pub(crate) services: Box<dyn Services>,
    /// Whether it asks servers.
    pub(crate) network: Network,
}

/// Does `work` in a child without rights if root runs this, and otherwise here, where the user's rights are the only ones.
/// Returns its exit status. `say` says on standard error what failed, and makes a status of it.
///
/// # Errors
///
/// Those of the work if it was done here, and when no process can be made.
pub(crate) fn confined(
    reading: Reading,
    say: fn(&anyhow::Error) -> u8,
    work: impl FnOnce() -> anyhow::Result<u8>,
) -> anyhow::Result<u8> {
    if !privilege::has_any() || client::is_running() {
        return work();
    }
    let cannot = |error: io::Error| {
        Failure::new(status::FAILED, format!("cannot start the process that reads: {error}"))
            .hint("a limit on processes may be too low: ulimit -u")
    };
    let kind = SocketType::SEQPACKET;
    let pair = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let (own, theirs) = pair.map_err(|error| cannot(error.into()))?;
    let before = block_signals();
    let opener = rustix::process::getpid();
    // SAFETY: no other thread runs yet, so the child goes on with a whole copy of this process.
    match unsafe { libc::fork() } {
        -1 => {
            let error = io::Error::last_os_error();
            set_signals(&before);
            Err(cannot(error).into())
        }
        0 => {
            drop(own);
            set_signals(&before);
            client::connect(theirs);
            let done = enter(reading.network, opener).map_err(anyhow::Error::from).and_then(|()| work());
            std::process::exit(i32::from(done.unwrap_or_else(|error| say(&error))))
        }
        child => {
            drop(theirs);
            READER.store(child, Ordering::Relaxed);
            PASSED_ON.into_iter().chain([libc::SIGCHLD]).for_each(handle);
            set_signals(&before);
            // It has all rights that root needs here in any case.
            let _ = privilege::keep_named_files();
            server::serve(&own, reading.services, Some(reading.files));
            drop(own);
            Ok(end_as(child))
        }
    }
}

/// Gives up all rights, and ends with the process that opens files.
fn enter(network: Network, opener: Pid) -> Result<(), Failure> {
    privilege::for_leaving();
    // Those of the user are not this process's, whether it becomes another one or only has no rights.
    client::have_files_made();
    sandbox::enter_with(network)?;
    // SAFETY: these calls take numbers, and a string with its NUL. Becoming another user has undone an earlier signal.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, c"prof-reader".as_ptr());
    }
    if rustix::process::getppid() != Some(opener) {
        return Err(Failure::new(status::FAILED, "the process that opens files has ended"));
    }
    Ok(())
}

/// Waits for the child; returns its exit status, or ends by the signal that has ended it.
fn end_as(child: libc::pid_t) -> u8 {
    let ended = Pid::from_raw(child).and_then(|child| {
        loop {
            match waitpid(Some(child), WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                ended => break ended.ok().flatten(),
            }
        }
    });
    let Some((_, ended)) = ended else { return status::FAILED };
    let Some(signal) = ended.terminating_signal() else {
        return ended.exit_status().and_then(|status| u8::try_from(status).ok()).unwrap_or(status::FAILED);
    };
    // What there was to see in the memory of the other is not in this one's.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // SAFETY: the call takes numbers.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    if let Some(known) = Signal::from_named_raw(signal) {
        let _ = kill_process(rustix::process::getpid(), known);
    }
    u8::try_from(SIGNAL_STATUS + signal).unwrap_or(status::FAILED)
}

/// Keeps signals that are passed on until there is someone to pass them to; returns what was kept before.
fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are initialized by the calls before they are read.
    unsafe {
        let (mut passed, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut passed);
        for signal in PASSED_ON {
            libc::sigaddset(&raw mut passed, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const passed, &raw mut before);
        before
    }
}

fn set_signals(set: &libc::sigset_t) {
    // SAFETY: the set was made by the system.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const *set, std::ptr::null_mut()) };
}

/// Has a signal passed on to the child from now on.
fn handle(signal: libc::c_int) {
    // SAFETY: the handler only makes a system call, and keeps errno.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = pass_on as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn pass_on(signal: libc::c_int, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let is_end = !matches!(signal, libc::SIGCONT | libc::SIGTSTP);
    // SAFETY: the system gives a handler the description of its signal, and the place of errno is this thread's.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        match (signal, (*about).si_code) {
            (libc::SIGCHLD, libc::CLD_STOPPED) if IS_ASKED_TO_STOP.swap(false, Ordering::Relaxed) => {
                stop_here();
            }
            (libc::SIGCHLD, _) => {}
            (_, ..=0) => {
                IS_ASKED_TO_STOP.store(signal == libc::SIGTSTP, Ordering::Relaxed);
                if libc::kill(READER.load(Ordering::Relaxed), signal) != 0 && is_end {
                    // Without the right to, the reader is ended by the end of this process.
                    libc::_exit(SIGNAL_STATUS + signal);
                }
            }
            // What comes from the terminal goes to both.
            (libc::SIGTSTP, _) => stop_here(),
            _ => {}
        }
        *errno = before;
    }
}

/// Stops this process, in a signal handler, until it is continued.
fn stop_here() {
    // SAFETY: these are system calls. All-zero values are valid ones: the default action, and sets that are filled here.
    unsafe {
        let (action, mut before): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        let (mut stop, mut blocked): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigemptyset(&raw mut stop);
        libc::sigaddset(&raw mut stop, libc::SIGTSTP);
        libc::sigaction(libc::SIGTSTP, &raw const action, &raw mut before);
        libc::kill(libc::getpid(), libc::SIGTSTP);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const stop, &raw mut blocked);
        // It goes on here.
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut());
        libc::sigaction(libc::SIGTSTP, &raw const before, std::ptr::null_mut());
    }
}

/// Stops all processes of the shell's job, for a reader that is of another user and may not.
pub(crate) fn stop_job() {
    IS_ASKED_TO_STOP.store(false, Ordering::Relaxed);
    // SAFETY: these are system calls. An all-zero action is the default one, and the other was returned by the system.
    unsafe {
        let (action, mut before): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        libc::sigaction(libc::SIGTSTP, &raw const action, &raw mut before);
        libc::kill(0, libc::SIGTSTP);
        // The kernel chooses the thread that takes the signal; then all threads stop.
        std::thread::sleep(STOPS_WITHIN);
        libc::sigaction(libc::SIGTSTP, &raw const before, std::ptr::null_mut());
    }
}
