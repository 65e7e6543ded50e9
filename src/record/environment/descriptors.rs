//! The limit on open files: a recording keeps each file open that code runs from.

use super::machine::online_cpus;
use crate::base::failure::{Failure, status};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Descriptors that are left for other things than files of code: some 60 of BPF maps, programs and rings; files of /proc,
/// and debug files while they are read.
const SPARE: usize = 128;
/// Descriptors that a CPU takes besides: the link of its sampler, and its side-band once more.
const SPARE_PER_CPU: usize = 2;

/// The limit before it was raised; `u64::MAX` while it was not. Limits are a process's, so this is one, too.
static LIMIT_BEFORE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Raises the limit to what this process may raise it to. The usual one is made for programs that use select(2).
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(before) = current.filter(|&current| maximum.is_none_or(|maximum| current < maximum)) else {
        return;
    };
    if setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok() {
        LIMIT_BEFORE.store(before, Ordering::Relaxed);
    }
}

/// Gives a process that was forked from this one the limit that this one was started with: some programs close every
/// descriptor up to it, or have room for this many, and others use select(2). Async-signal-safe.
pub(crate) fn restore_limit() {
    let before = LIMIT_BEFORE.load(Ordering::Relaxed);
    if before == u64::MAX {
        return;
    }
    // SAFETY: both calls are bare system calls on a structure of this function's own, for which all zeros is valid.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = before.min(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Returns the number of files of code that may be kept open besides what is open now.
pub(crate) fn room_for_files() -> usize {
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let cpus = online_cpus().map_or(1, |cpus| cpus.len());
    limit.unwrap_or(usize::MAX).saturating_sub(open + SPARE + SPARE_PER_CPU * cpus)
}

/// Whether something failed because this process, or the system, has too many files open.
pub(crate) fn is_lack(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

const LACK: &str = "too many open files";

/// The failure of `what` for that reason.
pub(crate) fn lack(what: &str) -> Failure {
    Failure::new(status::FAILED, format!("{what}: {LACK}"))
        .hint("raise the limit: ulimit -n 65536 (as root, or in the service's settings: LimitNOFILE=)")
}

/// Whether it is a failure from [`lack`].
pub(crate) fn is_failure_of_lack(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.message.ends_with(LACK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::target::launch::Child;
    use std::ffi::OsString;

    #[test]
    fn a_command_has_the_limit_that_this_process_was_started_with() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let lower = maximum.unwrap_or(1 << 20) - 1;
        setrlimit(Resource::Nofile, Rlimit { current: Some(lower), maximum })
            .expect("a limit can be lowered");
        raise_limit();
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
        let command = ["sh", "-c", &format!("test $(ulimit -n) -eq {lower}")].map(OsString::from);
        let mut child = Child::spawn_stopped(&command, None).expect("a shell can be started");
        child.release().expect("it can be executed");
        assert_eq!(child.wait(), Some(0), "its limit is another than {lower}");
    }
}
