//! What the allocator keeps of the memory that this process has freed: little. Recorders run for weeks beside what they record, and tables
//! and debug information come and go in pieces of many megabytes.

/// Blocks of this size and more go back to the system when they are freed, bytes. Left to itself, glibc raises the limit to 32 MB once
/// such a block was freed.
#[cfg(target_env = "gnu")]
const BLOCKS_APART: libc::c_int = 512 << 10;
/// Free memory at the end of the heap that stays for the next blocks, bytes.
#[cfg(target_env = "gnu")]
const FREE_AT_END: libc::c_int = 4 << 20;

/// The number of mimalloc's option `mi_option_purge_delay`: how long free memory stays before it goes back to the system, ms.
/// As of version 3, which the locked libmimalloc-sys builds.
#[cfg(target_env = "musl")]
const PURGE_DELAY: libc::c_int = 15;

/// Has the allocator keep little from now on, in this process and in its copies, and have no more than so many heaps, each with what was
/// freed in it: threads that share one wait for each other.
pub(crate) fn keep_little(heaps: u8) {
    #[cfg(not(target_env = "gnu"))]
    let _ = heaps;
    // Left to itself, mimalloc waits for a second, and then for the next that is freed in any thread.
    #[cfg(target_env = "musl")]
    // SAFETY: the function of mimalloc, which is the allocator of that program, takes numbers.
    unsafe {
        // What has been freed so far would wait for its delay, and then for good.
        mi_collect(true);
        mi_option_set(PURGE_DELAY, 0);
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: the calls take numbers.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, heaps.into());
        libc::mallopt(libc::M_MMAP_THRESHOLD, BLOCKS_APART);
        libc::mallopt(libc::M_TRIM_THRESHOLD, FREE_AT_END);
    }
}

/// Gives back what is free now: to be called after work that has taken much. Takes some milliseconds for 100 MB.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes a number.
    unsafe {
        libc::malloc_trim(0);
    }
    #[cfg(target_env = "musl")]
    // SAFETY: the function of mimalloc, which is the allocator of that program, takes a truth value.
    unsafe {
        mi_collect(true);
    }
}

// It is linked with this.
#[cfg(target_env = "musl")]
use mimalloc as _;

#[cfg(target_env = "musl")]
unsafe extern "C" {
    /// Sets one of mimalloc's options.
    fn mi_option_set(option: libc::c_int, value: libc::c_long);

    /// Frees what mimalloc keeps for this thread; all of it if it is to be forced.
    fn mi_collect(is_forced: bool);
}
