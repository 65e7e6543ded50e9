//! Waits and the times of threads as the kernel side sends them.

use super::fields::{DecodeError, RecordFields};
use super::layout::{number, prof_thread_time, prof_wait, prof_watched};
use std::mem::offset_of;

/// `enum prof_wait_kind`: what a record of the ring of waits is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// The thread runs again.
    Ended,
    /// The thread still waited when the recording ended.
    Open,
    /// The sample is of the thread that ended another's wait.
    Waker,
    /// The sample is of a thread whose wait begins; [`WaitKind::Ended`] will follow without frames.
    Stack,
    /// The wait goes on while the recording does; its end will be sent.
    Still,
}

pub(crate) const WAIT_BYTES: usize = size_of::<prof_wait>();

/// Reasons that short waits are summed up by.
pub(crate) const REASONS: usize = number::PROF_REASONS as usize;

/// Time of a thread by state so far, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Account {
    pub(crate) on_cpu_ns: u64,
    pub(crate) no_cpu_ns: u64,
    pub(crate) blocked_ns: u64,
}

/// The time of one thread, when it or the recording has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ThreadTimeEvent {
    /// Process id in the initial namespace.
    pub(crate) tgid: u32,
    /// Thread id in the initial namespace.
    pub(crate) tid: u32,
    /// The thread has ended.
    pub(crate) has_ended: bool,
    /// Start of the thread or of the recording, CLOCK_MONOTONIC, ns.
    pub(crate) from_ns: u64,
    /// End of the thread or of the recording, CLOCK_MONOTONIC, ns.
    pub(crate) to_ns: u64,
    /// Time on a CPU, ns.
    pub(crate) on_cpu_ns: u64,
    /// Time that it could have run, ns.
    pub(crate) no_cpu_ns: u64,
    /// Time blocked, ns.
    pub(crate) blocked_ns: u64,
    /// Number of times that the thread left a CPU.
    pub(crate) switches: u64,
    /// Name, up to the first NUL.
    pub(crate) comm: Vec<u8>,
    /// Waits that were not sent for their shortness: number and time in ns, by `enum prof_reason`.
    pub(crate) short_waits: [(u64, u64); REASONS],
}

impl ThreadTimeEvent {
    /// Decodes one record of the ring of thread times.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut at = RecordFields::of(bytes, size_of::<prof_thread_time>())?;
        let short = offset_of!(prof_thread_time, short_waits);
        Ok(ThreadTimeEvent {
            tgid: at.u32(offset_of!(prof_thread_time, tgid)),
            tid: at.u32(offset_of!(prof_thread_time, tid)),
            has_ended: at.u32(offset_of!(prof_thread_time, has_ended)) != 0,
            from_ns: at.u64(offset_of!(prof_thread_time, from_ns)),
            to_ns: at.u64(offset_of!(prof_thread_time, to_ns)),
            on_cpu_ns: at.u64(offset_of!(prof_thread_time, on_cpu_ns)),
            no_cpu_ns: at.u64(offset_of!(prof_thread_time, no_cpu_ns)),
            blocked_ns: at.u64(offset_of!(prof_thread_time, blocked_ns)),
            switches: at.u64(offset_of!(prof_thread_time, switches)),
            comm: at.text(offset_of!(prof_thread_time, comm)),
            short_waits: std::array::from_fn(|i| (at.u64(short + 16 * i), at.u64(short + 16 * i + 8))),
        })
    }
}

/// `enum prof_does`: what a thread does that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// The thread is on a CPU.
    Running,
    /// The thread is blocked.
    Blocked,
    /// The thread could run.
    WantsCpu,
}

/// A wait that is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenWait {
    /// Start, CLOCK_MONOTONIC, ns.
    pub(crate) start_ns: u64,
    /// End of the blocked part, CLOCK_MONOTONIC, ns; `None` while it goes on.
    pub(crate) wake_ns: Option<u64>,
    /// Number of waits that this one is weighted as.
    pub(crate) factor: u32,
    /// `enum prof_reason` of the blocked part.
    pub(crate) reason: u8,
    /// Whether it is younger than the least that is sent before its end, which may be left out at random.
    pub(crate) is_new: bool,
}

/// A thread of a recording that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WatchedThreadEvent {
    /// Account of the thread so far, with its wait that is not over.
    pub(crate) time: ThreadTimeEvent,
    /// Wait of the thread that is not over, unless it is old and left out when it ends.
    pub(crate) open: Option<OpenWait>,
    /// Activity of the thread at the end of its account.
    pub(crate) doing: Doing,
}

const WATCHED_BYTES: usize = size_of::<prof_watched>();

impl WatchedThreadEvent {
    /// Decodes what the kernel side has written of all threads; the rest of a record is left out.
    pub(crate) fn decode_all(bytes: &[u8]) -> Vec<Self> {
        let decode = |bytes: &[u8]| {
            let mut at = RecordFields::of(bytes, WATCHED_BYTES).ok()?;
            let start_ns = at.u64(offset_of!(prof_watched, open_ns));
            let wake_ns = Some(at.u64(offset_of!(prof_watched, wake_ns))).filter(|wake_ns| *wake_ns > 0);
            let factor = at.u32(offset_of!(prof_watched, factor));
            let reason = bytes[offset_of!(prof_watched, reason)];
            let is_new = bytes[offset_of!(prof_watched, is_new)] != 0;
            let doing = match u64::from(bytes[offset_of!(prof_watched, does)]) {
                number::PROF_DOES_WAIT => Doing::Blocked,
                number::PROF_DOES_WANT_CPU => Doing::WantsCpu,
                _ => Doing::Running,
            };
            let time = ThreadTimeEvent::decode(bytes).ok()?;
            let open = (start_ns > 0).then_some(OpenWait { start_ns, wake_ns, factor, reason, is_new });
            Some(WatchedThreadEvent { time, open, doing })
        };
        bytes.chunks_exact(WATCHED_BYTES).filter_map(decode).collect()
    }
}

const _: () = {
    assert!(WAIT_BYTES == 104);
    assert!(offset_of!(prof_watched, time) == 0);
    assert!(WATCHED_BYTES == size_of::<prof_thread_time>() + 24);
    assert!(size_of::<prof_thread_time>() == 80 + 16 * REASONS);
};
