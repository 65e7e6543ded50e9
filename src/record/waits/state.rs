//! What a recording knows of its waits.

use super::cut::Cuts;
use super::kernel_facts::KnownKernelStacks;
use super::living::{Living, WaitEnd};
use super::locks::KnownLocks;
use super::open::OpenWaits;
use super::unmatched::Pending;
use crate::bpf::{RescueEvent, SampleEvent, WaitEvent, WaitKind};
use crate::profile::{EventId, LabelSetId, Outcome, Profile, Reason, StackId, WakerKind, counter};
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes of records that are held back for others which are late, at most.
const MAX_HELD_BYTES: usize = 32 << 20;

/// State of the waits so far.
#[derive(Debug)]
pub(crate) struct Waits {
    pub(super) event: EventId,
    /// Only waits in futexes become rows: the time without a CPU after them is none.
    pub(crate) futexes_only: bool,
    /// Locks that threads waited for.
    pub(crate) locks: KnownLocks,
    /// Facts that the kernel's part of the stacks tells.
    pub(super) kernel_stacks: KnownKernelStacks,
    /// Stacks of those who ended a wait: by the thread that was woken, and when.
    pub(super) wakers: Pending<WakerStack>,
    /// Stacks of waits that are not over: by thread and start.
    pub(super) early: Pending<EarlyStack>,
    /// Records of wakers and stacks that have come and are not stored yet, for want of a table or of a copy.
    pub(super) late: FxHashSet<Late>,
    /// Ends of waits to which those belong, with the copies of their stacks.
    held: Vec<(SampleEvent, Option<RescueEvent>)>,
    held_bytes: usize,
    /// Waits that are not over and can be looked at.
    pub(super) open: OpenWaits,
    /// Threads that the last look has found, of a recording that is watched.
    pub(super) living: Option<Vec<Living>>,
    /// The last end of a wait of each thread, by thread id, since these were taken; of a recording that is watched.
    pub(super) ends: FxHashMap<u32, WaitEnd>,
    /// What earlier windows have of waits and threads.
    pub(crate) cuts: Cuts,
}

/// Facts of the thread or interrupt that ended a wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct WakerStack {
    pub(super) stack: Option<StackId>,
    pub(super) kind: WakerKind,
    /// A timer, of an interrupt whose functions are known.
    pub(super) is_timer: Option<bool>,
}

/// Facts of a wait that is not over.
#[derive(Debug, Clone, Copy)]
pub(super) struct EarlyStack {
    pub(super) stack: Option<StackId>,
    pub(super) outcome: Outcome,
    /// Reason by the kernel functions in the stack.
    pub(super) reason: Option<Reason>,
    pub(super) labels: Option<LabelSetId>,
}

/// Facts of a wait that its stack and its thread's memory tell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitPart {
    pub(crate) stack: Option<StackId>,
    /// Outcome of the walk of the stack.
    pub(crate) outcome: Outcome,
    pub(crate) labels: Option<LabelSetId>,
}

/// Key by which the end of a wait finds a record that came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Late {
    /// The thread that was woken, and when.
    Waker(u32, u64),
    /// The thread, and when its wait began.
    Stack(u32, u64),
}

impl Late {
    /// Returns the key of a record that is needed by a later one.
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
    /// Returns the state of waits that become rows of `event`.
    pub(crate) fn new(event: EventId, futexes_only: bool) -> Self {
        Waits {
            event,
            futexes_only,
            locks: KnownLocks::default(),
            kernel_stacks: KnownKernelStacks::default(),
            wakers: Pending::default(),
            early: Pending::default(),
            late: FxHashSet::default(),
            held: Vec::new(),
            held_bytes: 0,
            open: OpenWaits::default(),
            living: None,
            ends: FxHashMap::default(),
            cuts: Cuts::default(),
        }
    }

    /// A record will be stored later than those that come after it.
    pub(crate) fn note_late(&mut self, sample: &SampleEvent) {
        self.late.extend(Late::of(sample));
    }

    /// No record that was late will come any more.
    pub(crate) fn expect_nothing(&mut self) {
        self.late.clear();
    }

    /// Holds back the end of a wait whose waker or stack is late. Returns it if there is nothing to wait for.
    pub(crate) fn hold(
        &mut self,
        sample: SampleEvent,
        rescue: Option<RescueEvent>,
        profile: &mut Profile,
    ) -> Option<(SampleEvent, Option<RescueEvent>)> {
        let Some(wait) = sample.wait.as_ref() else { return Some((sample, rescue)) };
        let is_end = matches!(wait.kind, WaitKind::Ended | WaitKind::Open);
        if !is_end || !self.lacks(&sample, wait) {
            return Some((sample, rescue));
        }
        let copied = rescue.as_ref().map_or(0, |rescue| rescue.stack.len());
        let bytes = size_of::<RescueEvent>() + (sample.user.len() + sample.kernel.len()) * 8 + copied;
        if self.held_bytes + bytes > MAX_HELD_BYTES {
            profile.count(counter::WAITS_UNMATCHED, 1);
            return Some((sample, rescue));
        }
        self.held_bytes += bytes;
        self.held.push((sample, rescue));
        None
    }

    /// The ends of waits that were held back, to be tried again.
    pub(crate) fn take_held(&mut self) -> Vec<(SampleEvent, Option<RescueEvent>)> {
        self.held_bytes = 0;
        std::mem::take(&mut self.held)
    }

    /// Whether a record that the end of a wait needs has come and is not stored yet.
    fn lacks(&self, sample: &SampleEvent, wait: &WaitEvent) -> bool {
        let [waker, stack] = [Late::Waker(sample.tid, wait.wake_ns), Late::Stack(sample.tid, wait.start_ns)];
        !self.late.is_empty() && (self.late.contains(&waker) || self.late.contains(&stack))
    }

    /// Has the stacks and sets of labels that wait for their records be those that `renumber` makes of them.
    pub(crate) fn renumber(
        &mut self,
        mut renumber: impl FnMut(&mut Option<StackId>, &mut Option<LabelSetId>),
    ) {
        self.wakers.values_mut().for_each(|waker| renumber(&mut waker.stack, &mut None));
        self.early.values_mut().for_each(|early| renumber(&mut early.stack, &mut early.labels));
        self.open.rows().for_each(|open| renumber(&mut open.stack, &mut open.labels));
    }

    /// A wait that is not over, whose stack is known.
    #[cfg(test)]
    pub(crate) fn remember_early(&mut self, tid: u32, start_ns: u64, stack: StackId) {
        let early = EarlyStack { stack: Some(stack), outcome: Outcome::Complete, reason: None, labels: None };
        self.early.insert(tid, start_ns, early);
    }
}
