//! What `prof` itself uses.

/// CPU time of this process, user and system, in ns, and its peak resident memory in bytes.
pub(super) fn own() -> (u64, u64) {
    // SAFETY: an all-zero rusage is a valid value, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (ns(usage.ru_utime) + ns(usage.ru_stime), usage.ru_maxrss as u64 * 1024)
}
