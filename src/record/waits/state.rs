//! What a recording knows of its waits.

use super::living::{Living, WaitEnd};
use super::open::OpenWaits;
use super::unmatched::Pending;
use crate::bpf::{RescueEvent, SampleEvent, WaitEvent, WaitKind};
use crate::profile::{EventId, Outcome, Reason, StackId, WakerKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// What is known of the waits so far.
#[derive(Debug)]
pub(crate) struct Waits {
    pub(super) event: EventId,
    /// What those did who ended a wait: by the thread that was woken, and when.
    pub(super) wakers: Pending<WakerStack>,
    /// Stacks of waits that are not over: by thread and start.
    pub(super) early: Pending<EarlyStack>,
    /// Records of wakers and stacks that have come and are not stored yet, for want of a table or of a copy.
    pub(super) late: FxHashSet<Late>,
    /// Ends of waits to which those belong, with the copies of their stacks.
    pub(super) held: Vec<(SampleEvent, Option<RescueEvent>)>,
    pub(super) held_bytes: usize,
    /// Waits that are not over and can be looked at.
    pub(crate) open: OpenWaits,
    /// Threads that the last look has found, of a recording that is watched.
    pub(crate) living: Option<Vec<Living>>,
    /// The last end of a wait of each thread, by thread id, since these were taken; of a recording that is watched.
    pub(super) ends: FxHashMap<u32, WaitEnd>,
}

/// What is known of who ended a wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct WakerStack {
    pub(super) stack: Option<StackId>,
    pub(super) kind: WakerKind,
    /// A timer, of an interrupt whose functions are known.
    pub(super) is_timer: Option<bool>,
}

/// What is known of a wait that is not over.
#[derive(Debug, Clone, Copy)]
pub(super) struct EarlyStack {
    pub(super) stack: Option<StackId>,
    pub(super) outcome: Outcome,
    /// By the kernel functions in it.
    pub(super) reason: Option<Reason>,
}

/// By which the end of a wait finds a record that came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Late {
    /// The thread that was woken, and when.
    Waker(u32, u64),
    /// The thread, and when its wait began.
    Stack(u32, u64),
}

impl Late {
    /// Of a record that is needed by a later one.
    pub(super) fn of(sample: &SampleEvent) -> Option<Late> {
        let wait = sample.wait.as_ref()?;
        match wait.kind {
            WaitKind::Waker => Some(Late::Waker(wait.other_tid, wait.wake_ns)),
            WaitKind::Stack => Some(Late::Stack(sample.tid, wait.start_ns)),
            _ => None,
        }
    }
}

impl Waits {
    /// Whether a record that the end of a wait needs has come and is not stored yet.
    pub(super) fn lacks(&self, sample: &SampleEvent, wait: &WaitEvent) -> bool {
        let [waker, stack] = [Late::Waker(sample.tid, wait.wake_ns), Late::Stack(sample.tid, wait.start_ns)];
        !self.late.is_empty() && (self.late.contains(&waker) || self.late.contains(&stack))
    }
}
