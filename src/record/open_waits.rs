//! Waits that are not over, of a recording that is watched: what is known of them, and rows of the profile as if they ended
//! with the last look at them. The recording itself gets each wait when it ends.

use super::collect::Collector;
use crate::bpf::{OpenWaitEvent, SampleEvent, WaitEvent};
use crate::profile::{Outcome, Reason, Sample, StackId, Wait, Waker};
use rustc_hash::{FxHashMap, FxHashSet};

/// Most waits that are kept; the kernel side sends the stack of one only once.
const MOST: usize = 1 << 16;

/// What the stack of a thread that waits says.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenStack {
    pub stack: Option<StackId>,
    pub outcome: Outcome,
    pub reason: Reason,
}

/// What is known of a wait from its first look on.
#[derive(Debug)]
struct Known {
    what: OpenStack,
    cpu: u16,
    comm: Vec<u8>,
}

/// All waits that are not over.
#[derive(Debug, Default)]
pub(super) struct OpenWaits {
    /// By thread and start. Those of the last look, and those whose record has come late.
    known: FxHashMap<(u32, u64), Known>,
    /// Those of the last look.
    found: Vec<OpenWaitEvent>,
    looked_ns: u64,
}

impl OpenWaits {
    /// The record of a wait has come.
    pub(super) fn add(&mut self, sample: &SampleEvent, wait: &WaitEvent, what: OpenStack) {
        if self.known.len() < MOST {
            let known = Known { what, cpu: sample.cpu as u16, comm: sample.comm.clone() };
            self.known.insert((sample.tid, wait.start_ns), known);
        }
    }

    /// A wait is over.
    pub(super) fn remove(&mut self, tid: u32, start_ns: u64) {
        if self.known.remove(&(tid, start_ns)).is_some() {
            self.found.retain(|open| (open.tid, open.start_ns) != (tid, start_ns));
        }
    }

    /// Their stacks.
    pub(super) fn stacks(&mut self) -> impl Iterator<Item = &mut Option<StackId>> {
        self.known.values_mut().map(|known| &mut known.what.stack)
    }

    fn look(&mut self, found: Vec<OpenWaitEvent>, now_ns: u64) {
        let keys: FxHashSet<(u32, u64)> = found.iter().map(|open| (open.tid, open.start_ns)).collect();
        self.known.retain(|key, _| keys.contains(key));
        (self.found, self.looked_ns) = (found, now_ns);
    }
}

impl Collector {
    /// A look at the waits that are not over has found these, at `now_ns`.
    pub(super) fn waits_are_open(&mut self, found: Vec<OpenWaitEvent>, now_ns: u64) {
        if let Some(waits) = self.waits.as_mut() {
            waits.open.look(found, now_ns);
        }
    }

    /// The waits that are not over, as if they ended when they were last looked at.
    pub(super) fn open_waits(&mut self) -> Vec<Sample> {
        let Some(waits) = self.waits.as_mut() else { return Vec::new() };
        let open = std::mem::take(&mut waits.open);
        let mut samples = Vec::new();
        for one in &open.found {
            let Some(known) = open.known.get(&(one.tid, one.start_ns)) else { continue };
            let task = self.task_at(open.looked_ns, one.tgid, one.tid, &known.comm);
            let wake_ns = one.wake_ns.unwrap_or(open.looked_ns).clamp(one.start_ns, open.looked_ns);
            let mut push = |from_ns: u64, to_ns: u64, reason| {
                let duration_ns = to_ns - from_ns;
                if duration_ns > 0 {
                    samples.push(Sample {
                        time_ns: from_ns.saturating_sub(self.start_ns),
                        task,
                        stack: known.what.stack,
                        weight: duration_ns.saturating_mul(one.factor.into()),
                        cpu: known.cpu,
                        outcome: known.what.outcome,
                        wait: Some(Wait { duration_ns, reason, waker: Waker::default() }),
                        folded: None,
                    });
                }
            };
            push(one.start_ns, wake_ns, known.what.reason);
            push(wake_ns, open.looked_ns, Reason::NoCpu);
        }
        if let Some(waits) = self.waits.as_mut() {
            waits.open = open;
        }
        samples
    }
}
