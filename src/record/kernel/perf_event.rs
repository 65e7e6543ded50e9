//! perf_event_open: one sampling event per CPU, and one side-band event per CPU with its ring buffer.

use super::perf::ring::PerfRing;
use crate::base::privilege;
use crate::record::counter::PerfCounter;
use perf_event_open_sys::bindings::{self, perf_event_attr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An event of a CPU. It is there for as long as the CPU is: one that goes offline takes its events with it, and they do not
/// come back with it.
#[derive(Debug)]
pub(crate) struct CpuEvent {
    pub(crate) cpu: u32,
    pub(crate) event: OwnedFd,
}

impl CpuEvent {
    /// The same event once more.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(CpuEvent { cpu: self.cpu, event: self.event.try_clone()? })
    }

    /// Time for which the event has been enabled so far, ns, if it tells that ([`tell_time`]). It stands still once the CPU has
    /// gone offline.
    pub(crate) fn enabled_ns(&self) -> io::Result<u64> {
        let mut words = [0; 16];
        let read = rustix::io::read(&self.event, &mut words)?;
        let time = words.last_chunk().filter(|_| read == words.len()).copied();
        time.map(u64::from_ne_bytes).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Task of an event that is of all that runs on its CPU.
pub(super) const EVERY_TASK: libc::pid_t = -1;
/// A task's event is of whatever CPU it runs on: -1.
const EVERY_CPU: u32 = u32::MAX;

pub(super) fn new_attr() -> perf_event_attr {
    perf_event_attr { size: size_of::<perf_event_attr>() as u32, ..Default::default() }
}

fn open(attr: &mut perf_event_attr, cpu: u32) -> io::Result<OwnedFd> {
    open_for(attr, EVERY_TASK, cpu)
}

/// Opens an event of a task on a CPU; task 0 is the calling thread.
pub(super) fn open_for(attr: &mut perf_event_attr, task: libc::pid_t, cpu: u32) -> io::Result<OwnedFd> {
    let no_group = -1;
    // SAFETY: `attr` is a valid, exclusively borrowed structure whose `size` field is its size.
    let fd = unsafe {
        perf_event_open_sys::perf_event_open(
            attr,
            task,
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

/// Whether the kernel lets this process sample all processes, as it lets it right now.
///
/// # Errors
///
/// When it does not.
pub(crate) fn try_all_processes() -> io::Result<()> {
    // SAFETY: the call takes nothing and returns a number.
    let cpu = u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0);
    privilege::open_event(|| open_sampler(cpu, 99, true)).map(drop)
}

/// Opens the event of one CPU that samples a counter, not counting yet.
pub(crate) fn open_counter(cpu: u32, counter: &PerfCounter, hz: u32, user_only: bool) -> io::Result<OwnedFd> {
    let mut attr = new_attr();
    attr.set_disabled(1);
    count(&mut attr, counter, hz, user_only);
    open(&mut attr, cpu)
}

/// Has an event be that of a counter.
pub(super) fn count(attr: &mut perf_event_attr, counter: &PerfCounter, hz: u32, user_only: bool) {
    attr.type_ = counter.source;
    attr.config = counter.config;
    match counter.period {
        Some(period) => attr.__bindgen_anon_1.sample_period = period,
        None => {
            attr.set_freq(1);
            attr.__bindgen_anon_1.sample_freq = hz.into();
        }
    }
    attr.set_exclude_user(counter.kernel_only.into());
    attr.set_exclude_kernel((counter.user_only || user_only).into());
    attr.set_exclude_hv((counter.user_only || user_only).into());
    if counter.is_of_processor() {
        attr.set_exclude_guest(1);
    }
}

/// Opens an event of a probe at a position of a file of code, in one process or wherever that is mapped, not counting yet. At
/// `semaphore_at` the kernel counts who listens, unless that is 0.
pub(crate) fn open_probe(
    path: &str,
    position: u64,
    semaphore_at: u64,
    pid: Option<u32>,
) -> io::Result<OwnedFd> {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    let path = std::ffi::CString::new(path)?;
    let mut attr = new_attr();
    attr.type_ = kind.trim().parse().map_err(|_| io::ErrorKind::Unsupported)?;
    // format/ref_ctr_offset
    attr.config = semaphore_at << 32;
    attr.__bindgen_anon_3.uprobe_path = path.as_ptr().expose_provenance() as u64;
    attr.__bindgen_anon_4.probe_offset = position;
    attr.set_disabled(1);
    match pid {
        // Of a process, on whatever CPU.
        Some(pid) => open_for(&mut attr, pid.cast_signed(), EVERY_CPU),
        None => open(&mut attr, 0),
    }
}

/// Opens an event that never comes.
pub(super) fn open_dummy() -> io::Result<OwnedFd> {
    let mut attr = new_attr();
    attr.type_ = bindings::PERF_TYPE_SOFTWARE;
    attr.config = bindings::PERF_COUNT_SW_DUMMY.into();
    attr.set_exclude_kernel(1);
    open(&mut attr, 0)
}

/// Has an event tell for how long it has been enabled, besides what it has counted.
pub(super) fn tell_time(attr: &mut perf_event_attr) {
    attr.read_format = bindings::PERF_FORMAT_TOTAL_TIME_ENABLED.into();
}

/// Has an event take no more samples.
pub(super) fn disable(event: &OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is that of an event, and the call has no argument.
    done(unsafe { perf_event_open_sys::ioctls::DISABLE(event.as_raw_fd(), 0) })
}

/// Has an event, and those that tasks have inherited from it, take samples.
pub(super) fn enable(event: &OwnedFd) -> io::Result<()> {
    // SAFETY: as above.
    done(unsafe { perf_event_open_sys::ioctls::ENABLE(event.as_raw_fd(), 0) })
}

/// Has an event, and those that tasks inherit from it, write to the ring of another one of the same CPU.
pub(super) fn write_to(event: &OwnedFd, ring: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are those of events.
    done(unsafe { perf_event_open_sys::ioctls::SET_OUTPUT(event.as_raw_fd(), ring.as_raw_fd()) })
}

/// The number by which records tell that they are of this event, or of one that was inherited from it.
pub(super) fn id(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0;
    // SAFETY: the descriptor is that of an event, and the kernel writes eight bytes to a place of that size.
    done(unsafe { perf_event_open_sys::ioctls::ID(event.as_raw_fd(), &raw mut id) })?;
    Ok(id)
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
    cpu: u32,
    ring: PerfRing,
}

/// Opens the side-band event of one CPU; records come with CLOCK_MONOTONIC times from now on, once there is a ring for them.
pub(super) fn open_sideband(cpu: u32) -> io::Result<OwnedFd> {
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
    tell_time(&mut attr);
    open(&mut attr, cpu)
}

impl SidebandRing {
    /// Opens the ring of one CPU.
    pub(crate) fn open(cpu: u32) -> io::Result<Self> {
        Self::map(CpuEvent { cpu, event: open_sideband(cpu)? })
    }

    /// Makes a ring for a side-band event.
    pub(crate) fn map(CpuEvent { cpu, event }: CpuEvent) -> io::Result<Self> {
        let ring = PerfRing::map(event, SIDEBAND_DATA_PAGES).map_err(|(_, error)| error)?;
        Ok(SidebandRing { cpu, ring })
    }

    /// The CPU.
    pub(super) fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Its event, once more.
    pub(crate) fn event(&self) -> io::Result<CpuEvent> {
        Ok(CpuEvent { cpu: self.cpu, event: self.ring.as_fd().try_clone_to_owned()? })
    }

    /// Gives every record that is there to `visit`: type, misc bits, and the bytes after the header.
    pub(crate) fn drain(&mut self, visit: impl FnMut(u32, u16, &[u8])) {
        self.ring.drain(visit);
    }
}

impl AsFd for SidebandRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
