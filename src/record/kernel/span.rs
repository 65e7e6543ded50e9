//! When a recording begins and ends, as the BPF programs see it: a few words of memory shared with them.

use crate::bpf::{bss, prof_span};
use crate::record::environment::namespaces::monotonic_ns;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Distance of a time in the future on which all CPUs have to agree, ns.
const LEAD_NS: u64 = 300_000;

/// `struct prof_span` of the loaded programs.
#[derive(Debug)]
pub(crate) struct SamplingSpan {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone; it is only accessed by atomic operations.
unsafe impl Send for SamplingSpan {}
// SAFETY: as above.
unsafe impl Sync for SamplingSpan {}

impl SamplingSpan {
    /// Maps the programs' global variables.
    ///
    /// # Errors
    ///
    /// When they cannot be mapped.
    pub(crate) fn new(variables: BorrowedFd<'_>) -> io::Result<Self> {
        let bytes = size_of::<bss>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new shared mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, variables, 0) }?;
        Ok(SamplingSpan { base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?, bytes })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offset is that of a u64 field of the variables, which are mapped for as long as `self` lives and
        // aligned to a page; the programs read and write the word as a whole.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset_of!(bss, span) + offset).cast()) }
    }

    /// Sets the time from which everything counts, the same for all CPUs, and returns it once it is reached:
    /// CLOCK_MONOTONIC, ns.
    pub(crate) fn start(&self) -> u64 {
        agree_on_time(self.word(offset_of!(prof_span, start_ns)))
    }

    /// Sets the time up to which everything counts, as [`SamplingSpan::start`].
    pub(crate) fn stop(&self) -> u64 {
        agree_on_time(self.word(offset_of!(prof_span, stop_ns)))
    }

    /// Threads are given accounts from now on.
    pub(crate) fn open(&self) {
        self.word(offset_of!(prof_span, is_open)).store(1, Ordering::SeqCst);
    }

    /// Whether a thread that is recorded has turned up without an account since the last [`SamplingSpan::forget_missed`].
    pub(super) fn has_missed(&self) -> bool {
        self.word(offset_of!(prof_span, has_missed)).load(Ordering::SeqCst) != 0
    }

    /// All threads are about to be looked at.
    pub(super) fn forget_missed(&self) {
        self.word(offset_of!(prof_span, has_missed)).store(0, Ordering::SeqCst);
    }

    /// Sets how many ongoing waits may still send their stacks.
    pub(super) fn set_room_for_open_waits(&self, waits: u64) {
        self.word(offset_of!(prof_span, open_room)).store(waits, Ordering::SeqCst);
    }
}

impl Drop for SamplingSpan {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Stores a time for the programs on all CPUs. It lies a little ahead, so that none of them has passed it when it reads
/// it; returns once it is reached.
fn agree_on_time(word: &AtomicU64) -> u64 {
    loop {
        let time_ns = monotonic_ns() + LEAD_NS;
        word.store(time_ns, Ordering::SeqCst);
        // This thread may have been preempted meanwhile.
        if let Some(left) = time_ns.checked_sub(monotonic_ns()) {
            std::thread::sleep(Duration::from_nanos(left));
            return time_ns;
        }
    }
}
