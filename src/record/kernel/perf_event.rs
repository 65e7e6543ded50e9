//! perf_event_open: one sampling event per CPU, and one side-band event per CPU with its ring buffer.

use crate::record::counter::PerfCounter;
use perf_event_open_sys::bindings::{self, perf_event_attr, perf_event_mmap_page};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

fn new_attr() -> perf_event_attr {
    perf_event_attr { size: size_of::<perf_event_attr>() as u32, ..Default::default() }
}

fn open(attr: &mut perf_event_attr, cpu: u32) -> io::Result<OwnedFd> {
    let every_process = -1;
    let no_group = -1;
    // SAFETY: `attr` is a valid, exclusively borrowed structure whose `size` field is its size.
    let fd = unsafe {
        perf_event_open_sys::perf_event_open(
            attr,
            every_process,
            cpu as libc::c_int,
            no_group,
            bindings::PERF_FLAG_FD_CLOEXEC.into(),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just returned this descriptor, which no one else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens the sampling event of one CPU, not counting yet.
///
/// The event covers every process: an event per task is reprogrammed at each context switch, which costs the
/// target 2.8 µs; the BPF program filters instead.
pub(crate) fn open_sampler(cpu: u32, hz: u32, user_only: bool) -> io::Result<OwnedFd> {
    let mut attr = new_attr();
    attr.type_ = bindings::PERF_TYPE_SOFTWARE;
    attr.config = bindings::PERF_COUNT_SW_CPU_CLOCK.into();
    attr.__bindgen_anon_1.sample_period = period_ns(hz);
    attr.set_disabled(1);
    attr.set_exclude_idle(1);
    attr.set_exclude_guest(1);
    attr.set_exclude_hv(u64::from(user_only));
    attr.set_exclude_kernel(u64::from(user_only));
    open(&mut attr, cpu)
}

/// Opens the event of one CPU that samples a counter, not counting yet.
pub(crate) fn open_counter(cpu: u32, counter: &PerfCounter, hz: u32, user_only: bool) -> io::Result<OwnedFd> {
    let mut attr = new_attr();
    attr.type_ = counter.source;
    attr.config = counter.config;
    match counter.period {
        Some(period) => attr.__bindgen_anon_1.sample_period = period,
        None => {
            attr.set_freq(1);
            attr.__bindgen_anon_1.sample_freq = hz.into();
        }
    }
    attr.set_disabled(1);
    attr.set_exclude_user(counter.kernel_only.into());
    attr.set_exclude_kernel((counter.user_only || user_only).into());
    attr.set_exclude_hv((counter.user_only || user_only).into());
    if counter.is_of_processor() {
        attr.set_exclude_guest(1);
    }
    open(&mut attr, cpu)
}

/// Has an event take no more samples.
pub(super) fn disable(event: &OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is that of an event, and the call has no argument.
    match unsafe { perf_event_open_sys::ioctls::DISABLE(event.as_raw_fd(), 0) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The weight of one sample, ns.
pub(crate) fn period_ns(hz: u32) -> u64 {
    1_000_000_000 / u64::from(hz.max(1))
}

/// Pages of a side-band ring: a burst of 4,000 mappings fits.
const SIDEBAND_DATA_PAGES: usize = 128;

/// The side-band records of one CPU: mappings, names, forks and exits, of every process.
#[derive(Debug)]
pub(crate) struct SidebandRing {
    event: OwnedFd,
    base: NonNull<u8>,
    page_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for SidebandRing {}

impl SidebandRing {
    /// Opens the ring of one CPU; records come with CLOCK_MONOTONIC times from now on.
    pub(crate) fn open(cpu: u32) -> io::Result<Self> {
        let mut attr = new_attr();
        attr.type_ = bindings::PERF_TYPE_SOFTWARE;
        attr.config = bindings::PERF_COUNT_SW_DUMMY.into();
        attr.sample_type = u64::from(bindings::PERF_SAMPLE_TID) | u64::from(bindings::PERF_SAMPLE_TIME);
        attr.set_sample_id_all(1);
        attr.set_mmap(1);
        attr.set_mmap2(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_MONOTONIC;
        // One record wakes the reader: a new mapping wants its table at once.
        attr.set_watermark(1);
        attr.__bindgen_anon_2.wakeup_watermark = 1;
        attr.set_exclude_kernel(1);
        let event = open(&mut attr, cpu)?;
        let page_bytes = rustix::param::page_size();
        let bytes = page_bytes * (1 + SIDEBAND_DATA_PAGES);
        // SAFETY: a new shared mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &event, 0)
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SidebandRing { event, base, page_bytes })
    }

    fn data_bytes(&self) -> usize {
        self.page_bytes * SIDEBAND_DATA_PAGES
    }

    /// Gives every record that is there to `visit`: type, misc bits, and the bytes after the header.
    pub(crate) fn drain(&mut self, mut visit: impl FnMut(u32, u16, &[u8])) {
        let page = self.base.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: `base` maps the control page for as long as `self` lives; the kernel writes
        // data_head and user space data_tail, both 8-byte aligned, so atomics of that size are valid.
        let (head, tail) = unsafe {
            (AtomicU64::from_ptr(&raw mut (*page).data_head), AtomicU64::from_ptr(&raw mut (*page).data_tail))
        };
        let end = head.load(Ordering::Acquire);
        let mut position = tail.load(Ordering::Relaxed);
        let mut record = Vec::new();
        while end.wrapping_sub(position) >= 8 {
            let header = self.copy(position, 8, &mut record);
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let misc = u16::from_ne_bytes([header[4], header[5]]);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if size < 8 || size as u64 > end.wrapping_sub(position) {
                position = end; // the ring is not as the kernel promises: give up this batch
                break;
            }
            visit(kind, misc, &self.copy(position, size, &mut record)[8..]);
            position = position.wrapping_add(size as u64);
        }
        tail.store(position, Ordering::Release);
    }

    /// Copies `size` bytes of the data area, which is a ring, from `position` into `out`.
    fn copy<'a>(&self, position: u64, size: usize, out: &'a mut Vec<u8>) -> &'a [u8] {
        let data_bytes = self.data_bytes();
        let start = (position % data_bytes as u64) as usize;
        let first = size.min(data_bytes - start);
        out.clear();
        // SAFETY: the data area has `data_bytes` bytes after the control page; start + first and
        // size - first are within it. The kernel does not write between data_tail and data_head.
        unsafe {
            let data = self.base.as_ptr().add(self.page_bytes);
            out.extend_from_slice(std::slice::from_raw_parts(data.add(start), first));
            out.extend_from_slice(std::slice::from_raw_parts(data, size - first));
        }
        out
    }
}

impl AsFd for SidebandRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for SidebandRing {
    fn drop(&mut self) {
        let bytes = self.page_bytes * (1 + SIDEBAND_DATA_PAGES);
        // SAFETY: this is the mapping made in `open`, and no reference into it outlives `self`.
        // A failure could only mean that it is gone already.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), bytes) };
    }
}
